#include "scheduler/planning/follow_plan.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"
#include "tests/support/training_layers.h"

namespace sinter::follow_plan_test {

using ::testing::HasSubstr;

const ExtentValues kMatrix = {{"rows", 512}, {"cols", 1024}};

std::shared_ptr<const Plan> model_of(const Fusion& fusion, const ExtentValues& extents,
                                     PlanOptions options = {}) {
  return std::make_shared<const Plan>(plan(fusion, extents, kLimits, options).value());
}

std::vector<Schedule> schedules_of(const Plan& plan) {
  std::vector<Schedule> out;
  for (const KernelPlan& kernel : plan.kernels) out.push_back(kernel.chosen().schedule);
  return out;
}

/// What does not depend on sizes.
void expect_alike(const Plan& a, const Plan& b) {
  EXPECT_EQ(schedules_of(a), schedules_of(b));
  EXPECT_EQ(a.externals, b.externals);
  ASSERT_EQ(a.cuts.size(), b.cuts.size());
  for (size_t i = 0; i < a.cuts.size(); ++i) {
    EXPECT_EQ(a.cuts[i].rule, b.cuts[i].rule);
    EXPECT_EQ(a.cuts[i].value, b.cuts[i].value);
    EXPECT_EQ(a.cuts[i].from, b.cuts[i].from);
    EXPECT_EQ(a.cuts[i].to, b.cuts[i].to);
  }
  for (const KernelId i : a.kernels.ids()) {
    EXPECT_EQ(a.kernels[i].ops, b.kernels[i].ops);
    EXPECT_EQ(a.kernels[i].in_plan, b.kernels[i].in_plan);
    EXPECT_EQ(a.kernels[i].same_as, b.kernels[i].same_as);
    EXPECT_TRUE(equal_but_for_sizes(a.kernels[i].facts.fusion, b.kernels[i].facts.fusion));
  }
}

/// The same graph at each of these sizes of `symbol`, planned like the first.
void expect_followed(const Fusion& fusion, const std::string& symbol, int64_t first,
                     const std::vector<int64_t>& sizes, ExtentValues others = {}) {
  others[symbol] = first;
  const auto model = model_of(fusion, others);
  for (const int64_t size : sizes) {
    SCOPED_TRACE(fmt::format("{} {}={}", fusion.name, symbol, size));
    others[symbol] = size;
    const auto followed = plan(fusion, others, kLimits, {.like = model});
    ASSERT_TRUE(followed) << followed.error().text();
    expect_alike(*followed, *model);
    EXPECT_THAT(followed->decisions.back().chosen,
                HasSubstr(fmt::format("those of the plan for {}={}", symbol, first)));
    EXPECT_GE(followed->predicted_us(), 0.0);
  }
}

TEST(FollowPlanTest, LayersKeepTheirCutsAndSchedulesWhateverTheTokens) {
  const std::vector<int64_t> tokens = {0, 1, 2, 7, 1000, 4097, 8192, 100'000};
  expect_followed(llama_layer_forward(kLlama3With8B), "tokens", 8192, tokens);
  expect_followed(llama_layer_backward(kLlama3With8B), "tokens", 8192, tokens);
  expect_followed(gpt2_layer_forward(kGpt2), "tokens", 8192, tokens);
  expect_followed(gpt2_layer_backward(kGpt2), "tokens", 8192, tokens);
  expect_followed(bert_layer_forward(kBertBase), "tokens", 8192, tokens);
  expect_followed(bert_layer_backward(kBertBase), "tokens", 8192, tokens);
}

TEST(FollowPlanTest, TheSameSizesGiveTheSamePlan) {
  const Fusion fusion = bert_layer_backward(kBertBase);
  const auto model = model_of(fusion, {{"tokens", 512}});
  const Plan followed = plan(fusion, {{"tokens", 512}}, kLimits, {.like = model}).value();
  expect_alike(followed, *model);
  EXPECT_EQ(followed.cuts, model->cuts);
  EXPECT_EQ(followed.workspace, model->workspace);
  EXPECT_EQ(followed.workspace_bytes, model->workspace_bytes);
  EXPECT_EQ(followed.predicted_us(), model->predicted_us());
}

TEST(FollowPlanTest, AFollowedPlanMayBeFollowed) {
  const Fusion fusion = gpt2_layer_backward(kGpt2);
  const auto model = model_of(fusion, {{"tokens", 8192}});
  const auto second =
      std::make_shared<const Plan>(plan(fusion, {{"tokens", 1}}, kLimits, {.like = model}).value());
  expect_alike(plan(fusion, {{"tokens", 77}}, kLimits, {.like = second}).value(), *model);
}

TEST(FollowPlanTest, WhatOneKernelRunsStaysOneKernel) {
  for (const char* name :
       {"rms_norm", "softmax", "bias_gelu", "layer_norm_backward", "column_sum"}) {
    expect_followed(find_canned_fusion(name)->build(), "rows", 4096, {0, 1, 3, 4097, 50'000},
                    {{"cols", 4096}});
  }
}

/// A row sum of few long rows, which is taken in parts.
Fusion long_rows() {
  FusionBuilder b("long_rows");
  const ValueId x = b.input(DType::kF32, {b.symbol("rows", 4), 1 << 22});
  b.output(b.sum(x, {1}));
  return b.build();
}

TEST(FollowPlanTest, RowsStayInAsManyParts) {
  const Fusion fusion = long_rows();
  const auto model = model_of(fusion, {{"rows", 4}});
  ASSERT_EQ(model->kernels.size(), 2U);
  ASSERT_GT(model->kernels.front().row_parts, 1);
  EXPECT_EQ(model->kernels[{1}].row_parts, model->kernels.front().row_parts);
  expect_followed(fusion, "rows", 4, {1, 5, 400});
}

/// x += f(x reversed along its axis of rows' sum), so that a copy is left behind all readers.
Fusion overwritten_at_last() {
  FusionBuilder b("overwritten_at_last");
  const Extent rows = b.symbol("rows", 64);
  const ValueId x = b.input(DType::kF32, {rows, 128}, "x");
  const ValueId totals = b.sum(x, {0});
  const ValueId passed = b.external("f", {totals}, {{DType::kF32, {128}}})[0];
  b.output(b.add(b.exp(x), passed), "next", {.alias = x});
  b.output(b.external("g", {x}, {{DType::kF32, {128}}})[0], "seen");
  return b.build();
}

TEST(FollowPlanTest, UpdatesInPlaceAndListsAreFollowed) {
  expect_followed(overwritten_at_last(), "rows", 64, {1, 2, 999});
  const std::vector<Sizes> shapes = {{64, 32}, {32}, {7, 9}, {64, 32}};
  const std::vector<Sizes> larger = {{128, 32}, {64}, {14, 9}, {128, 32}};
  const auto model = model_of(adam_over(shapes, {}, DType::kBF16, Updates::kInPlace), {});
  const auto followed =
      plan(adam_over(larger, {}, DType::kBF16, Updates::kInPlace), {}, kLimits, {.like = model});
  ASSERT_TRUE(followed) << followed.error().text();
  EXPECT_EQ(schedules_of(*followed), schedules_of(*model));
}

// ---- What is not followed

Error refusal(const Fusion& fusion, const ExtentValues& extents, PlanOptions options,
              const DeviceLimits& limits = kLimits) {
  const auto planned = plan(fusion, extents, limits, options);
  EXPECT_FALSE(planned);
  return planned ? Error{} : planned.error();
}

TEST(FollowPlanTest, AnotherGraphIsRefused) {
  const auto model = model_of(find_canned_fusion("rms_norm")->build(), kMatrix);
  const Error error = refusal(find_canned_fusion("softmax")->build(), kMatrix, {.like = model});
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.text(), HasSubstr("the simplified graphs differ in more than sizes"));
  EXPECT_THAT(error.text(), HasSubstr("plan these sizes on their own"));
}

/// What lies behind as many ops as the graph has is taken for copies of outputs: here it is none.
TEST(FollowPlanTest, AGraphThatGoesOnDifferentlyIsRefused) {
  const auto chain = [](int adds) {
    FusionBuilder b("chain");
    ValueId x = b.input(DType::kF32, {8}, "x");
    for (int i = 0; i < adds; ++i) x = b.exp(x);
    b.output(b.add(x, b.input(DType::kF32, {8}, "y")), "z");
    return b.build();
  };
  const auto model = model_of(chain(6), {});
  for (int adds = 0; adds < 6; ++adds) {
    const Error error = refusal(chain(adds), {}, {.like = model});
    EXPECT_EQ(error.kind, ErrorKind::kUnsupported) << adds;
    EXPECT_THAT(error.text(), HasSubstr("the simplified graphs differ in more than sizes"));
  }
}

// Ops behind those of a smaller graph may be copies of outputs. An op without operands is none.
TEST(FollowPlanTest, AGraphWithMoreOpsIsRefused) {
  const auto of_input = [](bool counts) {
    FusionBuilder b("f");
    b.output(b.abs(b.input(DType::kF32, {b.symbol("rows"), b.symbol("cols")}, "x")));
    if (counts) b.output(b.iota({64}, 0));
    return b.build();
  };
  const auto model = model_of(of_input(true), kMatrix);
  const Error error = refusal(of_input(false), kMatrix, {.like = model});
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.text(), HasSubstr("the simplified graphs differ in more than sizes"));
}

// A length that no number of parts divides, in rows of which a symbol says that there is one.
TEST(FollowPlanTest, OneRowOfUnevenPartsFollowsSeveral) {
  FusionBuilder b("long");
  b.output(b.sum(b.input(DType::kF32, {b.symbol("rows"), b.symbol("cols")}, "x"), {1}));
  expect_followed(b.build(), "rows", 9, {1, 2}, {{"cols", 2049}});
}

TEST(FollowPlanTest, PinsAndOtherDevicesAreRefused) {
  const Fusion fusion = find_canned_fusion("rms_norm")->build();
  const auto model = model_of(fusion, kMatrix);
  const Error pinned = refusal(fusion, kMatrix, {.pin = {.family = "looped"}, .like = model});
  EXPECT_EQ(pinned.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(pinned.text(), HasSubstr("pin them in the plan that is followed"));
  const Error other = refusal(fusion, kMatrix, {.like = model}, *find_device("A100"));
  EXPECT_EQ(other.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(other.text(), HasSubstr("H200"));
}

TEST(FollowPlanTest, SchedulesThatDoNotFitAreRefusedWithTheirNumbers) {
  // A resident row of 4,096 columns takes registers or shared memory that one of a million exceeds.
  const Fusion fusion = find_canned_fusion("softmax")->build();
  const auto model = model_of(fusion, {{"rows", 512}, {"cols", 4096}});
  const Error error = refusal(fusion, {{"rows", 512}, {"cols", 1 << 20}}, {.like = model});
  EXPECT_THAT(error.text(), HasSubstr("the plan to follow does not fit: its segment 0"));
  const Fusion sum = find_canned_fusion("full_sum")->build();
  const auto parts = model_of(sum, {{"rows", 4096}, {"cols", 4096}});
  ASSERT_GT(parts->kernels.front().row_parts, 0);
  EXPECT_THAT(refusal(sum, {{"rows", 4097}, {"cols", 4096}}, {.like = parts}).text(),
              HasSubstr("rows do not split into"));
}

}  // namespace sinter::follow_plan_test
