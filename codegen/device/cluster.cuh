#pragma once

// Blocks of a cluster: their barrier, and stores into each other's shared memory that count towards
// an mbarrier there. From sm_90. Instructions after the PTX ISA 8.1, "barrier.cluster", "mapa",
// "st.async".

#include "mbarrier.cuh"
#include "vector.cuh"

// All threads of all blocks of the cluster wait here; what they did before comes before what any of
// them does after.
SINTER_DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The same in two halves, which order the initialisation of mbarriers alone: mbarrier_fence_init
// releases it. An arrival that releases all memory waits for all loads in flight, and the compiler
// starts loads through the read-only path before it, so a block would wait for most of its row
// before it asks for the rest.
SINTER_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
SINTER_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address in block `block` of the cluster that corresponds to one of this block.
SINTER_DEVICE unsigned cluster_address(const void* pointer, int block) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(shared_address(pointer)), "r"(block));
  return address;
}

// Stores a value into the shared memory of block `block`; its bytes count at the mbarrier there.
SINTER_DEVICE void cluster_store(const float* shared, int block, float value,
                                 const Mbarrier* barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
          cluster_address(shared, block)),
      "f"(value), "r"(cluster_address(barrier, block))
      : "memory");
}
SINTER_DEVICE void cluster_store(const double* shared, int block, double value,
                                 const Mbarrier* barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f64 [%0], %1, [%2];" ::"r"(
          cluster_address(shared, block)),
      "d"(value), "r"(cluster_address(barrier, block))
      : "memory");
}
SINTER_DEVICE void cluster_store(const int* shared, int block, int value, const Mbarrier* barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(
          cluster_address(shared, block)),
      "r"(value), "r"(cluster_address(barrier, block))
      : "memory");
}
SINTER_DEVICE void cluster_store(const long long* shared, int block, long long value,
                                 const Mbarrier* barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s64 [%0], %1, [%2];" ::"r"(
          cluster_address(shared, block)),
      "l"(value), "r"(cluster_address(barrier, block))
      : "memory");
}

// Stores 2 or 4 adjacent values of 4 bytes at once.
template <class T>
SINTER_DEVICE void cluster_store(const T* shared, int block, const Vec<T, 2>& values,
                                 const Mbarrier* barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::
          "r"(cluster_address(shared, block)),
      "r"(values.words[0]), "r"(values.words[1]), "r"(cluster_address(barrier, block))
      : "memory");
}
template <class T>
SINTER_DEVICE void cluster_store(const T* shared, int block, const Vec<T, 4>& values,
                                 const Mbarrier* barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(cluster_address(shared, block)),
      "r"(values.words[0]), "r"(values.words[1]), "r"(values.words[2]), "r"(values.words[3]),
      "r"(cluster_address(barrier, block))
      : "memory");
}

// As mbarrier_wait, and what other blocks of the cluster have stored here may be read. The stores
// count their bytes at the mbarrier when they have arrived in the block's own shared memory, which
// no cache lies before. An acquire at the scope of the cluster would also invalidate L1, at every
// poll: it takes 5 to 7 % longer where every few rows are exchanged beside products.
SINTER_DEVICE void mbarrier_wait_cluster(const Mbarrier* barrier, int parity) {
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
