#include "scheduler/planning/replan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fusion_ir/composites.h"
#include "scheduler/planning/planner.h"

namespace sinter::replan_test {

/// Softmax of 8192 rows of 4096 in bf16: many candidates, which keep the row in registers.
class ReplanTest : public testing::Test {
 protected:
  ReplanTest() {
    FusionBuilder b("softmax");
    const ValueId x = b.input(DType::kBF16, {8192, 4096}, "x");
    b.output(softmax(b, x, -1, DType::kBF16));
    plan_ = *plan(b.build(), {}, limits_);
  }

  [[nodiscard]] KernelPlan& kernel() { return plan_.kernels.front(); }
  /// What the compiler reports of a candidate that keeps to its estimate.
  static CompiledResources as_estimated(const ProposedSchedule& candidate) {
    return {.registers = std::min(candidate.estimate.registers, candidate.estimate.register_cap)};
  }

  const DeviceLimits limits_ = *find_device("H200");
  const FamilySet families_ = scheduling_families();
  Plan plan_;
};

TEST_F(ReplanTest, AKernelThatKeepsToItsEstimateIsTakenAlone) {
  Replanner replanner(kernel(), limits_, families_, 3);
  const auto first = replanner.next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(*first, kernel().chosen());
  replanner.add(*first, as_estimated(*first), first->estimate.shared_bytes);
  EXPECT_FALSE(replanner.next().has_value());
  EXPECT_EQ(replanner.best(), 0U);
  EXPECT_EQ(replanner.decision().because,
            "the estimate holds well enough to keep the order of candidates");
}

TEST_F(ReplanTest, AKernelThatSpillsIsTriedWithFewerBlocks) {
  const auto promises_blocks = [](const ProposedSchedule& candidate) {
    return candidate.schedule.min_blocks_per_sm > 1;
  };
  std::vector<ProposedSchedule>& candidates = kernel().candidates;
  const auto found = std::ranges::find_if(candidates, promises_blocks);
  ASSERT_NE(found, candidates.end());
  candidates = {*found};  // No other candidate is in the way.
  Replanner replanner(kernel(), limits_, families_, 3);
  const ProposedSchedule first = *replanner.next();
  CompiledResources spilled = as_estimated(first);
  spilled.spill_store_bytes = 64;
  replanner.add(first, spilled, 0);
  const auto second = replanner.next();
  ASSERT_TRUE(second.has_value());
  EXPECT_LT(second->schedule.min_blocks_per_sm, first.schedule.min_blocks_per_sm);
  // The cap of fewer blocks has room for what was spilled.
  EXPECT_GE(second->estimate.register_cap, spilled.registers + 16);
  replanner.add(*second, as_estimated(*second), 0);
  EXPECT_EQ(replanner.attempts().size(), 2U);
  EXPECT_EQ(replanner.decision().candidates.size(), 2U);
}

TEST_F(ReplanTest, OfTwoThatCountAsEqualTheOneThatDoesNotSpillWins) {
  kernel().candidates = {kernel().chosen(), kernel().chosen()};
  kernel().candidates[1].schedule.unroll *= 2;  // Another schedule, predicted alike.
  Replanner replanner(kernel(), limits_, families_, 3);
  const ProposedSchedule first = *replanner.next();
  CompiledResources spilled = as_estimated(first);
  spilled.spill_store_bytes = 4;
  replanner.add(first, spilled, 0);
  replanner.add(kernel().candidates[1], as_estimated(first), 0);
  EXPECT_EQ(replanner.best(), 1U);
}

TEST_F(ReplanTest, NoMoreThanSoManyAreTriedAndAPinnedOneStandsAlone) {
  for (const int most : {0, 1, 2}) {
    Replanner replanner(kernel(), limits_, families_, most);
    int tried = 0;
    while (const auto candidate = replanner.next()) {
      ++tried;
      CompiledResources spilled = as_estimated(*candidate);
      spilled.spill_store_bytes = 512;  // Nothing is ever good enough.
      replanner.add(*candidate, spilled, 0);
    }
    EXPECT_LE(tried, most + 1);
    EXPECT_EQ(static_cast<size_t>(tried), replanner.attempts().size());
  }
  kernel().is_required = true;
  Replanner replanner(kernel(), limits_, families_, 3);
  const ProposedSchedule first = *replanner.next();
  CompiledResources spilled = as_estimated(first);
  spilled.spill_store_bytes = 512;
  replanner.add(first, spilled, 0);
  EXPECT_FALSE(replanner.next().has_value());
}

}  // namespace sinter::replan_test
