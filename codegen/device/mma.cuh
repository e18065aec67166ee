#pragma once

// Matrices in registers, 4 bytes of each in a lane, and their products on tensor cores. All 32
// lanes take part. Tiles hold one register in each Vec; kernel_ir.h says what a lane has of a
// matrix.

#include "vector.cuh"

// ---- Matrices of 8 rows of 16 bytes in shared memory (PTX ISA, "ldmatrix")

// Lane 8 i + r passes row r of matrix i, which goes to tile[i].
#define SINTER_DEFINE_LOAD_MATRIX(name, transposition)                                         \
  template <int kMatrices, class T, int N>                                                     \
  SINTER_DEVICE void name(Vec<T, N>* tile, const T* row) {                                     \
    static_assert(N * sizeof(T) == 4, "a lane has 4 bytes of a matrix");                       \
    const unsigned address = (unsigned)__cvta_generic_to_shared(row);                          \
    if constexpr (kMatrices == 4) {                                                            \
      asm volatile("ldmatrix.sync.aligned.m8n8.x4" transposition                               \
                   ".shared.b16 {%0, %1, %2, %3}, [%4];"                                       \
                   : "=r"(tile[0].words[0]), "=r"(tile[1].words[0]), "=r"(tile[2].words[0]),   \
                     "=r"(tile[3].words[0])                                                    \
                   : "r"(address)                                                              \
                   : "memory");                                                                \
    } else if constexpr (kMatrices == 2) {                                                     \
      asm volatile("ldmatrix.sync.aligned.m8n8.x2" transposition ".shared.b16 {%0, %1}, [%2];" \
                   : "=r"(tile[0].words[0]), "=r"(tile[1].words[0])                            \
                   : "r"(address)                                                              \
                   : "memory");                                                                \
    } else {                                                                                   \
      static_assert(kMatrices == 1, "there are 1, 2 and 4 matrices");                          \
      asm volatile("ldmatrix.sync.aligned.m8n8.x1" transposition ".shared.b16 {%0}, [%1];"     \
                   : "=r"(tile[0].words[0])                                                    \
                   : "r"(address)                                                              \
                   : "memory");                                                                \
    }                                                                                          \
  }
SINTER_DEFINE_LOAD_MATRIX(load_matrix, "")
SINTER_DEFINE_LOAD_MATRIX(load_matrix_transposed, ".trans")
#undef SINTER_DEFINE_LOAD_MATRIX

// f32 rounded to TF32: to the nearest; of two equally near ones, to that of larger magnitude.
SINTER_DEVICE float to_tf32(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

// ---- sum += left * right, of 16 x K and K x 8 elements (PTX ISA, "mma.sync.aligned.m16n8kK")

#define SINTER_MMA_OPERANDS                                                                   \
  "r"(left[0].words[0]), "r"(left[1].words[0]), "r"(left[2].words[0]), "r"(left[3].words[0]), \
      "r"(right[0].words[0]), "r"(right[1].words[0])

// The instructions read and write the same registers, in this order.
#define SINTER_MMA(shape, types)              \
  "mma.sync.aligned." shape ".row.col." types \
  " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"

#define SINTER_DEFINE_MMA(Left, Right, shape, types)                                       \
  SINTER_DEVICE void mma(Vec<float, 2>* sum, const Vec<Left, 4 / (int)sizeof(Left)>* left, \
                         const Vec<Right, 4 / (int)sizeof(Right)>* right) {                \
    float x[4];                                                                            \
    _Pragma("unroll") for (int i = 0; i < 4; ++i) x[i] = sum[i / 2].get(i % 2);            \
    asm volatile(SINTER_MMA(shape, types)                                                  \
                 : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])                          \
                 : SINTER_MMA_OPERANDS);                                                   \
    _Pragma("unroll") for (int i = 0; i < 4; ++i) sum[i / 2].set(i % 2, x[i]);             \
  }
SINTER_DEFINE_MMA(bf16, bf16, "m16n8k16", "f32.bf16.bf16.f32")
SINTER_DEFINE_MMA(f16, f16, "m16n8k16", "f32.f16.f16.f32")
SINTER_DEFINE_MMA(float, float, "m16n8k8", "f32.tf32.tf32.f32")
// From sm_89 on; elsewhere the assembler refuses a kernel that calls them.
SINTER_DEFINE_MMA(f8e4m3, f8e4m3, "m16n8k32", "f32.e4m3.e4m3.f32")
SINTER_DEFINE_MMA(f8e4m3, f8e5m2, "m16n8k32", "f32.e4m3.e5m2.f32")
SINTER_DEFINE_MMA(f8e5m2, f8e4m3, "m16n8k32", "f32.e5m2.e4m3.f32")
SINTER_DEFINE_MMA(f8e5m2, f8e5m2, "m16n8k32", "f32.e5m2.e5m2.f32")
#undef SINTER_DEFINE_MMA

#define SINTER_DEFINE_MMA(Left, Right, types)                                                      \
  SINTER_DEVICE void mma(Vec<int, 2>* sum, const Vec<Left, 4>* left, const Vec<Right, 4>* right) { \
    asm volatile(SINTER_MMA("m16n8k32", types)                                                     \
                 : "+r"(sum[0].words[0]), "+r"(sum[0].words[1]), "+r"(sum[1].words[0]),            \
                   "+r"(sum[1].words[1])                                                           \
                 : SINTER_MMA_OPERANDS);                                                           \
  }
SINTER_DEFINE_MMA(i8, i8, "s32.s8.s8.s32")
SINTER_DEFINE_MMA(i8, u8, "s32.s8.u8.s32")
SINTER_DEFINE_MMA(u8, i8, "s32.u8.s8.s32")
SINTER_DEFINE_MMA(u8, u8, "s32.u8.u8.s32")
#undef SINTER_DEFINE_MMA
#undef SINTER_MMA
#undef SINTER_MMA_OPERANDS
