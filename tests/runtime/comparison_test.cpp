#include "runtime/oracle/comparison.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

#include "fusion_ir/error.h"

namespace sinter::comparison_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

OracleResult reals(std::vector<double> values, std::vector<double> bounds) {
  const auto n = static_cast<int64_t>(values.size());
  return {.outputs = {OracleOutput{.value = ValueId{7},
                                   .type = DType::kF32,
                                   .sizes = {n},
                                   .real = std::move(values),
                                   .bound = std::move(bounds)}}};
}

HostTensor floats(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return HostTensor::of(DType::kF32, {n}, values);
}

TEST(Comparison, AcceptsUpToTheBound) {
  const OracleResult expected = reals({1.0, 2.0, 3.0}, {0.5, 0.0, 0.25});
  EXPECT_EQ(compare(expected, 0, floats({1.5, 2.0, 2.75})), std::nullopt);
  EXPECT_EQ(worst_ratio(expected, 0, floats({1.25, 2.0, 3.0})), 0.5);
  EXPECT_EQ(worst_ratio(expected, 0, floats({1.0, 2.5, 3.0})), kInfinity);
}

TEST(Comparison, ReportsTheWorstAndTheCount) {
  const OracleResult expected = reals({1.0, 2.0, 3.0}, {0.5, 0.25, 0.25});
  const auto mismatch = compare(expected, 0, floats({2.0, 3.0, 3.5}));
  ASSERT_TRUE(mismatch.has_value());
  EXPECT_EQ(*mismatch, (Mismatch{.output = 0,
                                 .value = ValueId{7},
                                 .index = {1},
                                 .expected = 2.0,
                                 .actual = 3.0,
                                 .bound = 0.25,
                                 .count = 3,
                                 .total = 3}));
  EXPECT_EQ(mismatch->text(),
            "output 0 (%v7): 3 of 3 elements outside their bound; worst at [1]: expected 2, got 3, "
            "bound 0.25");
}

TEST(Comparison, ReportsTheSameWhenSeveralCoresLook) {
  constexpr size_t kElements = (size_t{1} << 21) + 5;
  const OracleResult expected =
      reals(std::vector<double>(kElements), std::vector<double>(kElements, 1.0));
  std::vector<double> actual(kElements);
  actual[3] = 2.0;
  actual[kElements - 2] = actual[kElements - 1] = 4.0;
  const auto mismatch = compare(expected, 0, floats(std::move(actual)));
  ASSERT_TRUE(mismatch.has_value());
  EXPECT_EQ(mismatch->count, 3);
  EXPECT_EQ(mismatch->index, Sizes{kElements - 2});
}

TEST(Comparison, TreatsNanAndInfinityByRule) {
  const auto accepts = [](double value, double bound, double actual) {
    return !compare(reals({value}, {bound}), 0, floats({actual}));
  };
  EXPECT_TRUE(accepts(kNan, 0.0, kNan));
  EXPECT_FALSE(accepts(kNan, 0.0, 1.0));
  EXPECT_FALSE(accepts(kNan, 5.0, 1.0));
  EXPECT_FALSE(accepts(1.0, 5.0, kNan));
  EXPECT_TRUE(accepts(kInfinity, 0.0, kInfinity));
  EXPECT_FALSE(accepts(kInfinity, 0.0, -kInfinity));
  EXPECT_FALSE(accepts(kInfinity, 0.0, 3e38));
  EXPECT_FALSE(accepts(1.0, 1.0, kInfinity));
  EXPECT_FALSE(accepts(1.0, kNan, 2.0));
  EXPECT_TRUE(accepts(1.0, kInfinity, kNan));
  EXPECT_TRUE(accepts(kNan, kInfinity, 1.0));
}

TEST(Comparison, FindsPoisonInEveryType) {
  for (const DType type : kAllDTypes) {
    OracleOutput output{.type = type, .sizes = {1}, .bound = {0.0}};
    (is_float(type) ? output.real.push_back(1.0) : output.integer.push_back(1));
    const OracleResult expected{.outputs = {output}};
    EXPECT_TRUE(compare(expected, 0, HostTensor::poisoned(type, {1})).has_value()) << name_of(type);
    const std::array one = {1.0};
    EXPECT_FALSE(compare(expected, 0, HostTensor::of(type, {1}, one)).has_value()) << name_of(type);
  }
}

TEST(Comparison, IntegersDifferByTheirExactDistance) {
  constexpr int64_t kBig = (int64_t{1} << 60) + 1;
  const OracleResult expected{
      .outputs = {
          OracleOutput{.type = DType::kI64, .sizes = {1}, .integer = {kBig}, .bound = {0.0}}}};
  HostTensor actual = HostTensor::zeros(DType::kI64, {1});
  actual.set_integer(0, kBig);
  EXPECT_EQ(compare(expected, 0, actual), std::nullopt);
  actual.set_integer(0, kBig - 1);  // the same double
  EXPECT_TRUE(compare(expected, 0, actual).has_value());
}

TEST(Comparison, EmptyOutputsAreEqual) {
  EXPECT_EQ(compare(reals({}, {}), 0, floats({})), std::nullopt);
  EXPECT_EQ(worst_ratio(reals({}, {}), 0, floats({})), 0.0);
}

TEST(Comparison, RejectsWhatCannotBeCompared) {
  const OracleResult expected = reals({1.0}, {0.0});
  EXPECT_THROW(compare(expected, 1, floats({1.0})), SinterException);
  EXPECT_THROW(compare(expected, 0, floats({1.0, 2.0})), SinterException);
  try {
    compare(expected, 0, HostTensor::zeros(DType::kBF16, {1}));
    ADD_FAILURE();
  } catch (const SinterException& exception) {
    EXPECT_EQ(exception.error().message, "output 0 is f32[1], but bf16[1] was compared with it");
  }
}

TEST(Comparison, TheFirstOfEqualWorstElementsIsTold) {
  constexpr int64_t kLarge = int64_t{1} << 18;  // Several threads compare it.
  OracleResult expected;
  expected.outputs.push_back({.type = DType::kF32, .sizes = {kLarge}});
  expected.outputs[0].real.assign(static_cast<size_t>(kLarge), 1.0);
  expected.outputs[0].bound.assign(static_cast<size_t>(kLarge), 0.25);
  HostTensor actual = HostTensor::of(DType::kF32, {kLarge}, expected.outputs[0].real);
  for (const int64_t wrong : {kLarge - 1, int64_t{200'000}, int64_t{70'001}})
    actual.set(wrong, 2.0);
  const Comparison found = judge(expected, 0, actual);
  EXPECT_EQ(found.worst_ratio, 4.0);
  ASSERT_TRUE(found.mismatch);
  EXPECT_EQ(found.mismatch->count, 3);
  EXPECT_EQ(found.mismatch->index, Sizes{70'001});
  EXPECT_EQ(compare(expected, 0, actual), found.mismatch);
}

}  // namespace sinter::comparison_test
