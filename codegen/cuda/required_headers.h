#pragma once

#include <string_view>
#include <vector>

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// Names of the device headers (codegen/device) that a kernel's code includes, ascending.
std::vector<std::string_view> required_headers(const kir::Kernel& kernel);

}  // namespace sinter
