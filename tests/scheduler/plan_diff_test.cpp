#include "scheduler/report/plan_diff.h"

#include <gmock/gmock.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/plan_matchers.h"
#include "tests/support/random_graph.h"

namespace sinter::plan_diff_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Plan planned(const std::string& fusion, const ExtentValues& extents,
             const std::string& device = "H200", const PlanOptions& options = {}) {
  return plan_canned(fusion, extents, device, options).value();
}

/// A norm between calls, so many of them.
Plan norms(int count, const std::string& prefix = "") {
  FusionBuilder b("norms");
  ValueId x = b.input(DType::kBF16, {64, 256}, "x");
  for (int i = 0; i < count; ++i) {
    const ValueId y = b.named(b.cast(rms_norm(b, x).y, DType::kBF16), fmt::format("norm{}", i));
    x = b.external("matmul", {y}, {{DType::kBF16, {64, 256}}},
                   {prefix.empty() ? "" : fmt::format("{}{}", prefix, i)})[0];
  }
  b.output(x, "y");
  return plan(b.build(), {}, *find_device("H200")).value();
}

std::vector<std::string> fields(const std::vector<FieldChange>& changes) {
  std::vector<std::string> out;
  for (const FieldChange& change : changes) out.push_back(change.field);
  return out;
}

TEST(PlanDiff, EqualPlansDifferInNothing) {
  for (const CannedFusion& fusion : canned_fusions()) {
    const auto a = plan(fusion.build(), fusion.small, *find_device("H200"));
    if (!a) continue;
    const PlanDiff same = diff(*a, *a);
    EXPECT_TRUE(same.equal()) << fusion.name;
    EXPECT_EQ(same.kernels.size(), a->kernels.size());
    EXPECT_EQ(diff_text(same, *a, *a), "the plans are equal\n");
  }
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Plan a =
        plan(random_graph(seed, {.ops = 40, .calls = true}), {}, *find_device("H200")).value();
    EXPECT_TRUE(diff(a, a).equal()) << seed;
  }
}

TEST(PlanDiff, OtherExtentsAreMatchedByWhatIsWritten) {
  const Plan a = planned("rms_norm", {{"rows", 8192}, {"cols", 8192}});
  const Plan b = planned("rms_norm", {{"rows", 8192}, {"cols", 512}});
  const PlanDiff found = diff(a, b);
  EXPECT_FALSE(found.equal());
  EXPECT_FALSE(found.same_graph);
  EXPECT_THAT(fields(found.problem), ElementsAre("input 0", "input 1", "output 0"));
  EXPECT_EQ(found.problem[1].before, "weight bf16[8192]");
  EXPECT_EQ(found.problem[1].after, "weight bf16[512]");
  ASSERT_THAT(found.kernels, SizeIs(1));
  const KernelDiff& kernel = found.kernels[0];
  EXPECT_EQ(kernel.columns, (Both<int64_t>{8192, 512}));
  EXPECT_FALSE(kernel.rows.differs());
  EXPECT_THAT(fields(kernel.schedule), Contains("threads_per_row"));
  EXPECT_EQ(kernel.predicted_us.a, a.predicted_us());
  EXPECT_EQ(kernel.predicted_us.b, b.predicted_us());
  EXPECT_THAT(found.only_in_a, IsEmpty());
  EXPECT_THAT(found.only_in_b, IsEmpty());
}

TEST(PlanDiff, OtherDevicesHaveTheSameGraphInOtherSchedules) {
  const ExtentValues extents = {{"rows", 8192}, {"cols", 4096}};
  const Plan a = planned("layer_norm_backward", extents, "H200");
  const Plan b = planned("layer_norm_backward", extents, "A100");
  const PlanDiff found = diff(a, b);
  EXPECT_TRUE(found.same_graph);
  ASSERT_THAT(found.problem, SizeIs(1));
  EXPECT_EQ(found.problem[0], (FieldChange{"device", "H200", "A100"}));
  ASSERT_FALSE(found.kernels.empty());
  EXPECT_TRUE(found.kernels[0].same_graph);
  EXPECT_THAT(found.kernels[0].schedule,
              Contains(FieldChange{"family", "warp_specialised",
                                   b.kernels.front().chosen().schedule.family}));
  EXPECT_THAT(diff_text(found, a, b),
              AllOf(HasSubstr("device: H200 -> A100"), HasSubstr("family: warp_specialised -> ")));
}

TEST(PlanDiff, PinsShowFieldByField) {
  const ExtentValues extents = {{"rows", 8192}, {"cols", 8192}};
  const Plan a = planned("softmax", extents, "H200",
                         {.pin = {.family = "multi_wave", .residency = Residency::kRegister}});
  const Plan b = planned("softmax", extents, "H200",
                         {.pin = {.family = "multi_wave", .residency = Residency::kShared}});
  const PlanDiff found = diff(a, b);
  EXPECT_THAT(found.problem, IsEmpty());
  ASSERT_THAT(found.kernels, SizeIs(1));
  EXPECT_THAT(found.kernels[0].schedule, Contains(FieldChange{"persist x", "register", "shared"}));
  EXPECT_EQ(diff(b, a).kernels[0].schedule.size(), found.kernels[0].schedule.size());
}

