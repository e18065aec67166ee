#include "scheduler/cost/row_estimate.h"

#include <algorithm>
#include <boost/container/flat_set.hpp>
#include <cmath>
#include <limits>
#include <ranges>
#include <set>

#include "fusion_ir/reduction_traits.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/cost/last_block_time.h"
#include "scheduler/cost/sectors.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/shared_memory.h"
#include "scheduler/schedule/two_pass.h"

namespace sinter {
namespace {

/// Warps per row up to which a barrier costs nothing per warp
/// (NonPersistentGrid::warps_doubling_ns).
constexpr int64_t kFewWarps = 4;

/// True for inputs that repeat along the innermost columns, like per-channel weights. Their
/// elements hit L1 from the first use in a row on.
bool repeats_along_columns(const SegmentFacts& facts, ValueId input) {
  return facts.space.find_input(input)->strides.back() == 0;
}

StageReads stage_reads(const SegmentFacts& facts, const StageList& list) {
  using Parts = boost::container::flat_set<std::pair<ValueId, int64_t>>;
  Parts seen;  // Tensors and the offset of their first element.
  StageReads out;
  const bool reads_once =
      std::ranges::none_of(list.stages | std::views::drop(1), [&](const Stage& stage) {
        return std::ranges::any_of(stage.loads,
                                   [&](ValueId value) { return facts.is_full(value); });
      });
  if (reads_once) return out;
  for (const Stage& stage : list.stages) {
    Parts now;
    now.reserve(stage.loads.size());
    double again = 0.0;
    double first = 0.0;
    double weights = 0.0;
    for (const ValueId value : stage.loads) {
      const double bytes = static_cast<double>(facts.space.columns) *
                           static_cast<double>(bytes_of(facts.fusion.values[value].type));
      if (!facts.is_full(value)) {
        if (!repeats_along_columns(facts, value)) weights += bytes;
        continue;
      }
      const TensorAccess& access = *facts.space.find_input(value);
      const std::pair part{access.tensor, access.offset};
      (seen.contains(part) ? again : first) += static_cast<double>(facts.space.rows) * bytes;
      now.insert(part);
    }
    seen.merge(std::move(now));
    out.again += again;
    if (again <= 0.0) continue;
    out.beside += first;
    out.weights += weights;
  }
  return out;
}

/// Miss rates of second reads of rows, with one row in flight in each row slot. First reads and
/// weights of the same stages evict rows from L1; on average half of them come before the second
/// read. The rows of an SM share their weights.
RereadMisses row_misses(const SegmentFacts& facts, const Schedule& schedule,
                        const StageReads& reads, const ResourceEstimate& estimate,
                        const DeviceLimits& limits) {
  if (reads.again <= 0.0) return {};
  const auto rows = static_cast<double>(facts.space.rows);
  const double rows_in_flight = std::min(
      rows,
      static_cast<double>(estimate.blocks_per_sm * schedule.rows_per_block * limits.sm_count));
  const double at_once = rows_in_flight / rows;
  const double sm_bytes =
      at_once * (reads.again + reads.beside / 2.0) / static_cast<double>(limits.sm_count) +
      reads.weights / 2.0;
  return reread_misses(sm_bytes, at_once * reads.again, estimate, limits);
}

/// True if the schedule keeps a full input with this residency whose elements have at most
/// `most_bytes` bytes.
bool keeps_rows(const SegmentFacts& facts, const Schedule& schedule, Residency residency,
                int64_t most_bytes = std::numeric_limits<int64_t>::max()) {
  return std::ranges::any_of(schedule.kept, [&](const KeptValue& kept) {
    return kept.residency == residency && facts.is_read(kept.value) && facts.is_full(kept.value) &&
           bytes_of(facts.fusion.values[kept.value].type) <= most_bytes;
  });
}

/// Instructions with which a thread merges a chunk's statistics into the row's: one step of the
/// exchange. Plain sums accumulate across chunks and need none.
double merge_instructions(const SegmentFacts& facts, const Stage& stage) {
  double instructions = 0.0;
  for (const OpId id : stage.reductions) {
    const OpKind& kind = facts.fusion.ops[id].kind;
    if (takes_two_passes(kind)) instructions += traits_of(kind).exchange_instructions;
  }
  return instructions;
}

/// Cost of combining a stage's results among the threads of a row.
struct Exchange {
  double instructions = 0.0;  ///< Per thread.
  double latency_ns = 0.0;
};

Exchange estimate_exchange(const SegmentFacts& facts, const Schedule& schedule, const Stage& stage,
                           size_t s, const CostConstants& constants, double warps_doubling_ns) {
  Exchange out;
  const RowConstants& row = constants.row;
  if (stage.reductions.empty() || schedule.threads_per_row == 1) return out;
  const bool syncs = syncs_between_passes(facts, schedule, stage, s);
  const auto log2 = [](int64_t n) { return std::log2(static_cast<double>(n)); };
  const int64_t warps = std::max<int64_t>(schedule.threads_per_row / kWarp, 1);
  const int64_t clustered = schedule.cluster_size() > 1 ? schedule.cluster_size() : 1;
  const double steps = log2(std::min(schedule.threads_per_row, kWarp)) + log2(warps * clustered);
  double latency = 1.0;  // The tuples are exchanged together, so the slowest counts.
  for (const OpId id : stage.reductions) {
    const OpKind& kind = facts.fusion.ops[id].kind;
    const bool twice = syncs && takes_two_passes(kind);
    const ReductionTraits& traits = traits_of(kind);
    out.instructions +=
        (twice ? traits.synchronised_instructions : traits.exchange_instructions) * steps;
    if (!twice) latency = std::max(latency, traits.exchange_latency);
  }
  const double rounds = syncs ? 2.0 : 1.0;
  if (schedule.threads_per_row > kWarp) out.instructions += rounds * row.exchange_instructions;
  const bool keeps = keeps_rows(facts, schedule, Residency::kRegister) ||
                     keeps_rows(facts, schedule, Residency::kShared);
  const double many = clustered == 1 && keeps ? std::max(0.0, log2(warps) - log2(kFewWarps)) : 0.0;
  const double one_ns = schedule.threads_per_row > kWarp
                            ? row.block_exchange_ns + many * warps_doubling_ns
                            : row.warp_exchange_ns;
  out.latency_ns =
      rounds * latency * one_ns + cluster_exchange_time(schedule.cluster_size(), constants);
  return out;
}

/// Nanoseconds that a stage waits for an input that is not streamed. Inputs that repeat along the
/// columns wait for the cache once and then hit L1. Measurement:
/// docs/experiments/constants_cost.md.
double weight_wait_ns(const SegmentFacts& facts, ValueId value, double chunks,
                      const RowConstants& row) {
  return repeats_along_columns(facts, value)
             ? row.cache_latency_ns + (chunks - 1.0) * row.l1_chunk_ns
             : chunks * row.cache_latency_ns;
}

}  // namespace

double split_sector_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.vector_width * facts.widest_tile_bytes <= kMostAccessBytes) return 0.0;
  // Share of the waste that counts. Measurement: docs/experiments/constants_cost.md.
  constexpr double kShare = 0.5;
  double bytes = 0.0;
  const auto count = [&](const TensorAccess& access) {
    const int64_t size = bytes_of(facts.fusion.values[access.tensor].type);
    if (schedule.vector_width * size <= kMostAccessBytes) return;
    bytes += static_cast<double>(facts.space.rows) * static_cast<double>(facts.space.columns) *
             static_cast<double>(size) * kShare;
  };
  for (const TensorAccess& access : facts.space.inputs) {
    if (facts.is_full(access.value)) count(access);
  }
  for (size_t i = 0; i < facts.space.outputs.size(); ++i) {
    if (facts.space.output_coverage[i].columns) count(facts.space.outputs[i]);
  }
  return bytes;
}

