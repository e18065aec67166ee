#include "scheduler/families/matmul/matmul_offers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/budgets/grid.h"
#include "scheduler/cost/read_priority.h"
#include "scheduler/families/matmul.h"
#include "scheduler/families/matmul/contraction_facts.h"
#include "scheduler/families/matmul/matmul_program.h"
#include "scheduler/families/matmul/matmul_resources.h"
#include "scheduler/families/matmul/matmul_rules.h"
#include "scheduler/families/matmul/matmul_time.h"
#include "scheduler/program/program_walks.h"
#include "scheduler/program/shared_layout.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter::matmul {
namespace {

/// Least stages where other warps split the right operand: one is filled, one is split, one
/// multiplied and one released at the same time.
constexpr int64_t kLeastSplitStages = 4;

/// Rows and columns of a block's tile, and of the grid of its warps.
struct BlockTile {
  int64_t tile_rows, tile_columns, row_warps, column_warps;
};
/// The tiles that are offered: parts of a warp from 64 x 64 down to 16 x 16, in blocks of two to
/// eight warps.
constexpr std::array kBlockTiles = {
    BlockTile{128, 256, 2, 4}, BlockTile{256, 128, 4, 2}, BlockTile{128, 128, 2, 4},
    BlockTile{128, 128, 2, 2}, BlockTile{128, 64, 2, 2},  BlockTile{64, 128, 2, 2},
    BlockTile{64, 128, 1, 4},  BlockTile{64, 64, 2, 2},   BlockTile{32, 128, 1, 4},
    BlockTile{128, 32, 4, 1},  BlockTile{32, 64, 1, 4},   BlockTile{64, 32, 4, 1},
    BlockTile{32, 32, 2, 2},   BlockTile{16, 128, 1, 4},  BlockTile{16, 64, 1, 4},
    BlockTile{16, 32, 1, 2},
};
/// Those of rows that are reduced, whose columns one warp has.
constexpr std::array kRowTiles = {
    BlockTile{128, 256, 8, 1}, BlockTile{64, 256, 4, 1}, BlockTile{128, 128, 8, 1},
    BlockTile{64, 128, 4, 1},  BlockTile{128, 64, 8, 1}, BlockTile{64, 64, 4, 1},
    BlockTile{64, 32, 4, 1},   BlockTile{32, 256, 2, 1},
};

/// Those of one warp group, of which a block works on two at once.
constexpr std::array kTilesInTurns = {
    BlockTile{128, 128, 4, 1},
    BlockTile{64, 256, 4, 1},
    BlockTile{64, 128, 4, 1},
};
/// Those of warp groups, one to two of 64 or 128 rows.
constexpr std::array kGroupTiles = {
    BlockTile{128, 256, 8, 1}, BlockTile{256, 128, 8, 1}, BlockTile{128, 192, 8, 1},
    BlockTile{128, 128, 8, 1}, BlockTile{128, 64, 8, 1},  BlockTile{64, 256, 4, 2},
    BlockTile{64, 128, 4, 2},  BlockTile{64, 64, 4, 2},
};
/// The same of one warp group, which has all columns of a row that is reduced. Small products get
/// more clusters from them: (512, 512, 512) with a softmax takes 7.9 us by tiles of 64 x 64, with
/// an RMS norm 8.5, and 9.0 by those of 128 x 64 (H200).
constexpr std::array kRowGroupTiles = {BlockTile{64, 128, 4, 1}, BlockTile{64, 64, 4, 1}};
/// Warps of an epilogue that has the producer's warp group to itself: warp groups that multiply
/// keep the registers of their widest instructions.
constexpr int64_t kFewEpilogueWarps = kWarpGroup / kWarp - 1;
/// Most stages that they are offered. With more, no SM has more bytes on their way than memory
/// needs.
constexpr int64_t kMostGroupStages = 8;

/// Builds the schedules that a segment is offered.
class Proposer {
 public:
  Proposer(const SegmentFacts& facts, const DeviceLimits& limits)
      : facts_(facts), limits_(limits), stages_(stages_with(facts)), stage_(all_of(stages_)) {
    const ContractedSpace& contraction = *facts.space.contraction;
    for (size_t i = contraction.batch_dimensions; i < facts.space.row_dimensions; ++i)
      rows_ *= facts.space.dimensions[i].size;
  }

