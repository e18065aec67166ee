#include <array>
#include <bit>
#include <fstream>
#include <iterator>

#include "fusion_ir/parser.h"
#include "runtime/c_api/dlpack.h"
#include "runtime/device_buffer.h"
#include "runtime/driver_api.h"
#include "runtime/nvrtc_compiler.h"
#include "runtime/oracle/comparison.h"
#include "runtime/oracle/oracle.h"
#include "tests/c_api/c_api_support.h"

namespace sinter {
namespace {

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

TEST_F(CApiGpu, ComputesTheOraclesSoftmax) {
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
  const HostTensor x = HostTensor::random(DType::kBF16, {kRows, kColumns});
  HostTensor y = HostTensor::poisoned(DType::kBF16, {kRows, kColumns});
  DeviceTensor device_x(**driver, x);
  DeviceTensor device_y(**driver, y);
  const sinter_tensor input{&device_x.tensor, nullptr};
  const sinter_tensor output{&device_y.tensor, nullptr};
  auto info = sized<sinter_executable_info>();
  succeeds(
      [&](sinter_error** error) { return sinter_executable_describe(executable, &info, error); });
  const auto workspace =
      DeviceBuffer::allocate(**driver,
                             static_cast<size_t>(std::max<int64_t>(info.workspace_bytes, 256)))
          .value();
  auto args = sized<sinter_execute_args>();
  args.inputs = &input;
  args.input_count = 1;
  args.outputs = &output;
  args.output_count = 1;
  args.workspace = std::bit_cast<void*>(workspace.pointer());
  args.workspace_bytes = info.workspace_bytes;
  succeeds(
      [&](sinter_error** error) { return sinter_executable_execute(executable, &args, error); });
  ASSERT_EQ((*driver)->context_synchronize(), DriverStatus::kSuccess);
  ASSERT_EQ(
      (*driver)->copy_to_host(y.storage().data(), device_y.memory.pointer(), y.storage().size()),
      DriverStatus::kSuccess);

  const Fusion graph = parse_fusion(text).value();
  const Binding binding = bind_extents(graph, {{"rows", kRows}, {"cols", kColumns}}).value();
  const OracleResult expected = evaluate(graph, binding, {&x, 1});
  const auto mismatch = compare(expected, 0, y);
  EXPECT_FALSE(mismatch) << mismatch->text();
}

}  // namespace
}  // namespace sinter
