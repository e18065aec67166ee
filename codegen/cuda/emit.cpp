#include "codegen/cuda/emit.h"

#include <algorithm>
#include <array>

#include "codegen/cuda/cuda_emitter.h"
#include "codegen/lower/lower_multi_tensor.h"
#include "codegen/lower/lower_pipeline.h"
#include "codegen/lower/lower_program.h"
#include "codegen/lower/lower_rows.h"
#include "codegen/lower/lower_transpose.h"
#include "scheduler/families/multi_tensor.h"
#include "scheduler/families/transpose.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/pipeline.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {
namespace {

/// Adds the statements of a programmatic dependent launch to the start of a kernel.
void order_launches(kir::Kernel& kernel, DependentLaunch overlap) {
  const auto first = [&](kir::StmtKind kind) {
    kernel.body.insert(kernel.body.begin(), kernel.stmts.push_back({std::move(kind)}));
  };
  // Of kPreload the lowering has the wait.
  const bool triggers = overlap == DependentLaunch::kTrigger || overlap == DependentLaunch::kRelay;
  if (triggers) first(kir::LaunchDependents{});
  if (waits(overlap) && overlap != DependentLaunch::kPreload) first(kir::WaitForPrevious{});
}

/// The lowering of a built-in family. The scheduler, one layer down, registers the families without
/// their lowerings.
struct Lowering {
  std::string_view family;
  LoweredKernel (*lower)(const SegmentFacts&, const Schedule&);
};

constexpr std::array kLowerings = {
    Lowering{.family = kPointwise, .lower = lower_pointwise},
    Lowering{.family = kTranspose, .lower = lower_transpose},
    Lowering{.family = kMultiTensor, .lower = lower_multi_tensor},
    Lowering{.family = kColumn, .lower = lower_columns},
    Lowering{.family = kLooped, .lower = lower_rows},
    Lowering{.family = kMultiWave, .lower = lower_rows},
    Lowering{.family = kWarpSpecialised, .lower = lower_pipeline},
    Lowering{.family = kMatmul, .lower = lower_matmul},
};

}  // namespace

FamilySet builtin_families() {
  FamilySet families = scheduling_families();
  for (const Lowering& lowering : kLowerings) {
    const auto family = std::ranges::find(families, lowering.family, &Family::name);
    SINTER_CHECK(family != families.end(), "a lowering of no family that is built in");
    family->lower = lowering.lower;
  }
  for (const Family& family : families)
    SINTER_CHECK(family.lower != nullptr, "a family that is built in has no lowering");
  return families;
}

Result<LoweredKernel> lower(const SegmentFacts& facts, const Schedule& schedule,
                            const FamilySet& families, const KernelPassOptions& options) {
  const Family* family = find_family(families, schedule.family);
  if (family != nullptr && family->call) {
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = fmt::format("'{}' is a library, which has the kernel", schedule.family),
                 .remedy = "pin the family matmul for a kernel of Sinter's"});
  }
  if (family == nullptr || !family->lower) {
    return fail(
        {.kind = ErrorKind::kUnsupported,
         .message = fmt::format(
             "the family '{}' {}", schedule.family,
             family == nullptr ? "is not in the set" : "only schedules and cannot lower"),
         .remedy = "pass builtin_families(), or a set that holds the family with its lowering"});
  }
  return as_result([&]() -> Result<LoweredKernel> {
    LoweredKernel lowered = family->lower(facts, schedule);
    order_launches(lowered.kernel, schedule.dependent_launch);
    lowered.kernel = run_kernel_passes(std::move(lowered.kernel), options);
    return lowered;
  });
}

namespace {

KernelSource source_of_call(LibraryMatmul call) {
  KernelSource out;
  out.entry = "cublasLtMatmul";
  out.text = fmt::format("// cublasLtMatmul: {}\n", text_of(call));
  const auto add = [&](const LibraryMatrix& matrix, BufferUse use) {
    out.buffers.push_back({.value = matrix.value,
                           .type = matrix.type,
                           .use = use,
                           .alignment = bytes_of(matrix.type)});
  };
  add(call.a, BufferUse::kRead);
  add(call.b, BufferUse::kRead);
  if (call.c) add(*call.c, BufferUse::kRead);
  if (call.bias) add(*call.bias, BufferUse::kRead);
  add(call.d, BufferUse::kWrite);
  out.buffers.push_back({.value = {}, .type = DType::kI8, .use = BufferUse::kReadWrite});
  out.call = std::move(call);
  return out;
}

}  // namespace

Result<KernelSource> emit(const SegmentFacts& facts, const Schedule& schedule,
                          const FamilySet& families) {
  if (is_library_call(families, schedule.family)) {
    return as_result([&]() -> Result<KernelSource> {
      return source_of_call(find_family(families, schedule.family)->call(facts, schedule));
    });
  }
  auto lowered = lower(facts, schedule, families);
  if (!lowered) return fail(lowered.error());
  return as_result([&]() -> Result<KernelSource> { return make_kernel_source(*lowered); });
}

}  // namespace sinter
