#include "runtime/interpreter/lane_functions.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "fusion_ir/error.h"
#include "fusion_ir/philox.h"
#include "runtime/interpreter/float_bits.h"

namespace sinter::interpreter {
namespace {

// ---- Values of pointwise functions

// The reference formulas of op_list.def, over T = float or double, so that every step rounds in T.
template <class T>
T sinter_ref_max(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  return a > b ? a : b;
}
template <class T>
T sinter_ref_min(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  return a < b ? a : b;
}
template <class T>
T sinter_ref_div(T a, T b) {
  return a / b;
}
template <class T>
T sinter_ref_rem(T a, T b) {
  return std::fmod(a, b);
}
// Never called: no logic or random function is defined on floats. They keep the table's formulas
// well formed.
template <class T>
T sinter_ref_not(T a) {
  return a;
}
template <class T>
T sinter_ref_and(T a, T) {
  return a;
}
template <class T>
T sinter_ref_or(T a, T) {
  return a;
}
template <class T>
T sinter_ref_xor(T a, T) {
  return a;
}
template <class T>
T sinter_ref_philox_uniform(T a, T) {
  return a;
}

/// The table's formula; but fma rounds once, as the device's does, where the reference has double's
/// precision to spare.
template <PointwiseFn kFn, class T>
auto float_value([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) {
  if constexpr (kFn == PointwiseFn::kFma) return std::fma(a, b, c);
#define SINTER_POINTWISE(enumerator, text, arity, typing, issue, special, reference, cuda) \
  if constexpr (kFn == PointwiseFn::enumerator) return reference;
#include "fusion_ir/op_list.def"
#undef SINTER_POINTWISE
}

/// Wrap-around arithmetic; bool operands are 0 or 1 in a uint8_t.
template <PointwiseFn kFn, class T, bool kIsBool>
T integer_value(T a, [[maybe_unused]] T b, [[maybe_unused]] T c) {
  using U = std::make_unsigned_t<T>;
  [[maybe_unused]] const U ua = static_cast<U>(a);
  [[maybe_unused]] const U ub = static_cast<U>(b);
  using enum PointwiseFn;
  if constexpr (kFn == kNeg) return static_cast<T>(U{0} - ua);
  if constexpr (kFn == kAbs) return static_cast<T>(a < 0 ? U{0} - ua : ua);
  if constexpr (kFn == kAdd) return static_cast<T>(ua + ub);
  if constexpr (kFn == kSub) return static_cast<T>(ua - ub);
  if constexpr (kFn == kMul) return static_cast<T>(ua * ub);
  if constexpr (kFn == kDiv) {
    if (b == 0) return 0;
    return b == T(-1) ? static_cast<T>(U{0} - ua) : static_cast<T>(a / b);
  }
  if constexpr (kFn == kRem) return b == 0 || b == T(-1) ? T{0} : static_cast<T>(a % b);
  if constexpr (kFn == kMax) return a > b ? a : b;
  if constexpr (kFn == kMin) return a < b ? a : b;
  if constexpr (kFn == kClamp) {
    const T low = a > b ? a : b;
    return low < c ? low : c;
  }
  if constexpr (kFn == kNot) return kIsBool ? static_cast<T>(a == 0) : static_cast<T>(~ua);
  if constexpr (kFn == kAnd) return static_cast<T>(ua & ub);
  if constexpr (kFn == kOr) return static_cast<T>(ua | ub);
  if constexpr (kFn == kXor) return static_cast<T>(ua ^ ub);
  if constexpr (kFn == kEq) return static_cast<T>(a == b);
  if constexpr (kFn == kNe) return static_cast<T>(a != b);
  if constexpr (kFn == kLt) return static_cast<T>(a < b);
  if constexpr (kFn == kLe) return static_cast<T>(a <= b);
  if constexpr (kFn == kGt) return static_cast<T>(a > b);
  if constexpr (kFn == kGe) return static_cast<T>(a >= b);
}

// ---- Loops over lanes

/// Elements read before any result is written, so that a result may replace an operand and the
/// compiler still gets plain loops to vectorise.
constexpr int kChunk = 8;
static_assert(kLanes % kChunk == 0);

template <class R, class T, int kArity, class Value>
void for_each_lane(std::byte* result, const std::byte* a, const std::byte* b, const std::byte* c,
                   Value value) {
  for (size_t first = 0; first < kLanes; first += kChunk) {
    std::array<T, kChunk> x;
    std::array<T, kChunk> y{};
    std::array<T, kChunk> z{};
    std::array<R, kChunk> r;
    std::memcpy(x.data(), a + first * sizeof(T), sizeof x);
    if constexpr (kArity > 1) std::memcpy(y.data(), b + first * sizeof(T), sizeof y);
    if constexpr (kArity > 2) std::memcpy(z.data(), c + first * sizeof(T), sizeof z);
    for (size_t i = 0; i < kChunk; ++i) r[i] = value(x[i], y[i], z[i]);
    std::memcpy(result + first * sizeof(R), r.data(), sizeof r);
  }
}

template <PointwiseFn kFn, class T, class R, int kArity, bool kIsBool = false>
void pointwise(std::byte* result, const std::byte* a, const std::byte* b, const std::byte* c) {
  for_each_lane<R, T, kArity>(result, a, b, c, [](T x, T y, T z) {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<R>(float_value<kFn>(x, y, z));
    } else {
      return static_cast<R>(integer_value<kFn, T, kIsBool>(x, y, z));
    }
  });
}

template <PointwiseFn kFn>
void random(std::byte* result, const std::byte* a, const std::byte* b, const std::byte*) {
  static_assert(kFn == PointwiseFn::kPhiloxUniform);
  for_each_lane<float, int64_t, 2>(result, a, b, nullptr, [](int64_t x, int64_t y, int64_t) {
    return static_cast<float>(philox_uniform(x, y));
  });
}

template <class Bits>
void select(std::byte* result, const std::byte* condition, const std::byte* a, const std::byte* b) {
  std::array<Bits, kLanes> x;
  std::array<Bits, kLanes> y;
  std::memcpy(x.data(), a, sizeof x);
  std::memcpy(y.data(), b, sizeof y);
  for (size_t i = 0; i < kLanes; ++i) x[i] = condition[i] != std::byte{0} ? x[i] : y[i];
  std::memcpy(result, x.data(), sizeof x);
}

template <class Bits>
void copy(std::byte* result, const std::byte* a, const std::byte*, const std::byte*) {
  std::memmove(result, a, kLanes * sizeof(Bits));
}

// ---- Which loop serves a function and a type

template <PointwiseFn kFn, Typing kTyping, int kArity>
LaneFunction instance_for(DType operand) {
  constexpr bool kOnFloats = kTyping == Typing::kSame || kTyping == Typing::kFloat ||
                             kTyping == Typing::kCompare || kTyping == Typing::kTest;
  constexpr bool kOnIntegers =
      kTyping == Typing::kSame || kTyping == Typing::kCompare || kTyping == Typing::kLogic;
  constexpr bool kOnBools = kTyping == Typing::kCompare || kTyping == Typing::kLogic;
  constexpr bool kGivesBool = kTyping == Typing::kCompare || kTyping == Typing::kTest;
  if constexpr (kOnFloats) {
    if (operand == DType::kF32) {
      return &pointwise<kFn, float, std::conditional_t<kGivesBool, uint8_t, float>, kArity>;
    }
    if (operand == DType::kF64) {
      return &pointwise<kFn, double, std::conditional_t<kGivesBool, uint8_t, double>, kArity>;
    }
  }
  if constexpr (kOnIntegers) {
    if (operand == DType::kI32) {
      return &pointwise<kFn, int32_t, std::conditional_t<kGivesBool, uint8_t, int32_t>, kArity>;
    }
    if (operand == DType::kI64) {
      return &pointwise<kFn, int64_t, std::conditional_t<kGivesBool, uint8_t, int64_t>, kArity>;
    }
  }
  if constexpr (kOnBools) {
    if (operand == DType::kBool) return &pointwise<kFn, uint8_t, uint8_t, kArity, true>;
  }
  if constexpr (kTyping == Typing::kRandom) {
    if (operand == DType::kI64) return &random<kFn>;
  }
  if constexpr (kTyping == Typing::kSelect) {
    switch (bytes_of(operand)) {
      case 1:
        return &select<uint8_t>;
      case 2:
        return &select<uint16_t>;
      case 4:
        return &select<uint32_t>;
      case 8:
        return &select<uint64_t>;
    }
  }
  return nullptr;
}

// ---- Casts

/// How one type is stored, and the value its conversions start from: exact in float, double or an
/// integer.
template <DType kType>
struct Storage;
template <>
struct Storage<DType::kF64> {
  using Bits = double;
  static double value(Bits bits) { return bits; }
};
template <>
struct Storage<DType::kF32> {
  using Bits = float;
  static float value(Bits bits) { return bits; }
};
template <>
struct Storage<DType::kF16> {
  using Bits = uint16_t;
  static float value(Bits bits) { return f16_to_f32(bits); }
};
template <>
struct Storage<DType::kBF16> {
  using Bits = uint16_t;
  static float value(Bits bits) { return bf16_to_f32(bits); }
};
template <>
struct Storage<DType::kF8E4M3> {
  using Bits = uint8_t;
  static float value(Bits bits) { return f8e4m3_to_f32(bits); }
};
template <>
struct Storage<DType::kF8E5M2> {
  using Bits = uint8_t;
  static float value(Bits bits) { return f8e5m2_to_f32(bits); }
};
template <>
struct Storage<DType::kI64> {
  using Bits = int64_t;
  static int64_t value(Bits bits) { return bits; }
};
template <>
struct Storage<DType::kI32> {
  using Bits = int32_t;
  static int32_t value(Bits bits) { return bits; }
};
template <>
struct Storage<DType::kI8> {
  using Bits = int8_t;
  static int32_t value(Bits bits) { return bits; }
};
template <>
struct Storage<DType::kU8> {
  using Bits = uint8_t;
  static int32_t value(Bits bits) { return bits; }
};
template <>
struct Storage<DType::kBool> {
  using Bits = uint8_t;
  static int32_t value(Bits bits) { return bits != 0 ? 1 : 0; }
};

/// Truncates towards zero and saturates; NaN gives 0.
template <class To, class From>
To to_integer(From value) {
  using Limits = std::numeric_limits<To>;
  if constexpr (std::is_floating_point_v<From>) {
    if (std::isnan(value)) return 0;
    // One past the largest integer is a power of two, hence exact in both float types.
    const From beyond = std::ldexp(From{1}, Limits::digits);
    if (value >= beyond) return Limits::max();
    if (value <= static_cast<From>(Limits::min())) return Limits::min();
    return static_cast<To>(value);
  } else {
    if (std::cmp_greater(value, Limits::max())) return Limits::max();
    if (std::cmp_less(value, Limits::min())) return Limits::min();
    return static_cast<To>(value);
  }
}

template <DType kTo, class From>
typename Storage<kTo>::Bits encode_value(From value) {
  using enum DType;
  if constexpr (kTo == kBool) {
    return value != From{0} ? 1 : 0;
  } else if constexpr (kTo == kF64 || kTo == kF32) {
    return static_cast<typename Storage<kTo>::Bits>(value);
  } else if constexpr (kTo == kF16) {
    return f32_to_f16(static_cast<float>(value));
  } else if constexpr (kTo == kBF16) {
    return f32_to_bf16(static_cast<float>(value));
  } else if constexpr (kTo == kF8E4M3) {
    return f32_to_f8e4m3(static_cast<float>(value));
  } else if constexpr (kTo == kF8E5M2) {
    return f32_to_f8e5m2(static_cast<float>(value));
  } else {
    return to_integer<typename Storage<kTo>::Bits>(value);
  }
}

template <DType kFrom, DType kTo>
void cast(std::byte* result, const std::byte* a, const std::byte*, const std::byte*) {
  using From = typename Storage<kFrom>::Bits;
  using To = typename Storage<kTo>::Bits;
  for_each_lane<To, From, 1>(result, a, nullptr, nullptr, [](From x, From, From) {
    return encode_value<kTo>(Storage<kFrom>::value(x));
  });
}

template <size_t kFrom, size_t... kTo>
constexpr std::array<LaneFunction, sizeof...(kTo)> casts_from(std::index_sequence<kTo...>) {
  return {&cast<static_cast<DType>(kFrom), static_cast<DType>(kTo)>...};
}

using TypeIndices = std::make_index_sequence<kAllDTypes.size()>;

template <size_t... kFrom>
constexpr auto all_casts(std::index_sequence<kFrom...>) {
  return std::array{casts_from<kFrom>(TypeIndices{})...};
}

}  // namespace

LaneFunction pointwise_lanes(PointwiseFn fn, DType operand) {
  switch (fn) {
#define SINTER_POINTWISE(enumerator, text, arity, typing, issue, special, reference, cuda) \
  case PointwiseFn::enumerator:                                                            \
    return instance_for<PointwiseFn::enumerator, Typing::typing, arity>(operand);
#include "fusion_ir/op_list.def"
#undef SINTER_POINTWISE
  }
  unreachable();
}

LaneFunction cast_lanes(DType from, DType to) {
  static constexpr auto kCasts = all_casts(TypeIndices{});
  return kCasts[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

LaneFunction tf32_lanes() {
  return [](std::byte* result, const std::byte* a, const std::byte*, const std::byte*) {
    constexpr uint32_t kHalf = 0x1000U;  // Of the last bit that TF32 has.
    std::array<uint32_t, kLanes> bits;
    std::memcpy(bits.data(), a, sizeof bits);
    for (uint32_t& x : bits) {
      if (std::isfinite(std::bit_cast<float>(x))) x = (x + kHalf) & ~(2 * kHalf - 1);
    }
    std::memcpy(result, bits.data(), sizeof bits);
  };
}

LaneFunction copy_lanes(int64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return &copy<uint8_t>;
    case 2:
      return &copy<uint16_t>;
    case 4:
      return &copy<uint32_t>;
    case 8:
      return &copy<uint64_t>;
  }
  unreachable();
}

}  // namespace sinter::interpreter
