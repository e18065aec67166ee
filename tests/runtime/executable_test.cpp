#include "runtime/execute/executable.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "runtime/check/device_run.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "tests/runtime/allocation_counter.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"

namespace sinter::executable_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kRows = 6;
constexpr int64_t kColumns = 64;

/// A plan whose kernels were never compiled: the fake driver takes any image.
CompiledPlan uncompiled(const Fusion& fusion, const ExtentValues& extents) {
  CompiledPlan out{
      .plan = plan(fusion, extents, *find_device("H200"), {.families = builtin_families()}).value(),
      .kernels = {}};
  for (const KernelPlan& segment : out.plan.kernels) {
    KernelSource source = emit(segment.facts, segment.chosen().schedule).value();
    auto kernel = std::make_shared<CompiledKernel>();
    kernel->entry = source.entry;
    kernel->cubin = "cubin";
    out.kernels.push_back({.chosen = segment.chosen(),
                           .source = std::move(source),
                           .kernel = std::move(kernel),
                           .attempts = {}});
  }
  return out;
}

/// Residual RMS norm: inputs x, residual and weight, outputs sum and y.
class ExecutableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CompiledPlan compiled = uncompiled(find_canned_fusion("residual_rms_norm")->build(),
                                       {{"rows", kRows}, {"cols", kColumns}});
    const KernelSource& source = compiled.kernels.front().source;
    buffers_ = source.buffers;
    driver_.set_kernel(source.entry, source.buffers.size() + source.params.size(),
                       [this](const LaunchConfig& config, std::span<const uint64_t> arguments) {
                         ++launches_;
                         config_ = config;
                         seen_.assign(arguments.begin(), arguments.end());
                       });
    const Fusion& fusion = compiled.plan.fusion;
    fusion_inputs_ = fusion.inputs;
    fusion_outputs_ = fusion.outputs;
    const auto tensor_of = [&](ValueId value) {
      const Value& info = fusion.values[value];
      const Sizes sizes = Binding{}.sizes_of(info.shape);
      memory_.push_back(DeviceBuffer::allocate(driver_, static_cast<size_t>(element_count(sizes) *
                                                                            bytes_of(info.type)))
                            .value());
      return Tensor{.address = memory_.back().pointer(), .type = info.type, .sizes = sizes};
    };
    for (const ValueId input : fusion.inputs) inputs_.push_back(tensor_of(input));
    for (const ValueId output : fusion.outputs) outputs_.push_back(tensor_of(output));
    prepare(std::move(compiled), {});
  }

  void prepare(CompiledPlan compiled, const PrepareOptions& options) {
    auto executable = Executable::prepare(std::move(compiled), driver_, options);
    ASSERT_TRUE(executable) << executable.error().text();
    executable_.emplace(std::move(*executable));
  }

  Result<void> execute() const {
    return executable_->execute(inputs_, outputs_, 0, executable_->workspace_bytes(), nullptr);
  }

  /// The call is refused with these words, and nothing was launched.
  void expect_refused(ErrorKind kind, const testing::Matcher<const std::string&>& text) const {
    const auto done = execute();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, kind);
    EXPECT_THAT(done.error().text(), text);
    EXPECT_EQ(launches_, 0);
  }
  void expect_refused(const testing::Matcher<const std::string&>& text) const {
    expect_refused(ErrorKind::kInvalidArgument, text);
  }

  FakeDriver driver_{*find_device("H200"), 2};
  // What contexts the driver keeps current is the caller's business, as with a real one.
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
  std::vector<DeviceBuffer> memory_;
  std::vector<BufferArgument> buffers_;
  std::vector<ValueId> fusion_inputs_;
  std::vector<ValueId> fusion_outputs_;
  std::optional<Executable> executable_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  int launches_ = 0;
  LaunchConfig config_{};
  std::vector<uint64_t> seen_;
};

