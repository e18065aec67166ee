// Mistakes in calls of prepare() and execute(): tensors, devices, workspace and launches. The
// device is a fake one; nothing is launched in any of these tests but the ones that say so.

#include <gmock/gmock.h>

#include <array>

#include "fusion_ir/fusion_builder.h"
#include "runtime/check/host_execution.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/execute/executable.h"
#include "runtime/oracle/oracle.h"
#include "scheduler/planning/planner.h"
#include "tests/errors/error_expectations.h"
#include "tests/runtime/sample_kernel.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"

namespace sinter::execution_errors_test {

using ::testing::HasSubstr;

constexpr int64_t kRows = 8;
constexpr int64_t kColumns = 64;

CompiledPlan compiled_rms_norm(int64_t rows) {
  Plan planned = plan(find_canned_fusion("rms_norm")->build(), {{"rows", rows}, {"cols", kColumns}},
                      *find_device("H200"), {.families = builtin_families()})
                     .value();
  const KernelPlan& segment = planned.kernels.front();
  const ProposedSchedule chosen = segment.chosen();
  KernelSource source = emit(segment.facts, chosen.schedule).value();
  auto kernel = std::make_shared<CompiledKernel>(sample_kernel());
  kernel->entry = source.entry;
  CompiledPlan out{.plan = std::move(planned), .kernels = {}};
  out.kernels.push_back(
      {.chosen = chosen, .source = std::move(source), .kernel = kernel, .attempts = {}});
  return out;
}

/// RMS norm of bf16[8, 64] by a weight bf16[64], with tensors that are right.
class ExecutionErrorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    inputs_ = {{.address = x_.pointer(), .type = DType::kBF16, .sizes = {kRows, kColumns}},
               {.address = weight_.pointer(), .type = DType::kBF16, .sizes = {kColumns}}};
    outputs_ = {{.address = y_.pointer(), .type = DType::kBF16, .sizes = {kRows, kColumns}}};
    const Fusion& fusion = executable_.compiled().plan.fusion;
    x_id_ = fusion.inputs.at(0);
    weight_id_ = fusion.inputs.at(1);
    y_id_ = fusion.outputs.at(0);
  }

  [[nodiscard]] Result<void> execute() const {
    return executable_.execute(inputs_, outputs_, 0, executable_.workspace_bytes(), nullptr);
  }
  /// execute() fails like this and launches nothing.
  void expect_refused(ExpectedError expected,
                      std::source_location where = std::source_location::current()) {
    expected.kind = ErrorKind::kInvalidArgument;
    const int64_t before = driver_.calls(DriverCall::kLaunch);
    expect_error(execute(), expected, where);
    EXPECT_EQ(driver_.calls(DriverCall::kLaunch), before);
  }
  DeviceBuffer allocate(size_t bytes) { return DeviceBuffer::allocate(driver_, bytes).value(); }

  FakeDriver driver_{*find_device("H200"), 2};
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
  DeviceBuffer x_ = allocate(2 * kRows * kColumns + 16);
  DeviceBuffer weight_ = allocate(2 * kColumns);
  DeviceBuffer y_ = allocate(2 * kRows * kColumns);
  Executable executable_ =
      Executable::prepare(compiled_rms_norm(kRows), driver_, {.check_addresses = true}).value();
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  ValueId x_id_, weight_id_, y_id_;
};

TEST_F(ExecutionErrorTest, TheRightTensorsAreLaunched) {
  const auto executed = execute();
  ASSERT_TRUE(executed) << executed.error().text();
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 1);
}

TEST_F(ExecutionErrorTest, TooFewInputs) {
  inputs_.pop_back();
  expect_refused({.text = "1 inputs and 1 outputs were passed, the fusion has 2 and 1"});
}

TEST_F(ExecutionErrorTest, TooManyOutputs) {
  outputs_.push_back(outputs_.front());
  expect_refused({.text = "2 inputs and 2 outputs were passed, the fusion has 2 and 1"});
}

