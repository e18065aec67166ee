// What follows from a kernel's tables: the bytes of its shared memory and of its argument struct,
// and whether it may start early.

#include "codegen/kernel/kernel_ir.h"

#include <gtest/gtest.h>

#include "tests/codegen/parsed_kernel.h"

namespace sinter::kir::kernel_ir_test {

Kernel kernel_with(std::string_view body) {
  return parsed(fmt::format(R"(kernel @k threads 32 min_blocks 1 grid ceil(%p0 / 1) {{
  param %p0 n : i64
  {}
}})",
                            body));
}

TEST(KernelIrTest, SharedBytesEndInWholeUnits) {
  EXPECT_EQ(shared_bytes(kernel_with("")), 0);
  EXPECT_EQ(shared_bytes(kernel_with("buffer %b0 s : f32 shared readwrite align 16 count 4 "
                                     "offset 0")),
            16);
  EXPECT_EQ(shared_bytes(kernel_with("buffer %b0 s : i8 shared readwrite align 16 count 17 "
                                     "offset 0")),
            32);
  EXPECT_EQ(shared_bytes(kernel_with("mbarrier %m0 m count 3 arrivals 1 offset 32")), 64)
      << "24 bytes from byte 32";
  EXPECT_EQ(shared_bytes(kernel_with("buffer %b0 x : f32 global read align 16")), 0);
}

/// The last is not the one that is declared last.
TEST(KernelIrTest, SharedBytesEndWithTheLastBuffer) {
  EXPECT_EQ(shared_bytes(kernel_with(R"(
  buffer %b0 a : f32 shared readwrite align 16 count 4 offset 64
  buffer %b1 b : f32 shared readwrite align 16 count 4 offset 0
)")),
            80);
  EXPECT_THROW(shared_bytes(kernel_with("buffer %b0 a : f32 shared readwrite align 16 count 4")),
               SinterException)
      << "it has no place yet";
}

TEST(KernelIrTest, MoreThanTheStaticLimitIsDynamic) {
  const auto of = [](int64_t count) {
    return uses_dynamic_shared(kernel_with(
        fmt::format("buffer %b0 s : i8 shared readwrite align 16 count {} offset 0", count)));
  };
  EXPECT_FALSE(of(48 * 1024));
  EXPECT_TRUE(of(48 * 1024 + 1));
}

/// Addresses of 8 bytes, then integers of 8, then of 4; in all a multiple of 8.
TEST(KernelIrTest, ArgumentsHaveNoGaps) {
  const Kernel kernel = kernel_with(R"(
  buffer %b0 small : i32 argument read align 4 count 3
  buffer %b1 x : f32 global read align 16
  buffer %b2 large : i64 argument read align 8 count 2
  buffer %b3 many : f32 global read align 16 tensors 5
)");
  const ArgumentLayout layout = argument_layout(kernel);
  EXPECT_EQ(layout.offsets[BufferId{3}], 0);
  EXPECT_EQ(layout.offsets[BufferId{2}], 5 * 8);
  EXPECT_EQ(layout.offsets[BufferId{0}], 5 * 8 + 2 * 8);
  EXPECT_EQ(layout.offsets[BufferId{1}], -1) << "an argument of its own";
  EXPECT_EQ(layout.bytes, 72) << "68, rounded up";
  EXPECT_EQ(argument_layout(kernel_with("")).bytes, 0);
}

TEST(KernelIrTest, AKernelThatWaitsMayStartEarly) {
  EXPECT_TRUE(waits_for_previous(kernel_with("wait_for_previous")));
  EXPECT_FALSE(waits_for_previous(kernel_with("launch_dependents barrier")));
}

/// A NaN is equal to itself, and 0 is not -0.
TEST(KernelIrTest, FloatsAreEqualBitByBit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(FloatConstant{nan}, FloatConstant{nan});
  EXPECT_NE(FloatConstant{nan}, FloatConstant{-nan});
  EXPECT_NE(FloatConstant{0.0}, FloatConstant{-0.0});
}

}  // namespace sinter::kir::kernel_ir_test
