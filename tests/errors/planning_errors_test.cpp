// Mistakes in calls of plan() and lower(): fusions edited by hand, pins that nothing meets.

#include <gmock/gmock.h>

#include <limits>

#include "codegen/cuda/emit.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/errors/error_expectations.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/plan_matchers.h"

namespace sinter::planning_errors_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const ExtentValues kMatrix = {{"rows", 64}, {"cols", 4096}};

Result<Plan> plan_pinned(std::string_view name, const Schedule& schedule,
                         const ExtentValues& extents = kMatrix) {
  return plan_canned(name, extents, "H200", {.pin = {.schedule = schedule}});
}

Schedule looped() {
  return {.family = "looped",
          .parameters = LoopedParameters{},
          .threads_per_row = 128,
          .vector_width = 4,
          .unroll = 2};
}

/// The value that a softmax keeps.
ValueId kept_by_softmax() {
  return plan_canned("softmax", kMatrix, "H200")->kernels.front().facts.kept.front();
}

/// 32-bit integers count the vectors of a row that a thread takes.
TEST(PlanningError, RowsOfMoreVectorsThanAreCounted) {
  for (const char* name : {"layer_norm", "softmax", "many_live_tiles"}) {
    const auto planned = plan_canned(name, {{"rows", 5}, {"cols", (int64_t{1} << 44) - 1}}, "H200");
    ASSERT_FALSE(planned) << name;
    EXPECT_EQ(planned.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(planned.error().text(), HasSubstr("a thread takes more vectors of a row"));
  }
}

/// No kernel writes the output into the memory of the input, nor copies it there: the copy is not
/// copied in turn.
TEST(PlanningError, AnUpdateInPlaceThatIsTooLargeToCopy) {
  FusionBuilder b("update");
  const int64_t rows = (int64_t{1} << 48) + 1;
  const ValueId x = b.input(DType::kF32, {rows, 1}, "x");
  const ValueId y = b.input(DType::kF16, {rows, 1}, "y");
  const ValueId total = b.sum(b.cast(y, DType::kF32), {0, 1});
  b.output(b.sub(x, total), "shifted");
  b.output(b.cast(b.cast(x, DType::kF16), DType::kF32), "rounded", {.alias = x});
  const auto planned = plan(b.build(), {}, *find_device("H200"));
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(planned.error().text(), HasSubstr("more elements than a device could hold"));
}

TEST(PlanningError, AFusionEditedIntoNonsense) {
  Fusion fusion = find_canned_fusion("softmax")->build();
  const ValueId output = fusion.outputs.front();
  fusion.values[output].shape = {7};
  const auto planned = plan(fusion, kMatrix, *find_device("H200"));
  expect_error(planned, {.kind = ErrorKind::kInvalidFusion,
                         .text = "breaks 1 invariant(s)",
                         .values = {output},
                         .ops = {fusion.values[output].def}});
  EXPECT_THAT(planned.error().log, HasSubstr("but the value is bf16[7]"));
}

// The builder and the parser name only values that exist, so what they make has no cycles. A graph
// that was edited by hand can have one, and is refused like any other nonsense.
TEST(PlanningError, AFusionEditedIntoACycle) {
  FusionBuilder b("cycle");
  const ValueId x = b.input(DType::kF32, {8, 64}, "x");
  const ValueId first = b.exp(x);
  const ValueId called = b.external("call", {first}, {{DType::kF32, {8, 64}}})[0];
  const ValueId last = b.neg(called);
  b.output(last);
  Fusion fusion = b.build();
  fusion.ops[fusion.values[first].def].operands = {last};
  const auto planned = plan(fusion, {}, *find_device("H200"));
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().kind, ErrorKind::kInvalidFusion);
  EXPECT_THAT(planned.error().log, HasSubstr("is not the result of an earlier op"));
}

TEST(PlanningError, ACallWhoseResultsAreTooLargeForAnySize) {
  FusionBuilder b("large");
  const Extent n = b.symbol("n");
  const Extent m = b.symbol("m");
  const ValueId y = b.external("call", {}, {{DType::kF32, {n, m}}})[0];
  b.output(y);
  const int64_t many = int64_t{1} << 32;
  expect_error(plan(b.build(), {{"n", many}, {"m", many}}, *find_device("H200")),
               {.kind = ErrorKind::kInvalidArgument,
                .text = "a tensor of sizes [4294967296, 4294967296] reaches over more than 2^63",
                .values = {y}});
  expect_error(plan(b.build(), {{"n", -1}, {"m", 1}}, *find_device("H200")),
               {.kind = ErrorKind::kInvalidArgument,
                .text = "the size of symbol 'n' is negative",
                .measured = -1,
                .limit = 0});
}

