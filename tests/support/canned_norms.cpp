#include "tests/support/canned_groups.h"

namespace sinter {
namespace {

/// Layer norm with weight and bias that returns its statistics, as training needs them.
CannedFusion layer_norm_of(std::string name, DType type, std::string covers) {
  const auto build = [name, type] {
    MatrixBuilder m(name);
    const ValueId x = m.matrix(type, "x");
    const ValueId weight = m.row(type, "weight");
    const ValueId bias = m.row(type, "bias");
    const LayerNorm norm = layer_norm(m.b, x, {.output = type, .weight = weight, .bias = bias});
    m.b.output(norm.y, "y");
    m.b.output(norm.mean, "mean");
    m.b.output(norm.rstd, "rstd");
    return m.b.build();
  };
  return {std::move(name), build, small_matrix(), large_matrix(), std::move(covers)};
}

CannedFusion rms_norm_of(std::string name, DType type, std::string covers) {
  const auto build = [name, type] {
    MatrixBuilder m(name);
    const ValueId x = m.matrix(type, "x");
    const ValueId weight = m.row(type, "weight");
    m.b.output(rms_norm(m.b, x, {.output = type, .weight = weight}).y, "y");
    return m.b.build();
  };
  return {std::move(name), build, small_matrix(), large_matrix(), std::move(covers)};
}

Fusion residual_rms_norm() {
  MatrixBuilder m("residual_rms_norm");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId residual = m.matrix(DType::kBF16, "residual");
  const ValueId weight = m.row(DType::kBF16, "weight");
  const ValueId h = residual_add(m.b, x, residual, DType::kBF16);
  m.b.output(h, "h");
  m.b.output(rms_norm(m.b, h, {.output = DType::kBF16, .weight = weight}).y, "y");
  return m.b.build();
}

Fusion fused_add_layer_norm() {
  MatrixBuilder m("fused_add_layer_norm");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId residual = m.matrix(DType::kBF16, "residual");
  const ValueId weight = m.row(DType::kBF16, "weight");
  const ValueId bias = m.row(DType::kBF16, "bias");
  const ValueId h = residual_add(m.b, x, residual);
  m.b.output(m.b.cast(h, DType::kBF16), "h");
  m.b.output(layer_norm(m.b, h, {.output = DType::kBF16, .weight = weight, .bias = bias}).y, "y");
  return m.b.build();
}

/// What a transformer block does behind attention, as training runs it.
Fusion dropout_add_layer_norm() {
  constexpr double kDropped = 0.1;
  MatrixBuilder m("dropout_add_layer_norm");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId residual = m.matrix(DType::kBF16, "residual");
  const ValueId weight = m.row(DType::kBF16, "weight");
  const ValueId bias = m.row(DType::kBF16, "bias");
  const ValueId seed = m.b.input(DType::kI64, {}, "seed");
  const ValueId offset = m.b.input(DType::kI64, {}, "offset");
  const Dropout dropped = dropout(m.b, x, kDropped, seed, offset);
  const ValueId h = residual_add(m.b, dropped.y, residual);
  const LayerNorm norm =
      layer_norm(m.b, h, {.output = DType::kBF16, .weight = weight, .bias = bias});
  m.b.output(m.b.cast(h, DType::kBF16), "h");
  m.b.output(dropped.keep, "mask");
  m.b.output(norm.y, "y");
  m.b.output(norm.mean, "mean");
  m.b.output(norm.rstd, "rstd");
  return m.b.build();
}

Fusion gated_rms_norm() {
  MatrixBuilder m("gated_rms_norm");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId gate = m.matrix(DType::kBF16, "gate");
  const ValueId weight = m.row(DType::kBF16, "weight");
  const ValueId gated = swiglu(m.b, gate, x);
  m.b.output(rms_norm(m.b, gated, {.output = DType::kBF16, .weight = weight}).y, "y");
  return m.b.build();
}

Fusion three_d_layer_norm() {
  FusionBuilder b("three_d_layer_norm");
  const Extent batch = b.symbol("batch");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kBF16, {batch, rows, cols}, "x");
  const ValueId weight = b.input(DType::kBF16, {cols}, "weight");
  const ValueId bias = b.input(DType::kBF16, {cols}, "bias");
  b.output(layer_norm(b, x, {.output = DType::kBF16, .weight = weight, .bias = bias}).y, "y");
  return b.build();
}

/// 64 channels in 8 groups, channels first.
Fusion group_norm() {
  constexpr int64_t kGroups = 8;
  constexpr int64_t kChannelsPerGroup = 8;
  constexpr int64_t kChannels = kGroups * kChannelsPerGroup;
  FusionBuilder b("group_norm");
  const Extent batch = b.symbol("batch");
  const Extent pixels = b.symbol("pixels");
  const ValueId x = b.input(DType::kBF16, {batch, kChannels, pixels}, "x");
  const ValueId weight = b.input(DType::kBF16, {kChannels}, "weight");
  const Shape grouped_shape = {batch, kGroups, kChannelsPerGroup, pixels};
  const ValueId grouped = b.reshape(x, grouped_shape);
  const ValueId normal = layer_norm(b, grouped, {.axes = {2, 3}}).y;
  const ValueId scale =
      b.broadcast(b.reshape(weight, {kGroups, kChannelsPerGroup}), grouped_shape, {1, 2});
  const ValueId y = b.cast(b.mul(normal, scale), DType::kBF16);
  b.output(b.reshape(y, {batch, kChannels, pixels}), "y");
  return b.build();
}

}  // namespace

std::vector<CannedFusion> canned_norms() {
  return {
      layer_norm_of("layer_norm", DType::kBF16, "Welford, then the row again; row statistics out"),
      layer_norm_of("layer_norm_f32", DType::kF32, "a persistent row of f32"),
      layer_norm_of("layer_norm_f16", DType::kF16, "a persistent row of f16"),
      layer_norm_of("f64_layer_norm", DType::kF64, "double arithmetic"),
      rms_norm_of("rms_norm", DType::kBF16, "one statistic, then the row again"),
      rms_norm_of("rms_norm_f32", DType::kF32, "one statistic over f32"),
      {"residual_rms_norm", residual_rms_norm, small_matrix(), matrix_extents(8192, 4096),
       "Llama's norm: the rounded sum is an output and what is normalised"},
      {"fused_add_layer_norm", fused_add_layer_norm, small_matrix(), large_matrix(),
       "the unrounded sum is normalised"},
      {"dropout_add_layer_norm", dropout_add_layer_norm, small_matrix(), large_matrix(),
       "random numbers per element, and a mask"},
      {"gated_rms_norm", gated_rms_norm, small_matrix(), large_matrix(),
       "costly recomputation before the statistic"},
      {"three_d_layer_norm",
       three_d_layer_norm,
       {{"batch", 2}, {"rows", 3}, {"cols", 100}},
       {{"batch", 8}, {"rows", 1024}, {"cols", 8192}},
       "two kept axes that merge"},
      {"group_norm",
       group_norm,
       {{"batch", 2}, {"pixels", 25}},
       {{"batch", 64}, {"pixels", 1024}},
       "reshape, and two reduced axes"},
  };
}

}  // namespace sinter
