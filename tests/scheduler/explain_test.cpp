#include "scheduler/report/explain.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/cublaslt.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"

namespace sinter::explain_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Plan plan_of(const std::string& fusion, const PlanOptions& options = {}) {
  const CannedFusion& canned = *find_canned_fusion(fusion);
  return plan(canned.build(), canned.large, *find_device("H200"), options).value();
}

TEST(Explain, MarksTheChosenCandidateAmongThoseWeighed) {
  const Plan softmax = plan_of("softmax");
  const std::string text = decisions_text(softmax);
  for (const Decision& decision : softmax.decisions) {
    EXPECT_THAT(text, HasSubstr(decision.question + ": " + decision.chosen));
    for (const Candidate& candidate : decision.candidates)
      EXPECT_THAT(text, HasSubstr(candidate.because));
  }
  EXPECT_THAT(text, HasSubstr("*  " + softmax.decisions[1].chosen));
  const auto marks = std::count(text.begin(), text.end(), '*');
  EXPECT_EQ(marks, 1);
}

TEST(Explain, ShowsRefusalsWithTheirNumbersAndWayOut) {
  const Plan softmax = plan_of("softmax");
  ASSERT_FALSE(softmax.rejections.empty());
  for (const Rejection& rejection : softmax.rejections)
    EXPECT_THAT(decisions_text(softmax), HasSubstr("refused " + text_of(rejection)));
}

TEST(Explain, LeavesOutPartsThatNobodyHas) {
  EXPECT_THAT(decisions_text(plan_of("softmax")), HasSubstr("special"));
  EXPECT_THAT(decisions_text(plan_of("copy")),
              AllOf(HasSubstr("memory"), Not(HasSubstr("special "))));
}

TEST(Explain, SaysWhereKeptValuesLive) {
  const Plan softmax =
      plan_of("softmax", {.pin = {.family = "multi_wave", .residency = Residency::kShared}});
  EXPECT_THAT(explain(softmax), ContainsRegex("%v0 x : bf16.8192, 8192. lives in shared"));
}

TEST(Explain, AnSmHasInFlightWhatItsShareOfASmallGridLoads) {
  const CannedFusion& softmax = *find_canned_fusion("softmax");
  const Plan few =
      plan(softmax.build(), {{"rows", 16}, {"cols", 65536}}, *find_device("H200")).value();
  const ResourceEstimate& estimate = few.kernels.front().chosen().estimate;
  ASSERT_LE(estimate.blocks, few.limits.sm_count);
  ASSERT_GT(estimate.blocks_per_sm, 1);
  const double of_block =
      estimate.bytes_in_flight_per_sm / static_cast<double>(estimate.blocks_per_sm);
  EXPECT_THAT(explain(few), ContainsRegex(fmt::format("bytes in flight per SM +{:.1f}0* KiB",
                                                      of_block / 1024.0)));
}

TEST(Explain, FamiliesStandSideBySideTheChosenOneFirst) {
  const Plan gradient = plan_of("layer_norm_backward");
  const KernelPlan& kernel = gradient.kernels.front();
  const std::string text = families_text(kernel, gradient.limits);
  const std::string heading = text.substr(0, text.find('\n'));
  EXPECT_THAT(heading, ContainsRegex("\\* " + kernel.chosen().schedule.family));
  for (const ProposedSchedule& candidate : kernel.candidates)
    EXPECT_THAT(heading, HasSubstr(candidate.schedule.family));
  EXPECT_THAT(
      text, ContainsRegex(fmt::format("predicted us +{:.1f}", kernel.chosen().predicted.total_us)));
  for (const char* row : {"memory", "L2", "issue", "waits", "2nd stage", "registers of cap",
                          "shared of 227.0 KiB", "blocks per SM", "waves", "in flight of"})
    EXPECT_THAT(text, HasSubstr(row));
}

TEST(Explain, FitsOneScreen) {
  for (const char* fusion : {"layer_norm_backward", "softmax", "bias_gradient"}) {
    const std::string text = explain(plan_of(fusion));
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 60) << fusion;
  }
}

