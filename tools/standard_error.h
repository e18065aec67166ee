#pragma once

#include <cstdio>
#include <string_view>

namespace sinter::tool {

/// Writes to standard error, which may be closed or full: then nobody reads it, and the command
/// goes on. fmt::print() would throw.
inline void tell(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace sinter::tool