double narrow_copy_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  double bytes = 0.0;
  for (const KeptValue& kept : schedule.kept) {
    if (kept.residency != Residency::kShared || facts.space.find_input(kept.value) == nullptr ||
        !facts.is_full(kept.value))
      continue;
    const int64_t size = bytes_of(facts.fusion.values[kept.value].type);
    const bool is_whole = schedule.vector_width * size >= kMostAsyncBytes;
    if (is_whole || !copies_async(facts, schedule, kept.value)) continue;
    bytes += static_cast<double>(facts.space.rows) * static_cast<double>(facts.space.columns) *
             static_cast<double>(size);
  }
  return bytes;
}

double uneven_rows_time(const SegmentFacts& facts, const Schedule& schedule,
                        const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const int64_t last_rows = facts.space.rows % std::max<int64_t>(rows_at_once(schedule), 1);
  const double on_its_way = estimate.bytes_in_flight_per_sm *
                            static_cast<double>(schedule.cluster_size()) /
                            static_cast<double>(std::max<int64_t>(estimate.blocks_per_sm, 1));
  if (last_rows == 0 || on_its_way <= 0.0) return 0.0;
  const auto read = static_cast<double>(facts.bytes_read);
  const auto rows = static_cast<double>(facts.space.rows);
  const double rounds = read / rows * static_cast<double>(schedule.rows_per_block) / on_its_way;
  const double alone_us = rounds * constants.memory_wait_ns / 1000.0;
  const double streamed_us =
      read / rows * static_cast<double>(last_rows) / mixed_bandwidth(limits, read, 0.0);
  return std::max(0.0, alone_us - streamed_us);
}

