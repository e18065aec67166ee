// Reductions of parts of an axis, combined, are the reduction of the whole: with the same lowest
// index of equal extremes, and without overflow between parts.

#include "scheduler/analysis/partial_results.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "runtime/oracle/oracle.h"

namespace sinter::partial_results_test {

using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What the results of parts of `length` elements combine to, for one row of elements.
std::vector<double> combined(const OpKind& kind, const std::vector<double>& elements,
                             int64_t length) {
  const auto count = static_cast<int64_t>(elements.size());
  FusionBuilder b("combined");
  const ValueId x = b.input(DType::kF32, {count}, "x");
  const ValueId parts = b.reshape(x, {count / length, length});
  const std::vector<ValueId> partials = reduce_part(b, kind, parts, 1);
  for (const ValueId result : combine_parts(b, kind, partials, 0, length)) b.output(result);
  const std::vector<HostTensor> inputs = {HostTensor::of(DType::kF32, {count}, elements)};
  std::vector<double> out;
  for (const OracleOutput& output : evaluate(b.build(), Binding{}, inputs).outputs)
    out.push_back(output.expected(0));
  return out;
}

TEST(PartialResultsTest, SumsAndExtremesAreReducedAgain) {
  const std::vector<double> x = {1, 2, 3, 4, -5, 6};
  EXPECT_THAT(combined(ReduceOp{ReduceFn::kSum, {}}, x, 2), ElementsAre(11));
  EXPECT_THAT(combined(ReduceOp{ReduceFn::kProd, {}}, x, 3), ElementsAre(-720));
  EXPECT_THAT(combined(ReduceOp{ReduceFn::kMax, {}}, x, 3), ElementsAre(6));
  EXPECT_THAT(combined(ReduceOp{ReduceFn::kMin, {}}, x, 6), ElementsAre(-5)) << "one part";
  EXPECT_THAT(combined(ReduceOp{ReduceFn::kSum, {}}, x, 1), ElementsAre(11)) << "of one element";
}

TEST(PartialResultsTest, TheFirstPartHasTheFirstOfEqualExtremes) {
  const ReduceOp argmax{ReduceFn::kArgMax, {}};
  EXPECT_THAT(combined(argmax, {1, 7, 7, 7, 0, 7}, 2), ElementsAre(1));
  EXPECT_THAT(combined(argmax, {1, 2, 3, 9, 9, 0}, 2), ElementsAre(3));
  EXPECT_THAT(combined(argmax, {-kInfinity, -kInfinity, -kInfinity, -kInfinity}, 2),
              ElementsAre(0));
  EXPECT_THAT(combined(argmax, {1, 2, std::nan(""), 9}, 2), ElementsAre(2)) << "NaN is extreme";
  EXPECT_THAT(combined(ReduceOp{ReduceFn::kArgMin, {}}, {4, 3, 2, 1}, 2), ElementsAre(3));
}

/// The mean of 1, 3, 5, 11 is 5, and the squares of the differences 16 + 4 + 0 + 36.
TEST(PartialResultsTest, MomentsOfPartsGainTheSpreadOfTheirMeans) {
  EXPECT_THAT(combined(WelfordOp{}, {1, 3, 5, 11}, 2), ElementsAre(5, 56));
  EXPECT_THAT(combined(WelfordOp{}, {1, 3, 5, 11}, 1), ElementsAre(5, 56));
  EXPECT_THAT(combined(WelfordOp{}, {7, 7, 7, 7}, 2), ElementsAre(7, 0));
}

/// Of the elements 2, 2 and -inf twice the maximum is 2 and the sum of exp(x - 2) is 2.
TEST(PartialResultsTest, APartOfNothingAddsNothingToASum) {
  EXPECT_THAT(combined(LogSumExpOp{}, {2, -kInfinity, 2, -kInfinity}, 2), ElementsAre(2, 2));
  EXPECT_THAT(combined(LogSumExpOp{}, {-kInfinity, -kInfinity, 2, 2}, 2), ElementsAre(2, 2));
}

/// Mean and sum of squares of two groups, with these means and sums of squares.
std::vector<double> merged(double mean_a, double m2_a, int64_t count_a, double mean_b, double m2_b,
                           int64_t count_b) {
  FusionBuilder b("merged");
  std::vector<HostTensor> inputs;
  const auto scalar = [&](double value) {
    inputs.push_back(HostTensor::of(DType::kF32, {}, std::vector{value}));
    return b.input(DType::kF32, {});
  };
  const Moments first{scalar(mean_a), scalar(m2_a), count_a};
  const Moments second{scalar(mean_b), scalar(m2_b), count_b};
  const Moments both = merge_moments(b, first, second);
  EXPECT_EQ(both.elements, count_a + count_b);
  b.output(both.mean);
  b.output(both.m2);
  std::vector<double> out;
  for (const OracleOutput& output : evaluate(b.build(), Binding{}, inputs).outputs)
    out.push_back(output.expected(0));
  return out;
}

/// 1, 2, 3 have the mean 2 and squares of 2; with 10 they have the mean 4, and 9 + 4 + 1 + 36.
TEST(PartialResultsTest, MergesGroupsOfDifferentSizes) {
  EXPECT_THAT(merged(2, 2, 3, 10, 0, 1), ElementsAre(4, 50));
  EXPECT_THAT(merged(10, 0, 1, 2, 2, 3), ElementsAre(4, 50));
}

TEST(PartialResultsTest, EqualMeansStayExact) {
  const double tenth = 0.1F;
  EXPECT_THAT(merged(tenth, 3, 5, tenth, 4, 7), ElementsAre(tenth, 7));
}

TEST(PartialResultsTest, FarMeansDoNotOverflow) {
  const double most = std::numeric_limits<float>::max();
  EXPECT_EQ(merged(-most, 0, 1, most, 0, 1)[0], 0.0);
  EXPECT_EQ(merged(kInfinity, 0, 1, 3, 0, 1)[0], kInfinity);
  EXPECT_TRUE(std::isnan(merged(kInfinity, 0, 1, -kInfinity, 0, 1)[0]));
}

}  // namespace sinter::partial_results_test
