#include "runtime/oracle/contracted_row.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/oracle/error_model.h"

namespace sinter {
namespace {

/// An operand along some axes of a contraction's space, from `first` on: where it does not have
/// one, its elements repeat. Places count from its first element.
TensorView along(const TensorView& x, const std::vector<int>& axes, size_t first,
                 const Sizes& sizes) {
  TensorView out{.type = x.type, .sizes = sizes, .strides = Sizes(sizes.size(), 0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    if (axis >= first && axis < first + sizes.size()) out.strides[axis - first] = x.strides[i];
  }
  return out;
}

ElementRuns<2> runs_of_results(const ContractOp& op, const TensorView& left,
                               const TensorView& right, const Sizes& space) {
  const Sizes result(space.begin(), space.end() - std::ssize(op.reduced));
  TensorView a = along(left, op.left, 0, result);
  TensorView b = along(right, op.right, 0, result);
  a.offset = left.offset;
  b.offset = right.offset;
  return ElementRuns<2>(result, {&a, &b});
}

/// Places of pairs from that of the first.
ElementRuns<2> runs_of_pairs(const ContractOp& op, const TensorView& left, const TensorView& right,
                             const Sizes& space) {
  const Sizes reduced(space.end() - std::ssize(op.reduced), space.end());
  const size_t first = space.size() - reduced.size();
  const TensorView a = along(left, op.left, first, reduced);
  const TensorView b = along(right, op.right, first, reduced);
  return ElementRuns<2>(reduced, {&a, &b});
}

}  // namespace

ContractedPairs::ContractedPairs(const ContractOp& op, const TensorView& left,
                                 const TensorView& right, const Sizes& space)
    : left_(left),
      right_(right),
      results_(runs_of_results(op, left, right, space)),
      pairs_(runs_of_pairs(op, left, right, space)) {}

/// A product in f32 may be contracted with the addition behind it, so that one that overflows is
/// not known to be infinite.
BoundedReal ContractedRow::product(BoundedReal a, BoundedReal b) const {
  BoundedReal out = bounded_real(PointwiseFn::kMul, type_, a, b);
  const bool is_finite = std::isfinite(a.value) && std::isfinite(b.value);
  // A double holds a product of two f32 exactly, so this tells whether f32 does too.
  if (type_ == DType::kF32 && a.bound == 0.0 && b.bound == 0.0 && is_finite &&
      round_to(DType::kF32, out.value) == out.value)
    out.bound = 0.0;
  if (std::isinf(out.value) && is_finite) out.bound = kUnbounded;
  if (op_.precision == ContractPrecision::kIeee) return out;
  const auto reach_of = [](BoundedReal x) { return std::fabs(x.value) + x.bound; };
  // A number that TF32 rounds to zero has no product with an infinity.
  if (!is_finite && std::min(reach_of(a), reach_of(b)) < kTf32Subnormal)
    return {out.value, kUnbounded};
  if (!is_finite) return out;
  // Rounding to fewer bits may overflow before the product does.
  const double reach = std::max(reach_of(a), reach_of(b));
  if (reach * (1.0 + kTf32Unit) >= overflow_threshold(DType::kF32)) return {out.value, kUnbounded};
  const double of_operand = contracted_operand_error(op_.precision);
  out.bound += contracted_product_error(op_.precision) * reach_of(a) * reach_of(b) +
               of_operand * (reach_of(a) + reach_of(b) + of_operand);
  return out;
}

BoundedReal ContractedRow::logsumexp() const {
  const RealRow row{.values = values_, .bounds = bounds_};
  const BoundedReal most = reduce_bounded(ReduceFn::kMax, type_, row);
  // Without a finite maximum nothing is subtracted: the result is the maximum itself.
  if (!std::isfinite(most.value) && std::isfinite(most.bound)) return {most.value, 0.0};
  const BoundedPair pair = logsumexp_bounded(type_, row);
  return bounded_real(PointwiseFn::kAdd, type_, pair.first,
                      bounded_real(PointwiseFn::kLog, type_, pair.second));
}

BoundedReal ContractedRow::real(int64_t left, int64_t right) {
  const auto count = static_cast<size_t>(pairs_.count());
  values_.resize(count);
  bounds_.resize(count);
  double most_bound = 0.0;
  pairs_.for_each_pair(left, right, [&](int64_t pair, int64_t at_left, int64_t at_right) {
    const BoundedReal a = pairs_.left().real(at_left);
    const BoundedReal b = pairs_.right().real(at_right);
    const BoundedReal x =
        op_.fn == ContractFn::kSum ? product(a, b) : bounded_real(PointwiseFn::kAdd, type_, a, b);
    values_[static_cast<size_t>(pair)] = x.value;
    bounds_[static_cast<size_t>(pair)] = x.bound;
    most_bound = std::max(most_bound, x.bound);
  });
  if (op_.fn == ContractFn::kLogSumExp) return logsumexp();
  RealRow row{.values = values_, .bounds = most_bound > 0.0 ? bounds_ : std::span<double>{}};
  if (op_.fn == ContractFn::kMax) return reduce_bounded(ReduceFn::kMax, type_, row);
  row.is_of_mean = sum_.is_of_mean;
  BoundedReal sum = reduce_bounded(ReduceFn::kSum, type_, row);
  // A mean that is found without the sum does not overflow where the sum does.
  if (sum_.is_divided && std::isinf(sum.value) &&
      std::ranges::none_of(values_, [](double e) { return std::isinf(e); }))
    sum.bound = kUnbounded;
  return sum;
}

BoundedInteger ContractedRow::integer(int64_t left, int64_t right) {
  const auto count = static_cast<size_t>(pairs_.count());
  integers_.resize(count);
  bounds_.resize(count);
  const PointwiseFn fn = op_.fn == ContractFn::kSum ? PointwiseFn::kMul : PointwiseFn::kAdd;
  pairs_.for_each_pair(left, right, [&](int64_t pair, int64_t at_left, int64_t at_right) {
    const BoundedInteger x = bounded_integer(fn, type_, pairs_.left().integer(at_left),
                                             pairs_.right().integer(at_right));
    integers_[static_cast<size_t>(pair)] = x.value;
    bounds_[static_cast<size_t>(pair)] = x.bound;
  });
  return reduce_bounded(op_.fn == ContractFn::kSum ? ReduceFn::kSum : ReduceFn::kMax, type_,
                        IntegerRow{.values = integers_, .bounds = bounds_});
}

}  // namespace sinter
