#include "fusion_ir/composites.h"

#include <algorithm>
#include <numbers>

#include "fusion_ir/composite_parts.h"

namespace sinter {

// Calls that append ops never stand side by side in one argument list: the order in which those are
// evaluated, and so the numbering of the graph, is the compiler's choice.

namespace {

using composite::finish;
using composite::number;
using composite::to_float;
using composite::type_of;

/// The number of elements of x along the axes, in x's type; f64 keeps counts that f32 would round.
ValueId count(FusionBuilder& b, ValueId x, const std::vector<int>& axes) {
  const Shape& shape = b.value(x).shape;
  ExtentOp op;
  for (const int axis : b.axes_of(x, axes)) op.extents.push_back(shape[static_cast<size_t>(axis)]);
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

/// A parameter shaped like the normalised axes, repeated along the others.
ValueId along(FusionBuilder& b, ValueId parameter, ValueId x, const std::vector<int>& axes) {
  const Shape shape = b.value(x).shape;
  parameter = to_float(b, parameter);
  return b.broadcast(parameter, shape, b.axes_of(x, axes));
}

/// x summed over all axes but `kept`; x itself where those are all.
ValueId sum_over_others(FusionBuilder& b, ValueId x, const std::vector<int>& kept) {
  const auto rank = static_cast<int>(b.value(x).shape.size());
  const std::vector<int> front = b.axes_of(x, kept);
  std::vector<int> others;
  for (int axis = 0; axis < rank; ++axis) {
    if (!std::ranges::binary_search(front, axis)) others.push_back(axis);
  }
  // To a reduction, no axes mean all.
  return others.empty() ? x : b.sum(x, std::move(others));
}

/// What the gradients of both norms share: the gradient by x of the norm alone, then its residual,
/// its dropout and its parameters. `normal` is the normalised x.
struct NormGradient {
  ValueId dy, normal, dx;
};
NormBackward finish(FusionBuilder& b, const NormGradient& norm,
                    const NormBackwardOptions& options) {
  ValueId dx = norm.dx;
  if (options.residual) dx = b.add(dx, to_float(b, *options.residual));
  NormBackward out{.dx = finish(b, dx, options.output)};
  if (options.dropout_mask) {
    const ValueId passed = b.mul(dx, number(b, options.dropout_scale, dx));
    const ValueId branch = b.select(*options.dropout_mask, passed, number(b, 0.0, dx));
    out.dbranch = finish(b, branch, options.output);
  }
  if (options.weight) {
    const ValueId product = b.mul(norm.dy, norm.normal);
    out.dweight = finish(b, sum_over_others(b, product, options.axes), options.parameter_output);
  }
  return out;
}

/// The row-major number of each element, plus an offset. The innermost axis is added last, so that
/// all but one addition are done once per row.
ValueId element_numbers(FusionBuilder& b, const Shape& shape, ValueId offset) {
  ValueId number = offset;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis].is_one()) continue;
    const ValueId index = b.iota(shape, static_cast<int>(axis));
    const Shape inner(shape.begin() + static_cast<ptrdiff_t>(axis) + 1, shape.end());
    if (inner.empty()) {
      number = b.add(number, index);
    } else {
      const ValueId stride = b.append(ExtentOp{inner}, {}, DType::kI64, {}).front();
      number = b.add(number, b.mul(index, stride));
    }
  }
  return b.value(number).shape == shape ? number : b.broadcast(number, shape, {});
}

/// Throws unless p is a probability below 1.
void check_dropout(double p) {
  if (p >= 0.0 && p < 1.0) return;
  throw_error({.kind = ErrorKind::kInvalidFusion,
               .message = fmt::format("dropout with probability {}", p),
               .remedy = "give a probability of at least 0 and below 1"});
}

/// x * (1 / (1 - p)) where kept, else 0; both of dropout's directions.
ValueId drop(FusionBuilder& b, ValueId x, double p, ValueId keep, std::optional<DType> output) {
  x = to_float(b, x);
  const ValueId scaled = b.mul(x, number(b, 1.0 / (1.0 - p), x));
  return finish(b, b.select(keep, scaled, number(b, 0.0, x)), output);
}