TEST(PlanningError, AFusionWithAShapeOfNoSymbol) {
  Fusion fusion = find_canned_fusion("softmax")->build();
  const ValueId input = fusion.inputs.front();
  fusion.values[input].shape[0] = Extent(SymbolId{77});
  const auto planned = plan(fusion, kMatrix, *find_device("H200"));
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().kind, ErrorKind::kInvalidFusion);
  EXPECT_THAT(planned.error().log, HasSubstr("extent $77 is not a symbol of this fusion"));
}

TEST(PlanningError, WhatNoFamilyTakesListsEveryFamilysReason) {
  // All columns of the second sum are the same.
  FusionBuilder b("repeated");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kF32, {rows, cols});
  const ValueId w = b.input(DType::kF32, {rows});
  b.output(b.sum(x, {0}));
  b.output(b.sum(b.broadcast(w, {rows, cols}, {0}), {0}));
  // A pin is for one kernel, so the graph is not cut.
  const auto planned = plan(b.build(), kMatrix, *find_device("H200"), {.pin = {.vector_width = 4}});
  expect_error(planned, {.kind = ErrorKind::kUnsupported,
                         .text = "no schedule family takes the fusion 'repeated'",
                         .values = {ValueId{4}}});
  for (const Family& family : scheduling_families()) {
    if (family.contracts) continue;  // Not asked: the graph contracts nothing.
    EXPECT_THAT(planned.error().log, HasSubstr("  " + family.name + ": "));
    EXPECT_THAT(planned.error().remedy, Not(HasSubstr(family.name))) << "which refuses as well";
  }
}

TEST(PlanningError, NoFamiliesAtAll) {
  expect_error(plan_canned("softmax", kMatrix, "H200", {.families = {}}),
               {.kind = ErrorKind::kUnsupported, .text = "no schedule family takes the fusion"});
}

TEST(PlanningError, APinnedFamilyThatDoesNotExist) {
  Schedule schedule = looped();
  schedule.family = "spiral";
  expect_error(plan_pinned("softmax", schedule),
               {.kind = ErrorKind::kInvalidArgument,
                .text = "names the family 'spiral', which is not in the set"});
}

TEST(PlanningError, APinnedFamilyThatDoesNotTakeTheFusion) {
  Schedule schedule = looped();
  schedule.family = "pointwise";
  schedule.parameters = NoParameters{};
  expect_error(plan_pinned("softmax", schedule), {.kind = ErrorKind::kResourceExhausted,
                                                  .text = "pointwise: the segment reduces",
                                                  .measured = 1,
                                                  .limit = 0});
}

TEST(PlanningError, APinnedScheduleOfTooManyThreads) {
  Schedule schedule = looped();
  schedule.rows_per_block = 16;
  expect_error(plan_pinned("softmax", schedule),
               {.kind = ErrorKind::kResourceExhausted,
                .text = "looped: the rows of a block take more threads than the device runs",
                .values = {kept_by_softmax()},
                .measured = 16,
                .limit = 8});
}

TEST(PlanningError, APinnedScheduleOfHalfAWarp) {
  Schedule schedule = looped();
  schedule.threads_per_row = 16;
  expect_error(plan_pinned("softmax", schedule), {.kind = ErrorKind::kResourceExhausted,
                                                  .text = "the block is not made of whole warps",
                                                  .measured = 16,
                                                  .limit = 32});
}

TEST(PlanningError, APinnedClusterOfThreeBlocks) {
  Schedule schedule = looped();
  schedule.parameters = LoopedParameters{.cluster_size = 3};
  expect_error(plan_pinned("softmax", schedule),
               {.kind = ErrorKind::kResourceExhausted,
                .text = "the blocks of a cluster are no power of two, or more than the device runs",
                .measured = 3,
                .limit = kMostClusterBlocks});
}

TEST(PlanningError, APinnedScheduleWithParametersOfAnotherFamily) {
  for (const FamilyParameters& parameters :
       {FamilyParameters{NoParameters{}}, FamilyParameters{MultiWaveParameters{}},
        FamilyParameters{WarpSpecialisedParameters{.pipeline_stages = 4}},
        FamilyParameters{ExternalParameters{{{"stages", 4}}}}}) {
    Schedule schedule = looped();
    schedule.parameters = parameters;
    expect_error(plan_pinned("softmax", schedule),
                 {.kind = ErrorKind::kResourceExhausted,
                  .text = "looped: the parameters are those of another family"});
  }
}

