// Mutates valid .fir texts from a fixed seed. Whatever the bytes are, the parser returns: a typed
// error with a position, or a fusion that verifies, survives its own text, and that plan() refuses
// with a typed error or plans without violations.

#include <gmock/gmock.h>

#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/planning/planner.h"
#include "tests/fuzz/mutation.h"

namespace sinter::parser_never_crashes_test {

constexpr std::string_view kSeeds[] = {
    R"fir(fusion @rms_norm extents(rows hint 8192, cols divisible_by 8) {
  %v0 x : bf16[rows, cols] = input
  %v1 w : bf16[cols] = input strides(2) align(2)
  %v2 : f32[rows, cols] = cast %v0
  %v3 : f32[rows, cols] = mul %v2, %v2
  %v4 : f32[rows] = reduce.sum %v3 over(1)
  %v5 : i64 = extent(cols)
  %v6 : f32 = cast %v5
  %v7 : f32[rows] = broadcast %v6 axes()
  %v8 : f32[rows] = div %v4, %v7
  %v9 : f32[rows] = rsqrt %v8
  %v10 : f32[rows, cols] = broadcast %v9 axes(0)
  %v11 : f32[rows, cols] = mul %v2, %v10
  %v12 y : bf16[rows, cols] = cast %v11
  return %v12
}
)fir",
    R"fir(fusion @"every other op" extents(n hint 64) {
  %v0 "x, y" : f32[n, 12] = input
  %v1 : i64[n] = input align(8)
  %v2 : f32[n] = take %v0, %v1 axis(1)
  %v3 mean, %v4 : f32[n], f32[n] = welford %v0 over(1)
  %v5, %v6 : f32[12], f32[12] = logsumexp %v0 over(0)
  %v7 : f32[n, 3, 4] = reshape %v0
  %v8 : f32[12, n] = permute %v0 order(1, 0)
  %v9 : f32[n, 4] = slice %v0 start(0, 0) stop(-1, -1) step(1, 3)
  %v10 : i32[n] = iota axis(0)
  %v11 : f64 = constant -0x1.8p+3  ; -12
  %v12 : f32 = constant nan
  %v13 : bool = constant 1
  %v14 : f32[n, 8] = concatenate %v9, %v9 axis(1)
  %v15 : f32[n, 12] = pad %v14 low(0, 1) high(0, 3) value 0x1p-1  ; 0.5
  %v16, %v17 : f32[n], i64 = external "a call" %v2, %v10
  %v18 : i64[n] = external seeds
  %v19 : f32[n] = philox_uniform %v1, %v18
  %v20 : f32[n, n] = contract.sum %v0, %v0 left(0, 2) right(1, 2) over(2) precision(tf32)
  return %v2, %v3, %v6, %v7, %v8, %v9, %v10, %v11, %v15, %v16, %v19, %v20
}
)fir"};

/// Pieces that stress limits when they land somewhere.
constexpr std::string_view kPieces[] = {"%v0",
                                        "%v4294967295",
                                        "-1",
                                        "9223372036854775807",
                                        "99999999999999999999",
                                        "0x1p-1074",
                                        "1e400",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        "{",
                                        "}",
                                        ",",
                                        ":",
                                        "=",
                                        "@",
                                        "\"",
                                        "\\",
                                        "\\x4",
                                        ";",
                                        "\n",
                                        "inf",
                                        "reduce.",
                                        "f8e4m3",
                                        "extents(",
                                        "input",
                                        "constant",
                                        "reshape %v0",
                                        "return",
                                        "strides(0, 0)",
                                        "align(3)",
                                        "hint",
                                        "divisible_by 0",
                                        "[1, 1, 1, 1, 1, 1, 1, 1, 1]"};

void check_one(const std::string& text) {
  const Result<Fusion> fusion = parse_fusion(text);
  if (!fusion) {
    ASSERT_EQ(fusion.error().kind, ErrorKind::kInvalidFusion) << escaped(text);
    ASSERT_NE(fusion.error().message.find(", found "), std::string::npos) << escaped(text);
    return;
  }
  ASSERT_TRUE(verify(*fusion).empty()) << escaped(text) << text_of(verify(*fusion));
  const Result<Fusion> again = parse_fusion(print(*fusion));
  ASSERT_TRUE(again.has_value()) << escaped(text) << again.error().text();
  ASSERT_EQ(*again, *fusion) << escaped(text);
  // Binding and planning are what comes next; they must answer too.
  const Result<Binding> binding = bind_extents(*fusion, {});
  if (!binding) return;
  ASSERT_TRUE(verify(specialize(*fusion, *binding)).empty()) << escaped(text);
  static const DeviceLimits kLimits = *find_device("H100");
  const Result<Plan> planned = plan(*fusion, {}, kLimits);
  if (planned) {
    ASSERT_THAT(plan_violations(*planned), testing::IsEmpty()) << escaped(text);
  } else {
    ASSERT_NE(planned.error().kind, ErrorKind::kInternalError) << escaped(text);
    ASSERT_FALSE(planned.error().remedy.empty()) << escaped(text) << planned.error().text();
  }
}

TEST(ParserNeverCrashes, OnSeeds) {
  for (const std::string_view seed : kSeeds) {
    const auto fusion = parse_fusion(seed);
    ASSERT_TRUE(fusion.has_value()) << fusion.error().text();
    EXPECT_EQ(print(*fusion), seed);
    check_one(std::string(seed));
  }
}

TEST(ParserNeverCrashes, OnEveryPrefix) {
  for (const std::string_view seed : kSeeds) {
    for (size_t size = 0; size < seed.size(); ++size) check_one(std::string(seed.substr(0, size)));
  }
}

TEST(ParserNeverCrashes, OnMutatedTexts) { fuzz(kSeeds, kPieces, 3, check_one); }

}  // namespace sinter::parser_never_crashes_test
