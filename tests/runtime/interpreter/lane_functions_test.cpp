#include "runtime/interpreter/lane_functions.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "fusion_ir/dtype.h"
#include "fusion_ir/op.h"

namespace sinter::interpreter::lane_functions_test {

using Register = std::array<std::byte, kLanes * 8>;

template <class T>
void put(Register* lanes, const std::vector<T>& values) {
  for (size_t i = 0; i < kLanes; ++i) {
    std::memcpy(lanes->data() + i * sizeof(T), &values[i % values.size()], sizeof(T));
  }
}
template <class T>
T get(const Register& lanes, size_t lane) {
  T value{};
  std::memcpy(&value, lanes.data() + lane * sizeof(T), sizeof(T));
  return value;
}

std::vector<PointwiseFn> all_functions() {
  return {
#define SINTER_POINTWISE(enumerator, ...) PointwiseFn::enumerator,
#include "fusion_ir/op_list.def"
#undef SINTER_POINTWISE
  };
}

bool gives_bool(PointwiseFn fn) {
  const Typing typing = info_of(fn).typing;
  return typing == Typing::kCompare || typing == Typing::kTest;
}

template <class T>
void expect_integers_agree(DType type, const std::vector<T>& interesting) {
  std::mt19937_64 random(11);
  for (const PointwiseFn fn : all_functions()) {
    const LaneFunction function = pointwise_lanes(fn, type);
    const Typing typing = info_of(fn).typing;
    if (function == nullptr || typing == Typing::kSelect || typing == Typing::kRandom) continue;
    for (int round = 0; round < 50; ++round) {
      std::array<std::vector<T>, 3> operands;
      std::array<Register, 3> lanes{};
      for (size_t k = 0; k < 3; ++k) {
        for (size_t i = 0; i < kLanes; ++i) {
          operands[k].push_back(interesting[random() % interesting.size()]);
        }
        put(&lanes[k], operands[k]);
      }
      Register result{};
      function(result.data(), lanes[0].data(), lanes[1].data(), lanes[2].data());
      for (size_t i = 0; i < kLanes; ++i) {
        const int64_t expected =
            evaluate_integer(fn, type, operands[0][i], operands[1][i], operands[2][i]);
        const int64_t actual =
            gives_bool(fn) ? get<uint8_t>(result, i) : static_cast<int64_t>(get<T>(result, i));
        EXPECT_EQ(actual, expected)
            << info_of(fn).text << " " << name_of(type) << " of " << int64_t{operands[0][i]} << ", "
            << int64_t{operands[1][i]} << ", " << int64_t{operands[2][i]};
      }
    }
  }
}

TEST(LaneFunctions, IntegersFollowTheReference) {
  using I32 = std::numeric_limits<int32_t>;
  using I64 = std::numeric_limits<int64_t>;
  expect_integers_agree<int32_t>(
      DType::kI32, {0, 1, -1, 2, -2, 7, -13, 12345, I32::max(), I32::min(), I32::min() + 1});
  expect_integers_agree<int64_t>(DType::kI64, {0, 1, -1, 2, -2, 7, -13, int64_t{1} << 40,
                                               I64::max(), I64::min(), I64::min() + 1});
  expect_integers_agree<uint8_t>(DType::kBool, {0, 1});
}

/// Functions that the C library computes in the operand's own type, to within its error.
template <class T>
void expect_floats_agree(DType type) {
  std::mt19937 random(13);
  std::normal_distribution<T> normal(T{0}, T{2});
  const std::vector<T> special = {T(0),
                                  T(-0.0),
                                  T(1),
                                  T(-1),
                                  T(0.5),
                                  T(2.5),
                                  std::numeric_limits<T>::infinity(),
                                  -std::numeric_limits<T>::infinity(),
                                  std::numeric_limits<T>::quiet_NaN()};
  // glibc documents at most 4 units in the last place for these functions in both types.
  constexpr T kUnits = 4 * std::numeric_limits<T>::epsilon();
  for (const PointwiseFn fn : all_functions()) {
    const LaneFunction function = pointwise_lanes(fn, type);
    if (function == nullptr || info_of(fn).typing == Typing::kSelect) continue;
    for (int round = 0; round < 50; ++round) {
      std::array<std::vector<T>, 3> operands;
      std::array<Register, 3> lanes{};
      for (size_t k = 0; k < 3; ++k) {
        for (size_t i = 0; i < kLanes; ++i) {
          operands[k].push_back(random() % 3 == 0 ? special[random() % special.size()]
                                                  : normal(random));
        }
        put(&lanes[k], operands[k]);
      }
      Register result{};
      function(result.data(), lanes[0].data(), lanes[1].data(), lanes[2].data());
      for (size_t i = 0; i < kLanes; ++i) {
        const double expected = evaluate(fn, operands[0][i], operands[1][i], operands[2][i]);
        if (gives_bool(fn)) {
          EXPECT_EQ(get<uint8_t>(result, i), expected != 0.0 ? 1 : 0) << info_of(fn).text;
          continue;
        }
        const T actual = get<T>(result, i);
        const T rounded = static_cast<T>(expected);
        if (std::isnan(rounded)) {
          EXPECT_TRUE(std::isnan(actual)) << info_of(fn).text;
        } else if (std::isinf(rounded)) {
          EXPECT_EQ(actual, rounded) << info_of(fn).text;
        } else {
          // fma in the reference rounds the product: its error is relative to that.
          const T scale = fn == PointwiseFn::kFma
                              ? std::fabs(operands[0][i] * operands[1][i]) + std::fabs(rounded)
                              : std::fabs(rounded);
          EXPECT_LE(std::fabs(actual - rounded), kUnits * scale)
              << info_of(fn).text << " of " << operands[0][i] << ", " << operands[1][i];
        }
      }
    }
  }
}

TEST(LaneFunctions, FloatsFollowTheReference) {
  expect_floats_agree<float>(DType::kF32);
  expect_floats_agree<double>(DType::kF64);
}

TEST(LaneFunctions, RandomNumbersAreThoseOfTheReference) {
  std::mt19937_64 bits(19);
  std::vector<int64_t> seeds(kLanes);
  std::vector<int64_t> indices(kLanes);
  for (size_t i = 0; i < kLanes; ++i) {
    seeds[i] = static_cast<int64_t>(bits());
    indices[i] = i % 2 == 0 ? static_cast<int64_t>(i) : static_cast<int64_t>(bits());
  }
  Register a{}, b{};
  put(&a, seeds);
  put(&b, indices);
  // Narrower elements than the operand that they replace.
  pointwise_lanes(PointwiseFn::kPhiloxUniform, DType::kI64)(a.data(), a.data(), b.data(), nullptr);
  for (size_t i = 0; i < kLanes; ++i) {
    EXPECT_EQ(static_cast<double>(get<float>(a, i)),
              evaluate_random(PointwiseFn::kPhiloxUniform, seeds[i], indices[i]));
  }
  EXPECT_EQ(pointwise_lanes(PointwiseFn::kPhiloxUniform, DType::kI32), nullptr);
  EXPECT_EQ(pointwise_lanes(PointwiseFn::kPhiloxUniform, DType::kF64), nullptr);
}

TEST(LaneFunctions, F32RoundsEveryStepInFloat) {
  Register a{}, b{}, result{};
  put<float>(&a, {0x1p24F});
  put<float>(&b, {1.0F});
  pointwise_lanes(PointwiseFn::kAdd, DType::kF32)(result.data(), a.data(), b.data(), nullptr);
  EXPECT_EQ(get<float>(result, 5), 0x1p24F);
}

TEST(LaneFunctions, ResultMayReplaceAnOperand) {
  Register a{}, b{};
  std::vector<int32_t> values(kLanes);
  for (size_t i = 0; i < kLanes; ++i) values[i] = static_cast<int32_t>(i);
  put(&a, values);
  put(&b, values);
  pointwise_lanes(PointwiseFn::kAdd, DType::kI32)(a.data(), a.data(), b.data(), nullptr);
  // A comparison writes narrower elements over its wider operand.
  pointwise_lanes(PointwiseFn::kLt, DType::kI32)(b.data(), b.data(), a.data(), nullptr);
  for (size_t i = 0; i < kLanes; ++i) {
    EXPECT_EQ(get<int32_t>(a, i), static_cast<int32_t>(2 * i));
    EXPECT_EQ(get<uint8_t>(b, i), i > 0 ? 1 : 0);
  }
}

TEST(LaneFunctions, FunctionsStayWithinTheirTyping) {
  for (const PointwiseFn fn : all_functions()) {
    const bool for_all = info_of(fn).typing == Typing::kSelect;
    EXPECT_EQ(pointwise_lanes(fn, DType::kBF16) != nullptr, for_all) << info_of(fn).text;
    EXPECT_EQ(pointwise_lanes(fn, DType::kU8) != nullptr, for_all) << info_of(fn).text;
  }
  EXPECT_EQ(pointwise_lanes(PointwiseFn::kExp, DType::kI32), nullptr);
  EXPECT_EQ(pointwise_lanes(PointwiseFn::kAnd, DType::kF32), nullptr);
  EXPECT_EQ(pointwise_lanes(PointwiseFn::kAdd, DType::kBool), nullptr);
}

TEST(LaneFunctions, SelectTakesEitherSideInEveryWidth) {
  Register condition{}, a{}, b{}, result{};
  put<uint8_t>(&condition, {1, 0});
  for (const DType type : kAllDTypes) {
    a.fill(std::byte{0x11});
    b.fill(std::byte{0x22});
    pointwise_lanes(PointwiseFn::kSelect, type)(result.data(), condition.data(), a.data(),
                                                b.data());
    const auto size = static_cast<size_t>(bytes_of(type));
    for (size_t i = 0; i < kLanes * size; ++i) {
      EXPECT_EQ(result[i], (i / size) % 2 == 0 ? a[i] : b[i]) << name_of(type);
    }
  }
}

/// Every pair of types, on every value that pairs of types treat differently.
// TF32 has 10 bits behind the point, and the exponents of f32.
TEST(LaneFunctions, Tf32IsTheNearestOfElevenBits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto rounded = [](float x) {
    Register lanes{};
    put(&lanes, std::vector<float>{x});
    tf32_lanes()(lanes.data(), lanes.data(), nullptr, nullptr);
    return get<float>(lanes, 7);
  };
  EXPECT_EQ(rounded(1.0F + 0x1p-10F), 1.0F + 0x1p-10F);
  EXPECT_EQ(rounded(1.0F + 0x1p-12F), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0x1p-11F), 1.0F + 0x1p-10F) << "away from zero";
  EXPECT_EQ(rounded(-1.0F - 0x1p-11F), -1.0F - 0x1p-10F);
  EXPECT_EQ(rounded(1.0F + 0x1p-11F - 0x1p-23F), 1.0F);
  EXPECT_EQ(rounded(0x1p-136F), 0x1p-136F);
  EXPECT_EQ(rounded(0x1p-138F), 0.0F);
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), kInfinity);
  EXPECT_EQ(rounded(-kInfinity), -kInfinity);
  EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(0x7fffffffU))));
}

