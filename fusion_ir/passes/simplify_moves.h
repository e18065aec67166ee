#pragma once

#include <optional>

#include "fusion_ir/rewriter.h"

namespace sinter {

/// The part of simplify_algebra that concerns broadcast, permute, reshape, slice, pad and a
/// concatenate of one operand, and reductions over axes of one element: what a move of `operand` to
/// `result` can be replaced by, or nothing. `kind` must not live in rewriter.graph().
std::optional<ValueId> simplify_move(Rewriter& rewriter, const OpKind& kind, ValueId operand,
                                     const Value& result);

}  // namespace sinter
