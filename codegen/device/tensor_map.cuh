#pragma once

// Copies of boxes of tensors into shared memory, whose layout in global memory an argument of the
// kernel describes. From sm_90. Instructions after the PTX ISA 8.0 and later,
// "cp.async.bulk.tensor".

#include "mbarrier.cuh"

// What the driver encodes (CUDA driver API, "cuTensorMapEncodeTiled").
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

// One thread starts the copy of the box at these coordinates, innermost first. All its bytes count
// towards the current phase of the mbarrier when they have arrived; what is outside of the tensor
// arrives as 0. tensor_copy_evict_* are the same with an L2 policy.
#define SINTER_DEFINE_HINTED_TENSOR_COPY(name, suffix, axes, operands, parameters, ...)     \
  template <class T>                                                                        \
  SINTER_DEVICE void name(T* shared, const TensorMap& map, Mbarrier* barrier, parameters) { \
    asm volatile("cp.async.bulk.tensor." axes                                               \
                 ".shared::cluster.global.tile.mbarrier::complete_tx::bytes" suffix         \
                 " [%0], [%1, {" operands ";" ::"r"(shared_address(shared)),                \
                 "l"(&map), "r"(shared_address(barrier)), __VA_ARGS__                       \
                 : "memory");                                                               \
  }
#define SINTER_DEFINE_TENSOR_COPY(axes, operands, policy, parameters, ...)                \
  SINTER_DEFINE_HINTED_TENSOR_COPY(tensor_copy, "", axes, operands "}], [%2]",            \
                                   SINTER_LIST(parameters), __VA_ARGS__)                  \
  SINTER_DEFINE_HINTED_TENSOR_COPY(tensor_copy_evict_first, ".L2::cache_hint", axes,      \
                                   operands "}], [%2], " policy, SINTER_LIST(parameters), \
                                   __VA_ARGS__, "l"(evict_first_policy()))                \
  SINTER_DEFINE_HINTED_TENSOR_COPY(tensor_copy_evict_last, ".L2::cache_hint", axes,       \
                                   operands "}], [%2], " policy, SINTER_LIST(parameters), \
                                   __VA_ARGS__, "l"(evict_last_policy()))
#define SINTER_LIST(...) __VA_ARGS__
SINTER_DEFINE_TENSOR_COPY("1d", "%3", "%4", int c0, "r"(c0))
SINTER_DEFINE_TENSOR_COPY("2d", "%3, %4", "%5", SINTER_LIST(int c0, int c1), "r"(c0), "r"(c1))
SINTER_DEFINE_TENSOR_COPY("3d", "%3, %4, %5", "%6", SINTER_LIST(int c0, int c1, int c2), "r"(c0),
                          "r"(c1), "r"(c2))
SINTER_DEFINE_TENSOR_COPY("4d", "%3, %4, %5, %6", "%7", SINTER_LIST(int c0, int c1, int c2, int c3),
                          "r"(c0), "r"(c1), "r"(c2), "r"(c3))
SINTER_DEFINE_TENSOR_COPY("5d", "%3, %4, %5, %6, %7", "%8",
                          SINTER_LIST(int c0, int c1, int c2, int c3, int c4), "r"(c0), "r"(c1),
                          "r"(c2), "r"(c3), "r"(c4))
#undef SINTER_LIST
#undef SINTER_DEFINE_TENSOR_COPY
#undef SINTER_DEFINE_HINTED_TENSOR_COPY
