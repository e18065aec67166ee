// Tensor maps keep the limits of the hardware, and copies those of their maps.

#include "codegen/kernel/matrix_limits.h"

#include <gmock/gmock.h>

#include "tests/codegen/verified_kernel.h"

namespace sinter::matrix_limits_test {

using testing::HasSubstr;

constexpr std::string_view kHead = R"(kernel @k threads 128 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  param %p1 rows : i32
  buffer %b0 x : bf16 global read align 16
  buffer %b1 y : bf16 global write align 16
  buffer %b2 s : bf16 shared readwrite align 1024 count 8192 offset 0
  buffer %b3 close : bf16 shared readwrite align 16 count 512 offset 16384
  buffer %b4 reals : f32 shared readwrite align 1024 count 512 offset 17408
  buffer %b5 table : bf16 global read align 16 tensors 4 values %v0
  buffer %b6 narrow : bf16 global read align 8
  buffer %b7 moved : bf16 shared readwrite align 1024 count 64 offset 19584
)";

std::string violations_with(std::string_view body) {
  return violations_of(parsed(fmt::format("{}{}\n}}", kHead, body)), KernelStage::kLowered);
}

TEST(TensorMapTest, AcceptsTheLimits) {
  for (const char* map :
       {"of %b0 axis 4294967296 stride 1 box 256", "of %b0 offset 8 axis %p1 stride 1 box 8",
        "of %b0 swizzle 32 axis 4 stride 1 box 16 axis 3 stride 8 box 256",
        "of %b0 swizzle 64 axis 4 stride 1 box 32 axis %p0 stride 549755813880 box 1",
        "of %b0 swizzle 128 axis 4 stride 1 box 64 axis 3 stride 8 box 2 axis 1 stride 8 box 1 "
        "axis 1 stride 8 box 1 axis 9 stride 64 box 5"})
    EXPECT_EQ(violations_with(fmt::format("tensor_map %t0 m {}", map)), "") << map;
}

TEST(TensorMapTest, FindsWhatNoMapCanBe) {
  for (const auto& [map, message] : std::vector<std::pair<std::string, std::string>>{
           {"%b1 axis 8 stride 1 box 8",
            "%t0: m of y, which is no single global tensor that is read"},
           {"%b2 axis 8 stride 1 box 8", "m of s, which is no single global tensor"},
           {"%b5 axis 8 stride 1 box 8", "m of table, which is no single global tensor"},
           {"%b6 axis 8 stride 1 box 8", "m of narrow, which is aligned to 8, not 16"},
           {"%b0 offset 4 axis 8 stride 1 box 8",
            "m begins at element 4 of 2 bytes, at no multiple of 16 bytes"},
           {"%b0 offset -8 axis 8 stride 1 box 8", "m begins at element -8"},
           {"%b0", "m has 0 axes, not 1 to 5"},
           {"%b0 axis 8 stride 1 box 8 axis 8 stride 8 box 1 axis 8 stride 8 box 1 axis 8 stride 8 "
            "box 1 axis 8 stride 8 box 1 axis 8 stride 8 box 1",
            "m has 6 axes"},
           {"%b0 axis 0 stride 1 box 8", "axis 0 of m has 0 elements, not 1 to 4294967296"},
           {"%b0 axis 8 stride 2 box 8", "axis 0 of m has the stride 2, not 1"},
           {"%b0 axis 8 stride 1 box 0", "a box of m has 0 elements along axis 0, not 1 to 256"},
           {"%b0 axis 8 stride 1 box 8 axis 8 stride 8 box 257", "257 elements along axis 1"},
           {"%b0 axis 8 stride 1 box 8 axis 8 stride 12 box 1",
            "axis 1 of m has a stride of 12 elements of 2 bytes, not a multiple of 16 bytes"},
           {"%b0 axis 8 stride 1 box 8 axis 8 stride 0 box 1", "a stride of 0 elements"},
           {"%b0 axis 8 stride 1 box 8 axis 8 stride 549755813888 box 1", "a stride of 5497"},
           {"%b0 axis 8 stride 1 box 4",
            "a box of m has 8 bytes along axis 0, not a multiple of 16"},
           {"%b0 swizzle 48 axis 8 stride 1 box 24", "m is swizzled by 48 bytes"},
           {"%b0 swizzle 128 axis 8 stride 1 box 32",
            "a box of m has 64 bytes along axis 0, its swizzle 128"},
           {"%b0 axis 8 stride 1 box 256 axis 8 stride 8 box 256 axis 8 stride 8 box 8",
            "a box of m has 1048576 bytes; a phase counts 1048575"},
       }) {
    EXPECT_THAT(violations_with("tensor_map %t0 m of " + map), HasSubstr(message)) << map;
  }
}

