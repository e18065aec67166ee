// Statistics whose right values are known exactly, by every family and by schedules drawn at
// random: of equal elements, of means whose square no f32 holds, of infinities, and of masked rows
// and columns. The bounds of the oracle are too wide to tell these apart from wrong ones.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"

namespace sinter::reduction_numerics_test {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t kDraws = 12;
constexpr uint64_t kDrawsOfMany = 5;  ///< Of lines that take long to interpret.
constexpr int64_t kManyElements = 100;

enum class Statistic : uint8_t { kWelford, kLogSumExp, kArgMax, kArgMin };

/// The statistic of x[rows, cols] over one axis; both results are outputs.
/// `deviations` are one more, and have the row wait for its mean.
Fusion statistic(Statistic what, DType type, int axis, bool deviations = false) {
  FusionBuilder b("statistic");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  ValueId x = b.input(type, {rows, cols}, "x");
  if (compute_type(type) != type) x = b.cast(x, DType::kF32);
  if (what == Statistic::kArgMax || what == Statistic::kArgMin) {
    b.output(
        b.reduce(what == Statistic::kArgMax ? ReduceFn::kArgMax : ReduceFn::kArgMin, x, {axis}),
        "place");
  } else if (what == Statistic::kLogSumExp) {
    const auto [max, sum] = b.logsumexp_pair(x, {axis});
    b.output(max, "max");
    b.output(sum, "sum");
  } else {
    const auto [mean, m2] = b.welford(x, {axis});
    b.output(mean, "mean");
    b.output(m2, "m2");
    if (deviations) b.output(b.sub(x, b.broadcast_over(mean, x, {axis})), "deviation");
  }
  return b.build();
}

/// Runs what is chosen, the best schedule of each family and schedules drawn at random, and gives
/// `check` the outputs of each.
void for_schedules(const Fusion& fusion, const ExtentValues& extents, const HostTensor& x,
                   const std::function<void(const std::vector<HostTensor>&)>& check) {
  const FamilySet families = builtin_families();
  const DeviceLimits limits = *find_device("H200");
  const auto planned = plan(fusion, extents, limits, {.families = families});
  ASSERT_TRUE(planned) << planned.error().text();
  const std::vector<HostTensor> inputs = {x};
  const auto whole = execute_on_host(*planned, inputs, families);
  ASSERT_TRUE(whole) << whole.error().text();
  check(whole->outputs);
  if (planned->kernels.size() != 1) return;
  const KernelPlan& kernel = planned->kernels.front();
  std::vector<Schedule> schedules = chosen_and_best_of_families(kernel);
  const uint64_t draws = x.count() > kManyElements ? kDrawsOfMany : kDraws;
  for (uint64_t seed = 0; seed < draws; ++seed) {
    if (const auto drawn = random_schedule(kernel.facts, limits, families, seed))
      schedules.push_back(drawn->schedule);
  }
  for (const Schedule& schedule : schedules) {
    SCOPED_TRACE(print(schedule));
    const auto run = execute_on_host(*planned, schedule, inputs, families);
    ASSERT_TRUE(run) << run.error().text();
    check(run->outputs);
    if (::testing::Test::HasFailure()) return;
  }
}

std::vector<double> contents(const HostTensor& tensor) {
  std::vector<double> out(static_cast<size_t>(tensor.count()));
  tensor.read(0, out);
  return out;
}

/// The elements of a row or column of a matrix, by number of it.
using Line = std::function<double(int64_t line, int64_t place)>;

/// A matrix whose lines lie along `axis`.
HostTensor matrix(DType type, int64_t lines, int64_t length, int axis, const Line& line) {
  std::vector<double> values(static_cast<size_t>(lines * length));
  for (int64_t i = 0; i < lines; ++i) {
    for (int64_t k = 0; k < length; ++k)
      values[static_cast<size_t>(axis == 1 ? i * length + k : k * lines + i)] = line(i, k);
  }
  return HostTensor::of(type, axis == 1 ? Sizes{lines, length} : Sizes{length, lines}, values);
}

ExtentValues extents_of(int64_t lines, int64_t length, int axis) {
  return {{"rows", axis == 1 ? lines : length}, {"cols", axis == 1 ? length : lines}};
}

MATCHER_P(SameAs, expected, "") { return std::isnan(expected) ? std::isnan(arg) : arg == expected; }

struct Extent2 {
  int axis;
  int64_t length;
};

class ReductionNumerics : public ::testing::TestWithParam<Extent2> {};

TEST_P(ReductionNumerics, EqualElementsDeviateByNothing) {
  const auto [axis, length] = GetParam();
  const std::vector<double> constants = {0.1F, 1000.1F, 3e38F, -3e38F, 0x1.8p-148, 1e-40F, 1e-12F};
  const auto lines = static_cast<int64_t>(constants.size());
  const HostTensor x = matrix(DType::kF32, lines, length, axis, [&](int64_t line, int64_t) {
    return constants[static_cast<size_t>(line)];
  });
  for (const bool deviations : {false, true}) {
    for_schedules(statistic(Statistic::kWelford, DType::kF32, axis, deviations),
                  extents_of(lines, length, axis), x, [&](const std::vector<HostTensor>& out) {
                    for (int64_t i = 0; i < lines; ++i) {
                      const float constant = static_cast<float>(constants[static_cast<size_t>(i)]);
                      EXPECT_EQ(out[0].get(i), constant);
                      EXPECT_EQ(out[1].get(i), 0.0) << constant;
                    }
                    if (!deviations) return;
                    EXPECT_THAT(contents(out[2]), testing::Each(0.0));
                  });
  }
}

/// Elements near to a mean whose square overflows, and with infinities or NaN among them: those
/// have no m2, wherever they stand.
TEST_P(ReductionNumerics, LargeMeansHaveTheirDeviations) {
  const auto [axis, length] = GetParam();
  const float step = 0x1p41F;  // An ulp of 0x1p64.
  const auto element = [&, length = length](int64_t line, int64_t place) -> double {
    if (line == 1 && place == length - 1) return kInf;
    if (line == 2 && place == length / 2) return kNan;
    if (line == 3 && place == 0) return -kInf;
    return 0x1p64F + step * static_cast<float>(place % 2);
  };
  constexpr int64_t kLines = 4;
  const HostTensor x = matrix(DType::kF32, kLines, length, axis, element);
  const auto odd = static_cast<double>(length / 2);
  const double share = odd / static_cast<double>(length);
  const double mean = 0x1p64 + step * share;
  const double m2 = static_cast<double>(step) * step * odd * (1.0 - share);
  for_schedules(statistic(Statistic::kWelford, DType::kF32, axis), extents_of(kLines, length, axis),
                x, [&](const std::vector<HostTensor>& out) {
                  EXPECT_NEAR(out[0].get(0), mean, 0x1p41);
                  // The mean of a part may round by half of a step, as much as elements deviate.
                  EXPECT_LE(out[1].get(0), 4.0 * m2 + 0x1p82);
                  EXPECT_GE(out[1].get(0), m2 / 4.0);
                  for (int64_t i = 1; i < kLines; ++i) EXPECT_TRUE(std::isnan(out[1].get(i))) << i;
                });
}

/// Sums of elements that a mask leaves, 1 each, and where the formula has no number.
TEST_P(ReductionNumerics, MaskedSumsFollowTheirFormula) {
  const auto [axis, length] = GetParam();
  const auto element = [length = length](int64_t line, int64_t place) -> double {
    switch (line) {
      case 0:
        return -kInf;
      case 1:
        return place % 5 == 0 ? 7.0 : -kInf;
      case 2:
        return place == length - 1 ? kInf : place == 0 ? -kInf : 1.0;
      case 3:
        return place == length / 2 ? kNan : -kInf;
      case 4:
        return place < length - 1 ? -kInf : -3e38F;
      default:
        return 2.0;
    }
  };
  const std::vector<double> maxima = {-kInf, 7.0, kInf, kNan, -3e38F, 2.0};
  const auto count = static_cast<double>(length);
  const std::vector<double> sums = {kNan, std::ceil(count / 5.0), kNan, kNan, 1.0, count};
  const auto lines = static_cast<int64_t>(maxima.size());
  const HostTensor x = matrix(DType::kF32, lines, length, axis, element);
  for_schedules(statistic(Statistic::kLogSumExp, DType::kF32, axis),
                extents_of(lines, length, axis), x, [&](const std::vector<HostTensor>& out) {
                  for (int64_t i = 0; i < lines; ++i) {
                    EXPECT_THAT(out[0].get(i), SameAs(maxima[static_cast<size_t>(i)])) << i;
                    EXPECT_THAT(out[1].get(i), SameAs(sums[static_cast<size_t>(i)])) << i;
                  }
                });
}

INSTANTIATE_TEST_SUITE_P(Lengths, ReductionNumerics,
                         testing::Values(Extent2{1, 1}, Extent2{1, 3}, Extent2{1, 4}, Extent2{1, 7},
                                         Extent2{1, 33}, Extent2{1, 768}, Extent2{1, 1024},
                                         Extent2{1, 4097}, Extent2{0, 1}, Extent2{0, 3},
                                         Extent2{0, 4}, Extent2{0, 7}, Extent2{0, 33},
                                         Extent2{0, 768}, Extent2{0, 4097}),
                         [](const auto& test) {
                           return fmt::format("{}Of{}", test.param.axis == 1 ? "Rows" : "Columns",
                                              test.param.length);
                         });

/// Rows of zeros but for one element whose square is near the largest f32, in every place in turn:
/// threads that share a pivot must not take it from so few elements that squares of differences
/// from it overflow, or leave nothing of m2.
TEST(ReductionNumericsOf, OneElementFarFromAllOthersDeviatesAlone) {
  constexpr double kFar = 0x1.ap63;
  for (const int64_t length : {9, 16, 17, 24, 65, 100}) {
    SCOPED_TRACE(length);
    const HostTensor x = matrix(DType::kF32, length, length, 1, [&](int64_t line, int64_t place) {
      return line == place ? kFar : 0.0;
    });
    const double share = 1.0 / static_cast<double>(length);
    const double m2 = kFar * kFar * (1.0 - share);
    // From the far element as the pivot, squares add up to n times the result; each element is
    // rounded when it is squared and when it is added.
    const double error = 2.0 * static_cast<double>(length) * 0x1p-24 * m2;
    for_schedules(statistic(Statistic::kWelford, DType::kF32, 1, true),
                  extents_of(length, length, 1), x, [&](const std::vector<HostTensor>& out) {
                    for (int64_t i = 0; i < length; ++i) EXPECT_NEAR(out[1].get(i), m2, error) << i;
                  });
  }
}

/// Against the two passes in f64, over types and lengths drawn at random. An element in the place
/// of the pivot that is far from all others costs accuracy, but not more than one digit.
TEST(ReductionNumericsOf, RandomLinesAreTheTwoPasses) {
  std::mt19937 random(5);
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (int round = 0; round < 3; ++round) {
      const int axis = round % 2;
      const auto length = static_cast<int64_t>(1 + random() % (round < 2 ? 50 : 3000));
      const int64_t lines = 1 + static_cast<int64_t>(random() % 40);
      std::normal_distribution<double> normal(round == 1 ? 100.0 : 0.0, 3.0);
      const HostTensor x = matrix(type, lines, length, axis, [&](int64_t, int64_t place) {
        return place == 0 && round == 2 ? 1000.0 : normal(random);
      });
      const double unit = type == DType::kF64 ? 0x1p-53 : 0x1p-24;
      for_schedules(
          statistic(Statistic::kWelford, type, axis), extents_of(lines, length, axis), x,
          [&](const std::vector<HostTensor>& out) {
            for (int64_t i = 0; i < lines; ++i) {
              const auto at = [&](int64_t k) {
                return x.get(axis == 1 ? i * length + k : k * lines + i);
              };
              double mean = 0.0;
              double magnitude = 0.0;
              for (int64_t k = 0; k < length; ++k) mean += at(k) / static_cast<double>(length);
              double m2 = 0.0;
              for (int64_t k = 0; k < length; ++k) m2 += (at(k) - mean) * (at(k) - mean);
              for (int64_t k = 0; k < length; ++k)
                magnitude += std::abs(at(k)) / static_cast<double>(length);
              const double kappa =
                  std::sqrt(1.0 + mean * mean * static_cast<double>(length) / std::max(m2, 1e-300));
              EXPECT_NEAR(out[0].get(i), mean, 40.0 * unit * magnitude);
              EXPECT_NEAR(out[1].get(i), m2, 100.0 * unit * (m2 * kappa + magnitude * magnitude));
            }
          });
    }
  }
}

