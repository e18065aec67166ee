#include "fusion_ir/composites.h"

#include <algorithm>
#include <numbers>

namespace sinter {

// Calls that append ops never stand side by side in one argument list: the order in which those are
// evaluated, and so the numbering of the graph, is the compiler's choice.

namespace {

/// x in the type arithmetic happens in; integers and bool in f32.
ValueId to_float(FusionBuilder& b, ValueId x) {
  const DType type = b.fusion().values[x].type;
  return b.cast(x, type == DType::kF64 ? DType::kF64 : DType::kF32);
}

DType type_of(const FusionBuilder& b, ValueId x) { return b.fusion().values[x].type; }

ValueId finish(FusionBuilder& b, ValueId x, std::optional<DType> output) {
  return output ? b.cast(x, *output) : x;
}

/// A scalar of x's type.
ValueId number(FusionBuilder& b, double value, ValueId x) {
  return b.constant(value, type_of(b, x));
}

/// The number of elements of x along the axes, in x's type; f64 keeps counts that f32 would round.
ValueId count(FusionBuilder& b, ValueId x, const std::vector<int>& axes) {
  const Shape& shape = b.fusion().values[x].shape;
  ExtentOp op;
  for (const int axis : axes) {
    const auto index = static_cast<size_t>(axis < 0 ? axis + static_cast<int>(shape.size()) : axis);
    op.extents.push_back(shape[index]);
  }
  if (axes.empty()) op.extents = shape;
  if (op.extents.empty()) return number(b, 1.0, x);
  return b.cast(b.append(std::move(op), {}, DType::kI64, {}).front(), type_of(b, x));
}

struct Shifted {
  ValueId max, difference, exp, sum;
};

/// max over the axes, x - max, its exponential and the sum of that.
Shifted shift_by_max(FusionBuilder& b, ValueId x, const std::vector<int>& axes) {
  const ValueId max = b.amax(x, axes);
  const ValueId difference = b.sub(x, b.broadcast_over(max, x, axes));
  const ValueId exp = b.exp(difference);
  return {.max = max, .difference = difference, .exp = exp, .sum = b.sum(exp, axes)};
}

/// The ascending, non-negative form of axes that broadcasts need.
std::vector<int> from_front(const FusionBuilder& b, ValueId x, std::vector<int> axes) {
  const auto rank = static_cast<int>(b.fusion().values[x].shape.size());
  for (int& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::ranges::sort(axes);
  return axes;
}

/// A parameter shaped like the normalised axes, repeated along the others.
ValueId along(FusionBuilder& b, ValueId parameter, ValueId x, const std::vector<int>& axes) {
  const Shape shape = b.fusion().values[x].shape;
  parameter = to_float(b, parameter);
  return b.broadcast(parameter, shape, from_front(b, x, axes));
}

}  // namespace

ValueId softmax(FusionBuilder& b, ValueId x, int axis, std::optional<DType> output) {
  x = to_float(b, x);
  const Shifted row = shift_by_max(b, x, {axis});
  return finish(b, b.div(row.exp, b.broadcast_over(row.sum, x, {axis})), output);
}

ValueId log_softmax(FusionBuilder& b, ValueId x, int axis, std::optional<DType> output) {
  x = to_float(b, x);
  const Shifted row = shift_by_max(b, x, {axis});
  const ValueId log_sum = b.broadcast_over(b.log(row.sum), x, {axis});
  return finish(b, b.sub(row.difference, log_sum), output);
}

ValueId logsumexp(FusionBuilder& b, ValueId x, std::vector<int> axes) {
  const Shifted row = shift_by_max(b, to_float(b, x), axes);
  return b.add(b.log(row.sum), row.max);
}

ValueId mean(FusionBuilder& b, ValueId x, std::vector<int> axes) {
  x = to_float(b, x);
  const ValueId sum = b.sum(x, axes);
  return b.div(sum, count(b, x, axes));
}

MeanVariance variance(FusionBuilder& b, ValueId x, std::vector<int> axes, double correction) {
  x = to_float(b, x);
  const ValueId center = mean(b, x, axes);
  const ValueId deviation = b.sub(x, b.broadcast_over(center, x, axes));
  const ValueId m2 = b.sum(b.mul(deviation, deviation), axes);
  const ValueId n = count(b, x, axes);
  const ValueId divisor = correction == 0.0 ? n : b.sub(n, number(b, correction, x));
  return {.mean = center, .variance = b.div(m2, divisor)};
}

LayerNorm layer_norm(FusionBuilder& b, ValueId x, const NormOptions& options) {
  x = to_float(b, x);
  const MeanVariance moments = variance(b, x, options.axes);
  const ValueId rstd = b.rsqrt(b.add(moments.variance, number(b, options.epsilon, x)));
  ValueId y = b.sub(x, b.broadcast_over(moments.mean, x, options.axes));
  y = b.mul(y, b.broadcast_over(rstd, x, options.axes));
  if (options.weight) y = b.mul(y, along(b, *options.weight, x, options.axes));
  if (options.bias) y = b.add(y, along(b, *options.bias, x, options.axes));
  return {.y = finish(b, y, options.output), .mean = moments.mean, .rstd = rstd};
}

RmsNorm rms_norm(FusionBuilder& b, ValueId x, const NormOptions& options) {
  x = to_float(b, x);
  const ValueId square_mean = mean(b, b.mul(x, x), options.axes);
  const ValueId rstd = b.rsqrt(b.add(square_mean, number(b, options.epsilon, x)));
  ValueId y = b.mul(x, b.broadcast_over(rstd, x, options.axes));
  if (options.weight) y = b.mul(y, along(b, *options.weight, x, options.axes));
  return {.y = finish(b, y, options.output), .rstd = rstd};
}

ValueId gelu(FusionBuilder& b, ValueId x, std::optional<DType> output) {
  x = to_float(b, x);
  const ValueId scaled = b.mul(x, number(b, 1.0 / std::numbers::sqrt2, x));
  const ValueId erf = b.pointwise(PointwiseFn::kErf, {scaled});
  const ValueId half = b.mul(x, number(b, 0.5, x));
  return finish(b, b.mul(half, b.add(erf, number(b, 1.0, x))), output);
}

ValueId gelu_tanh(FusionBuilder& b, ValueId x, std::optional<DType> output) {
  x = to_float(b, x);
  // sqrt(2 / pi) = sqrt(2) * (1 / sqrt(pi)).
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const ValueId cube = b.mul(b.mul(x, x), x);
  const ValueId inner = b.add(x, b.mul(cube, number(b, 0.044715, x)));
  const ValueId tanh = b.pointwise(PointwiseFn::kTanh, {b.mul(inner, number(b, scale, x))});
  const ValueId half = b.mul(x, number(b, 0.5, x));
  return finish(b, b.mul(half, b.add(tanh, number(b, 1.0, x))), output);
}

ValueId sigmoid(FusionBuilder& b, ValueId x, std::optional<DType> output) {
  x = to_float(b, x);
  const ValueId denominator = b.add(b.exp(b.neg(x)), number(b, 1.0, x));
  return finish(b, b.pointwise(PointwiseFn::kReciprocal, {denominator}), output);
}

ValueId silu(FusionBuilder& b, ValueId x, std::optional<DType> output) {
  x = to_float(b, x);
  return finish(b, b.mul(x, sigmoid(b, x)), output);
}

ValueId relu(FusionBuilder& b, ValueId x, std::optional<DType> output) {
  x = to_float(b, x);
  return finish(b, b.max(x, number(b, 0.0, x)), output);
}

ValueId softplus(FusionBuilder& b, ValueId x, std::optional<DType> output) {
  x = to_float(b, x);
  const ValueId tail = b.pointwise(PointwiseFn::kLog1p, {b.exp(b.neg(b.abs(x)))});
  return finish(b, b.add(relu(b, x), tail), output);
}

ValueId swiglu(FusionBuilder& b, ValueId gate, ValueId up, std::optional<DType> output) {
  const ValueId activated = silu(b, gate);
  return finish(b, b.mul(activated, to_float(b, up)), output);
}

ValueId residual_add(FusionBuilder& b, ValueId x, ValueId residual, std::optional<DType> output) {
  x = to_float(b, x);
  return finish(b, b.add(x, to_float(b, residual)), output);
}

ValueId cross_entropy(FusionBuilder& b, ValueId logits, ValueId labels) {
  const ValueId picked = to_float(b, b.take(logits, labels, -1));
  return b.sub(logsumexp(b, logits), picked);
}

ValueId kl_divergence(FusionBuilder& b, ValueId log_p, ValueId log_q) {
  log_p = to_float(b, log_p);
  const ValueId ratio = b.sub(log_p, to_float(b, log_q));
  return b.sum(b.mul(b.exp(log_p), ratio), {-1});
}

QuantizedRows dynamic_int8_quant(FusionBuilder& b, ValueId x) {
  constexpr double kLargest = 127.0;
  constexpr double kSmallestScale = 0x1p-126;
  x = to_float(b, x);
  const ValueId amax = b.amax(b.abs(x), {-1});
  const ValueId full_scale = b.div(amax, number(b, kLargest, x));
  const ValueId scale = b.max(full_scale, number(b, kSmallestScale, x));
  const ValueId ratio = b.div(x, b.broadcast_over(scale, x, {-1}));
  const ValueId rounded = b.pointwise(PointwiseFn::kRound, {ratio});
  const ValueId clamped =
      b.pointwise(PointwiseFn::kClamp, {rounded, number(b, -kLargest, x), number(b, kLargest, x)});
  return {.q = b.cast(clamped, DType::kI8), .scale = scale};
}

}  // namespace sinter
