// Equal expressions of a table have one id, and expressions that differ in anything have two.

#include "codegen/kernel/expr_interner.h"

#include <gtest/gtest.h>

#include <bit>

namespace sinter::kir::expr_interner_test {

class ExprInternerTest : public testing::Test {
 protected:
  ExprId integer(int64_t value, DType type = DType::kI32) {
    return interner.intern({.type = type, .kind = IntegerConstant{value}});
  }
  ExprId real(double value) {
    return interner.intern({.type = DType::kF64, .kind = FloatConstant{value}});
  }
  ExprId call(PointwiseExpr call) {
    return interner.intern({.type = DType::kF32, .kind = std::move(call)});
  }

  IdVector<ExprId, Expr> table;
  ExprInterner interner{&table};
};

TEST_F(ExprInternerTest, IdsFollowTheOrderOfFirstUse) {
  EXPECT_EQ(integer(7), ExprId{0});
  EXPECT_EQ(integer(8), ExprId{1});
  EXPECT_EQ(integer(7), ExprId{0});
  EXPECT_EQ(table.size(), 2U);
}

TEST_F(ExprInternerTest, TypesTellConstantsApart) {
  EXPECT_NE(integer(1, DType::kI32), integer(1, DType::kI64));
  EXPECT_NE(integer(1, DType::kI32), integer(1, DType::kBool));
}

/// Ids of different tables have equal numbers.
TEST_F(ExprInternerTest, KindsTellEqualNumbersApart) {
  const auto of = [&](ExprKind kind) {
    return interner.intern({.type = DType::kI32, .kind = std::move(kind)});
  };
  EXPECT_EQ(of(IntegerConstant{0}), ExprId{0});
  EXPECT_EQ(of(VarRef{VarId{0}}), ExprId{1});
  EXPECT_EQ(of(ParamRef{ParamId{0}}), ExprId{2});
  EXPECT_EQ(of(SpecialRef{Special::kThreadIndex}), ExprId{3});
  EXPECT_EQ(of(CastExpr{ExprId{0}}), ExprId{4});
  EXPECT_EQ(of(ElementRef{VarId{0}, ExprId{0}, ExprId{0}}), ExprId{5});
}

TEST_F(ExprInternerTest, FloatsAreEqualBitByBit) {
  EXPECT_NE(real(0.0), real(-0.0));
  const auto nan = std::bit_cast<double>(0x7ff8000000000000U);
  const auto other = std::bit_cast<double>(0x7ff8000000000001U);
  EXPECT_EQ(real(nan), real(nan)) << "although it is not equal to itself";
  EXPECT_NE(real(nan), real(other));
}

TEST_F(ExprInternerTest, CallsDifferInArgumentsFormAndState) {
  const ExprId a = real(1.0);
  const ExprId b = real(2.0);
  EXPECT_EQ(call({PointwiseFn::kSub, {a, b}}), call({PointwiseFn::kSub, {a, b}}));
  EXPECT_NE(call({PointwiseFn::kSub, {a, b}}), call({PointwiseFn::kSub, {b, a}}));
  EXPECT_NE(call({PointwiseFn::kSub, {a, b}}), call({PointwiseFn::kAdd, {a, b}}));
  const ExprId general = call({PointwiseFn::kLog, {a}});
  const ExprId careful = call({PointwiseFn::kLog, {a}, CallForm::kCareful});
  const ExprId fast = call({PointwiseFn::kLog, {a}, CallForm::kFastPath, VarId{0}});
  const ExprId other_state = call({PointwiseFn::kLog, {a}, CallForm::kFastPath, VarId{1}});
  EXPECT_EQ(std::set({general, careful, fast, other_state}).size(), 4U);
}

TEST_F(ExprInternerTest, FindsWhatTheTableHeldBefore) {
  IdVector<ExprId, Expr> held;
  for (const int64_t value : {5, 5, 6}) held.push_back({.kind = IntegerConstant{value}});
  ExprInterner late(&held);
  EXPECT_EQ(late.intern({.kind = IntegerConstant{6}}), ExprId{2});
  EXPECT_EQ(late.intern({.kind = IntegerConstant{9}}), ExprId{3});
  EXPECT_EQ(held.size(), 4U);
}

}  // namespace sinter::kir::expr_interner_test
