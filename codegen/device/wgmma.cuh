#pragma once

// Products of matrices by the four warps of a warp group, which go on while the product is
// computed. The right operand is in shared memory, the left one there or in registers. sm_90a.
// Instructions after the PTX ISA 8.0 and later, "wgmma.mma_async". kernel_ir.h says which elements
// a thread has of a sum and how operands lie in shared memory.

#include "vector.cuh"

// Where an operand is and how it lies there (PTX ISA, "Matrix Descriptor Format").
template <class T, bool kTransposed>
struct MatrixDescriptor {
  unsigned long long bits;
};

// Of lines of kSwizzle bytes; `group_bytes` from eight lines to the next eight, `block_bytes` from
// the lines of a transposed operand to those beside them, else 0.
template <bool kTransposed, int kSwizzle, class T>
SINTER_DEVICE MatrixDescriptor<T, kTransposed> matrix_descriptor(const T* first, int group_bytes,
                                                                 int block_bytes) {
  static_assert(kSwizzle == 128 || kSwizzle == 64 || kSwizzle == 32, "there are three swizzles");
  constexpr unsigned long long kMode = kSwizzle == 128 ? 1 : kSwizzle == 64 ? 2 : 3;
  const unsigned address = (unsigned)__cvta_generic_to_shared(first);
  return {kMode << 62 | (unsigned long long)(group_bytes >> 4) << 32 |
          (unsigned long long)(block_bytes >> 4) << 16 | (address & 0x3ffffu) >> 4};
}

// ---- sum += left * right, of 64 x K and K x kColumns elements; sum = left * right without kAdds

#define SINTER_REGISTERS_4 "%0, %1, %2, %3"
#define SINTER_REGISTERS_8 \
  SINTER_REGISTERS_4       \
  ", %4, %5, %6, %7"
#define SINTER_REGISTERS_16 \
  SINTER_REGISTERS_8        \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define SINTER_REGISTERS_32 \
  SINTER_REGISTERS_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SINTER_REGISTERS_48 \
  SINTER_REGISTERS_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define SINTER_REGISTERS_64 \
  SINTER_REGISTERS_48       \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SINTER_REGISTERS_96                                                            \
  SINTER_REGISTERS_64                                                                  \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SINTER_REGISTERS_128                                                             \
  SINTER_REGISTERS_96                                                                    \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "   \
  "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, " \
  "%124, %125, %126, %127"

#define SINTER_SUMS_2(g) "+r"(sum[g].words[0]), "+r"(sum[g].words[1])
#define SINTER_SUMS_4(g) SINTER_SUMS_2(g), SINTER_SUMS_2(g + 1)
#define SINTER_SUMS_8(g) SINTER_SUMS_4(g), SINTER_SUMS_4(g + 2)
#define SINTER_SUMS_16(g) SINTER_SUMS_8(g), SINTER_SUMS_8(g + 4)
#define SINTER_SUMS_32(g) SINTER_SUMS_16(g), SINTER_SUMS_16(g + 8)
#define SINTER_SUMS_48(g) SINTER_SUMS_32(g), SINTER_SUMS_16(g + 16)
#define SINTER_SUMS_64(g) SINTER_SUMS_32(g), SINTER_SUMS_32(g + 16)
#define SINTER_SUMS_96(g) SINTER_SUMS_64(g), SINTER_SUMS_32(g + 32)
#define SINTER_SUMS_128(g) SINTER_SUMS_64(g), SINTER_SUMS_64(g + 32)

#define SINTER_WGMMA(shape, tail, transposes, columns, registers, operands, immediates, adds, \
                     inputs)                                                                  \
  if constexpr (kColumns == columns)                                                          \
    asm volatile(                                                                               \
        "{\n"                                                                                   \
        ".reg .pred adds;\n"                                                                    \
        "setp.ne.s32 adds, " adds ", 0;\n"                                                             \
        "wgmma.mma_async.sync.aligned.m64n" #columns shape " {" SINTER_REGISTERS_##registers     \
        "}, " operands ", adds" tail transposes(immediates) ";\n"                               \
        "}"                                                                                     \
        : SINTER_SUMS_##registers(0)                                                            \
        : inputs);

