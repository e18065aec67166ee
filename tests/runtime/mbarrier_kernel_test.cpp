// A warp-specialised kernel on its way to the device: what codegen/device/mbarrier.cuh says
// assembles, and does there what the interpreter says it does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "codegen/cuda/cuda_emitter.h"
#include "codegen/kernel/kernel_parser.h"
#include "codegen/passes/kernel_passes.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_context.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/driver/prepared_launch.h"
#include "runtime/execute/loaded_kernel.h"
#include "tests/codegen/specialised_kernel.h"

namespace sinter::mbarrier_kernel_test {

KernelSource row_sums(int64_t rows) {
  const auto built = parse_kernel(kSpecialisedKernel);
  EXPECT_TRUE(built) << (built ? "" : built.error().text());
  return make_kernel_source(run_kernel_passes(*built, {.verify = true}), {rows});
}

TEST(MbarrierKernelTest, CompilesFromHopperOn) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  const KernelSource source = row_sums(64);
  // Three stages of 512 floats, two halves of four warps' sums, six mbarriers.
  EXPECT_EQ(source.shared_bytes, 3 * 2048 + 2 * 4 * 4 + 6 * 8);
  for (const char* name : {"sm_90a", "sm_100a"}) {
    const auto compiled = compiler->compile(source, Architecture::parse(name).value());
    ASSERT_TRUE(compiled) << compiled.error().text() << source.text;
    EXPECT_EQ(compiled->resources.shared_bytes, source.shared_bytes) << name;
    EXPECT_EQ(compiled->resources.spill_store_bytes, 0) << name;
    EXPECT_EQ(compiled->resources.barriers, 2) << name << ": the block's and the group's";
  }
}

TEST(MbarrierKernelGpu, SumsRows) {
  const auto driver = cuda_driver();
  if (!driver) GTEST_SKIP() << "no GPU: " << driver.error().message;
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  const auto limits = query_device(**driver, 0);
  ASSERT_TRUE(limits) << limits.error().text();
  if (limits->compute_major < 9) GTEST_SKIP() << "bulk copies came with sm_90";
  const DeviceContext context = DeviceContext::retain(**driver, 0).value();
  const CurrentContext current = CurrentContext::enter(**driver, context).value();

  // So many that every block goes round its pipeline many times, in more than one wave.
  constexpr int64_t kRows = 20'000;
  constexpr int64_t kColumns = 512;
  const KernelSource source = row_sums(kRows);
  const auto compiled =
      compiler->compile(source, Architecture::parse(architecture_of(*limits)).value());
  ASSERT_TRUE(compiled) << compiled.error().text();
  const auto kernel = LoadedKernel::load(**driver, *compiled, 0).value();
  const auto launch = PreparedLaunch::prepare(**driver, kernel.function(), source).value();

  std::vector<float> x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 101);
  std::vector<float> sums(kRows, -1.0F);
  auto device_x = DeviceBuffer::allocate(**driver, x.size() * sizeof(float)).value();
  auto device_sums = DeviceBuffer::allocate(**driver, sums.size() * sizeof(float)).value();
  ASSERT_TRUE(device_x.upload(std::as_bytes(std::span(x))));
  ASSERT_TRUE(device_sums.upload(std::as_bytes(std::span(sums))));
  const std::array buffers = {device_x.pointer(), device_sums.pointer()};
  ASSERT_TRUE(launch.launch(nullptr, buffers));
  const auto downloaded = device_sums.download(std::as_writable_bytes(std::span(sums)));
  ASSERT_TRUE(downloaded) << downloaded.error().text();
  for (size_t row = 0; row < sums.size(); ++row) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row) * kColumns;
    // Small whole numbers: exact in any order.
    ASSERT_EQ(sums[row], std::accumulate(begin, begin + kColumns, 0.0F)) << row;
  }
}

}  // namespace sinter::mbarrier_kernel_test
