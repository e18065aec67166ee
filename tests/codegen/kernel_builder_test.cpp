#include "codegen/kernel/kernel_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codegen/kernel/kernel_printer.h"
#include "fusion_ir/error.h"

namespace sinter::kir::kernel_builder_test {

using testing::HasSubstr;

class KernelBuilderTest : public testing::Test {
 protected:
  KernelBuilderTest() : b(&kernel), x(b.ref(b.declare_scalar("x", DType::kI32))) {}

  std::optional<int64_t> constant(ExprId expr) const {
    const IntegerConstant* found = b.as_integer(expr);
    return found == nullptr ? std::nullopt : std::optional(found->value);
  }

  Kernel kernel;
  KernelBuilder b;
  ExprId x;
};

TEST_F(KernelBuilderTest, FoldsConstantsWithTheArithmeticOfTheType) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  const int64_t least = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(constant(b.add(b.integer(most), b.integer(1))), least);
  EXPECT_EQ(constant(b.add(b.integer(most, DType::kI64), b.integer(1, DType::kI64))), most + 1);
  EXPECT_EQ(constant(b.div(b.integer(-7), b.integer(2))), -3);
  EXPECT_EQ(constant(b.div(b.integer(7), b.integer(0))), 0);
  EXPECT_EQ(constant(b.div(b.integer(least), b.integer(-1))), least);
  EXPECT_EQ(constant(b.rem(b.integer(-7), b.integer(2))), -1);
  EXPECT_EQ(constant(b.min(b.integer(3), b.integer(5))), 3);
  EXPECT_EQ(constant(b.max(b.integer(3), b.integer(5))), 5);
  EXPECT_EQ(constant(b.less(b.integer(3), b.integer(5))), 1);
  EXPECT_EQ(b.type_of(b.less(b.integer(3), b.integer(5))), DType::kBool);
  EXPECT_EQ(constant(b.apply(PointwiseFn::kClamp, {b.integer(9), b.integer(0), b.integer(7)})), 7);
}

TEST_F(KernelBuilderTest, RandomNumbersAreF32AndFoldWhereSeedAndIndexAreKnown) {
  const ExprId seed = b.integer(7, DType::kI64);
  const ExprId known = b.apply(PointwiseFn::kPhiloxUniform, {seed, b.integer(3, DType::kI64)});
  const auto real = [&](ExprId expr) {
    return std::get_if<FloatConstant>(&kernel.exprs[expr].kind);
  };
  ASSERT_NE(real(known), nullptr);
  EXPECT_EQ(real(known)->value, evaluate_random(PointwiseFn::kPhiloxUniform, 7, 3));
  const ExprId index = b.cast(x, DType::kI64);
  const ExprId unknown = b.apply(PointwiseFn::kPhiloxUniform, {seed, index});
  EXPECT_EQ(b.type_of(unknown), DType::kF32);
  EXPECT_EQ(real(unknown), nullptr);
}

TEST_F(KernelBuilderTest, AppliesIntegerIdentities) {
  const ExprId zero = b.integer(0);
  const ExprId one = b.integer(1);
  EXPECT_EQ(b.add(x, zero), x);
  EXPECT_EQ(b.add(zero, x), x);
  EXPECT_EQ(b.sub(x, zero), x);
  EXPECT_EQ(b.sub(x, x), zero);
  EXPECT_EQ(b.mul(x, one), x);
  EXPECT_EQ(b.mul(one, x), x);
  EXPECT_EQ(b.mul(zero, x), zero);
  EXPECT_EQ(b.div(x, one), x);
  EXPECT_EQ(b.div(zero, x), zero);
  EXPECT_EQ(b.rem(x, one), zero);
  EXPECT_EQ(b.min(x, x), x);
  EXPECT_EQ(b.less(x, x), b.boolean(false));
  EXPECT_EQ(b.less_equal(x, x), b.boolean(true));
}

TEST_F(KernelBuilderTest, JoinsConstantsOfNestedSumsAndProducts) {
  const ExprId sum = b.add(b.add(x, b.integer(3)), b.integer(4));
  EXPECT_EQ(sum, b.add(x, b.integer(7)));
  EXPECT_EQ(b.sub(sum, b.integer(7)), x);
  EXPECT_EQ(b.add(b.integer(4), b.add(b.integer(3), x)), sum);
  EXPECT_EQ(b.mul(b.mul(x, b.integer(3)), b.integer(4)), b.mul(x, b.integer(12)));
}

TEST_F(KernelBuilderTest, FoldsLogic) {
  const ExprId flag = b.less(x, b.integer(5));
  EXPECT_EQ(b.both(flag, b.boolean(true)), flag);
  EXPECT_EQ(b.both(b.boolean(false), flag), b.boolean(false));
  EXPECT_EQ(b.apply(PointwiseFn::kOr, {flag, b.boolean(true)}), b.boolean(true));
  EXPECT_EQ(b.apply(PointwiseFn::kNot, {b.apply(PointwiseFn::kNot, {flag})}), flag);
  EXPECT_EQ(b.select(b.boolean(true), x, b.integer(1)), x);
  EXPECT_EQ(b.select(flag, x, x), x);
}

