#include "scheduler/families/random_scheduler.h"

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/families/looped.h"
#include "scheduler/families/matmul.h"
#include "scheduler/families/multi_wave.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/program/shared_layout.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/pipeline.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {
namespace {

// Wide rows with several kept values have few legal draws: random_scheduler_test finds one for
// every seed of its tightest case.
constexpr int kMostDraws = 1000;

class Draw {
 public:
  Draw(const SegmentFacts& facts, const DeviceLimits& limits, uint64_t seed)
      : facts_(facts), limits_(limits), bits_(seed) {
    for (const ValueId value : facts.fusion.value_ids()) {
      const bool holds_elements =
          facts.is_full(value) || (facts.is_tile(value) && facts.is_read(value));
      if (holds_elements && facts.level[value] < facts.last_stage) keepable_.push_back(value);
    }
  }

  /// 0 ... count - 1. Not std::uniform_int_distribution, whose results differ between libraries;
  /// the bias of the remainder does not matter here.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(bits_() % static_cast<uint64_t>(std::max<int64_t>(count, 1)));
  }

  Schedule schedule(std::string_view family) {
    Schedule out{.family = std::string(family), .parameters = parameters_of_family(family)};
    if (auto* const own = std::get_if<MatmulParameters>(&out.parameters)) {
      draw_tile(out, *own);
      return out;
    }
    out.threads_per_row = power_of_two(limits_.threads_per_block);
    out.rows_per_block = rows_per_block(out.threads_per_row);
    out.row_access = one_of({RowAccess::kAligned, RowAccess::kUnaligned, RowAccess::kScalar});
    out.read_priority = one_of({ReadPriority::kNormal, ReadPriority::kEvictFirst,
                                ReadPriority::kEvictLast, ReadPriority::kLastUse});
    constexpr int64_t kWidest = 16;
    out.vector_width = out.row_access == RowAccess::kScalar ? 1 : power_of_two(kWidest);
    constexpr int64_t kMostUnroll = 16;
    out.unroll = 1 + below(below(2) == 0 ? 4 : kMostUnroll);
    const int64_t most_blocks =
        std::min(limits_.blocks_per_sm,
                 limits_.threads_per_sm / std::max<int64_t>(out.threads_per_block(), 1));
    out.min_blocks_per_sm = 1 + below(most_blocks);
    const bool has_rows = facts_.has_reduction() || facts_.has_outer();
    if (has_rows) set_cluster_size(out, cluster_size());
    if (auto* const own = std::get_if<WarpSpecialisedParameters>(&out.parameters)) {
      specialise(out, *own);
      finish(out);
      return out;
    }
    out.kept = kept();
    auto* const looped = std::get_if<LoopedParameters>(&out.parameters);
    if (looped != nullptr && facts_.has_outer()) make_two_pass(out, *looped);
    // A column schedule may need no partial results.
    const bool is_column = std::holds_alternative<ColumnParameters>(out.parameters);
    if (facts_.has_outer() && (!is_column || below(2) == 0)) {
      out.persistent_blocks = persistent_blocks(out);
      out.dependent_launch = dependent_launch();
    }
    if (auto* const own = std::get_if<MultiWaveParameters>(&out.parameters)) {
      // If nothing accumulates over rows, blocks may still walk over all of them.
      if (!facts_.has_outer() && below(8) == 0) out.persistent_blocks = persistent_blocks(out);
      draw_accumulators(own->accumulators);
    }
    draw_prefetch_rows(out);
    finish(out);
    return out;
  }

 private:
  static constexpr int64_t kMostPersistentBlocks = 300;  ///< In units of clusters.

  /// Only of a schedule whose family has clusters.
  static void set_cluster_size(Schedule& out, int64_t size) {
    std::visit(
        [&](auto& own) {
          if constexpr (requires { own.cluster_size; }) own.cluster_size = size;
        },
        out.parameters);
  }

  int64_t persistent_blocks(const Schedule& schedule) {
    return (1 + below(kMostPersistentBlocks)) * schedule.cluster_size();
  }

