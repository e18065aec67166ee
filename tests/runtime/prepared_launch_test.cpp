#include "runtime/driver/prepared_launch.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <thread>

#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_context.h"
#include "runtime/execute/loaded_kernel.h"
#include "scheduler/plan/tensor_slots.h"
#include "tests/runtime/allocation_counter.h"
#include "tests/runtime/sample_kernel.h"
#include "tests/support/fake_driver.h"

namespace sinter::prepared_launch_test {

using ::testing::AllOf;
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
  ASSERT_TRUE(prepare(source)->launch(nullptr, buffers, false));
  EXPECT_TRUE(attributes.empty()) << "where what is ahead on the stream must have ended";
  EXPECT_EQ(attributes[0].value, 1);
}

TEST_F(PreparedLaunchTest, BlocksThatWaitForEachOtherAreLaunchedTogether) {
  std::vector<LaunchAttribute> attributes;
  uint32_t blocks = 0;
  driver_.set_kernel("sample_0", 4, [&](const LaunchConfig& used, std::span<const uint64_t>) {
    const auto* first = static_cast<const LaunchAttribute*>(used.attributes);
    attributes.assign(first, first + used.attribute_count);
    blocks = used.grid_x;
  });
  KernelSource source = sample_source();
  const int64_t teams = blocks_of(source);
  source.team_size = 4;
  ASSERT_TRUE(prepare(source)->launch(nullptr, std::vector<DevicePointer>{0x1000, 0x2000}));
  EXPECT_EQ(blocks, 4 * teams) << "work is that of teams";
  ASSERT_EQ(attributes.size(), 1U);
  EXPECT_EQ(attributes[0].id, kCooperative);
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

/// The sample with a table and two tensor maps, the first of the second buffer.
KernelSource source_with_maps() {
  KernelSource source = source_with_table();
  source.tensor_maps = {{.name = "second",
                         .buffer = 1,
                         .axes = {{.size = 100, .stride_bytes = 4, .box = 32},
                                  {.launched = 1, .stride_bytes = 400, .box = 8}}},
                        {.name = "first", .axes = {{.size = 8, .stride_bytes = 4, .box = 4}}}};
  return source;
}

FakeTensorMap map_at(uint64_t address) {
  return std::bit_cast<FakeTensorMap>(*std::bit_cast<const EncodedTensorMap*>(address));
}

TEST_F(PreparedLaunchTest, PassesTensorMapsBehindAllOtherArguments) {
  const KernelSource source = source_with_maps();
  std::vector<uint64_t> seen;
  std::vector<FakeTensorMap> maps;
  driver_.set_kernel(
      source.entry, source.buffers.size() + source.params.size(),
      [&](const LaunchConfig&, std::span<const uint64_t> arguments) {
        ASSERT_EQ(arguments.size(), 7U);
        seen.assign(arguments.begin(), arguments.begin() + 4);
        seen.push_back(*std::bit_cast<const uint64_t*>(arguments[4]));
        maps = {map_at(arguments[5]), map_at(arguments[6])};
      },
      source.table.size(), source.tensor_maps.size());
  const auto launch = prepare(source).value();
  EXPECT_EQ(launch.buffer_count(), 4U);
  // What one launch encodes is not in the way of the next.
  for (const uint64_t at : {0x10000U, 0x20000U}) {
    const auto launched =
        launch.launch(nullptr, std::vector<DevicePointer>{at, at + 0x1000, at + 3, at + 4});
    ASSERT_TRUE(launched) << launched.error().text();
    EXPECT_THAT(seen, ElementsAre(at, at + 0x1000, 1000, 7, at + 3));
    EXPECT_EQ(maps[0].address, at + 0x1000);
    EXPECT_THAT(maps[0].sizes, ElementsAre(100, 7, 0, 0, 0));
    EXPECT_EQ(maps[1].address, at);
    EXPECT_THAT(maps[1].sizes, ElementsAre(8, 0, 0, 0, 0));
  }
}

TEST_F(PreparedLaunchTest, EncodesTensorMapsWithoutAnAllocation) {
  const auto launch = prepare(source_with_maps()).value();
  const std::vector<DevicePointer> buffers = {0x1000, 0x2000, 3, 4};
  const int64_t allocations = allocation_count();
  for (int i = 0; i < 100; ++i) {
    if (!launch.launch(nullptr, buffers)) FAIL();
  }
  EXPECT_EQ(allocation_count(), allocations);
  EXPECT_EQ(driver_.calls(DriverCall::kTensorMapEncode), 200);
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 100);
}

