#pragma once

// The functions that fusion_ir/op_list.def names, for f32, f64 and, where their typing admits them,
// i32, i64 and bool. They take and return NaN, infinities and signed zeros as the C library does;
// exceptions and the largest error stand beside each. "ulp" counts units in the last place of the
// result. Bounds of instructions are those of the PTX ISA, bounds of library functions those of the
// CUDA C++ Programming Guide, "Mathematical Functions". Functions of f64 have at most 2 ulp.

#ifndef SINTER_DEVICE
#define SINTER_DEVICE __device__ __forceinline__
#endif

SINTER_DEVICE float sinter_inf_f32() { return __int_as_float(0x7f800000); }
SINTER_DEVICE float sinter_nan_f32() { return __int_as_float(0x7fc00000); }
SINTER_DEVICE double sinter_inf_f64() { return __longlong_as_double(0x7ff0000000000000LL); }
SINTER_DEVICE double sinter_nan_f64() { return __longlong_as_double(0x7ff8000000000000LL); }

// ---- Exact

SINTER_DEVICE float sinter_abs(float x) { return fabsf(x); }
SINTER_DEVICE double sinter_abs(double x) { return fabs(x); }
SINTER_DEVICE int sinter_abs(int x) { return x < 0 ? (int)(0u - (unsigned)x) : x; }
SINTER_DEVICE long long sinter_abs(long long x) {
  return x < 0 ? (long long)(0ull - (unsigned long long)x) : x;
}

SINTER_DEVICE float sinter_floor(float x) { return floorf(x); }
SINTER_DEVICE double sinter_floor(double x) { return floor(x); }
SINTER_DEVICE float sinter_ceil(float x) { return ceilf(x); }
SINTER_DEVICE double sinter_ceil(double x) { return ceil(x); }
SINTER_DEVICE float sinter_trunc(float x) { return truncf(x); }
SINTER_DEVICE double sinter_trunc(double x) { return trunc(x); }
// To nearest, ties to even.
SINTER_DEVICE float sinter_round(float x) { return rintf(x); }
SINTER_DEVICE double sinter_round(double x) { return rint(x); }

template <class T>
SINTER_DEVICE bool sinter_is_nan(T x) {
  return x != x;
}
SINTER_DEVICE bool sinter_is_finite(float x) { return fabsf(x) < sinter_inf_f32(); }
SINTER_DEVICE bool sinter_is_finite(double x) { return fabs(x) < sinter_inf_f64(); }

SINTER_DEVICE bool sinter_not(bool x) { return !x; }
SINTER_DEVICE int sinter_not(int x) { return ~x; }
SINTER_DEVICE long long sinter_not(long long x) { return ~x; }

