#include "runtime/oracle/evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/oracle/bounded_cast.h"
#include "runtime/oracle/bounded_reduction.h"

namespace sinter {
namespace {

/// Splits the axes of a reduction's operand into kept and reduced ones and hands out the elements
/// of one reduction at a time, gathered.
class RowGatherer {
 public:
  RowGatherer(const TensorView& x, std::span<const int> reduced) : x_(x) {
    Sizes kept_sizes;
    Sizes kept_strides;
    Sizes reduced_sizes;
    Sizes reduced_strides;
    for (size_t axis = 0; axis < x.sizes.size(); ++axis) {
      const bool removed = std::ranges::find(reduced, static_cast<int>(axis)) != reduced.end();
      (removed ? reduced_sizes : kept_sizes).push_back(x.sizes[axis]);
      (removed ? reduced_strides : kept_strides).push_back(x.strides[axis]);
    }
    rows_ = offsets_of(kept_sizes, kept_strides);
    inside_ = offsets_of(reduced_sizes, reduced_strides);
    real_.resize(is_float(x.type) ? inside_.size() : 0);
    integer_.resize(is_float(x.type) ? 0 : inside_.size());
    bounds_.resize(x.elements->bound.empty() ? 0 : inside_.size());
  }

  [[nodiscard]] size_t row_count() const { return rows_.size(); }
  /// Valid until the next call.
  RealRow real_row(size_t row) {
    gather(x_.elements->real, row, real_);
    return {real_, gathered_bounds(row)};
  }
  IntegerRow integer_row(size_t row) {
    gather(x_.elements->integer, row, integer_);
    return {integer_, gathered_bounds(row)};
  }

 private:
  template <class T>
  void gather(const std::vector<T>& from, size_t row, std::vector<T>& to) {
    const int64_t start = x_.offset + rows_[row];
    for (size_t i = 0; i < to.size(); ++i) to[i] = from[static_cast<size_t>(start + inside_[i])];
  }
  std::span<const double> gathered_bounds(size_t row) {
    gather(x_.elements->bound, row, bounds_);
    return bounds_;
  }

  const TensorView& x_;
  std::vector<int64_t> rows_;    ///< Offset of each row's first element.
  std::vector<int64_t> inside_;  ///< Offsets of a row's elements from its first.
  std::vector<double> real_;
  std::vector<int64_t> integer_;
  std::vector<double> bounds_;
};

/// Bound of one op's result as a visitor of its kind.
class OpEvaluator {
 public:
  OpEvaluator(const Fusion& fusion, const Binding& binding, const Op& op,
              std::span<const TensorView> operands)
      : fusion_(fusion), binding_(binding), op_(op), operands_(operands) {}

  using Views = std::vector<TensorView>;

  Views operator()(const InputOp&) const { unreachable(); }

  Views operator()(const ConstantOp& op) const {
    ElementWriter out = writer();
    if (is_float(type())) {
      out.push(BoundedReal{round_to(type(), op.real), 0.0});
    } else {
      out.push(BoundedInteger{op.integer, 0.0});
    }
    return one(std::move(out));
  }

  Views operator()(const PointwiseOp& op) const {
    if (op.fn == PointwiseFn::kSelect) return select();
    ElementWriter out = writer();
    const bool real = is_float(operands_[0].type);
    if (real && !is_float(type())) {
      each(out, [&](auto x, auto y, auto) { return evaluate_test(op.fn, x, y); });
    } else if (real) {
      each(out, [&](auto x, auto y, auto z) { return bounded_real(op.fn, type(), x, y, z); });
    } else {
      const DType operand_type = operands_[0].type;
      each_integer(out, [&](auto x, auto y, auto z) {
        return bounded_integer(op.fn, operand_type, x, y, z);
      });
    }
    return one(std::move(out));
  }

  Views operator()(const CastOp&) const {
    const TensorView& x = operands_[0];
    if (x.type == type()) return {x};
    ElementWriter out = writer();
    for_each_element<1>(x.sizes, {&x}, [&](const auto& at) {
      if (is_float(x.type)) {
        push_cast(out, x.real(at[0]));
      } else {
        push_cast(out, x.integer(at[0]));
      }
    });
    return one(std::move(out));
  }

