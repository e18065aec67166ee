#include "scheduler/segmentation/segmented_plan.h"

#include <gmock/gmock.h>

#include <functional>
#include <numeric>
#include <set>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/pipeline.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/group_schedules.h"
#include "scheduler/segmentation/segment_scheduler.h"
#include "tests/support/h200.h"
#include "tests/support/plan_matchers.h"
#include "tests/support/random_graph.h"
#include "tests/support/training_layers.h"

namespace sinter::segmented_plan_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// What each segment writes, as text; "call NAME" for external calls.
std::vector<std::string> outline(const Plan& plan) {
  std::vector<std::string> out;
  for (const PlanStep& step : plan.steps()) {
    std::string text;
    if (const auto* call = std::get_if<CallId>(&step)) {
      const Op& op = plan.fusion.ops[plan.externals[*call].op];
      text = "call " + std::get<ExternalOp>(op.kind).name;
    } else {
      const KernelPlan& kernel = plan.kernels[std::get<KernelId>(step)];
      text = kernel.chosen().schedule.family;
      for (const ValueId output : kernel.facts.fusion.outputs) {
        const ValueId value = kernel.in_plan.empty() ? output : kernel.in_plan.at(output);
        text += fmt::format(
            " {}{}", text_of(plan.fusion.def_of(value).kind),
            text_of(plan.fusion, plan.fusion.values[value].type, plan.fusion.values[value].shape));
      }
    }
    out.push_back(std::move(text));
  }
  return out;
}

// ---- What ends up in one kernel

/// Kernels and, in brackets, those of them that only finish sums.
std::string kernels_of(const Fusion& layer) {
  const Plan planned = plan(layer, {}, kLimits).value();
  const size_t leading = planned.leading_kernels().size();
  return fmt::format("{} ({})", planned.kernels.size(), planned.kernels.size() - leading);
}

TEST(SegmentedPlanTest, LayersTakeFewKernels) {
  // Norm, q and k turned by their angles, residual with norm, SwiGLU.
  EXPECT_EQ(kernels_of(llama_layer_forward(kLlama3With8B)), "5 (0)");
  EXPECT_EQ(kernels_of(llama_layer_backward(kLlama3With8B)), "7 (2)");
  // Norm, biases of q, k and v, residual with dropout and norm, GELU, residual with dropout.
  EXPECT_EQ(kernels_of(gpt2_layer_forward(kGpt2)), "5 (0)");
  EXPECT_EQ(kernels_of(gpt2_layer_backward(kGpt2)), "10 (5)");
  EXPECT_EQ(kernels_of(bert_layer_forward(kBertBase)), "4 (0)");
  EXPECT_EQ(kernels_of(bert_layer_backward(kBertBase)), "9 (4)");
}

TEST(SegmentedPlanTest, ResidualAndNormBetweenCallsAreOneKernel) {
  FusionBuilder b("between");
  const ValueId x = b.input(DType::kBF16, {512, 1024}, "x");
  const ValueId made = b.external("matmul", {x}, {{DType::kBF16, {512, 1024}}})[0];
  const ValueId sum = b.add(x, made);
  const ValueId stored = b.cast(sum, DType::kBF16);
  b.output(stored, "h");
  const ValueId norm = b.cast(rms_norm(b, stored).y, DType::kBF16);
  b.output(b.external("matmul", {norm}, {{DType::kBF16, {512, 1024}}})[0], "y");
  const Plan planned = plan(b.build(), {}, kLimits).value();
  EXPECT_EQ(planned.kernels.size(), 1U);
  EXPECT_EQ(planned.externals.size(), 2U);
}

TEST(SegmentedPlanTest, ReadersOfOneTensorShareAKernel) {
  FusionBuilder b("siblings");
  const ValueId x = b.input(DType::kF32, {2048, 4096}, "x");
  b.output(b.pointwise(PointwiseFn::kTanh, {x}));
  b.output(b.sum(x, {1}));
  b.output(b.sum(x, {0}));
  EXPECT_LE(plan(b.build(), {}, kLimits)->kernels.size(), 2U) << "one pass over x, and a finish";
}

