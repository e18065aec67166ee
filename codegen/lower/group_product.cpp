#include "codegen/lower/group_product.h"

#include "codegen/lower/fragment_product.h"

namespace sinter {

using kir::ExprId;

static_assert(program::kGroupColumns == kir::Wgmma::kColumns);

kir::SharedMatrix GroupProduct::matrix(program::TileId id, ExprId stage, ExprId own,
                                       int64_t k) const {
  const program::Tile& tile = scope_.tile(id);
  const bool is_left = id == contract_.left;
  const bool transposed = is_transposed(id);
  const int64_t line = tile.line_columns();
  const int64_t block = tile.rows.extent * line;  // Lines of all rows that have the same columns.
  constexpr int64_t kGroupLines = 8;
  kir::SharedMatrix out{.buffer = scope_.shared.at(id),
                        .index = {},
                        .transposed = transposed,
                        .swizzle = line * bytes_of(tile.type),
                        .group_stride = kGroupLines * line};
  ExprId index = builder_.mul(stage, scope_.i32(elements_of(tile)));
  if (transposed) {
    // A line holds elements along the own axis.
    out.block_stride = (is_left ? shape_.m : shape_.n) > line ? block : 0;
    const ExprId blocks = builder_.div(own, scope_.i32(line));
    index = builder_.add(index, builder_.mul(blocks, scope_.i32(block)));
    index = builder_.add(index, scope_.i32(k * line));
  } else {
    index = builder_.add(index, builder_.mul(own, scope_.i32(line)));
    index = builder_.add(index, scope_.i32(k / line * block + k % line));
  }
  out.index = index;
  return out;
}

void GroupProduct::start(ExprId stage) const {
  const int64_t groups = shape_.n / 4;  // Of one product.
  const int64_t columns = sum_.columns.extent / shape_.n;
  builder_.append(kir::WgmmaFence{});
  for (int64_t k = 0; k < depth().extent; k += shape_.k) {
    for (int64_t i = 0; i < row_instructions(sum_); ++i) {
      const ExprId row =
          builder_.add(scope_.part_begins.at(sum_.rows.axis), scope_.i32(i * shape_.m));
      for (int64_t j = 0; j < columns; ++j) {
        const ExprId column =
            builder_.add(scope_.part_begins.at(sum_.columns.axis), scope_.i32(j * shape_.n));
        builder_.append(kir::Wgmma{.accumulator = scope_.fragments.at(contract_.accumulator),
                                   .accumulator_group = scope_.i32((i * columns + j) * groups),
                                   .columns = shape_.n,
                                   .left = matrix(contract_.left, stage, row, k),
                                   .right = matrix(contract_.right, stage, column, k)});
      }
    }
  }
  builder_.append(kir::WgmmaCommit{});
}

}  // namespace sinter
