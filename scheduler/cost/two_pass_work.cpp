#include "scheduler/cost/two_pass_work.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/cost/last_block_time.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/cost/sectors.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/shared_memory.h"
#include "scheduler/schedule/two_pass.h"

namespace sinter {
namespace {

constexpr double kWordBytes = 4.0;

/// Bytes of a row that stages read.
struct RowBytes {
  double applied = 0.0;  ///< By the last stage.
  double again = 0.0;    ///< Part of `applied` that an earlier stage has read.
  double between = 0.0;  ///< Second reads among the earlier stages.
};

RowBytes row_bytes(const SegmentFacts& facts, const StageList& list) {
  RowBytes out;
  std::set<ValueId> seen;
  for (const Stage& stage : list.stages) {
    const bool applies = &stage == &list.stages.back();
    for (const ValueId value : stage.loads) {
      const bool is_new = seen.insert(facts.space.find_input(value)->tensor).second;
      if (!facts.is_full(value)) continue;
      const auto bytes = static_cast<double>(facts.space.columns) *
                         static_cast<double>(bytes_of(facts.fusion.values[value].type));
      if (applies) out.applied += bytes;
      if (!is_new) (applies ? out.again : out.between) += bytes;
    }
  }
  return out;
}

/// Bytes of one row of partial results.
double partial_row_bytes(const SegmentFacts& facts) {
  return kWordBytes * static_cast<double>(partial_elements(facts));
}

/// Blocks, or clusters, that are resident at once.
double rows_read_at_once(const Schedule& schedule, const ResourceEstimate& estimate,
                         const DeviceLimits& limits) {
  const int64_t at_once =
      schedule.cluster_size() == 1
          ? estimate.blocks_per_sm * limits.sm_count
          : cluster_capacity(limits, schedule.cluster_size(), estimate.blocks_per_sm);
  const int64_t clusters = std::min(at_once, estimate.blocks) / schedule.cluster_size();
  return static_cast<double>(clusters);
}

bool reads_full(const SegmentFacts& facts, const Stage& stage) {
  return std::ranges::any_of(stage.loads, [&](ValueId value) { return facts.is_full(value); });
}

/// The estimate of one schedule's work.
class TwoPassWork {
 public:
  TwoPassWork(const SegmentFacts& facts, const Schedule& schedule, const StageList& list,
              const ResourceEstimate& estimate, const DeviceLimits& limits)
      : facts_(facts),
        schedule_(schedule),
        list_(list),
        estimate_(estimate),
        limits_(limits),
        constants_(limits.cost),
        rows_(static_cast<double>(facts.space.rows)),
        tiles_(static_cast<double>(row_tile_count(facts, schedule))),
        batches_(static_cast<double>(batch_count(facts, schedule))),
        chunks_(static_cast<double>(chunk_count(facts, schedule))) {}

  WorkEstimate run() {
    count_bytes();
    count_instructions();
    for (const Stage& stage : list_.stages) {
      if (&stage == &list_.stages.back()) {
        wait_for_tile(stage);
      } else {
        wait_for_reduction(stage);
      }
    }
    // The load of a row starts when the row before it is reduced.
    const double starts = facts_.has_reduction() ? 1.0 : 1.0 / own_rows();
    work_.block_latency_ns += constants_.row.block_start_ns * starts;
    work_.has_barriers = facts_.has_reduction();
    work_.uneven_us = uneven_rows_time(facts_, schedule_, estimate_, limits_);
    work_.rounds = std::max(1.0, own_rows());
    work_.start_us = start_time(schedule_, constants_);
    return work_;
  }

 private:
  [[nodiscard]] double own_rows() const {
    return static_cast<double>(std::max<int64_t>(rows_of_block(facts_, schedule_), 1));
  }
  /// Rows of all tiles but the last, which may have fewer.
  [[nodiscard]] double tile_rows() const {
    return std::min(static_cast<double>(schedule_.rows_per_tile()), own_rows());
  }

