// Kernels with tensor copies and products of warp groups: what codegen/device/tensor_map.cuh and
// wgmma.cuh say assembles without local memory, nothing makes the assembler wait for products where
// the kernel does not, and a launch with tensor maps multiplies matrices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "codegen/cuda/cuda_emitter.h"
#include "codegen/kernel/kernel_parser.h"
#include "codegen/passes/kernel_passes.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_context.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/driver/prepared_launch.h"
#include "runtime/execute/loaded_kernel.h"
#include "tests/codegen/tf32_copy_kernel.h"
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

/// Operands of 64 x K and K x columns, the left one in shared memory or in registers.
std::string one_product(DType left, DType right, int64_t columns, bool transposed,
                        bool in_registers = false) {
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
  var %r4 a_part : {left}[4][{lanes}]
  load_matrix %r4[0] = %b1[mul(thread_index, {chunk})] matrices 4
  wgmma_fence
  wgmma %r0[0] columns {columns} left {left_operand} right %b2[0] swizzle 32 groups {right_groups}{blocks}
  wgmma_commit
  wgmma_wait pending 0
  for %r3 g : i32 = 0 to {groups} step 1 unroll {{
    store %b0[add(mul(%r3, 256), mul(thread_index, 2))] = %r0[%r3, 0] width 2
  }}
}}
)",
      fmt::arg("sum", sum), fmt::arg("left", left), fmt::arg("right", right),
      fmt::arg("groups", columns / 4), fmt::arg("columns", columns),
      fmt::arg("zero", sum == DType::kF32 ? "0x0p+0" : "0"), fmt::arg("lanes", 4 / size),
      fmt::arg("chunk", 16 / size),
      fmt::arg("left_operand",
               in_registers ? "%r4[0]" : fmt::format("%b1[0] swizzle 64 groups {}", 512 / size)),
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
  for (const DType type : {kBF16, kF16, kF32, kF8E4M3, kF8E5M2, kI8, kU8}) {
    for (const int64_t columns : kir::Wgmma::kColumns)
      expect_compiled(*compiler, source_of(one_product(type, type, columns, false, true), {1}));
  }
  expect_compiled(*compiler, source_of(one_product(kF16, kF16, 96, true, true), {1}));
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

/// c = a b with random elements. a lies by steps of 64 along the depth; what is beyond the depth in
/// the last step is 1 in a and NaN in b.
struct RandomProduct {
  int64_t steps, depth;
  int64_t rows, columns;
  std::vector<uint16_t> a, b;
  std::vector<double> a_values, b_values;

  RandomProduct(const WarpGroupKernel& shape, int64_t of_depth)
      : steps((of_depth + 63) / 64),
        depth(of_depth),
        rows(64 * shape.groups),
        columns(shape.columns) {
    std::mt19937 random(static_cast<uint32_t>(depth));
    std::uniform_real_distribution<double> element(-1.0, 1.0);
    const auto add = [](std::vector<uint16_t>& elements, std::vector<double>& values, double x) {
      elements.push_back(static_cast<uint16_t>(encode(DType::kBF16, x)));
      values.push_back(decode(DType::kBF16, elements.back()));
    };
    for (int64_t i = 0; i < 64 * rows * steps; ++i) {
      const int64_t k = i / (64 * rows) * 64 + i % 64;
      add(a, a_values, k < depth ? element(random) : 1.0);
    }
    for (int64_t i = 0; i < 64 * columns * steps; ++i) {
      add(b, b_values,
          i / columns < depth ? element(random) : std::numeric_limits<double>::quiet_NaN());
    }
  }

  /// Products of bf16 are exact in f32. Each of the additions errs by at most 2^-22 of the largest
  /// sum on the way, which is at most the sum of magnitudes: an addend is cut off at the last place
  /// of the largest one.
  void expect(std::span<const float> c) const {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        double sum = 0.0;
        double magnitudes = 0.0;
        for (int64_t k = 0; k < depth; ++k) {
          const double product =
              a_values[static_cast<size_t>((k / 64 * rows + row) * 64 + k % 64)] *
              b_values[static_cast<size_t>(k * columns + column)];
          sum += product;
          magnitudes += std::abs(product);
        }
        const double found = c[static_cast<size_t>(row * columns + column)];
        const double tolerance = static_cast<double>(depth) * 0x1p-22 * magnitudes;
        ASSERT_NEAR(found, sum, tolerance) << row << " " << column << " of depth " << depth;
      }
    }
  }
};

class WarpGroupKernelGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!driver_) GTEST_SKIP() << "no GPU: " << driver_.error().message;
    if (!compiler_) GTEST_SKIP() << "no NVRTC: " << compiler_.error().message;
    if (query_device(**driver_, 0).value().compute_major != 9)
      GTEST_SKIP() << "products of warp groups are of compute capability 9.0 only";
    if (!(*driver_)->has(DriverCall::kTensorMapEncode))
      GTEST_SKIP() << "the driver encodes no tensor maps";
  }

  /// Runs the kernel once for every depth, the last time from a graph that is captured before.
  void expect_products(const WarpGroupKernel& shape, const std::vector<int64_t>& depths) {
    DeviceDriver& driver = **driver_;
    const DeviceContext context = DeviceContext::retain(driver, 0).value();
    const CurrentContext current = CurrentContext::enter(driver, context).value();
    KernelSource source = source_of(warp_group_kernel(shape), {1, 1, 1});
    const auto compiled = compiler_->compile(source, Architecture::parse("sm_90a").value());
    ASSERT_TRUE(compiled) << compiled.error().text() << source.text;
    const auto loaded = LoadedKernel::load(driver, *compiled, source.shared_bytes);
    ASSERT_TRUE(loaded) << loaded.error().text();
    const OwnStream stream = OwnStream::create(driver, "testing").value();
    for (const int64_t depth : depths) {
      const RandomProduct product(shape, depth);
      source.param_values = {1, product.steps, depth};
      const auto launch = PreparedLaunch::prepare(driver, loaded->function(), source);
      ASSERT_TRUE(launch) << launch.error().text();
      std::vector<float> c(static_cast<size_t>(product.rows * product.columns),
                           std::numeric_limits<float>::quiet_NaN());
      auto device_a = DeviceBuffer::allocate(driver, 2 * product.a.size()).value();
      auto device_b = DeviceBuffer::allocate(driver, 2 * product.b.size()).value();
      auto device_c = DeviceBuffer::allocate(driver, 4 * c.size()).value();
      ASSERT_TRUE(device_a.upload(std::as_bytes(std::span(product.a))));
      ASSERT_TRUE(device_b.upload(std::as_bytes(std::span(product.b))));
      ASSERT_TRUE(device_c.upload(std::as_bytes(std::span(c))));
      const auto enqueue = [&](StreamHandle into) {
        return launch->launch(
            into, std::array{device_a.pointer(), device_b.pointer(), device_c.pointer()});
      };
      if (depth == depths.back()) {
        const auto captured = CapturedLaunch::capture(driver, stream.handle(), enqueue, "testing");
        ASSERT_TRUE(captured) << captured.error().text();
        ASSERT_TRUE(captured->replay(stream.handle(), "testing"));
        ASSERT_EQ(driver.stream_synchronize(stream.handle()), DriverStatus::kSuccess);
      } else {
        const auto launched = enqueue(stream.handle());
        ASSERT_TRUE(launched) << launched.error().text();
        ASSERT_EQ(driver.stream_synchronize(stream.handle()), DriverStatus::kSuccess);
      }
      const auto downloaded = device_c.download(std::as_writable_bytes(std::span(c)));
      ASSERT_TRUE(downloaded) << downloaded.error().text();
      product.expect(c);
      if (HasFatalFailure()) return;
    }
  }

  Result<DeviceDriver*> driver_ = cuda_driver();
  Result<NvrtcCompiler> compiler_ = NvrtcCompiler::open();
};

TEST_F(WarpGroupKernelGpu, OneGroupMultiplies) {
  expect_products({.groups = 1, .columns = 64, .stages = 2}, {64, 128, 192, 320, 576, 128});
}

TEST_F(WarpGroupKernelGpu, TwoGroupsMultiply) {
  expect_products({.groups = 2, .columns = 256, .stages = 4}, {64, 128, 256, 320, 576, 320});
}

/// Rows beyond the size that the launch gives arrive as zeros.
TEST_F(WarpGroupKernelGpu, RowsOutsideAreZeros) {
  expect_products({.groups = 1, .columns = 64, .stages = 2}, {1, 40, 65, 300});
}

TEST_F(WarpGroupKernelGpu, TensorMapsRoundToTf32) {
  DeviceDriver& driver = **driver_;
  const DeviceContext context = DeviceContext::retain(driver, 0).value();
  const CurrentContext current = CurrentContext::enter(driver, context).value();
  const KernelSource source = source_of(kTf32CopyKernel, {1});
  const auto compiled = compiler_->compile(source, Architecture::parse("sm_90a").value());
  ASSERT_TRUE(compiled) << compiled.error().text() << source.text;
  const auto loaded = LoadedKernel::load(driver, *compiled, source.shared_bytes);
  ASSERT_TRUE(loaded) << loaded.error().text();
  const auto launch = PreparedLaunch::prepare(driver, loaded->function(), source);
  ASSERT_TRUE(launch) << launch.error().text();
  const std::array<float, 64> x = numbers_around_tf32();
  std::array<float, 64> y{};
  auto device_x = DeviceBuffer::allocate(driver, sizeof x).value();
  auto device_y = DeviceBuffer::allocate(driver, sizeof y).value();
  ASSERT_TRUE(device_x.upload(std::as_bytes(std::span(x))));
  ASSERT_TRUE(launch->launch(nullptr, std::array{device_x.pointer(), device_y.pointer()}));
  ASSERT_EQ(driver.context_synchronize(), DriverStatus::kSuccess);
  ASSERT_TRUE(device_y.download(std::as_writable_bytes(std::span(y))));
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(nearest_tf32(x[i])))
        << fmt::format("{:a} became {:a}", x[i], y[i]);
  }
}

}  // namespace sinter::warp_group_kernel_test
