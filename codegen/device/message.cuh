#pragma once

// Messages between the blocks of a team through global memory: values of 4 bytes, each with a
// number. Instructions after the PTX ISA 6.0, "ld", "st" and "Memory Consistency Model": a relaxed
// access of 8 bytes at the scope of the device is one operation, so a value and its number arrive
// together; a vector of two is two operations.

#include "types.cuh"

// Place `place` of block `block` of this block's team. Each block has Places of 8 bytes.
template <int Team, int Places>
SINTER_DEVICE unsigned long long* message_place(int* mail, int block, int place) {
  const long long first = (int)blockIdx.x / Team * Team;
  return reinterpret_cast<unsigned long long*>(mail) + ((first + block) * Places + place);
}

SINTER_DEVICE unsigned message_bits(float value) { return __float_as_uint(value); }
SINTER_DEVICE unsigned message_bits(int value) { return (unsigned)value; }
SINTER_DEVICE void message_value(unsigned bits, float& value) { value = __uint_as_float(bits); }
SINTER_DEVICE void message_value(unsigned bits, int& value) { value = (int)bits; }

SINTER_DEVICE unsigned long long message_word(unsigned bits, int number) {
  return (unsigned long long)(unsigned)number << 32 | bits;
}
SINTER_DEVICE bool has_number(unsigned long long word, int number) {
  return (int)(word >> 32) == number;
}

template <class T>
SINTER_DEVICE void message_store(unsigned long long* place, int number, T value) {
  asm volatile("st.relaxed.gpu.b64 [%0], %1;" ::"l"(place),
               "l"(message_word(message_bits(value), number))
               : "memory");
}
template <class T, class U>
SINTER_DEVICE void message_store(unsigned long long* place, int number, T first, U second) {
  asm volatile("st.relaxed.gpu.v2.b64 [%0], {%1, %2};" ::"l"(place),
               "l"(message_word(message_bits(first), number)),
               "l"(message_word(message_bits(second), number))
               : "memory");
}
template <class T, class U, class V>
SINTER_DEVICE void message_store(unsigned long long* place, int number, T first, U second,
                                 V third) {
  message_store(place, number, first, second);
  message_store(place + 2, number, third);
}
template <class T, class U, class V, class W>
SINTER_DEVICE void message_store(unsigned long long* place, int number, T first, U second, V third,
                                 W fourth) {
  message_store(place, number, first, second);
  message_store(place + 2, number, third, fourth);
}

// Between two tries to take a message. Source: docs/experiments/messages.md.
constexpr unsigned kPauseNs = 64;

// Adjacent messages, two to an access. All accesses of a try are on their way at once.
template <int Count>
SINTER_DEVICE void message_words(const unsigned long long* place, int number,
                                 unsigned long long (&words)[Count]) {
  bool all;
  do {
#pragma unroll
    for (int i = 0; i + 1 < Count; i += 2) {
      asm volatile("ld.relaxed.gpu.v2.b64 {%0, %1}, [%2];"
                   : "=l"(words[i]), "=l"(words[i + 1])
                   : "l"(place + i)
                   : "memory");
    }
    if constexpr (Count % 2 == 1) {
      asm volatile("ld.relaxed.gpu.b64 %0, [%1];"
                   : "=l"(words[Count - 1])
                   : "l"(place + (Count - 1))
                   : "memory");
    }
    all = true;
#pragma unroll
    for (int i = 0; i < Count; ++i) all = all && has_number(words[i], number);
    // Tries of the waiting warps take issue slots and L2 that the products of the SM need.
    if (!all) __nanosleep(kPauseNs);
  } while (!all);
}

template <class... T>
SINTER_DEVICE void message_wait(const unsigned long long* place, int number, T&... values) {
  unsigned long long words[sizeof...(T)];
  message_words(place, number, words);
  int i = 0;
  (message_value((unsigned)words[i++], values), ...);
}