  /// A third of the schedules that leave partial results finish them by the last block, if their
  /// family can.
  void finish(Schedule& out) {
    const bool writes_partials = facts_.has_outer() && out.persistent_blocks > 0;
    if (!writes_partials || out.rows_per_tile() > 0 || below(3) != 0) return;
    // The interpreter's state of what each block knows of earlier ones grows with their number.
    // Hence few clusters, of which each strip of columns has its own.
    constexpr int64_t kMostWithLastBlock = 16;
    constexpr int64_t kMostRuns = 128;
    const int64_t run = std::holds_alternative<ColumnParameters>(out.parameters)
                            ? out.threads_per_row * out.vector_width
                            : std::max<int64_t>(facts_.space.columns, 1);
    if ((facts_.space.columns + run - 1) / run > kMostRuns) return;
    out.persistent_blocks =
        std::min(out.persistent_blocks, kMostWithLastBlock * out.cluster_size());
    out.finish = Finish::kLastBlock;
    out.dependent_launch = DependentLaunch::kNone;
  }

  /// Tiles of few rows are drawn as often as tiles of any number of rows.
  void make_two_pass(Schedule& out, LoopedParameters& own) {
    constexpr int64_t kFew = 4;
    const int64_t most = std::max<int64_t>(facts_.space.rows, 1);
    own.rows_per_tile = 1 + below(below(2) == 0 ? std::min(kFew, most) : most);
    out.rows_per_block = 1;
    out.kept.clear();
    if (out.row_access == RowAccess::kUnaligned) out.row_access = RowAccess::kAligned;
  }

  /// Most of the schedules that load rows into registers one after the other prefetch the next row.
  void draw_prefetch_rows(Schedule& out) {
    std::visit(
        [&](auto& own) {
          if constexpr (requires { own.prefetch_rows; }) {
            if (out.persistent_blocks == 0 || below(4) == 0) return;
            own.prefetch_rows = 1;
            if (prefetched_inputs(facts_, out).empty()) own.prefetch_rows = 0;
          }
        },
        out.parameters);
  }

  /// A third of the schedules that accumulate columns do so in shared memory.
  void draw_accumulators(Residency& out) {
    if (accumulates_columns(facts_) && below(3) == 0) out = Residency::kShared;
  }

  /// Of warp groups as often as of warps where the device multiplies by either.
  void draw_tile(Schedule& out, MatmulParameters& own) {
    out.rows_per_block = 1;
    out.unroll = 1;
    out.min_blocks_per_sm = 1 + below(2);
    // Lanes have pairs of columns of rows that are reduced, and their warps have all of them.
    out.vector_width = facts_.has_reduction() ? 2 : power_of_two(2);
    out.row_access = out.vector_width == 1 ? RowAccess::kScalar : RowAccess::kAligned;
    out.read_priority = one_of({ReadPriority::kNormal, ReadPriority::kEvictFirst});
    own.pipeline_stages = 2 + below(4);
    if (!facts_.has_reduction() && below(3) == 0) {
      draw_slices(out, own);
    } else if (limits_.has_wgmma && below(2) == 0) {
      draw_tile_of_groups(out, own);
    } else {
      draw_tile_of_warps(out, own);
    }
  }

  /// Tiles of 16 to 256 elements along each axis, of one to eight warps.
  void draw_tile_of_warps(Schedule& out, MatmulParameters& own) {
    constexpr int64_t kLeastTile = 16;
    constexpr int64_t kMostTile = 256;
    constexpr int64_t kMostWarps = 8;
    own.tile_rows = kLeastTile * power_of_two(kMostTile / kLeastTile);
    own.tile_columns = kLeastTile * power_of_two(kMostTile / kLeastTile);
    own.tile_depth = kLeastTile * power_of_two(kMostTile / kLeastTile / 2);
    own.row_warps = power_of_two(std::min(kMostWarps, own.tile_rows / kLeastTile));
    const int64_t column_warps =
        facts_.has_reduction()
            ? 1
            : power_of_two(std::min(kMostWarps / own.row_warps, own.tile_columns / kLeastTile));
    out.threads_per_row = kWarp * own.row_warps * column_warps;
  }

