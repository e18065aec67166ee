// The CUDA text of an expression has the parentheses that C++ needs and no others, and its literals
// read back as the same numbers.

#include "codegen/cuda/cuda_expression.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/codegen/parsed_kernel.h"

namespace sinter::cuda_expression_test {

/// A kernel in which the last statement declares a register with this value.
kir::Kernel kernel_of(std::string_view expression) {
  return parsed(fmt::format(R"(kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 rows : i64
  buffer %b0 data : f32 global read align 16
  buffer %b1 many : f32 global read align 16 tensors 4
  mbarrier %m0 full count 3 arrivals 1
  var %r0 a : i32
  var %r1 b : i32
  var %r2 x : f32
  var %r3 p : bool
  var %r4 t : f32[2][4]
  var %r5 u : f32[1][4]
  var %r6 state : i64[1][4]
  let %r7 result : i32 = {}
}})",
                            expression));
}

kir::ExprId value_of(const kir::Kernel& kernel) {
  return std::get<kir::Declare>(kernel.stmts[kernel.body.back()].kind).init;
}

std::string text_of(std::string_view expression) {
  const kir::Kernel kernel = kernel_of(expression);
  const KernelNames names(kernel);
  return CudaExpressions(kernel, names).text(value_of(kernel));
}

TEST(CudaExpressionTest, WritesParenthesesOnlyWhereTheyAreNeeded) {
  EXPECT_EQ(text_of("mul(add(%r0, %r1), %r1)"), "(a + b) * b");
  EXPECT_EQ(text_of("add(mul(%r0, %r1), %r1)"), "a * b + b");
  EXPECT_EQ(text_of("sub(sub(%r0, %r1), %r0)"), "a - b - a");
  EXPECT_EQ(text_of("sub(%r0, sub(%r1, %r0))"), "a - (b - a)");
  EXPECT_EQ(text_of("add(%r0, add(%r1, %r0))"), "a + (b + a)") << "floats round in this order";
  EXPECT_EQ(text_of("mul(%r0, div(%r1, 32))"), "a * (b / 32)");
  EXPECT_EQ(text_of("max(add(%r0, %r1), 3)"), "sinter_max(a + b, 3)");
  EXPECT_EQ(text_of("mul(thread_index, 4)"), "(int)threadIdx.x * 4");
}

/// In C++ a comparison binds more tightly than &, ^ and |.
TEST(CudaExpressionTest, ComparisonsBindMoreTightlyThanBits) {
  EXPECT_EQ(text_of("eq(and(%r0, %r1), %r0)"), "(a & b) == a");
  EXPECT_EQ(text_of("or(and(%r0, %r1), xor(%r0, %r1))"), "a & b | a ^ b");
  EXPECT_EQ(text_of("and(or(%r0, %r1), %r0)"), "(a | b) & a");
  EXPECT_EQ(text_of("eq(%r3, eq(%r0, %r1))"), "p == (a == b)");
}

TEST(CudaExpressionTest, ConditionsNestOnTheirRight) {
  EXPECT_EQ(text_of("select(%r3, %r0, select(%r3, %r1, %r0))"), "p ? a : p ? b : a");
  EXPECT_EQ(text_of("select(select(%r3, %r3, %r3), %r0, %r1)"), "(p ? p : p) ? a : b");
  EXPECT_EQ(text_of("add(select(%r3, %r0, %r1), %r1)"), "(p ? a : b) + b");
}

TEST(CudaExpressionTest, KeepsTheMeaningOfSigns) {
  EXPECT_EQ(text_of("neg(mul(%r2, %r2))"), "-(x * x)");
  EXPECT_EQ(text_of("neg(neg(%r2))"), "-(-x)") << "-- would be a decrement";
  EXPECT_EQ(text_of("neg(-1.0)"), "-(-1.0f)");
  EXPECT_EQ(text_of("sub(%r2, neg(%r2))"), "x - -x");
  EXPECT_EQ(text_of("add(%r0, -3)"), "a - 3");
  EXPECT_EQ(text_of("mul(add(%r0, -3), %r1)"), "(a - 3) * b");
  EXPECT_EQ(text_of("add(%r0, -2147483648)"), "a + (-2147483647 - 1)");
}

/// The functions of numeric.cuh define division by 0 and by -1, which C++ does not.
TEST(CudaExpressionTest, DividesByOperatorOnlyWhereThatIsDefined) {
  EXPECT_EQ(text_of("div(%r0, 32)"), "a / 32");
  EXPECT_EQ(text_of("rem(mul(%r0, %r1), 3)"), "a * b % 3");
  EXPECT_EQ(text_of("div(%r0, %r1)"), "sinter_div(a, b)");
  EXPECT_EQ(text_of("div(%r0, 0)"), "sinter_div(a, 0)");
  EXPECT_EQ(text_of("rem(%r0, -32)"), "sinter_rem(a, -32)");
  EXPECT_EQ(text_of("div(%r2, 3.0)"), "sinter_div(x, 3.0f)");
}

