// The types, shapes and mistakes of contractions, and the calls of the builder that make them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/verifier.h"

namespace sinter::contract_op_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ContractOpTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string text(ValueId id) const {
    return text_of(b_.fusion(), b_.value(id).type, b_.value(id).shape);
  }
  [[nodiscard]] const ContractOp& op(ValueId id) const {
    const ContractOp* const found = b_.fusion().def_as<ContractOp>(id);
    EXPECT_NE(found, nullptr);
    return *found;
  }
  ValueId bf16(const Shape& shape) { return b_.input(DType::kBF16, shape); }
  ValueId f32(const Shape& shape) { return b_.input(DType::kF32, shape); }

  /// The message of the error that an equation gives.
  std::string mistake(std::string_view equation, ValueId a, ValueId b,
                      ContractOptions options = {}) {
    try {
      (void)b_.contract(equation, a, b, options);
    } catch (const SinterException& exception) {
      EXPECT_EQ(exception.error().kind, ErrorKind::kInvalidFusion);
      EXPECT_THAT(exception.error().remedy, Not(IsEmpty()));
      return exception.error().message;
    }
    ADD_FAILURE() << "nothing was thrown for " << equation;
    return {};
  }

  FusionBuilder b_{"test"};
  Extent rows_ = b_.symbol("rows");
};

TEST_F(ContractOpTest, AnEquationPlacesAxes) {
  const ValueId x = bf16({4, rows_, 64});
  const ValueId w = bf16({4, 32, 64});
  const ValueId y = b_.contract("bmk, bnk -> nbm", x, w);
  EXPECT_EQ(text(y), "f32[32, 4, rows]");
  EXPECT_THAT(op(y).left, ElementsAre(1, 2, 3));
  EXPECT_THAT(op(y).right, ElementsAre(1, 0, 3));
  EXPECT_THAT(op(y).reduced, ElementsAre(3));
  // Letters do not matter, and reduced axes come in the order of the left operand.
  EXPECT_EQ(op(b_.contract("XyZ,XaZ->aXy", x, w)), op(y));
  EXPECT_THAT(op(b_.contract("abc,aBc->bB", x, w)).reduced, ElementsAre(2, 3));
}

TEST_F(ContractOpTest, TheResultHasTheTypeOfTheAccumulator) {
  const std::vector<std::pair<DType, std::string>> kResults = {
      {DType::kF64, "f64[2, 4]"},  {DType::kF32, "f32[2, 4]"},    {DType::kF16, "f32[2, 4]"},
      {DType::kBF16, "f32[2, 4]"}, {DType::kF8E4M3, "f32[2, 4]"}, {DType::kF8E5M2, "f32[2, 4]"},
      {DType::kI64, "i64[2, 4]"},  {DType::kI32, "i32[2, 4]"},    {DType::kI8, "i32[2, 4]"},
      {DType::kU8, "i32[2, 4]"}};
  for (const auto& [type, result] : kResults) {
    const ValueId product = b_.matmul(b_.input(type, {2, 3}), b_.input(type, {3, 4}));
    EXPECT_EQ(text(product), result);
    EXPECT_TRUE(std::holds_alternative<ContractOp>(b_.fusion().def_of(product).kind));
  }
}

TEST_F(ContractOpTest, OperandsMeetAtTheirCommonComputeType) {
  const ValueId mixed = b_.matmul(bf16({2, 3}), b_.input(DType::kF64, {3, 4}));
  EXPECT_EQ(text(mixed), "f64[2, 4]");
  const ValueId of_f8 =
      b_.matmul(b_.input(DType::kF8E4M3, {2, 3}), b_.input(DType::kF8E5M2, {3, 4}));
  EXPECT_EQ(text(b_.fusion().def_of(of_f8).operands[0]), "f8e4m3[2, 3]") << "as it is";
  EXPECT_EQ(text(of_f8), "f32[2, 4]");
}

