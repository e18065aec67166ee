// Executables of plans that check indices: each execution reports its own, on the fake driver and
// on a GPU.

#include <gmock/gmock.h>

#include <map>

#include "fusion_ir/fusion_builder.h"
#include "runtime/check/host_execution.h"
#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/execute/executable.h"
#include "runtime/execute/ranged_executable.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/index_check_graphs.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/integration/live_device.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"

namespace sinter::index_checks_execution_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Executions on the fake driver, in the interpreter.
class IndexCheckExecution : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 6;
  static constexpr int64_t kColumns = 64;

  void prepare(bool checks = true) {
    Plan planned = plan(fusion_, {{"rows", kRows}, {"cols", kColumns}}, *find_device("H200"),
                        {.families = builtin_families(), .check_indices = checks})
                       .value();
    executable_.emplace(
        Executable::prepare(interpreted(driver_, std::move(planned), {}), driver_, {}).value());
    const auto add = [&](const HostTensor& host, std::vector<Tensor>& tensors) {
      memory_.push_back(DeviceBuffer::allocate(driver_, host.storage().size()).value());
      tensors.push_back(
          {.address = memory_.back().pointer(), .type = host.type(), .sizes = host.sizes()});
      ASSERT_TRUE(memory_.back().upload(host.storage()));
    };
    const Binding binding = executable_->compiled().plan.binding;
    for (const HostTensor& input : sample_inputs(fusion_, binding, 1)) add(input, inputs_);
    for (const HostTensor& output : poisoned_outputs(fusion_, binding)) add(output, outputs_);
    bytes_ = executable_->workspace_bytes();
    workspace_.emplace(DeviceBuffer::allocate(driver_, static_cast<size_t>(bytes_) + 256).value());
    poison();
  }
  void poison() {
    ASSERT_TRUE(workspace_->upload(std::vector<std::byte>(workspace_->bytes(), std::byte{0xff})));
  }
  void set_labels(const std::vector<int64_t>& labels) {
    ASSERT_TRUE(memory_[1].upload(std::as_bytes(std::span(labels))));
  }
  Result<void> execute(StreamHandle stream = nullptr) {
    return executable_->execute(inputs_, outputs_, workspace_->pointer(), bytes_, stream);
  }
  Result<void> check_now() { return executable_->check_indices(workspace_->pointer(), bytes_); }

  Fusion fusion_ = cross_entropy_fusion();
  FakeDriver driver_{*find_device("H200")};
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
  std::optional<Executable> executable_;
  std::vector<DeviceBuffer> memory_;
  std::vector<Tensor> inputs_, outputs_;
  std::optional<DeviceBuffer> workspace_;
  int64_t bytes_ = 0;
};

TEST_F(IndexCheckExecution, EachExecutionReportsItsOwnIndices) {
  prepare();
  const std::vector<std::vector<int64_t>> labels{
      {0, 1, 2, 3, 4, 63}, {0, 1, 64, 3, -4, 5}, {5, 4, 3, 2, 1, 0}, {0, 0, 0, 0, 0, kFarBelow}};
  const std::vector<std::optional<int64_t>> expected{{}, 64, {}, kFarBelow};
  for (size_t i = 0; i < labels.size(); ++i) {
    SCOPED_TRACE(i);
    set_labels(labels[i]);
    ASSERT_TRUE(execute());
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto checked = check_now();
      ASSERT_EQ(checked.has_value(), !expected[i].has_value());
      if (checked) continue;
      EXPECT_EQ(checked.error().kind, ErrorKind::kInvalidArgument);
      EXPECT_EQ(checked.error().measured, expected[i]);
      EXPECT_EQ(checked.error().limit, kColumns);
      EXPECT_EQ(checked.error().values, (std::vector{take_of(fusion_), fusion_.inputs[1]}));
      EXPECT_THAT(checked.error().message, HasSubstr(i == 1 ? "at [2]" : "at [5]"));
    }
  }
}

