#include "scheduler/analysis/partial_results.h"

#include <limits>
#include "fusion_ir/reduction_traits.h"
#include "fusion_ir/result.h"

namespace sinter {
namespace {

ReduceFn extreme_of(const ReductionTraits& search) {
  return search.first_pass == Reduction::kMax ? ReduceFn::kMax : ReduceFn::kMin;
}

/// Index of the extreme of the whole: that of the part with the extreme, plus the elements before
/// this part.
ValueId combine_indices(FusionBuilder& b, ReduceFn fn, ValueId places, ValueId extremes, int axis,
                        int64_t length) {
  const DType type = b.fusion().values[places].type;
  // Always true, because indices are not negative: the select makes `places` and `extremes` share
  // loops.
  const ValueId is_place = b.pointwise(PointwiseFn::kLe, {b.constant_integer(0, type), places});
  const DType compared = b.fusion().values[extremes].type;
  const ValueId zero =
      is_float(compared) ? b.constant(0.0, compared) : b.constant_integer(0, compared);
  const ValueId part = b.reduce(fn, b.select(is_place, extremes, zero), {axis});
  const ValueId place = b.take(places, part, axis);
  const ValueId before = b.mul(b.cast(part, type), b.constant_integer(length, type));
  return b.add(before, place);
}

/// Makes values of one shape share loops: selects between equal values by a condition on the first.
std::vector<ValueId> in_common_loops(FusionBuilder& b, std::span<const ValueId> values) {
  std::vector<ValueId> out(values.begin(), values.end());
  if (out.size() == 1) return out;
  const DType type = b.fusion().values[out[0]].type;
  ValueId condition = out[0];
  if (type != DType::kBool) {
    const ValueId zero = is_float(type) ? b.constant(0.0, type) : b.constant_integer(0, type);
    condition = b.pointwise(PointwiseFn::kLe, {zero, out[0]});
  }
  for (size_t i = 1; i < out.size(); ++i) out[i] = b.select(condition, out[i], out[i]);
  return out;
}

std::vector<ValueId> combine_independent(FusionBuilder& b, const ReductionTraits& traits,
                                         std::span<const ValueId> partials, int axis) {
  std::vector<ValueId> results;
  const std::vector<ValueId> linked = in_common_loops(b, partials);
  for (size_t i = 0; i < linked.size(); ++i)
    results.push_back(b.reduce(reduction_by(traits.components[i]), linked[i], {axis}));
  return results;
}

std::vector<ValueId> combine_moments(FusionBuilder& b, ValueId means, ValueId m2s, int axis,
                                     int64_t length) {
  // Parts have the same length: the mean is that of their means, and m2 gains the spread of the
  // means. The select between equal values makes both partial results share loops.
  const DType type = b.fusion().values[means].type;
  const ValueId is_sum = b.pointwise(PointwiseFn::kLe, {b.constant(0.0, type), m2s});
  const auto [mean, m2] = b.welford(b.select(is_sum, means, means), {axis});
  const ValueId each = b.constant(static_cast<double>(length), type);
  return {mean, b.add(b.sum(m2s, {axis}), b.mul(m2, each))};
}

std::vector<ValueId> combine_logsumexp(FusionBuilder& b, ValueId maxima, ValueId sums, int axis) {
  const ValueId most = b.amax(maxima, {axis});
  const ValueId of_all = b.broadcast_over(most, maxima, {axis});
  const DType type = b.fusion().values[maxima].type;
  // A part that is all -inf has no valid sum, and contributes nothing if another part has a larger
  // maximum.
  const ValueId nothing = b.constant(-std::numeric_limits<double>::infinity(), type);
  const ValueId is_nothing =
      b.pointwise(PointwiseFn::kAnd, {b.pointwise(PointwiseFn::kEq, {maxima, nothing}),
                                      b.pointwise(PointwiseFn::kLt, {maxima, of_all})});
  const ValueId share = b.mul(sums, b.exp(b.sub(maxima, of_all)));
  return {most, b.sum(b.select(is_nothing, b.constant(0.0, type), share), {axis})};
}

}  // namespace

std::vector<ValueId> reduce_part(FusionBuilder& builder, const OpKind& kind, ValueId x, int axis) {
  const ReductionTraits& traits = traits_of(kind);
  switch (traits.tuple) {
    case TupleKind::kIndependent:
      if (const auto* reduce = std::get_if<ReduceOp>(&kind))
        return {builder.reduce(reduce->fn, x, {axis})};
      return builder.reduce_tuple(traits, x, {axis});
    case TupleKind::kPlace:
      return {builder.reduce(std::get<ReduceOp>(kind).fn, x, {axis}),
              builder.reduce(extreme_of(traits), x, {axis})};
    case TupleKind::kMoments: {
      const FusionBuilder::MeanM2 moments = builder.welford(x, {axis});
      return {moments.mean, moments.m2};
    }
    case TupleKind::kScaledSum: {
      const FusionBuilder::MaxSum pair = builder.logsumexp_pair(x, {axis});
      return {pair.max, pair.sum};
    }
  }
  unreachable();
}

std::vector<ValueId> combine_parts(FusionBuilder& builder, const OpKind& kind,
                                   std::span<const ValueId> partials, int axis, int64_t length) {
  switch (traits_of(kind).tuple) {
    case TupleKind::kIndependent:
      return combine_independent(builder, traits_of(kind), partials, axis);
    case TupleKind::kPlace:
      return {combine_indices(builder, std::get<ReduceOp>(kind).fn, partials[0], partials[1], axis,
                              length)};
    case TupleKind::kMoments:
      return combine_moments(builder, partials[0], partials[1], axis, length);
    case TupleKind::kScaledSum:
      return combine_logsumexp(builder, partials[0], partials[1], axis);
  }
  unreachable();
}

ValueId taken_elements(FusionBuilder& builder, ValueId x, ValueId index, int axis, int64_t first) {
  const Shape shape = builder.fusion().values[x].shape;
  const int64_t end = first + shape[static_cast<size_t>(axis)].constant();
  // A cast gives the nearest i32, which no index of the axis is equal to.
  if (end < std::numeric_limits<int32_t>::max()) index = builder.cast(index, DType::kI32);
  const DType counted = builder.fusion().values[index].type;
  ValueId place = builder.iota(shape, axis, counted);
  if (first > 0) place = builder.add(place, builder.constant_integer(first, counted));
  std::vector<int> others;
  for (int other = 0; other < std::ssize(shape); ++other) {
    if (other != axis) others.push_back(other);
  }
  const ValueId is_taken = builder.pointwise(
      PointwiseFn::kEq, {place, builder.broadcast(index, shape, std::move(others))});
  const DType type = compute_type(builder.fusion().values[x].type);
  const int64_t lowest = type == DType::kI32 ? std::numeric_limits<int32_t>::min()
                                             : std::numeric_limits<int64_t>::min();
  const ValueId least = is_float(type)
                            ? builder.constant(-std::numeric_limits<double>::infinity(), type)
                            : builder.constant_integer(lowest, type);
  return builder.select(is_taken, builder.cast(x, type), least);
}

ValueId taken_of_maximum(FusionBuilder& builder, ValueId maximum, ValueId index, int64_t length,
                         DType type) {
  const DType counted = builder.fusion().values[index].type;
  const ValueId is_inside = builder.pointwise(
      PointwiseFn::kAnd,
      {builder.pointwise(PointwiseFn::kLe, {builder.constant_integer(0, counted), index}),
       builder.pointwise(PointwiseFn::kLe,
                         {index, builder.constant_integer(length - 1, counted)})});
  const DType computed = builder.fusion().values[maximum].type;
  const ValueId zero =
      is_float(computed) ? builder.constant(0.0, computed) : builder.constant_integer(0, computed);
  return builder.cast(builder.select(is_inside, maximum, zero), type);
}

Moments merge_moments(FusionBuilder& builder, const Moments& a, const Moments& b) {
  const DType type = builder.fusion().values[a.mean].type;
  const auto number = [&](double value) { return builder.constant(value, type); };
  const auto count_a = static_cast<double>(a.elements);
  const auto count_b = static_cast<double>(b.elements);
  const double share_b = count_b / (count_a + count_b);
  // Chan, Golub and LeVeque, "Algorithms for computing the sample variance", with half of the
  // difference of the means, which does not overflow.
  const ValueId half_a = builder.mul(a.mean, number(0.5));
  const ValueId half_b = builder.mul(b.mean, number(0.5));
  const ValueId half = builder.sub(half_b, half_a);
  const ValueId moved = builder.add(a.mean, builder.mul(half, number(2.0 * share_b)));
  // An infinite mean is the mean of both groups, unless the other one is its opposite.
  const double most =
      type == DType::kF64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const ValueId is_finite = builder.pointwise(PointwiseFn::kLe, {builder.abs(half), number(most)});
  const ValueId mean = builder.select(is_finite, moved, builder.add(half_a, half_b));
  const ValueId between = builder.mul(half, builder.mul(half, number(4.0 * count_a * share_b)));
  return {.mean = mean,
          .m2 = builder.add(builder.add(a.m2, b.m2), between),
          .elements = a.elements + b.elements};
}

}  // namespace sinter
