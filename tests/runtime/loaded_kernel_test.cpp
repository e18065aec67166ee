#include "runtime/execute/loaded_kernel.h"

#include <gmock/gmock.h>

#include <array>
#include <cstddef>
#include <memory>
#include <new>

#include "runtime/driver/device_context.h"
#include "tests/runtime/sample_kernel.h"
#include "tests/support/fake_driver.h"

namespace sinter::loaded_kernel_test {

using ::testing::HasSubstr;

class LoadedKernelTest : public ::testing::Test {
 protected:
  FakeDriver driver_;
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
};

TEST_F(LoadedKernelTest, UnloadsOnceWhoeverOwnsItLast) {
  {
    auto kernel = LoadedKernel::load(driver_, sample_kernel(), 0).value();
    LoadedKernel moved = std::move(kernel);
    EXPECT_NE(moved.function(), nullptr);
    LoadedKernel assigned = LoadedKernel::load(driver_, sample_kernel(1), 0).value();
    assigned = std::move(moved);
  }
  EXPECT_EQ(driver_.calls(DriverCall::kModuleLoad), 2);
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 2);
}

TEST_F(LoadedKernelTest, IsSharedAsLongAsItLives) {
  LoadedKernels kernels;
  const auto compiled = std::make_shared<const CompiledKernel>(sample_kernel());
  const auto twin = std::make_shared<const CompiledKernel>(sample_kernel());
  LoadedKernelPtr first = kernels.load(driver_, compiled, 0).value();
  EXPECT_EQ(kernels.load(driver_, compiled, 0).value(), first);
  EXPECT_NE(kernels.load(driver_, twin, 0).value(), first);
  EXPECT_EQ(driver_.calls(DriverCall::kModuleLoad), 2);
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 1) << "nobody holds the twin";
  first.reset();
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 2);
  ASSERT_TRUE(kernels.load(driver_, compiled, 0));
  EXPECT_EQ(driver_.calls(DriverCall::kModuleLoad), 3);
}

/// The entry of a kernel that is gone stays while somebody holds what was loaded of it.
TEST_F(LoadedKernelTest, AKernelAtTheAddressOfOneThatIsGoneIsLoaded) {
  LoadedKernels kernels;
  alignas(CompiledKernel) std::array<std::byte, sizeof(CompiledKernel)> memory{};
  const auto at_one_address = [&](int seed) {
    return CompiledKernelPtr(
        new (memory.data()) CompiledKernel(sample_kernel(seed)),
        [](const CompiledKernel* kernel) { std::destroy_at(const_cast<CompiledKernel*>(kernel)); });
  };
  CompiledKernelPtr compiled = at_one_address(0);
  const CompiledKernel* address = compiled.get();
  const LoadedKernelPtr first = kernels.load(driver_, compiled, 0).value();
  compiled.reset();
  compiled = at_one_address(1);
  ASSERT_EQ(compiled.get(), address);
  const LoadedKernelPtr second = kernels.load(driver_, compiled, 0).value();
  EXPECT_NE(second, first);
  EXPECT_EQ(driver_.calls(DriverCall::kModuleLoad), 2);
}

TEST_F(LoadedKernelTest, WhatCouldNotBeLoadedIsTriedAgain) {
  LoadedKernels kernels;
  const auto compiled = std::make_shared<const CompiledKernel>(sample_kernel());
  driver_.fail_next(DriverCall::kModuleLoad, DriverStatus::kInvalidValue);
  EXPECT_FALSE(kernels.load(driver_, compiled, 0));
  EXPECT_TRUE(kernels.load(driver_, compiled, 0));
}

TEST_F(LoadedKernelTest, OptsInToMoreThan48KiBOnly) {
  CompiledKernel plain = sample_kernel();
  plain.resources.shared_bytes = 0;
  const auto small = LoadedKernel::load(driver_, plain, 48 * 1024);
  EXPECT_EQ(driver_.calls(DriverCall::kFunctionSet), 0);
  const auto large = LoadedKernel::load(driver_, plain, 48 * 1024 + 16);
  EXPECT_EQ(driver_.calls(DriverCall::kFunctionSet), 1);
  EXPECT_EQ(driver_.function_property("sample_0", FunctionProperty::kMaxDynamicSharedBytes),
            48 * 1024 + 16);
}