// runtime/README.md shows these lines.
TEST_F(IndexCheckExecution, TellsWhatTheReadmeSays) {
  prepare();
  const Fusion& fusion = fusion_;
  const ExtentValues extents{{"rows", kRows}, {"cols", kColumns}};
  const DeviceLimits limits = *find_device("H200");
  auto planned =
      plan(fusion, extents, limits, {.families = builtin_families(), .check_indices = true});
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->kept_indices().size(), 1U);
  set_labels({0, 1, 64, 3, 4, 5});
  const std::span<const Tensor> inputs = inputs_;
  const std::span<const Tensor> outputs = outputs_;
  const DevicePointer workspace = workspace_->pointer();
  const int64_t bytes = bytes_;
  DeviceDriver& driver = driver_;
  const Executable* const executable = &*executable_;
  StreamHandle const stream = nullptr;
  const auto launched = executable->execute(inputs, outputs, workspace, bytes, stream);
  const DriverStatus finished = driver.stream_synchronize(stream);
  // InvalidArgument: the index 64 at [2] of %v1 'labels' ...
  const auto inside = executable->check_indices(workspace, bytes);
  ASSERT_TRUE(launched);
  ASSERT_EQ(finished, DriverStatus::kSuccess);
  ASSERT_FALSE(inside);
  EXPECT_THAT(inside.error().text(),
              ::testing::StartsWith("InvalidArgument: the index 64 at [2] of %v1 'labels' "));
}

TEST_F(IndexCheckExecution, ExecutingOnlyLaunchesAndReplaysAreChecked) {
  prepare();
  set_labels({0, 1, 2, 3, 4, 5});
  const auto stream = OwnStream::create(driver_, "testing").value();
  const auto graph = CapturedLaunch::capture(
      driver_, stream.handle(), [&](StreamHandle on) { return execute(on); }, "testing");
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_EQ(driver_.capture_violations(), 0);
  for (const int64_t label : {int64_t{3}, int64_t{64}, int64_t{5}, int64_t{-1}}) {
    set_labels({0, 1, label, 3, 4, 5});
    poison();
    ASSERT_TRUE(graph->replay(stream.handle(), "testing"));
    EXPECT_EQ(check_now().has_value(), label >= 0 && label < kColumns) << label;
  }
}

TEST_F(IndexCheckExecution, TheContextNeedNotBeCurrent) {
  prepare();
  set_labels({0, 1, 2, 3, 4, 64});
  ASSERT_TRUE(execute());
  ASSERT_EQ(driver_.context_set_current(nullptr), DriverStatus::kSuccess);
  const auto checked = check_now();
  ASSERT_EQ(driver_.context_set_current(context_.handle()), DriverStatus::kSuccess);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().measured, 64);
}

TEST_F(IndexCheckExecution, AnAllocatorIsRefused) {
  prepare();
  const WorkspaceAllocator allocator{
      .allocate = [&](int64_t, StreamHandle) -> Result<DevicePointer> {
        ADD_FAILURE() << "nothing is asked for";
        return workspace_->pointer();
      },
      .release = [](DevicePointer, StreamHandle) {}};
  const auto done = executable_->execute(inputs_, outputs_, allocator, nullptr);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(done.error().message, HasSubstr("read from the workspace afterwards"));
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
}

TEST_F(IndexCheckExecution, AWrongWorkspaceIsRefused) {
  prepare();
  const auto little = executable_->check_indices(workspace_->pointer(), bytes_ - 1);
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(little.error().limit, bytes_);
  const auto null = executable_->check_indices(0, bytes_);
  ASSERT_FALSE(null);
  EXPECT_EQ(null.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_FALSE(executable_->check_indices(workspace_->pointer() + 8, bytes_));
}

TEST_F(IndexCheckExecution, WhatTheDriverSaysIsPassedOn) {
  prepare();
  ASSERT_TRUE(execute());
  driver_.fail_next(DriverCall::kCopyToHost, DriverStatus::kIllegalAddress);
  const auto checked = check_now();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::kDeviceError);
  EXPECT_TRUE(check_now());
}

