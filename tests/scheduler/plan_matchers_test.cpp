#include "tests/support/plan_matchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"

namespace sinter::plan_matchers_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const ExtentValues kSizes{{"rows", 8192}, {"cols", 2048}};

/// A gradient whose weights' sums a second kernel finishes.
Result<Plan> gradient() { return plan_canned("layer_norm_backward", kSizes, "H200"); }

template <class Matcher>
std::string complaint(const Result<Plan>& plan, const Matcher& matcher) {
  testing::StringMatchResultListener listener;
  const PlanMatcher wanted(matcher);
  EXPECT_FALSE(wanted.MatchAndExplain(plan, &listener));
  return listener.str();
}

TEST(PlanMatchers, ThePrintedExamplesHold) {
  EXPECT_THAT(plan_canned("rms_norm", {{"rows", 8192}, {"cols", 8192}}, "H200"),
              PlansAs("multi_wave", Keeps("x"), ThreadsPerRow(128), NoSpill()));
  EXPECT_THAT(plan_canned("layer_norm_backward", {{"rows", 8192}, {"cols", 2048}}, "H200"),
              KernelsAre(Kernel("warp_specialised", Writes("dx"), Finishing(Finish::kKernel)),
                         Kernel("column", Writes("dweight"), Writes("dbias"))));
}

// scheduler/README.md shows these lines.
TEST(PlanMatchers, TheReadmesExamplesHold) {
  EXPECT_THAT(
      plan_canned("rms_norm", {{"rows", 1024}, {"cols", 1 << 18}}, "A100"),
      AllOf(PlansAs("looped", NoSpill()),
            RejectedBy("multi_wave", HasSubstr("more shared memory than the device offers"))));
  const Fusion fusion = find_canned_fusion("rms_norm")->build();
  // clang-format off
  Result<Plan> planned = plan(fusion, {{"rows", 8192}, {"cols", 4096}}, *find_device("H200"));
  const std::string sched = print(planned->kernels.front().chosen().schedule);  // .sched text
  const std::vector<Decision>& weighed = planned->decisions;      // what was weighed, with numbers
  const std::vector<Rejection>& refused = planned->rejections;    // why families offered nothing
  // clang-format on
  EXPECT_EQ(parse_schedule(sched), planned->kernels.front().chosen().schedule);
  EXPECT_FALSE(weighed.empty());
  EXPECT_FALSE(refused.empty());
}

TEST(PlanMatchers, KernelsAreThoseInTheirOrder) {
  EXPECT_THAT(gradient(), Not(KernelsAre(Kernel("column"), Kernel("warp_specialised"))));
  EXPECT_THAT(complaint(gradient(), KernelsAre(Kernel("warp_specialised"))),
              HasSubstr("there are 2 kernels"));
  EXPECT_THAT(complaint(gradient(), KernelsAre(Kernel("warp_specialised"), Kernel("looped"))),
              HasSubstr("kernel 1 of 2: the family is column"));
  EXPECT_THAT(complaint(gradient(), PlansAs("warp_specialised")), HasSubstr("there are 2 kernels"));
}

TEST(PlanMatchers, OneKernelOfAPlan) {
  EXPECT_THAT(gradient(), HasKernel(Kernel("column")));
  EXPECT_THAT(gradient(), HasKernel(1, AllOf(Kernel("column"), Writes("dbias"))));
  EXPECT_THAT(complaint(gradient(), HasKernel(Kernel("looped"))),
              AllOf(HasSubstr("kernel 0 of 2: the family is warp_specialised"),
                    HasSubstr("kernel 1 of 2: the family is column")));
  EXPECT_THAT(complaint(gradient(), HasKernel(2, Kernel("column"))), HasSubstr("there are 2"));
  EXPECT_THAT(complaint(gradient(), HasKernel(0, Finishing(Finish::kLastBlock))),
              HasSubstr("finish is kernel"));
  EXPECT_THAT(complaint(gradient(), HasKernel(0, Writes("absent"))), HasSubstr("writes dx"));
}

TEST(PlanMatchers, CutsAndJoins) {
  FusionBuilder b("two");
  const ValueId x = b.input(DType::kF32, {64, 256}, "x");
  const ValueId y = b.named(b.exp(x), "y");
  const ValueId z = b.named(b.reduce(ReduceFn::kSum, y, {1}), "z");
  b.output(b.named(b.exp(z), "w"), "w");
  const Fusion fusion = b.build();
  const auto with = [&](PlanOptions options) {
    return plan(fusion, {}, *find_device("H200"), options);
  };
  EXPECT_THAT(with({.cuts = {{"y"}}}), CutsAre({"y"}));
  EXPECT_THAT(with({.cuts = {{"y"}}}), Not(Joins({"y", "z"})));
  EXPECT_THAT(with({.joins = {{{"y", "z"}}}}), Joins({"y", "z"}));
  EXPECT_THAT(complaint(with({.cuts = {{"y"}}}), CutsAre({"z"})), HasSubstr("cuts are at y"));
  EXPECT_THAT(complaint(with({.cuts = {{"absent"}}}), CutsAre({})), HasSubstr("planning failed"));
}

}  // namespace sinter::plan_matchers_test
