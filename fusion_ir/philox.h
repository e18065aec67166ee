#pragma once

#include <array>
#include <cstdint>

namespace sinter {

/// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11: four random
/// words that depend on nothing but the counter and the key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// What the pointwise function philox_uniform gives: a multiple of 2^-24 in [0, 1), exact in f32.
/// The halves of `seed` are the key, those of index / 4 (unsigned) the low words of the counter,
/// and index % 4 picks the word, whose upper 24 bits count.
double philox_uniform(int64_t seed, int64_t index);

}  // namespace sinter
