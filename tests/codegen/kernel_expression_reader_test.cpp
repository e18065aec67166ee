// Expressions of .kir text: what type each has, how constants are rounded, that equal ones share an
// id, and what is refused.

#include "codegen/kernel/kernel_expression_reader.h"

#include <gmock/gmock.h>

#include <bit>

#include "codegen/kernel/kernel_parser.h"
#include "tests/codegen/parsed_kernel.h"

namespace sinter::kernel_expression_reader_test {

using testing::HasSubstr;

/// A kernel in which the last statement declares a register with the expression as its value. The
/// statement stands in line 8. Registers: %r0 a i64, %r1 t f32[2][4], %r2 ok bool, %r3 b f16.
std::string text_with(std::string_view expression) {
  return fmt::format(R"(kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {{
param %p0 n : i64
param %p1 m : i32
var %r0 a : i64
var %r1 t : f32[2][4]
var %r2 ok : bool
var %r3 b : f16
let %r4 x : f32 = {}
}})",
                     expression);
}

struct Read {
  kir::Kernel kernel;
  kir::Expr expr;  ///< The value.
};

Read read(std::string_view expression) {
  Read result{.kernel = parsed(text_with(expression)), .expr = {}};
  const auto& last = std::get<kir::Declare>(result.kernel.stmts[kir::StmtId{4}].kind);
  result.expr = result.kernel.exprs[last.init];
  return result;
}

DType type_of(std::string_view expression) { return read(expression).expr.type; }

double real_of(std::string_view expression) {
  return std::get<kir::FloatConstant>(read(expression).expr.kind).value;
}

TEST(KernelExpressionReaderTest, TypesFollowFromOperands) {
  EXPECT_EQ(type_of("%r0"), DType::kI64);
  EXPECT_EQ(type_of("%p1"), DType::kI32);
  EXPECT_EQ(type_of("%r1[0, 3]"), DType::kF32);
  EXPECT_EQ(type_of("grid_size"), DType::kI32);
  EXPECT_EQ(type_of("add(%r0, %p0)"), DType::kI64);
  EXPECT_EQ(type_of("lt(%r0, %p0)"), DType::kBool);
  EXPECT_EQ(type_of("is_nan(%r1[0, 0])"), DType::kBool);
  EXPECT_EQ(type_of("select(%r2, %r3, %r3)"), DType::kF16) << "not that of the condition";
  EXPECT_EQ(type_of("philox_uniform(%p0, %p0)"), DType::kF32);
  EXPECT_EQ(type_of("cast<bf16>(%r3)"), DType::kBF16);
  EXPECT_EQ(type_of("cast<tf32>(%r1[0, 0])"), DType::kF32);
}

TEST(KernelExpressionReaderTest, ConstantsHaveTheUsualTypeOrTheirOwn) {
  EXPECT_EQ(type_of("3"), DType::kI32);
  EXPECT_EQ(type_of("3:i64"), DType::kI64);
  EXPECT_EQ(type_of("true"), DType::kBool);
  EXPECT_EQ(type_of("3.0"), DType::kF32) << "a point makes a float";
  EXPECT_EQ(type_of("inf:f64"), DType::kF64);
}

