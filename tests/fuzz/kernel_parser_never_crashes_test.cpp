// Mutates valid .kir texts. Whatever the bytes are, the parser returns: a typed error with a
// position, or a kernel that the verifier judges without harm and, if it is right, that survives
// its own text, and that the passes and the interpreter take.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/kernel/kernel_verifier.h"
#include "codegen/passes/kernel_passes.h"
#include "fusion_ir/printer.h"
#include "runtime/interpreter/interpreter.h"
#include "tests/fuzz/mutation.h"

namespace sinter::kernel_parser_never_crashes_test {

constexpr std::string_view kSeeds[] = {
    R"(kernel @"all, of it" threads 64 min_blocks 2 grid ceil(%p0 / 3) {
  param %p0 rows : i64
  param %p1 n : i32
  buffer %b0 x : bf16 global read align 16 value %v4
  buffer %b1 y : f32 global readwrite align 8
  buffer %b2 s : bf16 shared readwrite align 16 count 512 offset 0
  mbarrier %m0 full count 2 arrivals 1 offset 1024
  tensor_map %t0 map of %b0 offset 8 swizzle 32 axis %p1 stride 1 box 16 axis 7 stride 24 box 4
  register %r3 unused : i8[2][4]
  // a comment; with \x0a and \\ and \"quotes\"
  let %r1 i : i64 = cast<i64>(add(thread_index, mul(block_index, grid_size)))
  var %r0 "v w" : bf16[4][8]
  var %r2 sum : f32
  for %r4 g : i32 = 0 to 4 step 1 unroll {
    %r0[%r4, 0] = load %b0[add(%r1, cast<i64>(%r4))] width 8 evict_last
    for %r5 l : i32 = 0 to 8 step 1 unroll {
      %r2 = fma(cast<f32>(%r0[%r4, %r5]), 0x1.8p+0, max(%r2, -inf))
    }
  }
  let %r7 b : bool = and(true, lt(%r1, %p0))
  let %r8 nan : f32 = nan(0x7ff8000000000000)
  let %r9 count : i64 = -9223372036854775808:i64
  var %r6 other : f32
  %r6 = shuffle_xor %r2 mask 16
  all_reduce "" threads 64 sum(%r2) argmax(%r2, %r9)
  if %r7 {
    store %b1[%r1] = %r2[0, 0] width 1
  } else {
    %r2[0, 0] = load %b1[%p1] width 1
  }
  async_copy %b2[0] = %b0[0] width 8 when %r7
  async_commit
  async_wait pending 0
  async_wait
  barrier
  var %r10 left : bf16[4][2]
  var %r11 products : f32[2][2]
  load_matrix %r10[0] = %b2[mul(rem(thread_index, 32), 8)] matrices 4
  load_matrix %r10[2] = %b2[mul(rem(thread_index, 8), 8)] matrices 1 transpose
  mma %r11[0] left %r10[0] right %r10[2]
  init_mbarriers
  proxy_fence
  tensor_copy %b2[0] = %t0[0, %p1] mbarrier %m0[1]
  wgmma_fence
  wgmma %r11[0] columns 8 left %b2[0] swizzle 32 groups 128 right %b2[%p1] swizzle 64 groups 256
  wgmma %r11[0] columns 8 left %b2[0] swizzle 32 groups 128 transposed 0 right %b2[0] swizzle 32 groups 0
  wgmma_commit
  wgmma_wait pending 0
}
)",
    R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global read align 16
  buffer %b1 y : bf16 global write align 16
  buffer %b2 s : f32 shared readwrite align 16 count 64 offset 0
  var %r0 t : f32[2][8]
  var %r4 u : bf16[2][8]
  for %r1 g : i32 = 0 to 2 step 1 unroll {
    for %r2 h : i32 = 0 to 8 step 4 unroll {
      %r0[%r1, %r2] = load %b0[add(mul(thread_index, 16), %r2)] width 4 evict_last
    }
    store %b1[mul(thread_index, 8)] = %r4[sub(1, %r1), 0] width 8
  }
  let %r3 sum : f32 = 0x0p+0
  if lt(cast<i64>(block_index), %p0) {
    store %b2[thread_index] = %r3[0, 0] width 1
    barrier
  }
}
)"};

