#pragma once

#include <string_view>

namespace sinter {

/// Row sums by a block whose warps have different work, as built: thread 128 brings rows of 512
/// floats into a pipeline of three stages, and threads 0 to 127 add each of them up. A block takes
/// the rows at its number and then at every grid size further.
inline constexpr std::string_view kSpecialisedKernel =
    R"(kernel @row_sums threads 256 min_blocks 2 grid ceil(%p0 / 8) {
  param %p0 rows : i64
  buffer %b0 x : f32 global read align 16 value %v0
  buffer %b1 sums : f32 global write align 16 value %v1
  buffer %b2 stage : f32 shared readwrite align 128 count 1536
  mbarrier %m0 full count 3 arrivals 1
  mbarrier %m1 empty count 3 arrivals 1
  init_mbarriers
  barrier
  if ge(thread_index, 128) {
    set_max_registers decrease 24
    if eq(thread_index, 128) {
      let %r0 filled : i32 = 0
      for %r1 row : i64 = cast<i64>(block_index) to %p0 step cast<i64>(grid_size) {
        let %r2 slot : i32 = rem(%r0, 3)
        mbarrier_wait %m1[%r2] parity rem(add(div(%r0, 3), 1), 2)
        expect_bytes %m0[%r2] 2048
        bulk_copy %b2[mul(%r2, 512)] = %b0[mul(%r1, 512:i64)] elements 512 mbarrier %m0[%r2] evict_last
        %r0 = add(%r0, 1)
      }
    }
  } else {
    set_max_registers increase 200
    let %r3 emptied : i32 = 0
    for %r4 row_2 : i64 = cast<i64>(block_index) to %p0 step cast<i64>(grid_size) {
      let %r5 slot_2 : i32 = rem(%r3, 3)
      mbarrier_wait %m0[%r5] parity rem(div(%r3, 3), 2)
      var %r6 held : f32[1][4]
      %r6[0, 0] = load %b2[add(mul(%r5, 512), mul(thread_index, 4))] width 4
      let %r7 sum : f32 = add(add(%r6[0, 0], %r6[0, 1]), add(%r6[0, 2], %r6[0, 3]))
      all_reduce total threads 128 phase rem(%r3, 2) barrier 1 group 0 of 1 sum(%r7)
      if eq(thread_index, 0) {
        mbarrier_arrive %m1[%r5]
        store %b1[%r4] = %r7[0, 0] width 1
      }
      %r3 = add(%r3, 1)
    }
  }
}
)";

}  // namespace sinter
