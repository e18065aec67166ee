// Kernels with matrices and groups of asynchronous copies on their way to the device: what
// codegen/device/mma.cuh and async_copy.cuh say assembles without local memory, and does there what
// the interpreter says it does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <span>
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
#include "runtime/interpreter/interpreter.h"
#include "tests/codegen/matrix_kernel.h"

namespace sinter::matrix_kernel_test {

kir::Kernel lowered(std::string_view text) {
  const auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel) << (kernel ? "" : kernel.error().text());
  return kernel ? run_kernel_passes(*kernel, {.verify = true}) : kir::Kernel{};
}

struct Types {
  DType left, right;
};

/// 8-bit floats need sm_89.
std::vector<Types> types_of(bool with_f8) {
  using enum DType;
  std::vector<Types> types = {{kBF16, kBF16}, {kF16, kF16}, {kF32, kF32}, {kI8, kI8},
                              {kI8, kU8},     {kU8, kI8},   {kU8, kU8}};
  if (with_f8) {
    for (const DType left : {kF8E4M3, kF8E5M2}) {
      for (const DType right : {kF8E4M3, kF8E5M2}) types.push_back({left, right});
    }
  }
  return types;
}

/// c = 2 left * right of one warp, of K steps of 32 bytes, added in an unrolled loop. Rows come to
/// shared memory through predicated copies. Operands of two bytes have the right one by rows of k,
/// so that its load transposes; others have it by columns.
std::string product_of(const Types& types) {
  const int64_t bytes = bytes_of(types.left);
  const int64_t depth = 32 / bytes;
  const DType sum = kir::mma_accumulator(types.left, types.right).value();
  const std::string load_right =
      bytes == 2
          ? "load_matrix %r2[0] = %b4[mul(rem(thread_index, 16), 8)] matrices 2 transpose"
          : fmt::format(R"(load_matrix %r2[0] = %b4[mul(rem(thread_index, 8), {0})] matrices 1
    load_matrix %r2[1] = %b4[add(mul(rem(thread_index, 8), {0}), {1})] matrices 1)",
                        depth, 16 / bytes);
  return fmt::format(
      R"(kernel @product threads 32 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 blocks : i64
  buffer %b0 a : {left} global read align 16 value %v0
  buffer %b1 b : {right} global read align 16 value %v1
  buffer %b2 c : {sum} global write align 16 value %v2
  buffer %b3 a_rows : {left} shared readwrite align 16 count {left_count}
  buffer %b4 b_rows : {right} shared readwrite align 16 count {right_count}
  var %r0 sum : {sum}[2][2]
  var %r1 left : {left}[4][{lanes}]
  var %r2 right : {right}[2][{lanes}]
  for %r3 g : i32 = 0 to 2 step 1 unroll {{
    for %r4 l : i32 = 0 to 2 step 1 unroll {{
      %r0[%r3, %r4] = {zero}
    }}
  }}
  async_copy %b3[mul(thread_index, {row})] = %b0[mul(thread_index, {row})] width {row}
  if lt(thread_index, 16) {{
    async_copy %b4[mul(thread_index, {row})] = %b1[mul(thread_index, {row})] width {row} when ge(thread_index, 0)
  }}
  async_commit
  async_wait pending 0
  barrier
  for %r5 twice : i32 = 0 to 2 step 1 unroll {{
    load_matrix %r1[0] = %b3[add(mul(rem(thread_index, 16), {depth}), mul(div(thread_index, 16), {row}))] matrices 4
    {load_right}
    mma %r0[0] left %r1[0] right %r2[0]
  }}
  for %r6 half : i32 = 0 to 2 step 1 unroll {{
    store %b2[add(mul(add(div(thread_index, 4), mul(%r6, 8)), 8), mul(rem(thread_index, 4), 2))] = %r0[%r6, 0] width 2
  }}
}}
)",
      fmt::arg("left", types.left), fmt::arg("right", types.right), fmt::arg("sum", sum),
      fmt::arg("left_count", 16 * depth), fmt::arg("right_count", 8 * depth),
      fmt::arg("lanes", 4 / bytes), fmt::arg("zero", sum == DType::kF32 ? "0x0p+0" : "0"),
      fmt::arg("row", 16 / bytes), fmt::arg("depth", depth), fmt::arg("load_right", load_right));
}

