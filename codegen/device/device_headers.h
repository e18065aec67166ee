#pragma once

#include <span>
#include <string_view>

namespace sinter {

// A header of codegen/device/ as it was when the library was built.
struct EmbeddedHeader {
  std::string_view name;  // path below codegen/device/, as kernels include it
  std::string_view text;
};

// Lists all embedded headers, sorted by name. The text lives as long as the program.
std::span<const EmbeddedHeader> embedded_device_headers();

}  // namespace sinter
