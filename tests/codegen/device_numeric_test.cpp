// Runs the integer arithmetic of codegen/device/numeric.cuh on the CPU, against what the host says
// random numbers are.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "fusion_ir/philox.h"

namespace sinter {
namespace device {

// What the header takes from the compiler. Functions that are single instructions vanish with
// `asm`; nothing here calls them, nor what stands in for other functions of CUDA.
#define SINTER_DEVICE inline
#define asm(...)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wfloat-equal"
namespace {
unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32U); }
float __int_as_float(int x) { return std::bit_cast<float>(x); }
unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
double rsqrt(double x) { return 1.0 / std::sqrt(x); }
#include "codegen/device/numeric.cuh"
}  // namespace
#pragma GCC diagnostic pop
#undef asm
#undef SINTER_DEVICE

}  // namespace device

namespace {

TEST(DeviceNumeric, RandomNumbersAreThoseOfTheHost) {
  std::mt19937_64 bits(17);
  for (int i = 0; i < 10'000; ++i) {
    const auto seed = static_cast<int64_t>(bits());
    // Small indices, whose blocks have no high word, as well as any.
    const auto index = static_cast<int64_t>(i % 2 == 0 ? bits() : static_cast<uint64_t>(i));
    ASSERT_EQ(static_cast<double>(device::sinter_philox_uniform(seed, index)),
              philox_uniform(seed, index))
        << seed << ", " << index;
  }
}

TEST(DeviceNumeric, RandomNumbersDoNotDependOnThoseBefore) {
  std::mt19937_64 bits(18);
  device::SinterRandomBlock block;
  int64_t seed = 1;
  int64_t index = -5;  // Through zero, where the block's number wraps around.
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(static_cast<double>(device::sinter_philox_uniform(block, seed, index)),
              philox_uniform(seed, index))
        << seed << ", " << index;
    index += static_cast<int64_t>(bits() % 3);
    if (bits() % 16 == 0) seed = static_cast<int64_t>(bits());
  }
}

TEST(DeviceNumeric, IntegerDivisionSurvivesZeroAndTheLowestInteger) {
  constexpr int kLowest = std::numeric_limits<int>::min();
  EXPECT_EQ(device::sinter_div(7, 0), 0);
  EXPECT_EQ(device::sinter_div(kLowest, -1), kLowest);
  EXPECT_EQ(device::sinter_rem(7, 0), 0);
  EXPECT_EQ(device::sinter_rem(kLowest, -1), 0);
}

}  // namespace
}  // namespace sinter
