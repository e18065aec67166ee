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

/// The elements of x that a take along an axis gives, and zeros for all others, in the compute type
/// of x: the take is their sum. `index` lacks the axis. x begins at element `first` of the axis. An
/// index outside of x takes nothing. Not for bool.
ValueId taken_elements(FusionBuilder& builder, ValueId x, ValueId index, int axis,
                       int64_t first = 0);

/// Mean and sum of squared differences of two groups of elements combined. Equal means stay exact,
/// and no difference of finite means overflows.
struct Moments {
  ValueId mean;
  ValueId m2;
  int64_t elements = 0;
};
Moments merge_moments(FusionBuilder& builder, const Moments& a, const Moments& b);

}  // namespace sinter