TEST(SegmentedPlanTest, PartsThatShareOnlyTheirShapeShareALaunch) {
  FusionBuilder b("horizontal");
  for (int i = 0; i < 3; ++i)
    b.output(b.neg(b.external("source", {}, {{DType::kF32, {64, 64}}})[0]));
  const Plan planned = plan(b.build(), {}, kLimits).value();
  EXPECT_EQ(planned.kernels.size(), 1U);
  EXPECT_EQ(planned.externals.size(), 3U);
}

TEST(SegmentedPlanTest, LayersWithEqualGraphsShareTheirKernels) {
  FusionBuilder b("layers");
  ValueId x = b.input(DType::kBF16, {64, 256}, "x");
  constexpr int kLayers = 4;
  for (int i = 0; i < kLayers; ++i) {
    const ValueId y = b.cast(rms_norm(b, x).y, DType::kBF16);
    x = b.external("matmul", {y}, {{DType::kBF16, {64, 256}}})[0];
  }
  b.output(x);
  const Plan planned = plan(b.build(), {}, kLimits).value();
  ASSERT_EQ(planned.kernels.size(), static_cast<size_t>(kLayers));
  for (const KernelId id : planned.kernels.ids()) {
    EXPECT_EQ(planned.kernels[id].same_as,
              id == KernelId{0} ? std::nullopt : std::optional(KernelId{0}));
  }
}

TEST(SegmentedPlanTest, FewLongRowsDoNotTakeOthersAlong) {
  FusionBuilder b("total");
  const ValueId x = b.input(DType::kF16, {1024, 2048}, "x");
  const ValueId flat = b.reshape(b.cast(x, DType::kF32), {1024 * 2048});
  const ValueId most = b.amax(b.abs(flat), {0});
  b.output(b.cast(b.div(x, b.broadcast(most, {1024, 2048}, {})), DType::kF16));
  const Plan planned = plan(b.build(), {}, kLimits).value();
  EXPECT_LT(planned.predicted_us(), 30.0) << "a block alone would take a millisecond";
}

/// Rows that no block keeps are read twice in any case. Their statistics fill the device in parts,
/// which one kernel for all does not.
TEST(SegmentedPlanTest, StatisticsOfFewLongRowsAreAKernelOfTheirOwn) {
  for (const int64_t rows : {48, 64, 100}) {
    FusionBuilder b("norm");
    const ValueId x = b.input(DType::kF32, {rows, 10'000'000}, "x");
    const auto [mean, m2] = b.welford(x, {1});
    const ValueId variance = b.div(m2, b.constant(1e7));
    const ValueId scale = b.rsqrt(b.add(variance, b.constant(1e-5)));
    b.output(b.mul(b.sub(x, b.broadcast_over(mean, x, {1})), b.broadcast_over(scale, x, {1})));
    const Plan planned = plan(b.build(), {}, kLimits).value();
    EXPECT_THAT(outline(planned),
                ElementsAre(HasSubstr("looped"), HasSubstr("looped"), StartsWith("pointwise mul")))
        << rows;
  }
}

TEST(SegmentedPlanTest, WhatNoKernelRunsAloneIsNamed) {
  FusionBuilder b("picked");
  const ValueId x = b.input(DType::kF32, {4, 8}, "x");
  const ValueId at = b.input(DType::kI32, {4}, "at");
  b.output(b.neg(b.take(x, at, 1)));
  b.output(b.external("f", {x}, {{DType::kF32, {4, 8}}})[0]);
  FamilySet families = scheduling_families();
  std::erase_if(families, [](const Family& family) { return family.name == "pointwise"; });
  EXPECT_THAT(plan(b.build(), {}, kLimits, {.families = families}),
              FailsWith(ErrorKind::kUnsupported,
                        HasSubstr("no schedule family takes the fusion 'picked_v3'")));
}

