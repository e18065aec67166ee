// A warp-specialised kernel through NVRTC: what codegen/device/mbarrier.cuh says assembles.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda_emitter.h"
#include "codegen/kernel_parser.h"
#include "codegen/kernel_passes.h"
#include "runtime/nvrtc_compiler.h"
#include "tests/codegen/specialised_kernel.h"

namespace sinter {
namespace {

TEST(MbarrierKernelTest, CompilesFromHopperOn) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  const auto built = parse_kernel(kSpecialisedKernel);
  ASSERT_TRUE(built) << built.error().text();
  const kir::Kernel kernel = run_kernel_passes(*built, {.verify = true});
  const KernelSource source = make_kernel_source(kernel, {64});
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

}  // namespace
}  // namespace sinter
