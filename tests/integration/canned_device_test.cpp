// The whole path that ends on a device: plan, kernel, prepared launch, tensors in device memory,
// every output element against the oracle. On a GPU where there is one; everywhere on a fake driver
// whose kernels run in the interpreter, so that only NVRTC's and the GPU's part is left out there.

#include <gtest/gtest.h>

#include <bit>

#include "fusion_ir/fusion.h"
#include "runtime/device_query.h"
#include "runtime/device_run.h"
#include "runtime/driver_api.h"
#include "runtime/interpreter/interpreter.h"
#include "scheduler/random_scheduler.h"
#include "tests/integration/canned_case.h"
#include "tests/support/fake_driver.h"

namespace sinter {
namespace {

constexpr int64_t kRows = 5;

/// Small, and no width suits whole vectors and whole warps at once; nothing at all is among them.
std::vector<ExtentValues> awkward_extents(const CannedFusion& canned, const Fusion& fusion) {
  std::vector<ExtentValues> out;
  if (!has_width(canned)) {
    out.push_back(canned.small);
  } else {
    for (const int64_t columns : {1, 33, 1000, 1023, 4097})
      out.push_back(extents_of_width(canned, columns, kRows));
  }
  for (const ExtentValues& empty :
       {extents_of_width(canned, 100, 0), extents_of_width(canned, 0, kRows)}) {
    if (bind_extents(fusion, empty)) out.push_back(empty);  // A slice may end past its extent.
  }
  return out;
}

/// The chosen schedule, the best of each family, and one random schedule of each: policies and
/// modes that small problems are never given by choice.
std::vector<Schedule> schedules_to_run(const SegmentFacts& facts, const SegmentPlan& segment,
                                       const DeviceLimits& limits, const FamilySet& families,
                                       uint64_t seed) {
  std::vector<Schedule> out = chosen_and_best_of_families(segment);
  for (const Family& family : families) {
    if (const auto drawn = random_schedule(facts, limits, families, seed, family.name))
      out.push_back(drawn->schedule);
  }
  return out;
}

/// The same plan with one schedule to choose from.
Result<Plan> pinned_to(const Fusion& fusion, const ExtentValues& extents,
                       const DeviceLimits& limits, const Schedule& schedule) {
  return plan(fusion, extents, limits,
              {.families = builtin_families(), .pin = {.schedule = schedule}});
}

testing::AssertionResult computes_the_oracle_on(DeviceDriver& driver, const Fusion& fusion,
                                                CompiledPlan compiled) {
  const std::string schedule = print(compiled.segments.front().chosen.schedule);
  const auto executable = Executable::prepare(std::move(compiled), driver);
  if (!executable) return testing::AssertionFailure() << schedule << executable.error().text();
  const auto run = run_on_device(fusion, *executable, driver, {.time = false});
  if (!run) return testing::AssertionFailure() << schedule << run.error().text();
  if (!run->check.passed()) return testing::AssertionFailure() << schedule << run->check.text();
  return testing::AssertionSuccess();
}

class CannedGpu : public ::testing::TestWithParam<CannedFusion> {
 protected:
  void SetUp() override {
    auto driver = cuda_driver();
    if (!driver) GTEST_SKIP() << "no GPU: " << driver.error().message;
    auto compiler = NvrtcCompiler::open();
    if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
    auto limits = query_device(**driver, 0);
    ASSERT_TRUE(limits) << limits.error().text();
    driver_ = *driver;
    compiler_.emplace(std::move(*compiler));
    limits_ = std::move(*limits);
  }

