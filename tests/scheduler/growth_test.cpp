// The time that planning takes grows little faster than the graph.

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/planner.h"

namespace sinter::growth_test {

/// What a quadratic part would make 16, and one that is near linear 4 to 5, with room for a machine
/// that does other things.
constexpr int64_t kTimesAsLarge = 4;
constexpr double kMostTimesAsLong = 9.0;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The least of several times.
double seconds_to_plan(const Fusion& fusion) {
  constexpr int kTimes = 3;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimes; ++i) {
    const double before = processor_seconds();
    const auto planned = plan(fusion, {}, *find_device("H200"));
    least = std::min(least, processor_seconds() - before);
    EXPECT_TRUE(planned.has_value());
  }
  return least;
}

void expect_near_linear(const std::function<Fusion(int64_t)>& build, int64_t small) {
  const double of_small = seconds_to_plan(build(small));
  const double of_large = seconds_to_plan(build(kTimesAsLarge * small));
  EXPECT_LT(of_large, kMostTimesAsLong * of_small)
      << of_small << " s and " << of_large << " s for " << kTimesAsLarge << " times as many ops";
}

constexpr int64_t kRows = 4096;
constexpr int64_t kColumns = 1024;

/// n outputs, each of one function of `x`.
Fusion with_outputs_of(FusionBuilder& b, ValueId x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const ValueId number = b.constant(static_cast<double>(i + 2));
    b.output(i % 2 == 0 ? b.add(x, number) : b.mul(x, number));
  }
  return b.build();
}

TEST(GrowthTest, OutputsOfOneInput) {
  expect_near_linear(
      [](int64_t n) {
        FusionBuilder b("outputs");
        const ValueId x = b.input(DType::kF32, {kRows, kColumns}, "x");
        return with_outputs_of(b, x, n);
      },
      512);
}

TEST(GrowthTest, OutputsOfOneComputedValue) {
  expect_near_linear(
      [](int64_t n) {
        FusionBuilder b("outputs");
        const ValueId x = b.exp(b.input(DType::kF32, {kRows, kColumns}, "x"));
        return with_outputs_of(b, x, n);
      },
      512);
}

TEST(GrowthTest, FunctionsInAChainWithOutputs) {
  expect_near_linear(
      [](int64_t n) {
        FusionBuilder b("outputs");
        ValueId value = b.input(DType::kF32, {kRows, kColumns}, "x");
        for (int64_t i = 0; i < n; ++i) {
          value = i % 2 == 0 ? b.exp(value) : b.pointwise(PointwiseFn::kTanh, {value});
          b.output(value);
        }
        return b.build();
      },
      1000);
}

TEST(GrowthTest, SlicesJoinedInAnotherOrder) {
  expect_near_linear(
      [](int64_t n) {
        constexpr int64_t kWidth = 4;
        FusionBuilder b("slices");
        const ValueId x = b.input(DType::kF32, {kRows, kWidth * n}, "x");
        std::vector<ValueId> parts;
        for (int64_t i = n; i-- > 0;)
          parts.push_back(b.slice(x, {0, kWidth * i}, {kRows, kWidth * (i + 1)}, {1, 1}));
        b.output(b.concatenate(parts, 1));
        return b.build();
      },
      512);
}

TEST(GrowthTest, CallsInAChain) {
  expect_near_linear(
      [](int64_t n) {
        FusionBuilder b("calls");
        ValueId value = b.input(DType::kF32, {64, 32}, "x");
        for (int64_t i = 0; i < n; ++i)
          value = b.external("call", {b.exp(value)}, {{DType::kF32, {64, 32}}})[0];
        b.output(value);
        return b.build();
      },
      1000);
}

TEST(GrowthTest, TakesOfFunctionsOfTakes) {
  expect_near_linear(
      [](int64_t n) {
        FusionBuilder b("takes");
        ValueId value = b.input(DType::kF32, {256}, "x");
        const ValueId index = b.input(DType::kI32, {256}, "index");
        for (int64_t i = 0; i < n; ++i)
          value = b.take(b.broadcast(b.exp(value), {8, 256}, {1}), index, 0);
        b.output(value);
        return b.build();
      },
      1000);
}

TEST(GrowthTest, PartsOfWhatIsJoinedWithTheInput) {
  expect_near_linear(
      [](int64_t n) {
        FusionBuilder b("joined_chain");
        const ValueId x = b.input(DType::kF32, {64, 32}, "x");
        ValueId value = x;
        for (int64_t i = 0; i < n; ++i)
          value = b.slice(b.concatenate({value, x}, 1), {0, 1 + i % 31}, {64, 33 + i % 31}, {1, 1});
        b.output(value);
        return b.build();
      },
      500);
}

TEST(GrowthTest, ConcatenatesOfConcatenates) {
  expect_near_linear(
      [](int64_t n) {
        FusionBuilder b("nested_joins");
        const ValueId x = b.input(DType::kF32, {64, 32}, "x");
        ValueId value = x;
        for (int64_t i = 0; i < n; ++i) value = b.concatenate({value, b.exp(x)}, 0);
        b.output(value);
        return b.build();
      },
      1000);
}

}  // namespace sinter::growth_test
