// How much longer plans take, by their prediction, than the best grouping of their nodes.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "fusion_ir/pipeline.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "scheduler/segmentation/exhaustive.h"
#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/group_schedules.h"
#include "tests/support/effort.h"
#include "tests/support/h200.h"
#include "tests/support/random_graph.h"

namespace sinter::best_grouping_test {

/// Predicted time over that of the best grouping of its nodes; nothing for graphs of other sizes.
std::optional<double> gap(const Fusion& graph) {
  constexpr size_t kMostNodes = 12;
  const Fusion fusion = simplify(graph);
  const WorkGraph work(fusion, kLimits);
  if (work.size() < 2 || work.size() > kMostNodes) return std::nullopt;
  const FamilySet families = scheduling_families();
  const PlanOptions options{.simplify = false};
  GroupJudge judge(work, kLimits, families);
  GroupSchedules schedules(work, kLimits, options);
  const auto least = [&](std::span<const NodeId> group) -> std::optional<double> {
    const GroupVerdict& verdict = judge.judge(group);
    if (!verdict.legal) return std::nullopt;
    return verdict.least_us;
  };
  const auto cost = [&](std::span<const NodeId> group) -> std::optional<double> {
    const double us =
        schedules.of({group.begin(), group.end()}, judge.judge(group).views).predicted_us();
    if (std::isinf(us)) return std::nullopt;
    return us;
  };
  const auto best = group_exhaustively(work, least, cost);
  if (!best) return std::nullopt;
  return plan(fusion, {}, kLimits, options)->predicted_us() / best->us;
}

/// How much longer plans of so many random graphs take than the best grouping of their nodes.
void expect_near_the_best(uint64_t first_seed, int graphs) {
  int counted = 0;
  double logarithms = 0.0;
  double worst = 0.0;
  for (uint64_t seed = first_seed; counted < graphs; ++seed) {
    RandomGraphOptions options{.ops = 10};
    // Launches bound small tensors, bytes large ones.
    if (seed % 2 == 1) {
      options.batch = 4;
      options.rows = 1024;
      options.columns = 2048;
    }
    const auto found = gap(random_graph(seed, options));
    if (!found) continue;
    ++counted;
    logarithms += std::log(*found);
    worst = std::max(worst, *found);
  }
  const double mean = std::exp(logarithms / graphs);
  ::testing::Test::RecordProperty("geometric_mean", std::to_string(mean));
  ::testing::Test::RecordProperty("worst", std::to_string(worst));
  EXPECT_LE(mean, 1.03);
  EXPECT_LE(worst, 1.25);
}

class BestGrouping : public ::testing::TestWithParam<uint64_t> {};

TEST_P(BestGrouping, IsNear) { expect_near_the_best(GetParam(), takes_all_cases() ? 250 : 25); }

INSTANTIATE_TEST_SUITE_P(Seeds, BestGrouping, ::testing::Values(0, 1000, 2000, 3000));

}  // namespace sinter::best_grouping_test
