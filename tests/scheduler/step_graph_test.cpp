// The graph of a plan's steps has each tensor that passes between two of them once, with all that
// write it and all that read it.

#include "scheduler/report/step_graph.h"

#include <gmock/gmock.h>

#include "scheduler/plan/tensor_slots.h"
#include "tests/scheduler/drawn_plans.h"

namespace sinter::step_graph_test {

TEST(StepGraphTest, EveryTensorOfThePlanIsWrittenOnceAndRead) {
  for (const Plan& plan : some_plans()) {
    SCOPED_TRACE(plan.fusion.name);
    const StepGraph graph = step_graph(plan);
    EXPECT_EQ(graph.steps, plan.steps());
    size_t in_workspace = 0;
    for (const PassedTensor& tensor : graph.tensors) {
      EXPECT_EQ(tensor.is_input, tensor.writers.empty());
      for (const StepId reader : tensor.readers) {
        EXPECT_TRUE(graph.steps.contains(reader));
        for (const StepId writer : tensor.writers) EXPECT_LT(writer, reader);
      }
      if (tensor.is_input || tensor.is_output) continue;
      ++in_workspace;
      const auto stored = std::ranges::count_if(plan.workspace, [&](const WorkspaceTensor& other) {
        return other.value == tensor.value && other.bytes == tensor.bytes && !other.own();
      });
      EXPECT_GE(stored, 1);
    }
    EXPECT_EQ(in_workspace, static_cast<size_t>(std::ranges::count_if(
                                plan.workspace, [](const auto& other) { return !other.own(); })));
  }
}

TEST(StepGraphTest, WhatIsJoinedHasAllWhoWriteAPartOfIt) {
  FusionBuilder b("joined");
  const ValueId x = b.input(DType::kF32, {64, 128}, "x");
  const ValueId first = b.sum(b.exp(x), {1});
  const ValueId made = b.external("f", {first}, {{DType::kF32, {64}}})[0];
  const ValueId twice = b.broadcast_over(made, x, {-1});
  b.output(b.concatenate({b.exp(x), b.mul(x, twice)}, 1), "y");
  const Plan joined = plan(b.build(), {}, kLimits).value();
  const StepGraph graph = step_graph(joined);
  const auto y = std::ranges::find_if(graph.tensors, &PassedTensor::is_output);
  ASSERT_NE(y, graph.tensors.end());
  EXPECT_GE(y->writers.size(), 1U);
  for (const StepId step : graph.steps.ids()) {
    const auto* id = std::get_if<KernelId>(&graph.steps[step]);
    if (id == nullptr) continue;
    const auto& outputs = joined.kernels[*id].facts.fusion.outputs;
    const bool writes = std::ranges::any_of(outputs, [&](ValueId output) {
      return tensor_of(joined, joined.kernels[*id].in_plan.at(output)) == y->value;
    });
    EXPECT_EQ(std::ranges::count(y->writers, step), writes ? 1 : 0) << fmt::format("{}", *id);
  }
}

TEST(StepGraphTest, PartialResultsPassFromAKernelToTheOneThatFinishesThem) {
  const CannedFusion& canned = *find_canned_fusion("layer_norm_backward");
  const Plan gradient = plan(canned.build(), {{"rows", 8192}, {"cols", 4096}}, kLimits).value();
  ASSERT_EQ(gradient.kernels.size(), 2U);
  size_t partials = 0;
  for (const PassedTensor& tensor : step_graph(gradient).tensors) {
    if (tensor.holds != PassedTensor::Holds::kPartials) continue;
    ++partials;
    EXPECT_THAT(tensor.writers, testing::ElementsAre(StepId{0}));
    EXPECT_THAT(tensor.readers, testing::ElementsAre(StepId{1}));
    EXPECT_THAT(name_of(gradient, tensor), testing::StartsWith("partials of "));
  }
  EXPECT_EQ(partials, 2U) << "of both weights' gradients";
}

TEST(StepGraphTest, NamesOpsWithTheirCount) {
  EXPECT_EQ(ops_text(small_plan().kernels.front()), "exp");
  const CannedFusion& canned = *find_canned_fusion("rms_norm");
  EXPECT_EQ(ops_text(plan(canned.build(), canned.large, kLimits)->kernels.front()),
            "add, cast x3, mul x4, reduce.sum, rsqrt");
}

TEST(StepGraphTest, AKernelReadsTheInputAndWritesTheOutput) {
  FusionBuilder b("one");
  const ValueId x = b.input(DType::kF32, {64, 16}, "x");
  b.output(b.exp(x));
  const Plan one = planned(b.build());
  const StepGraph graph = step_graph(one);
  ASSERT_EQ(graph.tensors.size(), 2U);
  const PassedTensor& input = graph.tensors[0];
  EXPECT_TRUE(input.is_input);
  EXPECT_EQ(input.bytes, 64 * 16 * 4);
  EXPECT_THAT(input.readers, testing::ElementsAre(StepId{0}));
  EXPECT_EQ(name_of(one, input), "x");
  const PassedTensor& output = graph.tensors[1];
  EXPECT_TRUE(output.is_output);
  EXPECT_THAT(output.writers, testing::ElementsAre(StepId{0}));
  EXPECT_THAT(output.readers, testing::IsEmpty());
  EXPECT_EQ(name_of(one, output), fmt::format("{}", output.value)) << "it has no name";
}

/// The call reads what the first kernel writes, and the last kernel reads both.
TEST(StepGraphTest, ATensorHasAllItsReaders) {
  const Plan plan = small_plan();
  const StepGraph graph = step_graph(plan);
  const auto readers_of = [&](const char* name) {
    const auto found = std::ranges::find_if(
        graph.tensors, [&](const PassedTensor& tensor) { return name_of(plan, tensor) == name; });
    return found == graph.tensors.end() ? std::vector<StepId>() : found->readers;
  };
  EXPECT_THAT(readers_of("h"), testing::ElementsAre(StepId{1}, StepId{2}));
  EXPECT_THAT(readers_of("m"), testing::ElementsAre(StepId{2}));
}

}  // namespace sinter::step_graph_test
