// Plans that check indices: whatever the schedule, what kernels leave says which indices of a take
// were outside of its axis, and nothing else changes.

#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <map>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "runtime/check/host_execution.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/index_check_graphs.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/support/canned_fusions.h"

namespace sinter::index_checks_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A pick along the last axis, beside a reduction over it, without which it has no kernel.
ValueId picked(FusionBuilder& b, ValueId x, ValueId index) {
  const ValueId pick = b.take(x, index, -1);
  return b.add(pick, b.reduce(ReduceFn::kSum, x, {-1}));
}

/// What a graph of one take must report, found without the library's help.
std::vector<OutsideIndices> expected_of(const Fusion& fusion, const HostTensor& labels,
                                        int64_t limit, size_t input = 1) {
  const ValueId index = fusion.inputs[input];
  OutsideIndices found{.take = take_of(fusion),
                       .index = index,
                       .name = fusion.values[index].name,
                       .limit = limit,
                       .looked_at = labels.count()};
  for (int64_t i = labels.count(); i-- > 0;) {
    const int64_t label = labels.get_integer(i);
    if (label >= 0 && label < limit) continue;
    ++found.outside;
    found.first = label;
    found.position = labels.index_of(i);
  }
  return found.outside > 0 ? std::vector{found} : std::vector<OutsideIndices>{};
}

struct FamilyCase {
  std::string name;
  Fusion fusion;
  std::string family;
  std::function<bool(const Schedule&)> is_meant = [](const Schedule&) { return true; };
  friend void PrintTo(const FamilyCase& test, std::ostream* out) { *out << test.name; }
};

std::vector<FamilyCase> family_cases() {
  const auto is_cluster = [](const Schedule& schedule) { return schedule.cluster_size() > 1; };
  const auto is_tiled = [](const Schedule& schedule) { return schedule.rows_per_tile() > 1; };
  const auto has_last_block_finish = [](const Schedule& schedule) {
    return schedule.finish == Finish::kLastBlock;
  };
  return {{"MultiWave", losses_and_probabilities(), "multi_wave"},
          {"MultiWaveOfI32", losses_and_probabilities(DType::kI32), "multi_wave"},
          {"Clusters", losses_and_probabilities(), "multi_wave", is_cluster},
          {"Looped", cross_entropy_fusion(), "looped"},
          {"LoopedOfI32", cross_entropy_fusion(DType::kI32), "looped"},
          {"Rings", losses_and_column_sums(), "warp_specialised"},
          {"MultiWaveWithColumns", losses_and_column_sums(), "multi_wave"},
          {"Tiles", losses_and_column_sums(), "looped", is_tiled},
          {"Tickets", losses_and_column_sums(), "multi_wave", has_last_block_finish}};
}

class IndexChecksOfFamilies : public ::testing::TestWithParam<FamilyCase> {};

TEST_P(IndexChecksOfFamilies, AreRightWhateverTheSchedule) {
  constexpr int64_t kRows = 43;
  constexpr int64_t kColumns = 2048;
  const Fusion& fusion = GetParam().fusion;
  const auto planned =
      checked_plan(fusion, {{"rows", kRows}, {"cols", kColumns}}, {.family = GetParam().family});
  ASSERT_TRUE(planned) << planned.error().text();
  const bool wide = fusion.values[fusion.inputs[1]].type == DType::kI64;
  const int64_t most = wide ? kFarAbove : std::numeric_limits<int32_t>::max();
  const auto inputs = inputs_with(fusion, planned->binding,
                                  {{2, kColumns}, {3, -1}, {7, most}, {42, -most - 1}, {9, 0}});
  std::vector<Schedule> schedules;
  for (const ProposedSchedule& candidate : planned->kernels.front().candidates)
    schedules.push_back(candidate.schedule);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const auto drawn = random_schedule(planned->kernels.front().facts, planned->limits,
                                       builtin_families(), seed, GetParam().family);
    if (drawn) schedules.push_back(drawn->schedule);
  }
  std::erase_if(schedules, [](const Schedule& schedule) { return !GetParam().is_meant(schedule); });
  ASSERT_FALSE(schedules.empty());
  // The best, and others over the whole list.
  const size_t step = std::max<size_t>(schedules.size() / 6, 1);
  for (size_t i = 0; i < schedules.size(); i += step) {
    SCOPED_TRACE(print(schedules[i]));
    const auto run = check_on_host(fusion, planned->binding, *planned, schedules[i], inputs,
                                   builtin_families(), {.seed = i});
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->passed()) << run->text();
    EXPECT_EQ(run->outside, expected_of(fusion, inputs[1], kColumns));
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, IndexChecksOfFamilies, ::testing::ValuesIn(family_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(IndexChecks, TheChosenPlanIsRightAtManyWidths) {
  const Fusion fusion = cross_entropy_fusion();
  for (const int64_t columns : {1, 2, 33, 1000, 4096, 40000}) {
    SCOPED_TRACE(columns);
    const auto planned = checked_plan(fusion, {{"rows", 5}, {"cols", columns}});
    ASSERT_TRUE(planned) << planned.error().text();
    const auto inputs = inputs_with(fusion, planned->binding, {{4, columns}, {1, kFarBelow}});
    const auto run = check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->passed()) << run->text();
    EXPECT_EQ(run->outside, expected_of(fusion, inputs[1], columns));
  }
}

