// Simplification keeps values: what the oracle computes for the graph and for the simplified graph
// must agree within the bounds it derives for both.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"
#include "runtime/oracle/oracle.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/random_fusion.h"

namespace sinter::simplified_values_test {

/// HostTensor::random stays within 2 sqrt(3) deviations.
const double kDeviation = kRandomInputBound / (2.0 * std::sqrt(3.0));

std::vector<HostTensor> random_inputs(const Fusion& fusion, const Binding& binding) {
  std::vector<HostTensor> inputs;
  for (const ValueId input : fusion.inputs) {
    const Value& value = fusion.values[input];
    inputs.push_back(HostTensor::random(
        value.type, binding.sizes_of(value.shape),
        {.seed = inputs.size() + 1, .deviation = kDeviation, .low = 0, .high = 40}));
  }
  return inputs;
}

/// Where two outputs contradict each other, in words; empty if they may both be right.
std::string contradiction(const OracleOutput& a, const OracleOutput& b) {
  for (size_t i = 0; i < a.bound.size(); ++i) {
    const double x = a.expected(i);
    const double y = b.expected(i);
    const bool equal = x == y || (std::isnan(x) && std::isnan(y));
    if (equal || std::fabs(x - y) <= a.bound[i] + b.bound[i]) continue;
    // An unknown on either side contradicts nothing.
    if (std::isinf(a.bound[i]) || std::isinf(b.bound[i])) continue;
    return fmt::format("element {}: {} +- {} against {} +- {}", i, x, a.bound[i], y, b.bound[i]);
  }
  return "";
}

std::string compare_simplified(const Fusion& fusion, const ExtentValues& extents) {
  const Binding binding = *bind_extents(fusion, extents);
  const Fusion bound = specialize(fusion, binding);
  const Fusion simple = simplify(bound, {.verify = true});
  const auto inputs = random_inputs(bound, Binding{});
  const OracleResult before = evaluate(bound, Binding{}, inputs);
  const OracleResult after = evaluate(simple, Binding{}, inputs);
  for (size_t i = 0; i < before.outputs.size(); ++i) {
    const std::string text = contradiction(before.outputs[i], after.outputs[i]);
    if (!text.empty()) {
      return fmt::format("output {}, {}\n{}\n{}", i, text, print(bound), print(simple));
    }
  }
  return "";
}

class SimplifiedValues : public testing::TestWithParam<CannedFusion> {};

TEST_P(SimplifiedValues, AreThoseOfTheGraph) {
  EXPECT_EQ(compare_simplified(GetParam().build(), GetParam().small), "");
}

INSTANTIATE_TEST_SUITE_P(Canned, SimplifiedValues,
                         testing::ValuesIn(canned_fusions().begin(), canned_fusions().end()),
                         [](const auto& test) { return test.param.name; });

RC_GTEST_PROP(SimplifiedValuesOfRandomFusions, AreThoseOfTheGraph, (uint64_t seed)) {
  const auto size = *rc::gen::inRange(1, 30);
  const auto cols = *rc::gen::inRange<int64_t>(1, 70);
  const std::string text = compare_simplified(random_fusion(seed, size, {.joins = seed % 2 == 0}),
                                              {{"rows", 3}, {"cols", cols}});
  RC_ASSERT(text == "");
}

TEST(SimplifiedValuesCheck, AContradictionIsSeen) {
  OracleOutput a{.real = {1.0}, .bound = {0.25}};
  OracleOutput b{.real = {1.5}, .bound = {0.125}};
  EXPECT_NE(contradiction(a, b), "");
  b.bound = {0.25};
  EXPECT_EQ(contradiction(a, b), "");
}

}  // namespace sinter::simplified_values_test
