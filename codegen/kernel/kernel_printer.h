#pragma once

#include <string>

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// The kernel as .kir text (grammar in docs/kernel_ir.md). Deterministic; parse_kernel gives back
/// an equal kernel for every canonical one that verifies. Expressions are written out where they
/// are used and statements in their order, so the text does not show their ids. Needs ids in range.
std::string print(const kir::Kernel& kernel);

}  // namespace sinter