  void count_bytes() {
    const RowBytes bytes = row_bytes(facts_, list_);
    const double in_flight = rows_read_at_once(schedule_, estimate_, limits_);
    const double busy = std::clamp(static_cast<double>(estimate_.blocks), 1.0,
                                   static_cast<double>(limits_.sm_count));
    // Bytes that pass through the caches between two uses of a line.
    const double waiting = tiles_ > 1.0 ? partial_row_bytes(facts_) : 0.0;
    const double tile_bytes = in_flight * (tile_rows() * bytes.applied + waiting);
    const double one_row = in_flight * bytes.between;
    if (tile_bytes > 0.0)
      tile_misses_ = reread_misses(tile_bytes / busy, tile_bytes, estimate_, limits_);
    if (one_row > 0.0) row_misses_ = reread_misses(one_row / busy, one_row, estimate_, limits_);

    work_.partial_bytes = static_cast<double>(partial_rows(schedule_)) * partial_row_bytes(facts_);
    // Accumulators that are parked in L2 until the next tile, each way.
    const double parked = (tiles_ - 1.0) * work_.partial_bytes;
    const double again = rows_ * bytes.again * tile_misses_.l1;
    const double between = rows_ * bytes.between * row_misses_.l1;
    work_.read_priority = schedule_.read_priority;
    work_.bytes_read = static_cast<double>(facts_.bytes_read);
    work_.bytes_written = static_cast<double>(facts_.bytes_written) + work_.partial_bytes;
    const StridedWaste strided = strided_waste(facts_, schedule_, estimate_, limits_);
    work_.bytes_read += strided.read_bytes;
    work_.bytes_written += strided.written_bytes;
    work_.shared_bytes += strided.l1_bytes;
    work_.l2_bytes = work_.bytes_read + work_.bytes_written + again + between + 2.0 * parked +
                     split_sector_bytes(facts_, schedule_) + strided.l2_bytes;
    work_.bytes_read +=
        again * tile_misses_.l2 + between * row_misses_.l2 + parked * tile_misses_.l2;
    work_.bytes_written += parked * tile_misses_.l2;
  }

  void count_instructions() {
    // Threads past the end of the row still issue instructions.
    const auto threads = static_cast<double>(estimate_.threads * schedule_.cluster_size());
    const double vectors = rows_ * batches_ * threads;
    const double elements = vectors * static_cast<double>(schedule_.vector_width);
    for (const Stage& stage : list_.stages) {
      work_.issue_slots += elements * element_issue_slots(facts_, stage, schedule_, constants_);
      work_.special += elements * stage.special_functions;
    }
    work_.issue_slots += rows_ * threads * constants_.row.prologue_instructions;
    // The second pass reads row values from shared memory for every chunk.
    if (const Stage& last = list_.stages.back(); !last.outer.empty() || !last.outputs.empty()) {
      work_.issue_slots +=
          rows_ * chunks_ * threads *
          (static_cast<double>(list_.tile_row_values.size()) + constants_.instructions_per_access);
    }
    // Accumulators are stored once per tile and loaded again in all tiles but the first.
    constexpr double kWordsPerAccess = 4.0;
    const auto blocks = static_cast<double>(partial_rows(schedule_));
    const auto words = static_cast<double>(partial_elements(facts_));
    work_.issue_slots += (2.0 * tiles_ - 1.0) * blocks * words / kWordsPerAccess *
                         constants_.instructions_per_access;
  }

  /// Time in which a block issues its own instructions for a row, at its share of the SM's issue
  /// slots.
  [[nodiscard]] double own_issue_ns(const Stage& stage) const {
    const double sharing =
        std::clamp(static_cast<double>(estimate_.blocks) / static_cast<double>(limits_.sm_count),
                   1.0, static_cast<double>(std::max<int64_t>(estimate_.blocks_per_sm, 1)));
    const double elements = batches_ * static_cast<double>(estimate_.threads) *
                            static_cast<double>(schedule_.vector_width);
    const double clocks = elements * element_issue_slots(facts_, stage, schedule_, constants_) /
                          static_cast<double>(kWarp) / limits_.issue_per_clock * sharing;
    return clocks / limits_.clock_mhz * 1000.0;
  }

  /// Latency of one row in the first pass: it arrives chunk by chunk, and its threads synchronise.
  void wait_for_reduction(const Stage& stage) {
    double& latency = work_.block_latency_ns;
    const bool is_first = &stage == &list_.stages.front();
    const double missing = is_first ? 1.0 : row_misses_.l1;
    if (reads_full(facts_, stage)) {
      latency +=
          missing * (constants_.row.first_load_ns + (chunks_ - 1.0) * constants_.row.chunk_ns) +
          (1.0 - missing) * chunks_ * constants_.row.l1_chunk_ns;
    } else {
      latency +=
          chunks_ * constants_.row.cache_latency_ns * static_cast<double>(stage.loads.size());
    }
    latency += schedule_.threads_per_row > kWarp ? constants_.row.block_exchange_ns
                                                 : constants_.row.warp_exchange_ns;
    latency += cluster_exchange_time(schedule_.cluster_size(), constants_);
  }

