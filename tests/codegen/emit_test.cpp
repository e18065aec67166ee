// From a schedule to code: which sets of families can lower, where the statements of a dependent
// launch stand, and that the code does not depend on the number of rows.

#include "codegen/cuda/emit.h"

#include <gmock/gmock.h>

#include "codegen/kernel/kernel_printer.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::emit_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const Schedule kRows = parsed_schedule(
    "schedule looped { threads_per_row 64 rows_per_block 2 vector_width 4 unroll 2 }");

TEST(EmitTest, EveryBuiltInFamilyLowers) {
  const FamilySet families = builtin_families();
  EXPECT_EQ(families.size(), scheduling_families().size());
  for (const Family& family : families) EXPECT_NE(family.lower, nullptr) << family.name;
}

TEST(EmitTest, RefusesFamiliesThatOnlySchedule) {
  const SegmentFacts facts = canned_facts("softmax", 64, 512);
  const auto unlowered = lower(facts, kRows, scheduling_families());
  ASSERT_FALSE(unlowered.has_value());
  EXPECT_EQ(unlowered.error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(unlowered.error().message, "the family 'looped' only schedules and cannot lower");
  const auto missing = emit(facts, kRows, {});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().message, "the family 'looped' is not in the set");
  EXPECT_THAT(missing.error().remedy, HasSubstr("builtin_families()"));
}

TEST(EmitTest, DependentLaunchesStandBeforeEverythingElse) {
  const SegmentFacts facts = canned_facts("softmax", 64, 512);
  const auto first_of = [&](DependentLaunch launch) {
    Schedule schedule = kRows;
    schedule.dependent_launch = launch;
    const kir::Kernel kernel = lower(facts, schedule).value().kernel;
    return kernel.stmts[kernel.body.front()].kind;
  };
  EXPECT_TRUE(std::holds_alternative<kir::LaunchDependents>(first_of(DependentLaunch::kTrigger)));
  EXPECT_TRUE(std::holds_alternative<kir::WaitForPrevious>(first_of(DependentLaunch::kWait)));
  EXPECT_TRUE(std::holds_alternative<kir::WaitForPrevious>(first_of(DependentLaunch::kRelay)));
  const kir::StmtKind none = first_of(DependentLaunch::kNone);
  EXPECT_FALSE(std::holds_alternative<kir::LaunchDependents>(none));
  EXPECT_FALSE(std::holds_alternative<kir::WaitForPrevious>(none));
}

TEST(EmitTest, OnlyAKernelThatWaitsStartsEarly) {
  const SegmentFacts facts = canned_facts("softmax", 64, 512);
  for (const DependentLaunch launch : {DependentLaunch::kNone, DependentLaunch::kTrigger,
                                       DependentLaunch::kWait, DependentLaunch::kRelay}) {
    Schedule schedule = kRows;
    schedule.dependent_launch = launch;
    EXPECT_EQ(emit(facts, schedule).value().starts_early, waits(launch));
  }
}

/// 7 rows, of which two share a block, and as many rows as a day has seconds.
TEST(EmitTest, CodeDoesNotDependOnTheNumberOfRows) {
  const KernelSource few = emit(canned_facts("softmax", 7, 512), kRows).value();
  KernelSource many = emit(canned_facts("softmax", 86400, 512), kRows).value();
  EXPECT_EQ(few.param_values[few.work_param], 7);
  EXPECT_EQ(many.param_values[many.work_param], 86400);
  EXPECT_EQ(few.work_per_block, 2);
  many.param_values = few.param_values;
  EXPECT_EQ(few, many);
  EXPECT_NE(few.text, emit(canned_facts("softmax", 7, 516), kRows).value().text);
}

TEST(EmitTest, TheEntryHasTheNameOfTheFusion) {
  SegmentFacts facts = canned_facts("softmax", 64, 512);
  facts.fusion.name = "for";
  const KernelSource source = emit(facts, kRows).value();
  EXPECT_EQ(source.entry, "v_for") << "a keyword";
  EXPECT_THAT(source.text, HasSubstr("\nv_for(const "));
  EXPECT_EQ(source.threads, 128);
}

}  // namespace sinter::emit_test
