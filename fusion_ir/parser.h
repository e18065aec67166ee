#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/fusion.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/reduction_traits.h"
#include "fusion_ir/result.h"

namespace sinter {

/// Reads .fir text (grammar in fusion_ir/README.md) and checks all that FusionBuilder checks, so a
/// fusion it returns verifies. Takes any bytes: time is n log n in their number, memory linear.
/// Errors (InvalidFusion): "line:column: what is wrong, found 'token'", lines and byte columns
/// from 1. `reductions`: rows that tuple reductions of the text may name, beside Sinter's own ops;
/// the fusion refers to them, so they must outlive it.
Result<Fusion> parse_fusion(std::string_view text,
                            std::span<const ReductionTraits> reductions = {});

// Pieces of .fir text, for those who build a graph op by op and have no C++ types: bindings to
// other languages. Positions in errors are those in the piece.

/// "strides(cols, 1) align(4) alias(%v0)", each part optional: what stands behind an output. Behind
/// an input, whose layout has no alias, the same.
Result<OutputOptions> parse_layout(FusionBuilder& builder, std::string_view text);

/// Appends what an op of .fir text without its values says ("reduce.sum over(1)", "external
/// matmul"), with casts and broadcasts where the builder's calls insert them; "over()" stands for
/// all axes. `types` are those of the results, separated by commas; they are checked, and may be
/// empty where operands and attributes decide them: not for constant, cast, broadcast, reshape,
/// iota, input and external. `names` has one for each result, which may be empty, or is empty. A
/// failure may leave ops behind that nothing reads.
Result<std::vector<ValueId>> append_op(FusionBuilder& builder, std::string_view op,
                                       std::vector<ValueId> operands, std::string_view types = {},
                                       std::vector<std::string> names = {});

}  // namespace sinter
