#include "tests/support/canned_groups.h"

namespace sinter {
namespace {

Fusion cast_chain() {
  MatrixBuilder m("cast_chain");
  const ValueId x = m.matrix(DType::kF32, "x");
  const ValueId half = m.b.cast(x, DType::kF16);
  const ValueId brain = m.b.cast(m.b.cast(half, DType::kF32), DType::kBF16);
  m.b.output(m.b.cast(brain, DType::kF32), "y");
  return m.b.build();
}

Fusion scalar_broadcast() {
  MatrixBuilder m("scalar_broadcast");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId scale = m.b.input(DType::kF32, {}, "scale");
  m.b.output(m.b.cast(m.b.mul(x, scale), DType::kBF16), "y");
  return m.b.build();
}

Fusion row_broadcast() {
  MatrixBuilder m("row_broadcast");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId bias = m.row(DType::kBF16, "bias");
  m.b.output(m.b.cast(m.b.add(x, bias), DType::kBF16), "y");
  return m.b.build();
}

Fusion column_broadcast() {
  MatrixBuilder m("column_broadcast");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId scale = m.per_row(m.column(DType::kF32, "scale"));
  m.b.output(m.b.cast(m.b.mul(x, scale), DType::kBF16), "y");
  return m.b.build();
}

Fusion outer_product() {
  MatrixBuilder m("outer_product");
  const ValueId a = m.per_row(m.column(DType::kF32, "a"));
  const ValueId c = m.row(DType::kF32, "c");
  m.b.output(m.b.mul(a, c), "y");
  return m.b.build();
}

Fusion bias_gelu() {
  MatrixBuilder m("bias_gelu");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId bias = m.row(DType::kBF16, "bias");
  m.b.output(gelu(m.b, m.b.add(x, bias), DType::kBF16), "y");
  return m.b.build();
}

Fusion residual() {
  MatrixBuilder m("residual_add");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId r = m.matrix(DType::kBF16, "residual");
  m.b.output(residual_add(m.b, x, r, DType::kBF16), "y");
  return m.b.build();
}

Fusion swiglu_gate() {
  MatrixBuilder m("swiglu");
  const ValueId gate = m.matrix(DType::kBF16, "gate");
  const ValueId up = m.matrix(DType::kBF16, "up");
  m.b.output(swiglu(m.b, gate, up, DType::kBF16), "y");
  return m.b.build();
}

Fusion f8_quant() {
  MatrixBuilder m("f8_quant");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId scale = m.b.input(DType::kF32, {}, "scale");
  const ValueId low = m.b.constant(-largest_finite(DType::kF8E4M3));
  const ValueId high = m.b.constant(largest_finite(DType::kF8E4M3));
  const ValueId scaled = m.b.mul(x, scale);
  const ValueId clamped = m.b.pointwise(PointwiseFn::kClamp, {scaled, low, high});
  m.b.output(m.b.cast(clamped, DType::kF8E4M3), "q");
  return m.b.build();
}

Fusion i32_arithmetic() {
  MatrixBuilder m("i32_arithmetic");
  const ValueId x = m.matrix(DType::kI32, "x");
  const ValueId y = m.matrix(DType::kI32, "y");
  const ValueId seven = m.b.constant_integer(7, DType::kI32);
  const ValueId quotient = m.b.div(m.b.mul(x, seven), y);
  const ValueId rest = m.b.pointwise(PointwiseFn::kRem, {x, y});
  const ValueId bits = m.b.pointwise(PointwiseFn::kXor, {quotient, rest});
  m.b.output(m.b.max(bits, m.b.neg(x)), "z");
  return m.b.build();
}

Fusion bool_masks() {
  MatrixBuilder m("bool_masks");
  const ValueId x = m.matrix(DType::kF32, "x");
  const ValueId mask = m.matrix(DType::kBool, "mask");
  const ValueId zero = m.b.constant(0.0);
  const ValueId positive = m.b.pointwise(PointwiseFn::kGt, {x, zero});
  const ValueId off = m.b.pointwise(PointwiseFn::kNot, {mask});
  const ValueId keep = m.b.pointwise(PointwiseFn::kOr, {positive, off});
  m.b.output(m.b.select(keep, x, zero), "y");
  m.b.output(keep, "kept");
  return m.b.build();
}

Fusion strided_input() {
  FusionBuilder b("strided_input");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const Extent ld = b.symbol("ld");
  const ValueId x = b.input(DType::kBF16, {rows, cols}, "x", {.strides = {ld, 1}});
  b.output(silu(b, x, DType::kBF16), "y");
  return b.build();
}

Fusion misaligned_input() {
  FusionBuilder b("misaligned_input");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kBF16, {rows, cols}, "x", {.strides = {}, .alignment = 2});
  b.output(rms_norm(b, x, {.output = DType::kBF16}).y, "y");
  return b.build();
}

}  // namespace

std::vector<CannedFusion> canned_pointwise() {
  return {
      {"cast_chain", cast_chain, small_matrix(), large_matrix(), "roundings to f16 and bf16"},
      {"scalar_broadcast", scalar_broadcast, small_matrix(), large_matrix(), "a scalar input"},
      {"row_broadcast", row_broadcast, small_matrix(), large_matrix(), "a value per column"},
      {"column_broadcast", column_broadcast, small_matrix(), large_matrix(), "a value per row"},
      {"outer_product", outer_product, small_matrix(), large_matrix(), "no full-size input"},
      {"bias_gelu", bias_gelu, small_matrix(), large_matrix(), "a costly pointwise function"},
      {"residual_add", residual, small_matrix(), large_matrix(), "two inputs, one rounding"},
      {"swiglu", swiglu_gate, small_matrix(), large_matrix(), "exp and reciprocal per element"},
      {"f8_quant", f8_quant, small_matrix(), large_matrix(), "an 8-bit float output"},
      {"i32_arithmetic", i32_arithmetic, small_matrix(), large_matrix(),
       "wrap-around, division and remainder by zero"},
      {"bool_masks", bool_masks, small_matrix(), large_matrix(), "bool input, output and logic"},
      {"strided_input",
       strided_input,
       {{"rows", 5}, {"cols", 100}, {"ld", 112}},
       {{"rows", 8192}, {"cols", 8192}, {"ld", 12288}},
       "a leading dimension larger than the row"},
      {"misaligned_input", misaligned_input, small_matrix(), large_matrix(),
       "an input aligned to its element only"},
  };
}

}  // namespace sinter
