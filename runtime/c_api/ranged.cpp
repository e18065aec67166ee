// A graph prepared for ranges of sizes.

#include "runtime/c_api/callbacks.h"
#include "runtime/c_api/dlpack.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/execute_args.h"
#include "runtime/c_api/plan_options.h"
#include "runtime/c_api/prepare_options.h"
#include "runtime/c_api/progress.h"
#include "runtime/c_api/runtime_object.h"
#include "runtime/c_api/structs.h"
#include "runtime/c_api/text.h"
#include "runtime/c_api/tuning_object.h"
#include "runtime/execute/ranged_executable.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter::c_api {
namespace {

/// Its destruction waits for the device.
class RangedObject {
 public:
  static constexpr HandleKind kKind = HandleKind::kRanged;
  using Handle = sinter_ranged;

  RangedObject(std::shared_ptr<RuntimeObject> runtime, std::shared_ptr<const FusionObject> graph,
               DeviceDriver& driver, DeviceContext context, RangedExecutable executable)
      : runtime_(std::move(runtime)),
        graph_(std::move(graph)),
        driver_(&driver),
        context_(std::move(context)),
        executable_(std::make_shared<RangedExecutable>(std::move(executable))) {}
  RangedObject(const RangedObject&) = delete;
  RangedObject& operator=(const RangedObject&) = delete;
  ~RangedObject() {
    runtime_->retire({.context = std::move(context_), .loaded = std::move(executable_)});
  }

  [[nodiscard]] const std::shared_ptr<RuntimeObject>& runtime() const { return runtime_; }
  [[nodiscard]] const Fusion& fusion() const { return graph_->fusion; }
  [[nodiscard]] DeviceDriver& driver() const { return *driver_; }
  [[nodiscard]] const DeviceContext& context() const { return context_; }
  [[nodiscard]] RangedExecutable& executable() const { return *executable_; }

 private:
  std::shared_ptr<RuntimeObject> runtime_;
  std::shared_ptr<const FusionObject> graph_;
  DeviceDriver* driver_;
  DeviceContext context_;
  std::shared_ptr<RangedExecutable> executable_;
};

ExtentRanges ranges_from(const sinter_extent_range* ranges, size_t count) {
  require(ranges, count, "ranges");
  ExtentRanges out;
  for (size_t i = 0; i < count; ++i) {
    require(ranges[i].name, fmt::format("ranges[{}].name", i));
    if (out.emplace(ranges[i].name, ExtentRange{ranges[i].least, ranges[i].most}).second) continue;
    bad_argument(fmt::format("the range of '{}' is given twice", ranges[i].name),
                 "give every range once");
  }
  return out;
}

RangePlans plans_from(int32_t number) {
  switch (number) {
    case SINTER_RANGE_ONE_PLAN:
      return RangePlans::kOne;
    case SINTER_RANGE_PLAN_EACH:
      return RangePlans::kEach;
    default:
      bad_argument(fmt::format("options.plans is {}", number), "use SINTER_RANGE_*");
  }
}

OutsideRange outside_from(int32_t number) {
  switch (number) {
    case SINTER_OUTSIDE_REFUSE:
      return OutsideRange::kRefuse;
    case SINTER_OUTSIDE_PLAN:
      return OutsideRange::kPlan;
    default:
      bad_argument(fmt::format("options.outside is {}", number), "use SINTER_OUTSIDE_*");
  }
}

RangedOptions ranged_options_from(const sinter_ranged_options* options,
                                  const sinter_plan_options* plan_options,
                                  const sinter_prepare_options* prepare_options) {
  const auto given = read_struct(options, "options");
  const auto preparing = read_struct(prepare_options, "prepare_options");
  // Sizes are prepared for as long as the object lives.
  constexpr const char* kInstead = "leave it at zero; a progress callback can cancel";
  refuse_budget(read_struct(plan_options, "plan_options").budget_seconds, "plan_options", kInstead);
  refuse_budget(preparing.budget_seconds, "prepare_options", kInstead);
  RangedOptions out{.fixed = extents_from(given.fixed, given.fixed_count),
                    .first = extents_from(given.first, given.first_count),
                    .plans = plans_from(given.plans),
                    .outside = outside_from(given.outside),
                    .plan = plan_options_from(plan_options),
                    .compile = compile_options_from(preparing),
                    .prepare = prepare_options_from(preparing)};
  if (given.slower_at_most != 0.0) out.slower_at_most = given.slower_at_most;
  if (given.kept != 0) out.kept = given.kept;
  return out;
}

std::vector<Tensor> tensors_from(const sinter_tensor* given, size_t count, bool is_output,
                                 const RangedObject& object) {
  const Fusion& fusion = object.fusion();
  const std::string_view what = is_output ? "outputs" : "inputs";
  require_tensors(given, count, (is_output ? fusion.outputs : fusion.inputs).size(), what);
  std::vector<Tensor> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(tensor_of(given[i], fusion, {is_output, i}, object.context().device()));
  return out;
}

}  // namespace

