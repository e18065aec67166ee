// Ranges of extents: whatever sizes tensors have, what runs is held to the oracle.

#include <gtest/gtest.h>

#include "runtime/check/device_run.h"
#include "runtime/check/host_execution.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_context.h"
#include "runtime/execute/ranged_executable.h"
#include "scheduler/plan/tensor_slots.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"

namespace sinter::ranged_execution_test {

struct RangedCase {
  std::string fusion;
  ExtentRanges ranges;
  std::vector<ExtentValues> sizes;
  friend void PrintTo(const RangedCase& test, std::ostream* out) { *out << test.fusion; }
};

class RangedExecutionTest : public ::testing::TestWithParam<RangedCase> {
 protected:
  /// Kernels in the interpreter, with a name of their own for each set of sizes: the fake driver
  /// knows kernels by name.
  Result<CompiledPlan> interpret(Plan plan) {
    const std::string sizes = fmt::format("{}", fmt::join(plan.binding.symbol_sizes, "_"));
    for (KernelPlan& kernel : plan.kernels) kernel.facts.fusion.name += "_" + sizes;
    return interpreted(driver_, std::move(plan));
  }

  DeviceBuffer filled(std::span<const std::byte> bytes) {
    DeviceBuffer out = DeviceBuffer::allocate(driver_, bytes.size()).value();
    EXPECT_TRUE(out.upload(bytes));
    return out;
  }
  static Tensor tensor_of(const HostTensor& host, const DeviceBuffer& device) {
    const auto origin = static_cast<DevicePointer>(host.data() - host.storage().data());
    return {.address = device.pointer() + origin,
            .type = host.type(),
            .sizes = host.sizes(),
            .strides = host.strides()};
  }

  /// Executes tensors of these sizes and compares all outputs.
  void check(RangedExecutable& ranged, const Fusion& fusion, const ExtentValues& extents) {
    const Binding binding = bind_extents(fusion, extents).value();
    const DeviceReference reference = make_reference(fusion, binding);
    std::vector<HostTensor> results = poisoned_outputs(fusion, binding);
    std::vector<DeviceBuffer> memory;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    for (const HostTensor& input : reference.inputs) {
      memory.push_back(filled(input.storage()));
      inputs.push_back(tensor_of(input, memory.back()));
    }
    const size_t first_output = memory.size();
    for (const HostTensor& output : results) {
      memory.push_back(filled(output.storage()));
      outputs.push_back(tensor_of(output, memory.back()));
    }
    const auto bytes = ranged.workspace_bytes(extents);
    ASSERT_TRUE(bytes) << bytes.error().text();
    const DeviceBuffer workspace =
        filled(std::vector<std::byte>(static_cast<size_t>(*bytes), std::byte{0xff}));
    const auto done = ranged.execute(inputs, outputs, workspace.pointer(), *bytes, nullptr);
    ASSERT_TRUE(done) << done.error().text();
    ASSERT_EQ(reference.evaluated, reference.binding) << "all of it";
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_TRUE(memory[first_output + i].download(results[i].storage()));
      const auto mismatch = compare(reference.expected, i, results[i]);
      EXPECT_FALSE(mismatch) << mismatch->text();
    }
  }

  FakeDriver driver_{*find_device("H200")};
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
};

TEST_P(RangedExecutionTest, ComputesTheOracleAtEverySize) {
  const Fusion fusion = find_canned_fusion(GetParam().fusion)->build();
  auto ranged = RangedExecutable::prepare(fusion, GetParam().ranges, *find_device("H200"),
                                          [this](Plan plan) { return interpret(std::move(plan)); },
                                          driver_, {.kept = 2});
  ASSERT_TRUE(ranged) << ranged.error().text();
  // Twice, so that some are planned again.
  for (int round = 0; round < 2; ++round) {
    for (const ExtentValues& extents : GetParam().sizes) {
      SCOPED_TRACE(::testing::PrintToString(extents));
      check(*ranged, fusion, extents);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Canned, RangedExecutionTest,
                         ::testing::Values(RangedCase{"rms_norm",
                                                      {{"rows", {1, 40}}, {"cols", {1, 300}}},
                                                      {{{"rows", 1}, {"cols", 256}},
                                                       {{"rows", 40}, {"cols", 300}},
                                                       {{"rows", 17}, {"cols", 33}},
                                                       {{"rows", 5}, {"cols", 1}}}},
                                           RangedCase{"bias_gelu",
                                                      {{"rows", {0, 40}}, {"cols", {1, 300}}},
                                                      {{{"rows", 0}, {"cols", 64}},
                                                       {{"rows", 3}, {"cols", 64}},
                                                       {{"rows", 39}, {"cols", 129}}}},
                                           RangedCase{"layer_norm_backward",
                                                      {{"rows", {1, 64}}, {"cols", {8, 256}}},
                                                      {{{"rows", 64}, {"cols", 256}},
                                                       {{"rows", 1}, {"cols", 64}},
                                                       {{"rows", 33}, {"cols", 100}}}}),
                         [](const auto& test) { return test.param.fusion; });

}  // namespace sinter::ranged_execution_test
