#pragma once

// Element types that are stored but not computed in, and the conversions between all element types.
// They mean what fusion_ir/op.h and fusion_ir/dtype.h say: to a narrower float rounds to nearest,
// ties to even; to an 8-bit float and to an integer saturates; a float truncates towards zero on
// its way to an integer, and NaN becomes 0; to bool is x != 0.

#if __CUDA_ARCH__ < 800
#error "Sinter needs compute capability 8.0 or newer"
#endif

#define SINTER_DEVICE __device__ __forceinline__

struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};
struct f8e4m3 {
  unsigned char bits;
};
struct f8e5m2 {
  unsigned char bits;
};
typedef signed char i8;
typedef unsigned char u8;

// ---- To f32; exact from every storage type

SINTER_DEVICE float to_f32(float x) { return x; }
SINTER_DEVICE float to_f32(double x) { return __double2float_rn(x); }
SINTER_DEVICE float to_f32(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
SINTER_DEVICE float to_f32(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
// The four exponent bits land in the low exponent bits of an f16, whose bias is larger by 8; that
// also serves subnormals. NaN is 0x7f; there is no infinity.
SINTER_DEVICE float to_f32(f8e4m3 x) {
  const unsigned magnitude = x.bits & 0x7fu;
  const unsigned sign = (x.bits & 0x80u) << 8;
  const float y = 256.0f * to_f32(f16{(unsigned short)(magnitude << 7 | sign)});
  return magnitude == 0x7fu ? __int_as_float(0x7fffffff) : y;
}
// The upper byte of an f16.
SINTER_DEVICE float to_f32(f8e5m2 x) { return to_f32(f16{(unsigned short)(x.bits << 8)}); }
SINTER_DEVICE float to_f32(long long x) { return __ll2float_rn(x); }
SINTER_DEVICE float to_f32(int x) { return __int2float_rn(x); }
SINTER_DEVICE float to_f32(i8 x) { return __int2float_rn(x); }
SINTER_DEVICE float to_f32(u8 x) { return __int2float_rn(x); }
SINTER_DEVICE float to_f32(bool x) { return x ? 1.0f : 0.0f; }

// ---- To f64

SINTER_DEVICE double to_f64(double x) { return x; }
SINTER_DEVICE double to_f64(long long x) { return __ll2double_rn(x); }
SINTER_DEVICE double to_f64(int x) { return __int2double_rn(x); }
template <class T>
SINTER_DEVICE double to_f64(T x) {
  return (double)to_f32(x);
}

// ---- To storage floats, through f32

SINTER_DEVICE bf16 to_bf16(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
SINTER_DEVICE f16 to_f16(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

// Two conversions in one word: `low` in the low half.
SINTER_DEVICE unsigned pack_bf16(float low, float high) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
SINTER_DEVICE unsigned pack_f16(float low, float high) {
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

#if __CUDA_ARCH__ >= 890
SINTER_DEVICE unsigned short pack_f8e4m3(float low, float high) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
SINTER_DEVICE unsigned short pack_f8e5m2(float low, float high) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
#else
// Rounds to a float of `kMantissa` mantissa bits and exponent bias `kBias` in integer arithmetic.
// Below the smallest normal number the quantum is fixed, so scaling makes the code an integer.
template <int kMantissa, int kBias>
SINTER_DEVICE unsigned round_to_f8(float x, float largest) {
  const unsigned sign = __float_as_uint(x) >> 24 & 0x80u;
  if (x != x) return 0x7fu | sign;
  const float magnitude = fminf(fabsf(x), largest);
  const float smallest_normal = __uint_as_float((unsigned)(128 - kBias) << 23);
  if (magnitude < smallest_normal) {
    const float per_quantum = __uint_as_float((unsigned)(126 + kBias + kMantissa) << 23);
    return __float2uint_rn(magnitude * per_quantum) | sign;
  }
  constexpr int kDropped = 23 - kMantissa;
  unsigned bits = __float_as_uint(magnitude);
  bits += (1u << (kDropped - 1)) - 1u + (bits >> kDropped & 1u);
  return (bits >> kDropped) - ((unsigned)(127 - kBias) << kMantissa) | sign;
}
SINTER_DEVICE unsigned short pack_f8e4m3(float low, float high) {
  return (unsigned short)(round_to_f8<3, 7>(low, 448.0f) | round_to_f8<3, 7>(high, 448.0f) << 8);
}
SINTER_DEVICE unsigned short pack_f8e5m2(float low, float high) {
  return (unsigned short)(round_to_f8<2, 15>(low, 57344.0f) | round_to_f8<2, 15>(high, 57344.0f)
                                                                  << 8);
}
#endif

SINTER_DEVICE f8e4m3 to_f8e4m3(float x) { return f8e4m3{(unsigned char)pack_f8e4m3(x, 0.0f)}; }
SINTER_DEVICE f8e5m2 to_f8e5m2(float x) { return f8e5m2{(unsigned char)pack_f8e5m2(x, 0.0f)}; }

template <class T>
SINTER_DEVICE bf16 to_bf16(T x) {
  return to_bf16(to_f32(x));
}
template <class T>
SINTER_DEVICE f16 to_f16(T x) {
  return to_f16(to_f32(x));
}
template <class T>
SINTER_DEVICE f8e4m3 to_f8e4m3(T x) {
  return to_f8e4m3(to_f32(x));
}
template <class T>
SINTER_DEVICE f8e5m2 to_f8e5m2(T x) {
  return to_f8e5m2(to_f32(x));
}

// ---- To integers. The conversion instructions saturate, and give 0 for the NaN of an f32 when the
// result has 32 bits; the other cases of NaN need a test (PTX ISA, "cvt").

SINTER_DEVICE int to_i32(int x) { return x; }
SINTER_DEVICE int to_i32(i8 x) { return x; }
SINTER_DEVICE int to_i32(u8 x) { return x; }
SINTER_DEVICE int to_i32(bool x) { return x; }
SINTER_DEVICE int to_i32(float x) { return __float2int_rz(x); }
SINTER_DEVICE int to_i32(double x) { return x != x ? 0 : __double2int_rz(x); }
SINTER_DEVICE int to_i32(long long x) {
  int y;
  asm("cvt.sat.s32.s64 %0, %1;" : "=r"(y) : "l"(x));
  return y;
}
template <class T>
SINTER_DEVICE int to_i32(T x) {
  return to_i32(to_f32(x));
}

SINTER_DEVICE long long to_i64(long long x) { return x; }
SINTER_DEVICE long long to_i64(int x) { return x; }
SINTER_DEVICE long long to_i64(i8 x) { return x; }
SINTER_DEVICE long long to_i64(u8 x) { return x; }
SINTER_DEVICE long long to_i64(bool x) { return x; }
SINTER_DEVICE long long to_i64(float x) { return x != x ? 0 : __float2ll_rz(x); }
SINTER_DEVICE long long to_i64(double x) { return x != x ? 0 : __double2ll_rz(x); }
template <class T>
SINTER_DEVICE long long to_i64(T x) {
  return to_i64(to_f32(x));
}

template <class T>
SINTER_DEVICE i8 to_i8(T x) {
  const int y = to_i32(x);
  return (i8)(y < -128 ? -128 : y > 127 ? 127 : y);
}
template <class T>
SINTER_DEVICE u8 to_u8(T x) {
  const int y = to_i32(x);
  return (u8)(y < 0 ? 0 : y > 255 ? 255 : y);
}

// Four conversions in one word: `a` in the low byte.
SINTER_DEVICE unsigned pack_i8(int a, int b, int c, int d) {
  unsigned word;
  asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(d), "r"(c), "r"(0));
  asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(b), "r"(a), "r"(word));
  return word;
}
SINTER_DEVICE unsigned pack_u8(int a, int b, int c, int d) {
  unsigned word;
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(d), "r"(c), "r"(0));
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(b), "r"(a), "r"(word));
  return word;
}

// ---- To bool

SINTER_DEVICE bool to_bool(bool x) { return x; }
SINTER_DEVICE bool to_bool(int x) { return x != 0; }
SINTER_DEVICE bool to_bool(i8 x) { return x != 0; }
SINTER_DEVICE bool to_bool(u8 x) { return x != 0; }
SINTER_DEVICE bool to_bool(long long x) { return x != 0; }
SINTER_DEVICE bool to_bool(double x) { return x != 0.0; }
template <class T>
SINTER_DEVICE bool to_bool(T x) {
  return to_f32(x) != 0.0f;
}