  Views operator()(const BroadcastOp& op) const {
    TensorView result = operands_[0];
    result.sizes = sizes();
    result.strides.assign(result.sizes.size(), 0);
    for (size_t axis = 0; axis < op.axes.size(); ++axis) {
      const bool expands = operands_[0].sizes[axis] == 1;
      result.strides[static_cast<size_t>(op.axes[axis])] = expands ? 0 : operands_[0].strides[axis];
    }
    return {std::move(result)};
  }

  Views operator()(const ReduceOp& op) const {
    const TensorView& x = operands_[0];
    RowGatherer rows(x, op.axes);
    ElementWriter out = writer();
    const bool index = op.fn == ReduceFn::kArgMax || op.fn == ReduceFn::kArgMin;
    for (size_t row = 0; row < rows.row_count(); ++row) {
      if (is_float(x.type) && index) {
        out.push(index_of_extreme(op.fn, rows.real_row(row)));
      } else if (is_float(x.type)) {
        out.push(reduce_bounded(op.fn, x.type, rows.real_row(row)));
      } else if (index) {
        out.push(index_of_extreme(op.fn, rows.integer_row(row)));
      } else {
        out.push(reduce_bounded(op.fn, x.type, rows.integer_row(row)));
      }
    }
    return one(std::move(out));
  }

  Views operator()(const WelfordOp& op) const { return pair(op.axes, welford_bounded); }
  Views operator()(const LogSumExpOp& op) const { return pair(op.axes, logsumexp_bounded); }

  Views operator()(const TakeOp& op) const {
    const TensorView& x = operands_[0];
    const auto axis = static_cast<size_t>(op.axis);
    const int64_t extent = x.sizes[axis];
    const int64_t stride = x.strides[axis];
    TensorView rows = x;  // x with the axis removed: where index 0 of each result lies
    rows.sizes.erase(rows.sizes.begin() + op.axis);
    rows.strides.erase(rows.strides.begin() + op.axis);
    ElementWriter out = writer();
    for_each_element<2>(sizes(), {&rows, &operands_[1]}, [&](const auto& at) {
      const BoundedInteger index = operands_[1].integer(at[1]);
      const auto pick = [&](int64_t i, auto outside, auto element) {
        return i >= 0 && i < extent ? element(at[0] + i * stride) : outside;
      };
      if (is_float(x.type)) {
        out.push(any_of_picks(index, extent, [&](int64_t i) {
          return pick(i, BoundedReal{}, [&](int64_t position) { return x.real(position); });
        }));
      } else {
        out.push(any_of_picks(index, extent, [&](int64_t i) {
          return pick(i, BoundedInteger{}, [&](int64_t position) { return x.integer(position); });
        }));
      }
    });
    return one(std::move(out));
  }

  Views operator()(const ExtentOp& op) const {
    uint64_t product = 1;
    for (const Extent& extent : op.extents) {
      product *= static_cast<uint64_t>(binding_.size_of(extent));
    }
    ElementWriter out = writer();
    out.push(BoundedInteger{static_cast<int64_t>(product), 0.0});
    return one(std::move(out));
  }

  Views operator()(const IotaOp& op) const {
    TensorView counter{.sizes = sizes()};
    counter.strides.assign(counter.sizes.size(), 0);
    counter.strides[static_cast<size_t>(op.axis)] = 1;
    ElementWriter out = writer();
    for_each_element<1>(counter.sizes, {&counter}, [&](const auto& at) {
      push_cast(out, BoundedInteger{at[0], 0.0});
    });
    return one(std::move(out));
  }

  Views operator()(const PermuteOp& op) const {
    TensorView result = operands_[0];
    for (size_t axis = 0; axis < op.order.size(); ++axis) {
      result.sizes[axis] = operands_[0].sizes[static_cast<size_t>(op.order[axis])];
      result.strides[axis] = operands_[0].strides[static_cast<size_t>(op.order[axis])];
    }
    return {std::move(result)};
  }

  Views operator()(const ReshapeOp&) const {
    const TensorView& x = operands_[0];
    ElementWriter out = writer();
    for_each_element<1>(x.sizes, {&x}, [&](const auto& at) {
      if (is_float(x.type)) {
        out.push(x.real(at[0]));
      } else {
        out.push(x.integer(at[0]));
      }
    });
    return one(std::move(out));
  }

