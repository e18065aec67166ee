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

// The same where `predicate` holds. Elsewhere nothing is read, and the destination becomes zero.
template <int kBytes>
__device__ __forceinline__ void async_copy(void* shared, const void* global, bool predicate) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "sizes that cp.async has");
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
  const int bytes = predicate ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global),
                 "n"(kBytes), "r"(bytes)
                 : "memory");
  }
}

// Ends this thread's current group of copies; it may be empty.
__device__ __forceinline__ void async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until all copies that this thread has started are there for this thread.
__device__ __forceinline__ void async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Waits until at most the last kPending groups of this thread are incomplete.
template <int kPending>
__device__ __forceinline__ void async_wait_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
