// A pin is met by a schedule if every field that it names agrees, and its text has these fields.

#include "scheduler/plan/plan_options.h"

#include <gtest/gtest.h>

#include "tests/scheduler/facts_of.h"

namespace sinter::plan_options_test {

const Schedule kSchedule = parsed_schedule(R"(schedule multi_wave {
  threads_per_row 64  rows_per_block 2  vector_width 4  unroll 1
  keep %v0 in register
  keep %v1 in shared
})");

TEST(PlanOptionsTest, AnEmptyPinIsMetByAll) {
  EXPECT_TRUE(SchedulePin{}.matches(kSchedule));
  EXPECT_TRUE(SchedulePin{}.matches(Schedule{}));
  EXPECT_EQ(SchedulePin{}.text(), "");
}

TEST(PlanOptionsTest, EveryFieldHasToAgree) {
  const SchedulePin all{.family = "multi_wave",
                        .threads_per_row = 64,
                        .rows_per_block = 2,
                        .vector_width = 4,
                        .unroll = 1};
  EXPECT_TRUE(all.matches(kSchedule));
  for (auto SchedulePin::*field : {&SchedulePin::threads_per_row, &SchedulePin::rows_per_block,
                                   &SchedulePin::vector_width, &SchedulePin::unroll}) {
    SchedulePin other = all;
    other.*field = 16;
    EXPECT_FALSE(other.matches(kSchedule));
  }
  SchedulePin other = all;
  other.family = "looped";
  EXPECT_FALSE(other.matches(kSchedule));
}

TEST(PlanOptionsTest, AResidencyIsThatOfAllKeptValues) {
  Schedule schedule = kSchedule;
  const SchedulePin in_registers{.residency = Residency::kRegister};
  EXPECT_FALSE(in_registers.matches(schedule)) << "one is in shared memory";
  schedule.kept.pop_back();
  EXPECT_TRUE(in_registers.matches(schedule));
  schedule.kept.clear();
  EXPECT_FALSE(in_registers.matches(schedule)) << "no value is there";
}

TEST(PlanOptionsTest, TheTextHasTheFieldsThatAreSet) {
  EXPECT_EQ((SchedulePin{.family = "looped", .unroll = 2}).text(), "family looped, unroll 2");
  EXPECT_EQ((SchedulePin{.residency = Residency::kShared}).text(), "residency shared");
  EXPECT_EQ((SchedulePin{.threads_per_row = 8, .residency = Residency::kReload}).text(),
            "threads_per_row 8, residency reload");
}

}  // namespace sinter::plan_options_test
