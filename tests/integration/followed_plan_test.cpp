// Plans that follow one made for other sizes: the same kernels, and right at every size.

#include <gmock/gmock.h>

#include "codegen/cuda/emit.h"
#include "runtime/check/host_execution.h"
#include "runtime/check/row_repetition.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_calls.h"
#include "tests/support/training_layers.h"

namespace sinter::followed_plan_test {

std::shared_ptr<const Plan> model_of(const Fusion& fusion, const ExtentValues& extents) {
  return std::make_shared<const Plan>(
      plan(fusion, extents, kLimits, {.families = builtin_families()}).value());
}

Result<Plan> followed(const Fusion& fusion, const ExtentValues& extents,
                      std::shared_ptr<const Plan> model) {
  return plan(fusion, extents, kLimits, {.families = builtin_families(), .like = std::move(model)});
}

std::vector<std::string> texts_of(const Plan& plan) {
  const FamilySet families = builtin_families();
  std::vector<std::string> out;
  for (const KernelPlan& kernel : plan.kernels)
    out.push_back(emit(kernel.facts, kernel.chosen().schedule, families).value().text);
  return out;
}

/// One text for each kernel, whatever the size of the symbol.
void expect_one_set_of_kernels(const Fusion& fusion, const std::string& symbol, int64_t first,
                               const std::vector<int64_t>& sizes, ExtentValues others = {}) {
  others[symbol] = first;
  const auto model = model_of(fusion, others);
  const std::vector<std::string> texts = texts_of(*model);
  for (const int64_t size : sizes) {
    SCOPED_TRACE(fmt::format("{} {}={}", fusion.name, symbol, size));
    others[symbol] = size;
    const auto plan = followed(fusion, others, model);
    ASSERT_TRUE(plan) << plan.error().text();
    EXPECT_TRUE(texts_of(*plan) == texts);
  }
}

TEST(FollowedPlans, LayersRunOneSetOfKernelsWhateverTheTokens) {
  const std::vector<int64_t> tokens = {0, 1, 2, 3, 33, 64, 1000, 4097, 100'000};
  expect_one_set_of_kernels(llama_layer_forward(kLlama3With8B), "tokens", 8192, tokens);
  expect_one_set_of_kernels(llama_layer_backward(kLlama3With8B), "tokens", 8192, tokens);
  expect_one_set_of_kernels(gpt2_layer_forward(kGpt2), "tokens", 8192, tokens);
  expect_one_set_of_kernels(gpt2_layer_backward(kGpt2), "tokens", 8192, tokens);
  expect_one_set_of_kernels(bert_layer_forward(kBertBase), "tokens", 8192, tokens);
  expect_one_set_of_kernels(bert_layer_backward(kBertBase), "tokens", 8192, tokens);
}

TEST(FollowedPlans, CannedFusionsRunOneKernelWhateverTheRows) {
  int count = 0;
  for (const CannedFusion& canned : canned_fusions()) {
    const Fusion fusion = canned.build();
    const auto symbol = slicewise_symbol(fusion);
    // A contraction walks rows and columns of its result as one axis.
    if (!symbol || contracts(fusion)) continue;
    ExtentValues others;
    for (const Symbol& other : fusion.symbols) others[other.name] = 64;
    // All with less than 2^31 elements, beyond which kernels count in 64 bits.
    expect_one_set_of_kernels(fusion, fusion.symbols[*symbol].name, 512, {1, 2, 3, 33, 64, 1000},
                              others);
    ++count;
  }
  EXPECT_GT(count, 20);
}

void expect_right(const Fusion& fusion, const ExtentValues& extents, const Plan& plan,
                  uint64_t seed, const HostCalls& calls) {
  const FamilySet families = builtin_families();
  const auto inputs = sample_inputs(fusion, plan.binding, seed);
  const auto check =
      check_on_host(fusion, plan.binding, plan, inputs, families, {.seed = seed}, calls);
  ASSERT_TRUE(check) << check.error().text();
  EXPECT_TRUE(check->passed()) << ::testing::PrintToString(extents) << check->text();
}

TEST(FollowedPlans, LayersComputeTheOracle) {
  const HostCalls calls{.run = run_reference_call, .evaluate = reference_call};
  for (const Fusion& fusion :
       {llama_layer_forward(), llama_layer_backward(), gpt2_layer_forward(), gpt2_layer_backward(),
        bert_layer_forward(), bert_layer_backward()}) {
    // Of many rows, so that blocks outnumber those of the sizes that follow.
    const auto model = model_of(fusion, {{"tokens", 8192}});
    for (const int64_t tokens : {0, 1, 2, 9}) {
      SCOPED_TRACE(fmt::format("{} at {} tokens", fusion.name, tokens));
      const ExtentValues extents = {{"tokens", tokens}};
      const auto plan = followed(fusion, extents, model);
      ASSERT_TRUE(plan) << plan.error().text();
      expect_right(fusion, extents, *plan, 3, calls);
    }
  }
}

TEST(FollowedPlans, RowsComputeTheOracle) {
  for (const char* name : {"rms_norm", "softmax", "layer_norm_backward", "rms_norm_backward",
                           "bias_gradient", "cross_entropy", "layer_norm"}) {
    const CannedFusion* canned = find_canned_fusion(name);
    ASSERT_NE(canned, nullptr) << name;
    const Fusion fusion = canned->build();
    ExtentValues extents;
    for (const Symbol& symbol : fusion.symbols) extents[symbol.name] = 520;
    const std::string& rows = fusion.symbols[SymbolId{0}].name;
    extents[rows] = 4096;
    const auto model = model_of(fusion, extents);
    for (const int64_t count : {0, 1, 2, 37}) {
      SCOPED_TRACE(fmt::format("{} of {} rows", name, count));
      extents[rows] = count;
      const auto plan = followed(fusion, extents, model);
      ASSERT_TRUE(plan) << plan.error().text();
      expect_right(fusion, extents, *plan, 5, {});
    }
  }
}

TEST(FollowedPlans, RandomGraphsComputeTheOracle) {
  int count = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const RandomGraphOptions small{
        .ops = 6 + static_cast<int>(seed % 20), .joins = seed % 3 == 0, .calls = seed % 2 == 1};
    RandomGraphOptions large = small;
    large.batch = 512;
    const Fusion fusion = random_graph(seed, small);
    const auto model =
        plan(random_graph(seed, large), {}, kLimits, {.families = builtin_families()});
    ASSERT_TRUE(model) << model.error().text();
    // Slices are drawn by extents, so some graphs are others.
    const auto plan = followed(fusion, {}, std::make_shared<const Plan>(*model));
    if (!plan) {
      EXPECT_THAT(plan.error().kind,
                  ::testing::AnyOf(ErrorKind::kUnsupported, ErrorKind::kResourceExhausted))
          << plan.error().text();
      continue;
    }
    SCOPED_TRACE(fusion.name);
    expect_right(fusion, {}, *plan, seed, random_graph_calls());
    ++count;
  }
  EXPECT_GT(count, 40);
}

}  // namespace sinter::followed_plan_test
