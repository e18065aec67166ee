// The calls in double, with bounds: reference_call().

#include "tests/support/reference_calls.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fusion_ir/error.h"
#include "runtime/compile/parallel.h"
#include "runtime/oracle/bounded_cast.h"
#include "runtime/oracle/error_model.h"
#include "tests/support/reference_call_shapes.h"

namespace sinter {
namespace {

using namespace reference_calls;  // NOLINT(google-build-using-namespace): this file is about them

/// Relative error per rounding of an accumulation: twice the unit roundoff, because tensor cores
/// truncate (Fasi et al., "Numerical behavior of NVIDIA tensor cores", PeerJ Comput. Sci. 7, 2021).
double accumulation_unit(DType type) { return 2.0 * rounding_unit(compute_type(type)); }

/// What results and operands of exp lose where they are subnormal, with room for sums of them.
constexpr double kTiny = 0x1p-120;
/// Errors are added to first order; this much of them covers the rest while they are below 2^-6.
constexpr double kHigherOrder = 1.02;

constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// Whether nothing up to this magnitude overflows.
bool fits(double magnitude, DType type) {
  return std::isfinite(magnitude) && magnitude < overflow_threshold(compute_type(type));
}

/// Elements of an operand with their bounds.
struct Bounded {
  std::span<const double> values, bounds;
};
struct OwnedBounded {
  std::vector<double> values, bounds;
  [[nodiscard]] Bounded view() const { return {.values = values, .bounds = bounds}; }
};

Bounded elements_of(const OracleOutput& operand) {
  SINTER_CHECK_OP(operand.bound.size(), ==, operand.real.size());
  return {.values = operand.real, .bounds = operand.bound};
}

OwnedBounded transposed(Bounded x, int64_t rows, int64_t columns) {
  return {.values = reference_calls::transposed(x.values, rows, columns),
          .bounds = reference_calls::transposed(x.bounds, rows, columns)};
}

/// A sum of products on the way: its value, what the operands' errors may move it by, and the
/// largest sum of magnitudes that a device may add up.
struct Accumulator {
  double value = 0.0, propagated = 0.0, magnitude = 0.0;

  void add(double a, double da, double b, double db) {
    const double reach_b = std::fabs(b) + db;
    value += a * b;
    propagated += std::fabs(a) * db + da * reach_b;
    magnitude += (std::fabs(a) + da) * reach_b;
  }
  /// The error of a sum of `terms` products. The worst case for any order is one rounding fewer
  /// than terms; products are exact in f32 where operands are bf16, else one more. Where products
  /// or partial sums may overflow, in one order or another, nothing is known.
  [[nodiscard]] double error(int64_t terms, DType type) const {
    const double unit = accumulation_unit(type);
    const double roundings = static_cast<double>(terms) + 2.0;
    if (!fits(magnitude * (1.0 + kHigherOrder * roundings * unit), type)) return kUnknown;
    return propagated + kHigherOrder * roundings * unit * magnitude +
           (terms > 0 ? kTiny * static_cast<double>(terms) : 0.0);
  }
};

/// Products of `count` elements that lie one behind the other.
Accumulator dot(const Bounded& a, size_t a_first, const Bounded& b, size_t b_first, int64_t count) {
  Accumulator sum;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    sum.add(a.values[a_first + i], a.bounds[a_first + i], b.values[b_first + i],
            b.bounds[b_first + i]);
  }
  return sum;
}

/// A result of the call whose elements are all to be put.
class ResultWriter {
 public:
  ResultWriter(const ExternalOp& op, size_t i) {
    out_.type = op.results[i].type;
    out_.sizes = result_sizes(op, i);
    const auto count = static_cast<size_t>(element_count(out_.sizes));
    out_.real.resize(count);
    out_.bound.resize(count);
  }
  void put(size_t element, double value, double error) {
    const BoundedReal stored =
        cast_to_real(out_.type, settle(compute_type(out_.type), {value, error}));
    out_.real[element] = stored.value;
    out_.bound[element] = stored.bound;
  }
  OracleOutput take() { return std::move(out_); }

