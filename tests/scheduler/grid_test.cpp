// Grids and clusters: which sizes are tried, how many blocks a persistent grid has, and when the
// kernel that combines may start early.

#include "scheduler/budgets/grid.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::grid_test {

using testing::ElementsAre;

TEST(GridTest, ClusterSizesDoubleWhileThatIsWorthIt) {
  EXPECT_THAT(cluster_sizes(8, [](int64_t) { return true; }), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(cluster_sizes(8, [](int64_t) { return false; }), ElementsAre(1));
  EXPECT_THAT(cluster_sizes(16, [](int64_t size) { return size < 4; }), ElementsAre(1, 2, 4));
  EXPECT_THAT(cluster_sizes(1, [](int64_t) { return true; }), ElementsAre(1));
}

/// Larger clusters than the portable ones leave SMs over.
TEST(GridTest, TheLargestUnstrandedClusterIsThePortableOne) {
  EXPECT_GT(kLimits.most_cluster_blocks, kPortableClusterBlocks);
  EXPECT_EQ(largest_unstranded_cluster(kLimits), kPortableClusterBlocks);
  EXPECT_EQ(largest_unstranded_cluster(*find_device("A100")), 1);
}

/// An H200 has 132 SMs.
TEST(GridTest, APersistentGridIsWhatIsResidentOrNeeded) {
  const auto grid = [](int64_t rows, int64_t rows_per_block, int64_t blocks_per_sm) {
    return persistent_grid(canned_facts("rms_norm", rows, 64),
                           {.family = "multi_wave",
                            .parameters = MultiWaveParameters{},
                            .rows_per_block = rows_per_block,
                            .min_blocks_per_sm = blocks_per_sm},
                           kLimits);
  };
  EXPECT_EQ(grid(8192, 2, 2), 264);
  EXPECT_EQ(grid(10, 4, 2), 3);
  EXPECT_EQ(grid(264, 1, 2), 264);
  EXPECT_EQ(grid(263, 1, 2), 263);
  EXPECT_EQ(grid(1, 1, 1), 1);
  EXPECT_EQ(grid(0, 1, 1), 1) << "one block, which finds no row";
}

TEST(GridTest, APersistentGridOfClustersIsWholeClusters) {
  for (const int64_t cluster : {2, 4, 8}) {
    for (const int64_t rows : {0, 1, 5, 8192}) {
      const Schedule schedule{.family = "multi_wave",
                              .parameters = MultiWaveParameters{.cluster_size = cluster}};
      const int64_t blocks = persistent_grid(canned_facts("rms_norm", rows, 64), schedule, kLimits);
      EXPECT_EQ(blocks % cluster, 0);
      EXPECT_GE(blocks, cluster);
      EXPECT_LE(blocks, std::max<int64_t>(rows, 1) * cluster) << "no cluster without a row";
      EXPECT_LE(blocks, 132);
    }
  }
}

TEST(GridTest, OnlyKernelsWithPartialResultsTriggerTheNext) {
  const SegmentFacts gradient = canned_facts("layer_norm_backward", 64, 1024);
  const SegmentFacts norm = canned_facts("rms_norm", 64, 1024);
  EXPECT_EQ(partials_dependent_launch(gradient, kLimits), DependentLaunch::kTrigger);
  EXPECT_EQ(partials_dependent_launch(norm, kLimits), DependentLaunch::kNone);
  EXPECT_EQ(partials_dependent_launch(gradient, *find_device("A100")), DependentLaunch::kNone);
}

}  // namespace sinter::grid_test
