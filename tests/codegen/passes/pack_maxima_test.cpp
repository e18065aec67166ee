#include "codegen/passes/pack_maxima.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/passes/passed_kernel.h"

namespace sinter::pack_maxima_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Loops that only take extremes of 16-bit elements compare them two by two, before they convert.
TEST(PackMaximaTest, ComparesPackedElementsBeforeTheyAreConverted) {
  const auto emitted = [](const std::string& body, const std::string& type = "bf16",
                          const std::string& bounds = "0 to 4 step 1 unroll") {
    return emitted_after(fmt::format(R"(
kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 rows : i64
  buffer %b0 x : {0} global read align 16 value %v0
  var %r0 tile : {0}[2][4]
  let %r1 most : f32 = 0x0p+0
  let %r2 least : f32 = 0x0p+0
  %r0[0, 0] = load %b0[0:i64] width 4
  %r0[1, 0] = load %b0[4:i64] width 4
  for %r3 v : i32 = {1} {{
    {2}
  }}
}})",
                                     type, bounds, body),
                         pack_maxima);
  };
  const std::string cast = "let %r4 wide : f32 = cast<f32>(%r0[1, %r3])\n";
  EXPECT_THAT(emitted(cast + "%r1 = max(%r1, %r4)"),
              AllOf(HasSubstr("  most = max_of_lanes(most, tile[1]);\n"), Not(HasSubstr("for ("))));
  EXPECT_THAT(emitted("// Of one\n" + cast + "%r1 = max(%r4, %r1) %r2 = min(%r2, %r4)", "f16"),
              HasSubstr("  most = max_of_lanes(most, tile[1]);\n"
                        "  least = min_of_lanes(least, tile[1]);\n"));
  EXPECT_THAT(emitted(cast + "let %r5 size : f32 = abs(%r4) %r1 = max(%r1, %r5)"),
              HasSubstr("  most = max_of_magnitudes(most, tile[1]);\n"));
  EXPECT_THAT(emitted("%r1 = max(%r1, cast<f32>(%r0[0, %r3]))"),
              HasSubstr("  most = max_of_lanes(most, tile[0]);\n"));
  for (const std::string& other :
       {cast + "%r1 = add(%r1, %r4)", cast + "%r1 = max(%r2, %r4)",
        cast + "%r4 = max(%r4, cast<f32>(%r0[0, %r3]))", cast + "%r1 = max(%r1, neg(%r4))",
        cast + "%r1 = max(%r1, %r4) %r2 = add(%r2, %r4)",
        std::string("%r1 = max(%r1, cast<f32>(%r0[rem(%r3, 2), %r3]))"),
        std::string("%r1 = max(%r1, cast<f32>(%r0[0, 1]))")}) {
    EXPECT_THAT(emitted(other), AllOf(HasSubstr("for ("), Not(HasSubstr("_of_")))) << other;
  }
  const std::string max = cast + "%r1 = max(%r1, %r4)";
  for (const char* some :
       {"0 to 2 step 1 unroll", "1 to 4 step 1 unroll", "0 to 4 step 2 unroll"}) {
    EXPECT_THAT(emitted(max, "bf16", some), Not(HasSubstr("_of_"))) << some;
  }
  EXPECT_THAT(emitted(max, "i32"), Not(HasSubstr("_of_")));
}

}  // namespace sinter::pack_maxima_test
