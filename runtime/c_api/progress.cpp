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
  using Clock = std::chrono::steady_clock;
  // Beyond this a clock's time would overflow.
  constexpr double kMostSeconds = 1e9;
  if (!(budget_seconds >= 0.0 && budget_seconds <= kMostSeconds))
    bad_argument(fmt::format("a time budget of {} s", budget_seconds),
                 fmt::format("give seconds up to {:g}, or 0 for no limit", kMostSeconds));
  Interruption out;
  if (budget_seconds > 0.0) {
    out.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(budget_seconds));
  }
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
    if (progress(progress_data, &told) != 0)
      throw Cancelled{fmt::format("'{}' of '{}'", family, segment)};
  };
  return out;
}

}  // namespace sinter::c_api
