#pragma once

// Register tiles and the vector accesses that fill and drain them.

#include "types.cuh"

// ---- Bits of one element

template <class T>
struct Bits {  // bf16, f16, f8e4m3, f8e5m2
  SINTER_DEVICE static T decode(unsigned bits) { return T{(decltype(T::bits))bits}; }
  SINTER_DEVICE static unsigned encode(T x) { return x.bits; }
};
template <>
struct Bits<float> {
  SINTER_DEVICE static float decode(unsigned bits) { return __uint_as_float(bits); }
  SINTER_DEVICE static unsigned encode(float x) { return __float_as_uint(x); }
};
template <>
struct Bits<int> {
  SINTER_DEVICE static int decode(unsigned bits) { return (int)bits; }
  SINTER_DEVICE static unsigned encode(int x) { return (unsigned)x; }
};
template <>
struct Bits<i8> {
  SINTER_DEVICE static i8 decode(unsigned bits) { return (i8)bits; }
  SINTER_DEVICE static unsigned encode(i8 x) { return (u8)x; }
};
template <>
struct Bits<u8> {
  SINTER_DEVICE static u8 decode(unsigned bits) { return (u8)bits; }
  SINTER_DEVICE static unsigned encode(u8 x) { return x; }
};
template <>
struct Bits<bool> {
  SINTER_DEVICE static bool decode(unsigned bits) { return (bits & 0xffu) != 0; }
  SINTER_DEVICE static unsigned encode(bool x) { return x ? 1u : 0u; }
};

// NVRTC has no built-in for it.
template <class A, class B>
inline constexpr bool kIsSame = false;
template <class A>
inline constexpr bool kIsSame<A, A> = true;

// ---- Tiles

// N elements in registers. Elements of up to four bytes live packed in 32-bit words, so that a tile
// of bf16 takes half the registers of a tile of float. Indices are constants once loops are
// unrolled; then every access is a shift or a byte permutation, or nothing.
template <class T, int N, bool kPacked = (sizeof(T) <= 4)>
struct Vec {
  static constexpr int kPerWord = 4 / (int)sizeof(T);
  static constexpr int kBits = 8 * (int)sizeof(T);
  unsigned words[(N + kPerWord - 1) / kPerWord];

  // The empty statement makes every read a value of its own to the compiler. Without it, it would
  // see that an element read before and after a barrier converts to the same float, and keep that
  // float in a register of its own across the barrier instead of its part of a word: a bf16 row
  // held for a second pass took 128 registers instead of 64, and spilled. It costs no instruction.
  SINTER_DEVICE T get(int i) const {
    unsigned word = words[i / kPerWord];
    if constexpr (kPerWord > 1 && !kIsSame<T, bool>) asm volatile("" : "+r"(word));
    return Bits<T>::decode(word >> (i % kPerWord * kBits));
  }
  SINTER_DEVICE void set(int i, T x) {
    if constexpr (kPerWord == 1) {
      words[i] = Bits<T>::encode(x);
    } else {
      const int shift = i % kPerWord * kBits;
      const unsigned mask = (1u << kBits) - 1u << shift;
      unsigned& word = words[i / kPerWord];
      word = word & ~mask | Bits<T>::encode(x) << shift;
    }
  }
};
template <class T, int N>
struct Vec<T, N, false> {  // f64, i64
  T elements[N];
  SINTER_DEVICE T get(int i) const { return elements[i]; }
  SINTER_DEVICE void set(int i, T x) { elements[i] = x; }
};

// ---- The greatest and the least element, or magnitude, in f32

