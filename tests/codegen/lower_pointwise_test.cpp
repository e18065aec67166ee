// Pointwise kernels compute every element once, whatever part of a tile the last block has, and
// load all of a tile before the first use.

#include "codegen/lower/lower_program.h"

#include <gmock/gmock.h>

#include "tests/codegen/scheduled_kernel.h"

namespace sinter::lower_pointwise_test {

using Tensors = ScheduledKernel::Tensors;

/// 32 threads with 2 vectors of 4 elements each: tiles of 256.
constexpr std::string_view kTiles =
    "schedule pointwise { threads_per_row 32 vector_width 4 unroll 2 }";

std::string product_of(int64_t elements) {
  return fmt::format(R"(fusion @product {{
  %v0 x : f32[{0}] = input
  %v1 z : f32[{0}] = input
  %v2 y : f32[{0}] = mul %v0, %v1
  return %v2
}})",
                     elements);
}

Tensors product(const Tensors& in) {
  std::vector<float> y = in[0];
  for (size_t i = 0; i < y.size(); ++i) y[i] *= in[1][i];
  return {y};
}

TEST(LowerPointwiseTest, TheLastTileMayBeShort) {
  for (const int64_t elements : {1, 3, 4, 255, 256, 257, 260, 511, 1000})
    ScheduledKernel(product_of(elements), kTiles).expect_outputs(product, 1);
}

TEST(LowerPointwiseTest, SingleElementsNeedNoVectors) {
  for (const int64_t elements : {1, 31, 33, 64})
    ScheduledKernel(product_of(elements), "schedule pointwise { threads_per_row 32 }")
        .expect_outputs(product, 1);
}

TEST(LowerPointwiseTest, TheGridCountsElementsByTiles) {
  const ScheduledKernel kernel(product_of(1000), kTiles);
  const LoweredKernel lowered =
      lower_pointwise(kernel.facts(), kernel.planned().kernels.front().chosen().schedule);
  EXPECT_EQ(lowered.kernel.grid.per_block, 256);
  EXPECT_EQ(lowered.kernel.threads, 32);
  EXPECT_THAT(lowered.param_values, testing::ElementsAre(1000));
}

/// Of the whole tile's copy of the body, and of the predicated one: L for a load, S for a store.
TEST(LowerPointwiseTest, LoadsComeBeforeTheFirstUse) {
  const kir::Kernel kernel = ScheduledKernel(product_of(1023), kTiles).lowered();
  int64_t copies = 0;
  for (const kir::StmtId id : kernel.body) {
    const auto* branch = std::get_if<kir::If>(&kernel.stmts[id].kind);
    if (branch == nullptr) continue;
    for (const kir::Block* copy : {&branch->then_body, &branch->else_body}) {
      std::string order;
      kir::for_each_stmt(kernel, *copy, [&](kir::StmtId inner) {
        if (std::holds_alternative<kir::Load>(kernel.stmts[inner].kind)) order += 'L';
        if (std::holds_alternative<kir::Store>(kernel.stmts[inner].kind)) order += 'S';
      });
      EXPECT_THAT(order, testing::MatchesRegex("L+S+"));
      ++copies;
    }
  }
  EXPECT_EQ(copies, 2);
}

/// Scalars are stored by one thread, and read by all.
TEST(LowerPointwiseTest, ScalarsAreReadAndStoredBesideTensors) {
  ScheduledKernel(R"(fusion @f {
  %v0 x : f32[300] = input
  %v1 s : f32 = input
  %v2 : f32[300] = broadcast %v1 axes()
  %v3 y : f32[300] = add %v0, %v2
  %v4 t : f32 = neg %v1
  return %v3, %v4
})",
                  kTiles)
      .expect_outputs(
          [](const Tensors& in) -> Tensors {
            std::vector<float> y = in[0];
            for (float& value : y) value += in[1][0];
            return {y, {-in[1][0]}};
          },
          1);
}

}  // namespace sinter::lower_pointwise_test
