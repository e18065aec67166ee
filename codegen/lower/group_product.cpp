#include "codegen/lower/group_product.h"

#include "codegen/lower/fragment_product.h"

namespace sinter {

using kir::ExprId;

static_assert(program::kGroupColumns == kir::Wgmma::kColumns);

kir::SharedMatrix GroupProduct::matrix(const Operand& operand, ExprId own, int64_t k) const {
  const program::Tile& tile = scope_.tile(operand.tile);
  // Second parts lie as the first ones do.
  const bool transposed = is_transposed(operand.is_left ? contract_.left : contract_.right);
  const int64_t line = tile.line_columns();
  const int64_t block = tile.rows.extent * line;  // Lines of all rows that have the same columns.
  constexpr int64_t kGroupLines = 8;
  kir::SharedMatrix out{.buffer = scope_.shared.at(operand.tile),
                        .index = {},
                        .transposed = transposed,
                        .swizzle = line * bytes_of(tile.type),
                        .group_stride = kGroupLines * line};
  ExprId index = builder_.mul(operand.copy, scope_.i32(elements_of(tile)));
  if (transposed) {
    // A line holds elements along the own axis.
    out.block_stride = (operand.is_left ? shape_.m : shape_.n) > line ? block : 0;
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

void GroupProduct::multiply(const Operand& left, const Operand& right, int64_t k) const {
  const int64_t groups = shape_.n / 4;  // Of one product.
  const int64_t columns = sum_.columns.extent / shape_.n;
  for (int64_t i = 0; i < row_instructions(sum_); ++i) {
    const ExprId row =
        builder_.add(scope_.part_begins.at(sum_.rows.axis), scope_.i32(i * shape_.m));
    for (int64_t j = 0; j < columns; ++j) {
      const ExprId column =
          builder_.add(scope_.part_begins.at(sum_.columns.axis), scope_.i32(j * shape_.n));
      builder_.append(kir::Wgmma{.accumulator = scope_.fragments.at(contract_.accumulator),
                                 .accumulator_group = scope_.i32((i * columns + j) * groups),
                                 .columns = shape_.n,
                                 .left = matrix(left, row, k),
                                 .right = matrix(right, column, k)});
    }
  }
}

void GroupProduct::start(ExprId stage) const {
  const Operand left{contract_.left, stage, true};
  const Operand right{contract_.right, stage, false};
  builder_.append(kir::WgmmaFence{});
  for (int64_t k = 0; k < depth().extent; k += shape_.k) {
    if (contract_.left_second.valid()) {
      multiply(left, {contract_.right_second, scope_.second_copy, false}, k);
      multiply({contract_.left_second, scope_.second_copy, true}, right, k);
    }
    multiply(left, right, k);
  }
  builder_.append(kir::WgmmaCommit{});
}

}  // namespace sinter
