// Graphs of several kernels and external calls held against the oracle: in the interpreter, through
// an Executable on a fake driver, and on a GPU where there is one.

#include <gmock/gmock.h>

#include "codegen/cuda/emit.h"
#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "runtime/check/device_run.h"
#include "runtime/check/host_execution.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/integration/live_device.h"
#include "tests/support/fake_driver.h"
#include "tests/support/h200.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_calls.h"
#include "tests/support/stand_in_calls.h"
#include "tests/support/training_layers.h"

namespace sinter::segmented_graphs_test {

void expect_right(const Fusion& fusion, const ExtentValues& extents, uint64_t seed,
                  const HostCalls& calls) {
  SCOPED_TRACE(fusion.name);
  const FamilySet families = builtin_families();
  const auto planned = plan(fusion, extents, kLimits, {.families = families});
  ASSERT_TRUE(planned) << planned.error().text();
  const auto inputs = sample_inputs(fusion, planned->binding, seed);
  const auto check =
      check_on_host(fusion, planned->binding, *planned, inputs, families, {.seed = seed}, calls);
  ASSERT_TRUE(check) << check.error().text();
  EXPECT_TRUE(check->passed()) << check->text();
}

class RandomGraphs : public ::testing::TestWithParam<int> {};

TEST_P(RandomGraphs, ComputeTheOracle) {
  const int ops = GetParam();
  const uint64_t graphs = ops > 50 ? 4 : 25;
  for (uint64_t seed = 0; seed < graphs; ++seed) {
    const RandomGraphOptions options{.ops = ops, .calls = seed % 2 == 1};
    expect_right(random_graph(seed * 100 + static_cast<uint64_t>(ops), options), {}, seed,
                 random_graph_calls());
  }
}

TEST_P(RandomGraphs, JoinedInPlaceComputeTheOracle) {
  const int ops = GetParam();
  const uint64_t graphs = ops > 50 ? 4 : 25;
  for (uint64_t seed = 0; seed < graphs; ++seed) {
    const RandomGraphOptions options{.ops = ops, .joins = true, .calls = seed % 2 == 1};
    expect_right(random_graph(seed * 100 + static_cast<uint64_t>(ops), options), {}, seed,
                 random_graph_calls());
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RandomGraphs, ::testing::Values(5, 10, 20, 40, 80, 200));

TEST(TrainingLayers, ForwardComputesTheOracle) {
  const HostCalls calls{.run = run_reference_call, .evaluate = reference_call};
  for (const int64_t tokens : {16, 5}) {
    expect_right(gpt2_layer_forward(), {{"tokens", tokens}}, 1, calls);
    expect_right(bert_layer_forward(), {{"tokens", tokens}}, 2, calls);
  }
}

TEST(TrainingLayers, OfRotaryEmbeddingsComputeTheOracle) {
  const HostCalls calls{.run = run_reference_call, .evaluate = reference_call};
  for (const int64_t tokens : {16, 5}) {
    expect_right(llama_layer_forward(), {{"tokens", tokens}}, 1, calls);
    expect_right(llama_layer_backward(), {{"tokens", tokens}}, 2, calls);
  }
}

TEST(TrainingLayers, BackwardComputesTheOracle) {
  const HostCalls calls{.run = run_reference_call, .evaluate = reference_call};
  for (const int64_t tokens : {16, 5}) {
    expect_right(gpt2_layer_backward(), {{"tokens", tokens}}, 1, calls);
    expect_right(bert_layer_backward(), {{"tokens", tokens}}, 2, calls);
  }
}

TEST(TrainingLayers, ComputeTheOracleAroundStandInsForTheirCalls) {
  for (const Fusion& layer : {llama_layer_backward(), gpt2_layer_forward(), bert_layer_forward()})
    expect_right(layer, {{"tokens", 24}}, 3, stand_in_calls());
}

// A gather of what a call made runs with the reduction of its rows.
TEST(LanguageModels, LossesOfTheirHeadsComputeTheOracle) {
  const HostCalls calls{.run = run_reference_call, .evaluate = reference_call};
  for (const bool others : {false, true}) {
    for (const int64_t tokens : {16, 5})
      expect_right(language_model_loss(24, 131, others), {{"tokens", tokens}}, 1, calls);
  }
}

// What is picked from is computed by the kernel that picks.
TEST(LanguageModels, ProbabilitiesOfTheirTokensComputeTheOracle) {
  const HostCalls calls{.run = run_reference_call, .evaluate = reference_call};
  for (const bool keep_all : {false, true}) {
    FusionBuilder b("token_probabilities");
    const Extent tokens = b.symbol("tokens");
    const ValueId x = b.input(DType::kF32, {tokens, 24});
    const ValueId weight = b.input(DType::kF32, {131, 24});
    const ValueId ids = b.input(DType::kI64, {tokens});
    const ValueId logits =
        b.external("matmul_nt", {x, weight}, {{DType::kF32, {tokens, 131}}}).front();
    const ValueId probabilities = log_softmax(b, logits);
    b.output(b.take(probabilities, ids, 1));
    if (keep_all) b.output(probabilities);
    const Fusion fusion = b.build();
    for (const int64_t size : {16, 5, 0}) expect_right(fusion, {{"tokens", size}}, 1, calls);
  }
}

TEST(ExternalCalls, NeedAFunction) {
  const Fusion fusion = gpt2_layer_forward();
  const FamilySet families = builtin_families();
  const Plan planned = plan(fusion, {{"tokens", 8}}, kLimits, {.families = families}).value();
  const auto inputs = sample_inputs(fusion, planned.binding, 1);
  const auto run = execute_on_host(planned, inputs, families);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(run.error().text(), testing::HasSubstr("nothing runs the external call 'matmul_nt'"));
}

// ---- Through an executable

TEST(SegmentedExecutable, ComputesTheOracleWithExternalCallsInOrder) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Fusion fusion = random_graph(seed, {.ops = 25, .calls = true});
    SCOPED_TRACE(fusion.name);
    FakeDriver driver;
    Plan planned = plan(fusion, {}, kLimits, {.families = builtin_families()}).value();
    auto executable = Executable::prepare(interpreted(driver, std::move(planned)), driver,
                                          {.external = on_host_memory(random_graph_calls().run)});
    ASSERT_TRUE(executable) << executable.error().text();
    const auto run = run_on_device(fusion, *executable, driver,
                                   {.time = false, .external = random_graph_calls().evaluate});
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->check.passed()) << run->check.text();
  }
}

