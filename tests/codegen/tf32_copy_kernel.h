#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace sinter {

/// Copies 64 elements of f32 by a tensor map that rounds them to TF32, and stores them as they are
/// in shared memory.
inline constexpr std::string_view kTf32CopyKernel =
    R"(kernel @tf32_copy threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global read align 16 value %v0
  buffer %b1 y : f32 global write align 16 value %v1
  buffer %b2 s : f32 shared readwrite align 128 count 64
  mbarrier %m0 full count 1 arrivals 1
  tensor_map %t0 map of %b0 tf32 axis 64 stride 1 box 64
  init_mbarriers
  barrier
  if eq(thread_index, 0) {
    expect_bytes %m0[0] 256
    tensor_copy %b2[0] = %t0[0] mbarrier %m0[0]
  }
  mbarrier_wait %m0[0] parity 0
  var %r0 v : f32
  %r0[0, 0] = load %b2[thread_index] width 1
  store %b1[thread_index] = %r0[0, 0] width 1
}
)";

/// Numbers around those that TF32 has, the largest, the smallest and special ones.
inline std::array<float, 64> numbers_around_tf32() {
  std::array<float, 64> out{};
  constexpr std::array kParts = {0.0, 0.25, 0.499, 0.5, 0.501, 0.75, 1.0};
  size_t next = 0;
  // Last bits even and odd, of both signs, and of another magnitude.
  for (const double begin : {1.0, 1.0 + 0x1p-10, -(1.0 + 0x1p-10), 0x1.8p-100, -0x1.ffcp99}) {
    for (const double part : kParts) {
      const double step = std::ldexp(1.0, std::ilogb(begin) - 10);
      out[next++] = static_cast<float>(begin + std::copysign(part * step, begin));
    }
  }
  using Limits = std::numeric_limits<float>;
  for (const float special : {0.0F, -0.0F, Limits::infinity(), -Limits::infinity(), Limits::max(),
                              Limits::lowest(), Limits::min(), Limits::denorm_min(), 0x1p-137F,
                              0x1.8p-137F, 0x1p-136F, 0x1.8p-136F, -0x1.8p-136F})
    out[next++] = special;
  return out;
}

/// The nearest number that TF32 has; of two equally near ones, that with an even last bit.
inline float nearest_tf32(float x) {
  if (!std::isfinite(x) || x == 0.0F) return x;
  constexpr int kLeastExponent = -126;
  const int exponent = std::max(std::ilogb(x), kLeastExponent);
  const double scaled = std::ldexp(static_cast<double>(x), 10 - exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(scaled), exponent - 10));
}

}  // namespace sinter