// Of bf16 and f16, two to an instruction: they compare as what they convert to, and their top bit
// is the sign. NaN and zeros as in numeric.cuh.
#define SINTER_DEFINE_OF_LANES(name, instruction, mask)                                  \
  template <class T, int N>                                                              \
  SINTER_DEVICE float name(float kept, const Vec<T, N>& tile) {                          \
    unsigned word = tile.words[0] & mask;                                                \
    _Pragma("unroll") for (int i = 1; i < N / 2; ++i) {                                  \
      const unsigned other = tile.words[i] & mask;                                       \
      if constexpr (kIsSame<T, bf16>) {                                                  \
        asm(instruction ".NaN.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(word), "r"(other)); \
      } else {                                                                           \
        asm(instruction ".NaN.f16x2 %0, %1, %2;" : "=r"(word) : "r"(word), "r"(other));  \
      }                                                                                  \
    }                                                                                    \
    const unsigned halves[2] = {word & 0xffffu, word >> 16};                             \
    _Pragma("unroll") for (int i = 0; i < 2; ++i) {                                      \
      const float element = to_f32(Bits<T>::decode(halves[i]));                          \
      asm(instruction ".NaN.f32 %0, %1, %2;" : "=f"(kept) : "f"(kept), "f"(element));    \
    }                                                                                    \
    return kept;                                                                         \
  }
SINTER_DEFINE_OF_LANES(max_of_lanes, "max", 0xffffffffu)
SINTER_DEFINE_OF_LANES(min_of_lanes, "min", 0xffffffffu)
SINTER_DEFINE_OF_LANES(max_of_magnitudes, "max", 0x7fff7fffu)
SINTER_DEFINE_OF_LANES(min_of_magnitudes, "min", 0x7fff7fffu)
#undef SINTER_DEFINE_OF_LANES

// ---- What one access moves: 1, 2, 4, 8 or 16 bytes in words

template <int kBytes>
struct Packet {
  unsigned words[(kBytes + 3) / 4];
};

// Elements [lane, lane + W) of a tile from a packet. `lane` is a multiple of W.
template <int W, class T, int N>
SINTER_DEVICE void unpack(Vec<T, N>& tile, int lane, const Packet<W*(int)sizeof(T)>& packet) {
  constexpr int kBytes = W * (int)sizeof(T);
  if constexpr (sizeof(T) == 8) {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const unsigned long long bits =
          (unsigned long long)packet.words[2 * i + 1] << 32 | packet.words[2 * i];
      if constexpr (((T)0.5) == 0) {
        tile.elements[lane + i] = (T)bits;
      } else {
        tile.elements[lane + i] = __longlong_as_double((long long)bits);
      }
    }
  } else if constexpr (kBytes >= 4) {
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) {
      tile.words[lane * (int)sizeof(T) / 4 + i] = packet.words[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      tile.set(lane + i, Bits<T>::decode(packet.words[0] >> (i * 8 * (int)sizeof(T))));
    }
  }
}

// The reverse.
template <int W, class T, int N>
SINTER_DEVICE Packet<W*(int)sizeof(T)> pack(const Vec<T, N>& tile, int lane) {
  constexpr int kBytes = W * (int)sizeof(T);
  Packet<kBytes> packet;
  if constexpr (sizeof(T) == 8) {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      unsigned long long bits;
      if constexpr (((T)0.5) == 0) {
        bits = (unsigned long long)tile.elements[lane + i];
      } else {
        bits = (unsigned long long)__double_as_longlong(tile.elements[lane + i]);
      }
      packet.words[2 * i] = (unsigned)bits;
      packet.words[2 * i + 1] = (unsigned)(bits >> 32);
    }
  } else if constexpr (kBytes >= 4) {
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) {
      packet.words[i] = tile.words[lane * (int)sizeof(T) / 4 + i];
    }
  } else {
    packet.words[0] = 0;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      packet.words[0] |= Bits<T>::encode(tile.get(lane + i)) << (i * 8 * (int)sizeof(T));
    }
  }
  return packet;
}

