// Memory that steps of a plan share, as a property of plans: who writes every element, and who lies
// over whom.

#include "scheduler/plan/plan_verifier.h"

#include <gmock/gmock.h>

#include <tuple>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/plan/plan_edit.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/accumulators.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"
#include "tests/support/random_graph.h"

namespace sinter::plan_verifier_test {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Plan planned(const Fusion& fusion, const PlanOptions& options = {},
             const ExtentValues& extents = {}) {
  auto out = plan(fusion, extents, kLimits, options);
  EXPECT_TRUE(out) << out.error().text();
  return std::move(out).value();
}

/// Partial results of column sums, and what follows from them.
Fusion column_chain(int links) {
  FusionBuilder b("column_chain");
  const Shape shape = {16384, 1024};
  ValueId x = b.input(DType::kF32, shape, "x");
  for (int i = 0; i < links; ++i) {
    const ValueId sum = b.sum(x, {0});
    x = b.mul(b.exp(x), b.broadcast(b.exp(b.neg(sum)), shape, {1}));
  }
  b.output(x, "y");
  return b.build();
}

/// A gather whose index is kept, and reductions behind it whose tensors take its place.
Fusion gather_then_reductions() {
  FusionBuilder b("gather_then_reductions");
  const Shape shape = {4096, 1024};
  const ValueId x = b.input(DType::kF32, shape, "x");
  const ValueId index = b.input(DType::kI64, {4096}, "index");
  const ValueId picked = b.take(x, b.add(index, index), 1);
  ValueId y = b.mul(x, b.broadcast(b.exp(picked), shape, {0}));
  for (int i = 0; i < 4; ++i) {
    y = b.mul(y, b.broadcast(b.exp(b.sum(y, {0})), shape, {1}));
    y = b.mul(y, b.broadcast(b.exp(b.sum(y, {1})), shape, {0}));
  }
  b.output(y, "y");
  return b.build();
}

TEST(PlanVerifierTest, NothingIsWrongWithPlansOfRandomGraphs) {
  int shared = 0;    // Pairs of tensors that lie over each other, at different times.
  int partials = 0;  // Of plans that have such tensors.
  int calls = 0;
  int finished = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomGraphOptions options{.ops = 30, .joins = seed % 3 == 1, .calls = seed % 3 == 0};
    if (seed % 2 == 0) options = {.ops = 30, .batch = 2, .rows = 2048, .columns = 512};
    const Plan plan = planned(random_graph(seed, options), {.check_indices = seed % 4 == 0});
    EXPECT_THAT(plan_violations(plan), IsEmpty()) << "seed " << seed;
    calls += static_cast<int>(plan.externals.size());
    for (const KernelPlan& kernel : plan.kernels) finished += kernel.finishes ? 1 : 0;
    for (const WorkspaceTensor& a : plan.workspace) {
      partials += a.holds == WorkspaceTensor::Holds::kPartials ? 1 : 0;
      for (const WorkspaceTensor& b : plan.workspace)
        shared += a.offset < b.offset && b.offset < a.offset + a.bytes ? 1 : 0;
    }
  }
  // The graphs have what may go wrong.
  EXPECT_GT(shared, 10);
  EXPECT_GT(partials, 5);
  EXPECT_GT(calls, 10);
  EXPECT_GT(finished, 5);
}

TEST(PlanVerifierTest, NothingIsWrongWithPlansOfCannedFusions) {
  for (const CannedFusion& canned : canned_fusions()) {
    for (const ExtentValues& extents : {canned.small, canned.large}) {
      const auto made = plan(canned.build(), extents, kLimits, {.check_indices = true});
      if (made) {
        EXPECT_THAT(plan_violations(*made), IsEmpty()) << canned.name;
      }
    }
  }
}

TEST(PlanVerifierTest, PartialResultsLiveUntilTheyAreFinished) {
  for (const int links : {1, 2, 4}) {
    const Plan plan = planned(column_chain(links));
    EXPECT_THAT(plan_violations(plan), IsEmpty()) << links;
    EXPECT_THAT(plan.workspace, Contains(testing::Field(&WorkspaceTensor::holds,
                                                        AnyOf(WorkspaceTensor::Holds::kPartials,
                                                              WorkspaceTensor::Holds::kValue))));
  }
}

