#include "scheduler/report/sweep.h"

#include <gmock/gmock.h>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/plan/plan_options.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/plan_matchers.h"

namespace sinter::sweep_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Result<Sweep> sweep_canned(const std::string& name, std::vector<SweepAxis> axes,
                           const PlanOptions& options = {}) {
  const CannedFusion& canned = *find_canned_fusion(name);
  return sweep(canned.build(), canned.large, *find_device("H200"), std::move(axes), options);
}

std::vector<NearestChange> changes_of(const std::string& name, const ExtentValues& extents,
                                      const PlanOptions& options = {}) {
  return nearest_changes(find_canned_fusion(name)->build(), extents, *find_device("H200"), options);
}

TEST(Sweep, CellsAreThePlansAtTheirExtents) {
  const Sweep swept =
      sweep_canned("layer_norm_backward", {{"cols", {1024, 4096}}, {"rows", {64, 1000, 8192}}})
          .value();
  ASSERT_EQ(swept.cells.size(), 6U);
  for (size_t line = 0; line < swept.lines(); ++line) {
    for (size_t column = 0; column < 2; ++column) {
      const SweepCell& cell = swept.at(column, line);
      const auto planned = plan_canned(
          "layer_norm_backward",
          {{"rows", swept.axes[1].sizes[line]}, {"cols", swept.axes[0].sizes[column]}}, "H200");
      EXPECT_EQ(cell.schedule, planned->kernels.front().chosen().schedule);
      EXPECT_EQ(cell.kind, kind_of(*planned));
      EXPECT_EQ(cell.predicted_us, planned->predicted_us());
      EXPECT_GT(cell.sol, 0.0);
      EXPECT_LT(cell.sol, 1.0);
      EXPECT_THAT(swept.kinds, Contains(cell.kind));
    }
  }
}

TEST(Sweep, KindsNameEveryKernelButTheOneThatFinishes) {
  const auto kinds = [](int64_t rows, int64_t cols) {
    const auto planned =
        plan_canned("layer_norm_backward", {{"rows", rows}, {"cols", cols}}, "H200");
    return std::pair(kind_of(*planned), planned->kernels.size());
  };
  EXPECT_EQ(kinds(8192, 4096), std::pair(std::string("warp_specialised"), size_t{2}));
  EXPECT_THAT(kinds(16, 1 << 18).first, EndsWith(" + column"));
}

TEST(Sweep, KeepsTheExtentsThatItDoesNotSweep) {
  const Sweep swept = sweep_canned("softmax", {{"cols", {512}}}).value();
  EXPECT_EQ(swept.lines(), 1U);
  const auto planned = plan_canned("softmax", {{"rows", 8192}, {"cols", 512}}, "H200");
  EXPECT_EQ(swept.at(0, 0).predicted_us, planned->kernels.front().chosen().predicted.total_us);
}

TEST(Sweep, APinHoldsForEveryCell) {
  EXPECT_THAT(
      sweep_canned("softmax", {{"cols", {512, 8192}}}, {.pin = {.family = "looped"}})->kinds,
      ElementsAre("looped"));
}

TEST(Sweep, CellsWithoutAScheduleSayWhy) {
  const auto swept =
      sweep_canned("softmax", {{"cols", {64, 1 << 24}}},
                   {.pin = {.family = "multi_wave", .residency = Residency::kRegister}});
  EXPECT_EQ(swept->at(0, 0).kind, "multi_wave");
  EXPECT_EQ(swept->at(1, 0).kind, "");
  EXPECT_EQ(swept->at(1, 0).refusal.kind, ErrorKind::kResourceExhausted);
}

TEST(Sweep, RefusesWhatItCannotSweep) {
  struct Mistake {
    std::vector<SweepAxis> axes;
    const char* says;
  };
  const std::vector<int64_t> many(65, 1);
  for (const Mistake& mistake : {
           Mistake{{}, "0 extents are swept"},
           Mistake{{{"rows", {1}}, {"cols", {1}}, {"rows", {1}}}, "3 extents are swept"},
           Mistake{{{"rows", {1}}, {"rows", {1}}}, "'rows' is swept twice"},
           Mistake{{{"depth", {1}}}, "no extent 'depth' to sweep. Remedy: sweep rows or cols"},
           Mistake{{{"rows", {}}}, "over no sizes"},
           Mistake{{{"rows", many}, {"cols", many}}, "at most 4096 cells (got 4225, limit 4096)"},
           Mistake{{{"cols", {-1}}}, "cols"},
       }) {
    const auto swept = sweep_canned("softmax", mistake.axes);
    ASSERT_FALSE(swept) << mistake.says;
    EXPECT_THAT(swept.error().text(), HasSubstr(mistake.says));
  }
  EXPECT_EQ(sweep_canned("softmax", {{"cols", {64}}}, {.families = {}}).error().kind,
            ErrorKind::kUnsupported);
}

