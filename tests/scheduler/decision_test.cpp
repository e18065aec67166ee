// The text of a rejection has its rule, and of the number, the value and the remedy what there is.

#include "scheduler/analysis/decision.h"

#include <gtest/gtest.h>

namespace sinter::decision_test {

TEST(DecisionTest, ARejectionMayBeItsRuleAlone) {
  EXPECT_EQ(text_of({.subject = "column", .rule = "the segment has no columns"}),
            "column: the segment has no columns");
}

TEST(DecisionTest, NumbersAreShownWithTheirUnit) {
  Rejection rejection{.subject = "multi_wave",
                      .rule = "a thread's share of the row exceeds its registers",
                      .value = 300,
                      .limit = 255,
                      .unit = "registers",
                      .at = ValueId{3},
                      .remedy = "use more threads"};
  EXPECT_EQ(text_of(rejection),
            "multi_wave: a thread's share of the row exceeds its registers "
            "(value 300, limit 255 registers, %v3). Remedy: use more threads");
  rejection.at = {};
  rejection.value = 0.5;
  EXPECT_EQ(text_of(rejection),
            "multi_wave: a thread's share of the row exceeds its registers "
            "(value 0.5, limit 255 registers). Remedy: use more threads");
  rejection.unit = "";
  EXPECT_EQ(text_of(rejection),
            "multi_wave: a thread's share of the row exceeds its registers. "
            "Remedy: use more threads")
      << "numbers without a unit are none";
}

TEST(DecisionTest, ARuleWithoutNumbersNamesItsValue) {
  const Rejection rejection = rejected_at("segment", "a slice is no view", ValueId{7}, "");
  EXPECT_EQ(rejection.unit, "");
  EXPECT_EQ(text_of(rejection), "segment: a slice is no view (%v7)");
}

}  // namespace sinter::decision_test