TEST(PlanDiff, ScheduleFieldsThatOnlyOneHas) {
  Schedule a{.family = "looped", .parameters = LoopedParameters{}, .unroll = 2};
  Schedule b = a;
  EXPECT_THAT(changes_between(a, b), IsEmpty());
  b.unroll = 4;
  b.finish = Finish::kLastBlock;
  b.kept.push_back({ValueId{3}, Residency::kShared});
  EXPECT_THAT(changes_between(a, b), ElementsAre(FieldChange{"unroll", "2", "4"},
                                                 FieldChange{"finish", "kernel", "last_block"},
                                                 FieldChange{"keep %v3", "none", "shared"}));
}

TEST(PlanDiff, FieldsThatAFamilyLacksAreThoseThatAreNotUsed) {
  const Schedule a{.family = "spiral", .parameters = ExternalParameters{{{"depth", 7}}}};
  const Schedule b{
      .family = "multi_wave",
      .parameters = MultiWaveParameters{.cluster_size = 2, .accumulators = Residency::kShared}};
  EXPECT_THAT(changes_between(a, b), ElementsAre(FieldChange{"family", "spiral", "multi_wave"},
                                                 FieldChange{"cluster_size", "1", "2"},
                                                 FieldChange{"accumulators", "register", "shared"},
                                                 FieldChange{"parameter depth", "7", "none"}));
}

TEST(PlanDiff, ASegmentedPlanAgainstASingleKernel) {
  const auto build = [](bool calls) {
    FusionBuilder b("maybe_called");
    const ValueId x = b.input(DType::kF32, {512, 1024}, "x");
    const ValueId h = b.named(b.exp(x), "h");
    const ValueId y =
        calls ? b.external("f", {h}, {{DType::kF32, {512, 1024}}}, {"called"})[0] : b.neg(h);
    b.output(b.named(b.sum(y, {1}), "total"), "y");
    return plan(b.build(), {}, *find_device("H200")).value();
  };
  const Plan cut = build(true);
  const Plan whole = build(false);
  ASSERT_TRUE(cut.is_segmented);
  ASSERT_EQ(cut.kernels.size(), 2U);
  ASSERT_EQ(whole.kernels.size(), 1U);
  const PlanDiff found = diff(cut, whole);
  EXPECT_FALSE(found.equal());
  ASSERT_THAT(found.kernels, SizeIs(1)) << "those that write y";
  EXPECT_EQ(found.kernels[0].segment, (Both<KernelId>{{1}, {0}}));
  EXPECT_THAT(found.only_in_a, ElementsAre(KernelId{0}));
  EXPECT_THAT(found.calls_only_in_a, ElementsAre(CallId{0}));
  EXPECT_THAT(found.only_in_b, IsEmpty());
  const std::string text = diff_text(found, cut, whole);
  EXPECT_THAT(text, AllOf(HasSubstr("only in a\n  kernel 0 pointwise (h)"),
                          HasSubstr("call f (called)"), Not(HasSubstr("only in b"))));
  EXPECT_EQ(found.workspace_bytes.b, 0);
  EXPECT_GT(found.workspace_bytes.a, 0);
}

TEST(PlanDiff, MoreLayersAreOnlyInOne) {
  const Plan a = norms(2);
  const Plan b = norms(4);
  const PlanDiff found = diff(a, b);
  EXPECT_THAT(found.kernels, SizeIs(2));
  for (const KernelDiff& kernel : found.kernels) {
    EXPECT_TRUE(kernel.equal());
    EXPECT_EQ(kernel.segment.a, kernel.segment.b);
  }
  EXPECT_THAT(found.only_in_a, IsEmpty());
  EXPECT_THAT(found.only_in_b, ElementsAre(KernelId{2}, KernelId{3}));
  EXPECT_THAT(found.calls_only_in_b, SizeIs(2));
  EXPECT_TRUE(found.same_order);
}

TEST(PlanDiff, NamesOfWhatIsBetweenAreNoDifference) {
  EXPECT_TRUE(diff(norms(3), norms(3, "m")).equal());
}

TEST(PlanDiff, NumbersOfOtherGraphsAreNoNames) {
  FusionBuilder one("one");
  one.output(one.exp(one.input(DType::kF32, {64, 64})));
  FusionBuilder two("two");
  two.output(two.sum(two.input(DType::kF32, {64, 64}), {0}));
  const Plan a = plan(one.build(), {}, *find_device("H200")).value();
  const Plan b = plan(two.build(), {}, *find_device("H200")).value();
  const PlanDiff found = diff(a, b);
  EXPECT_THAT(found.kernels, IsEmpty()) << "both write %v1";
  EXPECT_THAT(found.only_in_a, SizeIs(1));
  EXPECT_THAT(fields(found.problem), ElementsAre("fusion", "output 0"));
}

TEST(PlanDiff, TheWayBackSwapsBothSides) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const DeviceLimits limits = *find_device("H200");
    const Plan a = plan(random_graph(seed, {.ops = 30, .calls = true}), {}, limits).value();
    const Plan b = plan(random_graph(seed + 1, {.ops = 30, .calls = true}), {}, limits).value();
    const PlanDiff there = diff(a, b);
    const PlanDiff back = diff(b, a);
    EXPECT_EQ(there.kernels.size() + there.only_in_a.size(), a.kernels.size());
    EXPECT_EQ(there.kernels.size() + there.only_in_b.size(), b.kernels.size());
    EXPECT_EQ(there.equal(), back.equal());
    EXPECT_EQ(there.problem.size(), back.problem.size());
    EXPECT_EQ(there.predicted_us.a, back.predicted_us.b);
  }
}

}  // namespace sinter::plan_diff_test
