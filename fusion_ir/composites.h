#pragma once

#include <optional>
#include <vector>

#include "fusion_ir/fusion_builder.h"

namespace sinter {

// Formulas of several ops. They leave no trace in the graph: a formula written out by hand becomes
// the same graph and gets the same schedule.
//
// Storage types are cast to f32 first, and results are f32 (f64 from f64) unless `output` names a
// type to cast them to. Axes may be negative, counting from the end.

/// exp(x - max) / sum(exp(x - max)), max and sum over `axis`. Shape of x.
ValueId softmax(FusionBuilder& b, ValueId x, int axis = -1, std::optional<DType> output = {});
/// (x - max) - log(sum(exp(x - max))). Shape of x.
ValueId log_softmax(FusionBuilder& b, ValueId x, int axis = -1, std::optional<DType> output = {});
/// log(sum(exp(x - max))) + max over `axes`; no axes means all. Shape of x without them.
ValueId logsumexp(FusionBuilder& b, ValueId x, std::vector<int> axes = {-1});

/// sum(x) / n over `axes`, n elements each; no axes means all. Shape of x without them. NaN over no
/// elements.
ValueId mean(FusionBuilder& b, ValueId x, std::vector<int> axes = {-1});
struct MeanVariance {
  ValueId mean, variance;
};
/// Mean, and sum((x - mean)^2) / (n - correction): 0 divides by n, 1 gives the unbiased estimate.
MeanVariance variance(FusionBuilder& b, ValueId x, std::vector<int> axes = {-1},
                      double correction = 0.0);

struct NormOptions {
  double epsilon = 1e-5;            ///< Added under the root.
  std::optional<DType> output{};    ///< Of y alone; statistics stay f32.
  std::optional<ValueId> weight{};  ///< Scales y; shape of the normalised axes.
  std::optional<ValueId> bias{};    ///< Added last; layer_norm only.
  std::vector<int> axes = {-1};     ///< What to normalise over.
};
struct LayerNorm {
  ValueId y, mean, rstd;
};
/// rstd = 1 / sqrt(variance + epsilon), y = (x - mean) * rstd * weight + bias. y has the shape of
/// x, mean and rstd that of x without the axes.
LayerNorm layer_norm(FusionBuilder& b, ValueId x, const NormOptions& options = {});
struct RmsNorm {
  ValueId y, rstd;
};
/// rstd = 1 / sqrt(mean(x^2) + epsilon), y = x * rstd * weight.
RmsNorm rms_norm(FusionBuilder& b, ValueId x, const NormOptions& options = {});

/// Mean and variance of each channel, over all axes but `channel_axis`: what batch norm needs.
/// Ioffe and Szegedy, arXiv 1502.03167.
MeanVariance batch_statistics(FusionBuilder& b, ValueId x, int channel_axis = -1,
                              double correction = 0.0);

struct DytOptions {
  std::optional<DType> output{};    ///< Of y.
  std::optional<ValueId> weight{};  ///< Scales y; shape of the last axis.
  std::optional<ValueId> bias{};    ///< Added last; shape of the last axis.
};
/// Dynamic tanh: y = tanh(alpha * x) * weight + bias, alpha a scalar. Shape of x. Zhu et al.,
/// "Transformers without normalization", arXiv 2503.10622.
ValueId dyt(FusionBuilder& b, ValueId x, ValueId alpha, const DytOptions& options = {});

/// x / 2 * (1 + erf(x / sqrt(2))).
ValueId gelu(FusionBuilder& b, ValueId x, std::optional<DType> output = {});
/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))); Hendrycks and Gimpel, arXiv 1606.08415.
ValueId gelu_tanh(FusionBuilder& b, ValueId x, std::optional<DType> output = {});
/// 1 / (1 + exp(-x)).
ValueId sigmoid(FusionBuilder& b, ValueId x, std::optional<DType> output = {});
/// x * sigmoid(x).
ValueId silu(FusionBuilder& b, ValueId x, std::optional<DType> output = {});
/// max(x, 0).
ValueId relu(FusionBuilder& b, ValueId x, std::optional<DType> output = {});
/// log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|)), which does not overflow.
ValueId softplus(FusionBuilder& b, ValueId x, std::optional<DType> output = {});
/// silu(gate) * up.
ValueId swiglu(FusionBuilder& b, ValueId gate, ValueId up, std::optional<DType> output = {});
/// x + residual, added in f32.
ValueId residual_add(FusionBuilder& b, ValueId x, ValueId residual,
                     std::optional<DType> output = {});

