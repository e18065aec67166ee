// The memory of executions whose last block finishes, or whose blocks exchange messages: right in a
// workspace with any contents, on several streams, from several threads, and when what was captured
// is replayed.

#include <gmock/gmock.h>

#include <bit>
#include <thread>

#include "fusion_ir/parser.h"
#include "runtime/check/host_execution.h"
#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/execute/executable.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"

namespace sinter::zeroed_memory_execution_test {

constexpr std::string_view kDoing = "testing";

/// Memory of one execution at a time: outputs and a workspace.
struct Lane {
  std::vector<DeviceBuffer> outputs;
  std::vector<Tensor> tensors;
  std::optional<DeviceBuffer> workspace;
};

Plan plan_of_last_block() {
  const Schedule schedule{.family = "multi_wave",
                          .parameters = MultiWaveParameters{},
                          .threads_per_row = 64,
                          .rows_per_block = 2,
                          .vector_width = 2,
                          .persistent_blocks = 10,
                          .finish = Finish::kLastBlock};
  return plan(find_canned_fusion("dyt_backward")->build(), {{"rows", 40}, {"cols", 128}},
              *find_device("H200"), {.families = builtin_families(), .pin = {.schedule = schedule}})
      .value();
}

/// Four blocks in two teams, which have three tiles of rows.
Plan plan_of_messages() {
  const Schedule schedule{.family = "matmul",
                          .parameters = MatmulParameters{.tile_rows = 128,
                                                         .tile_columns = 64,
                                                         .tile_depth = 64,
                                                         .row_warps = 8,
                                                         .pipeline_stages = 2,
                                                         .cluster_size = 2,
                                                         .exchange = ExchangeKind::kMessages,
                                                         .consumer_registers = 160,
                                                         .epilogue_warps = 7},
                          .threads_per_row = 256,
                          .vector_width = 2,
                          .persistent_blocks = 4};
  const Fusion fusion = parse_fusion(R"(fusion @rows {
  %v0 x : bf16[300, 16] = input
  %v1 w : bf16[128, 16] = input
  %v2 : f32[300, 128] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 m : f32[300] = reduce.max %v2 over(1)
  %v4 : f32[300, 128] = broadcast %v3 axes(0)
  %v5 y : f32[300, 128] = sub %v2, %v4
  return %v5
})")
                            .value();
  return plan(fusion, {}, *find_device("H200"),
              {.families = builtin_families(),
               .pin = {.schedule = schedule},
               .cutting = Cutting::kNeeded})
      .value();
}

struct Way {
  std::string_view name;
  Plan (*planned)();
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class ZeroedMemoryExecutionTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    Plan planned = GetParam().planned();
    for (const HostTensor& input : sample_inputs(planned.fusion, Binding{}, 1)) {
      inputs_memory_.push_back(DeviceBuffer::allocate(driver_, input.storage().size()).value());
      ASSERT_TRUE(inputs_memory_.back().upload(input.storage()));
      inputs_.push_back({.address = inputs_memory_.back().pointer(),
                         .type = input.type(),
                         .sizes = input.sizes(),
                         .strides = input.strides()});
    }
    auto executable =
        Executable::prepare(interpreted(driver_, std::move(planned), {}), driver_, {});
    ASSERT_TRUE(executable) << executable.error().text();
    executable_.emplace(std::move(*executable));
  }

  /// Memory full of ones: of counters, too.
  Lane lane() {
    Lane out;
    const Fusion& fusion = executable_->compiled().plan.fusion;
    for (const ValueId output : fusion.outputs) {
      const Value& value = fusion.values[output];
      const Sizes sizes = Binding{}.sizes_of(value.shape);
      out.outputs.push_back(
          DeviceBuffer::allocate(driver_,
                                 static_cast<size_t>(element_count(sizes) * bytes_of(value.type)))
              .value());
      out.tensors.push_back(
          {.address = out.outputs.back().pointer(), .type = value.type, .sizes = sizes});
    }
    out.workspace.emplace(
        DeviceBuffer::allocate(driver_, static_cast<size_t>(executable_->workspace_bytes()))
            .value());
    poison(out);
    return out;
  }
  static void poison(Lane& lane) {
    for (DeviceBuffer& output : lane.outputs)
      EXPECT_TRUE(output.upload(std::vector<std::byte>(output.bytes(), std::byte{0xff})));
    EXPECT_TRUE(
        lane.workspace->upload(std::vector<std::byte>(lane.workspace->bytes(), std::byte{0xff})));
  }
  Result<void> execute(const Lane& lane, StreamHandle stream = nullptr) const {
    return executable_->execute(inputs_, lane.tensors, lane.workspace->pointer(),
                                static_cast<int64_t>(lane.workspace->bytes()), stream);
  }
  static std::vector<std::byte> results(const Lane& lane) {
    std::vector<std::byte> out;
    for (const DeviceBuffer& output : lane.outputs) {
      std::vector<std::byte> bytes(output.bytes());
      EXPECT_TRUE(output.download(bytes));
      out.insert(out.end(), bytes.begin(), bytes.end());
    }
    return out;
  }
  /// What a first execution computes; interpreted kernels answer for the rest
  /// (last_block_finish_test).
  std::vector<std::byte> expected() {
    first_.emplace(lane());
    EXPECT_TRUE(execute(*first_));
    return results(*first_);
  }

  FakeDriver driver_{*find_device("H200")};
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
  std::vector<DeviceBuffer> inputs_memory_;
  std::vector<Tensor> inputs_;
  std::optional<Executable> executable_;
  std::optional<Lane> first_;  ///< Kept, so that no other one gets its workspace's address.
};

