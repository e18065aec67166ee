#pragma once

// What the blocks of a launch tell each other through global memory. Instructions after the PTX ISA
// 6.0, "membar/fence", and 2.0, "atom".

// Orders the thread's memory accesses before it with those after it, for all threads of the device;
// with those that the thread knows of by a barrier, too. Weaker than __threadfence(), which orders
// fences among each other as well.
__device__ __forceinline__ void device_fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// The counter as it was; it goes to the next number, and from `last` to 0. Orders nothing itself.
__device__ __forceinline__ int atomic_count(int* counter, int last) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(last)
               : "memory");
  return (int)before;
}
