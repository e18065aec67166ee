#include "codegen/passes/choose_reciprocals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/passes/passed_kernel.h"

namespace sinter::choose_reciprocals_test {

using testing::HasSubstr;

/// What is one or more is not asked whether it, or its reciprocal, is subnormal.
TEST(ChooseReciprocalsTest, KnowsWhatIsOneOrMore) {
  const auto reciprocal_of = [](const std::string& argument) {
    return emitted_after(
        ("kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) { param %p0 n : i64\n"
         "buffer %b0 z : f32 global read align 16\n"
         "let %r0 x : f32 = cast<f32>(thread_index)\n"
         "let %r1 e : f32 = exp(%r0)\n"
         "let %r2 d : f32 = add(%r1, 0x1p+0)\n"
         "let %r3 changed : f32 = 0x1p+1\n"
         "%r3 = %r0\n"
         "let %r4 shuffled : f32 = 0x1p+1\n"
         "%r4 = shuffle_xor %r0 mask 1\n"
         "let %r5 loaded : f32 = 0x1p+1\n"
         "%r5[0, 0] = load %b0[thread_index] width 1\n"
         "let %r6 y : f32 = reciprocal(" +
         argument + ") }"),
        choose_reciprocals);
  };
  for (const char* argument : {"%r2", "add(mul(%r0, %r0), 0x1.8p+0)", "max(sqrt(%r0), 0x1p+0)",
                               "max(%r0, 0x1p+2)", "min(%r2, add(abs(%r0), 0x1p+1))"}) {
    EXPECT_THAT(reciprocal_of(argument), HasSubstr("= sinter_reciprocal_of_one_or_more("))
        << argument;
  }
  for (const char* argument :
       {"%r0", "%r1", "%r3", "%r4", "%r5", "add(abs(%r0), 0x1p-1)", "add(%r0, 0x1p+0)",
        "mul(%r0, %r2)", "min(%r0, 0x1p+1)", "sub(%r1, 0x1p+1)"}) {
    EXPECT_THAT(reciprocal_of(argument), HasSubstr("= sinter_reciprocal(")) << argument;
  }
}

}  // namespace sinter::choose_reciprocals_test
