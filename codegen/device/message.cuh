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

template <class T>
SINTER_DEVICE void message_wait(const unsigned long long* place, int number, T& value) {
  unsigned long long word;
  do {
    asm volatile("ld.relaxed.gpu.b64 %0, [%1];" : "=l"(word) : "l"(place) : "memory");
  } while (!has_number(word, number));
  message_value((unsigned)word, value);
}
template <class T, class U>
SINTER_DEVICE void message_wait(const unsigned long long* place, int number, T& first, U& second) {
  unsigned long long one, other;
  do {
    asm volatile("ld.relaxed.gpu.v2.b64 {%0, %1}, [%2];"
                 : "=l"(one), "=l"(other)
                 : "l"(place)
                 : "memory");
  } while (!has_number(one, number) || !has_number(other, number));
  message_value((unsigned)one, first);
  message_value((unsigned)other, second);
}
template <class T, class U, class V>
SINTER_DEVICE void message_wait(const unsigned long long* place, int number, T& first, U& second,
                                V& third) {
  message_wait(place, number, first, second);
  message_wait(place + 2, number, third);
}
template <class T, class U, class V, class W>
SINTER_DEVICE void message_wait(const unsigned long long* place, int number, T& first, U& second,
                                V& third, W& fourth) {
  message_wait(place, number, first, second);
  message_wait(place + 2, number, third, fourth);
}