  Views operator()(const SliceOp& op) const {
    TensorView result = operands_[0];
    result.sizes = sizes();
    for (size_t axis = 0; axis < result.sizes.size(); ++axis) {
      result.offset += op.start[axis] * operands_[0].strides[axis];
      result.strides[axis] *= op.step[axis];
    }
    return {std::move(result)};
  }

 private:
  [[nodiscard]] const Value& value(size_t result = 0) const {
    return fusion_.values[op_.results[result]];
  }
  [[nodiscard]] DType type() const { return value().type; }
  [[nodiscard]] Sizes sizes() const { return binding_.sizes_of(value().shape); }
  [[nodiscard]] ElementWriter writer(size_t result = 0) const {
    return {value(result).type, binding_.sizes_of(value(result).shape)};
  }
  static Views one(ElementWriter out) { return {std::move(out).finish()}; }

  void push_cast(ElementWriter& out, auto x) const {
    if (is_float(type())) {
      out.push(cast_to_real(type(), x));
    } else {
      out.push(cast_to_integer(type(), x));
    }
  }

  /// Operand i, or the first again where the op has fewer.
  [[nodiscard]] const TensorView& operand(size_t i) const {
    return operands_[i < operands_.size() ? i : 0];
  }
  [[nodiscard]] std::array<const TensorView*, 3> three() const {
    return {&operand(0), &operand(1), &operand(2)};
  }
  template <class Rule>
  void each(ElementWriter& out, Rule rule) const {
    for_each_element<3>(sizes(), three(), [&](const auto& at) {
      out.push(rule(operand(0).real(at[0]), operand(1).real(at[1]), operand(2).real(at[2])));
    });
  }
  template <class Rule>
  void each_integer(ElementWriter& out, Rule rule) const {
    for_each_element<3>(sizes(), three(), [&](const auto& at) {
      out.push(
          rule(operand(0).integer(at[0]), operand(1).integer(at[1]), operand(2).integer(at[2])));
    });
  }

  [[nodiscard]] Views select() const {
    ElementWriter out = writer();
    for_each_element<3>(sizes(), three(), [&](const auto& at) {
      const BoundedInteger condition = operand(0).integer(at[0]);
      if (is_float(type())) {
        out.push(select_bounded(condition, operand(1).real(at[1]), operand(2).real(at[2])));
      } else {
        out.push(select_bounded(condition, operand(1).integer(at[1]), operand(2).integer(at[2])));
      }
    });
    return one(std::move(out));
  }

  template <class Rule>
  [[nodiscard]] Views pair(std::span<const int> axes, Rule rule) const {
    RowGatherer rows(operands_[0], axes);
    ElementWriter first = writer(0);
    ElementWriter second = writer(1);
    for (size_t row = 0; row < rows.row_count(); ++row) {
      const BoundedPair result = rule(operands_[0].type, rows.real_row(row));
      first.push(result.first);
      second.push(result.second);
    }
    return {std::move(first).finish(), std::move(second).finish()};
  }

  /// The element at an index; where the index is uncertain, a bound that covers every element it
  /// may pick, the zero outside the axis included.
  template <class Pick>
  static auto any_of_picks(BoundedInteger index, int64_t extent, Pick pick) {
    auto result = pick(index.value);
    if (index.bound == 0.0) return result;
    const double low = static_cast<double>(index.value) - index.bound;
    const double high = static_cast<double>(index.value) + index.bound;
    for (int64_t i = -1; i <= extent; ++i) {  // -1 and extent stand for all beyond
      const auto at = static_cast<double>(i);
      const bool possible = i < 0 ? low < 0.0 : i == extent ? high >= at : at >= low && at <= high;
      if (possible) result = select_bounded({1, 1.0}, result, pick(i));
    }
    return result;
  }

  const Fusion& fusion_;
  const Binding& binding_;
  const Op& op_;
  std::span<const TensorView> operands_;
};

}  // namespace

std::vector<TensorView> evaluate_op(const Fusion& fusion, const Binding& binding, OpId op,
                                    std::span<const TensorView> operands) {
  return std::visit(OpEvaluator(fusion, binding, fusion.ops[op], operands), fusion.ops[op].kind);
}

}  // namespace sinter
