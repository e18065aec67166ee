#include "scheduler/program/operand_copy.h"

#include <algorithm>

#include "scheduler/analysis/cuda_units.h"

namespace sinter::program {
namespace {

/// A loop of an operand.
struct OperandLoop {
  size_t place = 0;  ///< Among the operand's strides.
  int64_t size = 1;
};

/// Most elements of an aligned access along a loop: all accesses start at multiples of it and lie
/// inside of the loop. 0 if neighbours of the loop are not adjacent in memory.
int64_t widest_access(const TensorAccess& operand, const OperandLoop& inner) {
  if (operand.strides[inner.place] != 1) return 0;
  for (int64_t width = kMostAccessBytes / operand.element_bytes; width > 1; width /= 2) {
    bool is_aligned = inner.size % width == 0 && operand.offset % width == 0 &&
                      operand.alignment % (width * operand.element_bytes) == 0;
    for (size_t i = 0; i < operand.strides.size(); ++i)
      is_aligned = is_aligned && (i == inner.place || operand.strides[i] % width == 0);
    if (is_aligned) return width;
  }
  return 1;
}

}  // namespace

OperandCopy operand_copy(const SegmentFacts& facts, bool of_rows) {
  const IterationSpace& space = facts.space;
  const ContractedSpace& contraction = *space.contraction;
  const TensorAccess& operand = of_rows ? contraction.rows : contraction.columns;
  const size_t own_begin = of_rows ? contraction.batch_dimensions : space.row_dimensions;
  const size_t own_end = of_rows ? space.row_dimensions : space.dimensions.size();
  const int64_t contracted = widest_access(
      operand, {.place = operand.strides.size() - 1, .size = contraction.sizes.back()});
  int64_t own = 0;
  // Elements of a byte are not transposed on their way to registers (program_walks.h, check()).
  if (operand.element_bytes > 1 && own_end > own_begin)
    own =
        widest_access(operand, {.place = own_end - 1, .size = space.dimensions[own_end - 1].size});
  const int64_t width = std::max({contracted, own, int64_t{1}});
  const bool is_async = width * operand.element_bytes >= kLeastAsyncBytes;
  return {.contracted_is_inner = !is_async || contracted >= own,
          .kind = is_async ? CopyKind::kAsync : CopyKind::kPlain,
          .width = is_async ? width : 1};
}

}  // namespace sinter::program