TEST_F(IndexCheckExecution, APlanThatChecksNothingSaysSo) {
  prepare(false);
  ASSERT_TRUE(execute());
  const auto checked = check_now();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(checked.error().message, "the plan does not check indices");
}

TEST(IndexChecks, AGraphWithoutTakesPasses) {
  const auto planned =
      checked_plan(find_canned_fusion("softmax")->build(), {{"rows", 4}, {"cols", 64}}).value();
  EXPECT_TRUE(planned.checks_indices);
  FakeDriver driver;
  const auto executable = Executable::prepare(interpreted(driver, planned), driver, {}).value();
  EXPECT_EQ(executable.workspace_bytes(), 0);
  EXPECT_TRUE(executable.check_indices(0, 0));
}

TEST(IndexChecks, NoRowsHaveNoIndices) {
  const Fusion fusion = cross_entropy_fusion();
  const auto planned = checked_plan(fusion, {{"rows", 0}, {"cols", 64}});
  ASSERT_TRUE(planned) << planned.error().text();
  const auto run =
      execute_on_host(*planned, sample_inputs(fusion, planned->binding, 1), builtin_families());
  ASSERT_TRUE(run) << run.error().text();
  EXPECT_THAT(run->outside, IsEmpty());
  FakeDriver driver;
  const auto executable = Executable::prepare(interpreted(driver, *planned), driver, {}).value();
  EXPECT_TRUE(executable.check_indices(0, executable.workspace_bytes()));
}

TEST(IndexChecks, RangesCheckEverySize) {
  FakeDriver driver;
  const auto context = DeviceContext::retain(driver, 0).value();
  const auto current = CurrentContext::enter(driver, context).value();
  const Fusion fusion = cross_entropy_fusion();
  RangedOptions options{.fixed = {{"cols", 64}}};
  options.plan.check_indices = true;
  auto ranged = RangedExecutable::prepare(
      fusion, {{"rows", {1, 40}}}, *find_device("H200"),
      [&](Plan planned) -> Result<CompiledPlan> {
        const std::string sizes = fmt::format("{}", fmt::join(planned.binding.symbol_sizes, "_"));
        for (KernelPlan& kernel : planned.kernels) kernel.facts.fusion.name += "_" + sizes;
        return interpreted(driver, std::move(planned));
      },
      driver, options);
  ASSERT_TRUE(ranged) << ranged.error().text();
  for (const int64_t rows : {1, 17, 40}) {
    SCOPED_TRACE(rows);
    const Binding binding = bind_extents(fusion, {{"rows", rows}, {"cols", 64}}).value();
    const auto inputs = inputs_with(fusion, binding, {{rows - 1, 64}});
    std::vector<DeviceBuffer> memory;
    const auto tensor = [&](const HostTensor& host) {
      memory.push_back(DeviceBuffer::allocate(driver, host.storage().size()).value());
      EXPECT_TRUE(memory.back().upload(host.storage()));
      return Tensor{.address = memory.back().pointer(), .type = host.type(), .sizes = host.sizes()};
    };
    const std::vector<Tensor> in{tensor(inputs[0]), tensor(inputs[1])};
    const std::vector<Tensor> out{tensor(poisoned_outputs(fusion, binding).front())};
    const int64_t bytes = ranged->workspace_bytes({{"rows", rows}}).value();
    const auto workspace = DeviceBuffer::allocate(driver, static_cast<size_t>(bytes)).value();
    const auto done = ranged->execute(in, out, workspace.pointer(), bytes, nullptr);
    ASSERT_TRUE(done) << done.error().text();
    const auto checked =
        ranged->at({{"rows", rows}}).value()->check_indices(workspace.pointer(), bytes);
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().message, HasSubstr(fmt::format("at [{}]", rows - 1)));
  }
  EXPECT_EQ(ranged->report().shared, 2);
}

// ---- On a GPU

