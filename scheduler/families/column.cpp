#include "scheduler/families/column.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/budgets/grid.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/cost/last_block_time.h"
#include "scheduler/cost/read_priority.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/cost/sectors.h"
#include "scheduler/families/row_rules.h"
#include "scheduler/program/program_walks.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {
namespace {

constexpr std::string_view kName = kColumn;
constexpr int64_t kFewestSlots = 4;  // Rows of threads.
constexpr int64_t kMostSlots = 128;
constexpr int64_t kMostUnroll = 8;
constexpr int64_t kMostSplits = 1024;    // More rows of partial results cost more than they save.
constexpr int64_t kMostBlocksPerSm = 4;  // Of blocks that share the rows of a strip.
/// Registers for the coordinates, the current row and the test for the last row; from SASS.
constexpr int64_t kBaseRegisters = 22;
/// The same with several rows in flight, and the registers per row in addition to its elements, for
/// its address. Source: ptxas takes 46 and 70 registers for sums of bf16 with 4 and 8 rows in
/// flight.
constexpr double kBaseOfRows = 14.0;
constexpr double kAddressOfRow = 1.9;
/// Registers in addition to the tuples that a cluster's first block receives, whose loads ptxas
/// issues all at once. Source: sums of bf16 from eight blocks take 64 registers.
constexpr int64_t kBaseOfReceiver = 8;

Rejection rejected(std::string rule, int64_t value, int64_t limit, std::string unit,
                   std::string remedy) {
  return {.subject = std::string(kName),
          .rule = std::move(rule),
          .value = static_cast<double>(value),
          .limit = static_cast<double>(limit),
          .unit = std::move(unit),
          .remedy = std::move(remedy)};
}

std::optional<Rejection> check_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                        const DeviceLimits& limits) {
  if (auto rejection = check_vector_width(schedule)) return rejection;
  if (auto rejection = refuse_unaligned_access(schedule)) return rejection;
  if (auto rejection = check_cluster_size(schedule, limits)) return rejection;
  if (schedule.threads_per_row < 1 || schedule.rows_per_block < 1 ||
      !std::has_single_bit(static_cast<uint64_t>(schedule.rows_per_block)) ||
      schedule.rows_per_block > limits.threads_per_block ||
      schedule.threads_per_row > limits.threads_per_block ||
      schedule.threads_per_block() > limits.threads_per_block ||
      schedule.threads_per_block() % kWarp != 0) {
    return rejected("a block is whole warps, with a power of two of row slots",
                    schedule.threads_per_row * std::min<int64_t>(schedule.rows_per_block, 1 << 20),
                    limits.threads_per_block, "threads", "use 32 threads x 8 rows, say");
  }
  if (facts.space.columns % schedule.vector_width != 0) {
    return rejected("columns are no multiple of the vector", facts.space.columns,
                    schedule.vector_width, "columns", "use a narrower vector");
  }
  if (schedule.unroll < 1 || schedule.unroll > kMostUnroll) {
    return rejected("too many rows are loaded at once, or none", schedule.unroll, kMostUnroll,
                    "rows", "use a smaller unroll");
  }
  if (schedule.persistent_blocks > 0) {
    if (auto rejection = check_outer_reductions(facts, kName)) return rejection;
  }
  if (schedule.persistent_blocks < 0 || schedule.persistent_blocks > kMostSplits) {
    return rejected("the rows are distributed over too many blocks, or fewer than none",
                    schedule.persistent_blocks, kMostSplits, "blocks", "use 0 for one block");
  }
  if (!schedule.kept.empty()) {
    return rejected("column schedules keep nothing", static_cast<int64_t>(schedule.kept.size()), 0,
                    "persistent values", "use no keep lines");
  }
  const int64_t most_blocks =
      std::min(limits.blocks_per_sm, limits.threads_per_sm / schedule.threads_per_block());
  if (schedule.min_blocks_per_sm < 1 || schedule.min_blocks_per_sm > most_blocks) {
    return rejected("more blocks per multiprocessor are promised than its threads allow, or none",
                    schedule.min_blocks_per_sm, most_blocks, "blocks",
                    "promise fewer blocks, or make them smaller");
  }
  return std::nullopt;
}

int64_t loaded_words(const SegmentFacts& facts, const Schedule& schedule, const Stage& stage) {
  int64_t words = 0;
  for (const ValueId value : stage.loads)
    words += register_words(schedule.vector_width, bytes_of(facts.fusion.values[value].type));
  return words * schedule.unroll;
}

