// Lowering ends where the caller or the time says so; otherwise its kernels are the same.

#include "codegen/lower/interruptible_lowering.h"

#include <gmock/gmock.h>

#include "codegen/cuda/emit.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::interruptible_lowering_test {

using testing::HasSubstr;

const Schedule kRows = parsed_schedule("schedule looped { threads_per_row 64 vector_width 4 }");

TEST(InterruptibleLoweringTest, KernelsStayTheSame) {
  const SegmentFacts facts = canned_facts("softmax", 64, 512);
  std::vector<std::string> asked;
  const FamilySet families =
      interruptible_lowering(builtin_families(), {.progress = [&](const Progress& progress) {
                               EXPECT_EQ(progress.stage, Progress::Stage::kCompile);
                               asked.emplace_back(progress.family);
                               return true;
                             }});
  EXPECT_EQ(lower(facts, kRows, families).value().kernel, lower(facts, kRows).value().kernel);
  EXPECT_THAT(asked, testing::ElementsAre("looped"));
}

TEST(InterruptibleLoweringTest, EndsWithTheErrorOfItsReason) {
  const SegmentFacts facts = canned_facts("softmax", 64, 512);
  const auto cancelled =
      lower(facts, kRows,
            interruptible_lowering(builtin_families(),
                                   {.progress = [](const Progress&) { return false; }}));
  ASSERT_FALSE(cancelled.has_value());
  EXPECT_EQ(cancelled.error().kind, ErrorKind::kCancelled);
  const auto late = lower(
      facts, kRows,
      interruptible_lowering(builtin_families(), {.deadline = std::chrono::steady_clock::now()}));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(late.error().message, HasSubstr("after 0 lowered kernel(s)"));
}

/// A family without a lowering does not get one.
TEST(InterruptibleLoweringTest, FamiliesThatOnlyScheduleStayWithoutALowering) {
  for (const Family& family : interruptible_lowering(scheduling_families(), {}))
    EXPECT_FALSE(family.lower) << family.name;
}

}  // namespace sinter::interruptible_lowering_test
