#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "codegen/cuda/emit.h"
#include "runtime/check/device_run.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/driver/device_context.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "scheduler/planning/planner.h"

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

  /// Plans a fusion of constant extents, runs it once and holds every output to the oracle.
  void expect_right_on_device(const Fusion& fusion) {
    auto planned = plan(fusion, {}, limits_, {.families = builtin_families()});
    ASSERT_TRUE(planned) << planned.error().text();
    KernelCache cache({});
    auto compiled = compile_plan(std::move(*planned), *compiler_, cache, {.threads = 8});
    ASSERT_TRUE(compiled) << compiled.error().text();
    auto executable = Executable::prepare(std::move(*compiled), *driver_);
    ASSERT_TRUE(executable) << executable.error().text();
    const auto run = run_on_device(fusion, *executable, *driver_, {.time = false});
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->check.passed()) << run->check.text();
  }

  DeviceDriver* driver_ = nullptr;
  std::optional<NvrtcCompiler> compiler_;
  DeviceLimits limits_;
};

}  // namespace sinter