  /// Tiles of up to 32 rows and 64 columns, whose lines warps take in turns.
  void draw_slices(Schedule& out, MatmulParameters& own) {
    constexpr int64_t kLeastTile = 8;
    constexpr int64_t kMostWarps = 16;
    own.slice_warps = power_of_two(kMostWarps);
    own.tile_rows = kLeastTile * power_of_two(4);
    own.tile_columns = kLeastTile * power_of_two(kLeastTile);
    own.tile_depth = program::kLineBytes / facts_.space.contraction->rows.element_bytes;
    out.threads_per_row = kWarp * own.slice_warps;
  }

  /// A producer, and one or two warp groups that share the rows or the columns of a tile, or have
  /// one each.
  void draw_tile_of_groups(Schedule& out, MatmulParameters& own) {
    constexpr int64_t kGroupRows = 64;
    constexpr int64_t kMostRows = 256;
    constexpr int64_t kWarpsOfGroup = kWarpGroup / kWarp;
    const int64_t row_groups = power_of_two(2);
    if (row_groups == 1) out.rows_per_block = power_of_two(2);
    const int64_t groups = row_groups * out.rows_per_block;
    const int64_t column_groups = groups > 1 || facts_.has_reduction() ? 1 : power_of_two(2);
    own.row_warps = kWarpsOfGroup * row_groups;
    own.tile_rows = kGroupRows * row_groups * power_of_two(kMostRows / kGroupRows / row_groups);
    own.tile_columns = one_of<int64_t>({32, 64, 96, 128, 192, 256});
    constexpr int64_t kLeastDepth = 16;
    own.tile_depth = kLeastDepth * power_of_two(8);
    out.threads_per_row = kWarpGroup * row_groups * column_groups;
    // Warps of an epilogue take the rows of tiles that warp groups share.
    if (column_groups == 1 && out.rows_per_block == 1 && below(2) == 0)
      own.epilogue_warps = 1 + below(kMostEpilogueWarps);
    const GroupRegisters producer = producer_registers(facts_, own);
    own.consumer_registers = raised_register_cap(limits_, out.threads_per_block(), producer.threads,
                                                 producer.kept, out.min_blocks_per_sm);
    if (facts_.has_reduction()) own.cluster_size = cluster_size();
    if (own.cluster_size > 1 && own.epilogue_warps > 0)
      own.exchange = one_of({ExchangeKind::kCluster, ExchangeKind::kMessages});
    const int64_t tiles =
        divided_up(facts_.space.rows, own.tile_rows) *
        (own.cluster_size > 1 ? 1 : divided_up(facts_.space.columns, own.tile_columns));
    // Blocks that wait for each other run at the same time.
    const int64_t most = own.exchange == ExchangeKind::kMessages
                             ? std::max<int64_t>(limits_.sm_count / own.cluster_size, 1)
                             : kMostPersistentBlocks;
    out.persistent_blocks = own.cluster_size * (1 + below(std::min(tiles, most)));
  }

  /// Mostly legal fields: a draw of all fields at random would hardly ever give a legal pipeline.
  void specialise(Schedule& out, WarpSpecialisedParameters& own) {
    constexpr int64_t kMostGroups = 4;
    constexpr int64_t kMostStagesPerGroup = 4;
    // The groups together consist of whole warp groups of four warps.
    out.threads_per_row = int64_t{32} << below(5);
    // Blocks of a cluster each copy whole, aligned 16 bytes; this holds more often in small
    // clusters.
    if (own.cluster_size > 1 && below(2) == 0) own.cluster_size = 2;
    const int64_t least = std::max<int64_t>(kWarpGroup / out.threads_per_row, 1);
    out.rows_per_block = least * (1 + below(kMostGroups / least));
    out.row_access = RowAccess::kAligned;
    out.unroll = 1;
    out.min_blocks_per_sm = 1 + below(2);
    own.rows_per_iteration = one_of({int64_t{1}, int64_t{1}, int64_t{2}, int64_t{4}});
    own.pipeline_stages =
        out.rows_per_block * own.rows_per_iteration * (1 + below(kMostStagesPerGroup));
    out.persistent_blocks = persistent_blocks(out);
    out.dependent_launch = dependent_launch();
    out.kept = kept();
    for (KeptValue& kept : out.kept) {
      if (kept.residency == Residency::kShared && facts_.space.dependence[kept.value].rows)
        kept.residency = Residency::kRegister;
    }
    if (own.rows_per_iteration == 1) draw_accumulators(own.accumulators);
    // All limits that leave the producer its own registers are legal; few of them make room for
    // many.
    constexpr int64_t kRegisterStep = 8;
    if (limits_.has_setmaxnreg && below(2) == 0)
      own.consumer_registers = kProducerRegisters + kRegisterStep * (1 + below(16));
  }

