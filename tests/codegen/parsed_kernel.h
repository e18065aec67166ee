#pragma once

#include <string_view>
#include <utility>

#include "codegen/kernel/kernel_parser.h"
#include "fusion_ir/error.h"

namespace sinter {

/// The kernel of a .kir text. Throws the error of one that does not parse.
inline kir::Kernel parsed(std::string_view text) {
  auto kernel = parse_kernel(text);
  if (!kernel) throw_error(kernel.error());
  return std::move(*kernel);
}

}  // namespace sinter
