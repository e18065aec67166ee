#include "scheduler/families/pointwise.h"

#include <algorithm>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/cost/read_priority.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/cost/sectors.h"
#include "scheduler/families/element_tiles.h"
#include "scheduler/families/row_rules.h"
#include "scheduler/program/program_walks.h"

namespace sinter {
namespace {

constexpr std::string_view kName = kPointwise;
constexpr int64_t kMostUnroll = 8;
/// Fraction of additional memory time for outputs that are stored in vectors of two accesses or
/// more, each of which writes only a part of every sector. Source:
/// docs/experiments/constants_choices.md.
constexpr double kSplitStoreShare = 0.1;

program::Elements elements_of(const Schedule& schedule) {
  return {.axis = {}, .width = schedule.vector_width, .vectors = schedule.unroll};
}

/// Elements of a block.
int64_t tile_of(const Schedule& schedule) {
  return elements_of(schedule).tile(schedule.threads_per_block());
}

tl::expected<ResourceEstimate, Rejection> estimate_stages(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const StageList& list,
                                                          const DeviceLimits& limits) {
  if (auto rejection = refuse_pointwise(facts)) return tl::make_unexpected(*rejection);
  if (auto rejection = check_vector_width(schedule)) return tl::make_unexpected(*rejection);
  if (auto rejection = refuse_unaligned_access(schedule)) return tl::make_unexpected(*rejection);
  Schedule as_row = schedule;
  // The number of elements may be any: the last vector is predicated, so the row access mode does
  // not apply.
  as_row.row_access =
      facts.space.columns % schedule.vector_width == 0 ? RowAccess::kAligned : RowAccess::kScalar;
  if (as_row.row_access == RowAccess::kScalar) as_row.vector_width = 1;
  if (auto rejection = check_row_schedule(facts, as_row, limits))
    return tl::make_unexpected(*rejection);
  if (schedule.rows_per_block != 1 || !schedule.kept.empty()) {
    return tl::make_unexpected(
        Rejection{.subject = std::string(kName),
                  .rule = "pointwise schedules have one row per block and keep nothing",
                  .value = static_cast<double>(schedule.rows_per_block),
                  .limit = 1,
                  .unit = "rows per block",
                  .remedy = "use rows_per_block 1 and no keep lines"});
  }
  if (schedule.persistent_blocks != 0) {
    return tl::make_unexpected(rejected(schedule, "pointwise blocks do not stay",
                                        schedule.persistent_blocks, 0, "persistent blocks",
                                        "use persistent_blocks 0"));
  }
  if (schedule.unroll > kMostUnroll) {
    return tl::make_unexpected(Rejection{.subject = std::string(kName),
                                         .rule = "too many vectors are loaded at once",
                                         .value = static_cast<double>(schedule.unroll),
                                         .limit = static_cast<double>(kMostUnroll),
                                         .unit = "vectors",
                                         .at = largest_tensor(facts, schedule),
                                         .remedy = "use a smaller unroll"});
  }
  const program::Program program = pointwise_program(facts, schedule);
  if (auto rejection = program::check(program, kName))
    return tl::make_unexpected(with_tensor(*rejection, facts, schedule));
  ResourceEstimate estimate;
  estimate.threads = program.threads;
  estimate.registers = estimate_registers(facts, schedule, list);
  estimate.blocks = program::block_count(program);
  complete(estimate, limits, schedule.min_blocks_per_sm);
  double loaded = 0.0;
  for (const ValueId value : list.stages[0].loads)
    loaded += static_cast<double>(tile_of(schedule) * bytes_of(facts.fusion.values[value].type));
  estimate.bytes_in_flight_per_sm = loaded * static_cast<double>(estimate.blocks_per_sm);
  if (auto rejection = over_budget(facts, schedule, estimate, limits))
    return tl::make_unexpected(*rejection);
  return estimate;
}

Prediction predict_stages(const SegmentFacts& facts, const Schedule& schedule,
                          const StageList& list, const ResourceEstimate& estimate,
                          const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const Stage& stage = list.stages[0];
  const auto width = static_cast<double>(schedule.vector_width);
  const auto elements = static_cast<double>(facts.space.columns);
  ElementWalk walk{.width = schedule.vector_width,
                   .block_elements = tile_of(schedule),
                   .blocks_per_sm = estimate.blocks_per_sm};
  WorkEstimate work;
  work.bytes_read = static_cast<double>(facts.bytes_read);
  work.bytes_written = static_cast<double>(facts.bytes_written);
  work.start_us = start_time(schedule, constants);
  double accesses = 0.0;
  const auto one_by_one = [&](const TensorAccess& access, double& moved) {
    accesses += width;
    const SectorWaste waste = sector_waste(facts, access, walk, limits);
    work.shared_bytes += waste.l1_bytes;  // L1 and shared memory are one data path.
    work.l2_bytes += waste.l2_bytes - waste.memory_bytes;
    moved += waste.memory_bytes;
  };
  for (const ValueId value : stage.loads) {
    const TensorAccess& access = *facts.space.find_input(value);
    if (access_kind(facts, access, schedule) == AccessKind::kElement) {
      one_by_one(access, work.bytes_read);
    } else {
      accesses += 1.0;
    }
  }
  for (const auto& [result, gather] : facts.space.gathers) {
    if (gather.access.strides.empty()) continue;
    // Neighbours with the same index gather a contiguous run; others gather a sector each.
    const TensorAccess* index = facts.space.find_input(facts.fusion.def_of(result).operands[1]);
    const bool is_run = index != nullptr && index->strides.back() == 0;
    one_by_one(gather.access, work.bytes_read);
    if (!is_run) {
      const auto size = static_cast<double>(bytes_of(facts.fusion.values[result].type));
      work.l2_bytes += elements * (kSectorBytes - size);
      work.shared_bytes += elements * kSectorBytes;
    }
  }
  walk.stores = true;
  for (const size_t output : stage.outputs) {
    const TensorAccess& access = facts.space.outputs[output];
    if (access_kind(facts, access, schedule) != AccessKind::kVector) {
      one_by_one(access, work.bytes_written);
      continue;
    }
    accesses += 1.0;
    const int64_t size = bytes_of(facts.fusion.values[access.tensor].type);
    const bool splits = schedule.vector_width * size > kMostAccessBytes;
    if (splits && !stores_in_pairs(facts, schedule, output))
      work.bytes_written += kSplitStoreShare * elements * static_cast<double>(size);
  }
  work.read_priority = schedule.read_priority;
  work.l2_bytes += work.bytes_read + work.bytes_written;
  work.issue_slots =
      elements * (stage.issue_slots + accesses * constants.instructions_per_access / width) +
      static_cast<double>(estimate.blocks * estimate.threads) *
          constants.tile_prologue_instructions;
  work.special = elements * stage.special_functions;
  work.loads_once = true;
  work.block_latency_ns = constants.row.block_start_ns +
                          constants.tile_vector_ns * static_cast<double>(schedule.unroll);
  return predict(work, estimate, limits);
}

}  // namespace

program::Program pointwise_program(const SegmentFacts& facts, const Schedule& schedule) {
  program::Program out{.name = facts.fusion.name, .threads = schedule.threads_per_block()};
  const program::AxisId axis = out.axes.push_back({.name = "elements",
                                                   .sizes = {facts.space.columns},
                                                   .extent = facts.space.columns,
                                                   .is_launched = true});
  program::Elements elements = elements_of(schedule);
  elements.axis = axis;
  const program::StepId step = out.steps.push_back(elements);
  out.body.push_back(
      out.steps.push_back(program::Nest{.binding = program::Binding::kBlock,
                                        .loops = {{.axis = axis, .step = tile_of(schedule)}},
                                        .body = {step}}));
  return out;
}

std::optional<Rejection> refuse_pointwise(const SegmentFacts& facts) {
  if (facts.list) {
    return Rejection{.subject = std::string(kName),
                     .rule = "the segment is a list of tensors",
                     .remedy = "the multi_tensor family takes it"};
  }
  if (facts.has_reduction() || facts.has_outer()) {
    return Rejection{.subject = std::string(kName),
                     .rule = "the segment reduces",
                     .value = static_cast<double>(facts.reduction_count) +
                              static_cast<double>(facts.outer_reductions.size()),
                     .limit = 0,
                     .unit = "reductions",
                     .remedy = "the column, looped and multi_wave families take it"};
  }
  return std::nullopt;
}

tl::expected<ResourceEstimate, Rejection> estimate_pointwise(const SegmentFacts& facts,
                                                             const Schedule& schedule,
                                                             const DeviceLimits& limits) {
  return estimate_stages(facts, schedule, distribute(facts, {}), limits);
}

Prediction predict_pointwise(const SegmentFacts& facts, const Schedule& schedule,
                             const ResourceEstimate& estimate, const DeviceLimits& limits) {
  return predict_stages(facts, schedule, distribute(facts, {}), estimate, limits);
}

Proposal propose_pointwise(const SegmentFacts& facts, const DeviceLimits& limits) {
  Proposal proposal;
  if (auto rejection = refuse_pointwise(facts)) {
    proposal.rejections.push_back(*rejection);
    return proposal;
  }
  const StageList stages = distribute(facts, {});
  offer_tiles(
      proposal, facts, stages,
      {.family = std::string(kName), .read_priority = read_priority(facts, limits)}, kMostUnroll,
      limits,
      [&](const Schedule& schedule) { return estimate_stages(facts, schedule, stages, limits); },
      [&](const Schedule& schedule, const ResourceEstimate& estimate) {
        return predict_stages(facts, schedule, stages, estimate, limits);
      });
  return proposal;
}

}  // namespace sinter
