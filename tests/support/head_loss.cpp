#include "tests/support/head_loss.h"

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"

namespace sinter {

Fusion head_loss(const HeadLossOptions& options) {
  constexpr double kCap = 30.0;
  constexpr double kSmoothing = 0.1;
  constexpr double kZLoss = 1e-4;
  FusionBuilder b("head_loss");
  const Extent m = b.symbol("M");
  const Extent k = b.symbol("K");
  const Extent n = b.symbol("N");
  const ValueId x = b.input(DType::kBF16, {m, k}, "x");
  const ValueId w = b.input(DType::kBF16, {n, k}, "w");
  const ValueId labels = b.input(DType::kI64, {m}, "labels");
  ValueId logits = b.cast(b.cast(b.linear(x, w), DType::kBF16), DType::kF32);
  if (options.bias) logits = b.add(logits, b.input(DType::kBF16, {n}, "bias"));
  const auto scaled = [&](ValueId value, double by) { return b.mul(value, b.constant(by)); };
  if (options.softcap)
    logits = scaled(b.pointwise(PointwiseFn::kTanh, {scaled(logits, 1.0 / kCap)}), kCap);
  const ValueId lse = logsumexp(b, logits);
  ValueId loss = b.sub(lse, b.take(logits, labels, 1));
  if (options.smoothing) {
    const ValueId uniform = b.sub(lse, mean(b, logits, {1}));
    loss = b.add(scaled(loss, 1.0 - kSmoothing), scaled(uniform, kSmoothing));
  }
  if (options.z_loss) loss = b.add(loss, scaled(b.mul(lse, lse), kZLoss));
  if (options.weights) {
    const ValueId weights = b.broadcast(b.input(DType::kF32, {n}, "weights"), {m, n}, {1});
    loss = b.mul(loss, b.take(weights, labels, 1));
  }
  b.output(options.mean ? mean(b, loss, {0}) : loss, "loss");
  return b.build();
}

std::vector<NamedHeadLoss> head_losses() {
  return {{"plain", {}},
          {"bias", {.bias = true}},
          {"softcap", {.softcap = true}},
          {"smoothing", {.smoothing = true}},
          {"z_loss", {.z_loss = true}},
          {"weights", {.weights = true}},
          {"mean", {.mean = true}},
          {"all",
           {.bias = true,
            .softcap = true,
            .smoothing = true,
            .z_loss = true,
            .weights = true,
            .mean = true}}};
}

}  // namespace sinter
