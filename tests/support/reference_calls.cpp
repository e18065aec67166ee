#include "tests/support/reference_calls.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fusion_ir/error.h"
#include "runtime/compile/parallel.h"
#include "runtime/oracle/bounded_cast.h"
#include "runtime/oracle/error_model.h"

namespace sinter {
namespace {

// Which operands a call has, and how they must lie to each other.

enum class Call { kNt, kNn, kTn, kAttention, kAttentionBackward };

[[noreturn]] void refuse(const ExternalOp& op, std::span<const Sizes> operands) {
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("no reference for a call '{}' with {} results of operands {}",
                                      op.name, op.results.size(), operands),
               .remedy = "see training_layers.h for the calls and their shapes"});
}

struct MatrixSizes {
  int64_t rows, depth, columns;  ///< Of the result, and how many products each element sums.
};
struct AttentionSizes {
  int64_t tokens, heads, kv_heads, dim;
  [[nodiscard]] int64_t group() const { return heads / kv_heads; }
};

Sizes result_sizes(const ExternalOp& op, size_t i) {
  Sizes sizes;
  for (const Extent& extent : op.results[i].shape) sizes.push_back(extent.constant());
  return sizes;
}

/// The call with its operands' sizes; refuses what does not fit.
class CallShape {
 public:
  CallShape(const ExternalOp& op, std::vector<Sizes> operands)
      : op_(op), operands_(std::move(operands)) {
    if (op.name == "attention" || op.name == "attention_backward") {
      check_attention(op.name == "attention" ? Call::kAttention : Call::kAttentionBackward);
    } else if (op.name == "matmul_nt") {
      check_matmul(Call::kNt);
    } else if (op.name == "matmul_nn") {
      check_matmul(Call::kNn);
    } else if (op.name == "matmul_tn") {
      check_matmul(Call::kTn);
    } else {
      refuse(op, operands_);
    }
  }

  Call call{};
  MatrixSizes matrix{};
  AttentionSizes attention{};

 private:
  void require(bool condition) const {
    if (!condition) refuse(op_, operands_);
  }

  void require_results(const std::vector<Sizes>& expected) const {
    require(op_.results.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) require(result_sizes(op_, i) == expected[i]);
  }

  void check_matmul(Call which) {
    call = which;
    const bool adds = which == Call::kNt && operands_.size() == 3;
    require((operands_.size() == 2 || adds) && operands_[0].size() == 2 &&
            operands_[1].size() == 2);
    const size_t a_depth = which == Call::kTn ? 0 : 1;
    const size_t b_depth = which == Call::kNt ? 1 : 0;
    require(operands_[0][a_depth] == operands_[1][b_depth]);
    matrix = {.rows = operands_[0][1 - a_depth],
              .depth = operands_[0][a_depth],
              .columns = operands_[1][1 - b_depth]};
    require_results({{matrix.rows, matrix.columns}});
    if (adds) require(operands_[2] == Sizes{matrix.rows, matrix.columns});
  }

  void check_attention(Call which) {
    call = which;
    const bool backward = which == Call::kAttentionBackward;
    const size_t first = backward ? 1 : 0;  // Where q stands.
    require(operands_.size() == (backward ? 6U : 3U));
    const Sizes& q = operands_[first];
    const Sizes& k = operands_[first + 1];
    require(q.size() == 3 && k.size() == 3);
    require(k[0] == q[0] && k[2] == q[2] && operands_[first + 2] == k);
    require(k[1] > 0 && q[1] % k[1] == 0 && q[2] > 0);
    attention = {.tokens = q[0], .heads = q[1], .kv_heads = k[1], .dim = q[2]};
    const Sizes lse = {q[1], q[0]};
    if (backward) {
      require(operands_[0] == q && operands_[4] == q && operands_[5] == lse);
      require_results({q, k, k});
    } else {
      require_results({q, lse});
    }
  }

  const ExternalOp& op_;
  std::vector<Sizes> operands_;
};

template <class T>
std::vector<T> transposed(std::span<const T> x, int64_t rows, int64_t columns) {
  std::vector<T> out;
  out.reserve(x.size());
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row)
      out.push_back(x[static_cast<size_t>(row * columns + column)]);
  }
  return out;
}