  Proposal run() {
    const std::span<const BlockTile> shapes =
        facts_.has_reduction() ? std::span<const BlockTile>(kRowTiles) : kBlockTiles;
    for (const BlockTile& shape : shapes) {
      if (is_wasteful(shape)) continue;
      // Of schedules that are predicted alike the first is chosen: that with fewer steps.
      for (const int64_t depth_bytes : {512, 256, 128, 64}) {
        // Deeper tiles bring in more bytes at once, which few rows need.
        if (depth_bytes > 128 && shape.tile_rows > 16) continue;
        offer(schedule_of(shape, depth_bytes), {3, 4, 6});
      }
    }
    if (limits_.has_wgmma) offer_groups();
    offer_slices();
    if (proposal_.candidates.empty() && nearest_) proposal_.rejections.push_back(*nearest_);
    return std::move(proposal_);
  }

 private:
  /// A tile of twice the rows or columns computes as much for nothing.
  [[nodiscard]] bool is_wasteful(const BlockTile& shape) const {
    return (shape.tile_rows > 16 && shape.tile_rows >= 2 * rows_) ||
           (shape.tile_columns > 32 && shape.tile_columns >= 2 * facts_.space.columns);
  }

  /// A schedule with the fewest stages.
  [[nodiscard]] Schedule schedule_of(const BlockTile& shape, int64_t depth_bytes) const {
    const int64_t operand_bytes = facts_.space.contraction->rows.element_bytes;
    return {.family = std::string(kName),
            .parameters = MatmulParameters{.tile_rows = shape.tile_rows,
                                           .tile_columns = shape.tile_columns,
                                           .tile_depth = depth_bytes / operand_bytes,
                                           .row_warps = shape.row_warps,
                                           .pipeline_stages = 2},
            .threads_per_row = kWarp * shape.row_warps * shape.column_warps,
            .rows_per_block = 1,
            .vector_width = facts_.space.columns % 2 == 0 ? 2 : 1,
            .unroll = 1,
            .min_blocks_per_sm = 1,
            .dependent_launch = partials_dependent_launch(facts_, limits_)};
  }

  /// Schedules of a producer and warp groups, with as many stages as fit or one less.
  void offer_groups() {
    for (const BlockTile& shape : kGroupTiles) {
      if (shape.tile_rows > 64 && is_wasteful(shape)) continue;
      for (const int64_t cluster : cluster_sizes(shape)) {
        const bool fits = offer_group(shape, cluster, 1, 0);
        if (splits_stages(facts_)) {
          // Half the depth only where stages do not fit otherwise: RMS norm behind 1024^3 takes
          // 43.6 us by tiles of 128 x 128 x 32, and 50.3 by those of depth 16 (H200).
          if (!fits) offer_group(shape, cluster, 1, 0, program::kLineBytes / 2);
          continue;
        }
        if (!facts_.has_reduction()) {
          offer_epilogues(shape);
          continue;
        }
        offer_row_epilogues(shape, cluster);
      }
    }
    // One warp group that splits its operand leaves the tensor cores idle meanwhile: (1024, 1024,
    // 1024) takes 33.2 us by tiles of 64 x 128, and 30.0 by two warp groups' of 128 x 64 (H200).
    if (splits_stages(facts_)) return;
    if (facts_.has_reduction()) {
      for (const BlockTile& shape : kRowGroupTiles) {
        for (const int64_t cluster : cluster_sizes(shape)) offer_group(shape, cluster, 1, 0);
      }
    }
    for (const BlockTile& shape : kTilesInTurns) {
      if (shape.tile_rows > 64 && is_wasteful(shape)) continue;
      for (const int64_t cluster : cluster_sizes(shape)) offer_group(shape, cluster, 2, 0);
    }
  }

  /// Warps beside the producer store what the warp groups have multiplied. A block with one tile
  /// has nothing to multiply meanwhile. Tiles of 256 x 128 take longer than those of 128 x 256, and
  /// smaller ones leave shared memory no time (docs/experiments/epilogue_warps.md).
  void offer_epilogues(const BlockTile& shape) {
    constexpr int64_t kRows = 128;
    if (tile_count(shape, 1) <= limits_.sm_count || shape.column_warps > 1 ||
        shape.tile_rows != kRows || shape.tile_columns < kRows ||
        !is_power_of_two(shape.tile_columns))
      return;
    for (const int64_t warps : epilogues_of(shape)) offer_group(shape, 1, 1, warps);
  }

