#include "examples/llama_rms_norm.h"

#include "fusion_ir/composites.h"

namespace sinter::examples {

// hidden_size and rms_norm_eps of the checkpoint's config.json.
constexpr int64_t kHidden = 4096;
constexpr double kEpsilon = 1e-5;

Fusion llama_rms_norm() {
  FusionBuilder b("llama_rms_norm");
  const Extent tokens = b.symbol("tokens", 8192);
  const ValueId x = b.input(DType::kBF16, {tokens, kHidden}, "x");
  const ValueId residual = b.input(DType::kBF16, {tokens, kHidden}, "residual");
  const ValueId weight = b.input(DType::kBF16, {kHidden}, "weight");

  const ValueId h = residual_add(b, x, residual, DType::kBF16);
  const RmsNorm norm =
      rms_norm(b, h, {.epsilon = kEpsilon, .output = DType::kBF16, .weight = weight});
  b.output(h, "h");
  b.output(norm.y, "y");
  return b.build();
}

}  // namespace sinter::examples