// In double, with bounds.

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
  return {.values = transposed(x.values, rows, columns),
          .bounds = transposed(x.bounds, rows, columns)};
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
        scale(1.0 / std::sqrt(static_cast<double>(attention_sizes.dim))) {}

  AttentionSizes sizes;
  double unit;
  DType arithmetic;
  double probability_unit;  ///< Of rounding probabilities before they are multiplied.
  double scale;

  /// Position of the first element of a head's row in q, o or their gradients.
  [[nodiscard]] size_t row(int64_t token, int64_t head) const {
    return static_cast<size_t>((token * sizes.heads + head) * sizes.dim);
  }
  /// The same in k, v or their gradients.
  [[nodiscard]] size_t kv_row(int64_t token, int64_t kv_head) const {
    return static_cast<size_t>((token * sizes.kv_heads + kv_head) * sizes.dim);
  }
  [[nodiscard]] size_t lse_at(int64_t token, int64_t head) const {
    return static_cast<size_t>(head * sizes.tokens + token);
  }

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
      scores.push_back(at.score(q, at.row(i, head), k, at.kv_row(j, kv_head)));
    const bool are_finite = std::ranges::all_of(scores, [&](const Score& score) {
      return fits(std::fabs(score.value) + score.error, at.arithmetic);
    });
    const Probabilities p = probabilities_of(at, scores);
    lse.put(at.lse_at(i, head), p.lse, p.lse_error);
    for (size_t d = 0; d < static_cast<size_t>(sizes.dim); ++d) {
      Accumulator sum;
      double largest = 0.0;
      for (int64_t j = 0; j <= i; ++j) {
        const auto key = static_cast<size_t>(j);
        const size_t element = at.kv_row(j, kv_head) + d;
        sum.add(p.values[key], p.errors[key], v.values[element], v.bounds[element]);
        largest = std::max(largest, std::fabs(v.values[element]) + v.bounds[element]);
      }
      // However far finite scores may be off, o is a mean of v but for the probabilities' sum.
      // Before it is divided by the sum of weights, which are at most 1, it may be that many times
      // larger.
      const bool is_known =
          are_finite && fits(static_cast<double>(i + 1) * 2.0 * largest, at.arithmetic);
      const double within = largest * (1.0 + p.sum_error) + kTiny;
      o.put(at.row(i, head) + d, sum.value,
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
        const size_t row = at.row(i, head);
        const Accumulator delta = dot(dout, row, o, row, sizes.dim);
        const double delta_error = delta.error(sizes.dim, at.arithmetic);
        const double row_lse = lse.values[at.lse_at(i, head)];
        const double lse_bound = lse.bounds[at.lse_at(i, head)];
        std::vector<Accumulator> dq_sums(dim);
        for (int64_t j = 0; j <= i; ++j) {
          const size_t kv_row = at.kv_row(j, kv_head);
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
        const size_t result = at.kv_row(j, kv_head) + d;
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

// As a device would.

/// A tensor's elements in the type that the device computes in; in pieces, because matrices of
/// doubles would be large.
template <class Real>
std::vector<Real> read(const HostTensor& x) {
  constexpr size_t kPiece = 4096;
  std::vector<Real> out(static_cast<size_t>(x.count()));
  std::array<double, kPiece> piece{};
  for (size_t first = 0; first < out.size(); first += kPiece) {
    const std::span<double> part = std::span(piece).first(std::min(kPiece, out.size() - first));
    x.read(static_cast<int64_t>(first), part);
    std::ranges::transform(part, out.begin() + static_cast<ptrdiff_t>(first),
                           [](double value) { return static_cast<Real>(value); });
  }
  return out;
}
template <class Real>
void write(HostTensor& x, const std::vector<Real>& values) {
  x.write(0, std::vector<double>(values.begin(), values.end()));
}

/// Sums of every eighth product, then their sum: what a compiler turns into vectors.
template <class Real>
Real product_sum(const Real* a, const Real* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  std::array<Real, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[static_cast<size_t>(lane)] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) lanes[0] += a[i] * b[i];
  Real sum = 0;
  for (const Real lane : lanes) sum += lane;
  return sum;
}

template <class Real>
void device_matmul(const CallShape& shape, std::span<const HostTensor> inputs,
                   std::span<HostTensor> outputs) {
  const MatrixSizes& sizes = shape.matrix;
  std::vector<Real> a = read<Real>(inputs[0]);
  std::vector<Real> b = read<Real>(inputs[1]);
  if (shape.call == Call::kTn) a = transposed<Real>(a, sizes.depth, sizes.rows);
  if (shape.call != Call::kNt) b = transposed<Real>(b, sizes.depth, sizes.columns);
  std::vector<Real> out(static_cast<size_t>(sizes.rows * sizes.columns));
  if (inputs.size() == 3) out = read<Real>(inputs[2]);
  for_each_range(sizes.rows, 1, 0, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < sizes.columns; ++column) {
        out[static_cast<size_t>(row * sizes.columns + column)] +=
            product_sum(a.data() + row * sizes.depth, b.data() + column * sizes.depth, sizes.depth);
      }
    }
  });
  write(outputs[0], out);
}

/// What is multiplied by a matrix unit, which takes operands of the storage type.
template <class Real>
Real as_operand(DType type, Real x) {
  return static_cast<Real>(round_to(type, static_cast<double>(x)));
}

