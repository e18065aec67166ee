#include "tests/support/uncompiled_plan.h"

#include "codegen/cuda/emit.h"

namespace sinter {

Result<CompiledPlan> uncompiled(Plan plan, const CompilePlanOptions& options) {
  CompiledPlan out{.plan = std::move(plan), .kernels = {}};
  for (const KernelPlan& segment : out.plan.kernels) {
    auto source = emit(segment.facts, segment.chosen().schedule, options.families);
    if (!source) return fail(source.error());
    auto kernel = std::make_shared<CompiledKernel>();
    kernel->entry = source->entry;
    kernel->cubin = "cubin";
    out.kernels.push_back({.chosen = segment.chosen(),
                           .source = std::move(*source),
                           .kernel = std::move(kernel),
                           .attempts = {}});
  }
  return out;
}

}  // namespace sinter
