// Inputs that hold what they should not: rows without a finite element, NaN, labels of no class.
// The oracle says what becomes of them, and every kernel must do the same.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "scheduler/families/random_scheduler.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"

namespace sinter::bad_input_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kSpecialRows = 8;

/// Element i of `columns`, where it is otherwise `number`, in one of the rows that norms and losses
/// have to decide about.
double special(int64_t row, int64_t i, int64_t columns, double number) {
  switch (row) {
    case 0:  // Fully masked.
      return -kInfinity;
    case 1:
      return i == columns - 1 ? kNan : number;
    case 2:  // Masked but for the last element.
      return i == columns - 1 ? 2.0 : -kInfinity;
    case 3:
      return i == columns / 2 ? kInfinity : number;
    case 4:  // Both, so that what subtracts them has no number.
      return i % 2 == 0 ? kInfinity : -kInfinity;
    case 5:
      return kNan;
    case 6:  // Without variance.
      return 1.5;
    default:
      return number;
  }
}

/// Random inputs; matrices of floats have the special rows.
std::vector<HostTensor> special_inputs(const Fusion& fusion, const Binding& binding) {
  std::vector<HostTensor> out = sample_inputs(fusion, binding, 1);
  for (HostTensor& input : out) {
    if (!is_float(input.type()) || input.sizes().size() < 2) continue;
    if (input.sizes().front() != kSpecialRows) continue;
    const int64_t columns = input.count() / kSpecialRows;
    for (int64_t row = 0; row < kSpecialRows; ++row) {
      for (int64_t i = 0; i < columns; ++i)
        input.set(row * columns + i, special(row, i, columns, input.get(row * columns + i)));
    }
  }
  return out;
}

/// What the oracle says, but for infinite means that become part of a Welford reduction: those are
/// open (recognize_welford.h).
OracleResult expected_of(const Fusion& fusion, const Plan& planned,
                         const std::vector<HostTensor>& inputs) {
  OracleResult out = evaluate(fusion, planned.binding, inputs);
  for (size_t i = 0; i < out.outputs.size(); ++i) {
    OracleOutput& output = out.outputs[i];
    const ValueId value = planned.fusion.outputs[i];
    const bool is_mean = planned.fusion.def_as<WelfordOp>(value) != nullptr &&
                         planned.fusion.def_of(value).results.front() == value;
    for (size_t k = 0; is_mean && k < output.real.size(); ++k)
      if (std::isinf(output.real[k])) output.bound[k] = kInfinity;
  }
  return out;
}

testing::AssertionResult is_right(const Plan& planned, const Schedule& schedule,
                                  const std::vector<HostTensor>& inputs,
                                  const OracleResult& expected) {
  const auto run = execute_on_host(planned, schedule, inputs, builtin_families());
  if (!run) return testing::AssertionFailure() << print(schedule) << run.error().text();
  if (!run->report.findings.empty())
    return testing::AssertionFailure() << print(schedule) << run->report.findings.front().message;
  for (size_t i = 0; i < run->outputs.size(); ++i) {
    if (const auto mismatch = compare(expected, i, run->outputs[i]))
      return testing::AssertionFailure() << print(schedule) << mismatch->text();
  }
  return testing::AssertionSuccess();
}

class SpecialRows : public ::testing::TestWithParam<CannedFusion> {};