TEST_F(KernelBuilderTest, FoldsFloatsOnlyWhereEveryBitStays) {
  const ExprId y = b.ref(b.declare_scalar("y", DType::kF32));
  EXPECT_EQ(b.mul(y, b.real(1.0)), y);
  EXPECT_EQ(b.sub(y, b.real(0.0)), y);
  EXPECT_EQ(b.add(y, b.real(-0.0)), y);
  EXPECT_NE(b.add(y, b.real(0.0)), y) << "-0.0 + 0.0 is 0.0";
  EXPECT_NE(b.mul(y, b.real(0.0)), b.real(0.0)) << "NaN * 0.0 is NaN";
  EXPECT_NE(b.sub(y, y), b.real(0.0)) << "inf - inf is NaN";
  EXPECT_NE(b.equal(y, y), b.boolean(true)) << "NaN differs from itself";
  // 1 + 2^-24 lies between two f32; a sum in double would keep it.
  EXPECT_EQ(b.add(b.real(1.0), b.real(0x1p-24)), b.real(1.0));
  EXPECT_EQ(b.add(b.real(1.0, DType::kF64), b.real(0x1p-24, DType::kF64)),
            b.real(1.0 + 0x1p-24, DType::kF64));
  EXPECT_TRUE(std::holds_alternative<PointwiseExpr>(
      kernel.exprs[b.apply(PointwiseFn::kExp, {b.real(1.0)})].kind))
      << "the device's exp is not the library's";
}

TEST_F(KernelBuilderTest, FoldsCasts) {
  EXPECT_EQ(b.cast(x, DType::kI32), x);
  EXPECT_EQ(b.cast(b.cast(x, DType::kI64), DType::kI32), x);
  EXPECT_EQ(constant(b.cast(b.integer(1'000'000'000'000, DType::kI64), DType::kI32)),
            std::numeric_limits<int32_t>::max());
  EXPECT_EQ(constant(b.cast(b.real(-1e30), DType::kI64)), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(constant(b.cast(b.real(1e30), DType::kI64)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(constant(b.cast(b.real(NAN), DType::kI32)), 0);
  EXPECT_EQ(constant(b.cast(b.real(-2.9), DType::kI32)), -2);
  // 2^53 + 1 rounds to 2^53 in double, but 2^60 + 2^36 + 1 must round up in f32.
  const int64_t just_above_tie = (int64_t{1} << 60) + (int64_t{1} << 36) + 1;
  EXPECT_EQ(b.cast(b.integer(just_above_tie, DType::kI64), DType::kF32), b.real(0x1p60 + 0x1p37));
  const ExprId y = b.ref(b.declare_scalar("y", DType::kF32));
  EXPECT_NE(b.cast(b.cast(y, DType::kBF16), DType::kF32), y) << "the rounding would be lost";
}

TEST_F(KernelBuilderTest, SharesEqualExpressions) {
  const ExprId first = b.mul(b.add(x, b.integer(3)), x);
  const size_t size = kernel.exprs.size();
  EXPECT_EQ(b.mul(b.add(x, b.integer(3)), x), first);
  EXPECT_EQ(kernel.exprs.size(), size);
  EXPECT_NE(b.integer(0), b.integer(0, DType::kI64));
  EXPECT_NE(b.real(0.0), b.real(-0.0));
  // A second builder knows what is there.
  EXPECT_EQ(KernelBuilder(&kernel).integer(3), b.integer(3));
}

TEST_F(KernelBuilderTest, GivesUniqueNames) {
  EXPECT_EQ(kernel.vars[b.add_var("x", DType::kF32)].name, "x_2");
  EXPECT_EQ(kernel.vars[b.add_var("x_2", DType::kF32)].name, "x_2_2");
  EXPECT_EQ(kernel.vars[b.add_var("x", DType::kF32)].name, "x_3");
  EXPECT_EQ(kernel.buffers[b.add_buffer({.name = "x", .value = {}})].name, "x_4");
  EXPECT_EQ(kernel.vars[KernelBuilder(&kernel).add_var("x", DType::kF32)].name, "x_5");
}

TEST_F(KernelBuilderTest, WritesNoLoopForOneIterationAndNoBranchForAConstant) {
  b.unrolled("i", 1, [&](ExprId i) { EXPECT_EQ(i, b.integer(0)); });
  b.unrolled("i", 0, [&](ExprId) { FAIL(); });
  b.when(
      b.boolean(false), [] { FAIL(); }, [&] { b.comment("taken"); });
  EXPECT_THAT(print(kernel), HasSubstr("var %r0 x : i32\n  // taken\n}"));
}

TEST_F(KernelBuilderTest, NestsStatements) {
  b.unrolled("i", 4, [&](ExprId i) {
    b.when(
        b.less(i, x), [&] { b.assign(VarId{0}, i); }, [&] { b.comment("else"); });
  });
  EXPECT_THAT(print(kernel), HasSubstr(R"(
  for %r1 i : i32 = 0 to 4 step 1 unroll {
    if lt(%r1, %r0) {
      %r0 = %r1
    } else {
      // else
    }
  }
)"));
}

TEST_F(KernelBuilderTest, TreatsTheElementOfAScalarAsTheScalar) {
  EXPECT_EQ(b.element(VarId{0}, b.integer(0), b.integer(0)), x);
}

TEST_F(KernelBuilderTest, RefusesMixedTypes) {
  EXPECT_THROW(b.add(x, b.integer(1, DType::kI64)), SinterException);
  EXPECT_THROW(b.select(x, x, x), SinterException);
  EXPECT_THROW(b.assign(VarId{0}, b.real(1.0)), SinterException);
  EXPECT_THROW(b.integer(int64_t{1} << 40), SinterException);
}

}  // namespace sinter::kir::kernel_builder_test