TEST(Explain, NamesClusters) {
  const CannedFusion& canned = *find_canned_fusion("layer_norm_backward");
  const auto wide = plan(canned.build(), {{"rows", 8192}, {"cols", 32768}}, *find_device("H200"));
  const std::string text = explain(*wide);
  EXPECT_THAT(text, ContainsRegex("which schedule runs the segment: .*, cluster_size [248]"));
  EXPECT_THAT(text, ContainsRegex("\n  cluster_size +[248]"));
  EXPECT_THAT(explain(plan_of("softmax")), testing::Not(HasSubstr("cluster_size")));
}

TEST(Explain, NamesWarpsThatShareTheContractedAxis) {
  FusionBuilder b("few_rows");
  b.output(b.linear(b.input(DType::kBF16, {8, 4096}), b.input(DType::kBF16, {14336, 4096})));
  EXPECT_THAT(explain(plan(b.build(), {}, *find_device("H200")).value()),
              ContainsRegex("\n  slice_warps +[48]"));
}

TEST(Explain, RefusesWhatDoesNotFitWithTheNumber) {
  const CannedFusion& canned = *find_canned_fusion("layer_norm_backward");
  const auto wide = plan(canned.build(), {{"rows", 64}, {"cols", 1 << 20}}, *find_device("H200"));
  EXPECT_THAT(explain(*wide), ContainsRegex("refused warp_specialised: .*limit"));
}

TEST(Explain, ShowsBothKernelsOfRowsAndColumns) {
  const CannedFusion& canned = *find_canned_fusion("layer_norm_backward");
  const auto apart = plan(canned.build(), {{"rows", 16}, {"cols", 1 << 18}}, *find_device("H200"));
  ASSERT_EQ(apart->kernels.size(), 2U);
  for (const KernelPlan& kernel : apart->kernels)
    EXPECT_THAT(explain(*apart), HasSubstr("* " + kernel.chosen().schedule.family));
}

/// What `explain` says under the number of a kernel.
std::string text_of_kernel(const std::string& text, size_t kernel) {
  const std::string heading = fmt::format("\nkernel {}\n", kernel);
  const size_t begin = text.find(heading);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find("\nkernel ", begin + 1) - begin);
}

/// A gradient of two kernels, a call before it.
Plan gradient_after_a_call(int64_t rows, int64_t columns) {
  FusionBuilder b("called");
  const ValueId dy = b.input(DType::kF32, {rows, columns}, "dy");
  const ValueId x = b.external("f", {dy}, {{DType::kF32, {rows, columns}}})[0];
  b.output(b.mul(x, b.broadcast(b.sum(b.mul(x, dy), {1}), {rows, columns}, {0})));
  b.output(b.sum(dy, {0}));
  return plan(b.build(), {}, *find_device("H200")).value();
}

TEST(Explain, SaysOfEveryKernelOfASegmentWhatWasDecidedAboutIt) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{8192, 4096}, {16, 1 << 18}}) {
    const Plan called = gradient_after_a_call(rows, columns);
    ASSERT_TRUE(called.is_segmented);
    ASSERT_EQ(called.kernels.size(), 2U);
    const std::string text = explain(called);
    std::vector<Decision> on_schedules = called.kernels.front().decisions;
    std::erase_if(on_schedules, [](const Decision& decision) {
      return !decision.question.starts_with("which schedule");
    });
    ASSERT_EQ(on_schedules.size(), 2U) << text;
    for (uint32_t kernel = 0; kernel < 2; ++kernel) {
      const ProposedSchedule& chosen = called.kernels[KernelId{kernel}].chosen();
      EXPECT_THAT(text_of_kernel(text, kernel),
                  AllOf(HasSubstr(on_schedules[kernel].chosen),
                        HasSubstr(fmt::format("predicted {:.1f} us", chosen.predicted.total_us)),
                        HasSubstr(fmt::format("{} of {} registers", chosen.estimate.registers,
                                              chosen.estimate.register_cap))));
    }
  }
}