template <class Real>
void device_attention(const CallShape& shape, std::span<const HostTensor> inputs,
                      std::span<HostTensor> outputs) {
  const AttentionSizes& sizes = shape.attention;
  const BoundedAttention at(sizes, inputs[0].type());
  const DType type = inputs[0].type();
  const auto scale = static_cast<Real>(at.scale);
  const std::vector<Real> q = read<Real>(inputs[0]);
  const std::vector<Real> k = read<Real>(inputs[1]);
  const std::vector<Real> v = read<Real>(inputs[2]);
  std::vector<Real> o(q.size());
  std::vector<Real> lse(static_cast<size_t>(sizes.heads * sizes.tokens));
  for (int64_t head = 0; head < sizes.heads; ++head) {
    const int64_t kv_head = head / sizes.group();
    for (int64_t i = 0; i < sizes.tokens; ++i) {
      const size_t row = at.row(i, head);
      std::vector<Real> weights;
      Real max = -std::numeric_limits<Real>::infinity();
      for (int64_t j = 0; j <= i; ++j) {
        weights.push_back(scale *
                          product_sum(q.data() + row, k.data() + at.kv_row(j, kv_head), sizes.dim));
        max = std::max(max, weights.back());
      }
      Real sum = 0;
      for (Real& weight : weights) {
        weight = std::exp(weight - max);
        sum += weight;
      }
      for (int64_t j = 0; j <= i; ++j) {
        const Real p = as_operand(type, weights[static_cast<size_t>(j)]);
        for (size_t d = 0; d < static_cast<size_t>(sizes.dim); ++d)
          o[row + d] += p * v[at.kv_row(j, kv_head) + d];
      }
      for (size_t d = 0; d < static_cast<size_t>(sizes.dim); ++d) o[row + d] /= sum;
      lse[at.lse_at(i, head)] = max + std::log(sum);
    }
  }
  write(outputs[0], o);
  write(outputs[1], lse);
}

template <class Real>
void device_attention_backward(const CallShape& shape, std::span<const HostTensor> inputs,
                               std::span<HostTensor> outputs) {
  const AttentionSizes& sizes = shape.attention;
  const BoundedAttention at(sizes, inputs[1].type());
  const DType type = inputs[1].type();
  const auto scale = static_cast<Real>(at.scale);
  const std::vector<Real> dout = read<Real>(inputs[0]);
  const std::vector<Real> q = read<Real>(inputs[1]);
  const std::vector<Real> k = read<Real>(inputs[2]);
  const std::vector<Real> v = read<Real>(inputs[3]);
  const std::vector<Real> o = read<Real>(inputs[4]);
  const std::vector<Real> lse = read<Real>(inputs[5]);
  std::vector<Real> dq(q.size());
  std::vector<Real> dk(k.size());
  std::vector<Real> dv(v.size());
  for (int64_t head = 0; head < sizes.heads; ++head) {
    for (int64_t i = 0; i < sizes.tokens; ++i) {
      const size_t row = at.row(i, head);
      const Real delta = product_sum(dout.data() + row, o.data() + row, sizes.dim);
      for (int64_t j = 0; j <= i; ++j) {
        const size_t kv_row = at.kv_row(j, head / sizes.group());
        const Real s = scale * product_sum(q.data() + row, k.data() + kv_row, sizes.dim);
        const Real p = std::exp(s - lse[at.lse_at(i, head)]);
        const Real product = product_sum(dout.data() + row, v.data() + kv_row, sizes.dim);
        const Real ds = as_operand(type, p * (product - delta) * scale);
        const Real weight = as_operand(type, p);
        for (size_t d = 0; d < static_cast<size_t>(sizes.dim); ++d) {
          dq[row + d] += ds * k[kv_row + d];
          dk[kv_row + d] += ds * q[row + d];
          dv[kv_row + d] += weight * dout[row + d];
        }
      }
    }
  }
  write(outputs[0], dq);
  write(outputs[1], dk);
  write(outputs[2], dv);
}

template <class Real>
void device_call(const CallShape& shape, std::span<const HostTensor> inputs,
                 std::span<HostTensor> outputs) {
  switch (shape.call) {
    case Call::kNt:
    case Call::kNn:
    case Call::kTn:
      return device_matmul<Real>(shape, inputs, outputs);
    case Call::kAttention:
      return device_attention<Real>(shape, inputs, outputs);
    case Call::kAttentionBackward:
      return device_attention_backward<Real>(shape, inputs, outputs);
  }
  unreachable();
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

void run_reference_call(const ExternalOp& op, std::span<const HostTensor> inputs,
                        std::span<HostTensor> outputs) {
  std::vector<Sizes> sizes;
  for (const HostTensor& input : inputs) sizes.push_back(input.sizes());
  const CallShape shape(op, sizes);
  SINTER_CHECK_OP(outputs.size(), ==, op.results.size());
  if (inputs[0].type() == DType::kF64) return device_call<double>(shape, inputs, outputs);
  device_call<float>(shape, inputs, outputs);
}

}  // namespace sinter
