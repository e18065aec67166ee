// What tensors move beyond their elements where neighbouring threads have no neighbouring elements.

#include "scheduler/cost/sectors.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/planner.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::sectors_test {

DeviceLimits h200() { return *find_device("H200"); }

TEST(SectorWaste, IsASectorForEveryElementOfAWideStride) {
  const SegmentFacts facts = canned_facts("transpose_2d", 8192, 8192);
  const double elements = 8192.0 * 8192.0;
  const ElementWalk walk{.width = 8, .block_elements = 4096, .blocks_per_sm = 4};
  const SectorWaste waste = sector_waste(facts, facts.space.inputs.front(), walk, h200());
  EXPECT_EQ(waste.l1_bytes, elements * 32.0);
  EXPECT_EQ(waste.l2_bytes, elements * 30.0);
  EXPECT_EQ(waste.memory_bytes, 0.0);  // 8192 sectors until the next row: L2 has them.
  // Rows of a million elements: 32 MiB of sectors, more than half of L2.
  const SegmentFacts wide = canned_facts("transpose_2d", 1 << 20, 64);
  EXPECT_EQ(sector_waste(wide, wide.space.inputs.front(), walk, h200()).memory_bytes,
            64.0 * (1 << 20) * 30.0);
}

TEST(SectorWaste, IsNoneWhereABlockUsesTheRest) {
  // Three channels: the stride is 6 bytes, and a block has all elements of a sector.
  const SegmentFacts facts = canned_facts("transpose_2d", 4096, 3);
  const SectorWaste waste =
      sector_waste(facts, facts.space.inputs.front(),
                   {.width = 8, .block_elements = 16384, .blocks_per_sm = 2}, h200());
  EXPECT_EQ(waste.l2_bytes, 0.0);
  EXPECT_EQ(waste.memory_bytes, 0.0);
}

TEST(SectorWaste, OfStoresIsNotGatheredInL1) {
  const SegmentFacts facts = canned_facts("transpose_2d", 512, 64);
  ElementWalk walk{.width = 8, .block_elements = 8192, .blocks_per_sm = 1};
  EXPECT_EQ(sector_waste(facts, facts.space.inputs.front(), walk, h200()).l2_bytes, 0.0);
  walk.stores = true;
  EXPECT_EQ(sector_waste(facts, facts.space.inputs.front(), walk, h200()).l2_bytes,
            512.0 * 64.0 * 30.0);
}

/// Rows of `in`, reduced, whose elements lie `stride` apart; stored as they came or transposed.
Fusion rows_less_their_maximum(int64_t stride, bool transposed) {
  constexpr int64_t kRows = 8192;
  constexpr int64_t kColumns = 8192;
  FusionBuilder b("rows");
  const ValueId x = b.input(DType::kBF16, {kRows, kColumns}, "x",
                            {.strides = {Extent(kColumns * stride), Extent(stride)}});
  const ValueId wide = b.cast(x, DType::kF32);
  const ValueId less = b.sub(wide, b.broadcast_over(b.amax(wide, {1}), wide, {1}));
  OutputOptions out;
  if (transposed) out.strides = {Extent(1), Extent(kRows)};
  b.output(b.cast(less, DType::kBF16), "", out);
  return b.build();
}

TEST(StridedWaste, IsOfTensorsWhoseRowsAreNotRuns) {
  const Schedule schedule{.threads_per_row = 512, .rows_per_block = 1, .vector_width = 8};
  const ResourceEstimate estimate{.threads = 512, .blocks_per_sm = 4};
  const double elements = 8192.0 * 8192.0;
  const SegmentFacts dense = facts_of(rows_less_their_maximum(1, false));
  const StridedWaste none = strided_waste(dense, schedule, estimate, h200());
  EXPECT_EQ(none.l1_bytes + none.l2_bytes + none.read_bytes + none.written_bytes, 0.0);
  // Every second element: the other half of each sector comes from memory for nothing.
  const SegmentFacts apart = facts_of(rows_less_their_maximum(2, false));
  EXPECT_EQ(strided_waste(apart, schedule, estimate, h200()).read_bytes, elements * 2.0);
  // A transposed output: a store writes 2 of the 32 bytes of a sector, which L2 puts together.
  const SegmentFacts turned = facts_of(rows_less_their_maximum(1, true));
  const StridedWaste stores = strided_waste(turned, schedule, estimate, h200());
  EXPECT_EQ(stores.l2_bytes, elements * 30.0);
  EXPECT_EQ(stores.written_bytes, 0.0);
}

/// The sectors of 8 f32, of which every second one is stored, come from memory and go back whole;
/// narrow vectors store more of each line at once.
TEST(StridedWaste, SectorsThatAreStoredInPartMoveTwice) {
  const double elements = 8192.0 * 4096.0;
  FusionBuilder b("apart");
  const ValueId x = b.input(DType::kF32, {8192, 4096});
  b.output(b.neg(x), "", {.strides = {Extent(8192), Extent(2)}});
  const SegmentFacts facts = facts_of(b.build());
  const auto waste = [&](int64_t width) {
    return sector_waste(
        facts, facts.space.outputs.front(),
        {.width = width, .block_elements = 4096, .blocks_per_sm = 4, .stores = true}, h200());
  };
  EXPECT_EQ(waste(1).memory_bytes, elements * (2.0 * 8.0 - 4.0));
  EXPECT_EQ(waste(4).memory_bytes, waste(1).memory_bytes);
  EXPECT_EQ(waste(1).l2_bytes, elements * (2.0 * 8.0 - 4.0));
  EXPECT_EQ(waste(4).l2_bytes, elements * (2.0 * 32.0 - 4.0));
  const Plan planned = plan(facts.fusion, {}, *find_device("H100")).value();
  EXPECT_LT(planned.kernels.front().chosen().schedule.vector_width, 4);
}

/// What walks down columns moves as many sectors of what it loads and stores.
TEST(StridedWaste, ColumnsAreChargedStepsToo) {
  const auto predicted_us = [](int64_t input_step, int64_t output_step) {
    FusionBuilder b("columns");
    const ValueId x =
        b.input(DType::kF32, {8192, 4096}, "x", {.strides = {Extent(65536), Extent(input_step)}});
    const ValueId y = b.exp(x);
    b.output(y, "", {.strides = {Extent(65536), Extent(output_step)}});
    b.output(b.sum(y, {0}));
    return plan(b.build(), {}, *find_device("H100")).value().predicted_us();
  };
  const double dense = predicted_us(1, 1);
  const double megabyte_us = 1e6 / (3.35e6 * 0.9);
  EXPECT_GT(predicted_us(2, 1), dense + 0.9 * 134.0 * megabyte_us);
  EXPECT_GT(predicted_us(1, 2), dense + 0.9 * 3.0 * 134.0 * megabyte_us);
  EXPECT_GT(predicted_us(1, 8), dense + 0.9 * 15.0 * 134.0 * megabyte_us);
}

/// The kernel that stores rows transposed is predicted to take so long that it is cut in two, of
/// which the second turns tiles in shared memory.
TEST(StridedWaste, HasTransposedRowsStoredByATranspose) {
  const Plan planned = plan(rows_less_their_maximum(1, true), {}, h200()).value();
  ASSERT_EQ(planned.kernels.size(), 2U);
  EXPECT_EQ(planned.kernels[{1}].chosen().schedule.family, "transpose");
}

}  // namespace sinter::sectors_test