TEST_F(ExecutionErrorTest, AWrongType) {
  inputs_[1].type = DType::kF16;
  expect_refused({.text = "has type f16, planned was bf16", .values = {weight_id_}});
}

TEST_F(ExecutionErrorTest, AWrongSize) {
  inputs_[0].sizes = {kRows + 1, kColumns};
  expect_refused({.text = "has sizes [9, 64], planned were [8, 64]", .values = {x_id_}});
}

TEST_F(ExecutionErrorTest, AWrongRank) {
  outputs_[0].sizes = {kRows * kColumns};
  expect_refused({.text = "has sizes [512], planned were [8, 64]", .values = {y_id_}});
}

TEST_F(ExecutionErrorTest, AWrongStride) {
  inputs_[0].strides = {kColumns + 8, 1};
  expect_refused({.text = "has stride 72 along axis 0, planned was 64", .values = {x_id_}});
}

TEST_F(ExecutionErrorTest, AWrongNumberOfStrides) {
  inputs_[0].strides = {1};
  expect_refused({.text = "has 1 strides for 2 axes", .values = {x_id_}});
}

TEST_F(ExecutionErrorTest, AMisalignedTensor) {
  inputs_[0].address += 2;
  expect_refused({.text = "which is not a multiple of the promised 16 bytes",
                  .values = {x_id_},
                  .measured = 2,
                  .limit = 16});
}

TEST_F(ExecutionErrorTest, ANullTensor) {
  outputs_[0].address = 0;
  expect_refused({.text = "has a null address", .values = {y_id_}});
}

TEST_F(ExecutionErrorTest, AnOutputOverItsInput) {
  outputs_[0].address = inputs_[0].address;
  expect_refused({.text = "overlaps the memory of", .values = {y_id_, x_id_}});
}

TEST_F(ExecutionErrorTest, AnOutputOverTheEndOfAnInput) {
  const DeviceBuffer both = allocate(4 * kRows * kColumns);
  inputs_[0].address = both.pointer();
  outputs_[0].address = both.pointer() + 2 * kRows * kColumns - 16;
  expect_refused({.text = "overlaps the memory of", .values = {y_id_, x_id_}});
  outputs_[0].address += 16;
  const auto executed = execute();
  EXPECT_TRUE(executed) << executed.error().text();
}

TEST_F(ExecutionErrorTest, MemoryOfNoDevice) {
  alignas(16) std::array<uint16_t, kColumns> on_host{};
  inputs_[1].address = reinterpret_cast<DevicePointer>(on_host.data());
  expect_refused({.text = "is not device memory", .values = {weight_id_}});
}

TEST_F(ExecutionErrorTest, MemoryOfAnotherDevice) {
  const auto other = DeviceContext::retain(driver_, 1).value();
  const auto current = CurrentContext::enter(driver_, other).value();
  const DeviceBuffer elsewhere = allocate(2 * kColumns);
  inputs_[1].address = elsewhere.pointer();
  expect_refused({.text = "lies on device 1, prepared was device 0", .values = {weight_id_}});
}

TEST_F(ExecutionErrorTest, AWorkspaceThatIsTooSmall) {
  const int64_t needed = executable_.workspace_bytes();
  expect_error(executable_.execute(inputs_, outputs_, 0, needed - 1, nullptr),
               {.kind = ErrorKind::kResourceExhausted,
                .text = "the workspace is too small",
                .measured = needed - 1,
                .limit = needed});
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
}

TEST_F(ExecutionErrorTest, EveryFailureOfALaunchHasARemedy) {
  for (const DriverStatus status :
       {DriverStatus::kInvalidValue, DriverStatus::kInvalidHandle, DriverStatus::kIllegalAddress,
        DriverStatus::kLaunchOutOfResources, DriverStatus{719}}) {
    driver_.fail_next(DriverCall::kLaunch, status);
    expect_error(execute(), {.kind = ErrorKind::kDeviceError,
                             .text = "cuLaunchKernelEx failed while launching a kernel"});
  }
}

