#pragma once

#include <algorithm>
#include <cstdint>

namespace sinter::program {

/// Bytes of a chunk: of one row of a matrix that ldmatrix loads, and of the widest async copy.
inline constexpr int64_t kChunkBytes = 16;
/// Bytes of the banks of shared memory, and of the longest line of a tile that a tensor map fills.
inline constexpr int64_t kLineBytes = 128;
/// Most rows or columns that a copy by a tensor map has (CUDA driver API,
/// "cuTensorMapEncodeTiled").
inline constexpr int64_t kLargestBox = 256;

/// How the 16-byte chunks of a tile's rows lie in shared memory. Chunk c of row r lies where chunk
/// c ^ ((r / rows_per_line) % period) of the row would lie without permutation. Shared memory has
/// 32 banks of 4 bytes (CUDA programming guide, "Shared Memory"), a line of eight chunks. One chunk
/// each of eight consecutive rows then lies in eight different places of a line, so that ldmatrix
/// reads them without conflicts.
struct SharedLayout {
  int64_t chunks = 1;  ///< Of a row; a power of two.

  [[nodiscard]] int64_t rows_per_line() const { return std::max<int64_t>(kLineChunks / chunks, 1); }
  [[nodiscard]] int64_t period() const { return std::min(chunks, kLineChunks); }
  [[nodiscard]] int64_t place_of(int64_t row, int64_t chunk) const {
    return chunk ^ ((row / rows_per_line()) % period());
  }

 private:
  static constexpr int64_t kLineChunks = kLineBytes / kChunkBytes;
};

}  // namespace sinter::program
