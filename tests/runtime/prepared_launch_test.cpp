#include "runtime/driver/prepared_launch.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <thread>

#include "runtime/driver/device_context.h"
#include "runtime/execute/loaded_kernel.h"
#include "scheduler/plan/tensor_slots.h"
#include "tests/runtime/allocation_counter.h"
#include "tests/runtime/sample_kernel.h"
#include "tests/support/fake_driver.h"

namespace sinter::prepared_launch_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KernelSource sample_source() {
  KernelSource source;
  source.entry = "sample_0";
  source.buffers = {{.value = ValueId{0}}, {.value = ValueId{1}, .use = BufferUse::kWrite}};
  source.params = {DType::kI64, DType::kI32};
  source.param_values = {1000, 7};
  source.work_param = 0;
  source.work_per_block = 32;
  source.threads = 256;
  source.shared_bytes = 4096;
  source.dynamic_shared = true;
  return source;
}

class PreparedLaunchTest : public ::testing::Test {
 protected:
  [[nodiscard]] Result<PreparedLaunch> prepare(const KernelSource& source) {
    return PreparedLaunch::prepare(driver_, kernel_.function(), source);
  }

  FakeDriver driver_;
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
  LoadedKernel kernel_ = LoadedKernel::load(driver_, sample_kernel(), 4096).value();
};

TEST_F(PreparedLaunchTest, EncodesNoTensorMaps) {
  KernelSource source = sample_source();
  source.tensor_maps.resize(2);
  const auto launch = prepare(source);
  ASSERT_FALSE(launch);
  EXPECT_EQ(launch.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(launch.error().message,
              HasSubstr("launches encode no tensor maps, of which it has 2"));
}

TEST_F(PreparedLaunchTest, MayStartBeforeThePreviousKernelEndsIfItWaitsForItself) {
  std::vector<LaunchAttribute> attributes;
  driver_.set_kernel("sample_0", 4, [&](const LaunchConfig& used, std::span<const uint64_t>) {
    const auto* first = static_cast<const LaunchAttribute*>(used.attributes);
    attributes.assign(first, first + used.attribute_count);
  });
  KernelSource source = sample_source();
  const std::vector<DevicePointer> buffers = {0x1000, 0x2000};
  ASSERT_TRUE(prepare(source)->launch(nullptr, buffers));
  EXPECT_TRUE(attributes.empty());
  source.starts_early = true;
  ASSERT_TRUE(prepare(source)->launch(nullptr, buffers));
  ASSERT_EQ(attributes.size(), 1U);
  EXPECT_EQ(attributes[0].id, kProgrammaticStreamSerialization);
  EXPECT_EQ(attributes[0].value, 1);
}

TEST_F(PreparedLaunchTest, PassesAddressesThenScalars) {
  std::vector<uint64_t> seen;
  LaunchConfig config;
  driver_.set_kernel("sample_0", 4, [&](const LaunchConfig& used, std::span<const uint64_t> given) {
    config = used;
    seen.assign(given.begin(), given.end());
  });
  const auto launch = prepare(sample_source()).value();
  const std::vector<DevicePointer> buffers = {0x1000, 0x2000};
  const auto stream = reinterpret_cast<StreamHandle>(uintptr_t{16});
  ASSERT_TRUE(launch.launch(stream, buffers));
  EXPECT_THAT(seen, ElementsAre(0x1000, 0x2000, 1000, 7));
  EXPECT_EQ(config.grid_x, 32U);  // ceil(1000 / 32)
  EXPECT_EQ(config.grid_y, 1U);
  EXPECT_EQ(config.block_x, 256U);
  EXPECT_EQ(config.dynamic_shared_bytes, 4096U);
  EXPECT_EQ(config.stream, stream);
}

TEST_F(PreparedLaunchTest, MakesOneDriverCallAndNoAllocation) {
  const auto launch = prepare(sample_source()).value();
  const std::vector<DevicePointer> buffers = {0x1000, 0x2000};
  std::array<int64_t, kDriverCallCount> before{};
  for (size_t i = 0; i < before.size(); ++i) before[i] = driver_.calls(static_cast<DriverCall>(i));
  const int64_t allocations = allocation_count();
  for (int i = 0; i < 100; ++i) {
    if (!launch.launch(nullptr, buffers)) FAIL();
  }
  EXPECT_EQ(allocation_count(), allocations);
  before[static_cast<size_t>(DriverCall::kLaunch)] += 100;
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(driver_.calls(static_cast<DriverCall>(i)), before[i])
        << name_of(static_cast<DriverCall>(i));
  }
}