double repeated_read_bytes(const SegmentFacts& facts, const DeviceLimits& limits) {
  const IterationSpace& space = facts.space;
  const double l2_share = static_cast<double>(limits.l2_bytes) / 2.0;  // As of reread_misses().
  double again = 0.0;
  for (const TensorAccess& access : space.inputs) {
    if (!facts.is_full(access.value)) continue;
    auto distinct = static_cast<double>(space.columns * access.element_bytes);
    double read = distinct;
    for (size_t i = space.row_dimensions; i-- > 0;) {
      const auto size = static_cast<double>(space.dimensions[i].size);
      if (access.strides[i] != 0) {
        distinct *= size;
        read *= size;
      } else {
        read += (size - 1.0) * std::max(0.0, distinct - l2_share);
      }
    }
    again += read - distinct;
  }
  return again;
}

RereadMisses reread_misses(double sm_bytes, double all_bytes, const ResourceEstimate& estimate,
                           const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const auto shared_bytes = static_cast<double>(
      estimate.blocks_per_sm * (estimate.shared_bytes + limits.shared_bytes_reserved));
  const double l1_bytes =
      std::max(0.0, static_cast<double>(unified_l1_bytes(limits)) - shared_bytes);
  const double l1_overflow = 1.0 - constants.l1_row_share * l1_bytes / sm_bytes;
  const double l2_share = static_cast<double>(limits.l2_bytes) / 2.0;  // Half holds written lines.
  return {.l1 = std::max(0.0, l1_overflow), .l2 = std::max(0.0, 1.0 - l2_share / all_bytes)};
}

namespace {

/// element_issue_slots(). `kinds` gives the access kinds of loaded values and of outputs.
template <class Kinds>
double issue_slots(const SegmentFacts& facts, const Stage& stage, const Schedule& schedule,
                   const Kinds& kinds, const CostConstants& constants) {
  const IterationSpace& space = facts.space;
  const auto splits = static_cast<double>(
      space.dimensions.size() - std::min(space.dimensions.size(), space.row_dimensions + 1));
  double instructions = 0.0;  // Instructions of the accesses of one vector.
  const auto count = [&](const TensorAccess& access, bool is_vector) {
    const double place = splits == 0.0 || has_one_stride(space, access)
                             ? 0.0
                             : splits * constants.column_split_instructions;
    instructions += (is_vector ? 1.0 : static_cast<double>(schedule.vector_width)) *
                    (constants.instructions_per_access + place);
  };
  for (const ValueId value : stage.loads)
    count(*space.find_input(value), kinds.of_input(facts, value) != AccessKind::kElement);
  for (const size_t output : stage.outputs)
    count(space.outputs[output], kinds.of_output(output) == AccessKind::kVector);
  // A thread's accumulators are at fixed offsets from one address, so each access is one
  // instruction.
  const AccumulatorTraffic accumulators = accumulator_traffic(facts, stage, schedule);
  const double per_vector = instructions + static_cast<double>(accumulators.vector_accesses);
  return stage.issue_slots + per_vector / static_cast<double>(schedule.vector_width);
}

}  // namespace

double element_issue_slots(const SegmentFacts& facts, const Stage& stage, const Schedule& schedule,
                           const CostConstants& constants) {
  // One stage may access few of the segment's tensors.
  struct OfSchedule {
    const SegmentFacts& facts;
    const Schedule& schedule;
    [[nodiscard]] AccessKind of_input(const SegmentFacts&, ValueId value) const {
      return access_kind(facts, *facts.space.find_input(value), schedule);
    }
    [[nodiscard]] AccessKind of_output(size_t output) const {
      return access_kind(facts, facts.space.outputs[output], schedule);
    }
  };
  return issue_slots(facts, stage, schedule, OfSchedule{facts, schedule}, constants);
}

