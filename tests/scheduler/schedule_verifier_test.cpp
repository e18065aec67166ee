#include "scheduler/families/schedule_verifier.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"

namespace sinter::schedule_verifier_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ScheduleVerifierTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> reasons(const Schedule& schedule) const {
    return reasons_against(schedule, facts_, limits_);
  }
  [[nodiscard]] Schedule legal() const {
    return {.family = "multi_wave",
            .parameters = MultiWaveParameters{},
            .threads_per_row = 128,
            .vector_width = 8,
            .kept = {{x_, Residency::kRegister}}};
  }

  SegmentFacts facts_ =
      facts_of(find_canned_fusion("rms_norm")->build(), {{"rows", 64}, {"cols", 4096}});
  ValueId x_ = named_value(facts_.fusion, "x");
  DeviceLimits limits_ = *find_device("H200");
  FamilySet families_ = scheduling_families();
};

TEST_F(ScheduleVerifierTest, AcceptsALegalSchedule) { EXPECT_THAT(reasons(legal()), IsEmpty()); }

TEST_F(ScheduleVerifierTest, NamesTheFamilyThatIsMissing) {
  Schedule schedule = legal();
  schedule.family = "tensor_cores";
  EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("no family of this name")));
}

TEST_F(ScheduleVerifierTest, ParametersOfAnotherFamilyAreRefused) {
  std::vector<FamilyParameters> alternatives = {ExternalParameters{}};
  for (const std::string_view name : builtin_family_names())
    alternatives.push_back(parameters_of_family(name));
  for (const Family& family : families_) {
    for (const FamilyParameters& parameters : alternatives) {
      if (parameters.index() == parameters_of_family(family.name).index()) continue;
      const Schedule schedule{.family = family.name, .parameters = parameters};
      EXPECT_THAT(reasons(schedule),
                  ElementsAre(HasSubstr("the parameters are those of another family")))
          << family.name << " " << parameters.index();
    }
  }
}

TEST_F(ScheduleVerifierTest, EveryFieldOutOfRangeIsRefused) {
  for (int64_t Schedule::*member :
       {&Schedule::threads_per_row, &Schedule::rows_per_block, &Schedule::vector_width,
        &Schedule::unroll, &Schedule::min_blocks_per_sm}) {
    for (const int64_t value :
         {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{1} << 40, int64_t{1} << 62, INT64_MAX}) {
      for (const char* family : {"multi_wave", "looped"}) {
        Schedule schedule = legal();
        schedule.family = family;
        schedule.parameters = parameters_of_family(family);
        if (schedule.family == "looped") schedule.kept.clear();
        schedule.*member = value;
        EXPECT_FALSE(reasons(schedule).empty()) << print(schedule);
      }
    }
  }
}

TEST_F(ScheduleVerifierTest, PointwiseRefusesFieldsOutOfRangeToo) {
  facts_ = facts_of(find_canned_fusion("swiglu")->build(), {{"rows", 63}, {"cols", 101}});
  EXPECT_THAT(reasons({.family = "pointwise", .vector_width = 8}), IsEmpty());
  for (const int64_t value :
       {int64_t{-8}, int64_t{0}, int64_t{3}, int64_t{32}, int64_t{1} << 62, INT64_MAX}) {
    EXPECT_THAT(reasons({.family = "pointwise", .vector_width = value}),
                ElementsAre(HasSubstr("power of two up to 16")));
  }
}

/// Only blocks that walk rows shift their vectors; others begin at the first element, whether it
/// lies on a boundary or 83 elements into a tensor.
TEST(UnalignedVectorsTest, AreForFamiliesThatShiftThem) {
  const DeviceLimits limits = *find_device("H100");
  const auto refused = [&](const Fusion& fusion, Schedule schedule) {
    schedule.row_access = RowAccess::kUnaligned;
    const SegmentFacts facts = facts_of(fusion);
    std::string out;
    for (const Rejection& rejection :
         verify_schedule(facts, schedule, limits, scheduling_families()))
      out += text_of(rejection);
    return out;
  };
  const auto slice = [](int64_t start, bool sums) {
    FusionBuilder b;
    const int64_t rows = sums ? 64 : 1;
    const ValueId x = b.input(DType::kBF16, {rows, start + 112}, "x");
    const ValueId part = b.slice(x, {0, start}, {rows, start + 112});
    const ValueId wide = b.cast(part, DType::kF32);
    b.output(sums ? b.sum(wide, {0}) : wide, "y");
    return b.build();
  };
  for (const int64_t start : {int64_t{0}, int64_t{83}, (int64_t{1} << 31) + 3}) {
    EXPECT_THAT(refused(slice(start, false), {.family = "pointwise",
                                              .threads_per_row = 32,
                                              .rows_per_block = 1,
                                              .vector_width = 8,
                                              .unroll = 3,
                                              .min_blocks_per_sm = 12}),
                HasSubstr("vectors begin at the first element"))
        << start;
    EXPECT_THAT(refused(slice(start, true), {.family = "column",
                                             .parameters = ColumnParameters{},
                                             .threads_per_row = 32,
                                             .rows_per_block = 8,
                                             .vector_width = 8,
                                             .unroll = 1,
                                             .min_blocks_per_sm = 1}),
                HasSubstr("vectors begin at the first element"))
        << start;
  }
}

