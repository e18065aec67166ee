#pragma once

// Copies from global to shared memory that do not pass through registers.

// There is no form with an L2 policy: cp.async with L2::cache_hint ran into an illegal instruction
// on an H200 in some kernels (NVRTC 13.0; the policy from createpolicy or a constant alike).

// Starts a copy of 4, 8 or 16 bytes; both addresses are multiples of that. Copies of 16 bytes skip
// L1.
template <int kBytes>
__device__ __forceinline__ void async_copy(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "sizes that cp.async has");
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(kBytes)
                 : "memory");
  }
}

// Waits until all copies that this thread has started are there for this thread.
__device__ __forceinline__ void async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