TEST_F(ExecutableTest, PassesEveryTensorWhereTheKernelWantsIt) {
  ASSERT_EQ(inputs_.size(), 3U);
  ASSERT_EQ(outputs_.size(), 2U);
  ASSERT_TRUE(execute());
  ASSERT_EQ(launches_, 1);
  ASSERT_EQ(buffers_.size(), 5U);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const auto input = std::ranges::find(fusion_inputs_, buffers_[i].value);
    const auto output = std::ranges::find(fusion_outputs_, buffers_[i].value);
    const Tensor& expected = input != fusion_inputs_.end()
                                 ? inputs_[static_cast<size_t>(input - fusion_inputs_.begin())]
                                 : outputs_[static_cast<size_t>(output - fusion_outputs_.begin())];
    EXPECT_EQ(seen_[i], expected.address) << i;
  }
  EXPECT_EQ(seen_[buffers_.size()], static_cast<uint64_t>(kRows));
  const Schedule& schedule = executable_->compiled().kernels.front().chosen.schedule;
  EXPECT_EQ(config_.block_x, schedule.threads_per_block());
  EXPECT_EQ(config_.grid_x, (kRows + schedule.rows_per_block - 1) / schedule.rows_per_block);
}

TEST_F(ExecutableTest, LaunchesOnTheStreamItIsGiven) {
  StreamHandle stream = nullptr;
  ASSERT_EQ(driver_.stream_create(&stream, 0), DriverStatus::kSuccess);
  ASSERT_TRUE(executable_->execute(inputs_, outputs_, 0, 0, stream));
  EXPECT_EQ(config_.stream, stream);
  EXPECT_EQ(driver_.stream_destroy(stream), DriverStatus::kSuccess);
}

TEST_F(ExecutableTest, AllocatesNothingAndOnlyLaunches) {
  ASSERT_TRUE(execute());
  std::array<int64_t, kDriverCallCount> before{};
  for (size_t i = 0; i < before.size(); ++i) before[i] = driver_.calls(static_cast<DriverCall>(i));
  const int64_t allocations = allocation_count();
  for (int i = 0; i < 100; ++i) {
    if (!execute()) FAIL();
  }
  // The kernel's body in the fake refills a vector that is large enough already.
  EXPECT_EQ(allocation_count(), allocations);
  before[static_cast<size_t>(DriverCall::kLaunch)] += 100;
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(driver_.calls(static_cast<DriverCall>(i)), before[i])
        << name_of(static_cast<DriverCall>(i));
  }
}

