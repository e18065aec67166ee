#pragma once

#include <cstdint>

namespace sinter {

/// a / b, rounded up; a >= 0, b > 0.
constexpr int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The least multiple of `unit` > 0 that is no less than a >= 0.
constexpr int64_t rounded_up(int64_t a, int64_t unit) { return divided_up(a, unit) * unit; }

}  // namespace sinter