constexpr std::string_view kPieces[] = {"%r0",
                                        "%r4294967294",
                                        "%r4294967295",
                                        "%b0",
                                        "%b7",
                                        "%p0",
                                        "0",
                                        "-1",
                                        "1",
                                        "2147483647",
                                        "9223372036854775807",
                                        "-9223372036854775808:i64",
                                        "99999999999999999999",
                                        "0x1p-1074",
                                        "nan(0x0)",
                                        "1e400",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        "{",
                                        "}",
                                        "<",
                                        ">",
                                        ",",
                                        ":",
                                        "=",
                                        "\"",
                                        "\\x4",
                                        "//",
                                        ";",
                                        "\n",
                                        "f64",
                                        "bool",
                                        "f8e4m3",
                                        "select(",
                                        "not(",
                                        "div(%r1, 0)",
                                        "rem(1, 0)",
                                        "unroll",
                                        "barrier",
                                        "if true {",
                                        "[9223372036854775807][2]",
                                        "[0][0]",
                                        "count 0",
                                        "align 3",
                                        "width 0",
                                        "matrices 4",
                                        "axis 0 stride 9223372036854775807 box 256",
                                        "swizzle -128",
                                        "groups 9223372036854775807",
                                        "transposed 4611686018427387904",
                                        "pending 9223372036854775807",
                                        "width 4611686018427387904",
                                        "threads 0",
                                        "step 0",
                                        "step -1",
                                        "to 9223372036854775807",
                                        "grid ceil(%p1 / 0)",
                                        "grid ceil(%p0 / 1)",
                                        "cluster 16",
                                        "count 9223372036854775807",
                                        "count 4294967296",
                                        "offset 9223372036854775792",
                                        "threads 1024",
                                        "[1048576][8]",
                                        "to 1048576 step 1 unroll"};

/// Lowers and interprets a right kernel: whatever its numbers are, that ends with a report or with
/// a typed error.
void run_one(const kir::Kernel& kernel, const std::string& text) {
  const kir::Kernel lowered = run_kernel_passes(kernel, {.verify = true});
  constexpr size_t kBytes = size_t{1} << 16;
  std::vector<std::vector<std::byte>> tensors;
  for (const kir::Buffer& buffer : lowered.buffers) {
    if (buffer.space == kir::Space::kShared) continue;
    tensors.resize(tensors.size() + (buffer.is_table() ? buffer.values.size() : 1),
                   std::vector<std::byte>(kBytes));
  }
  std::vector<LaunchMemory> memory;
  for (std::vector<std::byte>& bytes : tensors) memory.push_back({.bytes = bytes, .origin = 0});
  const std::vector<int64_t> params(lowered.params.size(), 3);
  const auto report = interpret(lowered, memory, params, {.max_steps = int64_t{1} << 12});
  if (report) return;
  ASSERT_EQ(report.error().kind, ErrorKind::kResourceExhausted)
      << escaped(text) << report.error().text();
  ASSERT_FALSE(report.error().remedy.empty());
}

void check_one(const std::string& text) {
  const Result<kir::Kernel> kernel = parse_kernel(text);
  if (!kernel) {
    ASSERT_EQ(kernel.error().kind, ErrorKind::kInvalidArgument) << escaped(text);
    ASSERT_NE(kernel.error().message.find(", found "), std::string::npos) << escaped(text);
    ASSERT_FALSE(kernel.error().remedy.empty());
    return;
  }
  const bool is_right = verify_kernel(*kernel, KernelStage::kBuilt).empty();
  (void)verify_kernel(*kernel, KernelStage::kLowered);
  const std::string printed = print(*kernel);
  if (!is_right) return;
  const Result<kir::Kernel> again = parse_kernel(printed);
  ASSERT_TRUE(again.has_value()) << escaped(text) << again.error().text();
  ASSERT_EQ(*again, *kernel) << escaped(text);
  run_one(*kernel, text);
}

TEST(KernelParserNeverCrashes, OnSeedsAndTheirPrefixes) {
  for (const std::string_view seed : kSeeds) {
    ASSERT_TRUE(parse_kernel(seed).has_value()) << parse_kernel(seed).error().text();
    for (size_t size = 0; size <= seed.size(); ++size) check_one(std::string(seed.substr(0, size)));
  }
}

TEST(KernelParserNeverCrashes, OnTileIndicesAtTheEndsOfTheRange) {
  for (const char* index : {"-9223372036854775808:i64", "9223372036854775807:i64"}) {
    const std::string text = fmt::format(
        "kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {{\n"
        "  param %p0 n : i64\n"
        "  buffer %b0 x : f32 global read align 16\n"
        "  var %r0 t : f32[1][8]\n"
        "  %r0[0, {}] = load %b0[0] width 4\n"
        "}}\n",
        index);
    check_one(text);
    EXPECT_FALSE(verify_kernel(parse_kernel(text).value(), KernelStage::kBuilt).empty());
  }
}

TEST(KernelParserNeverCrashes, OnMutatedTexts) { fuzz(kSeeds, kPieces, 2, check_one); }

}  // namespace sinter::kernel_parser_never_crashes_test
