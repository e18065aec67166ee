#include "tests/support/random_fusion.h"

#include <gmock/gmock.h>

#include "scheduler/families/random_scheduler.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"
#include "tests/support/effort.h"

namespace sinter::random_fusion_test {

// Graphs nobody thought of, at schedules nobody thought of.
void compute_the_oracle(uint64_t graphs, const RandomFusionOptions& options) {
  constexpr std::array<int64_t, 5> kWidths = {1, 40, 100, 257, 1024};
  const FamilySet families = builtin_families();
  const DeviceLimits limits = *find_device("H200");
  uint64_t planned_graphs = 0;
  for (uint64_t seed = 0; seed < graphs; ++seed) {
    const Fusion fusion = random_fusion(seed, 4 + static_cast<int>(seed % 16), options);
    const int64_t columns = kWidths[seed % kWidths.size()];
    const auto planned =
        plan(fusion, {{"rows", 4}, {"cols", columns}}, limits, {.families = families});
    if (!planned) {
      ASSERT_EQ(planned.error().kind, ErrorKind::kUnsupported) << planned.error().text();
      continue;
    }
    ++planned_graphs;
    const KernelPlan& kernel = planned->kernels.front();
    for (const Schedule& schedule : chosen_and_best_of_families(kernel))
      EXPECT_TRUE(computes_the_oracle(fusion, *planned, schedule, seed));
    for (uint64_t draw = 0; draw < 2; ++draw) {
      const auto drawn = random_schedule(kernel.facts, limits, families, seed + draw);
      ASSERT_TRUE(drawn) << fusion.name;
      EXPECT_TRUE(computes_the_oracle(fusion, *planned, drawn->schedule, seed));
    }
  }
  // Some put out values of different shapes, which one kernel does not store.
  EXPECT_GT(planned_graphs, graphs / 2);
}

TEST(RandomFusions, ComputeTheOracle) { compute_the_oracle(takes_all_cases() ? 200 : 40, {}); }

TEST(RandomFusions, ComputeTheOracleWithPicks) {
  compute_the_oracle(takes_all_cases() ? 200 : 40, {.picks = true});
}

}  // namespace sinter::random_fusion_test