TEST_F(ScheduleVerifierTest, ThreadsMustBeWholeWarpsAndPowersOfTwo) {
  Schedule schedule = legal();
  schedule.threads_per_row = 96;
  EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("power of two")));
  schedule.threads_per_row = 8;
  schedule.rows_per_block = 3;
  EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("whole warps")));
}

TEST_F(ScheduleVerifierTest, PromisedBlocksMustFitTheThreads) {
  Schedule schedule = legal();
  schedule.min_blocks_per_sm = 16;
  EXPECT_THAT(reasons(schedule), IsEmpty());
  schedule.min_blocks_per_sm = 17;
  EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("value 17, limit 16 blocks")));
}

TEST_F(ScheduleVerifierTest, BudgetsAreNamedWithNumbers) {
  Schedule schedule = legal();
  schedule.threads_per_row = 1;
  schedule.rows_per_block = 32;
  EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("too many batches to unroll")));
  schedule.kept.front().residency = Residency::kShared;
  EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("limit 232448 bytes")));
}

TEST_F(ScheduleVerifierTest, PersistentValuesExistAscendAndStandOnce) {
  Schedule schedule = legal();
  schedule.kept = {{ValueId{999}, Residency::kRegister}};
  EXPECT_THAT(reasons(schedule), testing::Contains(HasSubstr("not in the fusion")));
  schedule.kept = {{ValueId{}, Residency::kShared}};
  EXPECT_THAT(reasons(schedule), testing::Contains(HasSubstr("not in the fusion")));
  schedule.kept = {{x_, Residency::kRegister}, {x_, Residency::kShared}};
  EXPECT_THAT(reasons(schedule), testing::Contains(HasSubstr("one stands twice")));
}

TEST_F(ScheduleVerifierTest, AllReasonsAreGivenAtOnce) {
  Schedule schedule = legal();
  schedule.vector_width = 3;
  schedule.kept = {{x_, Residency::kRegister}, {x_, Residency::kRegister}};
  EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("stands twice"), HasSubstr("power of two")));
}

TEST_F(ScheduleVerifierTest, RefusesToKeepWhatNoLaterStageNeeds) {
  // The output is only made in the last stage.
  Schedule schedule = legal();
  schedule.kept.push_back({facts_.fusion.outputs[0], Residency::kRegister});
  EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("no later stage needs")));
  // Its f32 copy takes the place of the input, which is then needed no more.
  const auto users = users_of(facts_.fusion);
  const ValueId wide = facts_.fusion.ops[users[x_].front()].results.front();
  ASSERT_EQ(facts_.fusion.values[wide].type, DType::kF32);
  schedule.kept = {{wide, Residency::kRegister}};
  EXPECT_THAT(reasons(schedule), IsEmpty());
  schedule.kept = {{x_, Residency::kRegister}, {wide, Residency::kRegister}};
  EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("no later stage needs")));
}

TEST_F(ScheduleVerifierTest, ReloadIsForInputs) {
  Schedule schedule = legal();
  schedule.kept = {{x_, Residency::kReload}};
  EXPECT_THAT(reasons(schedule), IsEmpty());
  const auto users = users_of(facts_.fusion);
  schedule.kept = {{facts_.fusion.ops[users[x_].front()].results.front(), Residency::kReload}};
  EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("only inputs can be read again")));
}

TEST_F(ScheduleVerifierTest, KernelsOverlapWhereTheDeviceLetsThem) {
  Schedule schedule = legal();
  for (const DependentLaunch overlap : {DependentLaunch::kTrigger, DependentLaunch::kWait}) {
    schedule.dependent_launch = overlap;
    limits_ = *find_device("H200");
    EXPECT_THAT(reasons(schedule), IsEmpty());
    limits_ = *find_device("A100");
    EXPECT_THAT(reasons(schedule), ElementsAre(HasSubstr("before the one ahead of it has ended")));
  }
}