TEST(SegmentedExecutable, ACallThatFailsEndsTheExecutionAndNoMore) {
  const Fusion fusion = gpt2_layer_forward();
  FakeDriver driver;
  Plan planned = plan(fusion, {{"tokens", 8}}, kLimits, {.families = builtin_families()}).value();
  EXPECT_EQ(Executable::prepare(interpreted(driver, planned), driver).error().kind,
            ErrorKind::kInvalidArgument)
      << "nothing runs the calls";
  int fails_at = 2;
  int calls = 0;
  const ExternalCallback reference = on_host_memory(run_reference_call);
  const auto external = [&](const ExternalRequest& request) -> Result<void> {
    if (calls++ != fails_at) return reference(request);
    return fail({.kind = ErrorKind::kDeviceError, .message = "out of luck", .remedy = "try again"});
  };
  auto executable =
      Executable::prepare(interpreted(driver, planned), driver, {.external = external});
  ASSERT_TRUE(executable) << executable.error().text();
  const DeviceRunOptions options{.time = false, .external = reference_call};
  const auto failed = run_on_device(fusion, *executable, driver, options);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "out of luck");
  EXPECT_THAT(failed.error().ops, testing::SizeIs(1));
  EXPECT_EQ(calls, 3) << "nothing runs behind it";
  fails_at = -1;
  const auto run = run_on_device(fusion, *executable, driver, options);
  ASSERT_TRUE(run) << run.error().text();
  EXPECT_TRUE(run->check.passed()) << run->check.text();
}

// ---- On a GPU

class SegmentedGpu : public LiveDeviceTest<uint64_t> {};

TEST_P(SegmentedGpu, ComputesTheOracle) {
  const uint64_t seed = GetParam();
  RandomGraphOptions options{.ops = 10 + static_cast<int>(seed % 6) * 8, .joins = seed >= 40};
  if (seed % 2 == 1) {
    options.batch = 3;
    options.rows = 100 + static_cast<int64_t>(seed) * 7;
    options.columns = 512 + static_cast<int64_t>(seed % 5) * 36;
  }
  const Fusion fusion = random_graph(seed, options);
  SCOPED_TRACE(fusion.name);
  expect_right_on_device(fusion);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SegmentedGpu, ::testing::Range<uint64_t>(0, 64));

}  // namespace sinter::segmented_graphs_test
