// The parser reads the grammar of docs/kernel_ir.md, numbers statements and expressions as the text
// has them, and answers any other bytes with their line, column and mistake.

#include "codegen/kernel/kernel_parser.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "codegen/kernel/kernel_printer.h"
#include "codegen/kernel/kernel_verifier.h"
#include "codegen/passes/canonicalize.h"
#include "tests/codegen/every_statement.h"
#include "tests/codegen/parsed_kernel.h"

namespace sinter::kernel_parser_test {

using testing::HasSubstr;

TEST(KernelParserTest, ParsedKernelsAreCanonical) {
  const kir::Kernel kernel = parsed(kEverything);
  EXPECT_EQ(canonicalize(kernel), kernel);
}

TEST(KernelParserTest, NumbersOuterStatementsBeforeTheirBlocks) {
  const kir::Kernel kernel = parsed(R"(kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  if true {
    warp_barrier
  } else {
    device_fence
  }
  barrier
})");
  ASSERT_EQ(kernel.body, (kir::Block{kir::StmtId{0}, kir::StmtId{3}}));
  const auto& branch = std::get<kir::If>(kernel.stmts[kir::StmtId{0}].kind);
  EXPECT_EQ(branch.then_body, kir::Block{kir::StmtId{1}});
  EXPECT_EQ(branch.else_body, kir::Block{kir::StmtId{2}});
}

TEST(KernelParserTest, WhatIsLeftOutHasTheDefault) {
  const kir::Kernel kernel = parsed(R"(kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global read align 4
  mbarrier %m0 m count 1 arrivals 1
  var %r0 v : f32
  %r0[0, 0] = load %b0[0] width 1
})");
  EXPECT_EQ(kernel.cluster, 1);
  EXPECT_EQ(kernel.buffers[kir::BufferId{0}],
            (kir::Buffer{.name = "x", .alignment = 4, .value = ValueId{}}));
  EXPECT_EQ(kernel.mbarriers[kir::MbarrierId{0}], (kir::Mbarrier{.name = "m"}));
  const auto& load = std::get<kir::Load>(kernel.stmts[kir::StmtId{1}].kind);
  EXPECT_EQ(load.hint, kir::CacheHint::kDefault);
  EXPECT_FALSE(load.tensor.valid());
  EXPECT_FALSE(load.predicate.valid());
}

/// The text of a kernel without declarations or statements is the shortest that there is.
TEST(KernelParserTest, AKernelMayBeEmpty) {
  const kir::Kernel kernel = parsed("kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {}");
  EXPECT_TRUE(kernel.body.empty());
  EXPECT_TRUE(kernel.params.empty());
  EXPECT_FALSE(parse_kernel("").has_value());
}

TEST(KernelParserTest, CombinersOfItsOwnNeedARow) {
  constexpr std::string_view kText = R"(kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  let %r0 x : f32 = 0x0p+0
  all_reduce r threads 32 sum_of_two(%r0)
})";
  ReductionTraits traits = traits_of(Reduction::kSum);
  traits.text = "sum_of_two";
  EXPECT_FALSE(parse_kernel(kText).has_value());
  EXPECT_TRUE(parse_kernel(kText, {&traits, 1}).has_value());
}

struct Mistake {
  std::string_view body;
  std::string_view message;
};

class KernelParserMistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(KernelParserMistakeTest, NamesPlaceAndMistake) {
  const std::string text = fmt::format(
      "kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {{\nparam %p0 n : i64\n{}\n}}",
      GetParam().body);
  const auto kernel = parse_kernel(text);
  ASSERT_FALSE(kernel.has_value()) << print(*kernel);
  EXPECT_EQ(kernel.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(kernel.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, KernelParserMistakeTest,
    testing::Values(
        Mistake{"frob", "3:1: expected a statement, found 'frob'"},
        Mistake{"let %r0 x : f33 = 1", "3:13: expected an element type, found 'f33'"},
        Mistake{"let %r1 x : i32 = 0", "the last register is %r1, but there are 1"},
        Mistake{"let %r0 x : i32 = 0\nlet %r0 x : f32 = 0", "4:5: the register is declared in"},
        Mistake{"let %r4294967295 x : i32 = 0", "expected an id like %r0"},
        Mistake{"if true { barrier", "expected '}', found end of text"},
        Mistake{"param %p2 m : i64", "parameters are numbered in order"},
        Mistake{"buffer %b1 x : f32 global read align 4", "3:8: buffers are numbered in order"},
        Mistake{"mbarrier %m1 m count 1 arrivals 1", "3:10: mbarriers are numbered in order"},
        Mistake{"buffer %b0 x : f32 local read align 4", "expected 'global', found 'local'"},
        Mistake{"if true { } else barrier", "3:18: expected '{', found 'barrier'"},
        Mistake{"set_max_registers 24", "expected 'decrease', found '24'"},
        Mistake{"\"open", "expected '}'"}, Mistake{"} more", "expected nothing after the kernel"}));

/// The body is the first level; each `if` adds one.
TEST(KernelParserTest, RefusesMoreThan200LevelsOfBlocks) {
  const auto nested = [](int blocks) {
    std::string text = "kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) { param %p0 n : i64\n";
    text += "var %r0 c : bool\n";
    for (int i = 0; i < blocks; ++i) text += "if %r0 {";
    for (int i = 0; i < blocks; ++i) text += "}";
    return parse_kernel(text + "}");
  };
  // The condition of the innermost block is one level below the block around it.
  EXPECT_TRUE(nested(199).has_value());
  const auto kernel = nested(200);
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

}  // namespace sinter::kernel_parser_test