// Either operand NaN gives NaN; 0.0 is above -0.0.
SINTER_DEVICE float sinter_max(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
SINTER_DEVICE float sinter_min(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
SINTER_DEVICE double sinter_max(double a, double b) {
  return a != a || b != b ? a + b : fmax(a, b);
}
SINTER_DEVICE double sinter_min(double a, double b) {
  return a != a || b != b ? a + b : fmin(a, b);
}
SINTER_DEVICE int sinter_max(int a, int b) { return a > b ? a : b; }
SINTER_DEVICE int sinter_min(int a, int b) { return a < b ? a : b; }
SINTER_DEVICE long long sinter_max(long long a, long long b) { return a > b ? a : b; }
SINTER_DEVICE long long sinter_min(long long a, long long b) { return a < b ? a : b; }

// One rounding.
SINTER_DEVICE float sinter_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
SINTER_DEVICE double sinter_fma(double a, double b, double c) { return __fma_rn(a, b, c); }

// ---- Division

// 2 ulp over the whole range, subnormals included. The shorter __fdividef is not used: it gives 0
// for divisors above 2^126.
SINTER_DEVICE float sinter_div(float a, float b) {
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
SINTER_DEVICE double sinter_div(double a, double b) { return a / b; }
// Truncates; division by zero gives 0, the lowest integer by -1 wraps around to itself.
template <class T>
SINTER_DEVICE T sinter_divide_integers(T a, T b) {
  return b == 0 ? 0 : b == -1 ? sinter_not(a) + 1 : a / b;
}
SINTER_DEVICE int sinter_div(int a, int b) { return sinter_divide_integers(a, b); }
SINTER_DEVICE long long sinter_div(long long a, long long b) {
  return sinter_divide_integers(a, b);
}

// Exact, with the sign of the dividend.
SINTER_DEVICE float sinter_rem(float a, float b) { return fmodf(a, b); }
SINTER_DEVICE double sinter_rem(double a, double b) { return fmod(a, b); }
// Remainder by zero gives 0.
SINTER_DEVICE int sinter_rem(int a, int b) { return b == 0 || b == -1 ? 0 : a % b; }
SINTER_DEVICE long long sinter_rem(long long a, long long b) {
  return b == 0 || b == -1 ? 0 : a % b;
}

// 1 ulp, subnormals included.
SINTER_DEVICE float sinter_reciprocal(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
SINTER_DEVICE double sinter_reciprocal(double x) { return 1.0 / x; }
// The same number for x >= 1, infinity and NaN, without asking whether x or the result is
// subnormal: neither x / 4 nor 4 / x is, and both factors are exact.
SINTER_DEVICE float sinter_reciprocal_of_one_or_more(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 0.25f));
  return y * 0.25f;
}

// ---- Roots

// Relative error 2^-23.
SINTER_DEVICE float sinter_sqrt(float x) {
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
SINTER_DEVICE double sinter_sqrt(double x) { return sqrt(x); }
// Relative error 2^-22.9.
SINTER_DEVICE float sinter_rsqrt(float x) {
  float y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
SINTER_DEVICE double sinter_rsqrt(double x) { return rsqrt(x); }

// ---- Exponentials and logarithms

// Relative error 2^-22; subnormal results are flushed to 0.
SINTER_DEVICE float sinter_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
SINTER_DEVICE double sinter_exp2(double x) { return exp2(x); }
// Relative error 1.25 * 2^-24 * |x| + 2^-22: the product with log2(e) is rounded (2^-24), and the
// constant itself is off by 0.22 * 2^-24; an absolute error d of the exponent of 2 scales the
// result by 1 + d * ln(2). Subnormal results are flushed to 0.
SINTER_DEVICE float sinter_exp(float x) { return sinter_exp2(x * 1.4426950408889634f); }
SINTER_DEVICE double sinter_exp(double x) { return exp(x); }
// 1 ulp.
SINTER_DEVICE float sinter_expm1(float x) { return expm1f(x); }
SINTER_DEVICE double sinter_expm1(double x) { return expm1(x); }
// True where lg2.approx has no relative bound, which is in [0.5, 2), or the argument is none of a
// normal positive number.
SINTER_DEVICE bool sinter_log_is_delicate(float x) {
  const unsigned bits = __float_as_uint(x);
  return (bits & 0xff000000u) == 0x3f000000u || bits - 0x00800000u >= 0x7f000000u;
}
SINTER_DEVICE float sinter_lg2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 2.6 ulp: relative error 2^-22, and the product with ln(2) rounds. Delicate arguments take the
// library's function, of 1 ulp, and 18 instructions more.
SINTER_DEVICE float sinter_log(float x) {
  if (sinter_log_is_delicate(x)) return logf(x);
  return sinter_lg2_approx(x) * 0.6931471805599453f;
}
SINTER_DEVICE double sinter_log(double x) { return log(x); }
// 2 ulp, likewise.
SINTER_DEVICE float sinter_log2(float x) {
  if (sinter_log_is_delicate(x)) return log2f(x);
  return sinter_lg2_approx(x);
}
SINTER_DEVICE double sinter_log2(double x) { return log2(x); }
// For what runs again where haste was not right: no argument is asked whether it is delicate. 1
// ulp.
SINTER_DEVICE float sinter_log_careful(float x) { return logf(x); }
SINTER_DEVICE float sinter_log2_careful(float x) { return log2f(x); }
// The same without a branch. What is delicate clears `plain`: asked of the result, that is one
// comparison for each end, and a logarithm in [1, 126] or [-126, -1] is of no other argument.
SINTER_DEVICE float sinter_log2_fast_path(float x, bool& plain) {
  const float y = sinter_lg2_approx(x);
  plain = plain & (fabsf(y) >= 1.0f) & (fabsf(y) <= 126.0f);
  return y;
}
SINTER_DEVICE float sinter_log_fast_path(float x, bool& plain) {
  return sinter_log2_fast_path(x, plain) * 0.6931471805599453f;
}
// 1 ulp.
SINTER_DEVICE float sinter_log1p(float x) { return log1pf(x); }
SINTER_DEVICE double sinter_log1p(double x) { return log1p(x); }
// 4 ulp.
SINTER_DEVICE float sinter_pow(float a, float b) { return powf(a, b); }
SINTER_DEVICE double sinter_pow(double a, double b) { return pow(a, b); }

// ---- Others, 2 ulp each

SINTER_DEVICE float sinter_sin(float x) { return sinf(x); }
SINTER_DEVICE double sinter_sin(double x) { return sin(x); }
SINTER_DEVICE float sinter_cos(float x) { return cosf(x); }
SINTER_DEVICE double sinter_cos(double x) { return cos(x); }
SINTER_DEVICE float sinter_tanh(float x) { return tanhf(x); }
SINTER_DEVICE double sinter_tanh(double x) { return tanh(x); }
SINTER_DEVICE float sinter_erf(float x) { return erff(x); }
SINTER_DEVICE double sinter_erf(double x) { return erf(x); }

// ---- Random numbers

// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, as
// fusion_ir/philox.h says: the four words of the numbers 4 block ... 4 block + 3.
struct SinterRandomBlock {
  unsigned long long block = ~0ull;  // No index has it: it would be one of 66 bits.
  long long seed = 0;
  unsigned x, y, z, w;
};

SINTER_DEVICE void sinter_philox(SinterRandomBlock& out, long long seed, unsigned long long block) {
  unsigned x = (unsigned)block;
  unsigned y = (unsigned)(block >> 32);
  unsigned z = 0u;
  unsigned w = 0u;
  unsigned key_low = (unsigned)seed;
  unsigned key_high = (unsigned)((unsigned long long)seed >> 32);
  for (int round = 0; round < 10; ++round) {
    // A product of 64 bits would be added a high word of zeros each time.
    const unsigned first_high = __umulhi(0xd2511f53u, x);
    const unsigned first_low = 0xd2511f53u * x;
    const unsigned second_high = __umulhi(0xcd9e8d57u, z);
    const unsigned second_low = 0xcd9e8d57u * z;
    x = second_high ^ y ^ key_low;
    y = second_low;
    z = first_high ^ w ^ key_high;
    w = first_low;
    key_low += 0x9e3779b9u;
    key_high += 0xbb67ae85u;
  }
  out.block = block;
  out.seed = seed;
  out.x = x;
  out.y = y;
  out.z = z;
  out.w = w;
}

// Computes the words only if `last` has others. Exact: 24 bits fit the mantissa of an f32.
SINTER_DEVICE float sinter_philox_uniform(SinterRandomBlock& last, long long seed,
                                          long long index) {
  const unsigned long long block = (unsigned long long)index >> 2;
  if (block != last.block || seed != last.seed) sinter_philox(last, seed, block);
  const unsigned place = (unsigned)index;
  const unsigned low_pair = (place & 1u) != 0u ? last.y : last.x;
  const unsigned high_pair = (place & 1u) != 0u ? last.w : last.z;
  const unsigned word = (place & 2u) != 0u ? high_pair : low_pair;
  return (float)(word >> 8) * 5.9604644775390625e-08f;  // 2^-24
}

SINTER_DEVICE float sinter_philox_uniform(long long seed, long long index) {
  SinterRandomBlock block;
  return sinter_philox_uniform(block, seed, index);
}