  /// The same where they reduce its rows. With more blocks than a row needs, their exchange takes
  /// longer than few warps or teams save: RMS norms behind (131072, 512, 1024) take 628 us in
  /// teams of eight, 259 in teams of four (H200).
  void offer_row_epilogues(const BlockTile& shape, int64_t cluster) {
    offer_group(shape, cluster, 1, kMostEpilogueWarps);
    // Where one block reads all of its rows from memory, shorter stages leave more on its way.
    if (cluster == 1) offer_group(shape, cluster, 1, kMostEpilogueWarps, program::kLineBytes / 2);
    if (cluster > cluster_sizes(shape).front()) return;
    // Clusters leave SMs idle that teams take.
    const bool has_teams =
        cluster > 1 && team_capacity(cluster) > cluster_capacity(limits_, cluster, 1);
    for (const int64_t warps : epilogues_of(shape)) {
      if (warps != kMostEpilogueWarps) offer_group(shape, cluster, 1, warps);
      if (has_teams)
        offer_group(shape, cluster, 1, warps, program::kLineBytes, ExchangeKind::kMessages);
    }
  }

  /// Numbers of warps of an epilogue. Few leave the registers of the widest instruction.
  [[nodiscard]] static std::vector<int64_t> epilogues_of(const BlockTile& shape) {
    constexpr int64_t kWidest = 256;
    if (shape.tile_columns < kWidest) return {kMostEpilogueWarps};
    return {kMostEpilogueWarps, kFewEpilogueWarps};
  }

  /// Blocks of teams that run at the same time, one on each SM.
  [[nodiscard]] int64_t team_capacity(int64_t team) const { return limits_.sm_count / team * team; }

  /// Tiles of all blocks, where `cluster` of them share the columns.
  [[nodiscard]] int64_t tile_count(const BlockTile& shape, int64_t cluster) const {
    const int64_t batches = rows_ > 0 ? facts_.space.rows / rows_ : 0;
    return batches * divided_up(rows_, shape.tile_rows) *
           (cluster > 1 ? cluster : divided_up(facts_.space.columns, shape.tile_columns));
  }

  /// What one tile reads need not stay in L2.
  [[nodiscard]] ReadPriority priority_of_one_tile() const {
    return read_priority(facts_, limits_) == ReadPriority::kEvictFirst ? ReadPriority::kEvictFirst
                                                                       : ReadPriority::kNormal;
  }

  /// Few rows, whose weights take all of the time. Enough loads of a warp are on their way at once,
  /// and blocks on each SM that load while others merge.
  void offer_slices() {
    if (rows_ > program::kFragmentRows || facts_.has_reduction()) return;
    constexpr int64_t kThreadsOfSm = 512;
    for (const auto& [columns, stages] : {std::pair{8, 8}, {8, 6}, {8, 4}, {16, 3}}) {
      for (const int64_t warps : {4, 8}) {
        Schedule schedule = schedule_of({.tile_rows = program::kFragmentRows,
                                         .tile_columns = columns,
                                         .row_warps = 1,
                                         .column_warps = warps},
                                        program::kLineBytes);
        std::get<MatmulParameters>(schedule.parameters).slice_warps = warps;
        schedule.min_blocks_per_sm = kThreadsOfSm / (warps * kWarp);
        schedule.read_priority = priority_of_one_tile();
        offer(std::move(schedule), {stages});
      }
    }
  }

  /// Blocks that share the columns: one, or as many as rows that are reduced take, or twice as
  /// many.
  [[nodiscard]] std::vector<int64_t> cluster_sizes(const BlockTile& shape) const {
    if (!facts_.has_reduction() || facts_.space.columns <= shape.tile_columns) return {1};
    const auto needed = static_cast<uint64_t>(divided_up(facts_.space.columns, shape.tile_columns));
    const auto least = static_cast<int64_t>(std::bit_ceil(needed));
    return {least, 2 * least};
  }

