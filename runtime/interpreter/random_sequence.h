#pragma once

#include <cstdint>

namespace sinter::interpreter {

/// A sequence of pseudo-random numbers that is the same on every platform: SplitMix64 (Steele, Lea,
/// Flood, "Fast splittable pseudorandom number generators", 2014).
class RandomSequence {
 public:
  /// Different streams of one seed do not depend on each other's length.
  RandomSequence(uint64_t seed, uint64_t stream) : state_(mixed(seed) ^ mixed(~stream)) {}

  uint64_t next() { return mixed(state_ += kGolden); }
  /// A number in [0, bound), bound below 2^32. Slightly uneven, which no schedule minds.
  uint64_t below(uint64_t bound) { return ((next() >> 32) * bound) >> 32; }

 private:
  static constexpr uint64_t kGolden = 0x9e37'79b9'7f4a'7c15;
  static constexpr uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace sinter::interpreter