// Elements of compute type S rounded to T on their way into a packet: two at a time, or four where
// they are bytes and integers.
template <class T>
struct Round;
template <>
struct Round<bf16> {
  SINTER_DEVICE static bf16 one(float x) { return to_bf16(x); }
  SINTER_DEVICE static unsigned pair(float low, float high) { return pack_bf16(low, high); }
};
template <>
struct Round<f16> {
  SINTER_DEVICE static f16 one(float x) { return to_f16(x); }
  SINTER_DEVICE static unsigned pair(float low, float high) { return pack_f16(low, high); }
};
template <>
struct Round<f8e4m3> {
  SINTER_DEVICE static f8e4m3 one(float x) { return to_f8e4m3(x); }
  SINTER_DEVICE static unsigned pair(float low, float high) { return pack_f8e4m3(low, high); }
};
template <>
struct Round<f8e5m2> {
  SINTER_DEVICE static f8e5m2 one(float x) { return to_f8e5m2(x); }
  SINTER_DEVICE static unsigned pair(float low, float high) { return pack_f8e5m2(low, high); }
};
template <>
struct Round<i8> {
  SINTER_DEVICE static i8 one(int x) { return to_i8(x); }
  SINTER_DEVICE static unsigned four(int a, int b, int c, int d) { return pack_i8(a, b, c, d); }
};
template <>
struct Round<u8> {
  SINTER_DEVICE static u8 one(int x) { return to_u8(x); }
  SINTER_DEVICE static unsigned four(int a, int b, int c, int d) { return pack_u8(a, b, c, d); }
};

template <int W, class T, class S, int N>
SINTER_DEVICE Packet<W*(int)sizeof(T)> pack_as(const Vec<S, N>& tile, int lane) {
  if constexpr (kIsSame<T, S>) {
    return pack<W>(tile, lane);
  } else {
    constexpr int kBits = 8 * (int)sizeof(T);
    Packet<W*(int)sizeof(T)> packet = {};
    if constexpr (W == 1) {
      packet.words[0] = Bits<T>::encode(Round<T>::one(tile.get(lane)));
    } else if constexpr (kIsSame<S, int> && W == 2) {
      packet.words[0] = Round<T>::four(tile.get(lane), tile.get(lane + 1), 0, 0);
    } else if constexpr (kIsSame<S, int>) {
#pragma unroll
      for (int i = 0; i < W; i += 4) {
        packet.words[i / 4] = Round<T>::four(tile.get(lane + i), tile.get(lane + i + 1),
                                             tile.get(lane + i + 2), tile.get(lane + i + 3));
      }
    } else {
#pragma unroll
      for (int i = 0; i < W; i += 2) {
        packet.words[i * kBits / 32] |= Round<T>::pair(tile.get(lane + i), tile.get(lane + i + 1))
                                        << (i * kBits % 32);
      }
    }
    return packet;
  }
}

// ---- Packets in memory
//
// Global loads are volatile only in that they stay in the order in which they were written, so that
// all loads of a row are issued before the first is used. One with a guard is an instruction under
// a predicate, and leaves what was there where the guard is false: behind a branch it would be
// issued when what stands before the branch is done, and that waits for the loads before it.

#define SINTER_PREDICATED(guard, load) \
  "{\n.reg .pred wanted;\nsetp.ne.s32 wanted, " guard ", 0;\n@wanted " load "\n}"