/// Random numbers in [0, 1), multiples of 2^-24 as f32: philox_uniform of the seed, an i64 scalar,
/// and of the element's row-major number plus `offset`, another one. Calls whose numbers shall be
/// independent take offsets apart by at least the number of elements, or other seeds.
ValueId uniform(FusionBuilder& b, const Shape& shape, ValueId seed, ValueId offset);
struct Dropout {
  ValueId y;     ///< keep ? x * (1 / (1 - p)) : 0. Shape of x.
  ValueId keep;  ///< bool: uniform(shape of x, seed, offset) >= p.
};
/// Zeroes each element with probability p, 0 <= p < 1, and scales the others so that the mean
/// stays. Srivastava et al., JMLR 15, 2014. Throws an InvalidFusion error for another p.
Dropout dropout(FusionBuilder& b, ValueId x, double p, ValueId seed, ValueId offset,
                std::optional<DType> output = {});

/// logsumexp(logits) - logits[label] over the last axis. `labels` is i32 or i64, shaped like logits
/// without that axis; a label outside it picks 0.
ValueId cross_entropy(FusionBuilder& b, ValueId logits, ValueId labels);
/// sum over the last axis of exp(log_p) * (log_p - log_q): KL(p || q) of log probabilities.
ValueId kl_divergence(FusionBuilder& b, ValueId log_p, ValueId log_q);

struct RowLoss {
  ValueId rows, total;
};
/// A loss per row together with the sum of all of them, a scalar; divide it to average.
RowLoss with_total(FusionBuilder& b, ValueId row_loss);

// Symmetric quantisation to 8 bits: f8e4m3, f8e5m2 or i8; another type throws an InvalidFusion
// error. x is about q * scale. What rounds beyond the largest value saturates there: 448 and 57344
// for the floats (OCP 8-bit Floating Point Specification 1.0, saturating conversion; PTX ISA, cvt
// with .satfinite), 127 for i8, whose -128 is not used. Everything rounds to nearest, ties to even,
// subnormals of the floats included. NaN stays NaN in a float and is 0 in i8.

/// x / scale as `type`. The shape of `scale` broadcasts to that of x. An infinity over a finite
/// scale saturates, over an infinite one it is NaN.
ValueId quantize(FusionBuilder& b, ValueId x, ValueId scale, DType type);

struct QuantizeOptions {
  DType type = DType::kI8;
  /// Least scale. The default, the smallest normal f32, keeps rows of zeros from dividing by zero.
  double smallest_scale = 0x1p-126;
};
struct Quantized {
  ValueId q, scale;
};
/// Quantisation with a scale per row (last axis): scale = max(max|x| / largest, smallest_scale),
/// q = quantize(x, scale). Shape of x; shape of x without the last axis. A row with a NaN has a NaN
/// for scale, so that all of it is NaN (i8: 0). In a row with an infinity the scale is infinite,
/// what was finite is 0 and the infinities are NaN (i8: 0).
Quantized quantize_per_row(FusionBuilder& b, ValueId x, const QuantizeOptions& options = {});
/// The last axis as `count` groups of `size` neighbours.
struct RowGroups {
  Extent count, size;
};
/// The same with a scale per group: scale has the shape of x without the last axis, and
/// `groups.count` behind it.
Quantized quantize_per_group(FusionBuilder& b, ValueId x, RowGroups groups,
                             const QuantizeOptions& options = {});

// Gradients. dy is the gradient of a scalar by the result y of the formula, dx that by its operand
// x. Arithmetic is in f32 (f64) from the inputs to each result, which is rounded once. The gradient
// of a parameter that broadcasts is a sum over the axes along which it was repeated.

/// Sum of dy over all axes but `axes`, those of the bias: the gradient of what was added to every
/// row. Shape of dy along `axes`; dy itself (cast) where those are all.
ValueId bias_gradient(FusionBuilder& b, ValueId dy, std::vector<int> axes = {-1},
                      std::optional<DType> output = {});