TEST(SegmentedPlanTest, GathersRunWithAReductionOfTheirRows) {
  for (const bool others : {false, true}) {
    const auto planned =
        plan(language_model_loss(4096, 32000, others), {{"tokens", 4096}}, kLimits);
    ASSERT_TRUE(planned) << planned.error().text();
    EXPECT_EQ(planned->externals.size(), 1U);
    EXPECT_LE(planned->leading_kernels().size(), 2U);
    EXPECT_LT(planned->predicted_us(), 90.0) << "logits are read once";
    EXPECT_EQ(
        std::ranges::count_if(planned->decisions,
                              [](const Decision& decision) {
                                return decision.question.starts_with("what runs the gather") &&
                                       decision.because.find("32000 elements") != std::string::npos;
                              }),
        others ? 2 : 1);
  }
}

TEST(SegmentedPlanTest, GathersOfComputedRowsRunWithTheReductionBehindThem) {
  FusionBuilder b("picked");
  const ValueId x = b.input(DType::kBF16, {64, 32}, "x");
  const ValueId logits = b.external("f", {x}, {{DType::kF32, {64, 512}}}).front();
  const ValueId labels = b.input(DType::kI64, {64}, "labels");
  b.output(b.neg(b.take(log_softmax(b, logits), labels, 1)));
  const auto planned = plan(b.build(), {}, kLimits);
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_LE(planned->leading_kernels().size(), 2U);
}

TEST(SegmentedPlanTest, GathersTakeAReductionThatGoesWithThePins) {
  FusionBuilder b("pinned");
  const ValueId x = b.input(DType::kF32, {64, 512}, "x");
  // The place of the maximum goes through memory, so the gather runs with the sum.
  const ValueId at = b.named(b.reduce(ReduceFn::kArgMax, x, {1}), "at");
  b.output(b.sub(b.sum(x, {1}), b.take(x, at, 1)));
  b.output(b.external("f", {x}, {{DType::kF32, {64, 512}}}).front());
  const auto planned =
      plan(b.build(), {}, kLimits, {.families = builtin_families(), .cuts = {{"at"}}});
  ASSERT_TRUE(planned) << planned.error().text();
}

TEST(SegmentedPlanTest, GathersByEachOthersReductionsRun) {
  FusionBuilder b("crossed");
  const ValueId x = b.input(DType::kF32, {64, 512}, "x");
  const ValueId y = b.input(DType::kF32, {64, 512}, "y");
  b.output(b.take(y, b.reduce(ReduceFn::kArgMax, x, {1}), 1));
  b.output(b.take(x, b.reduce(ReduceFn::kArgMax, y, {1}), 1));
  b.output(b.external("f", {x}, {{DType::kF32, {64, 512}}}).front());
  const auto planned = plan(b.build(), {}, kLimits);
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_THAT(plan_violations(*planned), ::testing::IsEmpty());
}

// ---- What lies in the memory of another value

TEST(SegmentedPlanTest, OperandsOfAConcatenateAreWrittenIntoIt) {
  FusionBuilder b("joined");
  const ValueId x = b.input(DType::kF32, {64, 128}, "x");
  b.output(b.concatenate({b.exp(x), b.neg(x)}, 1), "y");
  const Plan planned = plan(b.build(), {}, kLimits).value();
  EXPECT_EQ(planned.kernels.size(), 1U);
  EXPECT_EQ(planned.workspace_bytes, 0);
  ASSERT_EQ(planned.placements.size(), 2U);
  const ValueId joined = planned.fusion.outputs.front();
  const std::vector<ValueId>& operands = planned.fusion.def_of(joined).operands;
  EXPECT_EQ(planned.placements.at(operands[0]), (Placement{joined, 0, {256, 1}}));
  EXPECT_EQ(planned.placements.at(operands[1]), (Placement{joined, 512, {256, 1}}));
  const TensorSlot slot = slot_of(planned, operands[1]);
  EXPECT_EQ(slot.kind, TensorSlot::Kind::kOutput);
  EXPECT_EQ(slot.offset, 512);
}

