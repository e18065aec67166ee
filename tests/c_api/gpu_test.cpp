#include <array>
#include <bit>
#include <deque>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "fusion_ir/parser.h"
#include "runtime/c_api/dlpack.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/driver/driver_api.h"
#include "runtime/oracle/comparison.h"
#include "runtime/oracle/oracle.h"
#include "tests/c_api/c_api_support.h"

namespace sinter::gpu_test {

constexpr int64_t kRows = 333;
constexpr int64_t kColumns = 4096;

class CApiGpu : public CApiTest {};

/// A dense tensor in device memory, as DLPack describes it.
struct DeviceTensor {
  DeviceTensor(DeviceDriver& driver, const HostTensor& host)
      : memory(DeviceBuffer::allocate(driver, host.storage().size()).value()), sizes(host.sizes()) {
    EXPECT_EQ(driver.copy_to_device(memory.pointer(), host.storage().data(), host.storage().size()),
              DriverStatus::kSuccess);
    tensor.data = std::bit_cast<void*>(memory.pointer());
    tensor.device = {2, 0};
    tensor.ndim = static_cast<int32_t>(sizes.size());
    tensor.dtype = c_api::dlpack_type(host.type());
    tensor.shape = sizes.data();
  }
  DeviceBuffer memory;
  Sizes sizes;
  sinter_dl_tensor tensor{};
};

TEST_F(CApiGpu, ComputesTheOraclesSoftmaxFromTwoThreadsWithOneHandle) {
  const auto driver = cuda_driver();
  if (!driver) GTEST_SKIP() << "no GPU: " << driver.error().message;
  if (const auto compiler = NvrtcCompiler::open(); !compiler)
    GTEST_SKIP() << "no NVRTC: " << compiler.error().message;

  std::ifstream file(SINTER_TEST_DATA_DIR "/../examples/softmax.fir");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const OwnedFusion fusion = parse(text);
  auto runtime_options = sized<sinter_runtime_options>();
  runtime_options.cache_directory = "";
  sinter_runtime* runtime = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_runtime_create(&runtime_options, &runtime, error);
  });
  const OwnedRuntime owned_runtime(runtime);
  sinter_device* device = nullptr;
  succeeds([&](sinter_error** error) { return sinter_device_query(runtime, 0, &device, error); });
  const OwnedDevice owned_device(device);
  const OwnedPlan plan = plan_on(fusion.get(), device, {{"rows", kRows}, {"cols", kColumns}});
  sinter_executable* executable = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_executable_prepare(runtime, plan.get(), nullptr, &executable, error);
  });
  const OwnedExecutable owned_executable(executable);

  const auto context = DeviceContext::retain(**driver, 0).value();
  const auto current = CurrentContext::enter(**driver, context).value();
  auto info = sized<sinter_executable_info>();
  succeeds(
      [&](sinter_error** error) { return sinter_executable_describe(executable, &info, error); });
  const Fusion graph = parse_fusion(text).value();
  const Binding binding = bind_extents(graph, {{"rows", kRows}, {"cols", kColumns}}).value();
  // What one thread executes: all its own but for the handle.
  struct Lane {
    Lane(DeviceDriver& driver, const sinter_executable_info& info, uint64_t seed)
        : x(HostTensor::random(DType::kBF16, {kRows, kColumns}, {.seed = seed})),
          y(HostTensor::poisoned(DType::kBF16, {kRows, kColumns})),
          device_x(driver, x),
          device_y(driver, y),
          workspace(DeviceBuffer::allocate(
                        driver, static_cast<size_t>(std::max<int64_t>(info.workspace_bytes, 256)))
                        .value()),
          stream(OwnStream::create(driver, "testing").value()) {
      input = {&device_x.tensor, nullptr};
      output = {&device_y.tensor, nullptr};
      args.inputs = &input;
      args.input_count = 1;
      args.outputs = &output;
      args.output_count = 1;
      args.stream = stream.handle();
      args.workspace = std::bit_cast<void*>(workspace.pointer());
      args.workspace_bytes = info.workspace_bytes;
    }
    HostTensor x, y;
    DeviceTensor device_x, device_y;
    DeviceBuffer workspace;
    OwnStream stream;
    sinter_tensor input{}, output{};
    sinter_execute_args args = sized<sinter_execute_args>();
  };
  std::deque<Lane> lanes;
  for (const uint64_t seed : {1U, 2U}) lanes.emplace_back(**driver, info, seed);
  std::vector<std::thread> threads;
  for (Lane& lane : lanes) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        succeeds([&](sinter_error** error) {
          return sinter_executable_execute(executable, &lane.args, error);
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ((*driver)->context_synchronize(), DriverStatus::kSuccess);
  for (Lane& lane : lanes) {
    ASSERT_EQ((*driver)->copy_to_host(lane.y.storage().data(), lane.device_y.memory.pointer(),
                                      lane.y.storage().size()),
              DriverStatus::kSuccess);
    const auto mismatch = compare(evaluate(graph, binding, {&lane.x, 1}), 0, lane.y);
    EXPECT_FALSE(mismatch) << mismatch->text();
  }
}

}  // namespace sinter::gpu_test
