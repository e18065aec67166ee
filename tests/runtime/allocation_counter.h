#pragma once

#include <cstdint>

namespace sinter {

/// Heap allocations that operator new has made in this program so far, on all threads. Linking this
/// replaces the global operator new and delete.
int64_t allocation_count();

}  // namespace sinter
