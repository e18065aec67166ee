// Plans as text: what is read back runs the same kernels.

#include "runtime/json/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "codegen/cuda/emit.h"
#include "fusion_ir/printer.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/suite_cases.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/training_layers.h"

namespace sinter::plan_file_test {

using testing::HasSubstr;

const FamilySet& families() {
  static const FamilySet kFamilies = builtin_families();
  return kFamilies;
}

std::vector<std::string> kernels_of(const Plan& plan) {
  std::vector<std::string> out;
  for (const KernelPlan& kernel : plan.kernels) {
    const auto source = emit(kernel.facts, kernel.chosen().schedule, families());
    out.push_back(source ? source->text : source.error().text());
  }
  return out;
}

/// Saved and loaded a plan runs as before, and saves as the same text.
void expect_kept(const Plan& plan, const std::string& name) {
  const std::string text = save_plan(plan);
  const auto loaded = load_plan(text, families());
  ASSERT_TRUE(loaded.has_value()) << name << ": " << loaded.error().text();
  EXPECT_EQ(save_plan(*loaded), text) << name;
  EXPECT_EQ(loaded->fusion, plan.fusion) << name;
  EXPECT_EQ(loaded->binding, plan.binding) << name;
  EXPECT_EQ(loaded->limits, plan.limits) << name;
  EXPECT_EQ(loaded->steps(), plan.steps()) << name;
  EXPECT_EQ(loaded->workspace, plan.workspace) << name;
  EXPECT_EQ(loaded->workspace_bytes, plan.workspace_bytes) << name;
  EXPECT_EQ(loaded->placements, plan.placements) << name;
  EXPECT_EQ(loaded->index_checks, plan.index_checks) << name;
  ASSERT_EQ(loaded->kernels.size(), plan.kernels.size()) << name;
  for (const KernelId id : plan.kernels.ids()) {
    const std::string where = fmt::format("{} {}", name, id);
    const KernelPlan& a = plan.kernels[id];
    const KernelPlan& b = loaded->kernels[id];
    EXPECT_EQ(b.facts.fusion, a.facts.fusion) << where;
    EXPECT_EQ(b.in_plan, a.in_plan) << where;
    EXPECT_EQ(b.chosen().schedule, a.chosen().schedule) << where;
    EXPECT_EQ(b.same_as, a.same_as) << where;
    EXPECT_EQ(b.finishes, a.finishes) << where;
  }
  EXPECT_EQ(kernels_of(*loaded), kernels_of(plan)) << name;
}

TEST(PlanFile, CannedGraphsRunTheSameKernels) {
  for (const CannedFusion& canned : canned_fusions()) {
    const Fusion fusion = canned.build();
    for (const char* device : {"H100", "A100"}) {
      const auto planned =
          plan(fusion, canned.large, *find_device(device), {.families = families()});
      if (planned) expect_kept(*planned, canned.name + std::string(" on ") + device);
    }
  }
}

TEST(PlanFile, SuiteRunsTheSameKernels) {
  for (const SuiteCase& item : suite_cases()) {
    const auto planned = plan(item.fusion(), item.values(item.shapes.front()), *find_device("H100"),
                              {.families = families()});
    ASSERT_TRUE(planned.has_value()) << item.name;
    expect_kept(*planned, item.name);
  }
}

/// Cuts, calls, placements, lists and kernels that repeat others.
TEST(PlanFile, LayersRunTheSameKernels) {
  const std::array<Sizes, 3> shapes = {{{4096, 4096}, {11008, 4096}, {33}}};
  const std::vector<std::pair<std::string, Fusion>> layers = {
      {"llama forward", llama_layer_forward(kLlama3With8B)},
      {"llama backward", llama_layer_backward(kLlama3With8B)},
      {"bert backward", bert_layer_backward(kBertBase)},
      {"adam", adam_over(shapes)},
      {"adam in place", adam_over(shapes, {}, DType::kF32, Updates::kInPlace)}};
  for (const auto& [name, fusion] : layers) {
    const auto planned = plan(fusion, {}, *find_device("H200"), {.families = families()});
    ASSERT_TRUE(planned.has_value()) << name;
    expect_kept(*planned, name);
  }
}

TEST(PlanFile, PlansWithIndexChecksAreKept) {
  for (const CannedFusion& canned : canned_fusions()) {
    const auto planned = plan(canned.build(), canned.small, *find_device("H100"),
                              {.families = families(), .check_indices = true});
    if (planned && planned->checks_indices) expect_kept(*planned, canned.name);
  }
}

std::string saved_softmax(ExtentValues CannedFusion::*extents = &CannedFusion::small) {
  for (const CannedFusion& canned : canned_fusions()) {
    if (std::string_view(canned.name) != "softmax") continue;
    return save_plan(
        *plan(canned.build(), canned.*extents, *find_device("H100"), {.families = families()}));
  }
  return {};
}

std::string with(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string message_of(const std::string& text) {
  const auto loaded = load_plan(text, families());
  EXPECT_FALSE(loaded.has_value());
  return loaded ? "" : loaded.error().text();
}

TEST(PlanFile, SaysWhatIsWrong) {
  const std::string good = saved_softmax();
  ASSERT_TRUE(load_plan(good, families()).has_value());
  EXPECT_THAT(message_of(""), HasSubstr("the plan"));
  EXPECT_THAT(message_of("[]"), HasSubstr("the plan is no object"));
  EXPECT_THAT(message_of("{}"), HasSubstr("the plan has no field 'plan_version'"));
  EXPECT_THAT(message_of(with(good, "\"plan_version\": 1", "\"plan_version\": 7")),
              HasSubstr("the plan's version is 7; this library reads version 1"));
  EXPECT_THAT(message_of(with(good, "\"workspace_bytes\": ", "\"workspace_bytes\": -1")),
              HasSubstr("'workspace_bytes' of the plan is not 0 or more"));
  EXPECT_THAT(message_of(with(good, "\"same_as\": null", "\"same_as\": 0")),
              HasSubstr("'same_as' of kernel 0 is 0, but there are 0"));
  EXPECT_THAT(message_of(with(good, "\"is_list\": false", "\"is_list\": 3")),
              HasSubstr("'is_list' of kernel 0 is not true or false"));
  EXPECT_THAT(message_of(with(good, "vector_width ", "vector_width 3")), HasSubstr("kernel 0"));
  EXPECT_THAT(message_of(with(good, "schedule multi_wave", "schedule unheard_of")),
              HasSubstr("'unheard_of', which is not in the set"));
}

/// A schedule of another device is refused, not run.
TEST(PlanFile, ASchedulePastTheDevicesBudgetIsRefused) {
  const std::string good = saved_softmax(&CannedFusion::large);
  EXPECT_THAT(message_of(with(good, "\"threads_per_block\": 1024", "\"threads_per_block\": 32")),
              HasSubstr("kernel 0"));
}

RC_GTEST_PROP(PlanFile, DamagedTextsAreRefusedOrRead, ()) {
  static const std::string kGood = saved_softmax();
  std::string text = kGood;
  const auto edits = *rc::gen::inRange(1, 4);
  for (int i = 0; i < edits; ++i) {
    const auto at = *rc::gen::inRange<size_t>(0, text.size());
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        text[at] = *rc::gen::elementOf(std::string("0123456789-\"{}[],:eE.%nt"));
        break;
      case 1:
        text.erase(at, *rc::gen::inRange<size_t>(1, 20));
        break;
      default:
        text.insert(at, *rc::gen::elementOf(std::vector<std::string>{
                            "9", "-", "null", "99999999999999999999", "[", "\"", "%v9"}));
        break;
    }
  }
  const auto loaded = load_plan(text, families());
  if (loaded) RC_ASSERT(!save_plan(*loaded).empty());
}

}  // namespace sinter::plan_file_test