/// Of bf16 the mantissa has 7 bits: 0.1 = 0x1.99999...p-4 rounds to 0x1.9ap-4.
TEST(KernelExpressionReaderTest, RealsAreRoundedToTheirType) {
  EXPECT_EQ(real_of("0.1:f64"), 0.1);
  EXPECT_EQ(real_of("0.1"), static_cast<double>(0.1F));
  EXPECT_EQ(real_of("0.1:bf16"), 0x1.9ap-4);
  EXPECT_EQ(real_of("0x1.00000001p+0"), 1.0);
  EXPECT_EQ(real_of("65520.0:f16"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(real_of("-2.5e-1"), -0.25);
}

TEST(KernelExpressionReaderTest, BitsOfNanAndSignsOfZeroAreKept) {
  const auto bits_of = [](std::string_view text) { return std::bit_cast<uint64_t>(real_of(text)); };
  EXPECT_EQ(bits_of("nan(0xfff8000000000001):f64"), 0xfff8000000000001U);
  EXPECT_EQ(bits_of("-0.0"), 0x8000000000000000U);
  EXPECT_EQ(bits_of("0.0"), 0U);
}

TEST(KernelExpressionReaderTest, FormsFollowThePoint) {
  const auto call_of = [](std::string_view text) {
    return std::get<kir::PointwiseExpr>(read(text).expr.kind);
  };
  const kir::PointwiseExpr fast = call_of("log.fast_path(%r2, %r1[0, 0])");
  EXPECT_EQ(fast.form, kir::CallForm::kFastPath);
  EXPECT_EQ(fast.state, kir::VarId{2});
  EXPECT_EQ(fast.arguments.size(), 1U) << "the state is no argument";
  EXPECT_EQ(call_of("reciprocal.one_or_more(%r1[0, 0])").form, kir::CallForm::kOneOrMore);
  EXPECT_FALSE(call_of("log.careful(%r1[0, 0])").state.valid());
}

TEST(KernelExpressionReaderTest, EqualExpressionsShareOneId) {
  const Read both = read("add(mul(%p1, 3), mul(%p1, 3))");
  EXPECT_EQ(both.kernel.exprs.size(), 4U) << "%p1, 3, their product and its double";
  const auto& sum = std::get<kir::PointwiseExpr>(both.expr.kind);
  EXPECT_EQ(sum.arguments[0], sum.arguments[1]);
  EXPECT_EQ(read("add(mul(%p1, 3), mul(3, %p1))").kernel.exprs.size(), 5U) << "not in this order";
}

TEST(KernelExpressionReaderTest, RefusesWhatIsNoExpression) {
  for (const auto& [expression, message] : std::vector<std::pair<const char*, const char*>>{
           {"%r5", "8:19: the register is not declared yet, found '%r5'"},
           {"%p2", "8:19: there is no such parameter, found '%p2'"},
           {"%b0", "8:19: expected an id like %r0, found '%b0'"},
           {"frob(1)", "8:19: expected an expression, found 'frob'"},
           {"sqrt.fast(1.0)", "expected an expression, found 'sqrt.fast'"},
           {"%r1[0]", "8:24: expected ',', found ']'"},
           {"add(1)", "8:24: expected ',', found ')'"},
           {"neg(1, 2)", "8:24: expected ')', found ','"},
           {"log.fast_path(%r1[0, 0])", "8:36: expected ',', found '['"},
           {"cast<f33>(1)", "8:24: expected an element type, found 'f33'"},
           {"9223372036854775808", "8:19: the number is out of range"},
           {"1e999", "expected an expression, found '1e999'"},
           {"--1", "expected an expression, found '-'"},
           {"1.0:i32", "8:19: 1.0 is no i32"},
           {"nan(0x7ff0000000000000)", "expected the bits of a NaN"},
           {"nan(1)", "expected the bits of a NaN, found '1'"},
           {"", "expected an expression, found '}'"}}) {
    const auto kernel = parse_kernel(text_with(expression));
    ASSERT_FALSE(kernel.has_value()) << expression;
    EXPECT_EQ(kernel.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(kernel.error().message, HasSubstr(message)) << expression;
  }
}

/// The body of the kernel is the first level, and each operand is one more.
TEST(KernelExpressionReaderTest, RefusesMoreThan200Levels) {
  const auto nested = [](int calls) {
    std::string text;
    for (int i = 0; i < calls; ++i) text += "neg(";
    text += "1.0";
    for (int i = 0; i < calls; ++i) text += ")";
    return parse_kernel(text_with(text));
  };
  EXPECT_TRUE(nested(198).has_value());
  for (const int calls : {199, 100'000}) {
    const auto kernel = nested(calls);
    ASSERT_FALSE(kernel.has_value());
    EXPECT_THAT(kernel.error().message, HasSubstr("more than 200 levels of nesting"));
  }
}

}  // namespace sinter::kernel_expression_reader_test
