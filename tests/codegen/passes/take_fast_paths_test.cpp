#include "codegen/passes/take_fast_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/passes/passed_kernel.h"

namespace sinter::take_fast_paths_test {

using testing::HasSubstr;
using testing::Not;

std::string loop_over_elements(const std::string& body) {
  return emitted_after(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 rows : i64
  buffer %b0 y : f32 global write align 16 value %v0
  var %r0 tile : f32[1][4]
  var %r1 out : f32[1][4]
  let %r2 sum : f32 = 0x0p+0
  for %r3 v : i32 = 0 to 4 step 1 unroll {
)" + body + R"(
  }
  store %b0[0:i64] = %r1[0, 0] width 4
  store %b0[4:i64] = %r2[0, 0] width 1
})",
                       take_fast_paths);
}

// Of most arguments a logarithm is one instruction. Where it was not right for one element, the
// loop runs again as if it had not run.
TEST(TakeFastPathsTest, LoopsTakeLogarithmsOnAFastPathFirst) {
  EXPECT_THAT(loop_over_elements(R"(
    let %r4 log : f32 = log(%r0[0, %r3])
    if lt(%r3, 3) {
      %r2 = add(%r2, log2(%r4))
    }
    %r1[0, %r3] = %r4)"),
              HasSubstr(R"(
  bool exact = true;
  float before_sum = sum;
  #pragma unroll
  for (int v = 0; v < 4; ++v) {
    float v_log = sinter_log_fast_path(tile.get(v), exact);
    if (v < 3) {
      sum = sum + sinter_log2_fast_path(v_log, exact);
    }
    out.set(v, v_log);
  }
  if (sinter_not(exact)) {
    sum = before_sum;
    #pragma unroll
    for (int v_2 = 0; v_2 < 4; ++v_2) {
      float log_2 = sinter_log(tile.get(v_2));
      if (v_2 < 3) {
        sum = sum + sinter_log2(log_2);
      }
      out.set(v_2, log_2);
    }
  }
)"));
}

// Without elements to store, what runs again asks no argument whether it needs care.
TEST(TakeFastPathsTest, LoopsThatOnlyAddUpRunAgainInTheCarefulForm) {
  EXPECT_THAT(loop_over_elements("%r2 = add(%r2, log(%r0[0, %r3]))"), HasSubstr(R"(
  if (sinter_not(exact)) {
    sum = before_sum;
    #pragma unroll
    for (int v_2 = 0; v_2 < 4; ++v_2) {
      sum = sum + sinter_log_careful(tile.get(v_2));
    }
  }
)"));
}

TEST(TakeFastPathsTest, LoopsThatCannotRunAgainTakeTheGeneralForm) {
  for (const char* body :
       {"%r2 = add(%r2, exp(%r0[0, %r3]))",                          // nothing to gain
        "%r0[0, %r3] = log(%r0[0, %r3])",                            // its argument would be gone
        "%r1[0, %r3] = log(philox_uniform(1:i64, cast<i64>(%r3)))",  // numbers go on
        "%r1[0, %r3] = log(%r0[0, %r3]) store %b0[8:i64] = %r1[0, 0] width 4"}) {
    const std::string text = loop_over_elements(body);
    EXPECT_THAT(text, Not(HasSubstr("fast_path"))) << body;
    EXPECT_THAT(text, Not(HasSubstr("exact"))) << body;
  }
}

}  // namespace sinter::take_fast_paths_test