TEST(Explain, SaysOfEachKernelWhatItLeavesItself) {
  const Plan called = gradient_after_a_call(8192, 4096);
  const std::string text = explain(called);
  EXPECT_THAT(text, ContainsRegex("\n  0  [^\n]*, partials of %v[0-9]+\n"));
  EXPECT_THAT(text, ContainsRegex("\n  1  [^\n]* KiB +%v[0-9]+\n"));
}

TEST(Explain, ShowsTheOtherDecisionsAndTheRefusalsOfSegments) {
  const Plan called = gradient_after_a_call(8192, 4096);
  const std::string text = explain(called);
  for (const Decision& decision : called.kernels.front().decisions)
    EXPECT_THAT(text, HasSubstr(decision.question + ": " + decision.chosen));
  ASSERT_FALSE(called.kernels.front().rejections.empty());
  for (const Rejection& rejection : called.kernels.front().rejections)
    EXPECT_THAT(text_of_kernel(text, 0), HasSubstr(rejection.rule));
}

TEST(Explain, ListsWhatWouldChangeTheAnswerByExtent) {
  const std::vector<NearestChange> changes = {
      {"rows", 384, "multi_wave"}, {"cols", 64, "looped"}, {"cols", 9216, ""}};
  EXPECT_EQ(changes_text(changes),
            "another kind wins: rows 384 (multi_wave); cols 64 (looped), 9216 (none)\n");
  EXPECT_THAT(changes_text({}), HasSubstr("no other kind"));
}

TEST(Explain, ResourcesAreBarsAgainstTheirBudgets) {
  const DeviceLimits limits = *find_device("H200");
  const ResourceEstimate estimate{.registers = 128,
                                  .register_cap = 128,
                                  .shared_bytes = 64 * 1024,
                                  .threads = 256,
                                  .blocks_per_sm = 2,
                                  .blocks = 1000,
                                  .waves = 3.79,
                                  .bytes_in_flight_per_sm = limits.bytes_in_flight_per_sm / 2};
  const std::string text = resources_text(estimate, limits);
  EXPECT_THAT(text,
              ContainsRegex("registers per thread +128 +128  \\[########################\\]"));
  EXPECT_THAT(text, ContainsRegex("registers per SM +65536 +65536"));
  EXPECT_THAT(text, ContainsRegex("shared bytes per SM +130.0 KiB +228.0 KiB"));
  EXPECT_THAT(text,
              ContainsRegex("threads per SM +512 +2048  \\[######\\.{18}\\]  +256 per block"));
  EXPECT_THAT(text, HasSubstr("1000 in the grid, 3.79 waves"));
  EXPECT_THAT(text, ContainsRegex("bytes in flight per SM .*\\[############\\.{12}\\]"));
}

// A library's kernel has no threads that the plan knows of.
TEST(Explain, ALibraryHasItsOwnResources) {
  FusionBuilder b("product");
  b.output(
      b.cast(b.linear(b.input(DType::kBF16, {8192, 4096}), b.input(DType::kBF16, {4096, 4096})),
             DType::kBF16),
      "y");
  PlanOptions options{.families = with_cublaslt(builtin_families())};
  options.pin.family = std::string(kCublasLt);
  const auto made = plan(b.build(), {}, *find_device("H200"), options);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_THAT(explain(*made), HasSubstr("those of the library's kernel"));
}

TEST(Explain, SaysWhatComesOfMoreRegistersThanThereAre) {
  const DeviceLimits limits = *find_device("H200");
  const auto text = [&](int64_t registers, int64_t spilled) {
    const ResourceEstimate estimate{.registers = registers,
                                    .register_cap = 64,
                                    .threads = 256,
                                    .blocks_per_sm = 4,
                                    .blocks = 1000,
                                    .spilled_registers = spilled};
    return resources_text(estimate, limits);
  };
  EXPECT_THAT(text(64, 0), HasSubstr("the cap follows from the promised blocks"));
  EXPECT_THAT(text(65, 0), HasSubstr("one that spills may be replaced"));
  EXPECT_THAT(text(90, 26), HasSubstr("26 spill"));
}

}  // namespace sinter::explain_test
