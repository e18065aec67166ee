#include "codegen/passes/value_minima.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/codegen/passes/small_kernel.h"

namespace sinter::value_minima_test {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

/// The bound of the last variable that a body declares, and assigns nothing later.
double least_of_last(std::string_view body) {
  const kir::Kernel kernel = kernel_of(body);
  const auto* declared = std::get_if<kir::Declare>(&kernel.stmts.back().kind);
  EXPECT_NE(declared, nullptr) << body;
  return declared == nullptr ? kNothing : ValueMinima(kernel).of(declared->init);
}

/// A variable `%r0` of unknown value, and one of a function of it.
double least_of(std::string_view function) {
  return least_of_last(fmt::format(R"(
  var %r0 x : f32
  %r0[0, 0] = load %b0[0:i64] width 1
  let %r1 y : f32 = {}
)",
                                   function));
}

TEST(ValueMinimaTest, FunctionsThatAreNeverNegative) {
  for (const char* function : {"exp(%r0)", "abs(%r0)", "sqrt(%r0)", "mul(%r0, %r0)"})
    EXPECT_EQ(least_of(function), 0.0) << function;
}

TEST(ValueMinimaTest, SumsAndExtremesOfBounds) {
  EXPECT_EQ(least_of("add(exp(%r0), 0x1p+0)"), 1.0);
  EXPECT_EQ(least_of("max(%r0, 0x1.8p+0)"), 1.5);
  EXPECT_EQ(least_of("max(exp(%r0), -0x1p+0)"), 0.0);
  EXPECT_EQ(least_of("min(exp(%r0), -0x1p+0)"), -1.0);
  EXPECT_EQ(least_of("add(max(%r0, -0x1p+1), abs(%r0))"), -2.0);
}

TEST(ValueMinimaTest, NothingIsKnownOfOthers) {
  for (const char* function : {"%r0", "neg(exp(%r0))", "mul(%r0, exp(%r0))", "add(%r0, exp(%r0))",
                               "min(%r0, 0x1p+0)", "log(exp(%r0))"})
    EXPECT_EQ(least_of(function), kNothing) << function;
}

TEST(ValueMinimaTest, VariablesHaveTheBoundOfTheirOnlyValue) {
  EXPECT_EQ(least_of_last(R"(
  var %r0 x : f32
  %r0[0, 0] = load %b0[0:i64] width 1
  let %r1 once : f32 = exp(%r0)
  let %r2 y : f32 = add(%r1, %r1)
)"),
            0.0);
  // Whatever writes a variable again leaves nothing known of it.
  for (const char* written :
       {"%r1 = %r0", "%r1[0, 0] = load %b0[1:i64] width 1", "all_reduce s threads 64 sum(%r1)"}) {
    EXPECT_EQ(least_of_last(fmt::format(R"(
  var %r0 x : f32
  %r0[0, 0] = load %b0[0:i64] width 1
  let %r1 twice : f32 = exp(%r0)
  {}
  let %r2 y : f32 = add(%r1, 0x1p+0)
)",
                                        written)),
              kNothing)
        << written;
  }
}

}  // namespace sinter::value_minima_test