 private:
  OracleOutput out_;
};

std::vector<OracleOutput> bounded_matmul(const ExternalOp& op, const CallShape& shape,
                                         std::span<const OracleOutput> operands) {
  const MatrixSizes& sizes = shape.matrix;
  Bounded a = elements_of(operands[0]);
  Bounded b = elements_of(operands[1]);
  OwnedBounded a_rows;
  OwnedBounded b_rows;
  if (shape.call == Call::kTn) {
    a_rows = transposed(a, sizes.depth, sizes.rows);
    a = a_rows.view();
  }
  if (shape.call != Call::kNt) {
    b_rows = transposed(b, sizes.depth, sizes.columns);
    b = b_rows.view();
  }
  const DType type = operands[0].type;
  const double unit = accumulation_unit(type);
  ResultWriter out(op, 0);
  for_each_range(sizes.rows, 1, 0, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < sizes.columns; ++column) {
        const Accumulator sum = dot(a, static_cast<size_t>(row * sizes.depth), b,
                                    static_cast<size_t>(column * sizes.depth), sizes.depth);
        const auto at = static_cast<size_t>(row * sizes.columns + column);
        if (operands.size() == 2) {
          out.put(at, sum.value, sum.error(sizes.depth, type));
          continue;
        }
        // One sum more, rounded like the others.
        const double added = operands[2].real[at];
        const double error = operands[2].bound[at] + sum.error(sizes.depth + 1, type);
        const double reach = std::fabs(sum.value) + std::fabs(added) + error;
        const bool is_known = fits(sum.magnitude + reach, type);
        out.put(at, sum.value + added, is_known ? error + unit * reach : kUnknown);
      }
    }
  });
  return {out.take()};
}

/// A score s with the bound on its error.
struct Score {
  double value, error;
};

/// What both directions of attention share.
class BoundedAttention {
 public:
  BoundedAttention(const AttentionSizes& attention_sizes, DType type)
      : sizes(attention_sizes),
        unit(accumulation_unit(type)),
        arithmetic(compute_type(type)),
        probability_unit(is_storage_only(type) ? unit_roundoff(type) : 0.0),
        scale(attention_sizes.scale()) {}

  AttentionSizes sizes;
  double unit;
  DType arithmetic;
  double probability_unit;  ///< Of rounding probabilities before they are multiplied.
  double scale;

  /// The product of q_i and k_j, scaled. The scale and its product round too.
  [[nodiscard]] Score score(const Bounded& q, size_t q_row, const Bounded& k, size_t k_row) const {
    const Accumulator sum = dot(q, q_row, k, k_row, sizes.dim);
    return {sum.value * scale, scale * sum.error(sizes.dim + 2, arithmetic)};
  }
};

/// One query of one head. The device's weights are c * exp(s_j) (1 + e_j) with any c > 0, its
/// running maximum, that cancels. Log errors a_j of the weights, to first order:
///   the score's own error;
///   the exponential's argument: a difference and a product with log2(e), of numbers below
///   S = max(|s| + its error), so a few roundings of S;
///   the exponential itself on an argument within [-2 S, 0];
///   the last two again for each rescaling that an online softmax may apply;
///   the sum of all weights, n roundings, and the division.
/// The denominator is off in its logarithm by at most A = log(sum of p_j exp(a_j)): from above that
/// is how far it grows if all weights do, and from below -log(sum of p_j exp(-a_j)) is no more by
/// Jensen's inequality. So p_j is off by a factor within exp(+-(a_j + A + 2 r)), r the rounding of
/// probabilities, which stand above the line and perhaps below it.
struct Probabilities {
  std::vector<double> values, errors;
  double lse, lse_error;
  double sum_error;  ///< Of the sum of all probabilities that the device multiplies by v.
};
Probabilities probabilities_of(const BoundedAttention& at, const std::vector<Score>& scores) {
  const auto n = static_cast<double>(scores.size());
  double max = -std::numeric_limits<double>::infinity();
  double reach = 0.0;
  for (const Score& score : scores) {
    max = std::max(max, score.value);
    reach = std::max(reach, std::fabs(score.value) + score.error);
  }
  const double once = exp_relative_error(at.arithmetic, 2.0 * reach) + 8.0 * at.unit * reach;
  const double chain = rescale_chain(static_cast<int64_t>(scores.size()));
  const double summed = (n + 4.0) * at.unit;
  const double common = kHigherOrder * ((1.0 + chain) * once + summed);

  Probabilities out{};
  double sum = 0.0;
  for (const Score& score : scores) {
    out.values.push_back(std::exp(score.value - max));
    sum += out.values.back();
  }
  double grown = 0.0;
  for (size_t j = 0; j < scores.size(); ++j) {
    out.values[j] /= sum;
    grown += out.values[j] * std::exp(scores[j].error + common);
  }
  // Not below zero, though rounding the sum in double may say so.
  const double denominator = std::max(std::log(grown), common);
  const double rounded = 2.0 * kHigherOrder * at.probability_unit;
  for (size_t j = 0; j < scores.size(); ++j) {
    const double factor = std::expm1(scores[j].error + common + denominator + rounded);
    out.errors.push_back(out.values[j] * factor + kTiny);
  }
  out.lse = max + std::log(sum);
  out.lse_error = denominator + 8.0 * at.unit * (reach + std::log(n) + 1.0);
  out.sum_error = rounded + 2.0 * kHigherOrder * summed;
  return out;
}

