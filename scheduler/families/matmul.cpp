#include "scheduler/families/matmul.h"

#include "scheduler/budgets/budget.h"
#include "scheduler/families/matmul/matmul_offers.h"
#include "scheduler/families/matmul/matmul_program.h"
#include "scheduler/families/matmul/matmul_resources.h"
#include "scheduler/families/matmul/matmul_rules.h"
#include "scheduler/families/matmul/matmul_time.h"
#include "scheduler/program/program_walks.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

std::optional<Rejection> refuse_matmul(const SegmentFacts& facts) { return matmul::refuse(facts); }

tl::expected<ResourceEstimate, Rejection> estimate_matmul(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const DeviceLimits& limits) {
  if (auto rejection = refuse_matmul(facts)) return tl::make_unexpected(*rejection);
  if (auto rejection = matmul::check_device(facts, limits)) return tl::make_unexpected(*rejection);
  if (auto rejection = matmul::check_schedule(facts, schedule, limits))
    return tl::make_unexpected(with_tensor(*rejection, facts, schedule));
  const StageList stages = matmul::stages_with(facts);
  const program::Program program = matmul::program_of(facts, schedule, stages);
  if (auto rejection = program::check(program, kMatmul))
    return tl::make_unexpected(with_tensor(*rejection, facts, schedule));
  return matmul::estimate_program(facts, schedule, program, matmul::all_of(stages), limits);
}

Prediction predict_matmul(const SegmentFacts& facts, const Schedule& schedule,
                          const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const StageList stages = matmul::stages_with(facts);
  const program::Program program = matmul::program_of(facts, schedule, stages);
  const auto& own = std::get<MatmulParameters>(schedule.parameters);
  return matmul::predict_program(facts, schedule, program, matmul::work_of(facts, program, own),
                                 matmul::all_of(stages), estimate, limits);
}

Proposal propose_matmul(const SegmentFacts& facts, const DeviceLimits& limits) {
  auto rejection = refuse_matmul(facts);
  if (!rejection) rejection = matmul::check_device(facts, limits);
  if (rejection) return {.candidates = {}, .rejections = {*rejection}};
  return matmul::offers(facts, limits);
}

}  // namespace sinter
