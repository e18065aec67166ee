#include "runtime/c_api/progress.h"

#include <string>

#include "runtime/c_api/errors.h"

namespace sinter::c_api {
namespace {

int32_t number_of(Progress::Stage stage) {
  switch (stage) {
    case Progress::Stage::kPlan:
      return SINTER_STAGE_PLAN;
    case Progress::Stage::kCompile:
      return SINTER_STAGE_COMPILE;
  }
  unreachable();
}

}  // namespace

Interruption interruption_from(sinter_progress_function progress, void* progress_data,
                               double budget_seconds) {
  Interruption out;
  out.deadline = taken(deadline_in(budget_seconds));
  if (progress == nullptr) return out;
  out.progress = [progress, progress_data](const Progress& step) {
    const std::string family(step.family);
    const std::string segment(step.segment);
    const sinter_progress told{.struct_size = sizeof(sinter_progress),
                               .stage = number_of(step.stage),
                               .reserved = 0,
                               .steps = step.steps,
                               .family = family.c_str(),
                               .segment = segment.c_str()};
    return progress(progress_data, &told) == 0;
  };
  return out;
}

void refuse_budget(double budget_seconds, std::string_view options, std::string_view instead) {
  if (budget_seconds == 0.0) return;
  bad_argument(fmt::format("{}.budget_seconds is {}, of work that plans and compiles many times",
                           options, budget_seconds),
               std::string(instead));
}

}  // namespace sinter::c_api
