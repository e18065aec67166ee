#include "tests/fuzz/memory_limit.h"

#include <unistd.h>

#include <fstream>

namespace sinter {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasEffect = false;
#else
constexpr bool kHasEffect = true;
#endif

/// Of the process, now.
int64_t address_space_bytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

MemoryLimit::MemoryLimit(int64_t bytes) {
  getrlimit(RLIMIT_AS, &before_);
  if (!kHasEffect) return;
  rlimit limit = before_;
  limit.rlim_cur = static_cast<rlim_t>(address_space_bytes() + bytes);
  setrlimit(RLIMIT_AS, &limit);
}

MemoryLimit::~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }

}  // namespace sinter