#define SINTER_IN_SHARED \
  "l"(left.bits), "l"(right.bits), "n"((int)kLeft), "n"((int)kRight), "n"((int)kAdds)
#define SINTER_WGMMAS(shape, tail, transposes)                                                     \
  SINTER_WGMMA(shape, tail, transposes, 8, 4, "%4, %5", "%6, %7", "%8", SINTER_IN_SHARED)          \
  SINTER_WGMMA(shape, tail, transposes, 16, 8, "%8, %9", "%10, %11", "%12", SINTER_IN_SHARED)      \
  SINTER_WGMMA(shape, tail, transposes, 32, 16, "%16, %17", "%18, %19", "%20", SINTER_IN_SHARED)   \
  SINTER_WGMMA(shape, tail, transposes, 64, 32, "%32, %33", "%34, %35", "%36", SINTER_IN_SHARED)   \
  SINTER_WGMMA(shape, tail, transposes, 96, 48, "%48, %49", "%50, %51", "%52", SINTER_IN_SHARED)   \
  SINTER_WGMMA(shape, tail, transposes, 128, 64, "%64, %65", "%66, %67", "%68", SINTER_IN_SHARED)  \
  SINTER_WGMMA(shape, tail, transposes, 192, 96, "%96, %97", "%98, %99", "%100", SINTER_IN_SHARED) \
  SINTER_WGMMA(shape, tail, transposes, 256, 128, "%128, %129", "%130, %131", "%132",              \
               SINTER_IN_SHARED)

#define SINTER_IN_REGISTERS                                                                   \
  "r"(left[0].words[0]), "r"(left[1].words[0]), "r"(left[2].words[0]), "r"(left[3].words[0]), \
      "l"(right.bits), "n"((int)kRight), "n"((int)kAdds)
#define SINTER_REGISTER_WGMMAS(shape, tail, transposes)                                        \
  SINTER_WGMMA(shape, tail, transposes, 8, 4, "{%4, %5, %6, %7}, %8", "%9", "%10",             \
               SINTER_IN_REGISTERS)                                                            \
  SINTER_WGMMA(shape, tail, transposes, 16, 8, "{%8, %9, %10, %11}, %12", "%13", "%14",        \
               SINTER_IN_REGISTERS)                                                            \
  SINTER_WGMMA(shape, tail, transposes, 32, 16, "{%16, %17, %18, %19}, %20", "%21", "%22",     \
               SINTER_IN_REGISTERS)                                                            \
  SINTER_WGMMA(shape, tail, transposes, 64, 32, "{%32, %33, %34, %35}, %36", "%37", "%38",     \
               SINTER_IN_REGISTERS)                                                            \
  SINTER_WGMMA(shape, tail, transposes, 96, 48, "{%48, %49, %50, %51}, %52", "%53", "%54",     \
               SINTER_IN_REGISTERS)                                                            \
  SINTER_WGMMA(shape, tail, transposes, 128, 64, "{%64, %65, %66, %67}, %68", "%69", "%70",    \
               SINTER_IN_REGISTERS)                                                            \
  SINTER_WGMMA(shape, tail, transposes, 192, 96, "{%96, %97, %98, %99}, %100", "%101", "%102", \
               SINTER_IN_REGISTERS)                                                            \
  SINTER_WGMMA(shape, tail, transposes, 256, 128, "{%128, %129, %130, %131}, %132", "%133",    \
               "%134", SINTER_IN_REGISTERS)

