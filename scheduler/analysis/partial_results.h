#pragma once

#include <span>
#include <vector>

#include "fusion_ir/fusion_builder.h"

namespace sinter {

/// Reductions of parts, and what combines their results. All parts but one that stands last have
/// the same number of elements, so that of a reduction's results for each part follow those of the
/// whole. Types are those of the reduction of the whole.

/// The results of a reduction for the elements along one axis: those of the op itself, and for the
/// index of an extreme the extreme beside it.
std::vector<ValueId> reduce_part(FusionBuilder& builder, const OpKind& kind, ValueId x, int axis);

/// The results of the whole, of reduce_part's with an axis of parts: for the index of an extreme
/// the last one. Parts are combined in their order, and of equal extremes the first counts.
/// `length`: elements of a part.
std::vector<ValueId> combine_parts(FusionBuilder& builder, const OpKind& kind,
                                   std::span<const ValueId> partials, int axis, int64_t length);

/// Mean and sum of squared differences of two groups of elements together. Equal means stay as they
/// are, and no difference of finite means overflows.
struct Moments {
  ValueId mean;
  ValueId m2;
  int64_t elements = 0;
};
Moments merge_moments(FusionBuilder& builder, const Moments& a, const Moments& b);

}  // namespace sinter