TEST_F(ExecutionErrorTest, NoContextOnThisThread) {
  (void)driver_.context_set_current(nullptr);
  expect_error(execute(), {.kind = ErrorKind::kDeviceError, .text = "cuLaunchKernelEx failed"});
}

TEST_F(ExecutionErrorTest, NoRowsLaunchNothingAndNeedNoMemory) {
  const auto empty = Executable::prepare(compiled_rms_norm(0), driver_).value();
  inputs_[0] = {.type = DType::kBF16, .sizes = {0, kColumns}};
  outputs_[0] = {.type = DType::kBF16, .sizes = {0, kColumns}};
  const auto executed = empty.execute(inputs_, outputs_, 0, 0, nullptr);
  ASSERT_TRUE(executed) << executed.error().text();
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
}

TEST_F(ExecutionErrorTest, ADeviceThatIsNotThere) {
  expect_error(Executable::prepare(compiled_rms_norm(kRows), driver_, {.device = 2}),
               {.kind = ErrorKind::kDeviceError, .text = "opening device 2"});
}

TEST_F(ExecutionErrorTest, AKernelOfAnotherArchitecture) {
  driver_.fail_next(DriverCall::kModuleLoad, DriverStatus::kNoBinaryForGpu);
  const auto prepared = Executable::prepare(compiled_rms_norm(kRows), driver_);
  expect_error(prepared, {.kind = ErrorKind::kDeviceError, .text = "loading kernel"});
  EXPECT_THAT(prepared.error().remedy, HasSubstr("architecture of this device"));
}

TEST_F(ExecutionErrorTest, ADeviceWithoutMemoryForTheModule) {
  driver_.fail_next(DriverCall::kModuleLoad, DriverStatus::kOutOfMemory);
  expect_error(Executable::prepare(compiled_rms_norm(kRows), driver_),
               {.kind = ErrorKind::kResourceExhausted, .text = "loading kernel"});
}

TEST_F(ExecutionErrorTest, MoreSharedMemoryThanTheDeviceAllows) {
  CompiledPlan compiled = compiled_rms_norm(kRows);
  compiled.kernels.front().source.dynamic_shared = true;
  compiled.kernels.front().source.shared_bytes = find_device("H200")->shared_bytes_per_block + 1;
  expect_error(Executable::prepare(std::move(compiled), driver_),
               {.kind = ErrorKind::kDeviceError, .text = "bytes of dynamic shared memory"});
}

TEST_F(ExecutionErrorTest, MoreBlocksThanAGridHas) {
  CompiledPlan compiled = compiled_rms_norm(kRows);
  KernelSource& source = compiled.kernels.front().source;
  source.param_values[source.work_param] = (int64_t{1} << 31) * source.work_per_block;
  expect_error(Executable::prepare(std::move(compiled), driver_),
               {.kind = ErrorKind::kInvalidArgument,
                .text = "the number of blocks is out of range",
                .measured = int64_t{1} << 31,
                .limit = (int64_t{1} << 31) - 1});
}

TEST_F(ExecutionErrorTest, MoreArgumentsThanALaunchCarries) {
  CompiledPlan compiled = compiled_rms_norm(kRows);
  KernelSource& source = compiled.kernels.front().source;
  source.buffers.resize(kMaxKernelArguments + 1 - source.params.size(), source.buffers.front());
  expect_error(Executable::prepare(std::move(compiled), driver_),
               {.kind = ErrorKind::kInvalidArgument,
                .text = "the number of arguments is out of range",
                .measured = static_cast<int64_t>(kMaxKernelArguments) + 1,
                .limit = static_cast<int64_t>(kMaxKernelArguments)});
}

TEST_F(ExecutionErrorTest, MoreMemoryThanTheDeviceHas) {
  const auto buffer = DeviceBuffer::allocate(driver_, size_t{1} << 40);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(buffer.error().text(), HasSubstr("1099511627776"));
  EXPECT_NE(buffer.error().remedy, "");
}