TEST_F(ContractOpTest, MatmulIsThatOfNumpy) {
  const auto product = [&](const Shape& a, const Shape& b) {
    return text(b_.matmul(f32(a), f32(b)));
  };
  EXPECT_EQ(product({rows_, 3}, {3, 4}), "f32[rows, 4]");
  EXPECT_EQ(product({5, rows_, 3}, {5, 3, 4}), "f32[5, rows, 4]");
  EXPECT_EQ(product({5, 2, 3}, {3, 4}), "f32[5, 2, 4]");
  EXPECT_EQ(product({2, 3}, {5, 3, 4}), "f32[5, 2, 4]");
  EXPECT_EQ(product({6, 1, 2, 3}, {5, 3, 4}), "f32[6, 5, 2, 4]");
  EXPECT_EQ(product({1, 2, 3}, {1, 3, 4}), "f32[1, 2, 4]");
  EXPECT_EQ(product({3}, {3, 4}), "f32[4]");
  EXPECT_EQ(product({2, 3}, {3}), "f32[2]");
  EXPECT_EQ(product({3}, {3}), "f32");
  EXPECT_EQ(product({5, 2, 3}, {3}), "f32[5, 2]");
  EXPECT_EQ(product({3}, {5, 3, 4}), "f32[5, 4]");
  EXPECT_THROW(b_.matmul(f32({5, 2, 3}), f32({4, 3, 4})), SinterException) << "batches differ";
  EXPECT_THROW(b_.matmul(f32({2, 3}), f32({4, 3})), SinterException) << "k differs";
  EXPECT_THROW(b_.matmul(f32({}), f32({4, 3})), SinterException);
}

TEST_F(ContractOpTest, LinearMultipliesByTheTransposedWeight) {
  const ValueId x = bf16({7, rows_, 64});
  const ValueId w = bf16({32, 64});
  const ValueId y = b_.linear(x, w, bf16({32}));
  EXPECT_EQ(text(y), "f32[7, rows, 32]");
  const ValueId plain = b_.linear(x, w);
  EXPECT_EQ(op(plain), op(b_.contract("abk,nk->abn", x, w)));
  EXPECT_THROW(b_.linear(x, bf16({64, 32})), SinterException);
  EXPECT_THROW(b_.linear(f32({}), w), SinterException);
}

TEST_F(ContractOpTest, WrongEquationsAreRefused) {
  const ValueId a = f32({2, 3});
  const ValueId b = f32({3, 4});
  EXPECT_THAT(mistake("mk,kn", a, b), HasSubstr("no two operands and result"));
  EXPECT_THAT(mistake("mk->m", a, b), HasSubstr("where a letter"));
  EXPECT_THAT(mistake("mk,kn,->mn", a, b), HasSubstr("has ','"));
  EXPECT_THAT(mistake("m1,1n->mn", a, b), HasSubstr("has '1'"));
  EXPECT_THAT(mistake("kk,kn->n", a, b), HasSubstr("names an axis twice"));
  EXPECT_THAT(mistake("mk,kn->m", a, b), HasSubstr("reduces 'n', which only one operand has"));
  EXPECT_THAT(mistake("mk,kn->n", a, b), HasSubstr("reduces 'm', which only one operand has"));
  EXPECT_THAT(mistake("mk,kn->mnx", a, b), HasSubstr("has 'x' in its result"));
  EXPECT_THAT(mistake("mk,ln->mkln", a, b), HasSubstr("reduces no axis"));
  EXPECT_THAT(mistake("mkx,kn->mn", a, b), HasSubstr("only one operand has"));
  EXPECT_THAT(mistake("k,kn->n", a, b), HasSubstr("places 1 axes"));
  EXPECT_THAT(mistake("mk,nk->mn", a, b), HasSubstr("differ along axis 2"));
  EXPECT_THAT(mistake("mk,kn->mn", a, f32({rows_, 4})), HasSubstr("differ along axis 2"))
      << "a symbol is no constant";
}

TEST_F(ContractOpTest, ExtentsThatDifferAreNamed) {
  try {
    (void)b_.matmul(f32({2, 3}), f32({5, 4}));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const SinterException& exception) {
    EXPECT_EQ(exception.error().limit, 3);
    EXPECT_EQ(exception.error().measured, 5);
    EXPECT_EQ(exception.error().values.size(), 2U);
  }
}

TEST_F(ContractOpTest, PrecisionIsOneOfSumsOfF32) {
  const ContractOptions tf32{.precision = ContractPrecision::kTf32};
  EXPECT_EQ(op(b_.matmul(f32({2, 3}), f32({3, 4}), tf32)).precision, ContractPrecision::kTf32);
  for (const DType type : {DType::kBF16, DType::kF64, DType::kI8}) {
    const std::string message =
        mistake("mk,kn->mn", b_.input(type, {2, 3}), b_.input(type, {3, 4}), tf32);
    EXPECT_THAT(message, HasSubstr("has no precision tf32")) << name_of(type);
  }
  EXPECT_THAT(mistake("mk,kn->mn", f32({2, 3}), f32({3, 4}),
                      {.fn = ContractFn::kMax, .precision = ContractPrecision::kTf32x3}),
              HasSubstr("has no precision tf32x3"));
}