TEST(MatrixKernelTest, CompilesWithoutLocalMemory) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  for (const char* name : {"sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
    SCOPED_TRACE(name);
    const Architecture architecture = Architecture::parse(name).value();
    std::vector<std::string> kernels = {product_kernel()};
    for (const Types& types : types_of(name != std::string_view("sm_80")))
      kernels.push_back(product_of(types));
    for (const std::string& text : kernels) {
      const KernelSource source = make_kernel_source(
          lowered(text), text.find("steps") != std::string::npos ? std::vector<int64_t>{1, 4}
                                                                 : std::vector<int64_t>{1});
      const auto compiled = compiler->compile(source, architecture);
      ASSERT_TRUE(compiled) << compiled.error().text() << source.text;
      EXPECT_EQ(compiled->resources.stack_bytes, 0) << source.text;
      EXPECT_EQ(compiled->resources.spill_store_bytes, 0) << source.text;
      EXPECT_EQ(compiled->resources.shared_bytes, source.shared_bytes);
    }
  }
}

/// Bytes of an operand whose elements are small whole numbers: sums are exact in any order.
std::vector<std::byte> small_numbers(DType type, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < count; ++i) {
    const int value = static_cast<int>(random() % 9) - (type == DType::kU8 ? 0 : 4);
    const uint64_t bits = encode(type, value);
    const auto* first = reinterpret_cast<const std::byte*>(&bits);
    bytes.insert(bytes.end(), first, first + bytes_of(type));
  }
  return bytes;
}

class MatrixKernelGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!driver_) GTEST_SKIP() << "no GPU: " << driver_.error().message;
    if (!compiler_) GTEST_SKIP() << "no NVRTC: " << compiler_.error().message;
  }

  /// Runs a kernel with two inputs on the device and in the interpreter, which find the same bytes.
  void expect_same(const kir::Kernel& kernel, const std::vector<int64_t>& params,
                   std::vector<std::byte> a, std::vector<std::byte> b, size_t result_bytes) {
    const DeviceContext context = DeviceContext::retain(**driver_, 0).value();
    const CurrentContext current = CurrentContext::enter(**driver_, context).value();
    const DeviceLimits limits = query_device(**driver_, 0).value();
    const KernelSource source = make_kernel_source(kernel, params);
    const auto compiled =
        compiler_->compile(source, Architecture::parse(architecture_of(limits)).value());
    ASSERT_TRUE(compiled) << compiled.error().text();
    const auto loaded = LoadedKernel::load(**driver_, *compiled, 0).value();
    const auto launch = PreparedLaunch::prepare(**driver_, loaded.function(), source).value();
    auto device_a = DeviceBuffer::allocate(**driver_, a.size()).value();
    auto device_b = DeviceBuffer::allocate(**driver_, b.size()).value();
    auto device_c = DeviceBuffer::allocate(**driver_, result_bytes).value();
    ASSERT_TRUE(device_a.upload(a));
    ASSERT_TRUE(device_b.upload(b));
    const std::array buffers = {device_a.pointer(), device_b.pointer(), device_c.pointer()};
    ASSERT_TRUE(launch.launch(nullptr, buffers));
    std::vector<std::byte> found(result_bytes);
    const auto downloaded = device_c.download(found);
    ASSERT_TRUE(downloaded) << downloaded.error().text();

    std::vector<std::byte> expected(result_bytes);
    const std::array memory = {LaunchMemory{.bytes = a}, LaunchMemory{.bytes = b},
                               LaunchMemory{.bytes = expected}};
    const auto report = interpret(kernel, memory, params);
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_TRUE(report->clean()) << report->text(kernel);
    EXPECT_EQ(found, expected) << source.text;
  }

  Result<DeviceDriver*> driver_ = cuda_driver();
  Result<NvrtcCompiler> compiler_ = NvrtcCompiler::open();
};

TEST_F(MatrixKernelGpu, MultipliesEveryType) {
  const DeviceLimits limits = query_device(**driver_, 0).value();
  const bool has_f8 = limits.compute_major * 10 + limits.compute_minor >= 89;
  for (const Types& types : types_of(has_f8)) {
    SCOPED_TRACE(fmt::format("{} {}", types.left, types.right));
    const auto depth = static_cast<size_t>(32 / bytes_of(types.left));
    expect_same(lowered(product_of(types)), {1}, small_numbers(types.left, 16 * depth, 1),
                small_numbers(types.right, 8 * depth, 2), 16 * 8 * 4);
  }
}

TEST_F(MatrixKernelGpu, KeepsCopiesInFlight) {
  for (const int64_t steps : {1, 2, 3, 40}) {
    constexpr size_t kBlocks = 300;
    const size_t count = kBlocks * 256 * static_cast<size_t>(steps);
    expect_same(lowered(product_kernel()), {kBlocks, steps}, small_numbers(DType::kBF16, count, 3),
                small_numbers(DType::kBF16, count, 4), kBlocks * 256 * 4);
  }
}

}  // namespace sinter::matrix_kernel_test
