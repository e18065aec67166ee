#include "examples/gpt2_norm_gradient.h"

#include "fusion_ir/composites.h"

namespace sinter::examples {

// n_embd of the checkpoint's config.json.
constexpr int64_t kHidden = 1600;

Fusion gpt2_norm_gradient() {
  FusionBuilder b("gpt2_norm_gradient");
  const Extent tokens = b.symbol("tokens", 16384);
  const ValueId x = b.input(DType::kBF16, {tokens, kHidden}, "x");
  const ValueId dy = b.input(DType::kBF16, {tokens, kHidden}, "dy");
  const ValueId weight = b.input(DType::kBF16, {kHidden}, "weight");
  const ValueId mean = b.input(DType::kF32, {tokens}, "mean");
  const ValueId rstd = b.input(DType::kF32, {tokens}, "rstd");

  const NormBackward norm = layer_norm_backward(
      b, dy, x, mean, rstd,
      {.output = DType::kBF16, .parameter_output = DType::kBF16, .weight = weight, .bias = true});
  b.output(norm.dx, "dx");
  b.output(*norm.dweight, "dweight");
  b.output(*norm.dbias, "dbias");
  return b.build();
}

}  // namespace sinter::examples
