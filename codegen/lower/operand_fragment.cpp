#include "codegen/lower/operand_fragment.h"

#include "codegen/lower/fragment_product.h"
#include "codegen/lower/tf32_parts.h"
#include "scheduler/analysis/cuda_units.h"

namespace sinter {

using kir::ExprId;

namespace {

/// Rows of one matrix of a matrix load, and elements of a row where they have 2 bytes.
constexpr int64_t kMatrix = kir::LoadMatrix::kRows;
/// Matrices of one load.
constexpr int64_t kMatrices = kir::Mma::kLeftGroups;
static_assert(kMatrices == 2 * kir::Mma::kRightGroups);

}  // namespace

OperandFragment::OperandFragment(const ProgramScope& scope, program::TileId tile,
                                 program::AxisId own, bool is_left, int64_t groups)
    : scope_(scope),
      tile_(scope.tile(tile)),
      shared_(scope.shared.at(tile)),
      registers_(scope.builder.declare_tile(tile_.name + "_part", tile_.type, groups,
                                            kRegisterBytes / bytes_of(tile_.type))),
      groups_(groups),
      is_transposed_(tile_.columns.axis == own),
      is_left_(is_left) {}

void OperandFragment::load(ExprId stage, ExprId k, ExprId own, ExprId group) const {
  if (is_transposed_ && bytes_of(tile_.type) > 2) return load_words(stage, k, own, group);
  // Lane l gives row l % 8 of matrix l / 8. Matrices 0 to 3 are registers 0 to 3 of a left operand:
  // rows 0 and 8, then the same of the second half of k. Of right operands they are the halves of k
  // of the first eight columns, then of the next eight.
  kir::KernelBuilder& b = scope_.builder;
  const ExprId in_matrix = scope_.remainder(scope_.lane, kMatrix);
  const ExprId matrix = b.div(scope_.lane, scope_.i32(kMatrix));
  const ExprId low = scope_.remainder(matrix, 2);
  const ExprId high = b.div(matrix, scope_.i32(2));
  const ExprId own_half = is_left_ ? low : high;  // Which eight elements of the own axis.
  const ExprId k_half = is_left_ ? high : low;
  const int64_t of_chunk = chunk_elements(tile_);
  ExprId row;
  ExprId chunk;
  if (is_transposed_) {
    const ExprId k_begin = b.mul(k, scope_.i32(step_elements()));
    row = b.add(k_begin, b.add(b.mul(k_half, scope_.i32(kMatrix)), in_matrix));
    chunk = b.add(b.div(own, scope_.i32(of_chunk)), own_half);
  } else {
    row = b.add(own, b.add(b.mul(own_half, scope_.i32(kMatrix)), in_matrix));
    chunk = b.add(b.mul(k, scope_.i32(2)), k_half);  // k has 32 bytes.
  }
  // A row may have several lines, whose blocks follow each other.
  const int64_t line_chunks = tile_.line_columns() / of_chunk;
  ExprId block_begin = scope_.i32(0);
  if (tile_.line_columns() < tile_.columns.extent) {
    const ExprId block = b.div(chunk, scope_.i32(line_chunks));
    block_begin = b.mul(block, scope_.i32(tile_.rows.extent * tile_.line_columns()));
    chunk = scope_.remainder(chunk, line_chunks);
  }
  // All rows of a matrix begin at a multiple of eight, and the swizzle repeats after eight rows.
  const ExprId place =
      b.add(b.mul(scope_.swizzled(layout_of(tile_), in_matrix, chunk), scope_.i32(of_chunk)),
            block_begin);
  b.append(kir::LoadMatrix{.tile = registers_,
                           .group = group,
                           .matrices = kMatrices,
                           .transpose = is_transposed_,
                           .shared = shared_,
                           .index = scope_.shared_element(tile_, stage, row, place)});
}

void OperandFragment::load_words(ExprId stage, ExprId k, ExprId own, ExprId group) const {
  // Register m is what load() would give lane l of matrix m: row l / 4 and element l % 4 of it.
  constexpr int64_t kWords = program::kChunkBytes / kRegisterBytes;
  kir::KernelBuilder& b = scope_.builder;
  const ExprId own_lane = row_of_lane(scope_);
  const ExprId k_lane = scope_.remainder(scope_.lane, kWords);
  const int64_t of_chunk = chunk_elements(tile_);
  for (int64_t m = 0; m < kMatrices; ++m) {
    const int64_t own_half = is_left_ ? m % 2 : m / 2;
    const int64_t k_half = is_left_ ? m / 2 : m % 2;
    const ExprId of_lane = b.add(own, b.add(own_lane, scope_.i32(own_half * kMatrix)));
    const ExprId in_k = b.add(k_lane, scope_.i32(k_half * kWords));
    // Steps along k begin at multiples of eight, after which the swizzle repeats.
    const ExprId row = b.add(b.mul(k, scope_.i32(step_elements())), in_k);
    const ExprId chunk =
        scope_.swizzled(layout_of(tile_), in_k, b.div(of_lane, scope_.i32(of_chunk)));
    const ExprId place =
        b.add(b.mul(chunk, scope_.i32(of_chunk)), scope_.remainder(of_lane, of_chunk));
    b.append(kir::Load{.tile = registers_,
                       .group = b.add(group, scope_.i32(m)),
                       .lane = scope_.i32(0),
                       .width = 1,
                       .buffer = shared_,
                       .index = scope_.shared_element(tile_, stage, row, place)});
  }
}

void OperandFragment::round() const {
  kir::KernelBuilder& b = scope_.builder;
  const ExprId zero = scope_.i32(0);
  b.unrolled("i", groups_, [&](ExprId i) {
    b.set(registers_, i, zero, b.round_to_tf32(b.element(registers_, i, zero)));
  });
}

OperandFragment::Parts OperandFragment::split_apart() const {
  return split_into(scope_.builder.declare_tile(tile_.name + "_first", DType::kF32, groups_, 1));
}

OperandFragment::Parts OperandFragment::split_into(kir::VarId first) const {
  const kir::VarId second =
      scope_.builder.declare_tile(tile_.name + "_second", DType::kF32, groups_, 1);
  split_to_tf32(scope_, registers_, first, second);
  return {.first = first, .second = second};
}

}  // namespace sinter
