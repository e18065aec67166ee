// Every expression of a kernel has the type that its function and its operands give it, and an
// index into a tile has the range of values that the unrolled loops around it make.

#include "codegen/kernel/verify_expressions.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/codegen/verified_kernel.h"

namespace sinter::verify_expressions_test {

using testing::HasSubstr;

class VerifyExpressionsTest : public testing::TestWithParam<Planted> {};

TEST_P(VerifyExpressionsTest, FindsTheMistake) {
  const kir::Kernel kernel = kernel_with_body(GetParam().body);
  EXPECT_THAT(violations_of(kernel, GetParam().stage), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Types, VerifyExpressionsTest,
    testing::Values(
        Planted{"let %r0 a : i32 = 1 let %r1 b : i32 = add(%r0, 1:i64)", "%e3: add of i32 and i64"},
        Planted{"let %r0 a : bf16 = 0x1p+0:bf16 let %r1 b : bf16 = add(%r0, %r0)", "add of bf16"},
        Planted{"let %r0 a : i32 = 1 let %r1 b : i32 = exp(%r0)", "exp of i32"},
        Planted{"let %r0 a : bool = is_nan(1)", "is_nan of i32"},
        Planted{"let %r0 a : f32 = and(0x1p+0, 0x1p+0)", "and of f32"},
        Planted{"let %r0 a : i32 = select(1, 2, 3)", "select by i32"},
        Planted{"let %r0 a : f32 = cast<tf32>(0x1p+0:f64)", "is f64, not f32"},
        Planted{"let %r0 a : i32 = 3000000000", "3000000000 is no i32"},
        Planted{"let %r0 a : bool = 2:bool", "2 is no bool"},
        Planted{"var %r0 a : f32[2][2] let %r1 b : f32 = %r0", "tile %r0 (a) as a scalar"}));

INSTANTIATE_TEST_SUITE_P(
    Forms, VerifyExpressionsTest,
    testing::Values(Planted{"var %r0 ok : f32 let %r1 a : f32 = log.fast_path(%r0, 0x1p+0)",
                            "%r0 (ok) is no state of the form fast_path"},
                    Planted{"var %r0 ok : bool let %r1 a : f32 = exp.fast_path(%r0, 0x1p+0)",
                            "exp of f32 in the form fast_path"},
                    Planted{"let %r0 a : f64 = log.careful(0x1p+0:f64)",
                            "log of f64 in the form careful"},
                    Planted{"let %r0 a : f32 = sqrt.one_or_more(0x1p+0)",
                            "sqrt of f32 in the form one_or_more"},
                    Planted{"var %r0 s : i64[1][2] let %r1 a : f32 = "
                            "philox_uniform.shared_rounds(%r0, 1:i64, 2:i64)",
                            "%r0 (s) is no state of the form shared_rounds"}));

TEST(VerifyConstantsTest, FindsConstantsThatTheTypeCannotHold) {
  kir::Kernel kernel = kernel_with_body("");
  kernel.exprs.push_back({.type = DType::kF32, .kind = kir::FloatConstant{0.1}});
  kernel.exprs.push_back({.type = DType::kI32, .kind = kir::FloatConstant{1.0}});
  EXPECT_EQ(violations_of(kernel),
            "%e0: 0.1 is rounded to no f32\n"
            "%e1: 1 is no i32\n");
}

/// What the printer never writes: the parser reads the operands that a function has.
TEST(VerifyCallsTest, FindsAnotherNumberOfOperands) {
  kir::Kernel kernel = kernel_with_body("");
  const kir::ExprId one = kernel.exprs.push_back({.kind = kir::IntegerConstant{1}});
  kernel.exprs.push_back({.kind = kir::PointwiseExpr{PointwiseFn::kAdd, {one}}});
  EXPECT_EQ(violations_of(kernel), "%e1: add of 1 operands, not 2\n");
}

/// The range of the group in the first statement of the innermost loop, which sets an element.
TileIndexRange range_in(std::string_view loops, std::string_view index) {
  const std::string text = fmt::format("var %r0 t : f32[64][1]\n{}", loops);
  const size_t at = text.find("...");
  std::string body = text;
  body.replace(at, 3, fmt::format("%r0[{}, 0] = 0x0p+0", index));
  const kir::Kernel kernel = kernel_with_body(body);
  TileIndexRanges ranges(kernel);
  TileIndexRange range;
  for (const kir::Stmt& stmt : kernel.stmts) {
    const auto* loop = std::get_if<kir::For>(&stmt.kind);
    if (loop == nullptr || !loop->unroll) continue;
    EXPECT_TRUE(ranges.enter(*loop));
  }
  for (const kir::Stmt& stmt : kernel.stmts) {
    if (const auto* set = std::get_if<kir::SetElement>(&stmt.kind)) range = ranges.of(set->group);
  }
  return range;
}

TEST(TileIndexRangesTest, AConstantIsItsOwnRange) {
  const TileIndexRange range = range_in("...", "12");
  EXPECT_TRUE(range.constant);
  EXPECT_EQ(range.low, 12);
  EXPECT_EQ(range.high, 12);
  EXPECT_TRUE(range.is_multiple_of(4));
  EXPECT_FALSE(range.is_multiple_of(8));
  EXPECT_TRUE(range_in("...", "0").is_multiple_of(1 << 20)) << "0 is a multiple of everything";
}

/// 2, 6 and 10: the step does not reach 11.
TEST(TileIndexRangesTest, ALoopEndsBeforeItsBound) {
  const TileIndexRange range = range_in("for %r1 i : i32 = 2 to 11 step 4 unroll { ... }", "%r1");
  EXPECT_EQ(range.low, 2);
  EXPECT_EQ(range.high, 10);
  EXPECT_EQ(range.common_divisor, 2U);
}

/// i in {0, 1, 2}, j in {0, 4}: 8 * i + j is one of 0, 4, ..., 20; i - j is one of -4 to 2.
TEST(TileIndexRangesTest, LoopsCombineInEveryWay) {
  constexpr std::string_view kLoops =
      "for %r1 i : i32 = 0 to 3 step 1 unroll { for %r2 j : i32 = 0 to 8 step 4 unroll { ... } }";
  const TileIndexRange sum = range_in(kLoops, "add(mul(%r1, 8), %r2)");
  EXPECT_EQ(sum.low, 0);
  EXPECT_EQ(sum.high, 20);
  EXPECT_EQ(sum.common_divisor, 4U);
  const TileIndexRange difference = range_in(kLoops, "sub(%r1, %r2)");
  EXPECT_EQ(difference.low, -4);
  EXPECT_EQ(difference.high, 2);
  EXPECT_FALSE(difference.is_multiple_of(2));
}

TEST(TileIndexRangesTest, OnlyUnrolledLoopsAreConstant) {
  EXPECT_FALSE(range_in("...", "thread_index").constant);
  EXPECT_FALSE(range_in("...", "cast<i32>(0x1p+0)").constant) << "of a float";
  EXPECT_FALSE(range_in("for %r1 i : i32 = 0 to 3 step 1 { ... }", "%r1").constant);
  EXPECT_TRUE(range_in("for %r1 i : i32 = 0 to 3 step 1 unroll { ... }", "rem(%r1, 2)").constant);
}

/// A loop that never runs gives an index no value at all.
TEST(TileIndexRangesTest, ALoopWithoutIterationsIsInRange) {
  const TileIndexRange range = range_in("for %r1 i : i32 = 5 to 5 step 1 unroll { ... }", "%r1");
  EXPECT_TRUE(range.constant);
  EXPECT_EQ(range.low, 0);
  EXPECT_EQ(range.high, 0);
}

TEST(TileIndexRangesTest, RefusesLoopsWithoutConstantBounds) {
  const kir::Kernel kernel = kernel_with_body(
      "for %r0 i : i32 = 0 to grid_size step 1 { } for %r1 j : i32 = 0 to 4 step 0 { }");
  TileIndexRanges ranges(kernel);
  for (const kir::StmtId id : kernel.body)
    EXPECT_FALSE(ranges.enter(std::get<kir::For>(kernel.stmts[id].kind)));
}

}  // namespace sinter::verify_expressions_test
