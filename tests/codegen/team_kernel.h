#pragma once

#include <string_view>

namespace sinter {

/// Row sums by teams of two blocks, as built: each block adds up 32 of a row's 64 floats, and both
/// learn the sum of the row from messages, in turns with two copies. Block 0 stores it.
inline constexpr std::string_view kTeamKernel =
    R"(kernel @row_sums threads 32 min_blocks 1 team 2 places 4 grid ceil(%p1 / 1) {
  param %p0 rows : i64
  param %p1 teams : i64
  buffer %b0 x : f32 global read align 16 value %v0
  buffer %b1 sums : f32 global write align 16 value %v1
  buffer %b2 mail : i32 global readwrite align 16
  let %r0 first : i32 = mul(rem(block_index, 2), 32)
  let %r1 turn : i32 = 0
  for %r2 row : i64 = cast<i64>(div(block_index, 2)) to %p0 step %p1 {
    var %r3 held : f32
    %r3[0, 0] = load %b0[add(mul(%r2, 64:i64), cast<i64>(add(%r0, thread_index)))] width 1
    let %r4 sum : f32 = %r3
    all_reduce sum threads 32 phase rem(%r1, 2) team %b2 from 0 number add(%r1, 1) sum(%r4)
    if eq(add(%r0, thread_index), 0) {
      store %b1[%r2] = %r4[0, 0] width 1
    }
    %r1 = add(%r1, 1)
  }
  let %r5 empty : i32 = 0
  if lt(thread_index, 4) {
    message_store %b2[thread_index] of rem(block_index, 2) = (%r5) number 0
  }
}
)";

}  // namespace sinter