#define SINTER_DEFINE_LOAD(name, instruction, ...)                                             \
  template <int kBytes>                                                                        \
  SINTER_DEVICE Packet<kBytes> name(const void* address) {                                     \
    Packet<kBytes> p;                                                                          \
    if constexpr (kBytes == 16) {                                                              \
      asm volatile(instruction ".v4.u32 {%0, %1, %2, %3}, [%4];"                               \
                   : "=r"(p.words[0]), "=r"(p.words[1]), "=r"(p.words[2]), "=r"(p.words[3])    \
                   : "l"(address)__VA_ARGS__);                                                 \
    } else if constexpr (kBytes == 8) {                                                        \
      asm volatile(instruction ".v2.u32 {%0, %1}, [%2];"                                       \
                   : "=r"(p.words[0]), "=r"(p.words[1])                                        \
                   : "l"(address)__VA_ARGS__);                                                 \
    } else if constexpr (kBytes == 4) {                                                        \
      asm volatile(instruction ".u32 %0, [%1];" : "=r"(p.words[0]) : "l"(address)__VA_ARGS__); \
    } else if constexpr (kBytes == 2) {                                                        \
      asm volatile(instruction ".u16 %0, [%1];" : "=r"(p.words[0]) : "l"(address)__VA_ARGS__); \
    } else {                                                                                   \
      static_assert(kBytes == 1, "an access moves 1, 2, 4, 8 or 16 bytes");                    \
      asm volatile(instruction ".u8 %0, [%1];" : "=r"(p.words[0]) : "l"(address)__VA_ARGS__);  \
    }                                                                                          \
    return p;                                                                                  \
  }                                                                                            \
  template <int kBytes>                                                                        \
  SINTER_DEVICE Packet<kBytes> name(const void* address, Packet<kBytes> p, bool guard) {       \
    if constexpr (kBytes == 16) {                                                              \
      asm volatile(SINTER_PREDICATED("%5", instruction ".v4.u32 {%0, %1, %2, %3}, [%4];")      \
                   : "+r"(p.words[0]), "+r"(p.words[1]), "+r"(p.words[2]), "+r"(p.words[3])    \
                   : "l"(address), "r"((int)guard)__VA_ARGS__);                                \
    } else if constexpr (kBytes == 8) {                                                        \
      asm volatile(SINTER_PREDICATED("%3", instruction ".v2.u32 {%0, %1}, [%2];")              \
                   : "+r"(p.words[0]), "+r"(p.words[1])                                        \
                   : "l"(address), "r"((int)guard)__VA_ARGS__);                                \
    } else if constexpr (kBytes == 4) {                                                        \
      asm volatile(SINTER_PREDICATED("%2", instruction ".u32 %0, [%1];")                       \
                   : "+r"(p.words[0])                                                          \
                   : "l"(address), "r"((int)guard)__VA_ARGS__);                                \
    } else if constexpr (kBytes == 2) {                                                        \
      asm volatile(SINTER_PREDICATED("%2", instruction ".u16 %0, [%1];")                       \
                   : "+r"(p.words[0])                                                          \
                   : "l"(address), "r"((int)guard)__VA_ARGS__);                                \
    } else {                                                                                   \
      static_assert(kBytes == 1, "an access moves 1, 2, 4, 8 or 16 bytes");                    \
      asm volatile(SINTER_PREDICATED("%2", instruction ".u8 %0, [%1];")                        \
                   : "+r"(p.words[0])                                                          \
                   : "l"(address), "r"((int)guard)__VA_ARGS__);                                \
    }                                                                                          \
    return p;                                                                                  \
  }

// Data that no thread of the kernel writes goes through the read-only path.
SINTER_DEFINE_LOAD(load_packet, "ld.global.nc")
SINTER_DEFINE_LOAD(load_packet_written, "ld.global", : "memory")
#undef SINTER_DEFINE_LOAD

