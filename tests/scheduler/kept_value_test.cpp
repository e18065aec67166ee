#include "scheduler/analysis/kept_value.h"

#include <gtest/gtest.h>

#include "scheduler/schedule/schedule.h"

namespace sinter::kept_value_test {

constexpr Residency kAll[] = {Residency::kRegister, Residency::kShared, Residency::kReload};

TEST(KeptValueTest, OnlyWhatIsLoadedAgainIsNotKept) {
  for (const Residency residency : kAll)
    EXPECT_EQ(is_kept({ValueId{0}, residency}), residency != Residency::kReload);
}

TEST(KeptValueTest, SchedulesReadItsTextBack) {
  for (const Residency residency : kAll) {
    SCOPED_TRACE(text_of(residency));
    Schedule schedule{.family = "looped", .kept = {{ValueId{3}, residency}}};
    const auto parsed = parse_schedule(print(schedule));
    ASSERT_TRUE(parsed) << parsed.error().text();
    EXPECT_EQ(parsed->kept, schedule.kept);
  }
  EXPECT_FALSE(parse_schedule("schedule looped { keep %v3 in cache }"));
}

}  // namespace sinter::kept_value_test
