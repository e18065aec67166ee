#include "fusion_ir/training_composites.h"

#include <limits>
#include <numbers>

#include "fusion_ir/composite_parts.h"

namespace sinter {

// Calls that append ops never stand side by side in one argument list, as in composites.cpp.

namespace {

using composite::finish;
using composite::number;
using composite::to_float;

/// Rotates by the angle, or back by it. Halves are joined before they are rounded.
enum class Rotation { kForward, kBack };
ValueId rotate(FusionBuilder& b, ValueId x, ValueId cos, ValueId sin, Rotation rotation) {
  const Shape shape = b.value(x).shape;
  const bool halves = !shape.empty() && shape.back().is_constant() && shape.back().constant() > 0 &&
                      shape.back().constant() % 2 == 0;
  if (!halves || shape.size() < 2) {
    throw_error({.kind = ErrorKind::kInvalidFusion,
                 .message = fmt::format("rotary embedding of {}",
                                        text_of(b.fusion(), composite::type_of(b, x), shape)),
                 .remedy = "give at least two axes, the last one of a constant even extent",
                 .values = {x}});
  }
  const int64_t half = shape.back().constant() / 2;
  const auto last = static_cast<int>(shape.size()) - 1;
  Shape half_shape = shape;
  half_shape.back() = half;
  std::vector<int64_t> start(shape.size(), 0);
  std::vector<int64_t> stop(shape.size(), -1);
  stop.back() = half;
  const ValueId first = to_float(b, b.slice(x, start, stop));
  start.back() = half;
  stop.back() = -1;
  const ValueId second = to_float(b, b.slice(x, start, stop));
  cos = b.broadcast(to_float(b, cos), half_shape, {0, last});
  sin = b.broadcast(to_float(b, sin), half_shape, {0, last});
  const ValueId first_cos = b.mul(first, cos);
  const ValueId second_sin = b.mul(second, sin);
  const ValueId second_cos = b.mul(second, cos);
  const ValueId first_sin = b.mul(first, sin);
  const bool forward = rotation == Rotation::kForward;
  const ValueId low = forward ? b.sub(first_cos, second_sin) : b.add(first_cos, second_sin);
  const ValueId high = forward ? b.add(second_cos, first_sin) : b.sub(second_cos, first_sin);
  return b.concatenate({low, high}, last);
}

/// d silu(x) / dx with s = sigmoid(x).
ValueId silu_slope(FusionBuilder& b, ValueId x, ValueId s) {
  const ValueId one = number(b, 1.0, x);
  const ValueId inner = b.add(b.mul(x, b.sub(one, s)), one);
  return b.mul(s, inner);
}

/// (1 + erf(x / sqrt(2))) / 2, the normal distribution.
ValueId normal_distribution(FusionBuilder& b, ValueId x) {
  const ValueId scaled = b.mul(x, number(b, 1.0 / std::numbers::sqrt2, x));
  const ValueId erf = b.pointwise(PointwiseFn::kErf, {scaled});
  return b.mul(b.add(erf, number(b, 1.0, x)), number(b, 0.5, x));
}

/// d gelu(x) / dx, given the distribution at x.
ValueId gelu_slope(FusionBuilder& b, ValueId x, ValueId distribution) {
  constexpr double kDensityScale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const ValueId square = b.mul(x, x);
  const ValueId density = b.exp(b.mul(square, number(b, -0.5, x)));
  const ValueId weighted = b.mul(x, density);
  return b.add(distribution, b.mul(weighted, number(b, kDensityScale, x)));
}

}  // namespace

ValueId rotary_embedding(FusionBuilder& b, ValueId x, ValueId cos, ValueId sin,
                         std::optional<DType> output) {
  return finish(b, rotate(b, x, cos, sin, Rotation::kForward), output);
}

ValueId rotary_embedding_backward(FusionBuilder& b, ValueId dy, ValueId cos, ValueId sin,
                                  std::optional<DType> output) {
  return finish(b, rotate(b, dy, cos, sin, Rotation::kBack), output);
}

ValueId relu_backward(FusionBuilder& b, ValueId dy, ValueId x, std::optional<DType> output) {
  dy = to_float(b, dy);
  x = to_float(b, x);
  const ValueId positive = b.pointwise(PointwiseFn::kGt, {x, number(b, 0.0, x)});
  return finish(b, b.select(positive, dy, number(b, 0.0, dy)), output);
}

ValueId silu_backward(FusionBuilder& b, ValueId dy, ValueId x, std::optional<DType> output) {
  dy = to_float(b, dy);
  x = to_float(b, x);
  const ValueId s = sigmoid(b, x);
  return finish(b, b.mul(dy, silu_slope(b, x, s)), output);
}

ValueId gelu_backward(FusionBuilder& b, ValueId dy, ValueId x, std::optional<DType> output) {
  dy = to_float(b, dy);
  x = to_float(b, x);
  const ValueId distribution = normal_distribution(b, x);
  return finish(b, b.mul(dy, gelu_slope(b, x, distribution)), output);
}

ValueId gelu_tanh_backward(FusionBuilder& b, ValueId dy, ValueId x, std::optional<DType> output) {
  constexpr double kCubic = 0.044715;
  constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  dy = to_float(b, dy);
  x = to_float(b, x);
  const ValueId one = number(b, 1.0, x);
  const ValueId square = b.mul(x, x);
  const ValueId cube = b.mul(square, x);
  const ValueId inner = b.add(x, b.mul(cube, number(b, kCubic, x)));
  const ValueId tanh = b.pointwise(PointwiseFn::kTanh, {b.mul(inner, number(b, kScale, x))});
  const ValueId half = number(b, 0.5, x);
  const ValueId direct = b.mul(b.add(tanh, one), half);
  const ValueId slope = b.sub(one, b.mul(tanh, tanh));
  const ValueId cubic = b.mul(square, number(b, 3.0 * kCubic * kScale, x));
  const ValueId inner_slope = b.add(cubic, number(b, kScale, x));
  const ValueId through_tanh = b.mul(b.mul(b.mul(x, half), slope), inner_slope);
  return finish(b, b.mul(dy, b.add(direct, through_tanh)), output);
}

ValueId geglu(FusionBuilder& b, ValueId gate, ValueId up, std::optional<DType> output) {
  const ValueId activated = gelu(b, gate);
  return finish(b, b.mul(activated, to_float(b, up)), output);
}

GatedBackward swiglu_backward(FusionBuilder& b, ValueId dy, ValueId gate, ValueId up,
                              std::optional<DType> output) {
  dy = to_float(b, dy);
  gate = to_float(b, gate);
  up = to_float(b, up);
  const ValueId s = sigmoid(b, gate);
  const ValueId dup = b.mul(dy, b.mul(gate, s));
  const ValueId dactivated = b.mul(dy, up);
  const ValueId dgate = b.mul(dactivated, silu_slope(b, gate, s));
  GatedBackward out{};
  out.dgate = finish(b, dgate, output);
  out.dup = finish(b, dup, output);
  return out;
}

GatedBackward geglu_backward(FusionBuilder& b, ValueId dy, ValueId gate, ValueId up,
                             std::optional<DType> output) {
  dy = to_float(b, dy);
  gate = to_float(b, gate);
  up = to_float(b, up);
  const ValueId distribution = normal_distribution(b, gate);
  const ValueId dup = b.mul(dy, b.mul(gate, distribution));
  const ValueId dactivated = b.mul(dy, up);
  const ValueId dgate = b.mul(dactivated, gelu_slope(b, gate, distribution));
  GatedBackward out{};
  out.dgate = finish(b, dgate, output);
  out.dup = finish(b, dup, output);
  return out;
}

ValueId scaled_masked_softmax(FusionBuilder& b, ValueId scores, double scale,
                              const MaskedSoftmaxOptions& options) {
  scores = to_float(b, scores);
  ValueId x = b.mul(scores, number(b, scale, scores));
  if (options.mask) {
    const ValueId hidden = number(b, -std::numeric_limits<double>::infinity(), x);
    x = b.select(*options.mask, x, hidden);
  }
  return softmax(b, x, -1, options.output);
}

ValueId scaled_masked_softmax_backward(FusionBuilder& b, ValueId dy, ValueId y, double scale,
                                       std::optional<DType> output) {
  const ValueId dx = softmax_backward(b, dy, y).dx;
  return finish(b, b.mul(dx, number(b, scale, dx)), output);
}

ValueId cross_entropy_backward(FusionBuilder& b, ValueId dloss, ValueId logits, ValueId labels,
                               const CrossEntropyBackwardOptions& options) {
  const Shape shape = b.value(logits).shape;
  const DType label_type = composite::type_of(b, labels);
  ValueId weight = to_float(b, dloss);
  if (options.ignored_label) {
    const ValueId ignored = b.constant_integer(*options.ignored_label, label_type);
    const ValueId counts = b.pointwise(PointwiseFn::kNe, {labels, ignored});
    weight = b.select(counts, weight, number(b, 0.0, weight));
  }
  const ValueId p = softmax(b, logits);
  const ValueId column = b.iota(shape, -1, label_type);
  const ValueId row_label = b.broadcast_over(labels, logits, {-1});
  const ValueId hit = b.pointwise(PointwiseFn::kEq, {column, row_label});
  const ValueId picked = b.sub(p, number(b, 1.0, p));
  const ValueId difference = b.select(hit, picked, p);
  const ValueId row_weight = b.broadcast_over(weight, logits, {-1});
  return finish(b, b.mul(difference, row_weight), options.output);
}

AdamStep adam_step(FusionBuilder& b, ValueId p, ValueId g, ValueId m, ValueId v,
                   const AdamScalars& scalars, const AdamOptions& options) {
  const DType p_type = composite::type_of(b, p);
  const DType m_type = composite::type_of(b, m);
  const DType v_type = composite::type_of(b, v);
  p = to_float(b, p);
  g = to_float(b, g);
  m = to_float(b, m);
  v = to_float(b, v);
  const ValueId kept_m = b.mul(m, number(b, options.beta1, m));
  m = b.add(kept_m, b.mul(g, number(b, 1.0 - options.beta1, g)));
  const ValueId kept_v = b.mul(v, number(b, options.beta2, v));
  const ValueId square = b.mul(g, g);
  v = b.add(kept_v, b.mul(square, number(b, 1.0 - options.beta2, square)));
  const ValueId direction = b.div(m, scalars.correction1);
  const ValueId root = b.sqrt(b.div(v, scalars.correction2));
  ValueId change = b.div(direction, b.add(root, number(b, options.epsilon, root)));
  if (options.weight_decay != 0.0) {
    change = b.add(change, b.mul(p, number(b, options.weight_decay, p)));
  }
  p = b.sub(p, b.mul(change, scalars.learning_rate));
  AdamStep out{};
  out.p = finish(b, p, p_type);
  out.m = finish(b, m, m_type);
  out.v = finish(b, v, v_type);
  return out;
}

}  // namespace sinter