TEST(AllocationCounter, SeesAnAllocation) {
  const int64_t before = allocation_count();
  const auto memory = std::make_unique<int>(1);
  EXPECT_GT(allocation_count(), before);
}

TEST_F(PreparedLaunchTest, ThreadsLaunchAtOnceWithTheirOwnBuffers) {
  std::atomic<uint64_t> sum = 0;
  driver_.set_kernel("sample_0", 4, [&](const LaunchConfig&, std::span<const uint64_t> arguments) {
    // Both addresses of one launch come from one thread.
    EXPECT_EQ(arguments[1], arguments[0] + 1);
    sum += arguments[0];
  });
  const auto launch = prepare(sample_source()).value();
  {
    std::vector<std::jthread> threads;
    for (uint64_t id = 1; id <= 8; ++id) {
      threads.emplace_back([&, id] {
        const auto current = CurrentContext::enter(driver_, context_).value();
        const std::array<DevicePointer, 2> buffers = {id * 16, id * 16 + 1};
        for (int i = 0; i < 200; ++i) EXPECT_TRUE(launch.launch(nullptr, buffers));
      });
    }
  }
  EXPECT_EQ(sum, 200U * 16U * (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8));
}

TEST_F(PreparedLaunchTest, IsCapturedIntoAGraph) {
  std::vector<uint64_t> seen;
  driver_.set_kernel("sample_0", 4, [&](const LaunchConfig&, std::span<const uint64_t> arguments) {
    seen.push_back(arguments[0]);
  });
  const auto launch = prepare(sample_source()).value();
  StreamHandle stream = nullptr;
  ASSERT_EQ(driver_.stream_create(&stream, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.capture_begin(stream, CaptureMode::kGlobal), DriverStatus::kSuccess);
  {
    const std::vector<DevicePointer> buffers = {0x30, 0x40};  // Gone before the graph runs.
    ASSERT_TRUE(launch.launch(stream, buffers));
  }
  GraphHandle graph = nullptr;
  ASSERT_EQ(driver_.capture_end(stream, &graph), DriverStatus::kSuccess);
  EXPECT_TRUE(seen.empty());
  GraphExecHandle executable = nullptr;
  ASSERT_EQ(driver_.graph_instantiate(&executable, graph, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.graph_launch(executable, stream), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.graph_launch(executable, stream), DriverStatus::kSuccess);
  EXPECT_THAT(seen, ElementsAre(0x30, 0x30));
  EXPECT_EQ(driver_.capture_violations(), 0);
}

TEST_F(PreparedLaunchTest, NoWorkLaunchesNothing) {
  KernelSource source = sample_source();
  source.param_values[0] = 0;
  const auto launch = prepare(source).value();
  EXPECT_TRUE(launch.launch(nullptr, std::vector<DevicePointer>{1, 2}));
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
}

TEST_F(PreparedLaunchTest, StaticSharedMemoryIsNotAskedForAtLaunch) {
  KernelSource source = sample_source();
  source.dynamic_shared = false;
  EXPECT_EQ(prepare(source)->config().dynamic_shared_bytes, 0U);
}

TEST_F(PreparedLaunchTest, RejectsTheWrongNumberOfBuffers) {
  const auto launch = prepare(sample_source()).value();
  const auto launched = launch.launch(nullptr, std::vector<DevicePointer>{1});
  ASSERT_FALSE(launched);
  EXPECT_EQ(launched.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(launched.error().measured, 1);
  EXPECT_EQ(launched.error().limit, 2);
}

TEST_F(PreparedLaunchTest, RejectsWhatALaunchCannotCarry) {
  const auto expect_rejected = [&](const KernelSource& source, const char* what, int64_t measured) {
    const auto launch = prepare(source);
    ASSERT_FALSE(launch) << what;
    EXPECT_EQ(launch.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(launch.error().message, HasSubstr(what));
    EXPECT_EQ(launch.error().measured, measured);
  };
  KernelSource source = sample_source();
  source.param_values[1] = int64_t{1} << 31;
  expect_rejected(source, "scalar argument 1", int64_t{1} << 31);

  source = sample_source();
  source.param_values[0] = (int64_t{1} << 31) * 32;
  expect_rejected(source, "number of blocks", int64_t{1} << 31);

  source = sample_source();
  source.threads = 1025;
  expect_rejected(source, "threads per block", 1025);

  source = sample_source();
  source.buffers.resize(kMaxKernelArguments - 1, source.buffers[0]);
  expect_rejected(source, "number of arguments", kMaxKernelArguments + 1);
}

/// The sample with a table of two addresses around an integer.
KernelSource source_with_table() {
  KernelSource source = sample_source();
  source.table = std::vector<std::byte>(24, std::byte{7});
  source.table_entries = {{.tensor = source.buffers[0], .offset = 0},
                          {.tensor = source.buffers[1], .offset = 16}};
  return source;
}

TEST_F(PreparedLaunchTest, PutsAddressesIntoTheTable) {
  const KernelSource source = source_with_table();
  std::vector<uint64_t> table;
  driver_.set_kernel(
      source.entry, source.buffers.size() + source.params.size(),
      [&](const LaunchConfig&, std::span<const uint64_t> arguments) {
        table.resize(3);
        std::memcpy(table.data(), std::bit_cast<const std::byte*>(arguments.back()), 24);
      },
      source.table.size());
  const auto launch = prepare(source).value();
  EXPECT_EQ(launch.buffer_count(), 4U);
  ASSERT_TRUE(launch.launch(nullptr, std::vector<DevicePointer>{1, 2, 3, 4}));
  EXPECT_THAT(table, testing::ElementsAre(3, 0x0707070707070707U, 4));
  // What one launch put there is not in the way of the next.
  ASSERT_TRUE(launch.launch(nullptr, std::vector<DevicePointer>{1, 2, 5, 6}));
  EXPECT_THAT(table, testing::ElementsAre(5, 0x0707070707070707U, 6));
  EXPECT_FALSE(launch.launch(nullptr, std::vector<DevicePointer>{1, 2}));
}

TEST_F(PreparedLaunchTest, RejectsTablesBeyondTheArguments) {
  KernelSource source = source_with_table();
  source.table.resize(32752);
  const auto launch = prepare(source);
  ASSERT_FALSE(launch);
  EXPECT_EQ(launch.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(launch.error().message, HasSubstr("size of the arguments"));
  EXPECT_EQ(launch.error().limit, 32764);
  EXPECT_GT(launch.error().measured, 32764);
}

TEST_F(PreparedLaunchTest, BlocksDoNotOverflowAtTheLargestWork) {
  KernelSource source = sample_source();
  source.param_values[0] = INT64_MAX;
  source.work_per_block = INT64_MAX - 1;
  EXPECT_EQ(blocks_of(source), 2);
}

TEST_F(PreparedLaunchTest, AFailedLaunchIsATypedError) {
  const auto launch = prepare(sample_source()).value();
  driver_.fail_next(DriverCall::kLaunch, DriverStatus::kLaunchOutOfResources);
  const auto launched = launch.launch(nullptr, std::vector<DevicePointer>{1, 2});
  ASSERT_FALSE(launched);
  EXPECT_EQ(launched.error().kind, ErrorKind::kDeviceError);
  EXPECT_THAT(launched.error().message, HasSubstr("cuLaunchKernelEx"));
}

TEST_F(PreparedLaunchTest, WithoutACurrentContextTheRemedyNamesIt) {
  const auto launch = prepare(sample_source()).value();
  std::jthread([&] {
    const auto launched = launch.launch(nullptr, std::vector<DevicePointer>{1, 2});
    ASSERT_FALSE(launched);
    EXPECT_THAT(launched.error().remedy, HasSubstr("make the context current"));
  }).join();
}

}  // namespace sinter::prepared_launch_test