TEST_P(ZeroedMemoryExecutionTest, OneLaunchFinishesWhateverTheWorkspaceHolds) {
  const std::vector<std::byte> right = expected();
  Lane own = lane();
  const int64_t launches = driver_.calls(DriverCall::kLaunch);
  const int64_t fills = driver_.calls(DriverCall::kFillAsync);
  for (int i = 0; i < 3; ++i) {
    poison(own);
    ASSERT_TRUE(execute(own));
    EXPECT_EQ(results(own), right);
  }
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), launches + 3);
  EXPECT_EQ(driver_.calls(DriverCall::kFillAsync), fills) << "counters are zero already";
}

TEST_P(ZeroedMemoryExecutionTest, WorkspacesBeyondTheCountersZeroTheirOwn) {
  const std::vector<std::byte> right = expected();
  std::vector<Lane> lanes;
  for (size_t i = 0; i < ZeroedMemory::kWorkspaces + 4; ++i) lanes.push_back(lane());
  const int64_t fills = driver_.calls(DriverCall::kFillAsync);
  for (const Lane& own : lanes) {
    ASSERT_TRUE(execute(own));
    EXPECT_EQ(results(own), right);
  }
  // The first execution of all had counters too.
  EXPECT_EQ(driver_.calls(DriverCall::kFillAsync), fills + 5);
  poison(lanes.back());
  ASSERT_TRUE(execute(lanes.back()));
  EXPECT_EQ(results(lanes.back()), right);
}

TEST_P(ZeroedMemoryExecutionTest, CapturedExecutionsReplayAndMixWithOthers) {
  const std::vector<std::byte> right = expected();
  const OwnStream stream = OwnStream::create(driver_, kDoing).value();
  const OwnStream other = OwnStream::create(driver_, kDoing).value();
  std::vector<Lane> lanes;
  for (size_t i = 0; i < ZeroedMemory::kWorkspaces + 1; ++i) lanes.push_back(lane());
  for (const Lane& own : lanes) ASSERT_TRUE(execute(own));
  // With counters of the executable, and with some in the workspace.
  for (Lane* own : {&lanes.front(), &lanes.back()}) {
    const CapturedLaunch graph =
        CapturedLaunch::capture(
            driver_, stream.handle(), [&](StreamHandle on) { return execute(*own, on); }, kDoing)
            .value();
    EXPECT_EQ(driver_.capture_violations(), 0);
    for (const StreamHandle on : {stream.handle(), other.handle(), stream.handle()}) {
      poison(*own);
      ASSERT_TRUE(graph.replay(on, kDoing));
      EXPECT_EQ(results(*own), right);
      poison(*own);
      ASSERT_TRUE(execute(*own, other.handle()));
      EXPECT_EQ(results(*own), right);
    }
  }
}

TEST_P(ZeroedMemoryExecutionTest, ThreadsHaveWorkspacesAndSoCountersOfTheirOwn) {
  const std::vector<std::byte> right = expected();
  constexpr size_t kThreads = 4;
  std::vector<Lane> lanes;
  for (size_t i = 0; i < kThreads; ++i) lanes.push_back(lane());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const auto current = CurrentContext::enter(driver_, context_).value();
        for (int again = 0; again < 5; ++again) EXPECT_TRUE(execute(lanes[i]));
      });
    }
  }
  for (const Lane& own : lanes) EXPECT_EQ(results(own), right);
}

TEST_P(ZeroedMemoryExecutionTest, ARefusedLaunchLeavesTheCountersAsTheyWere) {
  const std::vector<std::byte> right = expected();
  Lane own = lane();
  driver_.fail_next(DriverCall::kLaunch, DriverStatus::kLaunchOutOfResources);
  EXPECT_FALSE(execute(own));
  poison(own);
  ASSERT_TRUE(execute(own));
  EXPECT_EQ(results(own), right);
}

TEST_P(ZeroedMemoryExecutionTest, AnotherExecutableGoesWithItsCounters) {
  const std::vector<std::byte> right = expected();
  const Lane own = lane();
  const int64_t before = driver_.allocated_bytes();
  {
    Plan planned = executable_->compiled().plan;
    const Executable another =
        Executable::prepare(interpreted(driver_, std::move(planned), {}), driver_, {}).value();
    EXPECT_GT(driver_.allocated_bytes(), before);
    ASSERT_TRUE(another.execute(inputs_, own.tensors, own.workspace->pointer(),
                                static_cast<int64_t>(own.workspace->bytes()), nullptr));
    EXPECT_EQ(results(own), right);
  }
  EXPECT_EQ(driver_.allocated_bytes(), before);
  ASSERT_TRUE(execute(own));
  EXPECT_EQ(results(own), right);
}

INSTANTIATE_TEST_SUITE_P(Ways, ZeroedMemoryExecutionTest,
                         ::testing::Values(Way{"last_block", plan_of_last_block},
                                           Way{"messages", plan_of_messages}),
                         [](const auto& param) { return std::string(param.param.name); });

// A device with fewer SMs than the plan was made for.
TEST(MessageExecutionTest, BlocksThatDoNotRunTogetherAreRefused) {
  DeviceLimits limits = *find_device("H200");
  limits.sm_count = 1;
  FakeDriver driver{limits};
  const DeviceContext context = DeviceContext::retain(driver, 0).value();
  const CurrentContext current = CurrentContext::enter(driver, context).value();
  const auto executable =
      Executable::prepare(interpreted(driver, plan_of_messages(), {}), driver, {});
  ASSERT_FALSE(executable);
  EXPECT_EQ(executable.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(executable.error().message, testing::HasSubstr("wait for each other"));
  EXPECT_EQ(executable.error().measured, 4);
  EXPECT_LT(executable.error().limit.value_or(4), 4);
}

}  // namespace sinter::zeroed_memory_execution_test