TEST_F(PreparedLaunchTest, ThreadsEncodeTheirOwnTensorMaps) {
  KernelSource source = source_with_maps();
  source.table.clear();
  source.table_entries.clear();
  driver_.set_kernel(
      source.entry, 4,
      [&](const LaunchConfig&, std::span<const uint64_t> arguments) {
        EXPECT_EQ(map_at(arguments[4]).address, arguments[1]);
        EXPECT_EQ(map_at(arguments[5]).address, arguments[0]);
      },
      0, 2);
  const auto launch = prepare(source).value();
  std::vector<std::jthread> threads;
  for (uint64_t id = 1; id <= 8; ++id) {
    threads.emplace_back([&, id] {
      const auto current = CurrentContext::enter(driver_, context_).value();
      const std::array<DevicePointer, 2> buffers = {id * 32, id * 32 + 16};
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(launch.launch(nullptr, buffers));
    });
  }
}

TEST_F(PreparedLaunchTest, TensorMapsAreCapturedIntoAGraph) {
  const KernelSource source = source_with_maps();
  std::vector<DevicePointer> seen;
  driver_.set_kernel(
      source.entry, 4,
      [&](const LaunchConfig&, std::span<const uint64_t> arguments) {
        seen.push_back(map_at(arguments[5]).address);
      },
      source.table.size(), source.tensor_maps.size());
  const auto launch = prepare(source).value();
  const OwnStream stream = OwnStream::create(driver_, "testing").value();
  const auto captured = CapturedLaunch::capture(
      driver_, stream.handle(),
      [&](StreamHandle into) {
        return launch.launch(into, std::vector<DevicePointer>{0x1000, 0x2000, 3, 4});
      },
      "testing");
  ASSERT_TRUE(captured) << captured.error().text();
  EXPECT_TRUE(seen.empty());
  ASSERT_TRUE(captured->replay(stream.handle(), "testing"));
  ASSERT_TRUE(captured->replay(stream.handle(), "testing"));
  EXPECT_THAT(seen, ElementsAre(0x2000, 0x2000));
  EXPECT_EQ(driver_.capture_violations(), 0);
}

TEST_F(PreparedLaunchTest, RefusesTensorMapsWhereTheDriverLacksThem) {
  driver_.remove(DriverCall::kTensorMapEncode);
  const auto launch = prepare(source_with_maps());
  ASSERT_FALSE(launch);
  EXPECT_EQ(launch.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(launch.error().message,
              AllOf(HasSubstr("sample_0"), HasSubstr("the driver lacks cuTensorMapEncodeTiled")));
  EXPECT_THAT(launch.error().remedy, HasSubstr("CUDA 12.0"));
  EXPECT_TRUE(prepare(source_with_table()));
}

TEST_F(PreparedLaunchTest, TensorsMayBeEmptyWithoutWork) {
  KernelSource source = source_with_maps();
  source.param_values[1] = 0;
  const auto launch = prepare(source);
  ASSERT_FALSE(launch);
  EXPECT_EQ(launch.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(launch.error().message, HasSubstr("axis 1 of tensor map second has 0 elements"));
  source.param_values[0] = 0;
  const auto empty = prepare(source);
  ASSERT_TRUE(empty) << empty.error().text();
  EXPECT_TRUE(empty->launch(nullptr, std::vector<DevicePointer>{0, 0, 0, 0}));
  EXPECT_EQ(driver_.calls(DriverCall::kTensorMapEncode), 0);
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
}

TEST_F(PreparedLaunchTest, LaunchesNothingWithAnUnalignedTensor) {
  const auto launch = prepare(source_with_maps()).value();
  const auto launched = launch.launch(nullptr, std::vector<DevicePointer>{0x1000, 0x2008, 3, 4});
  ASSERT_FALSE(launched);
  EXPECT_EQ(launched.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(launched.error().measured, 8);
  EXPECT_EQ(launched.error().limit, 16);
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
}

/// Each map is an argument, of 128 bytes at a multiple of 64.
TEST_F(PreparedLaunchTest, TensorMapsCountAmongTheArguments) {
  KernelSource source = source_with_maps();
  source.tensor_maps.resize(kMaxKernelArguments - 5, source.tensor_maps[0]);
  EXPECT_TRUE(prepare(source));
  source.tensor_maps.push_back(source.tensor_maps[0]);
  const auto one_too_many = prepare(source);
  ASSERT_FALSE(one_too_many);
  EXPECT_THAT(one_too_many.error().message, HasSubstr("number of arguments"));
  EXPECT_EQ(one_too_many.error().measured, static_cast<int64_t>(kMaxKernelArguments) + 1);

  source.tensor_maps.resize(100);
  source.table.resize(32764 / 64 * 64 - 100 * 128 - 4 * 8);
  EXPECT_TRUE(prepare(source));
  source.table.resize(source.table.size() + 8);
  const auto too_large = prepare(source);
  ASSERT_FALSE(too_large);
  EXPECT_THAT(too_large.error().message, HasSubstr("size of the arguments"));
  EXPECT_EQ(too_large.error().measured, 32768);
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