TEST(CudaExpressionTest, WritesLogicOfBoolsAsLogic) {
  // & of bools would be an int, and sinter_not of that -2 instead of false.
  EXPECT_EQ(text_of("not(and(%r3, lt(%r0, %r1)))"), "sinter_not(p && a < b)");
  EXPECT_EQ(text_of("and(or(%r3, %r3), %r3)"), "(p || p) && p");
  EXPECT_EQ(text_of("xor(%r3, lt(%r0, %r1))"), "p != a < b");
  EXPECT_EQ(text_of("and(%r0, %r1)"), "a & b");
}

TEST(CudaExpressionTest, WritesLiteralsThatReadBackAlike) {
  for (const auto& [literal, cuda] : std::vector<std::pair<const char*, const char*>>{
           {"1.0", "1.0f"},
           {"0.1", "0.1f"},
           {"0.1:f64", "0.1"},
           {"1e-6", "1e-06f"},
           {"1e22", "1e+22f"},
           {"0x1p-149", "1e-45f"},
           {"0x1.fffffep+127", "3.4028235e+38f"},
           {"0x1p-1074:f64", "5e-324"},
           {"-0.0", "-0.0f"},
           {"-inf", "-sinter_inf_f32()"},
           {"nan(0x7ff8000000000000):f64", "sinter_nan_f64()"},
           {"2.5:bf16", "to_bf16(2.5f)"},
           {"-inf:f16", "to_f16(-sinter_inf_f32())"},
           {"5:i64", "5LL"},
           {"-3:i8", "(i8)-3"},
           {"true", "true"},
           {"-2147483648", "(-2147483647 - 1)"},
           {"-9223372036854775808:i64", "(-9223372036854775807LL - 1)"}}) {
    EXPECT_EQ(text_of(literal), cuda) << literal;
  }
}

TEST(CudaExpressionTest, NamesRegistersParametersAndForms) {
  EXPECT_EQ(text_of("%p0"), "rows");
  EXPECT_EQ(text_of("%r4[1, 3]"), "t[1].get(3)");
  EXPECT_EQ(text_of("%r5[0, 3]"), "u.get(3)") << "one group is no array";
  EXPECT_EQ(text_of("cast<bf16>(%r2)"), "to_bf16(x)");
  EXPECT_EQ(text_of("log.fast_path(%r3, %r2)"), "sinter_log_fast_path(x, p)");
  EXPECT_EQ(text_of("log.careful(%r2)"), "sinter_log_careful(x)");
  EXPECT_EQ(text_of("reciprocal.one_or_more(%r2)"), "sinter_reciprocal_of_one_or_more(x)");
  EXPECT_EQ(text_of("philox_uniform.shared_rounds(%r6, 1:i64, 2:i64)"),
            "sinter_philox_uniform(state, 1LL, 2LL)");
}

TEST(CudaExpressionTest, AddressesLeaveOutAnIndexOfZero) {
  const auto address = [](std::string_view index) {
    const kir::Kernel kernel = kernel_of(index);
    const KernelNames names(kernel);
    return CudaExpressions(kernel, names).address(kir::BufferId{0}, value_of(kernel));
  };
  EXPECT_EQ(address("0"), "data");
  EXPECT_EQ(address("add(%r0, 1)"), "data + a + 1");
  EXPECT_EQ(address("select(%r3, %r0, %r1)"), "data + (p ? a : b)");
  const kir::Kernel kernel = kernel_of("add(%r0, %r1)");
  const KernelNames names(kernel);
  const CudaExpressions expressions(kernel, names);
  const kir::ExprId sum = value_of(kernel);
  EXPECT_EQ(expressions.address(kir::BufferId{1}, sum, sum), "table.many[a + b] + a + b");
  EXPECT_EQ(expressions.address(kir::MbarrierId{0}, sum), "full + a + b");
}

TEST(CudaExpressionTest, EqualNamesOfDifferentTablesGetNumbers) {
  const KernelNames names(parsed(R"(kernel @x threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 x : i64
  buffer %b0 x : f32 global read align 16
  var %r0 x : i32
})"));
  EXPECT_EQ(names.entry, "x");
  EXPECT_EQ(names.table, "") << "which only kernels with tables have";
  EXPECT_EQ(names.buffers[kir::BufferId{0}], "x_2");
  EXPECT_EQ(names.params[kir::ParamId{0}], "x_3");
  EXPECT_EQ(names.vars[kir::VarId{0}], "x_4");
}

}  // namespace sinter::cuda_expression_test
