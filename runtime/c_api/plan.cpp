#include "codegen/cuda/emit.h"
#include "fusion_ir/printer.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/objects.h"
#include "runtime/c_api/plan_options.h"
#include "runtime/c_api/structs.h"
#include "runtime/c_api/tensor_info.h"
#include "runtime/c_api/text.h"
#include "runtime/c_api/tuning_object.h"
#include "runtime/json/plan_file.h"
#include "runtime/json/plan_json.h"
#include "scheduler/families/cublaslt.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/drawing.h"
#include "scheduler/report/explain.h"
#include "scheduler/report/plan_diff.h"

namespace sinter::c_api {
namespace {

/// The plan of a call, whose handle is checked before anything else.
std::shared_ptr<PlanObject> plan_of(const sinter_plan* plan) { return object_of<PlanObject>(plan); }

const KernelPlan& kernel_of(const Plan& plan, size_t index) {
  require_index(index, plan.kernels.size(), "kernel");
  return plan.kernels[KernelId{static_cast<uint32_t>(index)}];
}

}  // namespace

extern "C" {

sinter_status sinter_plan_create(const sinter_fusion* fusion, const sinter_device* device,
                                 const sinter_extent* extents, size_t extent_count,
                                 const sinter_plan_options* options, sinter_plan** plan,
                                 sinter_error** error) {
  return guarded(error, [&] {
    require(plan, "plan");
    *plan = nullptr;
    const auto graph = object_of<FusionObject>(fusion);
    const auto on = object_of<DeviceObject>(device);
    const auto sizes = extents_from(extents, extent_count);
    auto with = plan_options_from(options);
    with.tuned = tuned_choices(options, graph->fusion, sizes, on->limits);
    *plan =
        make_handle(PlanObject{taken(sinter::plan(graph->fusion, sizes, on->limits, with)), graph});
  });
}

sinter_status sinter_plan_describe(const sinter_plan* plan, sinter_plan_info* info,
                                   sinter_error** error) {
  return guarded(error, [&] {
    const auto object = plan_of(plan);
    fill_struct(info, "info",
                {.struct_size = sizeof(sinter_plan_info),
                 .input_count = object->plan.fusion.inputs.size(),
                 .output_count = object->plan.caller_outputs().size(),
                 .kernel_count = object->plan.kernels.size(),
                 .external_count = object->plan.externals.size(),
                 .workspace_bytes = object->plan.workspace_bytes,
                 .predicted_us = object->plan.predicted_us()});
  });
}

sinter_status sinter_plan_input(const sinter_plan* plan, size_t index, sinter_tensor_info* info,
                                sinter_error** error) {
  return guarded(error, [&] {
    const auto object = plan_of(plan);
    fill_struct(info, "info", info_of(object->plan, {.is_output = false, .index = index}));
  });
}

sinter_status sinter_plan_output(const sinter_plan* plan, size_t index, sinter_tensor_info* info,
                                 sinter_error** error) {
  return guarded(error, [&] {
    const auto object = plan_of(plan);
    fill_struct(info, "info", info_of(object->plan, {.is_output = true, .index = index}));
  });
}

sinter_status sinter_plan_kernel(const sinter_plan* plan, size_t index, sinter_kernel_info* info,
                                 sinter_error** error) {
  return guarded(error, [&] {
    const auto object = plan_of(plan);
    const KernelPlan& kernel = kernel_of(object->plan, index);
    const ResourceEstimate& estimate = kernel.chosen().estimate;
    fill_struct(info, "info",
                {.struct_size = sizeof(sinter_kernel_info),
                 .predicted_us = kernel.chosen().predicted.total_us,
                 .threads = estimate.threads,
                 .blocks = estimate.blocks,
                 .registers = estimate.registers,
                 .shared_bytes = estimate.shared_bytes,
                 .bytes_read = kernel.facts.bytes_read,
                 .bytes_written = kernel.facts.bytes_written});
  });
}

sinter_status sinter_plan_kernel_cuda(const sinter_plan* plan, size_t index, sinter_text** cuda,
                                      sinter_error** error) {
  return guarded(error, [&] {
    require(cuda, "cuda");
    *cuda = nullptr;
    const auto object = plan_of(plan);
    const KernelPlan& kernel = kernel_of(object->plan, index);
    *cuda = text_handle(taken(emit(kernel.facts, kernel.chosen().schedule)).text);
  });
}

sinter_status sinter_plan_kernel_schedule(const sinter_plan* plan, size_t index,
                                          sinter_text** schedule, sinter_error** error) {
  return guarded(error, [&] {
    require(schedule, "schedule");
    *schedule = nullptr;
    const auto object = plan_of(plan);
    *schedule = text_handle(print(kernel_of(object->plan, index).chosen().schedule));
  });
}

sinter_status sinter_plan_print(const sinter_plan* plan, sinter_text** text, sinter_error** error) {
  return guarded(error, [&] {
    require(text, "text");
    *text = nullptr;
    *text = text_handle(print(plan_of(plan)->plan.fusion));
  });
}

sinter_status sinter_plan_save(const sinter_plan* plan, sinter_text** text, sinter_error** error) {
  return guarded(error, [&] {
    require(text, "text");
    *text = nullptr;
    *text = text_handle(save_plan(plan_of(plan)->plan));
  });
}

sinter_status sinter_plan_load(const char* text, size_t size, sinter_plan** plan,
                               sinter_error** error) {
  return guarded(error, [&] {
    require(plan, "plan");
    *plan = nullptr;
    require(text, "text");
    Plan loaded = taken(load_plan({text, size}, with_cublaslt(builtin_families())));
    auto graph = std::make_shared<const FusionObject>(FusionObject{loaded.fusion});
    *plan = make_handle(PlanObject{std::move(loaded), std::move(graph)});
  });
}

sinter_status sinter_plan_explain(const sinter_plan* plan, sinter_text** text,
                                  sinter_error** error) {
  return guarded(error, [&] {
    require(text, "text");
    *text = nullptr;
    *text = text_handle(explain(plan_of(plan)->plan));
  });
}

sinter_status sinter_plan_explain_json(const sinter_plan* plan, sinter_text** json,
                                       sinter_error** error) {
  return guarded(error, [&] {
    require(json, "json");
    *json = nullptr;
    *json = text_handle(sinter::text_of(to_json(plan_of(plan)->plan)));
  });
}

sinter_status sinter_plan_diff(const sinter_plan* a, const sinter_plan* b, int32_t* equal,
                               sinter_text** text, sinter_error** error) {
  return guarded(error, [&] {
    if (text != nullptr) *text = nullptr;
    const auto first = plan_of(a);
    const auto second = plan_of(b);
    const PlanDiff difference = diff(first->plan, second->plan);
    if (text != nullptr) *text = text_handle(diff_text(difference, first->plan, second->plan));
    if (equal != nullptr) *equal = difference.equal() ? 1 : 0;
  });
}

sinter_status sinter_plan_draw(const sinter_plan* plan, int32_t form, sinter_text** drawing,
                               sinter_error** error) {
  return guarded(error, [&] {
    require(drawing, "drawing");
    *drawing = nullptr;
    const auto object = plan_of(plan);
    switch (form) {
      case SINTER_DRAWING_SVG:
        *drawing = text_handle(to_svg(object->plan));
        return;
      case SINTER_DRAWING_DOT:
        *drawing = text_handle(to_dot(object->plan));
        return;
      default:
        bad_argument(fmt::format("there is no drawing {}", form), "use SINTER_DRAWING_*");
    }
  });
}

sinter_status sinter_plan_release(sinter_plan* plan, sinter_error** error) {
  return guarded(error, [&] { release<PlanObject>(plan); });
}

}  // extern "C"

}  // namespace sinter::c_api