TEST_F(ScheduleVerifierTest, FindsHolesInStages) {
  const Schedule schedule = legal();
  const StageList sound = distribute(facts_, schedule.kept);
  EXPECT_EQ(check_stages(facts_, schedule, sound), std::nullopt);

  StageList no_load = sound;
  no_load.stages[0].loads.clear();
  EXPECT_THAT(text_of(check_stages(facts_, schedule, no_load).value()), HasSubstr("does not have"));
  StageList not_kept = sound;
  not_kept.stages[0].kept.clear();
  EXPECT_THAT(text_of(check_stages(facts_, schedule, not_kept).value()), HasSubstr("stage 1"));
  StageList too_early = sound;
  auto& first = too_early.stages[0].computed;
  const auto& last = sound.stages[1].computed;
  first.insert(first.end(), last.begin(), last.end());
  too_early.stages[0].loads.insert(too_early.stages[0].loads.end(), sound.stages[1].loads.begin(),
                                   sound.stages[1].loads.end());
  EXPECT_THAT(text_of(check_stages(facts_, schedule, too_early).value()),
              HasSubstr("reduction that comes later"));
}

TEST_F(ScheduleVerifierTest, FindsWrongBatches) {
  Schedule schedule = legal();  // A batch reaches 1024 of 4096 columns.
  const auto verdict = [&](std::vector<BatchSpan> spans) {
    const auto rejection = check_batches(facts_, schedule, spans);
    return rejection ? rejection->rule : "right";
  };
  EXPECT_EQ(verdict({{0, 4, Predication::kNone}}), "right");
  EXPECT_EQ(verdict({{0, 3, Predication::kNone}, {3, 4, Predication::kVector}}), "right");
  EXPECT_EQ(verdict({{0, 3, Predication::kNone}, {3, 4, Predication::kElement}}),
            "elements of a row's vectors are predicated one by one");
  EXPECT_EQ(verdict({{0, 3, Predication::kNone}}), "columns at the end of the row are in no batch");
  EXPECT_EQ(verdict({{0, 5, Predication::kNone}}), "an unpredicated batch ends past the row");
  EXPECT_EQ(verdict({{0, 2, Predication::kNone}, {1, 4, Predication::kNone}}),
            "batches are left out or repeated");
  EXPECT_EQ(verdict({{1, 4, Predication::kNone}}), "batches are left out or repeated");
  EXPECT_EQ(verdict({}), "columns at the end of the row are in no batch");
  schedule.row_access = RowAccess::kUnaligned;
  EXPECT_EQ(verdict({{0, 3, Predication::kNone}, {3, 4, Predication::kVector}}), "right");
  EXPECT_EQ(verdict({{0, 4, Predication::kNone}}), "an unpredicated batch ends past the row")
      << "seven elements may come before its first vector";
  EXPECT_EQ(verdict({{0, 3, Predication::kNone}}), "columns at the end of the row are in no batch");
  schedule.row_access = RowAccess::kAligned;
  schedule.vector_width = 3;
  EXPECT_EQ(verdict({{0, 11, Predication::kVector}}),
            "a vector that straddles the end of the row is predicated as a whole");
}

/// Whatever the fields hold, an answer comes back.
RC_GTEST_FIXTURE_PROP(ScheduleVerifierTest, AnySchedulesGetAnAnswer, ()) {
  const auto number = [] {
    return *rc::gen::oneOf(rc::gen::inRange<int64_t>(-2, 2050), rc::gen::arbitrary<int64_t>(),
                           rc::gen::element<int64_t>(INT64_MIN, INT64_MAX, int64_t{1} << 61));
  };
  const auto name = *rc::gen::element<std::string>("multi_wave", "looped", "pointwise");
  Schedule schedule{.family = name,
                    .parameters = parameters_of_family(name),
                    .threads_per_row = number(),
                    .rows_per_block = number(),
                    .vector_width = number(),
                    .unroll = number(),
                    .min_blocks_per_sm = number()};
  for (const uint32_t index : *rc::gen::container<std::vector<uint32_t>>(
           rc::gen::inRange<uint32_t>(0, static_cast<uint32_t>(facts_.fusion.values.size()) + 2))) {
    schedule.kept.push_back(
        {ValueId{index},
         *rc::gen::element(Residency::kRegister, Residency::kShared, Residency::kReload)});
  }
  const auto rejections = verify_schedule(facts_, schedule, limits_, families_);
  const Family* family = find_family(families_, schedule.family);
  RC_ASSERT(!rejections.empty() || family->estimate(facts_, schedule, limits_).has_value());
}

}  // namespace sinter::schedule_verifier_test
