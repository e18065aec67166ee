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

constexpr std::string_view kProducts = R"(kernel @k threads 128 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : bf16 global read align 16
  buffer %b1 s : bf16 shared readwrite align 1024 count 16384 offset 0
  buffer %b2 close : bf16 shared readwrite align 256 count 4096 offset 32768
  buffer %b3 halves : f16 shared readwrite align 1024 count 4096 offset 40960
  buffer %b4 bytes : i8 shared readwrite align 1024 count 8192 offset 49152
  buffer %b5 moved : bf16 shared readwrite align 1024 count 4096 offset 57600
  var %r0 sum : f32[64][2]
  var %r1 total : i32[64][2]
  var %r2 single : f32[128][1]
  var %r3 part : bf16[6][2]
  var %r4 wide : bf16[4][4]
)";

std::string product_violations(std::string_view body) {
  return violations_of(parsed(fmt::format("{}{}\n}}", kProducts, body)), KernelStage::kLowered);
}

constexpr std::string_view kLeft = " left %b1[0] swizzle 128 groups 512 right ";

TEST(WgmmaLimitsTest, AcceptsWhatTheHardwareHas) {
  EXPECT_EQ(product_violations(R"(
  wgmma_fence
  wgmma %r0[0] columns 256 left %b1[48] swizzle 128 groups 512 right %b1[12288] swizzle 32 groups 128
  wgmma %r0[48] columns 64 left %b1[1024] swizzle 64 groups 256 transposed 2048 right %b1[0] swizzle 128 groups 512 transposed 0
  for %r5 i : i32 = 0 to 4 step 2 unroll {
    wgmma %r0[%r5] columns 8 left %b2[0] swizzle 32 groups 128 right %b1[mul(%r5, 8)] swizzle 128 groups 0
  }
  if lt(thread_index, 32) {
    wgmma_commit
  }
  wgmma %r0[0] columns 256 left %r3[2] right %b1[12288] swizzle 32 groups 128
  wgmma %r1[4] columns 32 left %b4[96] swizzle 128 groups 1024 right %b4[4096] swizzle 64 groups 512
  wgmma_wait pending 7)"),
            "");
}

TEST(WgmmaLimitsTest, FindsMistakes) {
  const std::string left(kLeft);
  for (const auto& [product, message] : std::vector<std::pair<std::string, std::string>>{
           {"%r0[0] columns 24" + left + "%b1[0] swizzle 128 groups 512",
            "a product of 24 columns; there are 8, 16, 32, 64, 96, 128, 192, 256"},
           {"%r0[1] columns 256" + left + "%b1[0] swizzle 128 groups 512",
            "group of %r0 (sum) spans 1 to 64, but there are 64"},
           {"%r2[0] columns 8" + left + "%b1[0] swizzle 128 groups 512",
            "%r2 (single) has 1 lanes; an accumulator has 2"},
           {"%r1[0] columns 8" + left + "%b1[0] swizzle 128 groups 512",
            "%r1 (total) is i32; products of bf16 and bf16 are f32"},
           {"%r0[0] columns 8 left %r3[3] right %b1[0] swizzle 128 groups 512",
            "group of %r3 (part) spans 3 to 6, but there are 6"},
           {"%r0[0] columns 8 left %r4[0] right %b1[0] swizzle 128 groups 512",
            "%r4 (wide) has 8 bytes in a group; a lane has 4 of a matrix"},
           {"%r0[0] columns 8 left %r2[0] right %b1[0] swizzle 128 groups 512",
            "no product of matrices of f32 and bf16"},
           {"%r0[0] columns 8" + left + "%b3[0] swizzle 128 groups 512",
            "no product of matrices of bf16 and f16"},
           {"%r0[0] columns 8" + left + "%b0[0] swizzle 128 groups 512", "%b0 (x) is not shared"},
           {"%r0[0] columns 8" + left + "%b1[0] swizzle 16 groups 512",
            "a matrix in s has lines of 16 bytes, not 32, 64 or 128"},
           {"%r1[0] columns 64 left %b4[0] swizzle 64 groups 512 right %b4[0] swizzle 64 groups "
            "512 "
            "transposed 0",
            "a transposed matrix in bytes of 1 bytes, not 2"},
           {"%r0[0] columns 32" + left + "%b1[0] swizzle 128 groups 512 transposed 0",
            "32 elements of a transposed matrix in s, whose lines have 64"},
           {"%r0[0] columns 8" + left + "%b2[0] swizzle 128 groups 512",
            "%b2 (close) is aligned to 256, not 1024"},
           {"%r0[0] columns 8" + left + "%b5[0] swizzle 128 groups 512",
            "%b5 (moved) is at offset 57600, not at a multiple of 1024"},
           {"%r0[0] columns 16" + left + "%b1[0] swizzle 128 groups 256",
            "groups of a matrix in s are 256 elements of 2 bytes apart, not a multiple of 1024 "
            "bytes "
            "up to 262128"},
           {"%r0[0] columns 16" + left + "%b1[0] swizzle 128 groups 0",
            "groups of a matrix in s are 0"},
           {"%r0[0] columns 16" + left + "%b1[0] swizzle 128 groups 131072", "are 131072 elements"},
           {"%r0[0] columns 128" + left + "%b1[0] swizzle 128 groups 512 transposed 0",
            "blocks of a matrix in s are 0 elements"},
           {"%r0[0] columns 256" + left + "%b1[0] swizzle 128 groups 1024",
            "a matrix of 32256 elements in s, which has 16384"},
           {"%r0[0] columns 8" + left + "%b1[512] swizzle 128 groups 512 transposed 0\n",
            "8 elements"},
           {"%r0[0] columns 8" + left + "%b1[8] swizzle 128 groups 512",
            "element 8 of %b1 is at no multiple of 32 bytes"},
           {"%r0[0] columns 8" + left + "%b1[64] swizzle 128 groups 512",
            "element 64 of %b1 is at no multiple of 1024 bytes"},
           {"%r0[0] columns 64" + left + "%b1[16] swizzle 128 groups 512 transposed 0",
            "element 16 of %b1 is at no multiple of 1024 bytes"},
           {"%r0[0] columns 8" + left + "%b1[16384] swizzle 128 groups 512",
            "the index of a matrix is 16384, not from 0 to 15920"},
           {"%r0[0] columns 8" + left + "%b1[mul(thread_index, 512)] swizzle 128 groups 512",
            "the index of a matrix may differ within the warp"},
       }) {
    EXPECT_THAT(product_violations("wgmma " + product), HasSubstr(message)) << product;
  }
  EXPECT_THAT(product_violations("if lt(thread_index, 3) { wgmma_fence }"),
              HasSubstr("a fence of a warp group where control may differ within the warp"));
  EXPECT_THAT(product_violations("wgmma_wait pending 8"),
              HasSubstr("waits for all but 8 groups of products, not 0 to 7"));
  EXPECT_THAT(violations_of(kernel_with_body("wgmma_commit")),
              HasSubstr("a commit of a warp group, which has 128 threads, in a block of 64"));
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
