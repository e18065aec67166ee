#pragma once

#include <string_view>

namespace sinter {

/// Every kind of statement and expression, in canonical text.
inline constexpr std::string_view kEverything =
    R"(kernel @"all, of it" threads 64 min_blocks 2 grid ceil(%p0 / 3) {
  param %p0 rows : i64
  param %p1 n : i32
  buffer %b0 x : bf16 global read align 16 value %v4
  buffer %b1 y : f32 global readwrite align 8
  buffer %b2 s : bf16 shared readwrite align 16 count 512 offset 0
  buffer %b3 t : f32 shared readwrite align 128 count 2
  buffer %b4 counters : i32 global readwrite align 4
  buffer %b5 many : f32 global read align 16 tensors 4 values %v5 %v9
  buffer %b6 none : bf16 global write align 2 tensors 1
  buffer %b7 sizes : i64 argument read align 8 count 4
  buffer %b8 boxes : bf16 shared readwrite align 256 count 512
  mbarrier %m0 full count 3 arrivals 1 offset 1040
  mbarrier %m1 "not full" count 3 arrivals 64
  tensor_map %t0 rows_of_x of %b0 offset 8 swizzle 32 axis %p1 stride 1 box 16 axis 7 stride 24 box 4
  tensor_map %t1 "flat x" of %b0 axis 100 stride 1 box 64
  register %r3 unused : i8[2][4]
  // a comment; with \x0a and \\ and \"quotes\"
  //
  let %r1 i : i64 = cast<i64>(add(thread_index, mul(block_index, grid_size)))
  var %r0 "v w" : bf16[4][8]
  var %r2 sum : f32
  for %r4 g : i32 = 0 to 4 step 1 unroll {
    %r0[%r4, 0] = load %b0[add(%r1, cast<i64>(%r4))] width 8 evict_last
    for %r5 l : i32 = 0 to 8 step 1 unroll {
      %r2 = fma(cast<f32>(%r0[%r4, %r5]), 0x1.8p+0, max(%r2, -inf))
    }
  }
  let %r6 d : f64 = 0x1.999999999999ap-4:f64
  let %r7 b : bool = and(true, lt(%r1, %p0))
  let %r8 nan : f32 = nan(0x7ff8000000000000)
  let %r9 count : i64 = -9223372036854775808:i64
  var %r10 other : f32
  %r10 = shuffle_xor %r2 mask 16
  all_reduce "" threads 64 phase rem(block_index, 2) sum(%r2) welford(%r2, %r8, %r10) any(%r7) argmax(%r2, %r9)
  if %r7 {
    store %b1[%r1] = %r2[0, 0] width 1
    %r0[0, 1] = cast<bf16>(select(%r7, %r2, -0x0p+0))
  } else {
    if not(%r7) {
      %r2[0, 0] = load %b1[%p1] width 1
    }
    async_copy %b2[0] = %b0[0:i64] width 8
  }
  var %r12 size : i64
  %r12[0, 0] = load %b7[rem(block_index, 4)] width 1
  %r2[0, 0] = load %b5[rem(block_index, 4)][%r12] width 1 evict_last
  store %b6[0][add(%r12, 1:i64)] = %r0[0, 1] width 1
  async_wait
  init_mbarriers
  barrier
  if eq(thread_index, 0) {
    mbarrier_wait %m1[2] parity 1
    expect_bytes %m0[2] 1024
    bulk_copy %b2[0] = %b0[%r1] elements 512:i64 mbarrier %m0[2]
    bulk_copy %b2[0] = %b0[0] elements 8 mbarrier %m0[thread_index] evict_last
    bulk_copy %b2[0] = %b0[0] elements 8 mbarrier %m0[thread_index] evict_first
    proxy_fence
    tensor_copy %b8[mul(thread_index, 128)] = %t0[sub(%p1, 2), -3] mbarrier %m0[1]
    tensor_copy %b8[0] = %t1[thread_index] mbarrier %m0[0]
    tensor_copy %b8[0] = %t1[thread_index] mbarrier %m0[0] evict_last
    mbarrier_arrive %m1[0]
  }
  launch_dependents
  warp_barrier
  wait_for_previous
  set_max_registers decrease 24
  set_max_registers increase 240
  group_barrier add(1, div(thread_index, 32)) threads 32
  var %r11 arrival : i32
  device_fence
  %r11 = atomic_count %b4[add(thread_index, 1)] last sub(%p1, 1)
  async_copy %b2[0] = %b0[0:i64] width 8 when lt(thread_index, 7)
  async_commit
  async_wait pending 2
  var %r13 left : bf16[4][2]
  var %r14 products : f32[4][2]
  load_matrix %r13[0] = %b2[mul(rem(thread_index, 32), 8)] matrices 4
  load_matrix %r13[1] = %b2[mul(rem(thread_index, 8), 8)] matrices 1 transpose
  mma %r14[add(1, 1)] left %r13[0] right %r13[2]
  var %r15 group_sum : f32[6][2]
  wgmma_fence
  wgmma %r15[2] columns 16 left %b8[0] swizzle 32 groups 128 right %b8[mul(%p1, 128)] swizzle 32 groups 128 transposed 0
  wgmma %r15[add(1, 1)] columns 16 left %b8[16] swizzle 64 groups 256 transposed 512 right %b8[0] swizzle 128 groups 512
  wgmma %r15[0] columns 16 replaces left %b8[16] swizzle 64 groups 256 transposed 512 right %b8[0] swizzle 128 groups 512
  wgmma_commit
  wgmma_wait pending 0
  wgmma_wait pending 7
  all_reduce x threads 32 barrier 3 max(%r2)
  all_reduce y threads 32 phase 1 barrier 3 group div(thread_index, 32) of 2 max(%r2)
  all_reduce z threads 8 phase 1 group 0 of 1 cluster %m0 parity 1 max(%r2)
  message_store %b4[add(thread_index, 1)] of rem(thread_index, 2) = (%r2, %r11) number 0
  message_wait (%r2) = %b4[3] number %r11
  all_reduce u threads 8 team %b4 from 16 number 7 receive max(%r2)
}
)";

}  // namespace sinter