TEST_F(ExecutableTest, MayBeCaptured) {
  StreamHandle stream = nullptr;
  GraphHandle graph = nullptr;
  GraphExecHandle executable = nullptr;
  ASSERT_EQ(driver_.stream_create(&stream, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.capture_begin(stream, CaptureMode::kGlobal), DriverStatus::kSuccess);
  ASSERT_TRUE(executable_->execute(inputs_, outputs_, 0, 0, stream));
  ASSERT_EQ(driver_.capture_end(stream, &graph), DriverStatus::kSuccess);
  EXPECT_EQ(driver_.capture_violations(), 0);
  EXPECT_EQ(launches_, 0) << "a captured launch runs when the graph does";
  ASSERT_EQ(driver_.graph_instantiate(&executable, graph, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.graph_launch(executable, stream), DriverStatus::kSuccess);
  EXPECT_EQ(launches_, 1);
  EXPECT_EQ(driver_.graph_exec_destroy(executable), DriverStatus::kSuccess);
  EXPECT_EQ(driver_.graph_destroy(graph), DriverStatus::kSuccess);
  EXPECT_EQ(driver_.stream_destroy(stream), DriverStatus::kSuccess);
}

TEST_F(ExecutableTest, RefusesTheWrongNumberOfTensors) {
  inputs_.pop_back();
  expect_refused(HasSubstr("2 inputs and 2 outputs were passed, the fusion has 3 and 2"));
}

TEST_F(ExecutableTest, RefusesAnotherType) {
  inputs_[1].type = DType::kF16;
  expect_refused(HasSubstr("has type f16, planned was bf16"));
}

TEST_F(ExecutableTest, RefusesOtherSizes) {
  outputs_[0].sizes = {kRows, kColumns + 1};
  expect_refused(HasSubstr("has sizes [6, 65], planned were [6, 64]"));
  outputs_[0].sizes = {kRows * kColumns};
  expect_refused(HasSubstr("has sizes [384], planned were [6, 64]"));
}

TEST_F(ExecutableTest, RefusesOtherStrides) {
  inputs_[0].strides = {kColumns + 8, 1};
  expect_refused(HasSubstr("has stride 72 along axis 0, planned was 64"));
  inputs_[0].strides = {1};
  expect_refused(HasSubstr("has 1 strides for 2 axes"));
  inputs_[0].strides = {kColumns, 1};
  EXPECT_TRUE(execute()) << "dense strides may be written out";
}

/// Two rows are the fewest of which one stride is walked.
TEST_F(ExecutableTest, RefusesOtherStridesOfTwoRows) {
  prepare(uncompiled(find_canned_fusion("residual_rms_norm")->build(),
                     {{"rows", 2}, {"cols", kColumns}}),
          {});
  for (std::vector<Tensor>* tensors : {&inputs_, &outputs_}) {
    for (Tensor& tensor : *tensors) {
      if (tensor.sizes.size() == 2) tensor.sizes.front() = 2;
    }
  }
  inputs_[0].strides = {kColumns + 8, 1};
  expect_refused(HasSubstr("has stride 72 along axis 0, planned was 64"));
}

TEST_F(ExecutableTest, RefusesANullAddress) {
  inputs_[2].address = 0;
  expect_refused(HasSubstr("has a null address"));
}

TEST_F(ExecutableTest, RefusesAMisalignedAddress) {
  inputs_[0].address += 2;
  const auto done = execute();
  expect_refused(HasSubstr("not a multiple of the promised 16 bytes"));
  EXPECT_EQ(done.error().measured, 2);
  EXPECT_EQ(done.error().limit, 16);
}

TEST_F(ExecutableTest, RefusesOutputsThatOverlap) {
  const Tensor kept = outputs_[1];
  outputs_[1].address = inputs_[0].address + 16;
  expect_refused(HasSubstr("overlaps the memory of"));
  outputs_[1].address = outputs_[0].address;
  expect_refused(HasSubstr("overlaps the memory of"));
  outputs_[1] = kept;
  EXPECT_TRUE(execute());
}

TEST_F(ExecutableTest, InputsMayBeOneTensor) {
  inputs_[1].address = inputs_[0].address;
  EXPECT_TRUE(execute());
}

TEST_F(ExecutableTest, RefusesTooSmallAWorkspace) {
  const auto done = executable_->execute(inputs_, outputs_, 0, -1, nullptr);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(done.error().measured, -1);
  EXPECT_EQ(done.error().limit, 0);
}

TEST_F(ExecutableTest, ChecksAddressesWhenAskedTo) {
  CompiledPlan compiled = executable_->compiled();
  prepare(std::move(compiled), {.device = 0, .check_addresses = true});
  EXPECT_TRUE(execute());
  launches_ = 0;
  alignas(16) std::array<std::byte, 16> host{};
  const DevicePointer kept = std::exchange(inputs_[0].address, std::bit_cast<DevicePointer>(&host));
  expect_refused(HasSubstr("is not device memory"));
  inputs_[0].address = kept;
  // Prepared for the other device, the same tensors are foreign.
  compiled = executable_->compiled();
  prepare(std::move(compiled), {.device = 1, .check_addresses = true});
  expect_refused(HasSubstr("lies on device 0, prepared was device 1"));
}

TEST_F(ExecutableTest, PassesOnWhatTheDriverSays) {
  driver_.fail_next(DriverCall::kLaunch, DriverStatus::kLaunchOutOfResources);
  const auto done = execute();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::kDeviceError);
}

TEST_F(ExecutableTest, GivesEverythingBack) {
  executable_.reset();
  // The context share this fixture retained itself.
  EXPECT_EQ(driver_.live_objects(), 1);
}

/// Two kernels write a tensor of the workspace in parts, which a call reads as one.
TEST(ExecutableWorkspace, PartsOfATensorLieAtTheirOffsets) {
  FusionBuilder b("in_parts");
  const ValueId top = b.exp(b.input(DType::kF32, {64, 32}, "x"));
  const ValueId bottom = b.sum(b.input(DType::kF32, {16, 32, 8}, "y"), {2});
  const ValueId joined = b.concatenate({top, bottom}, 0);
  b.output(b.external("f", {joined}, {{DType::kF32, {80, 32}}}).front(), "z");
  CompiledPlan compiled = uncompiled(b.build(), {});
  FakeDriver driver(*find_device("H200"), 1);
  const DeviceContext context = DeviceContext::retain(driver, 0).value();
  const CurrentContext current = CurrentContext::enter(driver, context).value();
  std::vector<uint64_t> written;
  for (const KernelBuild& kernel : compiled.kernels) {
    const KernelSource& source = kernel.source;
    const auto output = std::ranges::find(source.buffers, BufferUse::kWrite, &BufferArgument::use);
    ASSERT_NE(output, source.buffers.end());
    const auto number = static_cast<size_t>(output - source.buffers.begin());
    driver.set_kernel(source.entry, source.buffers.size() + source.params.size(),
                      [&written, number](const LaunchConfig&, std::span<const uint64_t> arguments) {
                        written.push_back(arguments[number]);
                      });
  }
  DevicePointer read = 0;
  const auto call = [&](const ExternalRequest& request) -> Result<void> {
    read = request.inputs.front().address;
    return {};
  };
  const auto executable = Executable::prepare(std::move(compiled), driver, {.external = call});
  ASSERT_TRUE(executable) << executable.error().text();
  std::vector<DeviceBuffer> memory;
  const auto tensor = [&](Sizes sizes) {
    memory.push_back(
        DeviceBuffer::allocate(driver, static_cast<size_t>(element_count(sizes)) * 4).value());
    return Tensor{.address = memory.back().pointer(), .type = DType::kF32, .sizes = sizes};
  };
  const std::vector<Tensor> inputs = {tensor({64, 32}), tensor({16, 32, 8})};
  const std::vector<Tensor> outputs = {tensor({80, 32})};
  memory.push_back(
      DeviceBuffer::allocate(driver, static_cast<size_t>(executable->workspace_bytes())).value());
  ASSERT_TRUE(executable->execute(inputs, outputs, memory.back().pointer(),
                                  executable->workspace_bytes(), nullptr));
  EXPECT_THAT(written, testing::UnorderedElementsAre(read, read + 64 * 32 * 4));
}

TEST(ExecutableEmpty, LaunchesNothingForNoRows) {
  FakeDriver driver;
  const auto executable = Executable::prepare(
      uncompiled(find_canned_fusion("softmax")->build(), {{"rows", 0}, {"cols", 64}}), driver);
  ASSERT_TRUE(executable) << executable.error().text();
  const Tensor none{.address = 0, .type = DType::kBF16, .sizes = {0, 64}};
  EXPECT_TRUE(executable->execute({&none, 1}, {&none, 1}, 0, 0, nullptr));
  EXPECT_EQ(driver.calls(DriverCall::kLaunch), 0);
}

/// Plans, compiles, runs and checks on the device at hand.
class ExecutableGpu : public ::testing::TestWithParam<const char*> {};

TEST_P(ExecutableGpu, ComputesTheOracle) {
  const auto driver = cuda_driver();
  if (!driver) GTEST_SKIP() << "no GPU: " << driver.error().message;
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  const DeviceLimits limits = query_device(**driver, 0).value();
  const Fusion fusion = find_canned_fusion(GetParam())->build();
  KernelCache cache({});
  for (const auto& [rows, columns] :
       std::initializer_list<std::pair<int64_t, int64_t>>{{1000, 4096}, {333, 1023}, {7, 50257}}) {
    SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
    auto compiled =
        plan(fusion, {{"rows", rows}, {"cols", columns}}, limits, {.families = builtin_families()})
            .and_then(
                [&](Plan planned) { return compile_plan(std::move(planned), *compiler, cache); });
    ASSERT_TRUE(compiled) << compiled.error().text();
    const auto executable = Executable::prepare(std::move(*compiled), **driver);
    ASSERT_TRUE(executable) << executable.error().text();
    const auto done = run_on_device(fusion, *executable, **driver, {.time = false});
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_TRUE(done->check.passed()) << done->check.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Canned, ExecutableGpu,
                         ::testing::Values("bias_gelu", "layer_norm", "softmax", "cross_entropy",
                                           "dynamic_int8_quant", "row_argmax", "misaligned_input",
                                           "softmax_of_layer_norm"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace sinter::executable_test
