// Executions in a workspace that an allocator gives, between a kernel, a call and a kernel.

#include "runtime/execute/workspace_allocator.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/execute/executable.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"

namespace sinter::workspace_allocator_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// exp(call(exp(x))): what stands around the call goes through the workspace.
Fusion around_a_call() {
  FusionBuilder b("around_a_call");
  const ValueId x = b.input(DType::kF32, {64, 32}, "x");
  const ValueId y = b.external("call", {b.exp(x)}, {{DType::kF32, {64, 32}}})[0];
  b.output(b.exp(y), "y");
  return b.build();
}

/// A plan whose kernels do nothing on the fake driver.
CompiledPlan uncompiled(const Fusion& fusion, const ExtentValues& extents = {}) {
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

class WorkspaceAllocatorTest : public ::testing::Test {
 protected:
  Result<Executable> prepare(CompiledPlan compiled) {
    return Executable::prepare(std::move(compiled), driver_,
                               {.external = [this](const ExternalRequest&) {
                                 ++calls_;
                                 return call_();
                               }});
  }

  [[nodiscard]] Result<void> execute() const {
    return executable_.execute(inputs_, outputs_, allocator_, stream_);
  }
  /// Tensors of the plan's inputs or outputs.
  std::vector<Tensor> tensors_of(const std::vector<ValueId>& values) {
    std::vector<Tensor> out;
    for (const ValueId value : values) {
      const Value& info = executable_.compiled().plan.fusion.values[value];
      const Sizes sizes = Binding{}.sizes_of(info.shape);
      const auto bytes = static_cast<size_t>(element_count(sizes) * bytes_of(info.type));
      memory_.push_back(DeviceBuffer::allocate(driver_, bytes).value());
      out.push_back({.address = memory_.back().pointer(), .type = info.type, .sizes = sizes});
    }
    return out;
  }
  [[nodiscard]] int64_t launches() const { return driver_.calls(DriverCall::kLaunch); }
  void expect_nothing_enqueued() const {
    EXPECT_EQ(launches(), 0);
    EXPECT_EQ(calls_, 0);
    EXPECT_EQ(driver_.calls(DriverCall::kFillAsync), 0);
  }
  /// What failed before has left no trace.
  void expect_usable() {
    pool_.gives = {};
    call_ = [] { return Result<void>{}; };
    asked_.clear();
    released_.clear();
    const int64_t before = launches();
    const auto done = execute();
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(launches() - before, 2);
    EXPECT_THAT(asked_, ElementsAre(executable_.workspace_bytes()));
    EXPECT_EQ(released_, given_);
  }

  struct Pool {
    std::function<Result<DevicePointer>(int64_t)> gives;  ///< In the place of its own memory.
  };

  FakeDriver driver_;
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
  int calls_ = 0;
  std::function<Result<void>()> call_ = [] { return Result<void>{}; };
  Executable executable_ = prepare(uncompiled(around_a_call())).value();
  std::vector<DeviceBuffer> memory_;
  std::vector<Tensor> inputs_ = tensors_of(executable_.compiled().plan.fusion.inputs);
  std::vector<Tensor> outputs_ = tensors_of(executable_.compiled().plan.fusion.outputs);
  DeviceBuffer own_ =
      DeviceBuffer::allocate(driver_, static_cast<size_t>(executable_.workspace_bytes())).value();
  StreamHandle stream_ = reinterpret_cast<StreamHandle>(uintptr_t{0x1234});

  Pool pool_;
  std::vector<int64_t> asked_;
  std::vector<DevicePointer> given_ = {own_.pointer()};
  std::vector<DevicePointer> released_;
  std::vector<StreamHandle> streams_;
  WorkspaceAllocator allocator_{
      .allocate = [this](int64_t bytes, StreamHandle stream) -> Result<DevicePointer> {
        asked_.push_back(bytes);
        streams_.push_back(stream);
        return pool_.gives ? pool_.gives(bytes) : Result<DevicePointer>(own_.pointer());
      },
      .release =
          [this](DevicePointer address, StreamHandle stream) {
            released_.push_back(address);
            streams_.push_back(stream);
          }};
};

TEST_F(WorkspaceAllocatorTest, IsAskedForTheWorkspaceOnceAndGetsItBackOnTheStream) {
  ASSERT_GT(executable_.workspace_bytes(), 0);
  int64_t launched_at_release = 0;
  const auto release = std::exchange(allocator_.release, {});
  allocator_.release = [&](DevicePointer address, StreamHandle stream) {
    launched_at_release = launches();
    release(address, stream);
  };
  ASSERT_TRUE(execute());
  EXPECT_THAT(asked_, ElementsAre(executable_.workspace_bytes()));
  EXPECT_THAT(released_, ElementsAre(own_.pointer()));
  EXPECT_THAT(streams_, ElementsAre(stream_, stream_));
  EXPECT_EQ(launched_at_release, 2) << "it is given back behind the last launch";
  EXPECT_EQ(calls_, 1);
}

TEST_F(WorkspaceAllocatorTest, IsNotAskedForNothing) {
  executable_ =
      prepare(uncompiled(find_canned_fusion("softmax")->build(), {{"rows", 8}, {"cols", 64}}))
          .value();
  ASSERT_EQ(executable_.workspace_bytes(), 0);
  inputs_ = tensors_of(executable_.compiled().plan.fusion.inputs);
  outputs_ = tensors_of(executable_.compiled().plan.fusion.outputs);
  ASSERT_TRUE(execute());
  EXPECT_EQ(launches(), 1);
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_THAT(released_, IsEmpty());
}

TEST_F(WorkspaceAllocatorTest, IsNotAskedWhereTensorsAreWrong) {
  inputs_.front().type = DType::kF16;
  EXPECT_EQ(execute().error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(asked_, IsEmpty());
  expect_nothing_enqueued();
}

TEST_F(WorkspaceAllocatorTest, OutOfMemoryEndsTheExecutionAndNoMore) {
  pool_.gives = [](int64_t) {
    return fail({.kind = ErrorKind::kResourceExhausted,
                 .message = "the pool is empty",
                 .remedy = "free something",
                 .limit = 100});
  };
  const auto done = execute();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(done.error().message, "the pool is empty");
  EXPECT_EQ(done.error().measured, executable_.workspace_bytes());
  EXPECT_EQ(done.error().limit, 100);
  EXPECT_THAT(released_, IsEmpty());
  expect_nothing_enqueued();
  expect_usable();
}

TEST_F(WorkspaceAllocatorTest, OutOfMemoryOfADeviceSaysHowMuchWasAskedFor) {
  FakeDriver small(*find_device("H200"), 1, 1024);
  const auto context = DeviceContext::retain(small, 0).value();
  const auto current = CurrentContext::enter(small, context).value();
  pool_.gives = [&](int64_t bytes) -> Result<DevicePointer> {
    DevicePointer address = 0;
    const DriverStatus status = small.memory_allocate(&address, static_cast<size_t>(bytes));
    return check(small, DriverCall::kMemoryAllocate, status, "growing the pool").map([&] {
      return address;
    });
  };
  const auto done = execute();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(done.error().measured, executable_.workspace_bytes());
  expect_nothing_enqueued();
}

TEST_F(WorkspaceAllocatorTest, AnyOtherErrorOfItComesBackAsItIs) {
  const Error error{.kind = ErrorKind::kDeviceError, .message = "lost", .remedy = "restart"};
  pool_.gives = [&](int64_t) { return fail(error); };
  EXPECT_EQ(execute().error(), error);
  expect_nothing_enqueued();
  expect_usable();
}

TEST_F(WorkspaceAllocatorTest, AMisalignedAddressIsRefusedAndGivenBack) {
  pool_.gives = [this](int64_t) { return own_.pointer() + 16; };
  const auto done = execute();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(done.error().message, HasSubstr("is not aligned"));
  EXPECT_EQ(done.error().measured, 16);
  EXPECT_EQ(done.error().limit, 256);
  EXPECT_THAT(released_, ElementsAre(own_.pointer() + 16));
  expect_nothing_enqueued();
  expect_usable();
}

TEST_F(WorkspaceAllocatorTest, ANullAddressIsRefused) {
  pool_.gives = [](int64_t) { return DevicePointer{0}; };
  const auto done = execute();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(done.error().message, HasSubstr("null address"));
  EXPECT_THAT(released_, IsEmpty());
  expect_nothing_enqueued();
}

TEST_F(WorkspaceAllocatorTest, ALaunchThatFailsGivesItBack) {
  for (const int64_t launch : {0, 1}) {
    released_.clear();
    driver_.fail_next(DriverCall::kLaunch, DriverStatus::kLaunchOutOfResources, launch);
    EXPECT_EQ(execute().error().kind, ErrorKind::kDeviceError);
    EXPECT_THAT(released_, ElementsAre(own_.pointer()));
  }
  expect_usable();
}

TEST_F(WorkspaceAllocatorTest, ACallThatFailsGivesItBack) {
  call_ = [] {
    return fail({.kind = ErrorKind::kDeviceError, .message = "out of luck", .remedy = "again"});
  };
  EXPECT_EQ(execute().error().message, "out of luck");
  EXPECT_THAT(released_, ElementsAre(own_.pointer()));
  expect_usable();
}

TEST_F(WorkspaceAllocatorTest, ACallThatThrowsGivesItBack) {
  call_ = []() -> Result<void> { throw std::runtime_error("lost"); };
  EXPECT_THROW((void)execute(), std::runtime_error);
  EXPECT_THAT(released_, ElementsAre(own_.pointer()));
  expect_usable();
}

TEST_F(WorkspaceAllocatorTest, BothFunctionsAreNeeded) {
  for (const bool first : {true, false}) {
    WorkspaceAllocator half = allocator_;
    if (first) half.allocate = {};
    if (!first) half.release = {};
    const auto done = executable_.execute(inputs_, outputs_, half, stream_);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(done.error().remedy, "");
  }
  EXPECT_THAT(asked_, IsEmpty());
  expect_nothing_enqueued();
}

}  // namespace sinter::workspace_allocator_test
