#pragma once

#include <optional>

#include "fusion_ir/composites.h"

namespace sinter {

// More of what training needs, on the terms of composites.h: storage types are cast to f32 first,
// results are f32 (f64 from f64) unless `output` names a type to round them to, once. dy is the
// gradient of a scalar by the result y of the formula, dx that by its operand x.

/// Rotates the two halves of the last axis of x against each other. x is [tokens, ..., dim], dim a
/// constant even number, and cos and sin are [tokens, dim / 2], the same for everything between.
/// With x1 and x2 the first and second half of a row,
///   y = (x1 * cos - x2 * sin, x2 * cos + x1 * sin).
/// Su et al., arXiv 2104.09864, equation 34, with the pairs of GPT-NeoX: element i and element
/// i + dim / 2. Shape of x. Throws an InvalidFusion error for another last axis.
ValueId rotary_embedding(FusionBuilder& b, ValueId x, ValueId cos, ValueId sin,
                         std::optional<DType> output = {});
/// dx = (dy1 * cos + dy2 * sin, dy2 * cos - dy1 * sin): dy rotated back. Takes cos and sin for
/// constants.
ValueId rotary_embedding_backward(FusionBuilder& b, ValueId dy, ValueId cos, ValueId sin,
                                  std::optional<DType> output = {});

/// dx = x > 0 ? dy : 0.
ValueId relu_backward(FusionBuilder& b, ValueId dy, ValueId x, std::optional<DType> output = {});
/// dx = dy * s * (1 + x * (1 - s)) with s = sigmoid(x).
ValueId silu_backward(FusionBuilder& b, ValueId dy, ValueId x, std::optional<DType> output = {});
/// dx = dy * ((1 + erf(x / sqrt(2))) / 2 + x * exp(-x^2 / 2) / sqrt(2 pi)).
ValueId gelu_backward(FusionBuilder& b, ValueId dy, ValueId x, std::optional<DType> output = {});
/// With c = sqrt(2 / pi) and t = tanh(c * (x + 0.044715 x^3)),
///   dx = dy * ((1 + t) / 2 + x / 2 * (1 - t^2) * c * (1 + 3 * 0.044715 x^2)).
ValueId gelu_tanh_backward(FusionBuilder& b, ValueId dy, ValueId x,
                           std::optional<DType> output = {});

/// gelu(gate) * up; Shazeer, arXiv 2002.05202, equation 6.
ValueId geglu(FusionBuilder& b, ValueId gate, ValueId up, std::optional<DType> output = {});
struct GatedBackward {
  ValueId dgate, dup;  ///< Shapes of gate and up.
};
/// dgate = silu_backward(dy * up, gate), dup = dy * silu(gate).
GatedBackward swiglu_backward(FusionBuilder& b, ValueId dy, ValueId gate, ValueId up,
                              std::optional<DType> output = {});
/// dgate = gelu_backward(dy * up, gate), dup = dy * gelu(gate).
GatedBackward geglu_backward(FusionBuilder& b, ValueId dy, ValueId gate, ValueId up,
                             std::optional<DType> output = {});

struct MaskedSoftmaxOptions {
  std::optional<DType> output{};
  std::optional<ValueId> mask{};  ///< bool; broadcasts to scores. False hides a score.
};
/// softmax(mask ? scores * scale : -inf) over the last axis; a row that is hidden altogether gives
/// NaN. Shape of scores.
ValueId scaled_masked_softmax(FusionBuilder& b, ValueId scores, double scale,
                              const MaskedSoftmaxOptions& options = {});
/// Of scaled_masked_softmax, from its result y: scale * y * (dy - sum(y * dy)), the gradient of the
/// scores. Needs no mask: y is zero where one hid a score.
ValueId scaled_masked_softmax_backward(FusionBuilder& b, ValueId dy, ValueId y, double scale,
                                       std::optional<DType> output = {});

struct CrossEntropyBackwardOptions {
  std::optional<DType> output{};
  std::optional<int64_t> ignored_label{};  ///< Rows with this label get a gradient of 0.
};
/// Of cross_entropy: (softmax(logits) - (column == label)) * dloss over the last axis. `dloss` is
/// shaped like the labels: the gradient of each row's loss, 1 / rows for their mean. Shape of
/// logits.
ValueId cross_entropy_backward(FusionBuilder& b, ValueId dloss, ValueId logits, ValueId labels,
                               const CrossEntropyBackwardOptions& options = {});

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;  ///< Decoupled from the gradient, times the learning rate.
};
/// What changes from step to step, as scalars: inputs or constants.
struct AdamScalars {
  ValueId learning_rate;
  ValueId correction1;  ///< 1 - beta1^step, counting steps from 1.
  ValueId correction2;  ///< 1 - beta2^step.
};
struct AdamStep {
  ValueId p, m, v;  ///< Shapes and types of what they replace.
};
/// One step of Adam with gradient g for parameters p and their moments m and v:
///   m' = beta1 * m + (1 - beta1) * g, v' = beta2 * v + (1 - beta2) * g^2,
///   p' = p - learning_rate * (m' / correction1 / (sqrt(v' / correction2) + epsilon)
///                             + weight_decay * p).
/// Loshchilov and Hutter, arXiv 1711.05101, algorithm 2 with a schedule of 1. p' comes of the
/// moments before they are rounded to their types. It has seven parameters because four tensors are
/// named as in the formula.
AdamStep adam_step(FusionBuilder& b, ValueId p, ValueId g, ValueId m, ValueId v,
                   const AdamScalars& scalars, const AdamOptions& options = {});

}  // namespace sinter