/// The parser knows only parameters that exist.
TEST(TensorMapTest, FindsSizesThatNoParameterHas) {
  kir::Kernel kernel =
      parsed(fmt::format("{}tensor_map %t0 m of %b0 axis 8 stride 1 box 8\n}}", kHead));
  kir::MapAxis& axis = kernel.tensor_maps[kir::TensorMapId{0}].axes[0];
  axis.launched = kir::ParamId{7};
  EXPECT_THAT(violations_of(kernel),
              testing::AllOf(HasSubstr("axis 0 of m has the size %p7, which does not exist"),
                             HasSubstr("axis 0 of m has the size 8, and %p7 at launch")));
  kernel.tensor_maps[kir::TensorMapId{0}].buffer = kir::BufferId{20};
  EXPECT_THAT(violations_of(kernel), HasSubstr("%t0: m of %b20, which does not exist"));
}

std::string copy_violations(std::string_view copy) {
  return violations_with(fmt::format(R"(  mbarrier %m0 full count 2 arrivals 1 offset 20480
  tensor_map %t0 m of %b0 swizzle 128 axis %p1 stride 1 box 64 axis 9 stride 64 box 8
  tensor_map %t1 flat of %b0 axis 640 stride 1 box 64
  init_mbarriers
  {})",
                                     copy));
}

TEST(TensorCopyTest, AcceptsMultiplesOfThePeriod) {
  EXPECT_EQ(copy_violations(R"(tensor_copy %b2[7680] = %t0[0, -8] mbarrier %m0[1]
  tensor_copy %b2[mul(%p0, 8:i64)] = %t1[%p1] mbarrier %m0[0]
  tensor_copy %b2[64] = %t1[%p1] mbarrier %m0[0]
  proxy_fence)"),
            "");
}

TEST(TensorCopyTest, FindsMistakes) {
  for (const auto& [copy, message] : std::vector<std::pair<std::string, std::string>>{
           {"%b2[0] = %t0[0] mbarrier %m0[1]", "1 coordinates of %t0 (m), which has 2 axes"},
           {"%b2[0] = %t0[0, %p0] mbarrier %m0[1]", "a coordinate is i64, not i32"},
           {"%b2[0] = %t0[0, 0] mbarrier %m0[2]", "the index into the mbarriers is 2"},
           {"%b0[0] = %t0[0, 0] mbarrier %m0[1]", "%b0 (x) is not shared"},
           {"%b4[0] = %t0[0, 0] mbarrier %m0[1]", "copies bf16 to f32"},
           {"%b3[0] = %t0[0, 0] mbarrier %m0[1]", "%b3 (close) is aligned to 16, not 1024"},
           {"%b3[0] = %t1[0] mbarrier %m0[1]", "%b3 (close) is aligned to 16, not 128"},
           {"%b7[0] = %t0[0, 0] mbarrier %m0[1]",
            "%b7 (moved) is at offset 19584, not at a multiple of 1024"},
           {"%b2[true] = %t0[0, 0] mbarrier %m0[1]", "index into %b2 is bool"},
           {"%b2[64] = %t0[0, 0] mbarrier %m0[1]",
            "element 64 of %b2 is at no multiple of 1024 bytes"},
           {"%b2[8] = %t1[0] mbarrier %m0[1]", "element 8 of %b2 is at no multiple of 128 bytes"},
           {"%b2[8192] = %t0[0, 0] mbarrier %m0[1]",
            "the index of a box is 8192, not from 0 to 7680"},
       }) {
    EXPECT_THAT(copy_violations("tensor_copy " + copy), HasSubstr(message)) << copy;
  }
}

TEST(TensorCopyTest, NeedsInitialisedMbarriers) {
  EXPECT_THAT(violations_with(R"(  mbarrier %m0 full count 2 arrivals 1 offset 20480
  tensor_map %t0 flat of %b0 axis 640 stride 1 box 64
  tensor_copy %b2[0] = %t0[0] mbarrier %m0[0])"),
              HasSubstr("%m0 (full) is not initialised yet"));
}

/// By chunks of 16 bytes: their numbers within the swizzled unit change with the line of 128 bytes.
TEST(SwizzledTest, ExchangesChunksOfALine) {
  for (const int64_t swizzle : {0, 32, 64, 128}) {
    for (int64_t line = 0; line < 16; ++line) {
      for (int64_t chunk = 0; chunk < 8; ++chunk) {
        const int64_t in_unit = swizzle == 0 ? 1 : swizzle / 16;
        const int64_t expected = chunk / in_unit * in_unit + ((chunk % in_unit) ^ (line % in_unit));
        EXPECT_EQ(kir::swizzled(128 * line + 16 * chunk + 5, swizzle),
                  128 * line + 16 * expected + 5);
      }
    }
    // The pattern repeats, and not before.
    const int64_t period = kir::swizzle_period(swizzle);
    for (int64_t at = 0; at < 1024; ++at)
      EXPECT_EQ(kir::swizzled(at + period, swizzle), kir::swizzled(at, swizzle) + period);
    if (swizzle != 0) {
      EXPECT_NE(kir::swizzled(period / 2, swizzle), period / 2);
    }
  }
}

}  // namespace sinter::matrix_limits_test
