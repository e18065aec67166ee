#include "tests/support/canned_groups.h"

namespace sinter {
namespace {

/// What a graph with matrices of one type is called, and covers.
struct Gradient {
  std::string name;
  DType type;
  std::string covers;
};

template <class Build>
CannedFusion gradient(Gradient g, Build build) {
  return {g.name,
          [name = g.name, type = g.type, build] { return build(MatrixBuilder(name), type); },
          small_matrix(), large_matrix(), std::move(g.covers)};
}

void output_if(FusionBuilder& b, std::optional<ValueId> x, std::string name) {
  if (x) b.output(*x, std::move(name));
}

Fusion rms_norm_gradient(MatrixBuilder m, DType type) {
  const ValueId x = m.matrix(type, "x");
  const ValueId dy = m.matrix(type, "dy");
  const ValueId weight = m.row(type, "weight");
  const ValueId rstd = m.column(DType::kF32, "rstd");
  const NormBackward norm = rms_norm_backward(
      m.b, dy, x, rstd, {.output = type, .parameter_output = type, .weight = weight});
  m.b.output(norm.dx, "dx");
  output_if(m.b, norm.dweight, "dweight");
  return m.b.build();
}

Fusion layer_norm_gradient_with(MatrixBuilder& m, DType type, NormBackwardOptions options) {
  const ValueId x = m.matrix(type, "x");
  const ValueId dy = m.matrix(type, "dy");
  options.weight = m.row(type, "weight");
  const ValueId center = m.column(DType::kF32, "mean");
  const ValueId rstd = m.column(DType::kF32, "rstd");
  options.output = type;
  options.parameter_output = type;
  options.bias = true;
  const NormBackward norm = layer_norm_backward(m.b, dy, x, center, rstd, options);
  m.b.output(norm.dx, "dx");
  output_if(m.b, norm.dbranch, "dbranch");
  output_if(m.b, norm.dweight, "dweight");
  output_if(m.b, norm.dbias, "dbias");
  return m.b.build();
}

Fusion layer_norm_gradient(MatrixBuilder m, DType type) {
  return layer_norm_gradient_with(m, type, {});
}

/// x = residual + dropout(branch) with p = 0.1, as in a transformer block before its norm.
Fusion layer_norm_residual_gradient(MatrixBuilder m, DType type) {
  constexpr double kPassed = 0.9;
  NormBackwardOptions options;
  options.residual = m.matrix(type, "dresidual");
  options.dropout_mask = m.matrix(DType::kBool, "mask");
  options.dropout_scale = 1.0 / kPassed;
  return layer_norm_gradient_with(m, type, options);
}

Fusion softmax_gradient(MatrixBuilder m, DType type) {
  const ValueId y = m.matrix(type, "y");
  const ValueId dy = m.matrix(type, "dy");
  m.b.output(softmax_backward(m.b, dy, y, {.output = type}).dx, "dx");
  return m.b.build();
}

Fusion softmax_bias_gradient(MatrixBuilder m, DType type) {
  const ValueId y = m.matrix(type, "y");
  const ValueId dy = m.matrix(type, "dy");
  const SoftmaxBackward softmax =
      softmax_backward(m.b, dy, y, {.output = type, .parameter_output = type, .bias = true});
  m.b.output(softmax.dx, "dx");
  output_if(m.b, softmax.dbias, "dbias");
  return m.b.build();
}

Fusion dyt_forward(MatrixBuilder m, DType type) {
  const ValueId x = m.matrix(type, "x");
  const ValueId alpha = m.b.input(DType::kF32, {}, "alpha");
  const ValueId weight = m.row(type, "weight");
  const ValueId bias = m.row(type, "bias");
  m.b.output(dyt(m.b, x, alpha, {.output = type, .weight = weight, .bias = bias}), "y");
  return m.b.build();
}

Fusion dyt_gradient(MatrixBuilder m, DType type) {
  const ValueId x = m.matrix(type, "x");
  const ValueId dy = m.matrix(type, "dy");
  const ValueId alpha = m.b.input(DType::kF32, {}, "alpha");
  const ValueId weight = m.row(type, "weight");
  const DytBackward out =
      dyt_backward(m.b, dy, x, alpha, {.output = type, .parameter_output = type, .weight = weight});
  m.b.output(out.dx, "dx");
  m.b.output(out.dalpha, "dalpha");
  output_if(m.b, out.dweight, "dweight");
  m.b.output(out.dbias, "dbias");
  return m.b.build();
}

Fusion column_gradient(MatrixBuilder m, DType type) {
  m.b.output(bias_gradient(m.b, m.matrix(type, "dy"), {-1}, type), "dbias");
  return m.b.build();
}

}  // namespace

std::vector<CannedFusion> canned_gradients() {
  using enum DType;
  return {
      gradient({"softmax_backward", kBF16, "two full inputs across one barrier"}, softmax_gradient),
      gradient({"softmax_backward_bias", kBF16, "a column sum of what needs a row sum first"},
               softmax_bias_gradient),
      gradient({"bias_gradient", kBF16, "a column sum alone, rounded at the end"}, column_gradient),
      gradient({"bias_gradient_f32", kF32, "a column sum alone"}, column_gradient),
      gradient({"rms_norm_backward", kBF16, "one row statistic, one column sum"},
               rms_norm_gradient),
      gradient({"rms_norm_backward_f32", kF32, "the same over f32"}, rms_norm_gradient),
      gradient({"layer_norm_backward", kBF16, "reductions along rows and columns"},
               layer_norm_gradient),
      gradient({"layer_norm_backward_f32", kF32, "the same over f32"}, layer_norm_gradient),
      gradient({"layer_norm_backward_residual", kBF16,
                "four full inputs, one of bools, and two full outputs"},
               layer_norm_residual_gradient),
      gradient({"dyt", kBF16, "tanh, with a scalar and two row parameters"}, dyt_forward),
      gradient({"dyt_backward", kBF16, "two column sums and a sum of everything, no row sum"},
               dyt_gradient),
      gradient({"dyt_backward_f32", kF32, "the same over f32"}, dyt_gradient),
  };
}

}  // namespace sinter
