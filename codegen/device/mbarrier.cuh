#pragma once

// Bulk copies into shared memory, the mbarriers that count their bytes, barriers of some warps of a
// block, and registers that warps pass to each other. From sm_90; set_max_registers from sm_90a.
// Instructions after the PTX ISA 8.0 and later, "mbarrier", "cp.async.bulk", "bar", "setmaxnreg".

#include "vector.cuh"

using Mbarrier = unsigned long long;

SINTER_DEVICE unsigned shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

// One thread calls it for each mbarrier, then mbarrier_fence_init once; after a barrier of the
// block all threads may use them.
SINTER_DEVICE void mbarrier_init(Mbarrier* barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

// Makes the initial values visible to the unit that carries bulk copies out.
SINTER_DEVICE void mbarrier_fence_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Orders the thread's loads and stores of shared memory before what bulk copies write there, for
// whoever comes after the thread (PTX ISA, "Async proxy").
SINTER_DEVICE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// One arrival; orders what the thread did before it. A thread that has waited for the phase may
// fill by bulk copies what others have read before they arrived: those copies take another way to
// shared memory than loads do, and only the fence holds them back until the loads are through (PTX
// ISA, "Async proxy"). Without it a gradient of 16384 x 8192 whose threads arrived right after
// their loads read parts of later rows, in one of 100 executions or in all.
SINTER_DEVICE void mbarrier_arrive(Mbarrier* barrier) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

// One arrival that makes the phase wait for `bytes` of bulk copies too.
SINTER_DEVICE void mbarrier_expect_bytes(Mbarrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

// Returns when the phase of that parity is complete: at once if it is the phase before the current
// one. The hardware lets the thread sleep for a while in each try.
SINTER_DEVICE void mbarrier_wait(Mbarrier* barrier, int parity) {
  const unsigned address = shared_address(barrier);
  unsigned complete = 0;
  while (complete == 0) {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(complete)
        : "r"(address), "r"(parity)
        : "memory");
  }
}

// Starts a copy of whole elements; both addresses and the bytes are multiples of 16. The bytes
// count towards the current phase of the mbarrier when they have arrived.
template <class T>
SINTER_DEVICE void bulk_copy(T* shared, const T* global, long long elements, Mbarrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(global), "r"((unsigned)(elements * (int)sizeof(T))), "r"(shared_address(barrier))
      : "memory");
}

// The same with an L2 policy.
template <class T>
SINTER_DEVICE void bulk_copy_with(unsigned long long policy, T* shared, const T* global,
                                  long long elements, Mbarrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(shared)),
      "l"(global), "r"((unsigned)(elements * (int)sizeof(T))), "r"(shared_address(barrier)),
      "l"(policy)
      : "memory");
}
// What it brings to L2 leaves L2 first, or last.
template <class T>
SINTER_DEVICE void bulk_copy_evict_first(T* shared, const T* global, long long elements,
                                         Mbarrier* barrier) {
  bulk_copy_with(evict_first_policy(), shared, global, elements, barrier);
}
template <class T>
SINTER_DEVICE void bulk_copy_evict_last(T* shared, const T* global, long long elements,
                                        Mbarrier* barrier) {
  bulk_copy_with(evict_last_policy(), shared, global, elements, barrier);
}

// Waits until `threads` threads, in whole warps, have come to barrier `id`, 1 to 15; 0 is that of
// the block.
SINTER_DEVICE void group_barrier(int id, int threads) {
  asm volatile("barrier.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// All warps of a group of four give up registers beyond `kRegisters`, or wait until they have as
// many: a multiple of 8 from 24 to 240.
template <int kRegisters>
SINTER_DEVICE void decrease_max_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
SINTER_DEVICE void increase_max_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
