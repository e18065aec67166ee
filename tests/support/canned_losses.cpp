#include <limits>

#include "tests/support/canned_groups.h"

namespace sinter {
namespace {

CannedFusion softmax_of(std::string name, DType type, std::string covers) {
  const auto build = [name, type] {
    MatrixBuilder m(name);
    m.b.output(softmax(m.b, m.matrix(type, "x"), -1, type), "y");
    return m.b.build();
  };
  return {std::move(name), build, small_matrix(), large_matrix(), std::move(covers)};
}

CannedFusion cross_entropy_of(std::string name, DType labels_type, std::string covers) {
  const auto build = [name, labels_type] {
    MatrixBuilder m(name);
    const ValueId logits = m.matrix(DType::kBF16, "logits");
    const ValueId labels = m.column(labels_type, "labels");
    m.b.output(cross_entropy(m.b, logits, labels), "loss");
    return m.b.build();
  };
  return {std::move(name), build, small_matrix(), matrix_extents(4096, 151936), std::move(covers)};
}

Fusion log_softmax_rows() {
  MatrixBuilder m("log_softmax");
  m.b.output(log_softmax(m.b, m.matrix(DType::kBF16, "x"), -1, DType::kBF16), "y");
  return m.b.build();
}

ValueId minus_infinity(FusionBuilder& b) {
  return b.constant(-std::numeric_limits<double>::infinity());
}

Fusion scaled_masked_softmax() {
  MatrixBuilder m("scaled_masked_softmax");
  const ValueId scores = m.matrix(DType::kBF16, "scores");
  const ValueId mask = m.matrix(DType::kBool, "mask");
  // 1 / sqrt(64): heads of 64.
  const ValueId scaled = m.b.mul(scores, m.b.constant(0.125));
  const ValueId masked = m.b.select(mask, scaled, minus_infinity(m.b));
  m.b.output(softmax(m.b, masked, -1, DType::kBF16), "y");
  return m.b.build();
}

Fusion iota_mask() {
  MatrixBuilder m("iota_mask");
  const ValueId scores = m.matrix(DType::kBF16, "scores");
  const ValueId row = m.b.iota({m.rows, m.cols}, 0, DType::kI32);
  const ValueId col = m.b.iota({m.rows, m.cols}, 1, DType::kI32);
  const ValueId seen = m.b.pointwise(PointwiseFn::kLe, {col, row});
  const ValueId masked = m.b.select(seen, scores, minus_infinity(m.b));
  m.b.output(softmax(m.b, masked, -1, DType::kBF16), "y");
  return m.b.build();
}

Fusion row_and_total_loss() {
  MatrixBuilder m("row_and_total_loss");
  const ValueId log_p = m.matrix(DType::kBF16, "log_p");
  const ValueId log_q = m.matrix(DType::kBF16, "log_q");
  const RowLoss loss = with_total(m.b, kl_divergence(m.b, log_p, log_q));
  m.b.output(loss.rows, "rows_loss");
  m.b.output(loss.total, "total_loss");
  return m.b.build();
}

/// Generalised Jensen-Shannon divergence of two rows of logits (student q, teacher p) with its
/// gradient: mix = beta p + (1 - beta) q, loss = sum(beta p log p + (1 - beta) q log q - mix log
/// mix), d loss / d log q = (1 - beta) q (log q - log mix), taken back through log_softmax.
Fusion many_live_tiles() {
  constexpr double kBeta = 0.5;
  MatrixBuilder m("many_live_tiles");
  FusionBuilder& b = m.b;
  const ValueId log_q = log_softmax(b, m.matrix(DType::kBF16, "student"));
  const ValueId log_p = log_softmax(b, m.matrix(DType::kBF16, "teacher"));
  const ValueId beta = b.constant(kBeta);
  const ValueId rest = b.constant(1.0 - kBeta);
  const ValueId p = b.exp(log_p);
  const ValueId q = b.exp(log_q);
  const ValueId weighted_p = b.mul(p, beta);
  const ValueId weighted_q = b.mul(q, rest);
  const ValueId mix = b.add(weighted_p, weighted_q);
  const ValueId log_mix = b.log(mix);
  const ValueId from_p = b.mul(weighted_p, log_p);
  const ValueId from_q = b.mul(weighted_q, log_q);
  const ValueId from_mix = b.mul(mix, log_mix);
  b.output(b.sum(b.sub(b.add(from_p, from_q), from_mix), {1}), "loss");
  const ValueId gradient = b.mul(weighted_q, b.sub(log_q, log_mix));
  const ValueId total = m.per_row(b.sum(gradient, {1}));
  b.output(b.cast(b.sub(gradient, b.mul(q, total)), DType::kBF16), "dstudent");
  return b.build();
}

Fusion int8_rows() {
  MatrixBuilder m("dynamic_int8_quant");
  const Quantized rows = quantize_per_row(m.b, m.matrix(DType::kBF16, "x"));
  m.b.output(rows.q, "q");
  m.b.output(rows.scale, "scale");
  return m.b.build();
}

Fusion f8_norm_rows() {
  MatrixBuilder m("rms_norm_f8");
  const ValueId weight = m.row(DType::kBF16, "weight");
  const RmsNorm norm = rms_norm(m.b, m.matrix(DType::kBF16, "x"), {.weight = weight});
  const Quantized rows = quantize_per_row(m.b, norm.y, {.type = DType::kF8E4M3});
  m.b.output(rows.q, "q");
  m.b.output(rows.scale, "scale");
  return m.b.build();
}

}  // namespace

std::vector<CannedFusion> canned_losses() {
  return {
      softmax_of("softmax", DType::kBF16, "the logsumexp pair, then the row again"),
      softmax_of("softmax_f32", DType::kF32, "the same with a row of f32"),
      {"log_softmax", log_softmax_rows, small_matrix(), large_matrix(),
       "a pair whose exponentials are not kept"},
      {"scaled_masked_softmax", scaled_masked_softmax, small_matrix(), large_matrix(),
       "a mask that may hide a whole row"},
      {"iota_mask", iota_mask, small_matrix(), large_matrix(), "a causal mask from counters"},
      cross_entropy_of("cross_entropy", DType::kI64, "the label's logit; rows of a vocabulary"),
      cross_entropy_of("cross_entropy_i32", DType::kI32, "32-bit labels"),
      {"dynamic_int8_quant", int8_rows, small_matrix(), large_matrix(),
       "a maximum, then an 8-bit integer output"},
      {"rms_norm_f8", f8_norm_rows, small_matrix(), large_matrix(),
       "a maximum that waits for a norm, then an 8-bit float output"},
      {"row_and_total_loss", row_and_total_loss, small_matrix(), large_matrix(),
       "a sum over the rows of what was summed along each"},
      {"many_live_tiles", many_live_tiles, small_matrix(), matrix_extents(4096, 32768),
       "about seven row-wide values alive at once"},
  };
}

}  // namespace sinter
