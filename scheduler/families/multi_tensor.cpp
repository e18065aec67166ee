#include "scheduler/families/multi_tensor.h"

#include "scheduler/analysis/cuda_units.h"

#include <algorithm>

#include "scheduler/analysis/stages.h"
#include "scheduler/analysis/tensor_list.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/cost/read_priority.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/families/element_tiles.h"
#include "scheduler/families/pointwise.h"
#include "scheduler/families/row_rules.h"

namespace sinter {
namespace {

constexpr int64_t kMostUnroll = 8;

Rejection refused(std::string rule, int64_t value, int64_t limit, std::string unit,
                  std::string remedy) {
  return {.subject = std::string(kMultiTensor),
          .rule = std::move(rule),
          .value = static_cast<double>(value),
          .limit = static_cast<double>(limit),
          .unit = std::move(unit),
          .remedy = std::move(remedy)};
}

/// Rules for the fields of a schedule beyond those that all families share.
std::optional<Rejection> check_fields(const Schedule& schedule) {
  if (auto rejection = check_vector_width(schedule)) return rejection;
  if (auto rejection = refuse_unaligned_access(schedule)) return rejection;
  if (schedule.rows_per_block != 1 || !schedule.kept.empty())
    return refused("a list's schedules have one row per block and keep nothing",
                   schedule.rows_per_block, 1, "rows per block",
                   "use rows_per_block 1 and no keep lines");
  if (schedule.persistent_blocks != 0)
    return refused("a list's blocks do not stay", schedule.persistent_blocks, 0,
                   "persistent blocks", "use persistent_blocks 0");
  if (schedule.unroll > kMostUnroll)
    return refused("too many vectors are loaded at once", schedule.unroll, kMostUnroll, "vectors",
                   "use a smaller unroll");
  return std::nullopt;
}

int64_t tile_of(const Schedule& schedule) {
  return schedule.threads_per_block() * schedule.vector_width * schedule.unroll;
}

tl::expected<ResourceEstimate, Rejection> estimate_tiles(const SegmentFacts& facts,
                                                         const Schedule& schedule,
                                                         const StageList& stages,
                                                         const DeviceLimits& limits) {
  if (auto rejection = refuse_multi_tensor(facts)) return tl::make_unexpected(*rejection);
  if (auto rejection = check_fields(schedule))
    return tl::make_unexpected(with_tensor(*rejection, facts, schedule));
  const TensorList& list = *facts.list;
  Schedule as_row = schedule;
  // The number of elements of a member may be any: its last vector is predicated, so the row access
  // mode does not apply.
  as_row.row_access = RowAccess::kScalar;
  as_row.vector_width = 1;
  if (auto rejection = check_row_schedule(list.member, as_row, limits)) {
    rejection->at = {};  // The id, if any, is one of the member's graph.
    return tl::make_unexpected(with_tensor(*rejection, facts, schedule));
  }
  ResourceEstimate estimate;
  estimate.threads = schedule.threads_per_block();
  estimate.registers = estimate_registers(list.member, schedule, stages);
  estimate.blocks = list.blocks(tile_of(schedule));
  complete(estimate, limits, schedule.min_blocks_per_sm);
  double loaded = 0.0;
  for (const ValueId value : stages.stages[0].loads) {
    loaded += static_cast<double>(schedule.vector_width * schedule.unroll *
                                  bytes_of(list.member.fusion.values[value].type));
  }
  estimate.bytes_in_flight_per_sm =
      loaded * static_cast<double>(estimate.threads * estimate.blocks_per_sm);
  if (auto rejection = over_budget(facts, schedule, estimate, limits))
    return tl::make_unexpected(*rejection);
  return estimate;
}

/// Number of accesses of a vector: one per tensor if it is aligned, else one per element.
double accesses_of(const SegmentFacts& member, const Stage& stage, const Schedule& schedule) {
  double accesses = 0.0;
  const auto add = [&](const TensorAccess& access) {
    const bool whole = access_kind(member, access, schedule) == AccessKind::kVector;
    accesses += whole ? 1.0 : static_cast<double>(schedule.vector_width);
  };
  for (const ValueId value : stage.loads) add(*member.space.find_input(value));
  for (const size_t output : stage.outputs) add(member.space.outputs[output]);
  return accesses;
}

Prediction predict_tiles(const SegmentFacts& facts, const Schedule& schedule,
                         const StageList& stages, const ResourceEstimate& estimate,
                         const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const TensorList& list = *facts.list;
  const Stage& stage = stages.stages[0];
  const auto elements = static_cast<double>(list.elements());
  const auto steps =
      static_cast<double>(list_search_steps(list_capacity(std::ssize(list.members))));
  WorkEstimate work;
  work.bytes_read = static_cast<double>(facts.bytes_read);
  work.bytes_written = static_cast<double>(facts.bytes_written);
  work.start_us = start_time(schedule, constants);
  work.read_priority = schedule.read_priority;
  work.l2_bytes = work.bytes_read + work.bytes_written;
  const double accesses = accesses_of(list.member, stage, schedule);
  work.issue_slots =
      elements * (stage.issue_slots + accesses * constants.instructions_per_access /
                                          static_cast<double>(schedule.vector_width)) +
      static_cast<double>(estimate.blocks * estimate.threads) *
          (constants.tile_prologue_instructions + steps * constants.search_step_instructions);
  work.special = elements * stage.special_functions;
  work.block_latency_ns = constants.row.block_start_ns + steps * constants.search_step_ns +
                          constants.tile_vector_ns * static_cast<double>(schedule.unroll);
  return predict(work, estimate, limits);
}

}  // namespace

std::optional<Rejection> refuse_multi_tensor(const SegmentFacts& facts) {
  // Segments with reductions are rejected with the reason of the pointwise family.
  if (facts.has_reduction() || facts.has_outer()) {
    auto rejection = refuse_pointwise(facts);
    rejection->subject = kMultiTensor;
    return rejection;
  }
  if (!facts.list)
    return refused("the segment is no list of tensors", 0, 1, "lists", "pin another family");
  const TensorList& list = *facts.list;
  const int64_t bytes = list_argument_bytes(std::ssize(list.members), std::ssize(list.slots),
                                            std::ssize(list.shared));
  if (bytes <= kMostArgumentBytes) return std::nullopt;
  auto rejection = refused("the tables of a list exceed the arguments of a kernel", bytes,
                           kMostArgumentBytes, "bytes", "cut the list into shorter ones");
  rejection.at = largest_tensor(facts, {});
  return rejection;
}

tl::expected<ResourceEstimate, Rejection> estimate_multi_tensor(const SegmentFacts& facts,
                                                                const Schedule& schedule,
                                                                const DeviceLimits& limits) {
  if (auto rejection = refuse_multi_tensor(facts)) return tl::make_unexpected(*rejection);
  return estimate_tiles(facts, schedule, distribute(facts.list->member, {}), limits);
}

Prediction predict_multi_tensor(const SegmentFacts& facts, const Schedule& schedule,
                                const ResourceEstimate& estimate, const DeviceLimits& limits) {
  return predict_tiles(facts, schedule, distribute(facts.list->member, {}), estimate, limits);
}

Proposal propose_multi_tensor(const SegmentFacts& facts, const DeviceLimits& limits) {
  Proposal proposal;
  if (auto rejection = refuse_multi_tensor(facts)) {
    proposal.rejections.push_back(*rejection);
    return proposal;
  }
  const SegmentFacts& member = facts.list->member;
  const StageList stages = distribute(member, {});
  offer_tiles(
      proposal, member, stages,
      {.family = std::string(kMultiTensor), .read_priority = read_priority(facts, limits)},
      kMostUnroll, limits,
      [&](const Schedule& schedule) { return estimate_tiles(facts, schedule, stages, limits); },
      [&](const Schedule& schedule, const ResourceEstimate& estimate) {
        return predict_tiles(facts, schedule, stages, estimate, limits);
      });
  return proposal;
}

}  // namespace sinter
