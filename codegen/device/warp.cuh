#pragma once

// Exchange between the lanes of a warp. All 32 lanes take part.

// The value of the lane whose number differs from the caller's in the bits of `mask`. Doubles and
// 64-bit integers take two shuffles.
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
