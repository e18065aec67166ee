#include "runtime/c_api/plan_options.h"

#include <array>

#include "codegen/cuda/emit.h"
#include "fusion_ir/nearest_name.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/objects.h"
#include "runtime/c_api/progress.h"
#include "runtime/c_api/structs.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/cublaslt.h"
#include "scheduler/plan/plan_options.h"

namespace sinter::c_api {
namespace {

Residency residency_from(std::string_view name) {
  for (const Residency residency : {Residency::kRegister, Residency::kShared, Residency::kReload})
    if (text_of(residency) == name) return residency;
  constexpr std::array<std::string_view, 3> kNames{"register", "shared", "reload"};
  bad_argument(fmt::format("there is no residency '{}'", name),
               suggestion(name, kNames, "use register, shared or reload"));
}

Cutting cutting_from(int32_t number) {
  switch (number) {
    case SINTER_CUT_FASTER:
      return Cutting::kFaster;
    case SINTER_CUT_NEEDED:
      return Cutting::kNeeded;
    default:
      bad_argument(fmt::format("there is no way of cutting {}", number), "use SINTER_CUT_*");
  }
}

/// Zero leaves the number to the planner.
std::optional<int64_t> pinned(int64_t number) {
  return number == 0 ? std::nullopt : std::optional(number);
}

SchedulePin pin_from(const sinter_plan_options& options) {
  SchedulePin pin{.threads_per_row = pinned(options.threads_per_row),
                  .rows_per_block = pinned(options.rows_per_block),
                  .vector_width = pinned(options.vector_width),
                  .unroll = pinned(options.unroll)};
  if (options.schedule != nullptr) pin.schedule = taken(parse_schedule(options.schedule));
  if (options.family != nullptr) pin.family = options.family;
  if (options.residency != nullptr) pin.residency = residency_from(options.residency);
  return pin;
}

std::vector<std::string> names_from(const char* const* names, size_t count, std::string_view what) {
  require(names, count, what);
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) {
    require(names[i], fmt::format("{}[{}]", what, i));
    out.emplace_back(names[i]);
  }
  return out;
}

}  // namespace

ExtentValues extents_from(const sinter_extent* extents, size_t count) {
  require(extents, count, "extents");
  ExtentValues out;
  for (size_t i = 0; i < count; ++i) {
    require(extents[i].name, fmt::format("extents[{}].name", i));
    if (out.emplace(extents[i].name, extents[i].size).second) continue;
    bad_argument(fmt::format("extent '{}' is given twice", extents[i].name),
                 "give every extent once");
  }
  return out;
}

PlanOptions plan_options_from(const sinter_plan_options* options) {
  const auto given = read_struct(options, "options");
  FamilySet families = builtin_families();
  if (flag(given.cublaslt, "options.cublaslt")) families = with_cublaslt(std::move(families));
  const Interruption interruption =
      interruption_from(given.progress, given.progress_data, given.budget_seconds);
  PlanOptions out{.families = interruptible(std::move(families), interruption),
                  .pin = pin_from(given),
                  .simplify = !flag(given.keep_graph, "options.keep_graph"),
                  .cutting = cutting_from(given.cutting),
                  .check_indices = flag(given.check_indices, "options.check_indices"),
                  .defer_scales = flag(given.defer_scales, "options.defer_scales"),
                  .teams = !flag(given.no_teams, "options.no_teams")};
  if (given.like != nullptr) {
    const auto model = object_of<PlanObject>(given.like);
    out.like = std::shared_ptr<const Plan>(model, &model->plan);
  }
  for (std::string& value : names_from(given.cuts, given.cut_count, "options.cuts"))
    out.cuts.push_back({std::move(value)});
  require(given.joins, given.join_count, "options.joins");
  for (size_t i = 0; i < given.join_count; ++i) {
    const sinter_value_group& join = given.joins[i];
    out.joins.push_back({names_from(join.values, join.count, fmt::format("options.joins[{}]", i))});
  }
  return out;
}

}  // namespace sinter::c_api