  DeviceDriver* driver_ = nullptr;
  std::optional<NvrtcCompiler> compiler_;
  DeviceLimits limits_;
};

TEST_P(CannedGpu, IsRightAtAwkwardExtents) {
  const Fusion fusion = GetParam().build();
  const FamilySet families = builtin_families();
  KernelCache cache({});
  uint64_t seed = 0;
  for (const ExtentValues& extents : awkward_extents(GetParam(), fusion)) {
    const auto planned = plan(fusion, extents, limits_, {.families = families});
    if (!planned && is_mean_of_nothing(GetParam(), extents)) continue;
    ASSERT_TRUE(planned) << planned.error().text();
    const SegmentPlan& segment = planned->segments.front();
    for (const Schedule& schedule :
         schedules_to_run(segment.facts, segment, limits_, families, ++seed)) {
      auto compiled = pinned_to(fusion, extents, limits_, schedule).and_then([&](Plan pinned) {
        return compile_plan(std::move(pinned), *compiler_, cache);
      });
      ASSERT_TRUE(compiled) << print(schedule) << compiled.error().text();
      // A kernel that breaks the context would fail all that follow.
      ASSERT_TRUE(computes_the_oracle_on(*driver_, fusion, std::move(*compiled)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Canned, CannedGpu, ::testing::ValuesIn(supported_fusions()), name_of_case);

/// Bytes from the first element of a dense or strided tensor to the end of its last.
size_t reach_in_bytes(const Fusion& fusion, ValueId id) {
  const Value& value = fusion.values[id];
  const Sizes sizes = Binding{}.sizes_of(value.shape);
  if (element_count(sizes) == 0) return 0;
  int64_t reach = element_count(sizes);
  if (std::ranges::count(fusion.inputs, id) > 0) {
    const Sizes strides = input_strides(fusion, Binding{}, id);
    reach = 1;
    for (size_t axis = 0; axis < sizes.size(); ++axis) reach += (sizes[axis] - 1) * strides[axis];
  }
  return static_cast<size_t>(reach * bytes_of(value.type));
}

/// Bytes behind a buffer of a plan's kernel.
size_t bytes_behind(const Plan& plan, size_t segment, const BufferArgument& buffer) {
  const TensorSlot slot = slot_of(plan, segment, buffer.value, buffer.written);
  switch (slot.kind) {
    case TensorSlot::Kind::kInput:
      return reach_in_bytes(plan.fusion, plan.fusion.inputs[slot.index]);
    case TensorSlot::Kind::kOutput:
      return reach_in_bytes(plan.fusion, plan.fusion.outputs[slot.index]);
    case TensorSlot::Kind::kWorkspace:
      return static_cast<size_t>(plan.workspace[slot.index].bytes);
  }
  unreachable();
}

/// A compiled plan whose kernels the fake driver runs in the interpreter. `wrong` is what each then
/// does to its last buffer, which it writes.
CompiledPlan interpreted(FakeDriver& driver, Plan plan,
                         const std::function<void(std::span<std::byte>)>& wrong = {}) {
  CompiledPlan out{.plan = std::move(plan), .segments = {}};
  for (size_t i = 0; i < out.plan.segments.size(); ++i) {
    const SegmentPlan& segment = out.plan.segments[i];
    const ProposedSchedule chosen = segment.chosen();
    LoweredKernel lowered = lower(segment.facts, chosen.schedule).value();
    KernelSource source = emit(segment.facts, chosen.schedule).value();
    auto kernel = std::make_shared<CompiledKernel>();
    kernel->entry = source.entry;
    kernel->cubin = "cubin";
    std::vector<size_t> bytes;
    for (const BufferArgument& buffer : source.buffers)
      bytes.push_back(bytes_behind(out.plan, i, buffer));
    driver.set_kernel(
        source.entry, bytes.size() + source.params.size(),
        [lowered, bytes, wrong](const LaunchConfig&, std::span<const uint64_t> arguments) {
          std::vector<LaunchMemory> memory;
          for (size_t b = 0; b < bytes.size(); ++b)
            memory.push_back({.bytes = {std::bit_cast<std::byte*>(arguments[b]), bytes[b]}});
          const auto report = interpret(lowered.kernel, memory, lowered.param_values);
          ASSERT_TRUE(report) << report.error().text();
          EXPECT_TRUE(report->findings.empty());
          if (wrong) wrong(memory.back().bytes);
        });
    out.segments.push_back({.chosen = chosen,
                            .source = std::move(source),
                            .kernel = std::move(kernel),
                            .attempts = {}});
  }
  return out;
}

class CannedFakeDevice : public ::testing::TestWithParam<CannedFusion> {};

TEST_P(CannedFakeDevice, IsRightAtAwkwardExtents) {
  FakeDriver driver;
  const DeviceLimits limits = query_device(driver, 0).value();
  const Fusion fusion = GetParam().build();
  const FamilySet families = builtin_families();
  uint64_t seed = 0;
  for (const ExtentValues& extents : awkward_extents(GetParam(), fusion)) {
    const auto planned = plan(fusion, extents, limits, {.families = families});
    if (!planned && is_mean_of_nothing(GetParam(), extents)) continue;
    ASSERT_TRUE(planned) << planned.error().text();
    const SegmentPlan& segment = planned->segments.front();
    for (const Schedule& schedule :
         schedules_to_run(segment.facts, segment, limits, families, ++seed)) {
      auto pinned = pinned_to(fusion, extents, limits, schedule);
      ASSERT_TRUE(pinned) << print(schedule) << pinned.error().text();
      EXPECT_TRUE(computes_the_oracle_on(driver, fusion, interpreted(driver, std::move(*pinned))));
    }
  }
  EXPECT_EQ(driver.allocated_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Canned, CannedFakeDevice, ::testing::ValuesIn(supported_fusions()),
                         name_of_case);

TEST(CannedFakeDeviceChecks, SeeOneWrongByte) {
  FakeDriver driver;
  const CannedFusion& canned = *find_canned_fusion("softmax");
  const Fusion fusion = canned.build();
  Plan planned = plan(fusion, extents_of_width(canned, 33, kRows), *find_device("H200"),
                      {.families = builtin_families()})
                     .value();
  const auto result = computes_the_oracle_on(
      driver, fusion, interpreted(driver, std::move(planned), [](std::span<std::byte> y) {
        y.back() ^= std::byte{4};
      }));
  EXPECT_FALSE(result);
}

}  // namespace
}  // namespace sinter