  /// False: too few stages fit, or no block does.
  bool offer_group(const BlockTile& shape, int64_t cluster, int64_t at_once, int64_t epilogue_warps,
                   int64_t depth_bytes = program::kLineBytes,
                   ExchangeKind exchange = ExchangeKind::kCluster) {
    Schedule schedule = schedule_of(shape, depth_bytes);
    auto& own = std::get<MatmulParameters>(schedule.parameters);
    own.cluster_size = cluster;
    own.exchange = exchange;
    own.epilogue_warps = epilogue_warps;
    schedule.rows_per_block = at_once;
    const GroupRegisters producer = producer_registers(facts_, own);
    own.consumer_registers =
        raised_register_cap(limits_, schedule.threads_per_block(), producer.threads, producer.kept,
                            schedule.min_blocks_per_sm);
    const bool in_team = exchange == ExchangeKind::kMessages;
    if (in_team) schedule.dependent_launch = DependentLaunch::kNone;
    schedule.persistent_blocks = cluster == 1 ? limits_.sm_count
                                 : in_team    ? team_capacity(cluster)
                                              : cluster_capacity(limits_, cluster, 1);
    if (schedule.persistent_blocks == 0 || !is_legal(schedule)) return false;
    schedule.persistent_blocks = std::min(schedule.persistent_blocks, tile_count(shape, cluster));
    if (rows_ <= own.tile_rows || has_all_columns(facts_, schedule))
      schedule.read_priority = priority_of_one_tile();
    program::Program program = program_of(facts_, schedule, stages_);
    // Two stages and what is in shared memory beside them, then as many more as fit.
    const int64_t two_stages = program::shared_bytes(program);
    set_stages(program, 3);
    const int64_t stage = program::shared_bytes(program) - two_stages;
    const int64_t left = limits_.shared_bytes_per_block - two_stages;
    if (left < 0) return false;
    const int64_t most = std::min(2 + left / stage, kMostGroupStages);
    if (splits_stages(facts_) && depth_bytes == program::kLineBytes && most < kLeastSplitStages)
      return false;
    std::vector<int64_t> depths;
    for (const int64_t stages : {most, most - 1}) {
      if (stages >= 2 && schedule.persistent_blocks > 0) depths.push_back(stages);
    }
    offer(std::move(schedule), std::move(program), depths);
    return true;
  }

  void offer(const Schedule& schedule, std::initializer_list<int64_t> depths) {
    if (is_legal(schedule))
      offer(schedule, program_of(facts_, schedule, stages_), std::span(depths));
  }

  /// Records why not. Holds for any number of stages that is offered.
  bool is_legal(const Schedule& schedule) {
    const auto rejection = check_schedule(facts_, schedule, limits_);
    if (rejection) nearest_ = with_tensor(*rejection, facts_, schedule);
    return !rejection;
  }

  /// Offers a legal schedule with each of these numbers of stages, in which alone the programs
  /// differ: one is built and checked for all of them.
  void offer(Schedule schedule, program::Program program, std::span<const int64_t> depths) {
    if (depths.empty()) return;
    if (auto rejection = program::check(program, kName)) {
      nearest_ = with_tensor(*rejection, facts_, schedule);
      return;
    }
    auto& own = std::get<MatmulParameters>(schedule.parameters);
    std::optional<ProgramWork> work;
    for (const int64_t stages : depths) {
      own.pipeline_stages = stages;
      set_stages(program, stages);
      auto estimate = estimate_program(facts_, schedule, program, stage_, limits_);
      if (!estimate) {
        nearest_ = estimate.error();
        continue;
      }
      if (estimate->registers > estimate->register_cap) continue;
      if (!work) work = work_of(facts_, program, own);
      const Prediction predicted =
          predict_program(facts_, schedule, program, *work, stage_, *estimate, limits_);
      proposal_.candidates.push_back({schedule, *estimate, predicted});
    }
  }

  const SegmentFacts& facts_;
  const DeviceLimits& limits_;
  const StageList stages_;
  const Stage stage_;
  int64_t rows_ = 1;  ///< Of one batch.
  Proposal proposal_;
  std::optional<Rejection> nearest_;
};

}  // namespace

Proposal offers(const SegmentFacts& facts, const DeviceLimits& limits) {
  return Proposer(facts, limits).run();
}

}  // namespace sinter::matmul
