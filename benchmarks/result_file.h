#pragma once

#include <string>

namespace sinter::bench {

/// The text of a result file. Large ones are kept compressed: where `path` does not exist, it is
/// read from `path`.xz. Throws std::runtime_error where neither can be read, or a file is damaged.
std::string read_result(const std::string& path);

}  // namespace sinter::bench
