#include "runtime/interpreter/mma_lanes.h"

#include <array>
#include <bit>
#include <cstring>

#include "codegen/kernel/kernel_ir.h"
#include "runtime/interpreter/float_bits.h"

namespace sinter::interpreter {
namespace {

using kir::Mma;

/// How an operand of a type is stored, and its value in the type that products are taken in.
template <DType kType>
struct Operand;
template <>
struct Operand<DType::kBF16> {
  using Storage = uint16_t;
  static double value(Storage bits) { return bf16_to_f32(bits); }
};
template <>
struct Operand<DType::kF16> {
  using Storage = uint16_t;
  static double value(Storage bits) { return f16_to_f32(bits); }
};
template <>
struct Operand<DType::kF8E4M3> {
  using Storage = uint8_t;
  static double value(Storage bits) { return f8e4m3_to_f32(bits); }
};
template <>
struct Operand<DType::kF8E5M2> {
  using Storage = uint8_t;
  static double value(Storage bits) { return f8e5m2_to_f32(bits); }
};
template <>
struct Operand<DType::kF32> {
  using Storage = uint32_t;
  static double value(Storage bits) { return std::bit_cast<float>(bits & ~0x1fffU); }  // TF32
};
template <>
struct Operand<DType::kI8> {
  using Storage = int8_t;
  static int32_t value(Storage element) { return element; }
};
template <>
struct Operand<DType::kU8> {
  using Storage = uint8_t;
  static int32_t value(Storage element) { return element; }
};

/// Bytes of K elements of an operand.
constexpr size_t kDepthBytes = 32;

/// The rows of a left operand (16), or the columns of a right one (8).
template <DType kType, size_t kCount>
auto vectors_of(const std::byte* registers) {
  using Storage = typename Operand<kType>::Storage;
  using Value = decltype(Operand<kType>::value(Storage{}));
  constexpr size_t kPerRegister = kir::kFragmentBytes / sizeof(Storage);
  constexpr size_t kEights = kCount / 8;
  std::array<std::array<Value, kDepthBytes / sizeof(Storage)>, kCount> out;
  for (size_t i = 0; i < 2 * kEights; ++i) {
    for (size_t e = 0; e < kPerRegister; ++e) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        Storage element{};
        std::memcpy(&element, registers + ((i * kPerRegister + e) * kLanes + lane) * sizeof element,
                    sizeof element);
        const size_t vector = lane / 4 + 8 * (i % kEights);
        const size_t k = kPerRegister * (lane % 4 + 4 * (i / kEights)) + e;
        out[vector][k] = Operand<kType>::value(element);
      }
    }
  }
  return out;
}

template <class Vector>
float with_products(float sum, const Vector& a, const Vector& b) {
  double total = sum;
  for (size_t k = 0; k < a.size(); ++k) total += a[k] * b[k];
  return static_cast<float>(total);
}
template <size_t kDepth>
int32_t with_products(int32_t sum, const std::array<int32_t, kDepth>& a,
                      const std::array<int32_t, kDepth>& b) {
  auto total = static_cast<uint32_t>(sum);
  for (size_t k = 0; k < kDepth; ++k) total += static_cast<uint32_t>(a[k] * b[k]);
  return static_cast<int32_t>(total);
}

template <DType kLeft, DType kRight, class Sum>
void multiply(std::byte* result, const std::byte* a, const std::byte* b, const std::byte*) {
  const auto rows = vectors_of<kLeft, 16>(a);
  const auto columns = vectors_of<kRight, 8>(b);
  for (size_t g = 0; g < Mma::kAccumulatorGroups; ++g) {
    for (size_t e = 0; e < Mma::kAccumulatorLanes; ++e) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        Sum sum{};
        std::byte* at = result + ((g * Mma::kAccumulatorLanes + e) * kLanes + lane) * sizeof sum;
        std::memcpy(&sum, at, sizeof sum);
        sum = with_products(sum, rows[lane / 4 + 8 * g], columns[2 * (lane % 4) + e]);
        std::memcpy(at, &sum, sizeof sum);
      }
    }
  }
}

struct Product {
  DType left, right;
  LaneFunction function;
};
constexpr std::array kProducts = {
    Product{DType::kBF16, DType::kBF16, multiply<DType::kBF16, DType::kBF16, float>},
    Product{DType::kF16, DType::kF16, multiply<DType::kF16, DType::kF16, float>},
    Product{DType::kF32, DType::kF32, multiply<DType::kF32, DType::kF32, float>},
    Product{DType::kF8E4M3, DType::kF8E4M3, multiply<DType::kF8E4M3, DType::kF8E4M3, float>},
    Product{DType::kF8E4M3, DType::kF8E5M2, multiply<DType::kF8E4M3, DType::kF8E5M2, float>},
    Product{DType::kF8E5M2, DType::kF8E4M3, multiply<DType::kF8E5M2, DType::kF8E4M3, float>},
    Product{DType::kF8E5M2, DType::kF8E5M2, multiply<DType::kF8E5M2, DType::kF8E5M2, float>},
    Product{DType::kI8, DType::kI8, multiply<DType::kI8, DType::kI8, int32_t>},
    Product{DType::kI8, DType::kU8, multiply<DType::kI8, DType::kU8, int32_t>},
    Product{DType::kU8, DType::kI8, multiply<DType::kU8, DType::kI8, int32_t>},
    Product{DType::kU8, DType::kU8, multiply<DType::kU8, DType::kU8, int32_t>},
};

}  // namespace

LaneFunction mma_lanes(DType left, DType right) {
  for (const Product& product : kProducts) {
    if (product.left == left && product.right == right) return product.function;
  }
  return nullptr;
}

}  // namespace sinter::interpreter
