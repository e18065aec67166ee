#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace sinter {

/// Nested loops that walk a tensor as one. Without loops of several elements: size 1, stride 0.
struct JoinedLoop {
  int64_t size = 1;
  int64_t stride = 0;  ///< In elements.
  friend bool operator==(const JoinedLoop&, const JoinedLoop&) = default;
};

/// The loops, from the outermost to the innermost, as one: if each steps over all elements of the
/// next. `strides` are those of a tensor along them.
std::optional<JoinedLoop> join_loops(std::span<const int64_t> sizes,
                                     std::span<const int64_t> strides);

}  // namespace sinter