TEST(SegmentedPlanTest, WhatHasMemoryOfItsOwnIsCopiedIntoAConcatenate) {
  // An input, twice, and an output.
  FusionBuilder b("copied");
  const ValueId x = b.input(DType::kF32, {64, 128}, "x");
  const ValueId y = b.exp(x);
  b.output(y);
  b.output(b.concatenate({x, y, x}, 1));
  const Plan planned = plan(b.build(), {}, kLimits).value();
  EXPECT_EQ(planned.kernels.size(), 1U) << "all of them read x";
  EXPECT_EQ(planned.placements.size(), 3U);
}

TEST(SegmentedPlanTest, ReadersOfAConcatenateWaitForAllOfIt) {
  FusionBuilder b("read");
  const ValueId x = b.input(DType::kF32, {64, 128}, "x");
  const ValueId joined = b.concatenate({b.exp(x), b.neg(x)}, 1);
  const ValueId rows = b.sum(joined, {1});
  b.output(b.div(joined, b.broadcast_over(rows, joined, {1})));
  const Plan planned = plan(b.build(), {}, kLimits).value();
  ASSERT_EQ(planned.kernels.size(), 2U);
  EXPECT_EQ(planned.workspace.size(), 1U);
  EXPECT_EQ(planned.workspace_bytes, 64 * 256 * 4);
  ASSERT_THAT(planned.cuts, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(text_of(planned.cuts.front()), HasSubstr("would read what it joins"));
}

TEST(SegmentedPlanTest, CallsWriteIntoAConcatenateWhereTheirResultsLieDense) {
  for (const int axis : {0, 1}) {
    FusionBuilder b("called");
    const ValueId x = b.input(DType::kF32, {64, 128}, "x");
    const auto made = b.external("f", {x}, {{DType::kF32, {64, 128}}, {DType::kF32, {64, 128}}});
    b.output(b.concatenate(made, axis));
    const Plan planned = plan(b.build(), {}, kLimits).value();
    EXPECT_EQ(planned.kernels.size(), axis == 0 ? 0U : 1U);
    EXPECT_EQ(planned.workspace.size(), axis == 0 ? 0U : 2U);
  }
}

TEST(SegmentedPlanTest, CallsGetAlignedAddresses) {
  FusionBuilder b("odd");
  const ValueId x = b.input(DType::kF32, {3}, "x");
  const auto made = b.external("f", {x}, {{DType::kF32, {3}}, {DType::kF32, {4}}});
  b.output(b.concatenate(made, 0));
  const Plan planned = plan(b.build(), {}, kLimits).value();
  EXPECT_EQ(planned.kernels.size(), 1U) << "12 bytes into the output, the second is copied";
  EXPECT_EQ(planned.placements.size(), 2U);
}

TEST(SegmentedPlanTest, AReshapeBetweenCallsIsNoKernel) {
  FusionBuilder b("reshaped");
  const ValueId x = b.input(DType::kF32, {64, 128}, "x");
  const ValueId made = b.external("f", {x}, {{DType::kF32, {64, 8, 16}}})[0];
  const ValueId flat = b.reshape(made, {64, 128});
  b.output(b.external("g", {flat, b.reshape(x, {8192})}, {{DType::kF32, {4}}})[0]);
  b.output(flat);
  const Plan planned = plan(b.build(), {}, kLimits).value();
  EXPECT_EQ(planned.kernels.size(), 0U);
  EXPECT_EQ(planned.workspace_bytes, 0) << "the first call writes the output";
}

TEST(SegmentedPlanTest, PadsAreConcatenatesOfConstants) {
  FusionBuilder b("padded");
  const ValueId x = b.input(DType::kF32, {64, 128}, "x");
  b.output(b.pad(b.exp(x), {0, 1}, {2, 0}, 1.0));
  const Plan planned = plan(b.build(), {}, kLimits).value();
  EXPECT_EQ(planned.placements.size(), 4U) << "two constants, the exponential, and it with one";
  EXPECT_EQ(planned.workspace_bytes, 0);
}

TEST(SegmentedPlanTest, OutputsLieAsDeclared) {
  FusionBuilder b("strided");
  const ValueId x = b.input(DType::kBF16, {64, 128}, "x");
  b.output(b.cast(b.exp(x), DType::kBF16), "y", {.strides = {136, 1}, .alignment = 8});
  const Plan planned = plan(b.build(), {}, kLimits).value();
  const SegmentFacts& facts = planned.kernels.front().facts;
  EXPECT_EQ(facts.space.outputs.front().strides, (std::vector<int64_t>{136, 1}));
  EXPECT_EQ(facts.fusion.layout_of(facts.fusion.outputs.front()).alignment, 8);
}

TEST(SegmentedPlanTest, APinIsForGraphsOfOneKernel) {
  FusionBuilder b("called");
  const ValueId x = b.input(DType::kF32, {4, 8}, "x");
  b.output(b.neg(b.external("f", {x}, {{DType::kF32, {4, 8}}})[0]));
  EXPECT_THAT(plan(b.build(), {}, kLimits, {.pin = {.unroll = 1}}),
              FailsWith(ErrorKind::kInvalidArgument, HasSubstr("external calls")));
}

// ---- Laws

/// Every step reads what an earlier one wrote, and every output is written once.
void expect_runnable(const Plan& planned) {
  std::set<ValueId> there(planned.fusion.inputs.begin(), planned.fusion.inputs.end());
  // A concatenate is there when its operands are, and a reshape with what it is one tensor with.
  const std::function<bool(ValueId)> is_there = [&](ValueId value) {
    const Op& op = planned.fusion.def_of(value);
    const bool follows = std::holds_alternative<ConcatenateOp>(op.kind) ||
                         std::holds_alternative<ReshapeOp>(op.kind);
    return there.contains(value) || (follows && std::ranges::all_of(op.operands, is_there));
  };
  for (const PlanStep& step : planned.steps()) {
    if (const auto* call = std::get_if<CallId>(&step)) {
      const Op& op = planned.fusion.ops[planned.externals[*call].op];
      for (const ValueId operand : op.operands) EXPECT_TRUE(is_there(operand)) << operand.index;
      there.insert(op.results.begin(), op.results.end());
      continue;
    }
    const KernelPlan& kernel = planned.kernels[std::get<KernelId>(step)];
    if (kernel.in_plan.empty()) continue;  // A graph of its own, with its finish.
    for (const ValueId input : kernel.facts.fusion.inputs) {
      const ValueId value = kernel.in_plan.at(input);
      EXPECT_TRUE(is_there(value) || kernel.finishes || kernel.is_part) << value.index;
    }
    for (const ValueId output : kernel.facts.fusion.outputs)
      there.insert(kernel.in_plan.at(output));
  }
  for (const ValueId output : planned.fusion.outputs) EXPECT_TRUE(is_there(output));
}

TEST(SegmentedPlanTest, RandomGraphsAreCutLegally) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int ops = 5 + static_cast<int>(seed * 3);
    const Fusion fusion =
        random_graph(seed, {.ops = ops, .joins = seed % 3 == 0, .calls = seed % 2 == 0});
    SCOPED_TRACE(fusion.name);
    const auto planned = plan(fusion, {}, kLimits);
    ASSERT_TRUE(planned) << planned.error().text();
    if (planned->is_segmented) expect_runnable(*planned);
  }
}