StageCosts::StageCosts(const SegmentFacts& facts, const Schedule& schedule,
                       const StageList& stage_list, const CostConstants& constants)
    : list(&stage_list), kinds(facts, schedule), reads(stage_reads(facts, stage_list)) {
  std::set<ValueId> read_before;  // Tensors.
  for (const Stage& stage : stage_list.stages) {
    Loads& loads = stages.emplace_back();
    loads.issue_slots = issue_slots(facts, stage, schedule, kinds, constants);
    for (const ValueId value : stage.loads) {
      if (!facts.is_full(value) || repeats_along_columns(facts, value)) continue;
      loads.streams.push_back(value);
      const bool is_new = read_before.insert(facts.space.find_input(value)->tensor).second;
      loads.from_memory |= is_new;
    }
  }
}

double text_instructions(const SegmentFacts& facts, const Schedule& schedule, const StageList& list,
                         const CostConstants& constants) {
  std::vector<double> slots;
  for (const Stage& stage : list.stages)
    slots.push_back(element_issue_slots(facts, stage, schedule, constants));
  return text_instructions(facts, schedule, list, slots, constants);
}

double text_instructions(const SegmentFacts& facts, const Schedule& schedule, const StageList& list,
                         std::span<const double> slots, const CostConstants& constants) {
  int64_t vectors = 0;
  for (const ChunkRun& run : chunk_runs(facts, schedule, std::max<int64_t>(schedule.unroll, 1)))
    vectors += unrolls_batches(facts, schedule) ? run.end - run.begin : run.batches;
  const auto width = static_cast<double>(schedule.vector_width);
  const double elements =
      static_cast<double>(vectors) * width + static_cast<double>(peeled_count(facts, schedule));
  double of_element = 0.0;
  for (size_t s = 0; s < list.stages.size(); ++s) {
    const Stage& stage = list.stages[s];
    const double once = slots[s];
    of_element += once;
    if (stage.special_functions == 0.0 || schedule.vector_width == 1) continue;
    const auto logarithms = std::ranges::count_if(
        stage.computed, [&](ValueId value) { return is_fast_path(facts.fusion, value); });
    if (logarithms == 0) continue;
    const double again = stage.outputs.empty() ? constants.careful_logarithm_instructions
                                               : constants.asked_logarithm_instructions;
    of_element += once + static_cast<double>(logarithms) * again;
  }
  return constants.text_beside_elements + of_element * elements;
}

WorkEstimate estimate_row_work(const SegmentFacts& facts, const Schedule& schedule,
                               const StageList& list, const ResourceEstimate& estimate,
                               const DeviceLimits& limits) {
  return estimate_row_work(facts, schedule, StageCosts(facts, schedule, list, limits.cost),
                           estimate, limits);
}

