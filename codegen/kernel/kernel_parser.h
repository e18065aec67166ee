#pragma once

#include <span>
#include <string_view>

#include "codegen/kernel/kernel_ir.h"
#include "fusion_ir/result.h"

namespace sinter {

/// Reads .kir text (grammar in docs/kernel_ir.md). The result is canonical and all its ids are in
/// range, but it may break other invariants, which verify_kernel checks; tests use this to make
/// faulty kernels. Accepts any bytes. Errors (InvalidArgument): "line:column: what is wrong, found
/// 'token'", lines and byte columns from 1. `reductions`: rows that the text may name beside those
/// of all_reductions(); the kernel refers to them, so they must outlive it.
Result<kir::Kernel> parse_kernel(std::string_view text,
                                 std::span<const ReductionTraits> reductions = {});

}  // namespace sinter
