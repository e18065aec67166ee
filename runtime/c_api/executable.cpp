#include "runtime/execute/executable.h"

#include "codegen/lower/interruptible_lowering.h"
#include "runtime/c_api/callbacks.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/prepare_options.h"
#include "runtime/c_api/progress.h"
#include "runtime/c_api/runtime_object.h"
#include "runtime/c_api/structs.h"
#include "runtime/c_api/tensor_info.h"
#include "runtime/c_api/text.h"
#include "runtime/json/plan_json.h"

namespace sinter::c_api {

CompilePlanOptions compile_options_from(const sinter_prepare_options& options) {
  if (options.compile_threads < 0)
    bad_argument("a negative number of threads", "leave it at 0 for one");
  CompilePlanOptions out;
  if (options.compile_threads > 0) out.threads = options.compile_threads;
  if (flag(options.forbid_replanning, "options.forbid_replanning")) out.max_replans = 0;
  out.families = interruptible_lowering(
      std::move(out.families),
      interruption_from(options.progress, options.progress_data, options.budget_seconds));
  return out;
}

PrepareOptions prepare_options_from(const sinter_prepare_options& options) {
  return {.device = options.device,
          .check_addresses = flag(options.check_addresses, "options.check_addresses"),
          .external = external_callback(options.external, options.external_data, options.device)};
}

extern "C" {

sinter_status sinter_executable_prepare(sinter_runtime* runtime, const sinter_plan* plan,
                                        const sinter_prepare_options* options,
                                        sinter_executable** executable, sinter_error** error) {
  return guarded(error, [&] {
    require(executable, "executable");
    *executable = nullptr;
    const auto on = object_of<RuntimeObject>(runtime);
    const auto planned = object_of<PlanObject>(plan);
    const auto given = read_struct(options, "options");
    const auto compiling = compile_options_from(given);
    const auto preparing = prepare_options_from(given);
    DeviceDriver& driver = *taken(on->driver());
    auto context = taken(DeviceContext::retain(driver, given.device));
    auto compiled = taken(on->compile(planned->plan, compiling));
    auto ready = taken(Executable::prepare(std::move(compiled), driver, preparing));
    *executable = handle_of(std::make_shared<ExecutableObject>(
        on, driver, std::move(context), std::make_shared<const Executable>(std::move(ready))));
  });
}

sinter_status sinter_executable_describe(const sinter_executable* executable,
                                         sinter_executable_info* info, sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<ExecutableObject>(executable);
    const CompiledPlan& compiled = object->executable().compiled();
    const auto is_new = [](const KernelBuild& kernel) {
      return kernel.origin == KernelOrigin::kCompiled;
    };
    fill_struct(
        info, "info",
        {.struct_size = sizeof(sinter_executable_info),
         .input_count = object->plan().fusion.inputs.size(),
         .output_count = object->plan().caller_outputs().size(),
         .kernel_count = compiled.kernels.size(),
         .compiled_count = static_cast<size_t>(std::ranges::count_if(compiled.kernels, is_new)),
         .workspace_bytes = object->executable().workspace_bytes(),
         .predicted_us = plan_as_compiled(compiled).predicted_us(),
         .device = object->context().device(),
         .reserved = 0});
  });
}

sinter_status sinter_executable_input(const sinter_executable* executable, size_t index,
                                      sinter_tensor_info* info, sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<ExecutableObject>(executable);
    fill_struct(info, "info", info_of(object->plan(), {.is_output = false, .index = index}));
  });
}

sinter_status sinter_executable_output(const sinter_executable* executable, size_t index,
                                       sinter_tensor_info* info, sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<ExecutableObject>(executable);
    fill_struct(info, "info", info_of(object->plan(), {.is_output = true, .index = index}));
  });
}

sinter_status sinter_executable_explain_json(const sinter_executable* executable,
                                             sinter_text** json, sinter_error** error) {
  return guarded(error, [&] {
    require(json, "json");
    *json = nullptr;
    const auto object = object_of<ExecutableObject>(executable);
    *json = text_handle(sinter::text_of(to_json(object->executable().compiled())));
  });
}

sinter_status sinter_executable_kernel_cuda(const sinter_executable* executable, size_t index,
                                            sinter_text** cuda, sinter_error** error) {
  return guarded(error, [&] {
    require(cuda, "cuda");
    *cuda = nullptr;
    const auto object = object_of<ExecutableObject>(executable);
    const auto& segments = object->executable().compiled().kernels;
    require_index(index, segments.size(), "kernel");
    *cuda = text_handle(segments[KernelId{static_cast<uint32_t>(index)}].source.text);
  });
}

sinter_status sinter_executable_release(sinter_executable* executable, sinter_error** error) {
  return guarded(error, [&] { release<ExecutableObject>(executable); });
}

}  // extern "C"

}  // namespace sinter::c_api
