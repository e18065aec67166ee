// How the lanes of a warp load and multiply matrices together: the members of BlockExecutor that
// concern LoadMatrix and Mma.

#include <array>
#include <cstring>

#include "runtime/interpreter/block_executor.h"

namespace sinter::interpreter {

using kir::LoadMatrix;

void BlockExecutor::load_matrices(Warp* warp, const Instruction& instruction) {
  check_converged(FindingKind::kDivergentMatrix, *warp, instruction);
  SharedMemory& shared = shared_[warp->rank];
  const size_t size = instruction.element_bytes;
  const auto named = static_cast<uint32_t>(LoadMatrix::kRows * instruction.width);
  Access access = access_of(warp, instruction, instruction.buffer, instruction.a);
  access.bytes = LoadMatrix::kRowBytes;
  if (named < kLanes) access.site.mask &= (1U << named) - 1;
  LaneAddresses rows{};
  const uint32_t inside = shared.read_for_others(access, &rows);

  // What a lane receives comes from one row, or transposed each element from a row of its own.
  const size_t elements = kir::kFragmentBytes / size;
  const size_t at_once = instruction.transpose ? 1 : elements;
  access.bytes = static_cast<int64_t>(at_once * size);
  std::byte* result = warp->at(instruction.result);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (((warp->mask >> lane) & 1U) == 0) continue;
    for (size_t j = 0; j < static_cast<size_t>(instruction.width) * elements; j += at_once) {
      const size_t matrix = j / elements;
      const size_t row = instruction.transpose ? 2 * (lane % 4) + j % elements : lane / 4;
      const size_t column = instruction.transpose ? lane / 4 : lane % 4 * elements;
      const size_t source = LoadMatrix::kRows * matrix + row;
      const bool is_inside = ((inside >> source) & 1U) != 0;
      const int64_t from = rows[source] + static_cast<int64_t>(column * size);
      if (is_inside) shared.read_by(static_cast<int>(lane), access, from);
      for (size_t k = 0; k < at_once; ++k) {
        std::byte* to = result + ((j + k) * kLanes + lane) * size;
        if (is_inside) {
          std::memcpy(to, shared.data() + from + k * size, size);
        } else {
          std::memset(to, 0, size);
        }
      }
    }
  }
}

void BlockExecutor::multiply_matrices(Warp* warp, const Instruction& instruction) {
  check_converged(FindingKind::kDivergentMatrix, *warp, instruction);
  const size_t register_bytes = kLanes * size_t{instruction.element_bytes};
  std::array<std::byte, kLanes * kir::Mma::kAccumulatorGroups * kir::Mma::kAccumulatorLanes * 4>
      sum;
  std::byte* accumulator = warp->at(instruction.result);
  std::memcpy(sum.data(), accumulator, sum.size());
  instruction.function(sum.data(), warp->at(instruction.a), warp->at(instruction.b), nullptr);
  for (size_t at = 0; at < sum.size(); at += register_bytes)
    copy_active(accumulator + at, sum.data() + at, warp->mask, instruction.element_bytes);
}

}  // namespace sinter::interpreter