TEST(IndexChecks, EveryIndexThatIsInsideReportsNothing) {
  const Fusion fusion = cross_entropy_fusion();
  const auto planned = checked_plan(fusion, {{"rows", 4}, {"cols", 64}}).value();
  const auto inputs = inputs_with(fusion, planned.binding, {{0, 0}, {1, 63}});
  const auto run = execute_on_host(planned, inputs, builtin_families()).value();
  EXPECT_THAT(run.outside, IsEmpty());
  ASSERT_EQ(run.kept_indices.size(), 1U);
  EXPECT_EQ(run.kept_indices[0].get_integer(1), 63);
}

/// Bits that a label must keep on its way to the report.
TEST(IndexChecks, BoundsAreExactAround31And63Bits) {
  FusionBuilder b("picks");
  const Extent rows = b.symbol("rows");
  const ValueId x = b.input(DType::kF32, {rows, 7}, "x");
  b.output(picked(b, x, b.input(DType::kI64, {rows}, "labels")), "y");
  const Fusion fusion = b.build();
  const int64_t bit31 = int64_t{1} << 31;
  const int64_t bit32 = int64_t{1} << 32;
  for (const int64_t label : {int64_t{7}, int64_t{-1}, bit31 - 1, bit31, -bit31, bit32, bit32 + 3,
                              -bit32 + 3, (int64_t{1} << 53) + 1, kFarAbove, kFarBelow}) {
    SCOPED_TRACE(label);
    const auto planned = checked_plan(fusion, {{"rows", 3}}).value();
    const auto inputs = inputs_with(fusion, planned.binding, {{0, 6}, {1, label}, {2, 0}});
    const auto run = check_on_host(fusion, planned.binding, planned, inputs, builtin_families());
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->passed()) << run->text();
    ASSERT_EQ(run->outside.size(), 1U);
    EXPECT_EQ(run->outside[0].first, label);
    EXPECT_EQ(run->outside[0].position, (Sizes{1}));
    EXPECT_EQ(run->outside[0].outside, 1);
  }
}

TEST(IndexChecks, SeveralTakesAreToldApart) {
  // Two share an index, the third computes its own, which is an output too, and nothing needs the
  // fourth.
  FusionBuilder b("many");
  const Extent rows = b.symbol("rows");
  const ValueId x = b.input(DType::kF32, {rows, 9}, "x");
  const ValueId z = b.input(DType::kF32, {rows, 9}, "z");
  const ValueId labels = b.input(DType::kI32, {rows}, "labels");
  const ValueId moved = b.add(labels, b.constant_integer(2, DType::kI32));
  b.output(picked(b, x, labels), "a");
  b.output(picked(b, z, labels), "b");
  b.output(picked(b, x, moved), "c");
  b.take(z, moved, 1);
  b.output(moved, "moved");
  const Fusion fusion = b.build();
  const auto planned = checked_plan(fusion, {{"rows", 6}});
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_EQ(planned->index_checks.size(), 3U);
  EXPECT_EQ(planned->kept_indices().size(), 2U);
  EXPECT_EQ(planned->caller_outputs().size(), 4U);
  const auto inputs =
      inputs_with(fusion, planned->binding, {{0, 4}, {1, 6}, {2, 7}, {3, 0}, {4, -1}, {5, 8}}, 2);
  const auto run = check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
  ASSERT_TRUE(run) << run.error().text();
  EXPECT_TRUE(run->passed()) << run->text();
  const OutsideIndices a{take_of(fusion, 0), labels, "labels", {4}, -1, 9, 1, 6};
  const OutsideIndices second{take_of(fusion, 1), labels, "labels", {4}, -1, 9, 1, 6};
  const OutsideIndices c{take_of(fusion, 2), moved, "moved", {2}, 9, 9, 2, 6};
  EXPECT_THAT(run->outside, ::testing::ElementsAre(a, second, c));
}

TEST(IndexChecks, AxesThatAreOptimisedAwayAreChecked) {
  // Of one element the simplified graph takes nothing any more; and of none there is nothing.
  for (const int64_t columns : {1, 0}) {
    SCOPED_TRACE(columns);
    FusionBuilder b("narrow");
    const ValueId x = b.input(DType::kF32, {4, columns}, "x");
    b.output(picked(b, x, b.input(DType::kI64, {4}, "labels")), "y");
    const Fusion fusion = b.build();
    const auto planned = checked_plan(fusion, {});
    ASSERT_TRUE(planned) << planned.error().text();
    const auto inputs = inputs_with(fusion, planned->binding, {{0, 0}, {1, 1}, {2, 0}, {3, -1}});
    const auto run = check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->passed()) << run->text();
    EXPECT_EQ(run->outside, expected_of(fusion, inputs[1], columns));
  }
}

