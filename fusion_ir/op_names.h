#pragma once

#include <string_view>
#include <vector>

namespace sinter {

// Names as .fir and .kir write them, for messages about a name that none of them is.

/// Of element types: "bf16".
std::vector<std::string_view> dtype_names();
/// Of pointwise functions: "add".
std::vector<std::string_view> pointwise_names();
/// Of all ops: "add", "reduce.sum", "cast".
std::vector<std::string_view> op_names();

}  // namespace sinter