/// The same mistakes without a device: the interpreter's way in.
class HostExecutionErrorTest : public ::testing::Test {
 protected:
  [[nodiscard]] Result<HostRun> execute() const {
    const KernelPlan& segment = compiled_.plan.kernels.front();
    const LoweredKernel kernel = lower(segment.facts, segment.chosen().schedule).value();
    return execute_on_host(segment.facts, kernel, inputs_);
  }

  CompiledPlan compiled_ = compiled_rms_norm(kRows);
  ValueId x_id_ = compiled_.plan.fusion.inputs.at(0);
  std::vector<HostTensor> inputs_ = sample_inputs(compiled_.plan.fusion, Binding{}, 1);
};

TEST_F(HostExecutionErrorTest, TooFewInputs) {
  inputs_.pop_back();
  expect_error(execute(), {.kind = ErrorKind::kInvalidArgument,
                           .text = "1 inputs were passed, the fusion has 2",
                           .measured = 1,
                           .limit = 2});
}

TEST_F(HostExecutionErrorTest, AWrongType) {
  inputs_[0] = HostTensor::zeros(DType::kF32, {kRows, kColumns});
  expect_error(execute(), {.kind = ErrorKind::kInvalidArgument,
                           .text = "is f32[8, 64] with strides [64, 1], planned was bf16[8, 64]",
                           .values = {x_id_}});
}

TEST_F(HostExecutionErrorTest, WrongStrides) {
  inputs_[0] = HostTensor::zeros(DType::kBF16, {kRows, kColumns}, {.strides = {1, kRows}});
  expect_error(execute(), {.kind = ErrorKind::kInvalidArgument,
                           .text = "with strides [1, 8], planned was bf16[8, 64] with strides "
                                   "[64, 1]",
                           .values = {x_id_}});
}

/// The oracle's error for a call of f32[2, n] with n = 2, evaluated by `external`.
Error call_error(const ExternalFunction& external) {
  FusionBuilder b("f");
  const Extent n = b.symbol("n");
  b.output(b.external("gemm", {}, {{DType::kF32, {2, n}}})[0]);
  const Fusion fusion = b.build();
  const Binding binding = bind_extents(fusion, {{"n", 2}}).value();
  return thrown_by([&] { (void)evaluate(fusion, binding, {}, {.external = external}); });
}

/// What a callback saw of a tensor.
struct Seen {
  DType type = DType::kF32;
  Sizes sizes;
  Sizes strides;
  friend bool operator==(const Seen&, const Seen&) = default;
};

// A call's results are what the graph declares, whatever the function behind its name computes: the
// builder checks that they are shapes, and a callback is given exactly those, so it can refuse.
TEST(ExternalCallError, ACallbackSeesWhatIsDeclaredAndMayRefuseIt) {
  FusionBuilder b("declared");
  const Extent n = b.symbol("n");
  const ValueId x = b.input(DType::kBF16, {n, 64}, "x", {.strides = {128, 1}});
  const auto results =
      b.external("gemm", {x}, {{DType::kF32, {n, 48}}, {DType::kI32, {Extent(3), n}}});
  b.output(results[0], "y", {.strides = {96, 1}});
  b.output(results[1], "z");
  FakeDriver driver;
  const auto context = DeviceContext::retain(driver, 0).value();
  const auto current = CurrentContext::enter(driver, context).value();
  std::vector<Seen> seen;
  const auto callback = [&](const ExternalRequest& request) -> Result<void> {
    for (const auto& tensors : {request.inputs, request.outputs}) {
      for (const ExternalTensor& tensor : tensors)
        seen.push_back({tensor.type,
                        {tensor.sizes.begin(), tensor.sizes.end()},
                        {tensor.strides.begin(), tensor.strides.end()}});
    }
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = "no gemm of these shapes",
                 .remedy = "declare f32[n, 64]"});
  };
  CompiledPlan compiled{
      .plan = plan(b.build(), {{"n", 8}}, *find_device("H200"), {.families = builtin_families()})
                  .value(),
      .kernels = {}};
  const auto executable =
      Executable::prepare(std::move(compiled), driver, {.external = callback}).value();
  const DeviceBuffer memory = DeviceBuffer::allocate(driver, 8192).value();
  const Tensor input{memory.pointer(), DType::kBF16, {8, 64}, {128, 1}};
  const std::array outputs = {Tensor{memory.pointer() + 2048, DType::kF32, {8, 48}, {96, 1}},
                              Tensor{memory.pointer() + 6144, DType::kI32, {3, 8}}};
  expect_error(
      executable.execute({&input, 1}, outputs, 0, 0, nullptr),
      {.kind = ErrorKind::kUnsupported, .text = "no gemm of these shapes", .ops = {OpId{1}}});
  EXPECT_EQ(seen, (std::vector<Seen>{{DType::kBF16, {8, 64}, {128, 1}},
                                     {DType::kF32, {8, 48}, {96, 1}},
                                     {DType::kI32, {3, 8}, {8, 1}}}));
}

