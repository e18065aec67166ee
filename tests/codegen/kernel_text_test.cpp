// The .kir text both ways: kernel_printer.h, kernel_lexer.h, kernel_parser.h,
// passes/canonicalize.h.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_lexer.h"
#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/kernel/kernel_verifier.h"
#include "codegen/passes/canonicalize.h"
#include "fusion_ir/printer.h"

namespace sinter::kernel_text_test {

using testing::HasSubstr;

/// Every kind of statement and expression, in canonical text.
constexpr std::string_view kEverything =
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
  mbarrier %m0 full count 3 arrivals 1 offset 1040
  mbarrier %m1 "not full" count 3 arrivals 64
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
  all_reduce x threads 32 barrier 3 max(%r2)
  all_reduce y threads 32 phase 1 barrier 3 group div(thread_index, 32) of 2 max(%r2)
}
)";

kir::Kernel parsed(std::string_view text) {
  auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.has_value()) << (kernel ? "" : kernel.error().text());
  return kernel ? *kernel : kir::Kernel{};
}

TEST(KernelTextTest, PrintsWhatItParsed) { EXPECT_EQ(print(parsed(kEverything)), kEverything); }

TEST(KernelTextTest, ParsedKernelsAreCanonical) {
  const kir::Kernel kernel = parsed(kEverything);
  EXPECT_EQ(canonicalize(kernel), kernel);
}

TEST(KernelTextTest, FloatsKeepEveryBit) {
  for (const double value :
       {0.1, -0.0, 0x1p-1074, 1e300, std::bit_cast<double>(0xfff8000000000001U)}) {
    kir::Kernel kernel;
    kir::KernelBuilder b(&kernel);
    kernel.grid.work = b.add_param("n");
    kernel.exprs.push_back({.type = DType::kF64, .kind = kir::FloatConstant{value}});
    b.declare("x", kir::ExprId{0});
    EXPECT_EQ(parsed(print(kernel)), kernel) << value;
  }
}

TEST(KernelTextTest, UnescapesWhatWasEscaped) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  EXPECT_EQ(unescaped(escaped(bytes)), bytes);
  EXPECT_EQ(unescaped("\\q \\x4 \\"), "\\q \\x4 \\");
}

struct Mistake {
  std::string_view body;
  std::string_view message;
};

class KernelParserTest : public testing::TestWithParam<Mistake> {};

TEST_P(KernelParserTest, NamesPlaceAndMistake) {
  const std::string text = fmt::format(
      "kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {{\nparam %p0 n : i64\n{}\n}}",
      GetParam().body);
  const auto kernel = parse_kernel(text);
  ASSERT_FALSE(kernel.has_value()) << print(*kernel);
  EXPECT_EQ(kernel.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(kernel.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, KernelParserTest,
    testing::Values(
        Mistake{"frob", "3:1: expected a statement, found 'frob'"},
        Mistake{"let %r0 x : f33 = 1", "3:13: expected an element type, found 'f33'"},
        Mistake{"let %r0 x : i32 = %r1", "3:19: the register is not declared yet, found '%r1'"},
        Mistake{"let %r0 x : i32 = %p1", "there is no such parameter"},
        Mistake{"store %b0[0] = %r0[0, 0] width 1", "there is no such buffer"},
        Mistake{"let %r1 x : i32 = 0", "the last register is %r1, but there are 1"},
        Mistake{"let %r0 x : i32 = 0\nlet %r0 x : f32 = 0", "4:5: the register is declared in"},
        Mistake{"let %r4294967295 x : i32 = 0", "expected an id like %r0"},
        Mistake{"let %r0 x : i32 = 99999999999999999999", "the number is out of range"},
        Mistake{"let %r0 x : i32 = 0x1p+0:i32", "0x1p+0 is no i32"},
        Mistake{"let %r0 x : f32 = nan(0x1)", "expected the bits of a NaN"},
        Mistake{"let %r0 x : f32 = 1e999", "expected an expression"},
        Mistake{"let %r0 x : f32 = add(0x1p0)", "expected ','"},
        Mistake{"if true { barrier", "expected '}', found end of text"},
        Mistake{"param %p2 m : i64", "parameters are numbered in order"},
        Mistake{"\"open", "expected '}'"}, Mistake{"} more", "expected nothing after the kernel"}));

TEST(KernelParserTest, RefusesNestingThatWouldExhaustTheStack) {
  std::string text = "kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) { let %r0 x : i32 = ";
  for (int i = 0; i < 100'000; ++i) text += "neg(";
  const auto kernel = parse_kernel(text);
  ASSERT_FALSE(kernel.has_value());
  EXPECT_THAT(kernel.error().message, HasSubstr("more than 200 levels of nesting"));
}

TEST(KernelParserTest, TakesAnyBytes) {
  std::mt19937 random(20250101);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  int survived = 0;
  for (int round = 0; round < 8000; ++round) {
    std::string text(kEverything);
    const size_t edits = 1 + below(4);
    for (size_t i = 0; i < edits; ++i) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text.erase(at, below(12));
          break;
        case 1:
          text[at] = static_cast<char>(below(256));
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), below(24)));
          break;
        default:
          text.insert(at, std::to_string(std::uniform_int_distribution<int64_t>(
                              std::numeric_limits<int64_t>::min())(random)));
      }
    }
    const auto kernel = parse_kernel(text);
    if (!kernel) {
      ASSERT_EQ(kernel.error().kind, ErrorKind::kInvalidArgument) << kernel.error().text();
      continue;
    }
    ++survived;
    // Whatever was read can be checked and printed.
    verify_kernel(*kernel, KernelStage::kBuilt);
    verify_kernel(*kernel, KernelStage::kLowered);
    ASSERT_EQ(parsed(print(*kernel)), *kernel) << text;
  }
  EXPECT_GT(survived, 100);
}

}  // namespace sinter::kernel_text_test