  /// At most half of the draws have clusters, if the device has any.
  int64_t cluster_size() { return below(2) == 0 ? 1 : power_of_two(limits_.most_cluster_blocks); }

  DependentLaunch dependent_launch() {
    return limits_.has_dependent_launch
               ? one_of({DependentLaunch::kNone, DependentLaunch::kTrigger})
               : DependentLaunch::kNone;
  }

  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }

  /// 1, 2, 4, ... most.
  int64_t power_of_two(int64_t most) {
    const auto powers = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(most, 1)));
    return int64_t{1} << below(static_cast<int64_t>(powers));
  }

  /// Whole warps. If a row fills warps, one row per block is drawn as often as several.
  int64_t rows_per_block(int64_t threads_per_row) {
    const int64_t step = std::max<int64_t>(kWarp / threads_per_row, 1);
    if (below(2) == 0) return step;
    return step * (1 + below(limits_.threads_per_block / (threads_per_row * step)));
  }

  std::vector<KeptValue> kept() {
    // The cut is the choice that matters most; the others must be correct as well.
    const bool follows_cut = below(4) != 0;
    const std::vector<ValueId>& pool = follows_cut ? facts_.kept : keepable_;
    const bool mixed = below(2) == 0;
    const Residency common = one_of({Residency::kRegister, Residency::kShared});
    std::vector<KeptValue> out;
    for (const ValueId value : pool) {
      if ((mixed || !follows_cut) && below(4) == 0) continue;
      const Residency any = one_of({Residency::kRegister, Residency::kShared, Residency::kReload});
      const Residency residency = mixed ? any : common;
      if (residency != Residency::kReload || facts_.is_read(value))
        out.push_back({value, residency});
    }
    const std::vector<bool> needed = needed_later(facts_, out);
    std::vector<KeptValue> pruned;
    for (size_t i = 0; i < out.size(); ++i) {
      if (needed[i] || out[i].residency == Residency::kReload) pruned.push_back(out[i]);
    }
    return pruned;
  }

  const SegmentFacts& facts_;
  const DeviceLimits& limits_;
  std::mt19937_64 bits_;
  std::vector<ValueId> keepable_;
};

}  // namespace

std::optional<ProposedSchedule> random_schedule(const SegmentFacts& facts,
                                                const DeviceLimits& limits,
                                                const FamilySet& families, uint64_t seed,
                                                std::string_view family) {
  std::vector<const Family*> choices;
  for (const Family& candidate : families) {
    // All draws of a family that rejects the segment would be lost.
    if (refusal_of(candidate, facts)) continue;
    if (family.empty() || candidate.name == family) choices.push_back(&candidate);
  }
  if (choices.empty()) return std::nullopt;
  Draw draw(facts, limits, seed);
  for (int i = 0; i < kMostDraws; ++i) {
    const Family& chosen =
        *choices[static_cast<size_t>(draw.below(static_cast<int64_t>(choices.size())))];
    Schedule schedule = draw.schedule(chosen.name);
    if (!verify_schedule(facts, schedule, limits, families).empty()) continue;
    const auto estimate = chosen.estimate(facts, schedule, limits);
    const Prediction predicted = chosen.predict(facts, schedule, *estimate, limits);
    return ProposedSchedule{std::move(schedule), *estimate, predicted};
  }
  return std::nullopt;
}

}  // namespace sinter
