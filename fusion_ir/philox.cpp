#include "fusion_ir/philox.h"

namespace sinter {
namespace {

// The multipliers and key increments of the paper, section 4.4 and table 2; the increments are the
// golden ratio and sqrt(3) - 1 in 32 bits.
constexpr uint64_t kMultiplier0 = 0xd251'1f53;
constexpr uint64_t kMultiplier1 = 0xcd9e'8d57;
constexpr uint32_t kIncrement0 = 0x9e37'79b9;
constexpr uint32_t kIncrement1 = 0xbb67'ae85;
constexpr int kRounds = 10;

uint32_t high_word(uint64_t x) { return static_cast<uint32_t>(x >> 32U); }
uint32_t low_word(uint64_t x) { return static_cast<uint32_t>(x); }

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high_word(product1) ^ counter[1] ^ key[0], low_word(product1),
               high_word(product0) ^ counter[3] ^ key[1], low_word(product0)};
    key = {key[0] + kIncrement0, key[1] + kIncrement1};
  }
  return counter;
}

double philox_uniform(int64_t seed, int64_t index) {
  const auto key = static_cast<uint64_t>(seed);
  const auto number = static_cast<uint64_t>(index);
  const uint64_t block = number / 4;
  const auto words =
      philox4x32({low_word(block), high_word(block), 0, 0}, {low_word(key), high_word(key)});
  return static_cast<double>(words[number % 4] >> 8U) * 0x1p-24;
}

}  // namespace sinter
