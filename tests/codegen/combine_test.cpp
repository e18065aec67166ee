#include "codegen/combine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codegen/kernel_passes.h"
#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter {
namespace {

using kir::Combiner;
using kir::ExprId;
using kir::VarId;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Indexed {
  float value = 0.0F;
  int64_t index = 0;
};

/// Combines two (value, index) tuples on the interpreter.
Indexed combine(Combiner combiner, Indexed a, Indexed b) {
  KernelRun run(32);
  const kir::BufferId values = run.output("values", DType::kF32, 32);
  const kir::BufferId indices = run.output("indices", DType::kI64, 32);
  const VarId value = run.b.declare("value", run.b.real(a.value));
  const VarId index = run.b.declare("index", run.b.integer(a.index, DType::kI64));
  const std::vector<VarId> accumulators = {value, index};
  const std::vector<ExprId> others = {run.b.real(b.value), run.b.integer(b.index, DType::kI64)};
  emit_combine(run.b, combiner, accumulators, others);
  run.store(values, run.thread(), value);
  run.store(indices, run.thread(), index);
  run.kernel = run_kernel_passes(run.kernel, {.verify = true});
  run.run_clean(1);
  return {run.contents<float>(0)[0], run.contents<int64_t>(1)[0]};
}

TEST(CombineTest, ArgMaxTakesTheLowestIndexOfTheExtreme) {
  struct Case {
    Indexed a, b;
    int64_t expected;
  };
  for (const auto& [a, b, expected] :
       std::initializer_list<Case>{{{1.0F, 4}, {2.0F, 9}, 9},
                                   {{2.0F, 9}, {2.0F, 4}, 4},
                                   {{kNan, 9}, {kInf, 4}, 9},
                                   {{kNan, 9}, {kNan, 4}, 4},
                                   {{-kInf, std::numeric_limits<int64_t>::max()}, {-kInf, 4}, 4},
                                   {{0.0F, 9}, {-0.0F, 4}, 4}}) {
    EXPECT_EQ(combine(Combiner::kArgMax, a, b).index, expected) << a.value << ' ' << b.value;
    EXPECT_EQ(combine(Combiner::kArgMax, b, a).index, expected) << b.value << ' ' << a.value;
  }
  EXPECT_EQ(combine(Combiner::kArgMin, {1.0F, 4}, {2.0F, 9}).index, 4);
  EXPECT_TRUE(std::isnan(combine(Combiner::kArgMin, {1.0F, 4}, {kNan, 9}).value));
}

/// Folds `values` from the identity with one combination each; answers all components.
std::vector<float> fold(Combiner combiner, const std::vector<std::vector<float>>& tuples) {
  KernelRun run(32);
  const auto components = static_cast<size_t>(kir::components_of(combiner));
  std::vector<kir::BufferId> outputs;
  std::vector<VarId> accumulators;
  for (size_t i = 0; i < components; ++i) {
    outputs.push_back(run.output("out", DType::kF32, 32));
  }
  for (size_t i = 0; i < components; ++i) {
    accumulators.push_back(
        run.b.declare("acc", identity_of(run.b, combiner, static_cast<int64_t>(i), DType::kF32)));
  }
  for (const std::vector<float>& tuple : tuples) {
    std::vector<ExprId> others;
    for (const float value : tuple) others.push_back(run.b.real(value));
    emit_combine(run.b, combiner, accumulators, others);
  }
  for (size_t i = 0; i < components; ++i) run.store(outputs[i], run.thread(), accumulators[i]);
  run.kernel = run_kernel_passes(run.kernel, {.verify = true});
  run.run_clean(1);
  std::vector<float> result;
  for (size_t i = 0; i < components; ++i) result.push_back(run.contents<float>(i)[0]);
  return result;
}

TEST(CombineTest, IdentitiesChangeNothing) {
  EXPECT_EQ(fold(Combiner::kSum, {{3.0F}}), std::vector{3.0F});
  EXPECT_EQ(fold(Combiner::kProd, {{3.0F}}), std::vector{3.0F});
  EXPECT_EQ(fold(Combiner::kMax, {{-kInf}}), std::vector{-kInf});
  EXPECT_EQ(fold(Combiner::kMin, {{kInf}}), std::vector{kInf});
  EXPECT_EQ(fold(Combiner::kLogSumExp, {{3.0F, 2.0F}}), (std::vector{3.0F, 2.0F}));
  EXPECT_EQ(fold(Combiner::kWelford, {{4.0F, 5.0F, 6.0F}}), (std::vector{4.0F, 5.0F, 6.0F}));
}

TEST(CombineTest, WelfordWithNothingOnBothSidesStaysNothing) {
  EXPECT_EQ(fold(Combiner::kWelford, {{0.0F, 0.0F, 0.0F}}), (std::vector{0.0F, 0.0F, 0.0F}));
}

TEST(CombineTest, WelfordMergesMoments) {
  // {1, 3} and {5, 7, 9, 11}: exact in f32.
  EXPECT_EQ(fold(Combiner::kWelford, {{2.0F, 2.0F, 2.0F}, {2.0F, 6.0F, 2.0F}}),
            (std::vector{4.0F, 4.0F, 20.0F}));
}

TEST(CombineTest, MaximaPropagateNan) {
  EXPECT_TRUE(std::isnan(fold(Combiner::kMax, {{kNan}, {1.0F}})[0]));
  EXPECT_TRUE(std::isnan(fold(Combiner::kMin, {{1.0F}, {kNan}})[0]));
}

TEST(CombineTest, LogSumExpScalesToTheLargerMaximum) {
  // exp(-200) is far below an ulp of 1.
  EXPECT_EQ(fold(Combiner::kLogSumExp, {{0.0F, 1.0F}, {200.0F, 1.0F}}),
            (std::vector{200.0F, 1.0F}));
  EXPECT_EQ(fold(Combiner::kLogSumExp, {{200.0F, 1.0F}, {0.0F, 1.0F}}),
            (std::vector{200.0F, 1.0F}));
  EXPECT_EQ(fold(Combiner::kLogSumExp, {{7.0F, 1.0F}, {7.0F, 2.0F}}), (std::vector{7.0F, 3.0F}));
  EXPECT_EQ(fold(Combiner::kLogSumExp, {{-kInf, 0.0F}, {-kInf, 0.0F}}), (std::vector{-kInf, 0.0F}));
  EXPECT_TRUE(std::isnan(fold(Combiner::kLogSumExp, {{kNan, 1.0F}, {1.0F, 1.0F}})[1]));
}

}  // namespace
}  // namespace sinter
