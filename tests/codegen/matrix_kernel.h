#pragma once

#include <fmt/format.h>

#include <string>

namespace sinter {

/// Mistakes of product_kernel().
struct ProductMistakes {
  int pending = 1;              ///< Groups that the wait leaves; 1 is right.
  bool no_commit = false;       ///< The loop commits no groups.
  bool no_barrier = false;      ///< Nothing orders the wait of one warp before reads of the other.
  bool copies_first = false;    ///< Copies start before the barrier, where warps may still read.
  bool no_start_value = false;  ///< The second half of the accumulator begins without a value.
};

/// c = a b' for a, b and c of 16 x 16 steps, 16 x 16 steps and 16 x 16 elements in each block: two
/// warps with 8 columns of c each. The operands pass through three stages of shared memory, two of
/// which are on their way. Behind the last step copies write zeros.
inline std::string product_kernel(const ProductMistakes& mistakes = {}) {
  const auto copy = [](std::string_view step) {
    return fmt::format(R"(
    if lt(thread_index, 32) {{
      async_copy %b3[add(mul(rem({0}, 3), 256), %r1)] = %b0[add(%r2, mul({0}, 16))] width 8 when lt({0}, %p1)
    }} else {{
      async_copy %b4[add(mul(rem({0}, 3), 256), %r1)] = %b1[add(%r2, mul({0}, 16))] width 8 when lt({0}, %p1)
    }}
)",
                       step);
  };
  const std::string next = copy("add(%r9, 2)") + (mistakes.no_commit ? "" : "    async_commit\n");
  const std::string arrival = fmt::format("    async_wait pending {}\n{}", mistakes.pending,
                                          mistakes.no_barrier ? "" : "    barrier\n");
  return fmt::format(R"(kernel @product threads 64 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 blocks : i64
  param %p1 steps : i32
  buffer %b0 a : bf16 global read align 16 value %v0
  buffer %b1 b : bf16 global read align 16 value %v1
  buffer %b2 c : f32 global write align 16 value %v2
  buffer %b3 a_stages : bf16 shared readwrite align 16 count 768
  buffer %b4 b_stages : bf16 shared readwrite align 16 count 768
  let %r0 lane : i32 = rem(thread_index, 32)
  ; Lane l copies half l % 2 of row l / 2.
  let %r1 copied : i32 = mul(%r0, 8)
  let %r2 from : i32 = add(mul(add(mul(block_index, 16), div(%r0, 2)), mul(%p1, 16)), mul(rem(%r0, 2), 8))
  var %r3 sum : f32[2][2]
  var %r4 left : bf16[4][2]
  var %r5 right : bf16[2][2]
  for %r10 g : i32 = 0 to {started} step 1 unroll {{
    for %r11 l : i32 = 0 to 2 step 1 unroll {{
      %r3[%r10, %r11] = 0x0p+0
    }}
  }}
  for %r6 ahead : i32 = 0 to 2 step 1 {{{first}    async_commit
  }}
  let %r7 left_row : i32 = add(mul(rem(%r0, 16), 16), mul(div(%r0, 16), 8))
  let %r8 right_row : i32 = add(mul(add(rem(%r0, 8), mul(div(thread_index, 32), 8)), 16), mul(rem(div(%r0, 8), 2), 8))
  for %r9 step : i32 = 0 to %p1 step 1 {{
{loop}
    load_matrix %r4[0] = %b3[add(mul(rem(%r9, 3), 256), %r7)] matrices 4
    load_matrix %r5[0] = %b4[add(mul(rem(%r9, 3), 256), %r8)] matrices 2
    mma %r3[0] left %r4[0] right %r5[0]
  }}
  async_wait
  for %r12 half : i32 = 0 to 2 step 1 unroll {{
    store %b2[add(mul(add(add(mul(block_index, 16), div(%r0, 4)), mul(%r12, 8)), 16), add(mul(div(thread_index, 32), 8), mul(rem(%r0, 4), 2)))] = %r3[%r12, 0] width 2
  }}
}}
)",
                     fmt::arg("started", mistakes.no_start_value ? 1 : 2),
                     fmt::arg("first", copy("%r6")),
                     fmt::arg("loop", mistakes.copies_first ? next + arrival : arrival + next));
}

}  // namespace sinter
