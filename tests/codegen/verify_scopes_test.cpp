// A statement names variables of its scope, writes only what may be written, and takes elements of
// tiles that exist.

#include "codegen/kernel/verify_scopes.h"

#include <gmock/gmock.h>

#include "tests/codegen/verified_kernel.h"

namespace sinter::verify_scopes_test {

using testing::HasSubstr;

class VerifyScopesTest : public testing::TestWithParam<Planted> {};

TEST_P(VerifyScopesTest, FindsTheMistake) {
  const kir::Kernel kernel = kernel_with_body(GetParam().body);
  EXPECT_THAT(violations_of(kernel, GetParam().stage), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Scopes, VerifyScopesTest,
    testing::Values(
        Planted{"if lt(%p0, 1:i64) { var %r0 a : f32 } %r0 = 0x1p+0", "used outside of its scope"},
        Planted{"register %r0 a : f32 let %r1 b : f32 = %r0", "%r0 (a) is used outside"},
        Planted{"for %r0 i : i32 = 0 to 2 step 1 { } let %r1 b : i32 = %r0", "used outside"},
        Planted{"var %r0 a : f32 var %r0 a : f32", "%s1: %r0 (a) is declared a second time"},
        Planted{"for %r0 i : i32 = 0 to 2 step 1 { %r0 = 1 }", "%r0 (i) is the index of a loop"},
        Planted{"if true { var %r0 ok : bool } let %r1 a : f32 = log.fast_path(%r0, 0x1p+0)",
                "%r0 (ok) is used outside of its scope"},
        Planted{"if true { var %r0 a : f32 } else { %r0 = 0x1p+0 }", "used outside of its scope"},
        Planted{"var %r0 a : f32[2][2] %r0 = 0x1p+0", "%r0 (a) is a tile, not a scalar"}));

INSTANTIATE_TEST_SUITE_P(
    Tiles, VerifyScopesTest,
    testing::Values(
        Planted{"var %r0 t : f32[2][4] let %r1 a : f32 = %r0[2, 0]", "spans 2 to 2, but there are"},
        Planted{"var %r0 t : f32[2][4] let %r1 a : f32 = %r0[0, -1]", "lane of %r0 (t) spans -1"},
        Planted{"var %r0 t : f32[2][4] let %r1 a : f32 = %r0[thread_index, 0]",
                "group of %r0 (t) is not constant after unrolling"},
        Planted{"var %r0 t : f32[2][4] for %r1 i : i32 = 0 to 2 step 1 { %r0[%r1, 0] = 0x0p+0 }",
                "not constant after unrolling"},
        Planted{"var %r0 t : f32[2][4] let %r1 a : f32 = %r0[0:i64, 0]", "is i64, not i32"},
        Planted{"var %r0 t : f32[2][4] for %r1 i : i32 = 0 to 3 step 1 unroll {\n"
                "%r0[rem(add(%r1, 1), 3), 0] = 0x0p+0 }",
                "group of %r0 (t) spans 0 to 2, but there are 2"},
        Planted{"var %r0 t : f32[1][8] %r0[0, 6] = load %b0[0] width 4", "spans 6 to 9"},
        Planted{"var %r0 t : f32[1][8] %r0[0, 2] = load %b0[0] width 4",
                "lane of %r0 (t) is not a multiple of the width 4"},
        Planted{"var %r0 m : f32 var %r1 t : bf16[1][4] %r0 = min_of_magnitudes %r1[1]",
                "group of %r1 (t) spans 1 to 1"}));

/// One violation for each statement, however often it names the variable.
TEST(VerifyScopesTest, NamesAnExpressionOnceAStatement) {
  EXPECT_EQ(violations_of(kernel_with_body(
                "if true { var %r0 a : f32 } let %r1 b : f32 = mul(neg(%r0), neg(%r0))")),
            "%s2: %r0 (a) is used outside of its scope\n");
}

/// The blocks of a branch, and what follows them, do not see each other's variables.
TEST(VerifyScopesTest, AcceptsTheLastUseBeforeTheEnd) {
  EXPECT_EQ(violations_of(kernel_with_body(R"(
  let %r0 a : i32 = 0
  if lt(thread_index, 3) {
    let %r1 b : i32 = %r0
    %r0 = %r1
  } else {
    let %r2 c : i32 = %r0
    %r0 = %r2
  }
  for %r3 i : i32 = %r0 to 4 step 1 {
    %r0 = %r3
  })")),
            "");
}

/// Lanes 4 to 7 of 8 are the last vector of 4.
TEST(VerifyScopesTest, AcceptsTheLastVectorOfATile) {
  EXPECT_EQ(violations_of(kernel_with_body(R"(
  var %r0 t : f32[2][8]
  for %r1 i : i32 = 0 to 2 step 1 unroll {
    for %r2 l : i32 = 0 to 8 step 4 unroll {
      %r0[%r1, %r2] = load %b0[0] width 4
    }
  })")),
            "");
}

}  // namespace sinter::verify_scopes_test