TEST(PlanVerifierTest, KeptIndicesLiveToTheEnd) {
  const Plan plan = planned(gather_then_reductions(), {.check_indices = true});
  ASSERT_EQ(plan.kept_indices().size(), 1);
  ASSERT_GT(plan.kernels.size(), 5);
  EXPECT_THAT(plan_violations(plan), IsEmpty());
}

TEST(PlanVerifierTest, OutputsInPlaceAndJoinedAreWrittenOnce) {
  FusionBuilder b("joined");
  const ValueId x = b.input(DType::kF32, {64, 32}, "x");
  const ValueId y = b.input(DType::kF32, {16, 32}, "y");
  b.output(b.concatenate({b.exp(x), b.pad(y, {3, 0}, {5, 0}), b.neg(y)}, 0), "joined");
  b.output(b.mul(x, b.broadcast(b.sum(x, {0}), {64, 32}, {1})), "in_place", {.alias = x});
  EXPECT_THAT(plan_violations(planned(b.build())), IsEmpty());
}

/// Whatever grid another schedule has, and whoever finishes what its blocks leave.
TEST(PlanVerifierTest, NothingIsWrongWherePlansTakeOtherSchedules) {
  int by_kernel = 0;
  int by_last_block = 0;
  for (const CannedFusion& canned : canned_fusions()) {
    const auto made = plan(canned.build(), canned.small, kLimits);
    if (!made || !made->kernels.front().facts.has_outer()) continue;
    Plan other = *made;  // Schedules follow each other: what one leaves, the next one drops.
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const auto drawn =
          random_schedule(other.kernels.front().facts, kLimits, scheduling_families(), seed);
      if (!drawn || other.kernels.front().is_part) continue;
      ASSERT_TRUE(plan_finish(other, {0}, drawn->schedule, scheduling_families())) << canned.name;
      other.kernels.front().candidates = {*drawn};
      EXPECT_THAT(plan_violations(other), IsEmpty()) << canned.name << "\n"
                                                     << print(drawn->schedule);
      if (drawn->schedule.persistent_blocks == 0) continue;
      ++(drawn->schedule.finish == Finish::kLastBlock ? by_last_block : by_kernel);
    }
  }
  EXPECT_GT(by_kernel, 20);
  EXPECT_GT(by_last_block, 20);
}

/// Blocks of column sums are dealt columns: beside sums of no columns a total needs another kernel.
TEST(PlanVerifierTest, TotalsBesideSumsOfNoColumnsAreWritten) {
  FusionBuilder b("no_columns");
  const ValueId x = b.input(DType::kF32, {5, 0}, "x");
  b.output(b.sum(x, {0}), "columns");
  b.output(b.sum(x, {0, 1}), "total");
  b.output(b.sum(b.input(DType::kF32, {5}, "y"), {0}), "of_rows");
  EXPECT_THAT(plan_violations(planned(b.build())), IsEmpty());
}

// ---- Planted faults

TEST(PlanVerifierTest, FindsTensorsThatLieOverEachOther) {
  Plan plan = planned(column_chain(3));
  ASSERT_GE(plan.workspace.size(), 2);
  for (WorkspaceTensor& tensor : plan.workspace) tensor.offset = 0;
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("share bytes")));
}

TEST(PlanVerifierTest, FindsTensorsBehindTheEnd) {
  Plan plan = planned(column_chain(3));
  plan.workspace_bytes -= 1;
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("workspace tensor")));
}

TEST(PlanVerifierTest, FindsWhatIsReadBeforeItIsWritten) {
  FusionBuilder b("two_kernels");
  const ValueId x = b.input(DType::kF32, {8, 32}, "x");
  b.output(b.take(b.sum(x, {0}), b.input(DType::kI64, {}, "index"), 0), "y");
  Plan plan = planned(b.build());
  ASSERT_EQ(plan.kernels.size(), 2);
  std::swap(plan.kernels.front(), plan.kernels[{1}]);
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("no step before it writes")));
}

/// Also of outputs too large to be compared element by element.
TEST(PlanVerifierTest, FindsOutputsThatTwoKernelsWrite) {
  for (const int64_t rows : {4, 65536}) {
    FusionBuilder b("twice");
    const ValueId x = b.input(DType::kF32, {rows, 512}, "x");
    b.output(b.exp(x));
    Plan planned = *plan(b.build(), {}, *find_device("H200"));
    EXPECT_THAT(plan_violations(planned), IsEmpty());
    planned.kernels.push_back(planned.kernels.front());
    EXPECT_THAT(plan_violations(planned),
                ElementsAre(HasSubstr("steps 0 and 1 write byte 0 of output 0")))
        << rows;
  }
}