  /// Latency of one row in the second pass: the row waits for each of its chunks. Inputs that all
  /// rows share are loaded once per tile.
  void wait_for_tile(const Stage& stage) {
    if (stage.outer.empty() && stage.outputs.empty()) return;
    double& latency = work_.free_latency_ns;
    double arrival = 0.0;
    if (reads_full(facts_, stage)) {
      const double missing = row_bytes(facts_, list_).again > 0.0 ? tile_misses_.l1 : 1.0;
      arrival = chunks_ *
                (missing * constants_.row.chunk_ns + (1.0 - missing) * constants_.row.l1_chunk_ns);
    }
    // A prefetched row arrives while the instructions of the row before it are issued.
    latency += schedule_.prefetch_rows() > 0
                   ? arrival / tile_rows() + std::max(0.0, arrival - own_issue_ns(stage))
                   : arrival;
    const auto common = static_cast<double>(
        std::ranges::count_if(stage.loads, [&](ValueId value) { return !facts_.is_full(value); }));
    latency += chunks_ * constants_.row.cache_latency_ns * common / tile_rows();
    latency += chunks_ * constants_.row.chunk_ns * (tiles_ - 1.0) / own_rows();
    if (!facts_.has_reduction()) return;
    work_.block_latency_ns += constants_.row.block_exchange_ns / tile_rows();
    // In their first tile all blocks reach this point at about the same time.
    work_.end_ns += constants_.memory_wait_ns;
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  const StageList& list_;
  const ResourceEstimate& estimate_;
  const DeviceLimits& limits_;
  const CostConstants& constants_;
  const double rows_;
  const double tiles_;
  const double batches_;
  const double chunks_;
  RereadMisses tile_misses_;  ///< Between the two passes over a tile.
  RereadMisses row_misses_;   ///< Between two reductions of one row.
  WorkEstimate work_;
};

}  // namespace

std::vector<int64_t> tile_lengths(const SegmentFacts& facts, const Schedule& schedule,
                                  const StageList& list, const DeviceLimits& limits,
                                  int64_t blocks_per_sm) {
  const int64_t rows = std::max<int64_t>(rows_of_block(facts, schedule), 1);
  const auto evenly_at_most = [&](int64_t most) {
    return divided_up(rows, divided_up(rows, std::clamp<int64_t>(most, 1, rows)));
  };
  Schedule single = schedule;
  std::get<LoopedParameters>(single.parameters).rows_per_tile = 1;
  // With one row, each row value takes a whole allocation unit, which covers the padding of more
  // rows.
  const int64_t room = std::min(limits.shared_bytes_per_block,
                                limits.shared_bytes_per_sm / std::max<int64_t>(blocks_per_sm, 1) -
                                    limits.shared_bytes_reserved) -
                       row_shared_bytes(facts, single, list);
  int64_t value_bytes = 0;
  for (const ValueId value : list.tile_row_values)
    value_bytes += bytes_of(travel_type(facts.fusion.values[value].type));
  const int64_t longest = evenly_at_most(value_bytes == 0 ? rows : room / value_bytes);
  const RowBytes bytes = row_bytes(facts, list);
  if (bytes.again == 0.0) return {longest};

  const auto in_flight = static_cast<double>(partial_rows(schedule));
  const double l2_share = static_cast<double>(limits.l2_bytes) / 2.0;
  const double held = (l2_share / in_flight - partial_row_bytes(facts)) / bytes.applied;
  const int64_t shorter =
      evenly_at_most(static_cast<int64_t>(std::clamp(held, 1.0, static_cast<double>(longest))));
  if (shorter == longest) return {longest};
  return {shorter, longest};
}

WorkEstimate estimate_two_pass_work(const SegmentFacts& facts, const Schedule& schedule,
                                    const StageList& list, const ResourceEstimate& estimate,
                                    const DeviceLimits& limits) {
  return TwoPassWork(facts, schedule, list, estimate, limits).run();
}

}  // namespace sinter