std::vector<OracleOutput> bounded_attention(const ExternalOp& op, const CallShape& shape,
                                            std::span<const OracleOutput> operands) {
  const BoundedAttention at(shape.attention, operands[0].type);
  const AttentionSizes& sizes = at.sizes;
  const Bounded q = elements_of(operands[0]);
  const Bounded k = elements_of(operands[1]);
  const Bounded v = elements_of(operands[2]);
  ResultWriter o(op, 0);
  ResultWriter lse(op, 1);
  const auto query = [&](int64_t head, int64_t i) {
    const int64_t kv_head = head / sizes.group();
    std::vector<Score> scores;
    for (int64_t j = 0; j <= i; ++j)
      scores.push_back(at.score(q, sizes.row(i, head), k, sizes.kv_row(j, kv_head)));
    const bool are_finite = std::ranges::all_of(scores, [&](const Score& score) {
      return fits(std::fabs(score.value) + score.error, at.arithmetic);
    });
    const Probabilities p = probabilities_of(at, scores);
    lse.put(sizes.lse_at(i, head), p.lse, p.lse_error);
    for (size_t d = 0; d < static_cast<size_t>(sizes.dim); ++d) {
      Accumulator sum;
      double largest = 0.0;
      for (int64_t j = 0; j <= i; ++j) {
        const auto key = static_cast<size_t>(j);
        const size_t element = sizes.kv_row(j, kv_head) + d;
        sum.add(p.values[key], p.errors[key], v.values[element], v.bounds[element]);
        largest = std::max(largest, std::fabs(v.values[element]) + v.bounds[element]);
      }
      // However far finite scores may be off, o is a mean of v but for the probabilities' sum.
      // Before it is divided by the sum of weights, which are at most 1, it may be that many times
      // larger.
      const bool is_known =
          are_finite && fits(static_cast<double>(i + 1) * 2.0 * largest, at.arithmetic);
      const double within = largest * (1.0 + p.sum_error) + kTiny;
      o.put(sizes.row(i, head) + d, sum.value,
            is_known ? std::min(sum.error(i + 1, at.arithmetic), std::fabs(sum.value) + within)
                     : kUnknown);
    }
  };
  for_each_range(sizes.heads, 1, 0, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      for (int64_t i = 0; i < sizes.tokens; ++i) query(head, i);
    }
  });
  return {o.take(), lse.take()};
}

