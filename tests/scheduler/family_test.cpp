// The built-in families: their order, what each of them can, and that each refuses at once what it
// never runs.

#include "scheduler/families/family.h"

#include <gmock/gmock.h>

#include "scheduler/schedule/family_names.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::family_test {

using testing::UnorderedElementsAre;

/// The names of the families for which `is_meant` is true.
std::vector<std::string> names_of(const std::function<bool(const Family&)>& is_meant) {
  std::vector<std::string> out;
  for (const Family& family : scheduling_families()) {
    if (is_meant(family)) out.push_back(family.name);
  }
  return out;
}

// A library is offered where the caller asks for it.
TEST(FamilyTest, TheSetHasTheBuiltInFamiliesInTheirOrder) {
  std::vector<std::string_view> expected = builtin_family_names();
  ASSERT_EQ(expected.back(), kCublasLt);
  expected.pop_back();
  const std::vector<std::string> names = names_of([](const Family&) { return true; });
  EXPECT_TRUE(std::ranges::equal(names, expected));
}

TEST(FamilyTest, FamiliesAreFoundByTheirWholeName) {
  const FamilySet families = scheduling_families();
  EXPECT_EQ(find_family(families, "column")->name, "column");
  EXPECT_EQ(find_family(families, "colum"), nullptr);
  EXPECT_EQ(find_family(families, ""), nullptr);
  EXPECT_EQ(find_family({}, "column"), nullptr);
}

TEST(FamilyTest, SchedulingAloneHasNoLowering) {
  for (const Family& family : scheduling_families()) {
    EXPECT_TRUE(family.propose && family.estimate && family.predict) << family.name;
    EXPECT_FALSE(family.lower) << family.name;
    EXPECT_TRUE(family.refuses) << family.name;
  }
}

TEST(FamilyTest, OnlyFamiliesThatAccumulateFinish) {
  EXPECT_THAT(names_of([](const Family& family) { return family.can_finish_by_last_block; }),
              UnorderedElementsAre("column", "multi_wave", "warp_specialised"));
  EXPECT_THAT(names_of([](const Family& family) { return family.writes_partials; }),
              UnorderedElementsAre("looped", "multi_wave", "warp_specialised"));
}

/// A refusal beforehand is a promise that nothing is offered.
TEST(FamilyTest, WhatIsRefusedBeforehandIsNotOffered) {
  for (const char* name : {"copy", "rms_norm", "layer_norm_backward", "bias_gradient"}) {
    const SegmentFacts facts = canned_facts(name, 64, 1024);
    for (const Family& family : scheduling_families()) {
      const Proposal proposal = family.propose(facts, kLimits);
      if (family.refuses(facts)) {
        EXPECT_TRUE(proposal.candidates.empty()) << name << " " << family.name;
      }
      EXPECT_FALSE(proposal.candidates.empty() && proposal.rejections.empty())
          << name << " " << family.name << " says why it offers nothing";
      for (const ProposedSchedule& candidate : proposal.candidates)
        EXPECT_EQ(candidate.schedule.family, family.name);
    }
  }
}

}  // namespace sinter::family_test