TEST(PlanVerifierTest, FindsGapsAndOverlapsOfWhatIsJoined) {
  FusionBuilder b("joined");
  const ValueId x = b.input(DType::kF32, {64, 32}, "x");
  b.output(b.concatenate({b.exp(x), b.neg(x)}, 0), "joined");
  Plan plan = planned(b.build());
  ASSERT_FALSE(plan.placements.empty());
  auto last = std::ranges::max_element(plan.placements, {},
                                       [](const auto& placed) { return placed.second.offset; });
  last->second.offset -= 128;
  const std::vector<std::string> violations = plan_violations(plan);
  EXPECT_THAT(violations, Contains(HasSubstr("write byte")));
  EXPECT_THAT(violations, Contains(HasSubstr("no step before it writes")));
}

TEST(PlanVerifierTest, FindsKernelsThatHaveTooFewBlocks) {
  FusionBuilder b("few");
  b.output(b.exp(b.input(DType::kF32, {64, 4096}, "x")), "y");
  Plan plan = planned(b.build());
  plan.kernels.front().candidates[0].estimate.blocks -= 1;
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("cover")));
  plan.kernels.front().candidates[0].estimate.blocks = 0;
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("has 0 blocks")));
}

TEST(PlanVerifierTest, FindsIdsOfKernelsThatDoNotExist) {
  const Plan whole = planned(column_chain(3));
  ASSERT_FALSE(whole.workspace.empty());
  Plan plan = whole;
  plan.workspace.front().writer = plan.kernels.next_id();
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("a workspace tensor names kernel")));
  plan = whole;
  plan.workspace.front().writer = CallId{0};
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("is call 0, but there are 0 calls")));
  plan = whole;
  plan.kernels.back().same_as = KernelId{};
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("names kernel ?")));
  plan = whole;
  plan.externals.push_back({.op = OpId{0}, .before = kernel_after(plan.kernels.next_id())});
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("a call names kernel")));
}

TEST(PlanVerifierTest, FindsKernelsThatAreNotTheSame) {
  const Plan whole = planned(column_chain(3));
  ASSERT_GT(whole.kernels.size(), 1U);
  const auto said = [&](KernelId kernel, KernelId first) {
    Plan plan = whole;
    plan.kernels[kernel].same_as = first;
    return plan_violations(plan);
  };
  const auto no_first = Contains(HasSubstr("is no first kernel of its graph"));
  EXPECT_THAT(said({0}, {0}), no_first) << "itself";
  EXPECT_THAT(said({0}, {1}), no_first) << "a later one";
  for (const KernelId id : whole.kernels.ids()) {
    if (id == KernelId{0} ||
        structurally_equal(whole.kernels[id].facts.fusion, whole.kernels.front().facts.fusion))
      continue;
    EXPECT_THAT(said(id, {0}), no_first) << "of another graph";
  }
}

// Every candidate of a kernel, taken without planning its finish: it holds only where the grid is
// that of the planned schedule.
TEST(PlanVerifierTest, FindsPartialResultsOfAnotherGrid) {
  int found = 0;
  for (const char* name : {"row_and_total_loss", "layer_norm_backward", "column_sum"}) {
    const Plan whole = plan(find_canned_fusion(name)->build(), {{"rows", 65536}, {"cols", 1024}},
                            *find_device("H200"))
                           .value();
    const auto finish = [](const Schedule& schedule) {
      return std::tuple(schedule.finish, partial_rows(schedule));
    };
    const Schedule& planned = whole.kernels.front().chosen().schedule;
    for (const ProposedSchedule& other : whole.kernels.front().candidates) {
      Plan plan = whole;
      plan.kernels.front().candidates = {other};
      if (finish(other.schedule) == finish(planned)) continue;
      ++found;
      EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("partial results")))
          << name << "\n"
          << print(other.schedule);
      ASSERT_TRUE(plan_finish(plan, {0}, other.schedule, scheduling_families()));
      EXPECT_THAT(plan_violations(plan), IsEmpty()) << name << "\n" << print(other.schedule);
    }
  }
  EXPECT_GT(found, 10);
}