TEST(PlanningError, APinnedPointwiseScheduleOfBlocksThatStay) {
  const Schedule schedule{
      .family = "pointwise", .threads_per_row = 128, .vector_width = 8, .persistent_blocks = 264};
  expect_error(plan_pinned("swiglu", schedule), {.kind = ErrorKind::kResourceExhausted,
                                                 .text = "pointwise blocks do not stay",
                                                 .measured = 264,
                                                 .limit = 0});
}

TEST(PlanningError, APinnedClusterOnADeviceWithoutAny) {
  Schedule schedule = looped();
  schedule.parameters = LoopedParameters{.cluster_size = 2};
  expect_error(plan_canned("softmax", kMatrix, "A100", {.pin = {.schedule = schedule}}),
               {.kind = ErrorKind::kResourceExhausted,
                .text = "the device has no thread-block clusters",
                .measured = 8,
                .limit = 9});
}

TEST(PlanningError, APinnedThreadCountThatIsNoPowerOfTwo) {
  Schedule schedule = looped();
  schedule.threads_per_row = 96;
  expect_error(plan_pinned("softmax", schedule),
               {.kind = ErrorKind::kResourceExhausted,
                .text = "threads per row must be a power of two within the block limit",
                .measured = 96,
                .limit = 1024});
}

TEST(PlanningError, APinnedScheduleOfAbsurdNumbers) {
  Schedule schedule = looped();
  schedule.threads_per_row = std::numeric_limits<int64_t>::max();
  schedule.rows_per_block = std::numeric_limits<int64_t>::min();
  schedule.min_blocks_per_sm = -1;
  expect_error(plan_pinned("softmax", schedule),
               {.kind = ErrorKind::kResourceExhausted,
                .text = "threads per row must be a power of two within the block limit",
                .values = {kept_by_softmax()},
                .measured = std::numeric_limits<int64_t>::max(),
                .limit = 1024});
}

TEST(PlanningError, APinnedScheduleBeyondTheRegisters) {
  // A row of 8,192 bytes per thread.
  const Schedule schedule = {.family = "multi_wave",
                             .parameters = MultiWaveParameters{},
                             .threads_per_row = 32,
                             .rows_per_block = 1,
                             .vector_width = 8,
                             .kept = {{kept_by_softmax(), Residency::kRegister}}};
  const auto planned = plan_pinned("softmax", schedule, {{"rows", 64}, {"cols", 32768}});
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(planned.error().message, HasSubstr("multi_wave: a"));
  ASSERT_TRUE(planned.error().measured && planned.error().limit);
  EXPECT_GT(*planned.error().measured, *planned.error().limit);
  EXPECT_NE(planned.error().remedy, "");
}

TEST(PlanningError, APinnedScheduleBeyondSharedMemory) {
  const Schedule schedule = {.family = "multi_wave",
                             .parameters = MultiWaveParameters{},
                             .threads_per_row = 256,
                             .rows_per_block = 4,
                             .vector_width = 4,
                             .kept = {{kept_by_softmax(), Residency::kShared}}};
  const auto planned = plan_pinned("softmax", schedule, {{"rows", 64}, {"cols", 65536}});
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(planned.error().message,
              HasSubstr("the block needs more shared memory than the device offers"));
  EXPECT_GE(planned.error().measured, 4 * 65536 * 2);
  EXPECT_EQ(planned.error().limit, find_device("H200")->shared_bytes_per_block);
  EXPECT_NE(planned.error().remedy, "");
}

TEST(PlanningError, APinnedValueThatTheFusionDoesNotHave) {
  Schedule schedule = looped();
  schedule.family = "multi_wave";
  schedule.parameters = MultiWaveParameters{};
  schedule.kept = {{ValueId{4000}, Residency::kShared}};
  expect_error(plan_pinned("softmax", schedule), {.kind = ErrorKind::kResourceExhausted,
                                                  .text = "a persistent value is not in the fusion",
                                                  .values = {ValueId{4000}}});
}

TEST(PlanningError, APinnedValueThatALoopedScheduleCannotKeep) {
  Schedule schedule = looped();
  const ValueId kept = kept_by_softmax();
  schedule.kept = {{kept, Residency::kShared}};
  expect_error(plan_pinned("softmax", schedule),
               {.kind = ErrorKind::kResourceExhausted,
                .text = "a looped schedule keeps nothing resident",
                .values = {kept}});
}

TEST(PlanningError, APinnedVectorThatDoesNotDivideTheRow) {
  expect_error(plan_pinned("softmax", looped(), {{"rows", 64}, {"cols", 4097}}),
               {.kind = ErrorKind::kResourceExhausted,
                .text = "the row is not a multiple of the vector",
                .measured = 1,
                .limit = 0});
}