/// Row losses in kernels of one family each.
class IndexChecksGpu : public LiveDeviceTest<std::string> {
 protected:
  void SetUp() override {
    LiveDeviceTest::SetUp();
    if (driver_ == nullptr || IsSkipped() || HasFatalFailure()) return;
    current_.emplace(
        CurrentContext::enter(*driver_, DeviceContext::retain(*driver_, 0).value()).value());
    auto planned = plan(
        fusion_, {{"rows", kRows}, {"cols", kColumns}}, limits_,
        {.families = builtin_families(), .pin = {.family = GetParam()}, .check_indices = true});
    if (!planned && GetParam() == "warp_specialised")
      GTEST_SKIP() << "no rings here: " << planned.error().message;
    ASSERT_TRUE(planned) << planned.error().text();
    KernelCache cache({});
    auto compiled = compile_plan(std::move(*planned), *compiler_, cache);
    ASSERT_TRUE(compiled) << compiled.error().text();
    auto executable = Executable::prepare(std::move(*compiled), *driver_);
    ASSERT_TRUE(executable) << executable.error().text();
    executable_.emplace(std::move(*executable));
  }

  static constexpr int64_t kRows = 4000;
  static constexpr int64_t kColumns = 8192;
  Fusion fusion_ = GetParam() == "looped"       ? cross_entropy_fusion()
                   : GetParam() == "multi_wave" ? losses_and_probabilities()
                                                : losses_and_column_sums();
  std::optional<CurrentContext> current_;
  std::optional<Executable> executable_;
};

TEST_P(IndexChecksGpu, ReportTheFirstIndexOutside) {
  const Binding binding = executable_->compiled().plan.binding;
  std::vector<DeviceBuffer> memory;
  const auto tensor = [&](const HostTensor& host) {
    memory.push_back(DeviceBuffer::allocate(*driver_, host.storage().size()).value());
    EXPECT_TRUE(memory.back().upload(host.storage()));
    return Tensor{.address = memory.back().pointer(), .type = host.type(), .sizes = host.sizes()};
  };
  const auto inputs = sample_inputs(fusion_, binding, 1);
  std::vector<Tensor> in;
  for (const HostTensor& input : inputs) in.push_back(tensor(input));
  std::vector<Tensor> out;
  for (const HostTensor& output : poisoned_outputs(fusion_, binding)) out.push_back(tensor(output));
  const int64_t bytes = executable_->workspace_bytes();
  const auto workspace = DeviceBuffer::allocate(*driver_, static_cast<size_t>(bytes)).value();
  const auto run = [&](const std::map<int64_t, int64_t>& labels) {
    auto now = inputs[1];
    for (const auto& [row, label] : labels) now.set_integer(row, label);
    EXPECT_TRUE(memory[1].upload(now.storage()));
    const auto done = executable_->execute(in, out, workspace.pointer(), bytes, nullptr);
    EXPECT_TRUE(done) << done.error().text();
    EXPECT_EQ(driver_->context_synchronize(), DriverStatus::kSuccess);
    return executable_->check_indices(workspace.pointer(), bytes);
  };
  EXPECT_TRUE(run({}));
  EXPECT_TRUE(run({{0, 0}, {kRows - 1, kColumns - 1}}));
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto found = run({{kRows - 1, -1}, {1234, kColumns}, {2345, kFarBelow}});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().measured, kColumns);
    EXPECT_EQ(found.error().limit, kColumns);
    EXPECT_THAT(found.error().message, HasSubstr("at [1234]"));
    EXPECT_THAT(found.error().log, HasSubstr("3 of 4000"));
  }
  EXPECT_TRUE(run({}));
  const auto far = run({{7, kFarAbove}});
  ASSERT_FALSE(far);
  EXPECT_EQ(far.error().measured, kFarAbove);
}

INSTANTIATE_TEST_SUITE_P(Families, IndexChecksGpu,
                         ::testing::Values("multi_wave", "looped", "warp_specialised"),
                         [](const auto& test) { return test.param; });

}  // namespace sinter::index_checks_execution_test