TEST_F(LoadedKernelTest, AllowsClustersBeyondWhatEveryDeviceRunsOnly) {
  CompiledKernel plain = sample_kernel();
  plain.resources.shared_bytes = 0;
  const auto portable = LoadedKernel::load(driver_, plain, 0, 8);
  EXPECT_EQ(driver_.calls(DriverCall::kFunctionSet), 0);
  const auto wide = LoadedKernel::load(driver_, plain, 0, 16);
  EXPECT_EQ(driver_.function_property("sample_0", FunctionProperty::kNonPortableClusters), 1);
}

TEST_F(LoadedKernelTest, TooMuchSharedMemoryIsAnErrorAndLeaksNothing) {
  const auto kernel = LoadedKernel::load(driver_, sample_kernel(), 300'000);
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr("300000 bytes of dynamic shared memory"));
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 1);
}

TEST_F(LoadedKernelTest, AWrongArchitectureHasARemedy) {
  driver_.fail_next(DriverCall::kModuleLoad, DriverStatus::kNoBinaryForGpu);
  const auto kernel = LoadedKernel::load(driver_, sample_kernel(), 0);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().kind, ErrorKind::kDeviceError);
  EXPECT_THAT(kernel.error().text(), ::testing::AllOf(HasSubstr("sample_0 (sm_90a)"),
                                                      HasSubstr("architecture of this device")));
}

TEST_F(LoadedKernelTest, AMissingEntryUnloadsTheModule) {
  driver_.fail_next(DriverCall::kModuleFunction, DriverStatus::kNotFound);
  EXPECT_FALSE(LoadedKernel::load(driver_, sample_kernel(), 0));
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 1);
}

TEST_F(LoadedKernelTest, AsksTheDriverForOccupancy) {
  const auto kernel = LoadedKernel::load(driver_, sample_kernel(), 0).value();
  EXPECT_EQ(kernel.blocks_per_sm(1024, 0).value(), 2);  // 2,048 threads per SM.
  driver_.fail_next(DriverCall::kOccupancyBlocks, DriverStatus::kInvalidValue);
  EXPECT_FALSE(kernel.blocks_per_sm(1024, 0));
}

TEST_F(LoadedKernelTest, ContextsAreGivenBackAndRestored) {
  ContextHandle outer = nullptr;
  ASSERT_EQ(driver_.context_get_current(&outer), DriverStatus::kSuccess);
  EXPECT_EQ(outer, context_.handle());
  FakeDriver two(*find_device("A100"), 2);
  {
    const auto first = DeviceContext::retain(two, 0).value();
    const auto second = DeviceContext::retain(two, 1).value();
    EXPECT_NE(first.handle(), second.handle());
    const auto outside = CurrentContext::enter(two, first).value();
    {
      const auto inside = CurrentContext::enter(two, second).value();
      ContextHandle current = nullptr;
      ASSERT_EQ(two.context_get_current(&current), DriverStatus::kSuccess);
      EXPECT_EQ(current, second.handle());
    }
    ContextHandle current = nullptr;
    ASSERT_EQ(two.context_get_current(&current), DriverStatus::kSuccess);
    EXPECT_EQ(current, first.handle());
  }
  EXPECT_EQ(two.live_objects(), 0);
}

TEST_F(LoadedKernelTest, AnUnknownDeviceHasARemedy) {
  const auto context = DeviceContext::retain(driver_, 7);
  ASSERT_FALSE(context);
  EXPECT_THAT(context.error().text(),
              ::testing::AllOf(HasSubstr("opening device 7"), HasSubstr("CUDA_VISIBLE_DEVICES")));
}

}  // namespace sinter::loaded_kernel_test
