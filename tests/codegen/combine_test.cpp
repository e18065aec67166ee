#include "codegen/kernel/combine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "codegen/passes/kernel_passes.h"
#include "tests/runtime/interpreter/kernel_run.h"

namespace sinter::combine_test {

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
  const auto components = static_cast<size_t>(std::ssize(traits_of(combiner).components));
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

TEST(CombineTest, WelfordOfEqualElementsIsTheElement) {
  for (const float x : {0.1F, 1000.1F, 3e38F, -3e38F, 0x1.8p-148F}) {
    EXPECT_EQ(fold(Combiner::kWelford, std::vector(7, std::vector{1.0F, x, 0.0F})),
              (std::vector{7.0F, x, 0.0F}));
    EXPECT_EQ(fold(Combiner::kWelford, {{3.0F, x, 0.0F}, {33.0F, x, 0.0F}, {1.0F, x, 0.0F}}),
              (std::vector{37.0F, x, 0.0F}));
  }
}

TEST(CombineTest, WelfordSquaresNoDifferenceAlone) {
  // Two elements of 2e19 and their neighbours: the square of the mean is beyond f32, m2 is not.
  EXPECT_EQ(fold(Combiner::kWelford, {{2.0F, 0x1p64F, 0.0F}, {2.0F, 0x1p64F + 0x1p50F, 0.0F}}),
            (std::vector{4.0F, 0x1p64F + 0x1p49F, 0x1p100F}));
  // The difference of the means is beyond f32, the mean of both is not.
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(fold(Combiner::kWelford, {{1.0F, largest, 0.0F}, {1.0F, -largest, 0.0F}}),
            (std::vector{2.0F, 0.0F, kInf}));
}

TEST(CombineTest, WelfordOfNothingChangesNoTuple) {
  const std::vector<float> nothing = {0.0F, 0.0F, 0.0F};
  for (const float mean : {kInf, -kInf, 3e38F}) {
    const float m2 = std::isinf(mean) ? kNan : 2.0F;
    const std::vector<float> some = {3.0F, mean, m2};
    for (const auto& tuples : {std::vector{some, nothing}, std::vector{nothing, some}}) {
      const std::vector<float> result = fold(Combiner::kWelford, tuples);
      EXPECT_EQ(result[0], 3.0F);
      EXPECT_EQ(result[1], mean);
      EXPECT_THAT(result[2], testing::NanSensitiveFloatEq(m2));
    }
  }
}

TEST(CombineTest, WelfordOfInfiniteElementsHasNoM2) {
  for (const float x : {kInf, -kInf, kNan}) {
    KernelRun run(32);
    const kir::BufferId out = run.output("m2", DType::kF32, 32);
    const kir::BufferId in = run.global("x", DType::kF32, std::vector<float>(32, x));
    std::vector<VarId> accumulators;
    for (const float value : {5.0F, 2.0F, 1.0F})
      accumulators.push_back(run.b.declare("acc", run.b.real(value)));
    emit_combine(run.b, Combiner::kWelford, accumulators,
                 welford_element(run.b, run.b.ref(run.loaded("x", in, run.thread()))));
    run.store(out, run.thread(), accumulators[2]);
    run.kernel = run_kernel_passes(run.kernel, {.verify = true});
    run.run_clean(1);
    EXPECT_TRUE(std::isnan(run.contents<float>(0)[0])) << x;
  }
}

TEST(CombineTest, SumsOfPairsFollowTheirFormula) {
  for (const float max : {kInf, -kInf, kNan, 3.0F}) {
    KernelRun run(32);
    const kir::BufferId out = run.output("sum", DType::kF32, 32);
    const kir::BufferId in = run.global("max", DType::kF32, std::vector<float>(32, max));
    const VarId loaded = run.loaded("max", in, run.thread());
    const VarId sum = run.b.declare("sum", sum_of_pair(run.b, run.b.ref(loaded), run.b.real(17.0)));
    run.store(out, run.thread(), sum);
    run.kernel = run_kernel_passes(run.kernel, {.verify = true});
    run.run_clean(1);
    EXPECT_THAT(run.contents<float>(0)[0],
                testing::NanSensitiveFloatEq(std::isfinite(max) ? 17.0F : kNan));
  }
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

}  // namespace sinter::combine_test