TEST(SegmentedPlanTest, DoesNotDependOnTheOrderOfInsertion) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Fusion fusion = random_graph(seed, {.ops = 25, .joins = seed % 2 == 0, .calls = true});
    const Plan a = plan(fusion, {}, kLimits).value();
    const Plan b = plan(shuffled(fusion, seed), {}, kLimits).value();
    EXPECT_EQ(outline(a), outline(b)) << fusion.name;
    EXPECT_EQ(a.predicted_us(), b.predicted_us()) << fusion.name;
    EXPECT_EQ(a.workspace_bytes, b.workspace_bytes) << fusion.name;
  }
}

TEST(SegmentedPlanTest, CutsFollowTheirSegmentsWhenAFinishComesOrGoes) {
  FusionBuilder b("cut");
  const ValueId x = b.input(DType::kF32, {8192, 4096}, "x");
  const ValueId dy = b.input(DType::kF32, {8192, 4096}, "dy");
  const ValueId product = b.mul(x, dy);
  b.output(b.sum(product, {0}), "columns");
  const ValueId sums = b.sum(product, {1});
  b.named(sums, "sums");
  const ValueId scale = b.external("f", {sums}, {{DType::kF32, {8192}}})[0];
  b.output(b.mul(product, b.broadcast(scale, {8192, 4096}, {0})), "scaled");
  PlanOptions options;
  options.joins.push_back({{"columns", "sums"}});
  Plan planned = plan(b.build(), {}, kLimits, options).value();
  Schedule schedule = planned.kernels.front().chosen().schedule;
  schedule.finish = Finish::kKernel;
  ASSERT_TRUE(plan_finish(planned, {0}, schedule, scheduling_families()));
  ASSERT_EQ(planned.kernels.size(), 3U) << "the second finishes the columns";
  ASSERT_EQ(planned.cuts.size(), 1U);
  EXPECT_EQ(planned.cuts[0].from, KernelId{0});
  EXPECT_EQ(planned.cuts[0].to, KernelId{2});
  ASSERT_EQ(planned.externals.size(), 1U);
  EXPECT_EQ(planned.externals.front().before, KernelId{2}) << "the call runs behind what finishes";

  schedule.finish = Finish::kLastBlock;
  ASSERT_TRUE(plan_finish(planned, {0}, schedule, scheduling_families()));
  ASSERT_EQ(planned.kernels.size(), 2U);
  EXPECT_EQ(planned.externals.front().before, KernelId{1});
  EXPECT_EQ(planned.cuts[0].from, KernelId{0});
  EXPECT_EQ(planned.cuts[0].to, KernelId{1});
  const Plan without = planned;

  schedule.finish = Finish::kKernel;
  ASSERT_TRUE(plan_finish(planned, {0}, schedule, scheduling_families()));
  ASSERT_EQ(planned.kernels.size(), 3U);
  EXPECT_EQ(planned.cuts[0].to, KernelId{2});

  schedule.finish = Finish::kLastBlock;
  ASSERT_TRUE(plan_finish(planned, {0}, schedule, scheduling_families()));
  EXPECT_EQ(planned.steps(), without.steps());
  EXPECT_EQ(planned.workspace, without.workspace);
  EXPECT_EQ(planned.externals, without.externals);
  EXPECT_EQ(planned.cuts, without.cuts);
}