TEST(IndexChecks, PositionsHaveAllAxes) {
  FusionBuilder b("tokens");
  const ValueId x = b.input(DType::kBF16, {2, 3, 16}, "x");
  b.output(picked(b, x, b.input(DType::kI64, {2, 3}, "labels")), "y");
  const Fusion fusion = b.build();
  const auto planned = checked_plan(fusion, {}).value();
  const auto inputs = inputs_with(fusion, planned.binding, {{4, 16}, {5, -7}});
  const auto run = execute_on_host(planned, inputs, builtin_families()).value();
  ASSERT_EQ(run.outside.size(), 1U);
  EXPECT_EQ(run.outside[0].position, (Sizes{1, 1}));
  const Error error = outside_error(run.outside);
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message,
            "the index 16 at [1, 1] of %v1 'labels' is outside of the 16 elements that %v2 takes "
            "from");
  EXPECT_EQ(error.values, (std::vector{ValueId{2}, ValueId{1}}));
  EXPECT_EQ(error.measured, 16);
  EXPECT_EQ(error.limit, 16);
  EXPECT_THAT(error.remedy, HasSubstr("from 0 to 15"));
  EXPECT_EQ(error.log,
            "of %v2, 2 of 6 indices %v1 'labels' are outside of the 16 elements of the axis, first "
            "16 at [1, 1]");
}

TEST(IndexChecks, AMeanLossInSeveralKernelsIsChecked) {
  FusionBuilder b("mean_loss");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId logits = b.input(DType::kBF16, {rows, cols}, "logits");
  const ValueId labels = b.input(DType::kI64, {rows}, "labels");
  b.output(b.reduce(ReduceFn::kSum, cross_entropy(b, logits, labels), {0}), "loss");
  const Fusion fusion = b.build();
  for (const int64_t rows_now : {1, 6, 300}) {
    SCOPED_TRACE(rows_now);
    const auto planned = checked_plan(fusion, {{"rows", rows_now}, {"cols", 128}});
    ASSERT_TRUE(planned) << planned.error().text();
    const auto inputs = inputs_with(fusion, planned->binding, {{rows_now - 1, 128}});
    const auto run = check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->passed()) << run->text();
    EXPECT_EQ(run->outside, expected_of(fusion, inputs[1], 128));
  }
}

TEST(IndexChecks, WithoutTheOptionNothingChanges) {
  const Fusion fusion = cross_entropy_fusion();
  const auto planned = plan(fusion, {{"rows", 64}, {"cols", 1024}}, *find_device("H200"),
                            {.families = builtin_families()})
                           .value();
  EXPECT_FALSE(planned.checks_indices);
  EXPECT_THAT(planned.index_checks, IsEmpty());
  EXPECT_EQ(planned.fusion.outputs.size(), 1U);
  const auto checked = checked_plan(fusion, {{"rows", 64}, {"cols", 1024}}).value();
  EXPECT_EQ(checked.workspace_bytes - planned.workspace_bytes, 64 * 8);
  EXPECT_EQ(checked.fusion.outputs.size(), 2U);
  ASSERT_EQ(checked.kernels.size(), 1U) << "labels cost no further kernel";
}

TEST(IndexChecks, TheEmittedKernelStoresWhatItTakesWith) {
  const Fusion fusion = cross_entropy_fusion();
  const ExtentValues extents{{"rows", 64}, {"cols", 1024}};
  const auto source_of = [](const Plan& planned) {
    const KernelPlan& kernel = planned.kernels.front();
    return emit(kernel.facts, kernel.chosen().schedule).value();
  };
  const KernelSource checked = source_of(checked_plan(fusion, extents).value());
  const KernelSource plain = source_of(
      plan(fusion, extents, *find_device("H200"), {.families = builtin_families()}).value());
  ASSERT_EQ(checked.buffers.size(), plain.buffers.size() + 1);
  EXPECT_EQ(checked.buffers.back().type, DType::kI64);
  EXPECT_EQ(checked.buffers.back().use, BufferUse::kWrite);
  for (const char* line :
       {"labels_3 = load_global(labels + row);\n", "long long v10_stored = labels_3;\n",
        "store_global(v10_out + row, v10_stored);\n"})
    EXPECT_THAT(checked.text, HasSubstr(line));
  EXPECT_THAT(plain.text, ::testing::Not(HasSubstr("v10")));
}

TEST(IndexChecks, NvrtcTakesTheKernels) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  for (const Fusion& fusion :
       {cross_entropy_fusion(DType::kI32), losses_and_probabilities(), losses_and_column_sums()}) {
    KernelCache cache({});
    const auto compiled = compile_plan(
        checked_plan(fusion, {{"rows", 4000}, {"cols", 4096}}).value(), *compiler, cache);
    EXPECT_TRUE(compiled) << compiled.error().text();
  }
}

}  // namespace sinter::index_checks_test
