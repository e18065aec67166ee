#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace sinter {

/// As long as it lives, the process may take so many bytes of address space beyond what it has: an
/// allocation of more throws, and does not take the machine's memory. It has no effect under
/// sanitizers, whose shadow memory is larger than any limit.
class MemoryLimit {
 public:
  explicit MemoryLimit(int64_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
};

/// What parsing, planning and interpreting a small text may take: half of it the variables of the
/// threads that an interpreter runs together.
inline constexpr int64_t kMostFuzzBytes = int64_t{1} << 30;

}  // namespace sinter