// ---- Large graphs

/// Groups that are analysed to group the nodes of a chain of sums and what they scale, for each of
/// them.
double analysed_per_node(int64_t sums, MergeOrder order) {
  FusionBuilder b("long");
  ValueId x = b.input(DType::kF32, {4096, 1024}, "x");
  for (int64_t i = 0; i < sums; ++i) {
    x = b.mul(x, b.broadcast_over(b.sum(x, {1}), x, {1}));
    b.output(x);
  }
  const Fusion fusion = b.build();
  const WorkGraph graph(fusion, kLimits);
  const FamilySet families = scheduling_families();
  GroupJudge judge(graph, kLimits, families);
  const Grouping grouped = group_greedily(graph, judge, order);
  // Groups of equal structure are analysed once; the sizes that they are analysed at tell.
  EXPECT_LT(grouped.groups.size(), graph.size());
  return static_cast<double>(grouped.judged.analysed) / static_cast<double>(graph.size());
}

TEST(SegmentedPlanTest, GroupsOfLargeGraphsDouble) {
  const double few = analysed_per_node(64, {.in_rounds = true});
  const double many = analysed_per_node(512, {.in_rounds = true});
  EXPECT_LE(many, few) << "a node more is not analysed more often";
}

TEST(SegmentedPlanTest, RoundsMakeNoSlowerPlansOfLargeGraphs) {
  double one_by_one_us = 0.0;
  double in_rounds_us = 0.0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Fusion fusion = simplify(random_graph(seed, {.ops = 120, .rows = 64, .columns = 512}));
    const WorkGraph graph(fusion, kLimits);
    const FamilySet families = scheduling_families();
    const PlanOptions options{.simplify = false};
    for (const bool in_rounds : {false, true}) {
      GroupJudge judge(graph, kLimits, families);
      GroupSchedules schedules(graph, kLimits, options);
      double& us = in_rounds ? in_rounds_us : one_by_one_us;
      for (const MergeTree& tree : group_greedily(graph, judge, {.in_rounds = in_rounds}).groups)
        us += std::min(schedules.best_us(tree), 1e3);
    }
  }
  EXPECT_LE(in_rounds_us, 1.02 * one_by_one_us);
}

