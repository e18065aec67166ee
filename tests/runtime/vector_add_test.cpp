#include <gmock/gmock.h>

#include <vector>

#include "runtime/compile/compile_kernel.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_context.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/driver/event_timer.h"
#include "runtime/driver/prepared_launch.h"
#include "runtime/execute/loaded_kernel.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter::vector_add_test {

constexpr int64_t kElements = 100'003;

KernelSource vector_add() {
  KernelSource source;
  source.entry = "vector_add";
  source.text = R"(
extern "C" __global__ void __launch_bounds__(128) vector_add(const float* a, const float* b,
                                                             float* sum, long long count) {
  extern __shared__ float tile[];
  long long i = blockIdx.x * 128LL + threadIdx.x;
  tile[threadIdx.x] = i < count ? a[i] + b[i] : 0.0f;
  __syncthreads();
  if (i < count) sum[i] = tile[threadIdx.x];
}
)";
  source.buffers = {{.value = ValueId{0}},
                    {.value = ValueId{1}},
                    {.value = ValueId{2}, .use = BufferUse::kWrite}};
  source.params = {DType::kI64};
  source.param_values = {kElements};
  source.work_per_block = 128;
  source.threads = 128;
  source.shared_bytes = 60 * 1024;  // Beyond what a launch may take unasked.
  source.dynamic_shared = true;
  return source;
}

class VectorAddGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!driver_) GTEST_SKIP() << "no GPU: " << driver_.error().message;
    if (!compiler_) GTEST_SKIP() << "no NVRTC: " << compiler_.error().message;
    ASSERT_TRUE(limits_) << limits_.error().text();
    auto context = DeviceContext::retain(**driver_, 0);
    ASSERT_TRUE(context) << context.error().text();
    context_.emplace(std::move(*context));
    current_.emplace(CurrentContext::enter(**driver_, *context_).value());
  }

  [[nodiscard]] DeviceDriver& driver() { return **driver_; }

  Result<DeviceDriver*> driver_ = cuda_driver();
  Result<NvrtcCompiler> compiler_ = NvrtcCompiler::open();
  Result<DeviceLimits> limits_ =
      driver_.and_then([](DeviceDriver* driver) { return query_device(*driver, 0); });
  std::optional<DeviceContext> context_;
  std::optional<CurrentContext> current_;
};

TEST_F(VectorAddGpu, CompilesLoadsRunsAndIsCaptured) {
  const KernelSource source = vector_add();
  KernelCache cache({});
  const auto architecture = Architecture::parse(architecture_of(*limits_)).value();
  const auto compiled = compile_kernel(*compiler_, cache, source, architecture);
  ASSERT_TRUE(compiled) << compiled.error().text();
  const auto kernel = LoadedKernel::load(driver(), *compiled->kernel, source.shared_bytes);
  ASSERT_TRUE(kernel) << kernel.error().text();
  int registers = 0;
  ASSERT_EQ(driver().function_get(&registers, FunctionProperty::kRegisters, kernel->function()),
            DriverStatus::kSuccess);
  EXPECT_EQ(registers, compiled->kernel->resources.registers);
  const auto launch = PreparedLaunch::prepare(driver(), kernel->function(), source).value();

  std::vector<float> a(kElements);
  std::vector<float> b(kElements);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 1000);
    b[i] = static_cast<float>(i % 77) * 0.5F;
  }
  auto device_a = DeviceBuffer::allocate(driver(), a.size() * sizeof(float)).value();
  auto device_b = DeviceBuffer::allocate(driver(), a.size() * sizeof(float)).value();
  auto device_sum = DeviceBuffer::allocate(driver(), a.size() * sizeof(float)).value();
  ASSERT_TRUE(device_a.upload(std::as_bytes(std::span(a))));
  ASSERT_TRUE(device_b.upload(std::as_bytes(std::span(b))));
  EXPECT_EQ(device_of(driver(), device_a.pointer(), "a").value(), 0);
  EXPECT_FALSE(device_of(driver(), reinterpret_cast<uintptr_t>(a.data()), "a"));
  const std::array<DevicePointer, 3> buffers = {device_a.pointer(), device_b.pointer(),
                                                device_sum.pointer()};
  const auto expect_sum = [&] {
    std::vector<float> sum(a.size(), -1.0F);
    ASSERT_TRUE(device_sum.download(std::as_writable_bytes(std::span(sum))));
    // Small multiples of a half add exactly.
    for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], a[i] + b[i]) << i;
  };
  ASSERT_TRUE(launch.launch(nullptr, buffers));
  expect_sum();

  const auto timing = time_launches(driver(), context_->device(), nullptr,
                                    [&](StreamHandle s) { return launch.launch(s, buffers); });
  ASSERT_TRUE(timing) << timing.error().text();
  // Moving 1.2 MB cannot beat the memory's bandwidth with a cold L2, nor take a millisecond.
  EXPECT_GT(timing->median_us, 3.0 * kElements * 4 / limits_->memory_bytes_per_us);
  EXPECT_LT(timing->median_us, 1000.0);

  StreamHandle stream = nullptr;
  GraphHandle graph = nullptr;
  GraphExecHandle executable = nullptr;
  ASSERT_EQ(driver().stream_create(&stream, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver().fill_async(device_sum.pointer(), 0xff, device_sum.bytes(), nullptr),
            DriverStatus::kSuccess);
  ASSERT_EQ(driver().context_synchronize(), DriverStatus::kSuccess);
  ASSERT_EQ(driver().capture_begin(stream, CaptureMode::kGlobal), DriverStatus::kSuccess);
  ASSERT_TRUE(launch.launch(stream, buffers));
  ASSERT_EQ(driver().capture_end(stream, &graph), DriverStatus::kSuccess);
  ASSERT_EQ(driver().graph_instantiate(&executable, graph, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver().graph_launch(executable, stream), DriverStatus::kSuccess);
  ASSERT_EQ(driver().stream_synchronize(stream), DriverStatus::kSuccess);
  expect_sum();
  EXPECT_EQ(driver().graph_exec_destroy(executable), DriverStatus::kSuccess);
  EXPECT_EQ(driver().graph_destroy(graph), DriverStatus::kSuccess);
  EXPECT_EQ(driver().stream_destroy(stream), DriverStatus::kSuccess);
}

TEST_F(VectorAddGpu, RejectsACubinForAnotherGeneration) {
  const Architecture other = {.major = limits_->compute_major == 8 ? 9 : 8, .minor = 0};
  const auto compiled = compiler_->compile(vector_add(), other);
  ASSERT_TRUE(compiled) << compiled.error().text();
  const auto kernel = LoadedKernel::load(driver(), *compiled, 0);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().kind, ErrorKind::kDeviceError);
  EXPECT_THAT(kernel.error().remedy, ::testing::HasSubstr("architecture of this device"));
}

}  // namespace sinter::vector_add_test