TEST(LaneFunctions, CastsFollowTheReference) {
  const std::vector<double> values = {
      0.0,    -0.0,   1.0,   -1.0,  0.4,   -0.6,   2.5,      127.9,     128.0,
      -128.9, -129.0, 255.5, 256.0, 448.0, 70000., -70000.0, 3e9,       -3e9,
      1e19,   -1e19,  1e39,  6e-8,  1e-40, NAN,    INFINITY, -INFINITY, 16777217.0};
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      for (const double value : values) {
        const uint64_t bits = encode(from, value);
        Register source{}, result{};
        const auto from_size = static_cast<size_t>(bytes_of(from));
        for (size_t i = 0; i < kLanes; ++i) {
          std::memcpy(source.data() + i * from_size, &bits, from_size);
        }
        cast_lanes(from, to)(result.data(), source.data(), nullptr, nullptr);
        uint64_t actual = 0;
        const auto to_size = static_cast<size_t>(bytes_of(to));
        std::memcpy(&actual, result.data() + 31 * to_size, to_size);
        const double expected = decode(to, encode(to, decode(from, bits)));
        const double got = decode(to, actual);
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(got)) << name_of(from) << " to " << name_of(to) << " of " << value;
        } else {
          EXPECT_EQ(got, expected) << name_of(from) << " to " << name_of(to) << " of " << value;
        }
      }
    }
  }
}

}  // namespace sinter::interpreter::lane_functions_test