TEST_P(SpecialRows, AreWhatTheOracleSays) {
  const Fusion fusion = GetParam().build();
  for (const int64_t columns : {1, 33, 1000, 2048}) {
    SCOPED_TRACE(columns);
    const auto planned = plan(fusion, extents_of_width(GetParam(), columns, kSpecialRows),
                              *find_device("H200"), {.families = builtin_families()});
    ASSERT_TRUE(planned) << planned.error().text();
    const std::vector<HostTensor> inputs = special_inputs(fusion, planned->binding);
    const OracleResult expected = expected_of(fusion, *planned, inputs);
    std::vector<Schedule> schedules = chosen_and_best_of_families(planned->kernels.front());
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const auto drawn = random_schedule(planned->kernels.front().facts, planned->limits,
                                         builtin_families(), seed);
      if (drawn) schedules.push_back(drawn->schedule);
    }
    for (const Schedule& schedule : schedules)
      EXPECT_TRUE(is_right(*planned, schedule, inputs, expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Canned, SpecialRows, ::testing::ValuesIn(supported_fusions()),
                         name_of_case);

/// What the oracle itself must say of such rows: the graph's formula, which is NaN where nothing is
/// finite.
TEST(SpecialRowsOracle, FollowsTheFormula) {
  const auto evaluated = [](const char* name) {
    const Fusion fusion = find_canned_fusion(name)->build();
    const Binding binding = bind_extents(fusion, {{"rows", kSpecialRows}, {"cols", 64}}).value();
    return evaluate(fusion, binding, special_inputs(fusion, binding)).outputs.front();
  };
  const OracleOutput softmax = evaluated("softmax");
  for (const int64_t row : {0, 1, 3, 4, 5}) {
    for (int64_t i = 0; i < 64; ++i) {
      const auto at = static_cast<size_t>(row * 64 + i);
      EXPECT_TRUE(std::isnan(softmax.real[at])) << row << ", " << i;
      EXPECT_EQ(softmax.bound[at], 0.0) << "certain";
    }
  }
  EXPECT_EQ(softmax.real[2 * 64 + 63], 1.0);
  EXPECT_EQ(softmax.real[2 * 64], 0.0);
  EXPECT_EQ(softmax.real[6 * 64], 1.0 / 64);
  const OracleOutput loss = evaluated("cross_entropy");
  for (const size_t row : {0U, 1U, 3U, 4U, 5U}) EXPECT_TRUE(std::isnan(loss.real[row])) << row;
  const OracleOutput norm = evaluated("layer_norm");
  for (const size_t row : {0U, 1U, 2U, 3U, 4U, 5U})
    EXPECT_TRUE(std::isnan(norm.real[row * 64])) << row;
}

// ---- Labels of no class, where nobody asks

class LabelsOutside : public ::testing::TestWithParam<const char*> {};

TEST_P(LabelsOutside, CountAsZeroAndReadNothing) {
  const CannedFusion& canned = *find_canned_fusion(GetParam());
  const Fusion fusion = canned.build();
  const bool wide = fusion.values[fusion.inputs[1]].type == DType::kI64;
  const int64_t most =
      wide ? std::numeric_limits<int64_t>::max() : int64_t{std::numeric_limits<int32_t>::max()};
  for (const int64_t columns : {1, 33, 1000, 50257}) {
    SCOPED_TRACE(columns);
    const int64_t rows = 10;
    const auto planned = plan(fusion, extents_of_width(canned, columns, rows), *find_device("H200"),
                              {.families = builtin_families()});
    ASSERT_TRUE(planned) << planned.error().text();
    std::vector<HostTensor> inputs = sample_inputs(fusion, planned->binding, 1);
    const std::vector<int64_t> labels{columns,   -1,       columns - 1, 0,       most,
                                      -most - 1, -columns, columns + 1, 1 << 30, -100};
    for (int64_t row = 0; row < rows; ++row)
      inputs[1].set_integer(row, labels[static_cast<size_t>(row)]);
    // A read outside of a tensor is a finding; the first and the last row have nothing beside them.
    const OracleResult expected = evaluate(fusion, planned->binding, inputs);
    for (const Schedule& schedule : chosen_and_best_of_families(planned->kernels.front()))
      EXPECT_TRUE(is_right(*planned, schedule, inputs, expected));
    inputs[0] = HostTensor::zeros(inputs[0].type(), inputs[0].sizes());
    const OracleResult of_zeros = evaluate(fusion, planned->binding, inputs);
    EXPECT_GT(std::abs(expected.outputs[0].real[0]), 0.0);
    EXPECT_NEAR(of_zeros.outputs[0].real[0], std::log(static_cast<double>(columns)), 1e-4)
        << "the logit is 0";
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, LabelsOutside,
                         ::testing::Values("cross_entropy", "cross_entropy_i32"));

}  // namespace sinter::bad_input_test
