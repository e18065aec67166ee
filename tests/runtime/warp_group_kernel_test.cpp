// Kernels with tensor copies and products of warp groups: what codegen/device/tensor_map.cuh and
// wgmma.cuh say assembles without local memory, and nothing makes the assembler wait for products
// where the kernel does not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/cuda_emitter.h"
#include "codegen/kernel/kernel_parser.h"
#include "codegen/passes/kernel_passes.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "tests/codegen/warp_group_kernel.h"

namespace sinter::warp_group_kernel_test {

KernelSource source_of(std::string_view text, std::vector<int64_t> params) {
  const auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel) << (kernel ? "" : kernel.error().text());
  if (!kernel) return {};
  return make_kernel_source(run_kernel_passes(*kernel, {.verify = true}), std::move(params));
}

void expect_compiled(const NvrtcCompiler& compiler, const KernelSource& source) {
  const auto compiled = compiler.compile(source, Architecture::parse("sm_90a").value());
  ASSERT_TRUE(compiled) << compiled.error().text() << source.text;
  EXPECT_EQ(compiled->resources.stack_bytes, 0) << source.text;
  EXPECT_EQ(compiled->resources.spill_store_bytes, 0) << source.text;
  // "Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..."
  EXPECT_THAT(compiled->log, testing::Not(testing::HasSubstr("C75"))) << source.text;
  EXPECT_THAT(compiled->log, testing::Not(testing::HasSubstr("serialized"))) << source.text;
}

TEST(WarpGroupKernelTest, PipelinesCompileWithoutLocalMemory) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  for (const WarpGroupKernel& shape :
       {WarpGroupKernel{}, WarpGroupKernel{.groups = 2, .columns = 256, .stages = 4}})
    expect_compiled(*compiler, source_of(warp_group_kernel(shape), {1, 4, 256}));
}

/// Operands of 64 x K and K x columns.
std::string one_product(DType left, DType right, int64_t columns, bool transposed) {
  const DType sum = kir::mma_accumulator(left, right).value();
  const int64_t size = bytes_of(left);
  const std::string blocks =
      transposed ? fmt::format(" transposed {}", columns > 16 ? 1024 / size : 0) : "";
  return fmt::format(
      R"(kernel @one threads 128 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  buffer %b0 c : {sum} global write align 16 value %v0
  buffer %b1 a : {left} shared readwrite align 1024 count 8192
  buffer %b2 b : {right} shared readwrite align 1024 count 16384
  var %r0 sum : {sum}[{groups}][2]
  for %r1 g : i32 = 0 to {groups} step 1 unroll {{
    for %r2 l : i32 = 0 to 2 step 1 unroll {{
      %r0[%r1, %r2] = {zero}
    }}
  }}
  proxy_fence
  barrier
  wgmma_fence
  wgmma %r0[0] columns {columns} left %b1[0] swizzle 64 groups {left_groups} right %b2[0] swizzle 32 groups {right_groups}{blocks}
  wgmma_commit
  wgmma_wait pending 0
  for %r3 g : i32 = 0 to {groups} step 1 unroll {{
    store %b0[add(mul(%r3, 256), mul(thread_index, 2))] = %r0[%r3, 0] width 2
  }}
}}
)",
      fmt::arg("sum", sum), fmt::arg("left", left), fmt::arg("right", right),
      fmt::arg("groups", columns / 4), fmt::arg("columns", columns),
      fmt::arg("zero", sum == DType::kF32 ? "0x0p+0" : "0"), fmt::arg("left_groups", 512 / size),
      fmt::arg("right_groups", 256 / size), fmt::arg("blocks", blocks));
}

TEST(WarpGroupKernelTest, EveryProductCompiles) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  using enum DType;
  for (const auto& [left, right] : std::vector<std::pair<DType, DType>>{{kF32, kF32},
                                                                        {kF8E4M3, kF8E4M3},
                                                                        {kF8E4M3, kF8E5M2},
                                                                        {kF8E5M2, kF8E4M3},
                                                                        {kF8E5M2, kF8E5M2},
                                                                        {kI8, kI8},
                                                                        {kI8, kU8},
                                                                        {kU8, kI8},
                                                                        {kU8, kU8},
                                                                        {kF16, kF16}})
    expect_compiled(*compiler, source_of(one_product(left, right, 64, false), {1}));
  for (const int64_t columns : kir::Wgmma::kColumns)
    expect_compiled(*compiler, source_of(one_product(kBF16, kBF16, columns, false), {1}));
  for (const int64_t columns : {16, 192})
    expect_compiled(*compiler, source_of(one_product(kF16, kF16, columns, true), {1}));
}

/// Every number of axes.
TEST(WarpGroupKernelTest, TensorCopiesCompile) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  std::string maps, copies;
  for (int axes = 1; axes <= 5; ++axes) {
    maps += fmt::format("  tensor_map %t{} map of %b0 axis 64 stride 1 box 64", axes - 1);
    copies += fmt::format("    tensor_copy %b1[0] = %t{}[0", axes - 1);
    for (int i = 1; i < axes; ++i) {
      maps += " axis 8 stride 64 box 1";
      copies += fmt::format(", {}", i);
    }
    maps += "\n";
    copies += "] mbarrier %m0[0]\n";
  }
  expect_compiled(*compiler,
                  source_of(fmt::format(R"(kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  buffer %b0 x : f16 global read align 16 value %v0
  buffer %b1 s : f16 shared readwrite align 128 count 64
  mbarrier %m0 full count 1 arrivals 1
{}  init_mbarriers
  barrier
  if eq(thread_index, 0) {{
    expect_bytes %m0[0] 640
{}  }}
  mbarrier_wait %m0[0] parity 0
}}
)",
                                        maps, copies),
                            {1}));
}

}  // namespace sinter::warp_group_kernel_test