int64_t needed_registers(const SegmentFacts& facts, const Schedule& schedule, const Stage& stage) {
  const int64_t accumulators = accumulator_words(facts, schedule.vector_width);
  const int64_t held = accumulators + loaded_words(facts, schedule, stage) + stage.live_values;
  const double rows = kBaseOfRows + kAddressOfRow * static_cast<double>(schedule.unroll);
  const int64_t receives = kBaseOfReceiver + (schedule.cluster_size() - 1) * accumulators;
  return std::max({kBaseRegisters + held, static_cast<int64_t>(rows) + held, receives});
}

/// The step of a schedule, without its axes.
program::Fold fold_of(const Schedule& schedule) {
  return {.rows = {},
          .columns = {},
          .width = schedule.vector_width,
          .across = schedule.threads_per_row,
          .slots = schedule.rows_per_block,
          .ahead = schedule.unroll,
          .cluster = schedule.cluster_size(),
          .shares = partial_rows(schedule),
          .by_last_block = schedule.finish == Finish::kLastBlock};
}

/// `stage` is the only stage of a segment that the family takes.
tl::expected<ResourceEstimate, Rejection> estimate_stage(const SegmentFacts& facts,
                                                         const Schedule& schedule,
                                                         const Stage& stage,
                                                         const DeviceLimits& limits) {
  if (auto rejection = check_schedule(facts, schedule, limits))
    return tl::make_unexpected(with_tensor(std::move(*rejection), facts, schedule));
  const program::Fold fold = fold_of(schedule);
  ResourceEstimate estimate;
  estimate.threads = schedule.threads_per_block();
  estimate.registers =
      std::max(needed_registers(facts, schedule, stage), last_block_registers(facts, schedule));
  estimate.shared_bytes = slot_exchange_bytes(facts, schedule) +
                          block_exchange_bytes(facts, schedule) +
                          last_block_shared_bytes(facts, schedule);
  estimate.blocks = column_strips(facts, schedule) * program::blocks_of_columns(fold);
  complete(estimate, limits, schedule.min_blocks_per_sm, schedule.cluster_size());
  const int64_t rows_at_once = fold.slots * fold.ahead;
  estimate.bytes_in_flight_per_sm =
      static_cast<double>(loaded_words(facts, schedule, stage) * kRegisterBytes * estimate.threads *
                          estimate.blocks_per_sm) *
      std::min(1.0, static_cast<double>(facts.space.rows) / static_cast<double>(rows_at_once));
  if (auto rejection = over_budget(facts, schedule, estimate, limits))
    return tl::make_unexpected(*rejection);
  return estimate;
}

Prediction predict_stage(const SegmentFacts& facts, const Schedule& schedule, const Stage& stage,
                         const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const auto rows = static_cast<double>(facts.space.rows);
  const auto columns = static_cast<double>(facts.space.columns);
  WorkEstimate work;
  work.bytes_read = static_cast<double>(facts.bytes_read);
  work.bytes_written = static_cast<double>(facts.bytes_written);
  work.read_priority = schedule.read_priority;
  const StridedWaste stepped = stepped_waste(facts, schedule, estimate, limits);
  work.bytes_read += stepped.read_bytes;
  work.bytes_written += stepped.written_bytes;
  work.shared_bytes += stepped.l1_bytes;
  work.l2_bytes = work.bytes_read + work.bytes_written + stepped.l2_bytes;
  const double accesses = static_cast<double>(stage.loads.size() + stage.outputs.size());
  work.issue_slots =
      rows * columns *
          (stage.issue_slots + accesses * constants.instructions_per_access /
                                   static_cast<double>(schedule.vector_width)) +
      static_cast<double>(estimate.blocks * estimate.threads) * constants.row.prologue_instructions;
  work.special = rows * columns * stage.special_functions;
  if (schedule.persistent_blocks > 0) add_finish(facts, schedule, limits, work);
  // Only whole vectors have a read priority.
  constexpr int64_t kVectorBytes = 16;
  if (schedule.vector_width * facts.widest_tile_bytes < kVectorBytes)
    work.read_priority = ReadPriority::kNormal;
  work.block_latency_ns = 0.0;
  work.start_us = start_time(schedule, constants);
  Prediction out = predict(work, estimate, limits);

  const bool from_l2 = columns_come_from_l2(facts, limits);
  if (!from_l2) {
    constexpr double kLine = 128.0;
    const auto run = static_cast<double>(schedule.threads_per_row * schedule.vector_width *
                                         facts.widest_tile_bytes);
    out.memory_us *= 1.0 + constants.short_run_penalty * std::max(0.0, 1.0 - run / kLine);
  }
  // A thread waits once for every group of rows it has in flight, then for the tree.
  const auto splits = static_cast<double>(program::blocks_of_columns(fold_of(schedule)));
  const double walks =
      std::ceil(rows / (splits * static_cast<double>(schedule.rows_per_block * schedule.unroll)));
  const auto levels =
      static_cast<double>(std::bit_width(static_cast<uint64_t>(schedule.rows_per_block)) - 1);
  const double wait_ns = from_l2 ? constants.row.cache_latency_ns : constants.memory_wait_ns;
  const double waves = std::ceil(estimate.waves);
  const double chain_us = waves * walks * wait_ns / 1000.0;
  const double throughput =
      std::max({out.memory_us, out.l2_us, out.issue_us, out.special_us, out.shared_us});
  // The last bytes in flight arrive without further loads behind them. This term covers the ramp-up
  // too.
  const double drain_us =
      from_l2 ? 0.0
              : estimate.bytes_in_flight_per_sm * static_cast<double>(limits.sm_count) /
                    mixed_bandwidth(limits, work.bytes_read, work.bytes_written);
  if (!from_l2) out.launch_us = constants.launch_us + work.start_us;
  const double exchange_ns = levels * constants.row.block_exchange_ns +
                             cluster_exchange_time(schedule.cluster_size(), constants);
  out.block_latency_us = (constants.row.block_start_ns + walks * wait_ns + exchange_ns) / 1000.0;
  const double ends_us = drain_us + (constants.row.block_start_ns + exchange_ns) / 1000.0;
  out.exposed_us = std::hypot(throughput, chain_us) - throughput + waves * ends_us;
  out.total_us = out.launch_us + throughput + out.exposed_us + out.spill_us + out.second_stage_us;
  return out;
}

}  // namespace