// ---- What would change the answer

/// The kind of the layer-norm gradient's plan.
std::string kind_at(const ExtentValues& extents) {
  const auto planned = plan_canned("layer_norm_backward", extents, "H200");
  return planned ? kind_of(*planned) : "";
}

TEST(NearestChanges, ArePlannedAsTheySayAndNotOneStepNearer) {
  const ExtentValues here = {{"rows", 128}, {"cols", 16384}};
  const auto changes = changes_of("layer_norm_backward", here);
  EXPECT_THAT(changes, AllOf(Contains(Field(&NearestChange::extent, "rows")),
                             Contains(Field(&NearestChange::extent, "cols"))));
  for (const NearestChange& change : changes) {
    const int64_t step = change.extent == "rows" ? 32 : 128;  // What the extents keep as a divisor.
    ExtentValues there = here;
    int64_t& size = there[change.extent];
    const bool smaller = change.size < size;
    size = change.size;
    EXPECT_EQ(size % step, 0);
    EXPECT_EQ(kind_at(there), change.kind);
    EXPECT_NE(kind_at(there), kind_at(here));
    size += smaller ? step : -step;
    EXPECT_EQ(kind_at(there), kind_at(here)) << change.extent << ' ' << change.size;
  }
}

TEST(NearestChanges, KeepRowsAlignedAsTheyAre) {
  for (const int64_t cols : {4100, 4104}) {
    const auto changes = changes_of("layer_norm_backward", {{"rows", 8192}, {"cols", cols}});
    EXPECT_THAT(changes, Contains(Field(&NearestChange::extent, "cols")));
    for (const NearestChange& change : changes) {
      if (change.extent != "cols") continue;
      EXPECT_EQ(change.size % 8, cols % 8);
    }
  }
}

TEST(NearestChanges, StepByPromisedDivisors) {
  Fusion fusion = find_canned_fusion("layer_norm_backward")->build();
  constexpr int64_t kDivisor = 384;
  constexpr int64_t kCols = 10 * kDivisor;
  fusion.symbols[fusion.find_symbol("cols")].divisible_by = kDivisor;
  const auto changes =
      nearest_changes(fusion, {{"rows", 100}, {"cols", kCols}}, *find_device("H200"));
  EXPECT_THAT(changes, Contains(Field(&NearestChange::extent, "cols")));
  for (const NearestChange& change : changes) {
    if (change.extent != "cols") continue;
    EXPECT_EQ(change.size % kDivisor, 0);
    const int64_t nearer = change.size + (change.size < kCols ? kDivisor : -kDivisor);
    EXPECT_EQ(kind_at({{"rows", 100}, {"cols", nearer}}),
              kind_at({{"rows", 100}, {"cols", kCols}}));
  }
}

TEST(NearestChanges, AreNoneWhereOneKindAlwaysWins) {
  EXPECT_THAT(changes_of("bias_gelu", {{"rows", 64}, {"cols", 4096}}), IsEmpty());
}

TEST(NearestChanges, AreNoneForAPinOrAFusionWithoutAPlan) {
  const ExtentValues at = {{"rows", 8192}, {"cols", 4096}};
  EXPECT_THAT(changes_of("layer_norm_backward", at), Not(IsEmpty()));
  EXPECT_THAT(changes_of("layer_norm_backward", at, {.pin = {.family = "multi_wave"}}), IsEmpty());
  EXPECT_THAT(changes_of("layer_norm_backward", at, {.families = {}}), IsEmpty());
  EXPECT_THAT(changes_of("layer_norm_backward", {{"rows", 8192}, {"cols", 0}}),
              Not(Contains(Field(&NearestChange::extent, "cols"))));
}

TEST(NearestChanges, ReachTheEndsOfTheRange) {
  constexpr int64_t kHuge = int64_t{1} << 61;
  for (const ExtentValues& at :
       {ExtentValues{{"rows", 1}, {"cols", 1}}, ExtentValues{{"rows", 1}, {"cols", kHuge}},
        ExtentValues{{"rows", kHuge}, {"cols", 1}}, ExtentValues{{"rows", 2}, {"cols", 3}}}) {
    for (const NearestChange& change : changes_of("layer_norm_backward", at))
      EXPECT_GT(change.size, 0);
  }
}

}  // namespace sinter::sweep_test
