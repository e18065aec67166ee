#pragma once

#include <string>
#include <vector>

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// What is wrong with a tensor map, one message each; empty for one that the CUDA driver API
/// encodes
/// ("cuTensorMapEncodeTiled"). The verifier reports them, and the interpreter runs no kernel that
/// has any.
std::vector<std::string> problems_of(const kir::Kernel& kernel, const kir::TensorMap& map);
/// The same of types, columns and operands of a product, whose ids exist; not of its expressions.
std::vector<std::string> problems_of(const kir::Kernel& kernel, const kir::Wgmma& product);

}  // namespace sinter
