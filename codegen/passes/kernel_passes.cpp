#include "codegen/passes/kernel_passes.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "codegen/kernel/kernel_verifier.h"
#include "codegen/passes/canonicalize.h"
#include "codegen/passes/choose_reciprocals.h"
#include "codegen/passes/lower_reductions.h"
#include "codegen/passes/pack_maxima.h"
#include "codegen/passes/place_shared_buffers.h"
#include "codegen/passes/predicate_loads.h"
#include "codegen/passes/remove_dead_statements.h"
#include "codegen/passes/share_random_rounds.h"
#include "codegen/passes/split_vector_accesses.h"
#include "codegen/passes/take_fast_paths.h"
#include "fusion_ir/error.h"

namespace sinter {
namespace {

constexpr std::array kPasses = {
    KernelPass{"remove_dead_statements", remove_dead_statements,
               "first, so that nothing is lowered for a value that nobody reads"},
    KernelPass{"lower_reductions", lower_reductions,
               "before placement, because it adds shared scratch"},
    KernelPass{"split_vector_accesses", split_vector_accesses,
               "after all passes that add accesses"},
    KernelPass{"place_shared_buffers", place_shared_buffers,
               "after all passes that add shared buffers"},
    KernelPass{"pack_maxima", pack_maxima,
               "after lowering, so that the loops of reductions are there to see"},
    KernelPass{"take_fast_paths", take_fast_paths,
               "after pack_maxima, because it copies loops that are no packed maxima"},
    KernelPass{"share_random_rounds", share_random_rounds,
               "after take_fast_paths, which leaves loops alone that draw random numbers"},
    KernelPass{"predicate_loads", predicate_loads,
               "after split_vector_accesses, which splits loads where they stand"},
    KernelPass{"choose_reciprocals", choose_reciprocals, "after all passes that add expressions"},
    KernelPass{"canonicalize", canonicalize,
               "last, because the others leave unused expressions and statements behind"},
};

void check(const kir::Kernel& kernel, KernelStage stage, std::string_view after) {
  const std::vector<KernelViolation> violations = verify_kernel(kernel, stage);
  if (violations.empty()) return;
  std::string text;
  for (const KernelViolation& violation : violations) {
    text += fmt::format("\n  {}: {}", violation.where, violation.message);
  }
  throw_error({.kind = ErrorKind::kInternalError,
               .message = fmt::format("kernel {} does not verify {}", kernel.name, after),
               .log = text});
}

}  // namespace

std::span<const KernelPass> kernel_passes() { return kPasses; }

kir::Kernel run_kernel_passes(kir::Kernel kernel, const KernelPassOptions& options) {
  if (options.verify) check(kernel, KernelStage::kBuilt, "before the first pass");
  for (size_t i = 0; i < kPasses.size() && i < options.stop_after; ++i) {
    const KernelPass& pass = kPasses[i];
    kir::Kernel result = pass.function(kernel);
    const bool is_last = i + 1 == kPasses.size();
    if (options.verify) {
      check(result, is_last ? KernelStage::kLowered : KernelStage::kBuilt,
            fmt::format("after {}", pass.name));
    }
    const bool changed = !(result == kernel);
    kernel = std::move(result);
    if (changed && options.dump) options.dump(pass.name, kernel);
  }
  return kernel;
}

}  // namespace sinter