std::vector<OracleOutput> bounded_attention_backward(const ExternalOp& op, const CallShape& shape,
                                                     std::span<const OracleOutput> operands) {
  const BoundedAttention at(shape.attention, operands[1].type);
  const AttentionSizes& sizes = at.sizes;
  const Bounded dout = elements_of(operands[0]);
  const Bounded q = elements_of(operands[1]);
  const Bounded k = elements_of(operands[2]);
  const Bounded v = elements_of(operands[3]);
  const Bounded o = elements_of(operands[4]);
  const Bounded lse = elements_of(operands[5]);
  ResultWriter dq(op, 0);
  ResultWriter dk(op, 1);
  ResultWriter dv(op, 2);
  const auto dim = static_cast<size_t>(sizes.dim);

  // One head of k and v with all heads of q that read it: no other touches their gradients.
  const auto kv_head_gradients = [&](int64_t kv_head) {
    const size_t kv_elements = static_cast<size_t>(sizes.tokens) * dim;
    std::vector<Accumulator> dk_sums(kv_elements);
    std::vector<Accumulator> dv_sums(kv_elements);
    for (int64_t head = kv_head * sizes.group(); head < (kv_head + 1) * sizes.group(); ++head) {
      for (int64_t i = 0; i < sizes.tokens; ++i) {
        const size_t row = sizes.row(i, head);
        const Accumulator delta = dot(dout, row, o, row, sizes.dim);
        const double delta_error = delta.error(sizes.dim, at.arithmetic);
        const double row_lse = lse.values[sizes.lse_at(i, head)];
        const double lse_bound = lse.bounds[sizes.lse_at(i, head)];
        std::vector<Accumulator> dq_sums(dim);
        for (int64_t j = 0; j <= i; ++j) {
          const size_t kv_row = sizes.kv_row(j, kv_head);
          const Score s = at.score(q, row, k, kv_row);
          // As in Probabilities, but that the denominator is given.
          const double reach = std::fabs(s.value) + s.error + std::fabs(row_lse) + lse_bound;
          const double relative =
              std::expm1(s.error + lse_bound +
                         kHigherOrder * (exp_relative_error(at.arithmetic, reach) +
                                         8.0 * at.unit * reach + at.probability_unit));
          const double p = std::exp(s.value - row_lse);
          const double dp = p * relative + kTiny;
          const Accumulator product = dot(dout, row, v, kv_row, sizes.dim);
          const double t = product.value - delta.value;
          const double dt = product.error(sizes.dim, at.arithmetic) + delta_error;
          // The difference and the products round, then ds as a whole.
          const double ds = p * t * at.scale;
          const double moved = at.scale * (p * dt + dp * (std::fabs(t) + dt));
          const double reach_t = std::fabs(product.value) + std::fabs(delta.value) + dt;
          const double magnitude = at.scale * (p + dp) * reach_t;
          const double rounded = kHigherOrder * (4.0 * at.unit * magnitude +
                                                 at.probability_unit * (std::fabs(ds) + moved));
          const bool is_known =
              fits(reach_t, at.arithmetic) && fits(2.0 * magnitude, at.arithmetic);
          const double dds = is_known ? moved + rounded + kTiny : kUnknown;
          for (size_t d = 0; d < dim; ++d) {
            const size_t kv_element = static_cast<size_t>(j) * dim + d;
            dq_sums[d].add(ds, dds, k.values[kv_row + d], k.bounds[kv_row + d]);
            dk_sums[kv_element].add(ds, dds, q.values[row + d], q.bounds[row + d]);
            dv_sums[kv_element].add(p, dp, dout.values[row + d], dout.bounds[row + d]);
          }
        }
        for (size_t d = 0; d < dim; ++d)
          dq.put(row + d, dq_sums[d].value, dq_sums[d].error(i + 1, at.arithmetic));
      }
    }
    for (int64_t j = 0; j < sizes.tokens; ++j) {
      const int64_t terms = sizes.group() * (sizes.tokens - j);
      for (size_t d = 0; d < dim; ++d) {
        const size_t element = static_cast<size_t>(j) * dim + d;
        const size_t result = sizes.kv_row(j, kv_head) + d;
        dk.put(result, dk_sums[element].value, dk_sums[element].error(terms, at.arithmetic));
        dv.put(result, dv_sums[element].value, dv_sums[element].error(terms, at.arithmetic));
      }
    }
  };
  for_each_range(sizes.kv_heads, 1, 0, [&](int64_t begin, int64_t end) {
    for (int64_t kv_head = begin; kv_head < end; ++kv_head) kv_head_gradients(kv_head);
  });
  return {dq.take(), dk.take(), dv.take()};
}

}  // namespace

std::vector<OracleOutput> reference_call(const ExternalOp& op,
                                         std::span<const OracleOutput> operands) {
  std::vector<Sizes> sizes;
  for (const OracleOutput& operand : operands) sizes.push_back(operand.sizes);
  const CallShape shape(op, sizes);
  switch (shape.call) {
    case Call::kNt:
    case Call::kNn:
    case Call::kTn:
      return bounded_matmul(op, shape, operands);
    case Call::kAttention:
      return bounded_attention(op, shape, operands);
    case Call::kAttentionBackward:
      return bounded_attention_backward(op, shape, operands);
  }
  unreachable();
}

}  // namespace sinter
