#pragma once

#include <span>
#include <vector>

#include "fusion_ir/fusion_builder.h"

namespace sinter {

/// Reductions of parts, and the ops that combine their results. All parts but the last have the
/// same number of elements, so the results of the whole follow from those of the parts. Types are
/// those of the reduction of the whole.

/// The results of a reduction along one axis: those of the op itself. For the index of an extreme,
/// the extreme is a second result.
std::vector<ValueId> reduce_part(FusionBuilder& builder, const OpKind& kind, ValueId x, int axis);

/// Combines reduce_part's results along an axis of parts into those of the whole. For the index of
/// an extreme this is the last one. Parts are combined in order; of equal extremes the first
/// counts. `length`: elements of a part.
std::vector<ValueId> combine_parts(FusionBuilder& builder, const OpKind& kind,
                                   std::span<const ValueId> partials, int axis, int64_t length);

/// A take of one element along an axis as a maximum, which keeps its sign and its NaN, over parts
/// of the axis. Not for bool.
///
/// The elements of x at `index`, which lacks the axis, and the least value of the compute type of x
/// for all others. x begins at element `first` of the axis.
ValueId taken_elements(FusionBuilder& builder, ValueId x, ValueId index, int axis,
                       int64_t first = 0);
/// What the take gives: the maximum of all taken_elements(), or 0 for an index outside of the
/// `length` elements, rounded to a type.
ValueId taken_of_maximum(FusionBuilder& builder, ValueId maximum, ValueId index, int64_t length,
                         DType type);

/// Mean and sum of squared differences of two groups of elements combined. Equal means stay exact,
/// and no difference of finite means overflows.
struct Moments {
  ValueId mean;
  ValueId m2;
  int64_t elements = 0;
};
Moments merge_moments(FusionBuilder& builder, const Moments& a, const Moments& b);

}  // namespace sinter