/// A plan of column sums whose partial results are finished as wanted.
Plan finished_by(Finish finish) {
  Plan out = plan(find_canned_fusion("bias_gradient")->build(), {{"rows", 65536}, {"cols", 1024}},
                  *find_device("H200"))
                 .value();
  std::vector<ProposedSchedule>& candidates = out.kernels.front().candidates;
  const auto wanted = std::ranges::find_if(candidates, [&](const ProposedSchedule& candidate) {
    return candidate.schedule.persistent_blocks > 0 && candidate.schedule.finish == finish;
  });
  EXPECT_NE(wanted, candidates.end());
  candidates = {ProposedSchedule(*wanted)};
  EXPECT_TRUE(plan_finish(out, {0}, candidates.front().schedule, scheduling_families()));
  EXPECT_THAT(plan_violations(out), IsEmpty());
  return out;
}

/// With as many partial results: who finishes them is another.
TEST(PlanVerifierTest, FindsFinishesThatTheScheduleDoesNotName) {
  for (const Finish finish : {Finish::kKernel, Finish::kLastBlock}) {
    Plan plan = finished_by(finish);
    plan.kernels.front().candidates.front().schedule.finish =
        finish == Finish::kKernel ? Finish::kLastBlock : Finish::kKernel;
    EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("partial results")));
  }
}

TEST(PlanVerifierTest, FindsCountersOfAnotherGrid) {
  Plan plan = finished_by(Finish::kLastBlock);
  const auto counters =
      std::ranges::find(plan.workspace, WorkspaceTensor::Holds::kCounters, &WorkspaceTensor::holds);
  ASSERT_NE(counters, plan.workspace.end());
  counters->bytes -= 4;
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("counts the blocks")));
  plan.workspace.erase(counters);
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("counts the blocks")));
}

TEST(PlanVerifierTest, FindsPartialResultsThatTheFinishDoesNotRead) {
  Plan plan = finished_by(Finish::kKernel);
  ASSERT_EQ(plan.kernels.size(), 2U);
  KernelPlan& finish = plan.kernels[{1}];
  ASSERT_EQ(finish.facts.fusion.inputs.size(), 1U);
  finish.in_plan[finish.facts.fusion.inputs.front()] = plan.fusion.inputs.front();
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("and segment 1 finishes 0")));
}

TEST(PlanVerifierTest, FindsValuesThatLieNowhere) {
  const Plan whole = finished_by(Finish::kKernel);
  Plan plan = whole;
  plan.kernels[{1}].in_plan.erase(plan.kernels[{1}].facts.fusion.inputs.front());
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("is read and lies nowhere")));
  plan = whole;
  plan.workspace.clear();
  EXPECT_THAT(plan_violations(plan), Contains(HasSubstr("lies nowhere")));
}

TEST(PlanVerifierTest, FindsPartialResultsThatAreNotAllFinished) {
  Plan planned = plan(find_canned_fusion("row_and_total_loss")->build(),
                      {{"rows", 65536}, {"cols", 1024}}, *find_device("H200"))
                     .value();
  Plan other = planned;
  const Schedule& taken = planned.kernels.front().chosen().schedule;
  const auto differs = [&](const ProposedSchedule& candidate) {
    return candidate.schedule.finish == taken.finish &&
           partial_rows(candidate.schedule) < partial_rows(taken);
  };
  const auto& candidates = planned.kernels.front().candidates;
  const auto fewer = std::ranges::find_if(candidates, differs);
  ASSERT_NE(fewer, candidates.end());
  ASSERT_TRUE(plan_finish(other, {0}, fewer->schedule, scheduling_families()));
  ASSERT_EQ(planned.kernels.size(), 2U);
  planned.kernels[{1}] = other.kernels[{1}];
  EXPECT_THAT(plan_violations(planned), Contains(HasSubstr("and segment 1 finishes")));
}

TEST(PlanVerifierTest, FindsPartialResultsThatNothingFinishes) {
  // Partial results of tiles are always finished by a second kernel.
  const CannedFusion& sums = *find_canned_fusion("linear_column_sums");
  Plan plan = planned(sums.build(), {}, sums.large);
  const auto ids = plan.kernels.ids();
  const auto finish =
      std::ranges::find_if(ids, [&](KernelId id) { return plan.kernels[id].finishes; });
  ASSERT_NE(finish, ids.end());
  ASSERT_THAT(plan_violations(plan), IsEmpty());
  remove_kernel(plan, *finish);
  EXPECT_THAT(plan_violations(plan), Not(IsEmpty()));
}

}  // namespace sinter::plan_verifier_test
