#pragma once

#include <cstdint>
#include <functional>

namespace sinter {

/// Calls body(begin, end) for consecutive ranges of `range_size` elements (the last may be shorter)
/// that together are [0, count), on several threads and in no order. Where the ranges begin and end
/// depends on `count` and `range_size` alone, never on the number of threads. A single range runs
/// on the calling thread.
///
/// `threads` is how many run ranges, the caller among them. 0: as many as the machine has cores,
/// less those that other loops hold at that time. Loops that run at once share the cores between
/// them, and so does a loop inside a range of another.
///
/// Where bodies throw, one of their exceptions is rethrown once all threads have stopped; ranges
/// not yet begun are left out.
void for_each_range(int64_t count, int64_t range_size, int threads,
                    const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace sinter
