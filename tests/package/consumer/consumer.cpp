// Uses one function of the first library and one of the third, so that the consumer links through
// all of what the package exports between them.
#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "codegen/device_headers.h"
#include "fusion_ir/dtype.h"

int main() {
  for (const std::string_view name : {"bf16", "f32"}) {
    const std::optional<sinter::DType> type = sinter::dtype_from_name(name);
    if (!type || sinter::name_of(*type) != name) return 1;
  }
  for (const sinter::EmbeddedHeader& header : sinter::embedded_device_headers()) {
    if (header.name.empty() || header.text.empty()) return 1;
    fmt::print("{}: {} bytes\n", header.name, header.text.size());
  }
  return 0;
}
