#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "runtime/device_context.h"
#include "runtime/device_query.h"
#include "runtime/driver_api.h"
#include "runtime/nvrtc_compiler.h"

namespace sinter {

/// Tests of kernels on the GPU of this machine, with NVRTC; skipped where there is none.
template <class Param>
class LiveDeviceTest : public ::testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    auto driver = cuda_driver();
    if (!driver) GTEST_SKIP() << "no GPU: " << driver.error().message;
    auto compiler = NvrtcCompiler::open();
    if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
    auto limits = query_device(**driver, 0);
    ASSERT_TRUE(limits) << limits.error().text();
    driver_ = *driver;
    // Making a context takes longer than most tests: it stays until the process ends. A kernel that
    // breaks it fails the tests that follow too: the first to fail is the one to look at.
    static const auto kept = DeviceContext::retain(*driver_, 0);
    ASSERT_TRUE(kept) << kept.error().text();
    compiler_.emplace(std::move(*compiler));
    limits_ = std::move(*limits);
  }

  DeviceDriver* driver_ = nullptr;
  std::optional<NvrtcCompiler> compiler_;
  DeviceLimits limits_;
};

}  // namespace sinter