/// What the largest magnitude of a row becomes.
double largest_quantized(DType type) {
  if (type == DType::kF8E4M3 || type == DType::kF8E5M2 || type == DType::kI8) {
    return largest_finite(type);
  }
  throw_error({.kind = ErrorKind::kInvalidFusion,
               .message = fmt::format("quantisation to {}", type),
               .remedy = "quantise to f8e4m3, f8e5m2 or i8"});
}

ValueId dropout_mask(FusionBuilder& b, const Shape& shape, double p, ValueId seed, ValueId offset) {
  check_dropout(p);
  const ValueId random = uniform(b, shape, seed, offset);
  return b.pointwise(PointwiseFn::kGe, {random, number(b, p, random)});
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

MeanVariance batch_statistics(FusionBuilder& b, ValueId x, int channel_axis, double correction) {
  const int channel = b.axes_of(x, {channel_axis}).front();
  const auto rank = static_cast<int>(b.value(x).shape.size());
  std::vector<int> others;
  for (int axis = 0; axis < rank; ++axis) {
    if (axis != channel) others.push_back(axis);
  }
  if (others.empty()) {  // Which would mean all axes.
    throw_error({.kind = ErrorKind::kInvalidFusion,
                 .message = fmt::format("{} has no axis beside its channels", x),
                 .remedy = "give at least two axes",
                 .values = {x}});
  }
  return variance(b, x, std::move(others), correction);
}

ValueId dyt(FusionBuilder& b, ValueId x, ValueId alpha, const DytOptions& options) {
  x = to_float(b, x);
  ValueId y = b.pointwise(PointwiseFn::kTanh, {b.mul(x, alpha)});
  if (options.weight) y = b.mul(y, along(b, *options.weight, x, {-1}));
  if (options.bias) y = b.add(y, along(b, *options.bias, x, {-1}));
  return finish(b, y, options.output);
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

ValueId uniform(FusionBuilder& b, const Shape& shape, ValueId seed, ValueId offset) {
  return b.pointwise(PointwiseFn::kPhiloxUniform, {seed, element_numbers(b, shape, offset)});
}

Dropout dropout(FusionBuilder& b, ValueId x, double p, ValueId seed, ValueId offset,
                std::optional<DType> output) {
  const Shape shape = b.value(x).shape;
  const ValueId keep = dropout_mask(b, shape, p, seed, offset);
  return {.y = drop(b, x, p, keep, output), .keep = keep};
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

RowLoss with_total(FusionBuilder& b, ValueId row_loss) {
  return {.rows = row_loss, .total = b.sum(row_loss, {})};
}

ValueId quantize(FusionBuilder& b, ValueId x, ValueId scale, DType type) {
  const double largest = largest_quantized(type);
  x = to_float(b, x);
  const ValueId ratio = b.div(x, scale);
  // A cast to f8 rounds and saturates like this by itself.
  if (type != DType::kI8) return b.cast(ratio, type);
  const ValueId rounded = b.pointwise(PointwiseFn::kRound, {ratio});
  const ValueId least = number(b, -largest, ratio);
  const ValueId most = number(b, largest, ratio);
  return b.cast(b.pointwise(PointwiseFn::kClamp, {rounded, least, most}), type);
}

Quantized quantize_per_row(FusionBuilder& b, ValueId x, const QuantizeOptions& options) {
  const double largest = largest_quantized(options.type);
  x = to_float(b, x);
  const ValueId amax = b.amax(b.abs(x), {-1});
  const ValueId full_scale = b.div(amax, number(b, largest, x));
  const ValueId scale = b.max(full_scale, number(b, options.smallest_scale, x));
  return {.q = quantize(b, x, b.broadcast_over(scale, x, {-1}), options.type), .scale = scale};
}

Quantized quantize_per_group(FusionBuilder& b, ValueId x, RowGroups groups,
                             const QuantizeOptions& options) {
  const Shape shape = b.value(x).shape;
  Shape split = shape;
  if (!split.empty()) split.pop_back();
  split.insert(split.end(), {groups.count, groups.size});
  Quantized out = quantize_per_row(b, b.reshape(x, split), options);
  out.q = b.reshape(out.q, shape);
  return out;
}

ValueId bias_gradient(FusionBuilder& b, ValueId dy, std::vector<int> axes,
                      std::optional<DType> output) {
  return finish(b, sum_over_others(b, to_float(b, dy), axes), output);
}

NormBackward layer_norm_backward(FusionBuilder& b, ValueId dy, ValueId x, ValueId mean,
                                 ValueId rstd, const NormBackwardOptions& options) {
  const std::vector<int>& axes = options.axes;
  dy = to_float(b, dy);
  x = to_float(b, x);
  const ValueId row_rstd = b.broadcast_over(to_float(b, rstd), x, axes);
  const ValueId centered = b.sub(x, b.broadcast_over(to_float(b, mean), x, axes));
  const ValueId normal = b.mul(centered, row_rstd);
  const ValueId g = options.weight ? b.mul(dy, along(b, *options.weight, x, axes)) : dy;
  const ValueId mean_g = b.broadcast_over(sinter::mean(b, g, axes), x, axes);
  const ValueId mean_product = b.broadcast_over(sinter::mean(b, b.mul(g, normal), axes), x, axes);
  const ValueId along_normal = b.mul(normal, mean_product);
  const ValueId dx = b.mul(b.sub(b.sub(g, mean_g), along_normal), row_rstd);
  NormBackward out = finish(b, {.dy = dy, .normal = normal, .dx = dx}, options);
  if (options.bias) out.dbias = bias_gradient(b, dy, axes, options.parameter_output);
  return out;
}

NormBackward rms_norm_backward(FusionBuilder& b, ValueId dy, ValueId x, ValueId rstd,
                               const NormBackwardOptions& options) {
  const std::vector<int>& axes = options.axes;
  dy = to_float(b, dy);
  x = to_float(b, x);
  const ValueId row_rstd = b.broadcast_over(to_float(b, rstd), x, axes);
  const ValueId normal = b.mul(x, row_rstd);
  const ValueId g = options.weight ? b.mul(dy, along(b, *options.weight, x, axes)) : dy;
  const ValueId mean_product = b.broadcast_over(mean(b, b.mul(g, normal), axes), x, axes);
  const ValueId along_normal = b.mul(normal, mean_product);
  const ValueId dx = b.mul(b.sub(g, along_normal), row_rstd);
  return finish(b, {.dy = dy, .normal = normal, .dx = dx}, options);
}

ValueId dropout_backward(FusionBuilder& b, ValueId dy, double p, ValueId seed, ValueId offset,
                         std::optional<DType> output) {
  const Shape shape = b.value(dy).shape;
  return drop(b, dy, p, dropout_mask(b, shape, p, seed, offset), output);
}

SoftmaxBackward softmax_backward(FusionBuilder& b, ValueId dy, ValueId y,
                                 const SoftmaxBackwardOptions& options) {
  y = to_float(b, y);
  dy = to_float(b, dy);
  const ValueId dot = b.sum(b.mul(y, dy), {options.axis});
  const ValueId dx = b.mul(y, b.sub(dy, b.broadcast_over(dot, y, {options.axis})));
  SoftmaxBackward out{.dx = finish(b, dx, options.output)};
  if (options.bias) out.dbias = bias_gradient(b, dx, {options.axis}, options.parameter_output);
  return out;
}

DytBackward dyt_backward(FusionBuilder& b, ValueId dy, ValueId x, ValueId alpha,
                         const DytBackwardOptions& options) {
  dy = to_float(b, dy);
  x = to_float(b, x);
  const ValueId t = b.pointwise(PointwiseFn::kTanh, {b.mul(x, alpha)});
  const ValueId g = options.weight ? b.mul(dy, along(b, *options.weight, x, {-1})) : dy;
  const ValueId slope = b.sub(number(b, 1.0, t), b.mul(t, t));
  const ValueId s = b.mul(g, slope);
  const ValueId dx = finish(b, b.mul(s, alpha), options.output);
  const ValueId dalpha = b.sum(b.mul(s, x), {});
  DytBackward out{.dx = dx, .dalpha = dalpha, .dbias = {}};
  if (options.weight) out.dweight = bias_gradient(b, b.mul(dy, t), {-1}, options.parameter_output);
  out.dbias = bias_gradient(b, dy, {-1}, options.parameter_output);
  return out;
}

}  // namespace sinter