TEST(PlanningError, APartialPinThatNobodyMeets) {
  const auto planned =
      plan_canned("softmax", kMatrix, "H200", {.pin = {.family = "looped", .threads_per_row = 3}});
  expect_error(planned, {.kind = ErrorKind::kResourceExhausted,
                         .text = "legal schedules has the pinned family looped, threads_per_row 3",
                         .values = planned ? std::vector<ValueId>{} : planned.error().values});
}

TEST(PlanningError, APartialPinSaysWhatThereIsInstead) {
  const auto planned =
      plan_canned("softmax", kMatrix, "H200", {.pin = {.threads_per_row = 3, .vector_width = 8}});
  ASSERT_FALSE(planned);
  EXPECT_THAT(planned.error().remedy, ContainsRegex("^pin threads_per_row to one of .*256, 512"));
  EXPECT_THAT(planned.error().remedy, Not(HasSubstr("vector_width"))) << "some schedule has it";
}

TEST(PlanningError, APartialPinOfAFamilyThatDoesNotExist) {
  const auto planned = plan_canned("softmax", kMatrix, "H200", {.pin = {.family = "spiral"}});
  expect_error(planned, {.kind = ErrorKind::kInvalidArgument,
                         .text = "the pinned family 'spiral' is not in the set"});
  for (const Family& family : scheduling_families())
    EXPECT_THAT(planned.error().remedy, HasSubstr(family.name));
}

TEST(PlanningError, AResidencyPinnedWhereNothingIsKept) {
  expect_error(plan_canned("row_sum", kMatrix, "H200", {.pin = {.residency = Residency::kShared}}),
               {.kind = ErrorKind::kResourceExhausted, .text = "has the pinned residency shared"});
}

TEST(PlanningError, AScheduleAndAFieldThatContradictEachOther) {
  const Schedule schedule = looped();
  const auto with = [&](SchedulePin pin) {
    pin.schedule = schedule;
    return plan_canned("softmax", kMatrix, "H200", {.pin = std::move(pin)});
  };
  EXPECT_TRUE(with({.family = "looped", .threads_per_row = 128}));
  for (const SchedulePin& pin : {SchedulePin{.family = "multi_wave"},
                                 {.threads_per_row = 64},
                                 {.rows_per_block = 2},
                                 {.vector_width = 8},
                                 {.unroll = 4},
                                 {.residency = Residency::kShared}}) {
    expect_error(with(pin), {.kind = ErrorKind::kInvalidArgument,
                             .text = "does not have the " + pin.text() + " pinned beside it"});
  }
}

TEST(PlanningError, ARefusedPinStatesItsRemedyOnce) {
  Schedule schedule = looped();
  schedule.threads_per_row = 96;
  const auto planned = plan_pinned("softmax", schedule);
  ASSERT_FALSE(planned);
  EXPECT_THAT(planned.error().message, Not(HasSubstr(planned.error().remedy)));
}

TEST(PlanningError, APartialPinOfAFamilyThatDoesNotTakeTheFusion) {
  const auto planned = plan_canned("softmax", kMatrix, "H200", {.pin = {.family = "pointwise"}});
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(planned.error().message, HasSubstr("has the pinned family pointwise"));
  EXPECT_THAT(planned.error().log, HasSubstr("pointwise: the segment reduces"));
}

TEST(PlanningError, LoweringWithoutTheFamily) {
  const Plan planned = plan_canned("softmax", kMatrix, "H200").value();
  const KernelPlan& kernel = planned.kernels.front();
  expect_error(lower(kernel.facts, kernel.chosen().schedule, FamilySet{}),
               {.kind = ErrorKind::kUnsupported, .text = "is not in the set"});
}

TEST(PlanningError, LoweringByAFamilyThatOnlySchedules) {
  const Plan planned = plan_canned("softmax", kMatrix, "H200").value();
  const KernelPlan& kernel = planned.kernels.front();
  expect_error(lower(kernel.facts, kernel.chosen().schedule, scheduling_families()),
               {.kind = ErrorKind::kUnsupported, .text = "only schedules and cannot lower"});
}

TEST(PlanningError, ZeroExtentsAreNone) {
  for (const ExtentValues& extents : {ExtentValues{{"rows", 0}, {"cols", 64}},
                                      {{"rows", 64}, {"cols", 0}},
                                      {{"rows", 0}, {"cols", 0}}}) {
    for (const char* name : {"softmax", "layer_norm", "rms_norm"}) {
      const auto planned = plan_canned(name, extents, "H200", {.families = builtin_families()});
      ASSERT_TRUE(planned) << name << ": " << planned.error().text();
      const KernelPlan& kernel = planned->kernels.front();
      EXPECT_TRUE(emit(kernel.facts, kernel.chosen().schedule)) << name;
    }
  }
}

}  // namespace sinter::planning_errors_test
