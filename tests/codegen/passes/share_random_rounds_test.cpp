#include "codegen/passes/share_random_rounds.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/passes/passed_kernel.h"

namespace sinter::share_random_rounds_test {

using testing::HasSubstr;
using testing::Not;

std::string loop_over_numbers(const std::string& body, const char* loop = "step 1 unroll") {
  return emitted_after(fmt::format(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 seed : i64
  buffer %b0 y : f32 global write align 16 value %v0
  var %r0 out : f32[1][4]
  for %r1 v : i32 = 0 to 4 {} {{
    {}
  }}
  store %b0[0:i64] = %r0[0, 0] width 4
}})",
                                   loop, body),
                       share_random_rounds);
}

TEST(ShareRandomRoundsTest, ACallInAnUnrolledLoopKeepsWhatItsLastCallComputed) {
  EXPECT_THAT(loop_over_numbers("%r0[0, %r1] = philox_uniform(%p0, cast<i64>(%r1))"), HasSubstr(R"(
  SinterRandomBlock random;
  #pragma unroll
  for (int v = 0; v < 4; ++v) {
    out.set(v, sinter_philox_uniform(random, seed, to_i64(v)));
  }
)"));
}

TEST(ShareRandomRoundsTest, EachCallHasAVariableOfItsOwn) {
  const std::string text = loop_over_numbers(
      "%r0[0, %r1] = add(philox_uniform(%p0, cast<i64>(%r1)), philox_uniform(1:i64, %p0))");
  EXPECT_THAT(text, HasSubstr("SinterRandomBlock random;\n"));
  EXPECT_THAT(text, HasSubstr("SinterRandomBlock random_2;\n"));
}

TEST(ShareRandomRoundsTest, CallsInOtherLoopsStay) {
  const std::string text =
      loop_over_numbers("%r0[0, 0] = philox_uniform(%p0, cast<i64>(%r1))", "step 1");
  EXPECT_THAT(text, Not(HasSubstr("SinterRandomBlock")));
}

}  // namespace sinter::share_random_rounds_test
