#include "scheduler/budgets/budget.h"

#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <map>
#include <set>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/planner.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::budget_test {

/// One way to make a legal schedule break a budget: a smaller device, or a larger schedule.
struct Squeeze {
  const char* name;
  std::function<void(DeviceLimits&, Schedule&)> apply;
};

const std::array kSqueezes = {
    Squeeze{"threads per block",
            [](DeviceLimits& limits, Schedule&) { limits.threads_per_block = 32; }},
    Squeeze{"shared bytes",
            [](DeviceLimits& limits, Schedule&) { limits.shared_bytes_per_block = 16; }},
    Squeeze{"registers per thread",
            [](DeviceLimits& limits, Schedule&) { limits.registers_per_thread = 16; }},
    Squeeze{"registers of a multiprocessor",
            [](DeviceLimits& limits, Schedule&) { limits.registers_per_sm = 64; }},
    Squeeze{"threads of a multiprocessor",
            [](DeviceLimits& limits, Schedule&) { limits.threads_per_sm = 32; }},
    Squeeze{"threads per row",
            [](DeviceLimits&, Schedule& schedule) { schedule.threads_per_row = 1 << 20; }},
    Squeeze{"rows per block",
            [](DeviceLimits&, Schedule& schedule) { schedule.rows_per_block = 1 << 20; }},
    Squeeze{"unroll", [](DeviceLimits&, Schedule& schedule) { schedule.unroll = 1 << 10; }},
    Squeeze{"promised blocks",
            [](DeviceLimits&, Schedule& schedule) { schedule.min_blocks_per_sm = 1 << 20; }},
};

/// What is budgeted: not what a family cannot walk at all.
bool is_budget(const Rejection& rejection) {
  static const std::set<std::string> units = {"threads", "bytes",          "registers", "batches",
                                              "vectors", "rows per block", "blocks"};
  return units.contains(rejection.unit) && rejection.value > rejection.limit;
}

/// Tensors of different sizes, which one kernel takes.
Fusion list_of_tensors() {
  FusionBuilder b("list");
  for (int64_t i = 0; i < 16; ++i) b.output(b.neg(b.input(DType::kF32, {1000 + 64 * i})));
  return b.build();
}

TEST(Budget, EveryRefusalOfAFamilyNamesATensor) {
  const DeviceLimits device = *find_device("H200");
  const FamilySet families = scheduling_families();
  std::map<std::string, std::set<std::string>> rules;  // By family.
  std::vector<Fusion> fusions = {list_of_tensors()};
  std::vector<ExtentValues> sizes = {{}};
  for (const CannedFusion& canned : canned_fusions()) {
    fusions.push_back(canned.build());
    sizes.push_back(canned.small);
  }
  for (size_t i = 0; i < fusions.size(); ++i) {
    const auto planned = plan(fusions[i], sizes[i], device, {.contracting = Contracting::kKernels});
    ASSERT_TRUE(planned) << fusions[i].name << planned.error().text();
    for (const KernelPlan& kernel : planned->kernels) {
      for (const Family& family : families) {
        if (!is_for(family, kernel.facts)) continue;
        const Proposal proposal = family.propose(kernel.facts, device);
        if (proposal.candidates.empty()) continue;
        for (const Squeeze& squeeze : kSqueezes) {
          SCOPED_TRACE(fmt::format("{}, {}, {}", fusions[i].name, family.name, squeeze.name));
          DeviceLimits limits = device;
          Schedule schedule = proposal.candidates.front().schedule;
          squeeze.apply(limits, schedule);
          const auto estimate = family.estimate(kernel.facts, schedule, limits);
          if (estimate || !is_budget(estimate.error())) continue;
          const Rejection& rejection = estimate.error();
          EXPECT_TRUE(kernel.facts.fusion.values.contains(rejection.at)) << text_of(rejection);
          rules[family.name].insert(rejection.rule);
        }
        // What is weighed and left out, on a device that has no room.
        DeviceLimits small = device;
        small.shared_bytes_per_block = 16;
        small.registers_per_thread = 16;
        for (const Rejection& rejection : family.propose(kernel.facts, small).rejections) {
          if (!is_budget(rejection)) continue;
          EXPECT_TRUE(kernel.facts.fusion.values.contains(rejection.at)) << text_of(rejection);
        }
      }
    }
  }
  for (const Family& family : families) EXPECT_GE(rules[family.name].size(), 2U) << family.name;
}

TEST(Budget, NamesWhatIsKeptOrElseTheLargestTensor) {
  const SegmentFacts facts = canned_facts("softmax", 64, 4096);
  const ValueId input = facts.fusion.inputs.front();
  const ValueId output = facts.fusion.outputs.front();
  EXPECT_EQ(largest_tensor(facts, {}), input) << "the first of two that are equal";
  Schedule schedule{.kept = {{output, Residency::kShared}}};
  EXPECT_EQ(largest_tensor(facts, schedule), output);
  schedule.kept = {{output, Residency::kReload}};
  EXPECT_EQ(largest_tensor(facts, schedule), input) << "reloads keep nothing";
  EXPECT_EQ(
      over_budget(facts, schedule, {.threads = 128, .blocks_per_sm = 1}, *find_device("H200")),
      std::nullopt);
  const auto refused = over_budget(facts, schedule, {.threads = 4096}, *find_device("H200"));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->at, input);
}

}  // namespace sinter::budget_test