#define SINTER_NONE(immediates)
#define SINTER_EACH(immediates) ", " immediates
#define SINTER_DEFINE_WGMMA(Sum, Left, Right, shape, tail, transposes)                        \
  template <int kColumns, bool kAdds = true, bool kLeft, bool kRight>                         \
  SINTER_DEVICE void wgmma(Vec<Sum, 2>* sum, MatrixDescriptor<Left, kLeft> left,              \
                           MatrixDescriptor<Right, kRight> right) {                           \
    static_assert(sizeof(Left) == 2 || !(kLeft || kRight), "only 2 bytes can be transposed"); \
    SINTER_WGMMAS(shape, tail, transposes)                                                    \
  }                                                                                           \
  template <int kColumns, bool kAdds = true, bool kRight>                                     \
  SINTER_DEVICE void wgmma(Vec<Sum, 2>* sum, const Vec<Left, 4 / (int)sizeof(Left)>* left,    \
                           MatrixDescriptor<Right, kRight> right) {                           \
    static_assert(sizeof(Left) == 2 || !kRight, "only 2 bytes can be transposed");            \
    SINTER_REGISTER_WGMMAS(shape, tail, transposes)                                           \
  }
SINTER_DEFINE_WGMMA(float, bf16, bf16, "k16.f32.bf16.bf16", ", 1, 1", SINTER_EACH)
SINTER_DEFINE_WGMMA(float, f16, f16, "k16.f32.f16.f16", ", 1, 1", SINTER_EACH)
SINTER_DEFINE_WGMMA(float, float, float, "k8.f32.tf32.tf32", ", 1, 1", SINTER_NONE)
SINTER_DEFINE_WGMMA(float, f8e4m3, f8e4m3, "k32.f32.e4m3.e4m3", ", 1, 1", SINTER_NONE)
SINTER_DEFINE_WGMMA(float, f8e4m3, f8e5m2, "k32.f32.e4m3.e5m2", ", 1, 1", SINTER_NONE)
SINTER_DEFINE_WGMMA(float, f8e5m2, f8e4m3, "k32.f32.e5m2.e4m3", ", 1, 1", SINTER_NONE)
SINTER_DEFINE_WGMMA(float, f8e5m2, f8e5m2, "k32.f32.e5m2.e5m2", ", 1, 1", SINTER_NONE)
SINTER_DEFINE_WGMMA(int, i8, i8, "k32.s32.s8.s8", "", SINTER_NONE)
SINTER_DEFINE_WGMMA(int, i8, u8, "k32.s32.s8.u8", "", SINTER_NONE)
SINTER_DEFINE_WGMMA(int, u8, i8, "k32.s32.u8.s8", "", SINTER_NONE)
SINTER_DEFINE_WGMMA(int, u8, u8, "k32.s32.u8.u8", "", SINTER_NONE)

// Keeps what the compiler does to sums, or to operands in registers, on its side of a fence or a
// wait. It costs no instruction.
template <int kGroups, class T>
SINTER_DEVICE void hold_sums(Vec<T, 2>* sum) {
#pragma unroll
  for (int i = 0; i < kGroups; ++i) asm volatile("" : SINTER_SUMS_2(i)::"memory");
}

template <int kGroups, class T, int N>
SINTER_DEVICE void hold_operands(Vec<T, N>* operand) {
#pragma unroll
  for (int i = 0; i < kGroups; ++i) asm volatile("" : "+r"(operand[i].words[0])::"memory");
}

// Orders the registers of sums and operands before the products that follow.
SINTER_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group of products.
SINTER_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Returns when at most the last kPending groups are incomplete.
template <int kPending>
SINTER_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#undef SINTER_DEFINE_WGMMA
#undef SINTER_EACH
#undef SINTER_NONE
#undef SINTER_REGISTER_WGMMAS
#undef SINTER_IN_REGISTERS
#undef SINTER_WGMMAS
#undef SINTER_IN_SHARED
#undef SINTER_WGMMA
#undef SINTER_SUMS_2
#undef SINTER_SUMS_4
#undef SINTER_SUMS_8
#undef SINTER_SUMS_16
#undef SINTER_SUMS_32
#undef SINTER_SUMS_48
#undef SINTER_SUMS_64
#undef SINTER_SUMS_96
#undef SINTER_SUMS_128
#undef SINTER_REGISTERS_4
#undef SINTER_REGISTERS_8
#undef SINTER_REGISTERS_16
#undef SINTER_REGISTERS_32
#undef SINTER_REGISTERS_48
#undef SINTER_REGISTERS_64
#undef SINTER_REGISTERS_96
#undef SINTER_REGISTERS_128