program::Program column_program(const SegmentFacts& facts, const Schedule& schedule) {
  program::Program out{.name = facts.fusion.name, .threads = schedule.threads_per_block()};
  const auto axis = [&](const char* name, int64_t extent, bool is_launched) {
    return out.axes.push_back(
        {.name = name, .sizes = {extent}, .extent = extent, .is_launched = is_launched});
  };
  const program::AxisId rows = axis("rows", facts.space.rows, true);
  const program::AxisId columns =
      axis("columns", facts.space.columns, schedule.persistent_blocks == 0);
  program::Fold fold = fold_of(schedule);
  fold.rows = rows;
  fold.columns = columns;
  const program::StepId step = out.steps.push_back(fold);
  out.body.push_back(
      out.steps.push_back(program::Nest{.binding = program::Binding::kBlock,
                                        .loops = {{.axis = columns, .step = fold.reach()}},
                                        .body = {step}}));
  return out;
}

std::optional<Rejection> refuse_column(const SegmentFacts& facts) {
  if (!facts.has_outer()) {
    return rejected("the segment reduces nothing over its rows", 0, 1, "outer reductions",
                    "reduce over an outer axis, or pin another family");
  }
  if (facts.has_reduction()) {
    return rejected("the segment also reduces along the columns", facts.reduction_count, 0,
                    "inner reductions", "the multi_wave family takes both at once");
  }
  if (auto rejection = check_outer_operands(facts, kName)) return rejection;
  if (auto rejection = check_row_outputs(facts, kName)) return rejection;
  for (const OpId id : facts.outer_reductions) {
    if (facts.is_total(id) && facts.space.columns == 0)
      return rejected("a total has no block where there are no columns", 0, 1, "columns",
                      "the multi_wave family walks rows");
    if (facts.outer_kind(id) != OuterReduction::kElements) continue;
    Rejection rejection = rejected("a block has some of the columns, and a total takes all", 1, 0,
                                   "totals of elements", "the multi_wave family gives rows whole");
    rejection.at = facts.fusion.ops[id].results.front();
    return rejection;
  }
  for (size_t i = 0; i < facts.fusion.outputs.size(); ++i) {
    // Values that follow from totals alone are stored once.
    if (facts.space.output_coverage[i].columns || facts.is_after_rows(facts.fusion.outputs[i]))
      continue;
    Rejection rejection = rejected("an output does not vary along the columns", 0, 1, "columns",
                                   "give it a fusion of its own");
    rejection.at = facts.fusion.outputs[i];
    return rejection;
  }
  return std::nullopt;
}