TEST_F(ContractOpTest, TypesThatDoNotContractAreRefused) {
  const auto of = [&](DType type, ContractFn fn) {
    return mistake("mk,kn->mn", b_.input(type, {2, 3}), b_.input(type, {3, 4}), {.fn = fn});
  };
  EXPECT_THAT(of(DType::kBool, ContractFn::kSum), HasSubstr("does not take bool"));
  EXPECT_THAT(of(DType::kI32, ContractFn::kLogSumExp), HasSubstr("it takes floats"));
}

TEST_F(ContractOpTest, TextWithWrongAxesIsRefused) {
  const auto error_of = [](std::string_view axes) {
    const auto fusion = parse_fusion(fmt::format(R"(fusion @f {{
  %v0 : f32[2, 3] = input
  %v1 : f32[3, 4] = input
  %v2 : f32[2, 4] = contract.sum %v0, %v1 {}
  return %v2
}})",
                                                 axes));
    return fusion ? std::string() : fusion.error().message;
  };
  EXPECT_EQ(error_of("left(0, 2) right(2, 1) over(2)"), "");
  EXPECT_EQ(error_of("left(0, 2) right(2, 1) over(2) precision(ieee)"), "");
  EXPECT_THAT(error_of("left(0, 2) right(2, 1) over(2) precision(half)"),
              HasSubstr("expected a precision"));
  EXPECT_THAT(error_of("left(0, 2) right(2, 1) over()"), HasSubstr("reduces axes ()"));
  EXPECT_THAT(error_of("left(0, 2) right(2, 1) over(1)"), HasSubstr("reduces axes (1)"));
  EXPECT_THAT(error_of("left(0, 2) right(2, 1) over(1, 2)"), HasSubstr("reduced, but one of one"));
  EXPECT_THAT(error_of("left(0, 2) right(2, 2) over(2)"), HasSubstr("places axes"));
  EXPECT_THAT(error_of("left(0, -1) right(2, 1) over(2)"), HasSubstr("places axes"));
  EXPECT_THAT(error_of("left(0, 99) right(99, 1) over(99)"), HasSubstr("has axis 99"));
  EXPECT_THAT(error_of("left(0, 3) right(3, 1) over(3)"), HasSubstr("one of no operand"));
  EXPECT_THAT(error_of("left(0) right(2, 1) over(2)"), HasSubstr("places 1 axes"));
}

TEST_F(ContractOpTest, AxesAndPrecisionArePartOfTheStructure) {
  const auto made = [](std::string_view equation, ContractOptions options) {
    FusionBuilder b("f");
    b.output(
        b.contract(equation, b.input(DType::kF32, {8, 8}), b.input(DType::kF32, {8, 8}), options));
    return b.build();
  };
  const Fusion first = made("mk,kn->mn", {});
  EXPECT_TRUE(structurally_equal(first, made("ab,bc->ac", {})));
  EXPECT_EQ(structural_hash(first), structural_hash(made("ab,bc->ac", {})));
  for (const Fusion& other :
       {made("mk,nk->mn", {}), made("mk,kn->nm", {}), made("mk,kn->mn", {.fn = ContractFn::kMax}),
        made("mk,kn->mn", {.precision = ContractPrecision::kTf32})}) {
    EXPECT_FALSE(structurally_equal(first, other));
    EXPECT_NE(structural_hash(first), structural_hash(other));
  }
}

TEST_F(ContractOpTest, UnknownFunctionsBreakAnInvariant) {
  FusionBuilder b("f");
  b.output(b.matmul(b.input(DType::kF32, {2, 3}), b.input(DType::kF32, {3, 4})));
  const Fusion sound = b.build();
  EXPECT_THAT(verify(sound), IsEmpty());
  for (const bool of_fn : {true, false}) {
    Fusion broken = sound;
    auto& contract = std::get<ContractOp>(broken.ops[OpId{2}].kind);
    if (of_fn) {
      contract.fn = static_cast<ContractFn>(9);
    } else {
      contract.precision = static_cast<ContractPrecision>(9);
    }
    EXPECT_THAT(verify(broken), Not(IsEmpty()));
  }
}

}  // namespace sinter::contract_op_test
