#include "scheduler/plan/plan_edit.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/planning/planner.h"

namespace sinter::plan_edit_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Three equal kernels, each before a call, and a cut between the first and the last. Kernels are
/// marked 1, 2, 3 in `row_parts`, which only plans of other graphs read.
Plan marked_plan() {
  FusionBuilder b("layers");
  ValueId x = b.input(DType::kF32, {64, 256}, "x");
  for (int i = 0; i < 3; ++i) x = b.external("f", {b.exp(x)}, {{DType::kF32, {64, 256}}})[0];
  b.output(x);
  Plan out = plan(b.build(), {}, *find_device("H200")).value();
  out.cuts.push_back({.from = {0}, .to = {2}});
  for (const KernelId id : out.kernels.ids()) out.kernels[id].row_parts = 1 + id.index;
  return out;
}

std::vector<int64_t> marks(const Plan& plan) {
  std::vector<int64_t> out;
  for (const KernelPlan& kernel : plan.kernels) out.push_back(kernel.row_parts);
  return out;
}

/// The mark of the kernel that each id in a plan means; 0: the place past the end.
std::vector<int64_t> meanings(const Plan& plan) {
  std::vector<int64_t> out;
  for_each_kernel_id(plan, [&](KernelId id, KernelMention) {
    EXPECT_TRUE(id.valid());
    out.push_back(plan.kernels.contains(id) ? plan.kernels[id].row_parts : 0);
  });
  return out;
}

KernelPlan added_kernel(const Plan& plan) {
  KernelPlan out = plan.kernels.front();
  out.row_parts = 99;
  return out;
}

TEST(PlanEditTest, ThePlanOfTheTestsHasEveryKindOfMention) {
  const Plan plan = marked_plan();
  std::vector<KernelMention> found;
  for_each_kernel_id(plan, [&](KernelId, KernelMention mention) { found.push_back(mention); });
  for (const KernelMention mention : {KernelMention::kSameAs, KernelMention::kBefore,
                                      KernelMention::kWriter, KernelMention::kCut})
    EXPECT_THAT(found, Contains(mention));
  EXPECT_THAT(meanings(plan), Contains(0)) << "the last call runs after all kernels";
}

TEST(PlanEditTest, IdsMeanTheSameKernelsAfterOneIsInserted) {
  const Plan before = marked_plan();
  for (const KernelId id : before.kernels.ids()) {
    Plan plan = before;
    EXPECT_EQ(insert_kernel_after(plan, id, added_kernel(plan)), kernel_after(id));
    EXPECT_EQ(plan.kernels[kernel_after(id)].row_parts, 99);
    EXPECT_EQ(plan.kernels.size(), before.kernels.size() + 1);
    EXPECT_EQ(meanings(plan), meanings(before)) << fmt::format("after {}", id);
  }
}

TEST(PlanEditTest, AnInsertedKernelRunsBeforeTheCallsThatRunThere) {
  Plan plan = marked_plan();
  const KernelId last{2};
  const KernelId added = insert_kernel_after(plan, last, added_kernel(plan));
  const IdVector<StepId, PlanStep> steps = plan.steps();
  ASSERT_EQ(steps.size(), 7U);
  EXPECT_EQ(steps[{4}], PlanStep(last));
  EXPECT_EQ(steps[{5}], PlanStep(added));
  EXPECT_EQ(steps[{6}], PlanStep(CallId{2}));
}

TEST(PlanEditTest, AKernelThatComesAndGoesLeavesThePlanAsItWas) {
  const Plan before = marked_plan();
  for (const KernelId id : before.kernels.ids()) {
    Plan plan = before;
    remove_kernel(plan, insert_kernel_after(plan, id, added_kernel(plan)));
    EXPECT_EQ(marks(plan), marks(before));
    EXPECT_EQ(meanings(plan), meanings(before));
    EXPECT_EQ(plan.steps(), before.steps());
    EXPECT_EQ(plan.workspace, before.workspace);
    EXPECT_EQ(plan.externals, before.externals);
    EXPECT_EQ(plan.cuts, before.cuts);
    EXPECT_THAT(plan_violations(plan), IsEmpty());
  }
}

TEST(PlanEditTest, NothingMeansAKernelThatIsGone) {
  Plan plan = marked_plan();
  remove_kernel(plan, {0});
  EXPECT_THAT(marks(plan), ElementsAre(2, 3));
  for (const KernelPlan& kernel : plan.kernels) EXPECT_FALSE(kernel.same_as);
  std::vector<KernelId> before;
  for (const ExternalCall& call : plan.externals) before.push_back(call.before);
  EXPECT_THAT(before, ElementsAre(KernelId{0}, KernelId{1}, KernelId{2}));
  EXPECT_FALSE(plan.cuts.front().from.valid());
  EXPECT_EQ(plan.cuts.front().to, KernelId{1});
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("a workspace tensor names kernel ?")));
}

TEST(PlanEditTest, ACallBeforeAKernelThatIsGoneRunsBeforeTheNextOne) {
  Plan plan = marked_plan();
  remove_kernel(plan, {1});
  EXPECT_THAT(marks(plan), ElementsAre(1, 3));
  EXPECT_EQ(plan.externals.front().before, KernelId{1});
  EXPECT_EQ(plan.kernels[{1}].same_as, KernelId{0});
}

}  // namespace sinter::plan_edit_test
