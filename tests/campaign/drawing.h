#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <utility>

namespace sinter {

/// Choices that depend on a seed alone, the same with every standard library.
class Chance {
 public:
  explicit Chance(uint64_t seed) : bits_(seed) {}

  /// 0 ... limit - 1. The bias of the remainder does not matter for choices.
  size_t below(size_t limit) { return static_cast<size_t>(bits_() % limit); }
  bool one_in(size_t n) { return below(n) == 0; }
  /// low ... high, both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits_() % static_cast<uint64_t>(high - low + 1));
  }
  /// 0 <= x < 1.
  double fraction() { return static_cast<double>(bits_() >> 11U) * 0x1p-53; }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  template <class T>
  const T& one_of(std::span<const T> choices) {
    return choices[below(choices.size())];
  }
  template <class Items>
  void shuffle(Items& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }
  /// The position that a weight has been drawn at.
  size_t weighted(std::span<const int> weights) {
    size_t total = 0;
    for (const int weight : weights) total += static_cast<size_t>(weight);
    size_t at = below(total);
    size_t i = 0;
    while (at >= static_cast<size_t>(weights[i])) at -= static_cast<size_t>(weights[i++]);
    return i;
  }
  uint64_t bits() { return bits_(); }

 private:
  std::mt19937_64 bits_;
};

}  // namespace sinter
