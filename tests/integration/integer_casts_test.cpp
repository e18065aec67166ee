// Casts between integer types saturate: in the oracle, in the interpreter, and on a device.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <limits>

#include "fusion_ir/fusion_builder.h"
#include "runtime/check/device_run.h"
#include "runtime/check/host_execution.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/oracle/integer_range.h"
#include "runtime/oracle/oracle.h"
#include "scheduler/planning/planner.h"

namespace sinter::integer_casts_test {

constexpr std::array kIntegers = {DType::kI64, DType::kI32, DType::kI8, DType::kU8};

/// Both sides of every end of every integer type.
std::vector<int64_t> edges() {
  std::vector<int64_t> out = {0};
  for (const DType type : kIntegers) {
    for (const int64_t end : {lowest_integer(type), highest_integer(type)}) {
      out.push_back(end);
      if (end > std::numeric_limits<int64_t>::min()) out.push_back(end - 1);
      if (end < std::numeric_limits<int64_t>::max()) out.push_back(end + 1);
    }
  }
  return out;
}

class IntegerCasts : public ::testing::TestWithParam<DType> {};

TEST_P(IntegerCasts, SaturateInTheOracleAndTheInterpreter) {
  const std::vector<int64_t> values = edges();
  const auto count = static_cast<int64_t>(values.size());
  for (const DType to : kIntegers) {
    if (to == GetParam()) continue;
    FusionBuilder b("integer_cast");
    b.output(b.cast(b.input(GetParam(), {count}, "x"), to));
    const Fusion fusion = b.build();
    const Plan planned =
        plan(fusion, {}, *find_device("H200"), {.families = builtin_families()}).value();
    const KernelPlan& kernel = planned.kernels.front();
    std::vector<HostTensor> inputs = {HostTensor::zeros(GetParam(), {count})};
    for (int64_t i = 0; i < count; ++i) inputs[0].set_integer(i, values[static_cast<size_t>(i)]);

    const auto run =
        execute_on_host(kernel.facts, lower(kernel.facts, kernel.chosen().schedule).value(), inputs)
            .value();
    const OracleResult expected = evaluate(fusion, planned.binding, inputs);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t x = inputs[0].get_integer(i);
      const int64_t saturated = std::clamp(x, lowest_integer(to), highest_integer(to));
      EXPECT_EQ(run.outputs[0].get_integer(i), saturated) << x << " to " << name_of(to);
      EXPECT_EQ(expected.outputs[0].integer[static_cast<size_t>(i)], saturated)
          << x << " to " << name_of(to);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, IntegerCasts, ::testing::ValuesIn(kIntegers),
                         [](const auto& test) { return std::string(name_of(test.param)); });

/// The device draws integers from -100 to 100 itself; the factors spread them over every range.
TEST(IntegerCastsGpu, SaturateLikeTheOracle) {
  const auto driver = cuda_driver();
  if (!driver) GTEST_SKIP() << "no GPU: " << driver.error().message;
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  FusionBuilder b("integer_casts");
  const ValueId x = b.input(DType::kI64, {4099}, "x");
  for (const int64_t factor : {int64_t{3}, int64_t{50'000'017}, int64_t{90'000'000'000'000'019}}) {
    const ValueId scaled = b.mul(x, b.broadcast(b.constant_integer(factor), {4099}, {}));
    for (const DType to : {DType::kI32, DType::kI8, DType::kU8}) b.output(b.cast(scaled, to));
  }
  const Fusion fusion = b.build();
  KernelCache cache({});
  auto compiled =
      plan(fusion, {}, query_device(**driver, 0).value(), {.families = builtin_families()})
          .and_then(
              [&](Plan planned) { return compile_plan(std::move(planned), *compiler, cache); });
  ASSERT_TRUE(compiled) << compiled.error().text();
  const auto executable = Executable::prepare(std::move(*compiled), **driver);
  ASSERT_TRUE(executable) << executable.error().text();
  const auto done = run_on_device(fusion, *executable, **driver, {.time = false});
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_TRUE(done->check.passed()) << done->check.text();
}

}  // namespace sinter::integer_casts_test