/// For a norm of x = residual + dropout(branch), as transformer blocks compute it.
struct NormBackwardOptions {
  std::optional<DType> output{};            ///< Of dx and dbranch.
  std::optional<DType> parameter_output{};  ///< Of dweight and dbias.
  std::optional<ValueId> weight{};          ///< The forward's; shape of the normalised axes.
  bool bias = false;                        ///< Asks for dbias; layer norm only.
  /// A second gradient of x, from a path around the norm, added to dx. Shape of x.
  std::optional<ValueId> residual{};
  /// What dropout let pass: bool, shape of x. Asks for dbranch.
  std::optional<ValueId> dropout_mask{};
  double dropout_scale = 1.0;    ///< 1 / (1 - p) for dropout with probability p.
  std::vector<int> axes = {-1};  ///< What the forward normalised over.
};
struct NormBackward {
  ValueId dx;                        ///< Shape of x.
  std::optional<ValueId> dbranch{};  ///< mask ? dx * dropout_scale : 0. Shape of x.
  std::optional<ValueId> dweight{};  ///< Shape of the normalised axes; if there is a weight.
  std::optional<ValueId> dbias{};    ///< Shape of the normalised axes; if asked for.
};
/// Of layer_norm, with the mean and rstd that it gave. With n = (x - mean) * rstd, g = dy * weight
/// and means over the normalised axes,
///   dx = rstd * (g - mean(g) - n * mean(g * n)) + residual,
///   dweight = sum(dy * n) and dbias = sum(dy) over the other axes.
/// Differentiates Ba et al., arXiv 1607.06450, equations 3 and 4; epsilon inside rstd changes
/// nothing.
NormBackward layer_norm_backward(FusionBuilder& b, ValueId dy, ValueId x, ValueId mean,
                                 ValueId rstd, const NormBackwardOptions& options = {});
/// Of rms_norm, with the rstd that it gave. With n = x * rstd and g = dy * weight,
///   dx = rstd * (g - n * mean(g * n)) + residual, dweight = sum(dy * n) over the other axes.
/// Differentiates Zhang and Sennrich, arXiv 1910.07467, equation 4.
NormBackward rms_norm_backward(FusionBuilder& b, ValueId dy, ValueId x, ValueId rstd,
                               const NormBackwardOptions& options = {});

/// Of dropout, with its p, seed and offset: keep ? dy * (1 / (1 - p)) : 0, the mask made again.
ValueId dropout_backward(FusionBuilder& b, ValueId dy, double p, ValueId seed, ValueId offset,
                         std::optional<DType> output = {});

struct SoftmaxBackwardOptions {
  int axis = -1;                            ///< The forward's.
  std::optional<DType> output{};            ///< Of dx.
  std::optional<DType> parameter_output{};  ///< Of dbias.
  bool bias = false;  ///< Asks for the gradient of a bias along the axis, added before the softmax.
};
struct SoftmaxBackward {
  ValueId dx;                      ///< Shape of y.
  std::optional<ValueId> dbias{};  ///< bias_gradient of the unrounded dx; shape of the axis.
};
/// Of softmax, from its result y: dx = y * (dy - sum(y * dy)), the sum over the axis.
SoftmaxBackward softmax_backward(FusionBuilder& b, ValueId dy, ValueId y,
                                 const SoftmaxBackwardOptions& options = {});

struct DytBackwardOptions {
  std::optional<DType> output{};            ///< Of dx.
  std::optional<DType> parameter_output{};  ///< Of dweight and dbias; dalpha stays f32.
  std::optional<ValueId> weight{};          ///< The forward's; shape of the last axis.
};
struct DytBackward {
  ValueId dx, dalpha;                ///< Shape of x; a scalar.
  std::optional<ValueId> dweight{};  ///< Shape of the last axis; if there is a weight.
  ValueId dbias;                     ///< Shape of the last axis.
};
/// Of dyt. With t = tanh(alpha * x) and s = dy * weight * (1 - t^2),
///   dx = alpha * s, dalpha = sum(s * x) over all axes,
///   dweight = sum(dy * t) and dbias = sum(dy) over all axes but the last.
DytBackward dyt_backward(FusionBuilder& b, ValueId dy, ValueId x, ValueId alpha,
                         const DytBackwardOptions& options = {});

}  // namespace sinter
