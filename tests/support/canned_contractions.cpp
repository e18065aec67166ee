#include "tests/support/canned_groups.h"

namespace sinter {
namespace {

constexpr int64_t kReduced = 24;

/// x[rows, 24] times w[cols, 24] transposed, and what follows.
struct LinearBuilder : MatrixBuilder {
  explicit LinearBuilder(const char* name) : MatrixBuilder(name) {}
  ValueId product(ContractOptions options = {}, DType type = DType::kBF16) {
    const ValueId x = b.input(type, {rows, kReduced}, "x");
    return b.linear(x, b.input(type, {cols, kReduced}, "w"), {}, options);
  }
};

Fusion linear() {
  LinearBuilder m("linear");
  m.b.output(m.b.cast(m.product(), DType::kBF16), "y");
  return m.b.build();
}

Fusion linear_bias_gelu() {
  LinearBuilder m("linear_bias_gelu");
  const ValueId biased = m.b.add(m.product(), m.row(DType::kBF16, "bias"));
  m.b.output(gelu_tanh(m.b, biased, DType::kBF16), "y");
  return m.b.build();
}

Fusion linear_rms_norm() {
  LinearBuilder m("linear_rms_norm");
  const ValueId weight = m.row(DType::kBF16, "weight");
  m.b.output(rms_norm(m.b, m.product(), {.output = DType::kBF16, .weight = weight}).y, "y");
  return m.b.build();
}

/// Rows of eight heads, each normalised by itself.
Fusion linear_head_norm() {
  LinearBuilder m("linear_head_norm");
  constexpr int64_t kHeads = 8;
  constexpr int64_t kWidth = 64;
  const ValueId x = m.b.input(DType::kBF16, {m.rows, m.cols}, "x");
  const ValueId w = m.b.input(DType::kBF16, {kHeads * kWidth, m.cols}, "w");
  const ValueId heads = m.b.reshape(m.b.linear(x, w), {m.rows, kHeads, kWidth});
  m.b.output(rms_norm(m.b, heads, {.output = DType::kBF16}).y, "y");
  return m.b.build();
}

Fusion linear_cross_entropy() {
  LinearBuilder m("linear_cross_entropy");
  const ValueId logits = m.b.cast(m.product(), DType::kBF16, "logits");
  m.b.output(cross_entropy(m.b, logits, m.b.input(DType::kI64, {m.rows}, "labels")), "loss");
  return m.b.build();
}

/// What follows from a product, and its sums over the rows: the gradients of a bias and of what
/// stands before it.
Fusion linear_column_sums() {
  LinearBuilder m("linear_column_sums");
  const ValueId slope = m.b.input(DType::kBF16, {m.rows, m.cols}, "slope");
  const ValueId dy = m.b.mul(m.product(), slope);
  m.b.output(m.b.cast(dy, DType::kBF16), "dy");
  m.b.output(m.b.cast(m.b.sum(dy, {0}), DType::kBF16), "dbias");
  return m.b.build();
}

Fusion linear_f32() {
  LinearBuilder m("linear_f32");
  m.b.output(m.b.add(m.product({}, DType::kF32), m.row(DType::kF32, "bias")), "y");
  return m.b.build();
}

Fusion linear_tf32() {
  LinearBuilder m("linear_tf32");
  m.b.output(m.product({.precision = ContractPrecision::kTf32x3}, DType::kF32), "y");
  return m.b.build();
}

Fusion log_matmul() {
  LinearBuilder m("log_matmul");
  m.b.output(m.product({.fn = ContractFn::kLogSumExp}, DType::kF32), "y");
  return m.b.build();
}

Fusion max_plus() {
  LinearBuilder m("max_plus");
  m.b.output(m.product({.fn = ContractFn::kMax}), "y");
  return m.b.build();
}

}  // namespace

std::vector<CannedFusion> canned_contractions() {
  const ExtentValues large = matrix_extents(4096, 1024);
  return {
      {"linear", linear, small_matrix(), large, "a matrix product"},
      {"linear_bias_gelu", linear_bias_gelu, small_matrix(), large,
       "pointwise functions of a matrix product"},
      {"linear_rms_norm", linear_rms_norm, small_matrix(), large, "a norm of a matrix product"},
      {"linear_head_norm", linear_head_norm, small_matrix(), large, "a norm of parts of its rows"},
      {"linear_cross_entropy", linear_cross_entropy, small_matrix(), matrix_extents(2048, 8192),
       "a loss of long rows that are in no memory"},
      {"linear_column_sums", linear_column_sums, small_matrix(), large,
       "sums over the rows of a product whose elements are stored"},
      {"linear_f32", linear_f32, small_matrix(), large, "a product of f32"},
      {"linear_tf32", linear_tf32, small_matrix(), large, "a product of f32 in parts"},
      {"log_matmul", log_matmul, small_matrix(), large, "a contraction of logarithms"},
      {"max_plus", max_plus, small_matrix(), large, "a maximum of sums"},
  };
}

}  // namespace sinter