/// The lowest of equal extremes, and NaN before any number.
TEST(ReductionNumericsOf, ArgumentsTakeTheFirstOfTies) {
  for (const Statistic what : {Statistic::kArgMax, Statistic::kArgMin}) {
    for (const int axis : {0, 1}) {
      for (const int64_t length : {1, 5, 33, 1025}) {
        const HostTensor x =
            matrix(DType::kF32, 4, length, axis, [&](int64_t line, int64_t place) -> double {
              if (line == 0) return 3.0;
              if (line == 1) return place >= length / 3 && place % 2 == 0 ? kNan : 1.0;
              const double sign = what == Statistic::kArgMax ? 1.0 : -1.0;
              if (line == 2) return sign * (place >= length / 2 ? kInf : 1.0);
              return -sign * kInf;
            });
        const int64_t first_nan = length == 1 ? 0 : (length / 3 + 1) / 2 * 2;
        for_schedules(statistic(what, DType::kF32, axis), extents_of(4, length, axis), x,
                      [&](const std::vector<HostTensor>& out) {
                        EXPECT_EQ(out[0].get_integer(0), 0);
                        EXPECT_EQ(out[0].get_integer(1), first_nan);
                        EXPECT_EQ(out[0].get_integer(2), length / 2);
                        EXPECT_EQ(out[0].get_integer(3), 0);
                      });
      }
    }
  }
}

TEST(ReductionNumericsOf, NothingIsTheIdentity) {
  for (const int axis : {0, 1}) {
    const HostTensor x = HostTensor::zeros(DType::kF32, axis == 1 ? Sizes{3, 0} : Sizes{0, 3});
    for_schedules(statistic(Statistic::kWelford, DType::kF32, axis), extents_of(3, 0, axis), x,
                  [&](const std::vector<HostTensor>& out) {
                    EXPECT_THAT(contents(out[0]), testing::Each(0.0));
                    EXPECT_THAT(contents(out[1]), testing::Each(0.0));
                  });
    for_schedules(statistic(Statistic::kLogSumExp, DType::kF32, axis), extents_of(3, 0, axis), x,
                  [&](const std::vector<HostTensor>& out) {
                    EXPECT_THAT(contents(out[0]), testing::Each(-kInf));
                    EXPECT_THAT(contents(out[1]), testing::Each(0.0));
                  });
  }
}

}  // namespace sinter::reduction_numerics_test
