// A kernel includes the device headers of what it uses, in ascending order, and no others.

#include "codegen/cuda/required_headers.h"

#include <gmock/gmock.h>

#include "tests/codegen/verified_kernel.h"

namespace sinter::required_headers_test {

using testing::ElementsAre;
using testing::IsEmpty;

/// Of f32 buffers and registers alone.
std::vector<std::string_view> headers_of(std::string_view statements) {
  return required_headers(
      parsed(fmt::format(R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  buffer %b0 x : f32 global readwrite align 16
  buffer %b1 s : f32 shared readwrite align 16 count 64 offset 0
  {}
}})",
                         statements)));
}

TEST(RequiredHeadersTest, OperatorsOfTheLanguageNeedNone) {
  EXPECT_THAT(headers_of(""), IsEmpty());
  EXPECT_THAT(headers_of("let %r0 a : i32 = div(mul(thread_index, 3), 4) barrier warp_barrier"),
              IsEmpty());
  EXPECT_THAT(headers_of("if lt(thread_index, 1) { let %r0 a : f32 = add(1.0, 2.0) }"), IsEmpty());
}

TEST(RequiredHeadersTest, DivisionNeedsOneUnlessTheDivisorIsKnown) {
  EXPECT_THAT(headers_of("let %r0 a : i32 = div(8, thread_index)"), ElementsAre("numeric.cuh"));
  EXPECT_THAT(headers_of("let %r0 a : i32 = rem(thread_index, 0)"), ElementsAre("numeric.cuh"));
  EXPECT_THAT(headers_of("let %r0 a : f32 = div(1.0, 2.0)"), ElementsAre("numeric.cuh"));
}

/// What an expression needs may be many levels down.
TEST(RequiredHeadersTest, FindsOperandsOfOperands) {
  EXPECT_THAT(headers_of("let %r0 a : f32 = add(1.0, neg(exp(2.0)))"), ElementsAre("numeric.cuh"));
  EXPECT_THAT(headers_of("if eq(cast<i32>(%p0), 1) { barrier }"), ElementsAre("types.cuh"));
  EXPECT_THAT(headers_of("let %r0 a : f32 = -inf"), ElementsAre("numeric.cuh"));
}

TEST(RequiredHeadersTest, StorageTypesNeedTheirs) {
  EXPECT_THAT(headers_of("register %r0 a : bf16"), ElementsAre("types.cuh"));
  EXPECT_THAT(headers_of("let %r0 a : f32 = select(true, 1.0:f16, 2.0:f16)"),
              ElementsAre("types.cuh"));
}

/// vector.cuh includes types.cuh.
TEST(RequiredHeadersTest, VectorsBringTheTypes) {
  EXPECT_THAT(headers_of("var %r0 t : f32[1][4]"), ElementsAre("vector.cuh"));
  EXPECT_THAT(headers_of("var %r0 t : bf16[1][4]"), ElementsAre("vector.cuh"));
  EXPECT_THAT(headers_of("var %r0 v : f32 %r0[0, 0] = load %b0[0] width 1"),
              ElementsAre("vector.cuh"));
  EXPECT_THAT(headers_of("let %r0 v : f32 = 1.0 store %b0[0] = %r0[0, 0] width 1"),
              ElementsAre("vector.cuh"));
}

TEST(RequiredHeadersTest, StatementsBringTheirs) {
  for (const auto& [statements, header] : std::vector<std::pair<const char*, const char*>>{
           {"let %r0 v : f32 = 1.0 %r0 = shuffle_xor %r0 mask 1", "warp.cuh"},
           {"async_copy %b1[0] = %b0[0] width 4", "async_copy.cuh"},
           {"async_wait", "async_copy.cuh"},
           {"async_commit", "async_copy.cuh"},
           {"group_barrier 1 threads 32", "mbarrier.cuh"},
           {"set_max_registers decrease 24", "mbarrier.cuh"},
           {"mbarrier %m0 m count 1 arrivals 1 offset 256", "mbarrier.cuh"},
           {"proxy_fence", "mbarrier.cuh"},
           {"tensor_map %t0 m of %b0 axis 64 stride 1 box 4", "tensor_map.cuh"},
           {"wgmma_fence", "wgmma.cuh"},
           {"wgmma_commit", "wgmma.cuh"},
           {"wgmma_wait pending 0", "wgmma.cuh"},
           {"cluster_barrier", "cluster.cuh"},
           {"cluster_arrive cluster_wait", "cluster.cuh"},
           {"let %r0 v : f32 = 1.0 message_store %b0[0] of 0 = (%r0) number 1", "message.cuh"},
           {"let %r0 v : f32 = 1.0 message_wait (%r0) = %b0[0] number 1", "message.cuh"},
           {"device_fence", "device_order.cuh"},
           {"launch_dependents", "dependent_launch.cuh"},
           {"wait_for_previous", "dependent_launch.cuh"},
           {"for %r0 i : i32 = 0 to 4 step 1 { device_fence }", "device_order.cuh"}}) {
    EXPECT_THAT(headers_of(statements), ElementsAre(header)) << statements;
  }
}

TEST(RequiredHeadersTest, MatricesNeedTheirsBesideThoseOfTiles) {
  EXPECT_THAT(headers_of("var %r0 t : f32[4][1] load_matrix %r0[0] = %b1[0] matrices 4"),
              ElementsAre("mma.cuh", "vector.cuh"));
  EXPECT_THAT(headers_of("var %r0 t : f32[4][1] var %r1 s : f32[2][2]\n"
                         "mma %r1[0] left %r0[0] right %r0[0]"),
              ElementsAre("mma.cuh", "vector.cuh"));
}

TEST(RequiredHeadersTest, SeveralStandInAscendingOrder) {
  EXPECT_THAT(headers_of("let %r0 v : f32 = exp(1.0) %r0 = shuffle_xor %r0 mask 1 device_fence "
                         "store %b0[0] = %r0[0, 0] width 1"),
              ElementsAre("device_order.cuh", "numeric.cuh", "vector.cuh", "warp.cuh"));
}

}  // namespace sinter::required_headers_test