WorkEstimate estimate_row_work(const SegmentFacts& facts, const Schedule& schedule,
                               const StageCosts& costs, const ResourceEstimate& estimate,
                               const DeviceLimits& limits) {
  const StageList& list = *costs.list;
  const CostConstants& constants = limits.cost;
  const auto rows = static_cast<double>(facts.space.rows);
  const bool passes = is_non_persistent(facts, schedule);
  const RowConstants& row = constants.row;
  const double warps_doubling_ns = passes ? constants.non_persistent.warps_doubling_ns : 0.0;
  WorkEstimate work;
  work.bytes_read = static_cast<double>(facts.bytes_read);
  work.bytes_written = static_cast<double>(facts.bytes_written);

  const bool copies = keeps_rows(facts, schedule, Residency::kShared);
  work.waits_for_copies = copies && !keeps_rows(facts, schedule, Residency::kRegister);
  // Async copies to shared memory take no eviction priority.
  work.read_priority = copies ? ReadPriority::kNormal : schedule.read_priority;
  const StageReads& reads = costs.reads;
  const double again = reads.again;
  const RereadMisses misses = row_misses(facts, schedule, reads, estimate, limits);
  work.narrow_copy_bytes = narrow_copy_bytes(facts, schedule);
  const StridedWaste strided = strided_waste(facts, schedule, estimate, limits);
  work.bytes_read += strided.read_bytes;
  work.bytes_written += strided.written_bytes;
  work.shared_bytes += strided.l1_bytes;
  work.l2_bytes = work.bytes_read + work.bytes_written + again * misses.l1 +
                  split_sector_bytes(facts, schedule) + strided.l2_bytes;
  work.bytes_read += again * misses.l1 * misses.l2 + repeated_read_bytes(facts, limits);
  work.reads_rows_again = again > 0.0;
  work.missed_again = misses.l1;
  work.rows_at_once =
      std::max(1.0, static_cast<double>(limits.threads_per_sm) /
                        static_cast<double>(schedule.threads_per_row * schedule.cluster_size()));

  // Threads past the end of the row still issue instructions.
  const auto batches = static_cast<double>(batch_count(facts, schedule));
  const auto gone_through =
      static_cast<double>(elements_per_thread(facts, schedule) * schedule.threads_per_row);
  const double padded = rows * gone_through * static_cast<double>(schedule.cluster_size());
  work.block_latency_ns = row.block_start_ns;
  const bool resident =
      std::ranges::any_of(schedule.kept, [](const KeptValue& kept) { return is_kept(kept); });
  const bool in_shared = std::ranges::any_of(
      schedule.kept, [](const KeptValue& kept) { return kept.residency == Residency::kShared; });
  work.walks_rows = !resident;
  constexpr int64_t kHalfWord = 2;
  work.loads_late = batch_count(facts, schedule) * schedule.vector_width > kLateLoadElements &&
                    keeps_rows(facts, schedule, Residency::kRegister, kHalfWord);
  // A value that is computed before it is stored to shared memory passes through registers chunk by
  // chunk.
  const bool arrives_whole =
      resident && std::ranges::none_of(schedule.kept, [&](const KeptValue& kept) {
        return kept.residency == Residency::kShared &&
               facts.space.find_input(kept.value) == nullptr;
      });
  const std::vector<ValueId> ahead = prefetched_inputs(facts, schedule);
  double arrival_ns = row.block_start_ns;  // Arrival of a prefetched row.
  const bool unrolls = unrolls_batches(facts, schedule);
  std::vector<double> slots;  // Per element, by stage.
  for (size_t s = 0; s < list.stages.size(); ++s) {
    const Stage& stage = list.stages[s];
    // The constants of persistent grids were fitted with each product counted as an instruction of
    // its own.
    const double fused = passes ? static_cast<double>(stage.fused_products) : 0.0;
    const StageCosts::Loads& loads = costs.stages[s];
    slots.push_back(loads.issue_slots);
    const double per_element = slots.back() - fused;
    const AccumulatorTraffic accumulators = accumulator_traffic(facts, stage, schedule);
    work.shared_bytes += padded * static_cast<double>(accumulators.column_bytes);
    work.issue_slots += padded * per_element;
    work.element_slots += rows * static_cast<double>(facts.space.columns) * per_element;
    work.special += padded * stage.special_functions;
    for (const KeptValue& kept : schedule.kept) {
      if (!in_shared || kept.residency != Residency::kShared) continue;
      work.shared_bytes +=
          padded * static_cast<double>(bytes_of(facts.fusion.values[kept.value].type));
      // One vector load per batch, at a fixed offset from the thread's other batches.
      work.issue_slots += padded / static_cast<double>(schedule.vector_width);
    }

    // Waits: a kept row arrives once and as a whole; a looped row arrives chunk by chunk in every
    // stage.
    const auto chunks = static_cast<double>(chunk_count(facts, schedule));
    const bool reads_full = !loads.streams.empty();
    // An input that is not kept is loaded chunk by chunk while the stage walks the row.
    const bool by_chunks =
        !arrives_whole || (!unrolls && std::ranges::any_of(loads.streams, [&](ValueId value) {
          return !is_kept(schedule, value);
        }));
    const bool is_prefetched = std::ranges::all_of(loads.streams, [&](ValueId value) {
      return std::ranges::find(ahead, value) != ahead.end();
    });
    const double missing = loads.from_memory ? 1.0 : misses.l1;
    if (reads_full)
      (is_prefetched ? arrival_ns : work.block_latency_ns) += row.first_load_ns * missing;
    if (reads_full && by_chunks) {
      work.block_latency_ns +=
          missing * (chunks - 1.0) * row.chunk_ns + (1.0 - missing) * chunks * row.l1_chunk_ns;
    }
    if (!reads_full) {
      // If batches are unrolled, the loads of all weights are in flight at once. The constants of
      // persistent grids were fitted with one wait for each.
      if (passes && unrolls) {
        if (!stage.loads.empty()) work.block_latency_ns += row.cache_latency_ns;
      } else {
        for (const ValueId value : stage.loads)
          work.block_latency_ns += weight_wait_ns(facts, value, chunks, row);
      }
    }
    if (in_shared) work.block_latency_ns += chunks * row.shared_chunk_ns;
    if (accumulators.vector_accesses > 0) work.block_latency_ns += chunks * row.shared_chunk_ns;
    const Exchange exchange =
        estimate_exchange(facts, schedule, stage, s, constants, warps_doubling_ns);
    const double merged =
        keeps_in_registers(schedule) ? 0.0 : (chunks - 1.0) * merge_instructions(facts, stage);
    work.issue_slots += rows * static_cast<double>(schedule.threads_per_row) *
                        static_cast<double>(schedule.cluster_size()) *
                        (exchange.instructions + merged);
    work.block_latency_ns += exchange.latency_ns;
  }
  if (schedule.persistent_blocks > 0)
    work.rounds = std::max(1.0, rows / static_cast<double>(rows_at_once(schedule)));
  if (schedule.persistent_blocks > 0 && !passes)
    work.uneven_us = uneven_rows_time(facts, schedule, estimate, limits);
  if (!ahead.empty()) {
    // The next row arrives while one row is processed: the longer of the two times counts, not
    // their sum. The latency of the first row is exposed.
    const double rest_ns = work.block_latency_ns - row.block_start_ns;
    work.block_latency_ns =
        (arrival_ns + rest_ns + (work.rounds - 1.0) * std::max(arrival_ns, rest_ns)) / work.rounds;
  }
  work.start_us = start_time(schedule, constants);
  if (schedule.cluster_size() > 1 && passes) {
    const auto gathers = arrives_whole ? 1.0 : static_cast<double>(chunk_count(facts, schedule));
    work.block_latency_ns += gathers * constants.non_persistent.cluster_gather_ns *
                             std::log2(static_cast<double>(schedule.cluster_size()));
  }
  work.has_barriers = facts.has_reduction() || !facts.has_outer();
  if (facts.has_outer()) {
    // Row slots combine their accumulators batch by batch, in a tree.
    const auto levels = std::ceil(std::log2(static_cast<double>(schedule.rows_per_block)));
    const bool in_place = schedule.accumulators() == Residency::kShared;
    work.end_ns = in_place ? levels * (row.block_exchange_ns + batches * row.shared_chunk_ns)
                           : levels * batches * row.block_exchange_ns;
  }
  // A register that spills in a loop over chunks spills in every chunk.
  if (!resident)
    work.rounds *= static_cast<double>(std::max<int64_t>(chunk_count(facts, schedule), 1));
  const int64_t prologues = schedule.persistent_blocks > 0
                                ? (facts.space.rows + schedule.rows_per_block - 1) /
                                      schedule.rows_per_block * schedule.cluster_size()
                                : estimate.blocks;
  work.issue_slots += static_cast<double>(prologues * estimate.threads) * row.prologue_instructions;
  if (passes && estimate.blocks > 0) {
    // Threads of rows beyond the last one execute none of these instructions.
    const int64_t threads = existing_rows(facts, schedule) * schedule.threads_per_row;
    work.thread_instructions =
        work.issue_slots / static_cast<double>(estimate.blocks * std::max<int64_t>(threads, 1));
  }
  if (passes) {
    const double text_bytes =
        text_instructions(facts, schedule, list, slots, constants) * constants.instruction_bytes;
    work.fetched_text_bytes = static_cast<double>(estimate.blocks) *
                              std::max(0.0, text_bytes - constants.kept_text_bytes);
  }
  if (facts.has_outer()) add_finish(facts, schedule, limits, work);
  return work;
}

Prediction predict_rows(const SegmentFacts& facts, const Schedule& schedule,
                        const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const StageList list = distribute(facts, schedule.kept);
  return predict(estimate_row_work(facts, schedule, list, estimate, limits), estimate, limits);
}

std::vector<ValueId> late_columns(const SegmentFacts& facts, const StageList& list) {
  std::vector<ValueId> out;
  for (size_t s = 1; s < list.stages.size(); ++s) {
    for (const ValueId value : list.stages[s].loads) {
      if (!facts.is_full(value) && std::ranges::find(out, value) == out.end()) out.push_back(value);
    }
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace sinter
