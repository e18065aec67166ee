#include "tests/c_api/execution_fixture.h"

#include <bit>

namespace sinter {

void ExecutionTest::SetUp() {
  CApiTest::SetUp();
  // For the test's own allocations; executing needs no current context.
  DeviceOrdinal device = 0;
  ASSERT_EQ(driver_.device_get(&device, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.context_retain(&context_, device), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.context_set_current(context_), DriverStatus::kSuccess);

  runtime_ = runtime_with(driver_);
  const OwnedFusion fusion = parse(kScale);
  const OwnedDevice limits = preset();
  plan_ = plan_on(fusion.get(), limits.get(), {{"rows", kRows}, {"cols", kColumns}});
  sinter_executable* executable = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_executable_prepare(runtime_.get(), plan_.get(), nullptr, &executable, error);
  });
  executable_.reset(executable);
  const auto object = c_api::object_of<c_api::ExecutableObject>(executable);
  const KernelSource& source = object->executable().compiled().kernels.front().source;
  driver_.set_kernel(source.entry, source.buffers.size() + source.params.size(),
                     [this](const LaunchConfig& config, std::span<const uint64_t> arguments) {
                       const std::lock_guard lock(mutex_);
                       ++launches_;
                       stream_ = config.stream;
                       seen_.assign(arguments.begin(), arguments.end());
                     });
  describe(x_, {kRows, kColumns}, {4, 16, 1});
  describe(weight_, {kColumns}, {2, 32, 1});
  describe(y_, {kRows, kColumns}, {4, 16, 1});
  inputs_ = {sinter_tensor{&x_.tensor.dl_tensor, nullptr}, {nullptr, &weight_.tensor}};
  outputs_ = {sinter_tensor{nullptr, &y_.tensor}};
  args_.inputs = inputs_.data();
  args_.input_count = inputs_.size();
  args_.outputs = outputs_.data();
  args_.output_count = outputs_.size();
}

void ExecutionTest::TearDown() {
  executable_.reset();
  plan_.reset();
  runtime_.reset();
  EXPECT_EQ(driver_.context_set_current(nullptr), DriverStatus::kSuccess);
  EXPECT_EQ(driver_.context_release(0), DriverStatus::kSuccess);
  EXPECT_EQ(driver_.live_objects(), 0);
  CApiTest::TearDown();
}

DevicePointer ExecutionTest::allocate(size_t bytes) {
  DevicePointer out = 0;
  EXPECT_EQ(driver_.memory_allocate(&out, bytes), DriverStatus::kSuccess);
  return out;
}

void ExecutionTest::describe(Described& out, std::vector<int64_t> sizes, sinter_dtype type) {
  std::ranges::copy(sizes, out.shape.begin());
  std::ranges::copy(dense_strides(sizes), out.strides.begin());
  const auto bytes = static_cast<size_t>(element_count(sizes)) * type.bits / 8;
  out.tensor.version = {1, 1};
  sinter_dl_tensor& plain = out.tensor.dl_tensor;
  plain.data = std::bit_cast<void*>(allocate(bytes));
  plain.device = {2, 0};
  plain.ndim = static_cast<int32_t>(sizes.size());
  plain.dtype = type;
  plain.shape = out.shape.data();
  plain.strides = out.strides.data();
}

sinter_status ExecutionTest::execute(sinter_error** error) {
  return sinter_executable_execute(executable_.get(), &args_, error);
}

Refusal ExecutionTest::expect_refused(std::string_view message) {
  auto refusal = refused([&](sinter_error** error) { return execute(error); });
  EXPECT_EQ(refusal.message, message);
  EXPECT_EQ(launches_, 0);
  return refusal;
}

}  // namespace sinter