SINTER_DEVICE unsigned long long evict_first_policy() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
SINTER_DEVICE unsigned long long evict_last_policy() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Only whole vectors carry the policy: narrower accesses are heads and tails.
#define SINTER_DEFINE_LOAD(name, plain, instruction, policy, ...)                              \
  template <int kBytes>                                                                        \
  SINTER_DEVICE Packet<kBytes> name(const void* address) {                                     \
    if constexpr (kBytes != 16) {                                                              \
      return plain<kBytes>(address);                                                           \
    } else {                                                                                   \
      Packet<kBytes> p;                                                                        \
      asm volatile(instruction ".L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"            \
                   : "=r"(p.words[0]), "=r"(p.words[1]), "=r"(p.words[2]), "=r"(p.words[3])    \
                   : "l"(address), "l"(policy())__VA_ARGS__);                                  \
      return p;                                                                                \
    }                                                                                          \
  }                                                                                            \
  template <int kBytes>                                                                        \
  SINTER_DEVICE Packet<kBytes> name(const void* address, Packet<kBytes> p, bool guard) {       \
    if constexpr (kBytes != 16) {                                                              \
      return plain<kBytes>(address, p, guard);                                                 \
    } else {                                                                                   \
      asm volatile(SINTER_PREDICATED(                                                          \
                       "%6", instruction ".L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;") \
                   : "+r"(p.words[0]), "+r"(p.words[1]), "+r"(p.words[2]), "+r"(p.words[3])    \
                   : "l"(address), "l"(policy()), "r"((int)guard)__VA_ARGS__);                 \
      return p;                                                                                \
    }                                                                                          \
  }
SINTER_DEFINE_LOAD(load_packet_evict_first, load_packet, "ld.global.nc", evict_first_policy)
SINTER_DEFINE_LOAD(load_packet_evict_last, load_packet, "ld.global.nc", evict_last_policy)
SINTER_DEFINE_LOAD(load_packet_written_evict_first, load_packet_written, "ld.global",
                   evict_first_policy,
                   : "memory")
SINTER_DEFINE_LOAD(load_packet_written_evict_last, load_packet_written, "ld.global",
                   evict_last_policy,
                   : "memory")
#undef SINTER_DEFINE_LOAD
#undef SINTER_PREDICATED