extern "C" {

sinter_status sinter_ranged_prepare(sinter_runtime* runtime, const sinter_fusion* fusion,
                                    const sinter_device* device, const sinter_extent_range* ranges,
                                    size_t range_count, const sinter_plan_options* plan_options,
                                    const sinter_prepare_options* prepare_options,
                                    const sinter_ranged_options* options, sinter_ranged** ranged,
                                    sinter_error** error) {
  return guarded(error, [&] {
    require(ranged, "ranged");
    *ranged = nullptr;
    const auto on = object_of<RuntimeObject>(runtime);
    const auto graph = object_of<FusionObject>(fusion);
    const auto limits = object_of<DeviceObject>(device);
    const ExtentRanges sizes = ranges_from(ranges, range_count);
    auto with = ranged_options_from(options, plan_options, prepare_options);
    if (read_struct(plan_options, "plan_options").tuned != nullptr)
      bad_argument("what was measured is about one set of sizes", "leave plan_options.tuned null");
    DeviceDriver& driver = *taken(on->driver());
    auto context = taken(DeviceContext::retain(driver, with.prepare.device));
    auto compile = [on = on.get(), how = with.compile](Plan plan) {
      return on->compile(std::move(plan), how);
    };
    auto ready =
        taken(RangedExecutable::prepare(graph->fusion, sizes, limits->limits,
                                        PlanCompiler(std::move(compile)), driver, std::move(with)));
    *ranged = handle_of(
        std::make_shared<RangedObject>(on, graph, driver, std::move(context), std::move(ready)));
  });
}

sinter_status sinter_ranged_at(sinter_ranged* ranged, const sinter_extent* extents,
                               size_t extent_count, sinter_executable** executable,
                               sinter_error** error) {
  return guarded(error, [&] {
    require(executable, "executable");
    *executable = nullptr;
    const auto object = object_of<RangedObject>(ranged);
    auto ready = taken(object->executable().at(extents_from(extents, extent_count)));
    auto context = taken(DeviceContext::retain(object->driver(), object->context().device()));
    *executable = handle_of(std::make_shared<ExecutableObject>(
        object->runtime(), object->driver(), std::move(context), std::move(ready)));
  });
}

sinter_status sinter_ranged_execute(sinter_ranged* ranged, const sinter_execute_args* args,
                                    sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<RangedObject>(ranged);
    const sinter_execute_args given = execute_args_from(args);
    const auto inputs = tensors_from(given.inputs, given.input_count, false, *object);
    const auto outputs = tensors_from(given.outputs, given.output_count, true, *object);
    const auto current = enter(object->driver(), object->context());
    execute_as_given(object->executable(), inputs, outputs, given, object->fusion());
  });
}

sinter_status sinter_ranged_describe(const sinter_ranged* ranged, sinter_ranged_info* info,
                                     sinter_error** error) {
  return guarded(error, [&] {
    const RangedReport report = object_of<RangedObject>(ranged)->executable().report();
    fill_struct(info, "info",
                {.struct_size = sizeof(sinter_ranged_info),
                 .uses = report.uses,
                 .plans = report.plans,
                 .shared = report.shared,
                 .failures = report.failures,
                 .dropped = report.dropped,
                 .kept = report.kept.size()});
  });
}

sinter_status sinter_ranged_report(const sinter_ranged* ranged, sinter_text** text,
                                   sinter_error** error) {
  return guarded(error, [&] {
    require(text, "text");
    *text = nullptr;
    *text = text_handle(object_of<RangedObject>(ranged)->executable().report().text());
  });
}

sinter_status sinter_ranged_release(sinter_ranged* ranged, sinter_error** error) {
  return guarded(error, [&] { release<RangedObject>(ranged); });
}

}  // extern "C"

}  // namespace sinter::c_api