// ---- Limits and order

/// Row sums of so many error functions, each of the one before.
Fusion long_chain(int functions) {
  FusionBuilder b("long_chain");
  ValueId x = b.input(DType::kF32, {64, 256}, "x");
  for (int i = 0; i < functions; ++i) x = b.pointwise(PointwiseFn::kErf, {x});
  b.output(b.sum(x, {1}), "y");
  return b.build();
}

TEST(SegmentedPlanTest, AGroupBeyondTheLimitOfInstructionsIsRefused) {
  const FamilySet families = scheduling_families();
  const auto verdict = [&](int functions) {
    const Fusion fusion = specialize(long_chain(functions), Binding{});
    const WorkGraph graph(fusion, kLimits);
    GroupJudge judge(graph, kLimits, families);
    std::vector<NodeId> all(graph.size());
    std::iota(all.begin(), all.end(), NodeId{0});
    const GroupVerdict& group = judge.judge(all);
    return group.legal ? std::string() : group.rejection.rule;
  };
  const double each = instructions_of(long_chain(2)) - instructions_of(long_chain(1));
  const double around = instructions_of(long_chain(1)) - each;
  const int most = static_cast<int>((kMostInstructions - around) / each);
  ASSERT_GT(most, 10);
  EXPECT_EQ(verdict(most), "");
  EXPECT_EQ(verdict(most + 1), "the instructions of an element fill the instruction cache");
  EXPECT_EQ(plan(long_chain(most), {}, kLimits).value().kernels.size(), 1);
  EXPECT_GT(plan(long_chain(most + 1), {}, kLimits).value().leading_kernels().size(), 1);
}

TEST(SegmentedPlanTest, IndependentSegmentsRunInTheOrderOfTheGraph) {
  FusionBuilder b("independent");
  // Sums over axes of which no kernel takes two.
  const ValueId x = b.input(DType::kF32, {16, 8, 64}, "x");
  const ValueId y = b.input(DType::kF32, {32, 24}, "y");
  const ValueId z = b.input(DType::kF32, {40, 56}, "z");
  b.output(b.sum(x, {1}), "first");
  b.output(b.sum(y, {1}), "second");
  b.output(b.sum(z, {0}), "third");
  const Plan planned = plan(b.build(), {}, kLimits).value();
  std::vector<std::string> order;
  for (const KernelPlan& kernel : planned.kernels) {
    if (kernel.finishes) continue;
    for (const ValueId output : kernel.facts.fusion.outputs)
      order.push_back(kernel.facts.fusion.values[output].name);
  }
  EXPECT_THAT(order, ::testing::ElementsAre("first", "second", "third"));
}

}  // namespace sinter::segmented_plan_test
