#include "scheduler/analysis/joined_loops.h"

#include <cstddef>

namespace sinter {

std::optional<JoinedLoop> join_loops(std::span<const int64_t> sizes,
                                     std::span<const int64_t> strides) {
  JoinedLoop out;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (out.size == 1) {
      out.stride = strides[i];
    } else if (strides[i] != out.stride * out.size) {
      return std::nullopt;
    }
    out.size *= sizes[i];
  }
  return out;
}

}  // namespace sinter