#define SINTER_DEFINE_STORE(name, instruction)                                                    \
  template <int kBytes>                                                                           \
  SINTER_DEVICE void name(void* address, const Packet<kBytes>& p) {                               \
    if constexpr (kBytes == 16) {                                                                 \
      asm volatile(instruction ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(p.words[0]), \
                   "r"(p.words[1]), "r"(p.words[2]), "r"(p.words[3])                              \
                   : "memory");                                                                   \
    } else if constexpr (kBytes == 8) {                                                           \
      asm volatile(instruction ".v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(p.words[0]),         \
                   "r"(p.words[1])                                                                \
                   : "memory");                                                                   \
    } else if constexpr (kBytes == 4) {                                                           \
      asm volatile(instruction ".u32 [%0], %1;" ::"l"(address), "r"(p.words[0]) : "memory");      \
    } else if constexpr (kBytes == 2) {                                                           \
      asm volatile(instruction ".u16 [%0], %1;" ::"l"(address), "h"((unsigned short)p.words[0])   \
                   : "memory");                                                                   \
    } else {                                                                                      \
      static_assert(kBytes == 1, "an access moves 1, 2, 4, 8 or 16 bytes");                       \
      asm volatile(instruction ".u8 [%0], %1;" ::"l"(address), "r"(p.words[0]) : "memory");       \
    }                                                                                             \
  }

SINTER_DEFINE_STORE(store_packet, "st.global")
#undef SINTER_DEFINE_STORE

template <int kBytes>
SINTER_DEVICE Packet<kBytes> load_packet_shared(const void* address) {
  Packet<kBytes> p;
  if constexpr (kBytes == 16) {
    const uint4 w = *(const uint4*)address;
    p.words[0] = w.x;
    p.words[1] = w.y;
    p.words[2] = w.z;
    p.words[3] = w.w;
  } else if constexpr (kBytes == 8) {
    const uint2 w = *(const uint2*)address;
    p.words[0] = w.x;
    p.words[1] = w.y;
  } else if constexpr (kBytes == 4) {
    p.words[0] = *(const unsigned*)address;
  } else if constexpr (kBytes == 2) {
    p.words[0] = *(const unsigned short*)address;
  } else {
    static_assert(kBytes == 1, "an access moves 1, 2, 4, 8 or 16 bytes");
    p.words[0] = *(const unsigned char*)address;
  }
  return p;
}

template <int kBytes>
SINTER_DEVICE void store_packet_shared(void* address, const Packet<kBytes>& p) {
  if constexpr (kBytes == 16) {
    *(uint4*)address = make_uint4(p.words[0], p.words[1], p.words[2], p.words[3]);
  } else if constexpr (kBytes == 8) {
    *(uint2*)address = make_uint2(p.words[0], p.words[1]);
  } else if constexpr (kBytes == 4) {
    *(unsigned*)address = p.words[0];
  } else if constexpr (kBytes == 2) {
    *(unsigned short*)address = (unsigned short)p.words[0];
  } else {
    static_assert(kBytes == 1, "an access moves 1, 2, 4, 8 or 16 bytes");
    *(unsigned char*)address = (unsigned char)p.words[0];
  }
}

// ---- What kernels call: W elements from memory into a tile at `lane`, or one into a scalar, and
// back. The address is a multiple of min(16, W * sizeof(T)).
//
//   load_global              from a buffer that the kernel only reads
//   load_global_evict_first  the same; what it brings to L2 leaves L2 first
//   load_global_evict_last   the same; what it brings to L2 leaves L2 last
//   load_written             from a buffer that the kernel also writes
//   load_written_evict_*     the same, with those hints
//
// A load into a tile takes a guard as well.

#define SINTER_DEFINE_ACCESS(load, load_packet)                          \
  template <int W, class T, int N>                                       \
  SINTER_DEVICE void load(Vec<T, N>& tile, int lane, const T* address) { \
    unpack<W>(tile, lane, load_packet<W*(int)sizeof(T)>(address));       \
  }                                                                      \
  template <class T>                                                     \
  SINTER_DEVICE T load(const T* address) {                               \
    Vec<T, 1> element;                                                   \
    load<1>(element, 0, address);                                        \
    return element.get(0);                                               \
  }
#define SINTER_DEFINE_GUARDED_ACCESS(load, load_packet)                                        \
  SINTER_DEFINE_ACCESS(load, load_packet)                                                      \
  template <int W, class T, int N>                                                             \
  SINTER_DEVICE void load(Vec<T, N>& tile, int lane, const T* address, bool guard) {           \
    unpack<W>(tile, lane, load_packet<W*(int)sizeof(T)>(address, pack<W>(tile, lane), guard)); \
  }
SINTER_DEFINE_GUARDED_ACCESS(load_global, load_packet)
SINTER_DEFINE_GUARDED_ACCESS(load_global_evict_first, load_packet_evict_first)
SINTER_DEFINE_GUARDED_ACCESS(load_global_evict_last, load_packet_evict_last)
SINTER_DEFINE_GUARDED_ACCESS(load_written, load_packet_written)
SINTER_DEFINE_GUARDED_ACCESS(load_written_evict_first, load_packet_written_evict_first)
SINTER_DEFINE_GUARDED_ACCESS(load_written_evict_last, load_packet_written_evict_last)
#undef SINTER_DEFINE_GUARDED_ACCESS
SINTER_DEFINE_ACCESS(load_shared, load_packet_shared)
#undef SINTER_DEFINE_ACCESS

#define SINTER_DEFINE_ACCESS(store, store_packet)                         \
  template <int W, class T, class S, int N>                               \
  SINTER_DEVICE void store(T* address, const Vec<S, N>& tile, int lane) { \
    store_packet(address, pack_as<W, T>(tile, lane));                     \
  }                                                                       \
  template <class T, class S>                                             \
  SINTER_DEVICE void store(T* address, S value) {                         \
    Vec<S, 1> element;                                                    \
    element.set(0, value);                                                \
    store<1>(address, element, 0);                                        \
  }
SINTER_DEFINE_ACCESS(store_global, store_packet)
SINTER_DEFINE_ACCESS(store_shared, store_packet_shared)
#undef SINTER_DEFINE_ACCESS
