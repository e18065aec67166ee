#pragma once

#include <fmt/format.h>

#include <string>

namespace sinter {

/// What warp_group_kernel() is like, and its mistakes.
struct WarpGroupKernel {
  int groups = 1;    ///< Warp groups that multiply 64 rows each.
  int columns = 64;  ///< Of c, a multiple of 64.
  int stages = 2;

  bool adds_to_nothing = false;  ///< The sum does not begin with zeros.
  bool no_fence = false;
  bool no_commit = false;
  bool no_wait = false;
  int pending = 1;              ///< Groups that the wait in the loop leaves; 1 is right.
  int last_pending = 0;         ///< The same behind the loop; 0 is right.
  bool reads_early = false;     ///< The sum is changed before the wait.
  bool frees_early = false;     ///< A stage may be filled again while its product goes on.
  int left_swizzle = 128;       ///< As the product has it; 128 is right.
  int missing_bytes = 0;        ///< Of those that a stage is expected to bring.
  bool one_warp_waits = false;  ///< The other warps multiply what may not have come.
};

/// c = a b for a of 64 groups x depth, by steps of 64 along depth, and b of depth x columns
/// elements in rows. One thread brings both by tensor copies into a ring of stages; warp groups
/// multiply them and free a stage when the product of the next one goes on.
inline std::string warp_group_kernel(const WarpGroupKernel& kernel = {}) {
  const int rows = 64 * kernel.groups;
  const int consumers = 128 * kernel.groups;
  const std::string wait =
      kernel.no_wait ? "" : fmt::format("wgmma_wait pending {}", kernel.pending);
  const std::string last_wait =
      kernel.no_wait ? "" : fmt::format("wgmma_wait pending {}", kernel.last_pending);
  const std::string full_wait = "mbarrier_wait %m0[%r6] parity rem(div(%r5, {stages}), 2)";
  std::string text = R"(kernel @product threads {threads} min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 blocks : i64
  param %p1 steps : i32
  param %p2 depth : i32
  buffer %b0 a : bf16 global read align 16 value %v0
  buffer %b1 b : bf16 global read align 16 value %v1
  buffer %b2 c : f32 global write align 16 value %v2
  buffer %b3 a_stages : bf16 shared readwrite align 1024 count {a_count}
  buffer %b4 b_stages : bf16 shared readwrite align 1024 count {b_count}
  mbarrier %m0 full count {stages} arrivals 1
  mbarrier %m1 empty count {stages} arrivals {warps}
  tensor_map %t0 a_map of %b0 swizzle 128 axis 64 stride 1 box 64 axis {rows} stride 64 box {rows} axis %p1 stride {a_stage} box 1
  tensor_map %t1 b_map of %b1 swizzle 128 axis 64 stride 1 box 64 axis %p2 stride {columns} box 64 axis {blocks} stride 64 box {blocks}
  init_mbarriers
  barrier
  if ge(thread_index, {consumers}) {
    set_max_registers decrease 40
    if eq(thread_index, {consumers}) {
      for %r0 step : i32 = 0 to %p1 step 1 {
        let %r1 slot : i32 = rem(%r0, {stages})
        mbarrier_wait %m1[%r1] parity rem(add(div(%r0, {stages}), 1), 2)
        expect_bytes %m0[%r1] {bytes}
        tensor_copy %b3[mul(%r1, {a_stage})] = %t0[0, 0, %r0] mbarrier %m0[%r1]
        tensor_copy %b4[mul(%r1, {b_stage})] = %t1[0, mul(%r0, 64), 0] mbarrier %m0[%r1]
      }
    }
  } else {
    set_max_registers increase 232
    var %r2 sum : f32[{sums}][2]
    for %r3 g : i32 = 0 to {sums} step 1 unroll {
      for %r4 l : i32 = 0 to 2 step 1 unroll {
        {zero}
      }
    }
    for %r5 next : i32 = 0 to %p1 step 1 {
      let %r6 filled : i32 = rem(%r5, {stages})
      {full_wait}
      {fence}
      for %r7 k : i32 = 0 to 4 step 1 unroll {
        wgmma %r2[0] columns {columns} left %b3[add(add(mul(%r6, {a_stage}), mul(div(thread_index, 128), 4096)), mul(%r7, 16))] swizzle {left_swizzle} groups 512 right %b4[add(mul(%r6, {b_stage}), mul(%r7, 1024))] swizzle 128 groups 512 transposed 4096
      }
      {commit}
      {early}
      {wait}
      if and(gt(%r5, {first_freed}), eq(rem(thread_index, 32), 0)) {
        mbarrier_arrive %m1[rem(add(%r5, {freed}), {stages})]
      }
    }
    {last_wait}
    let %r8 first : i32 = add(mul(add(mul(div(thread_index, 32), 16), div(rem(thread_index, 32), 4)), {columns}), mul(rem(thread_index, 4), 2))
    for %r9 j : i32 = 0 to {eights} step 1 unroll {
      for %r10 h : i32 = 0 to 2 step 1 unroll {
        store %b2[add(%r8, add(mul(%r9, 8), mul(%r10, {eight_rows})))] = %r2[add(mul(%r9, 2), %r10), 0] width 2
      }
    }
  }
}
)";
  const auto put = [&](std::string_view name, std::string_view value) {
    const std::string field = fmt::format("{{{}}}", name);
    for (size_t at = text.find(field); at != std::string::npos; at = text.find(field))
      text.replace(at, field.size(), value);
  };
  const auto number = [&](std::string_view name, int value) { put(name, std::to_string(value)); };
  put("zero", kernel.adds_to_nothing ? "" : "%r2[%r3, %r4] = 0x0p+0");
  put("full_wait", kernel.one_warp_waits
                       ? fmt::format("if lt(thread_index, 32) {{ {} }}", full_wait)
                       : full_wait);
  put("fence", kernel.no_fence ? "" : "wgmma_fence");
  put("commit", kernel.no_commit ? "" : "wgmma_commit");
  put("early", kernel.reads_early ? "%r2[0, 0] = add(%r2[0, 0], 0x1p+0)" : "");
  put("wait", wait);
  put("last_wait", last_wait);
  number("first_freed", kernel.frees_early ? -1 : 0);
  number("freed", kernel.frees_early ? 0 : kernel.stages - 1);
  number("threads", consumers + 128);
  number("consumers", consumers);
  number("warps", 4 * kernel.groups);
  number("rows", rows);
  number("columns", kernel.columns);
  number("blocks", kernel.columns / 64);
  number("stages", kernel.stages);
  number("a_stage", 64 * rows);
  number("b_stage", 64 * kernel.columns);
  number("a_count", kernel.stages * 64 * rows);
  number("b_count", kernel.stages * 64 * kernel.columns);
  number("bytes", 128 * (rows + kernel.columns) - kernel.missing_bytes);
  number("sums", kernel.columns / 4);
  number("eights", kernel.columns / 8);
  number("eight_rows", 8 * kernel.columns);
  number("left_swizzle", kernel.left_swizzle);
  return text;
}

}  // namespace sinter
