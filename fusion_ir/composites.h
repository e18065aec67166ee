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

/// logsumexp(logits) - logits[label] over the last axis. `labels` is i32 or i64, shaped like logits
/// without that axis; a label outside it picks 0.
ValueId cross_entropy(FusionBuilder& b, ValueId logits, ValueId labels);
/// sum over the last axis of exp(log_p) * (log_p - log_q): KL(p || q) of log probabilities.
ValueId kl_divergence(FusionBuilder& b, ValueId log_p, ValueId log_q);

struct QuantizedRows {
  ValueId q, scale;
};
/// Symmetric 8-bit quantisation of each row (last axis): scale = max(max|x| / 127, 2^-126), where
/// 2^-126, the smallest normal f32, keeps rows of zeros from dividing by zero; q = i8 of
/// round(x / scale) clamped to [-127, 127]. x is about q * scale.
QuantizedRows dynamic_int8_quant(FusionBuilder& b, ValueId x);

}  // namespace sinter
