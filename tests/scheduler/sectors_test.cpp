// What tensors move beyond their elements where neighbouring threads have no neighbouring elements.

#include "scheduler/sectors.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"

namespace sinter {
namespace {

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

}  // namespace
}  // namespace sinter
