#include <algorithm>

#include "codegen/lower/interruptible_lowering.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/progress.h"
#include "runtime/c_api/runtime_object.h"
#include "runtime/c_api/structs.h"
#include "runtime/c_api/text.h"
#include "runtime/json/plan_json.h"

namespace sinter::c_api {
namespace {

/// A plan's kernels. It is not changed once it has a handle.
struct CompiledObject {
  static constexpr HandleKind kKind = HandleKind::kCompiled;
  using Handle = sinter_compiled;
  CompiledPlan plan;
};

CompilePlanOptions options_from(const sinter_compile_options* options) {
  const auto given = read_struct(options, "options");
  if (given.threads < 0) bad_argument("a negative number of threads", "leave it at 0 for one");
  CompilePlanOptions out;
  if (given.threads > 0) out.threads = given.threads;
  if (flag(given.forbid_replanning, "options.forbid_replanning")) out.max_replans = 0;
  out.families = interruptible_lowering(
      std::move(out.families),
      interruption_from(given.progress, given.progress_data, given.budget_seconds));
  return out;
}

const KernelBuild& kernel_of(const CompiledObject& object, size_t index) {
  require_index(index, object.plan.kernels.size(), "kernel");
  return object.plan.kernels[KernelId{static_cast<uint32_t>(index)}];
}

}  // namespace

extern "C" {

sinter_status sinter_plan_compile(sinter_runtime* runtime, const sinter_plan* plan,
                                  const sinter_compile_options* options, sinter_compiled** compiled,
                                  sinter_error** error) {
  return guarded(error, [&] {
    require(compiled, "compiled");
    *compiled = nullptr;
    const auto with = object_of<RuntimeObject>(runtime);
    const auto planned = object_of<PlanObject>(plan);
    *compiled =
        make_handle(CompiledObject{taken(with->compile(planned->plan, options_from(options)))});
  });
}

sinter_status sinter_compiled_describe(const sinter_compiled* compiled, sinter_compiled_info* info,
                                       sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<CompiledObject>(compiled);
    const auto& kernels = object->plan.kernels;
    const auto is_new = [](const KernelBuild& kernel) {
      return kernel.origin == KernelOrigin::kCompiled;
    };
    fill_struct(info, "info",
                {.struct_size = sizeof(sinter_compiled_info),
                 .kernel_count = kernels.size(),
                 .compiled_count = static_cast<size_t>(std::ranges::count_if(kernels, is_new)),
                 .predicted_us = plan_as_compiled(object->plan).predicted_us()});
  });
}

sinter_status sinter_compiled_kernel(const sinter_compiled* compiled, size_t index,
                                     sinter_compiled_kernel_info* info, sinter_error** error) {
  return guarded(error, [&] {
    const auto object = object_of<CompiledObject>(compiled);
    const KernelBuild& kernel = kernel_of(*object, index);
    const CompiledResources& resources = kernel.kernel->resources;
    fill_struct(info, "info",
                {.struct_size = sizeof(sinter_compiled_kernel_info),
                 .entry = kernel.source.entry.c_str(),
                 .architecture = kernel.kernel->architecture.c_str(),
                 .cubin = kernel.kernel->cubin.data(),
                 .cubin_bytes = kernel.kernel->cubin.size(),
                 .registers = resources.registers,
                 .spill_store_bytes = resources.spill_store_bytes,
                 .spill_load_bytes = resources.spill_load_bytes,
                 .stack_bytes = resources.stack_bytes,
                 .shared_bytes = resources.shared_bytes,
                 .threads = kernel.source.threads,
                 .predicted_us = kernel.chosen.predicted.total_us});
  });
}

sinter_status sinter_compiled_kernel_cuda(const sinter_compiled* compiled, size_t index,
                                          sinter_text** cuda, sinter_error** error) {
  return guarded(error, [&] {
    require(cuda, "cuda");
    *cuda = nullptr;
    const auto object = object_of<CompiledObject>(compiled);
    *cuda = text_handle(kernel_of(*object, index).source.text);
  });
}

sinter_status sinter_compiled_explain_json(const sinter_compiled* compiled, sinter_text** json,
                                           sinter_error** error) {
  return guarded(error, [&] {
    require(json, "json");
    *json = nullptr;
    *json = text_handle(sinter::text_of(to_json(object_of<CompiledObject>(compiled)->plan)));
  });
}

sinter_status sinter_compiled_release(sinter_compiled* compiled, sinter_error** error) {
  return guarded(error, [&] { release<CompiledObject>(compiled); });
}

}  // extern "C"

}  // namespace sinter::c_api
