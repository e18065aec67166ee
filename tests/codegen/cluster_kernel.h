#pragma once

#include <string_view>

namespace sinter {

/// Row sums by clusters of two blocks, as built: each block adds up 64 of a row's 128 floats, and
/// both learn the sum of the row in one exchange, in turns with two copies. Block 0 stores it.
inline constexpr std::string_view kClusterKernel =
    R"(kernel @row_sums threads 64 min_blocks 1 cluster 2 grid ceil(%p1 / 1) {
  param %p0 rows : i64
  param %p1 clusters : i64
  buffer %b0 x : f32 global read align 16 value %v0
  buffer %b1 sums : f32 global write align 16 value %v1
  mbarrier %m0 arrived count 2 arrivals 1
  let %r0 first : i32 = mul(rem(block_index, 2), 64)
  init_mbarriers
  cluster_barrier
  let %r1 turn : i32 = 0
  for %r2 row : i64 = cast<i64>(div(block_index, 2)) to %p0 step %p1 {
    var %r3 held : f32
    %r3[0, 0] = load %b0[add(mul(%r2, 128:i64), cast<i64>(add(%r0, thread_index)))] width 1
    let %r4 sum : f32 = %r3
    all_reduce sum threads 64 phase rem(%r1, 2) cluster %m0 parity rem(div(%r1, 2), 2) sum(%r4)
    if eq(add(%r0, thread_index), 0) {
      store %b1[%r2] = %r4[0, 0] width 1
    }
    %r1 = add(%r1, 1)
  }
}
)";

}  // namespace sinter