ExpectedError call_refused(std::string text) {
  return {.kind = ErrorKind::kInvalidArgument,
          .text = "external call 'gemm' of %op0 " + std::move(text),
          .values = {ValueId{0}},
          .ops = {OpId{0}}};
}

TEST(ExternalCallError, NoFunctionEvaluatesIt) {
  expect_error(call_error({}), call_refused("has no function that evaluates it"));
}

TEST(ExternalCallError, ItsFunctionReturnsAnythingElse) {
  const OracleOutput right{
      .type = DType::kF32, .sizes = {2, 2}, .real = {1, 2, 3, 4}, .bound = {0, 0, 0, 0}};
  const auto error_of = [](std::vector<OracleOutput> results) {
    return call_error([=](const ExternalOp&, std::span<const OracleOutput>) { return results; });
  };
  const auto with = [&](auto change) {
    OracleOutput wrong = right;
    change(wrong);
    return error_of({wrong});
  };
  EXPECT_EQ(error_of({right}).message, "(nothing was thrown)");
  expect_error(error_of({}), call_refused("gave 0 results, not 1"));
  expect_error(error_of({right, right}), call_refused("gave 2 results, not 1"));
  expect_error(with([](OracleOutput& x) { x.type = DType::kF16; }),
               call_refused("gave f16[2, 2] as result 0, which is f32[2, 2]"));
  expect_error(with([](OracleOutput& x) { x.sizes = {4}; }),
               call_refused("gave f32[4] as result 0, which is f32[2, 2]"));
  expect_error(with([](OracleOutput& x) { x.real.pop_back(); }),
               call_refused("gave 3 elements and 4 bounds as result 0, which has 4"));
  expect_error(with([](OracleOutput& x) { x.bound.clear(); }),
               call_refused("gave 4 elements and 0 bounds as result 0, which has 4"));
  expect_error(with([](OracleOutput& x) { x.bound[1] = -1.0; }),
               call_refused("gave a bound of result 0 that is not >= 0"));
}

TEST_F(HostExecutionErrorTest, AnOracleInputOfAWrongSize) {
  const Fusion fusion = find_canned_fusion("rms_norm")->build();
  const Binding binding = bind_extents(fusion, {{"rows", kRows + 1}, {"cols", kColumns}}).value();
  expect_error(thrown_by([&] { (void)evaluate(fusion, binding, inputs_); }),
               {.kind = ErrorKind::kInvalidArgument,
                .text = "input 0 is bf16[9, 64], but the tensor passed is bf16[8, 64]",
                .values = {fusion.inputs.at(0)}});
}

TEST_F(HostExecutionErrorTest, ATensorOfNegativeSize) {
  expect_error(thrown_by([] { (void)HostTensor::zeros(DType::kF32, {-1}); }),
               {.kind = ErrorKind::kInvalidArgument, .text = "must not be negative"});
}

TEST_F(HostExecutionErrorTest, ATensorOfTooManyElements) {
  const int64_t many = int64_t{1} << 40;
  expect_error(thrown_by([&] {
                 (void)HostTensor::zeros(DType::kF32, {many, many});
               }),
               {.kind = ErrorKind::kInvalidArgument, .text = "has more than 2^63 elements"});
}

}  // namespace sinter::execution_errors_test