tl::expected<ResourceEstimate, Rejection> estimate_column(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const DeviceLimits& limits) {
  if (auto rejection = refuse_column(facts)) return tl::make_unexpected(*rejection);
  auto estimate = estimate_stage(facts, schedule, distribute(facts, {}).stages[0], limits);
  if (!estimate) return estimate;
  if (auto rejection = program::check(column_program(facts, schedule), kName))
    return tl::make_unexpected(with_tensor(*rejection, facts, schedule));
  return estimate;
}

Prediction predict_column(const SegmentFacts& facts, const Schedule& schedule,
                          const ResourceEstimate& estimate, const DeviceLimits& limits) {
  return predict_stage(facts, schedule, distribute(facts, {}).stages[0], estimate, limits);
}

Proposal propose_column(const SegmentFacts& facts, const DeviceLimits& limits) {
  Proposal proposal;
  if (auto rejection = refuse_column(facts)) {
    proposal.rejections.push_back(*rejection);
    return proposal;
  }
  const StageList list = distribute(facts, {});
  const Stage& stage = list.stages[0];
  const ReadPriority priority = read_priority(facts, limits);
  const DependentLaunch overlap = partials_dependent_launch(facts, limits);
  std::optional<Rejection> nearest;
  const auto consider = [&](const Schedule& schedule) {
    auto estimate = estimate_stage(facts, schedule, stage, limits);
    if (!estimate) {
      nearest = std::move(estimate.error());
      return;
    }
    if (estimate->registers > estimate->register_cap) return;
    proposal.candidates.push_back(
        {schedule, *estimate, predict_stage(facts, schedule, stage, *estimate, limits)});
  };
  const auto [widest, narrowest] = vector_widths(facts);
  for (int64_t width = widest; width >= 1; width /= 2) {
    if (facts.space.columns % width != 0) continue;
    for (const int64_t across : {4, 8, 16, 32, 64}) {
      // Narrower vectors are tried only with the fewest threads per row: they help where even such
      // a block takes too many columns.
      if (narrowest > 1 && across > 4 && !proposal.candidates.empty() &&
          proposal.candidates.front().schedule.vector_width > width)
        break;
      // A block that takes part of a sector makes its neighbours read the sector again.
      if (static_cast<double>(across * width * facts.widest_tile_bytes) < kSectorBytes) continue;
      for (int64_t slots = kFewestSlots; slots <= kMostSlots; slots *= 2) {
        if (slots > kFewestSlots && offered_rows(facts, slots * across, across) < slots) break;
        const Schedule shape{.family = std::string(kName),
                             .parameters = ColumnParameters{},
                             .threads_per_row = across,
                             .rows_per_block = slots,
                             .vector_width = width,
                             .unroll = 1,
                             .min_blocks_per_sm = 1,
                             .read_priority = priority};
        // A block of too many threads stays illegal however it is varied.
        if (auto rejection = check_schedule(facts, shape, limits)) {
          nearest = with_tensor(std::move(*rejection), facts, shape);
          continue;
        }
        for (int64_t unroll = 1; unroll <= kMostUnroll; unroll *= 2) {
          // If one iteration loads all rows, a larger unroll has nothing to load.
          if (unroll > 1 && slots * unroll / 2 >= facts.space.rows) break;
          Schedule schedule = shape;
          schedule.unroll = unroll;
          consider(schedule);
          // Distribute rows to several blocks if the strips of columns leave SMs idle: to those of
          // a cluster, which finish, or to more, which leave partial results.
          const int64_t runs = column_strips(facts, schedule);
          const int64_t walks = (facts.space.rows + slots * unroll - 1) / (slots * unroll);
          for (int64_t cluster = 2; cluster <= largest_unstranded_cluster(limits); cluster *= 2) {
            if (runs * cluster > kMostBlocksPerSm * limits.sm_count || cluster > walks) break;
            schedule.parameters = ColumnParameters{.cluster_size = cluster};
            consider(schedule);
          }
          schedule.parameters = ColumnParameters{};
          schedule.dependent_launch = overlap;
          for (const int64_t blocks_per_sm : {int64_t{1}, int64_t{2}, kMostBlocksPerSm}) {
            const int64_t splits = balanced_blocks(
                walks, blocks_per_sm * limits.sm_count / std::max<int64_t>(runs, 1));
            if (splits < 2 || splits > kMostSplits) continue;
            schedule.persistent_blocks = splits;
            consider(schedule);
          }
        }
      }
    }
  }
  if (proposal.candidates.empty() && nearest) proposal.rejections.push_back(*nearest);
  return proposal;
}

}  // namespace sinter
