// Runs the integer arithmetic of codegen/device/types.cuh on the CPU: devices before compute
// capability 8.9 convert to 8-bit floats with it, and those at hand may be newer.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "fusion_ir/dtype.h"

namespace sinter {
namespace device {

// What the header takes from the compiler. Conversions that are single instructions vanish with
// `asm`; nothing here calls them.
#define __CUDA_ARCH__ 800  // NOLINT(bugprone-reserved-identifier)
#define __device__         // NOLINT(bugprone-reserved-identifier)
#define __forceinline__    // NOLINT(bugprone-reserved-identifier)
#define asm(...)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
namespace {
unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
float __int_as_float(int x) { return std::bit_cast<float>(x); }
unsigned __float2uint_rn(float x) { return static_cast<unsigned>(std::nearbyintf(x)); }
int __float2int_rz(float x) { return static_cast<int>(x); }
int __double2int_rz(double x) { return static_cast<int>(x); }
long long __float2ll_rz(float x) { return static_cast<long long>(x); }
long long __double2ll_rz(double x) { return static_cast<long long>(x); }
float __double2float_rn(double x) { return static_cast<float>(x); }
float __ll2float_rn(long long x) { return static_cast<float>(x); }
float __int2float_rn(int x) { return static_cast<float>(x); }
double __ll2double_rn(long long x) { return static_cast<double>(x); }
double __int2double_rn(int x) { return x; }
#include "codegen/device/types.cuh"
}  // namespace
#pragma GCC diagnostic pop
#undef asm
#undef __forceinline__
#undef __device__
#undef __CUDA_ARCH__

}  // namespace device

namespace {

/// Calls `check` for every f32 whose low 12 bits are zeros, 1 or ones. A tie between two numbers of
/// 2 or 3 mantissa bits has zeros there, and its neighbours on both sides are among the others.
template <class Check>
void for_many_floats(Check check) {
  for (uint32_t high = 0; high < (1U << 20U); ++high) {
    for (const uint32_t low : {0U, 1U, 0xfffU}) check(std::bit_cast<float>(high << 12U | low));
  }
}

TEST(DeviceTypesTest, RoundsToF8LikeTheReference) {
  int64_t wrong = 0;
  for_many_floats([&](float x) {
    const auto e4m3 = static_cast<uint8_t>(device::pack_f8e4m3(x, 0.0F));
    const auto e5m2 = static_cast<uint8_t>(device::pack_f8e5m2(x, 0.0F));
    if (std::isnan(x)) {
      wrong += std::isnan(decode(DType::kF8E4M3, e4m3)) ? 0 : 1;
      wrong += std::isnan(decode(DType::kF8E5M2, e5m2)) ? 0 : 1;
    } else {
      wrong += e4m3 == encode(DType::kF8E4M3, x) ? 0 : 1;
      wrong += e5m2 == encode(DType::kF8E5M2, x) ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(DeviceTypesTest, PacksTheSecondValueIntoTheUpperByte) {
  const unsigned short pair = device::pack_f8e4m3(1.0F, -2.0F);
  EXPECT_EQ(decode(DType::kF8E4M3, pair & 0xffU), 1.0);
  EXPECT_EQ(decode(DType::kF8E4M3, static_cast<uint64_t>(pair >> 8)), -2.0);
}

TEST(DeviceTypesTest, SaturatesSmallIntegers) {
  EXPECT_EQ(device::to_i8(200), 127);
  EXPECT_EQ(device::to_i8(-200), -128);
  EXPECT_EQ(device::to_u8(300), 255);
  EXPECT_EQ(device::to_u8(-1), 0);
  EXPECT_EQ(device::to_i64(std::numeric_limits<double>::quiet_NaN()), 0);
}

}  // namespace
}  // namespace sinter
