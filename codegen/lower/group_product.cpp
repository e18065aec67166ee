#include "codegen/lower/group_product.h"

#include <algorithm>

#include "codegen/lower/fragment_product.h"
#include "codegen/lower/operand_fragment.h"
#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"

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

ExprId GroupProduct::row(int64_t i) const {
  return builder_.add(scope_.part_begins.at(sum_.rows.axis), scope_.i32(i * shape_.m));
}

void GroupProduct::multiply(const std::function<Left(int64_t)>& left, program::TileId right,
                            ExprId stage, int64_t k, bool replaces) const {
  const int64_t groups = shape_.n / 4;  // Of one product.
  const int64_t columns = sum_.columns.extent / shape_.n;
  for (int64_t i = 0; i < row_instructions(sum_); ++i) {
    const Left rows = left(i);
    for (int64_t j = 0; j < columns; ++j) {
      const ExprId column =
          builder_.add(scope_.part_begins.at(sum_.columns.axis), scope_.i32(j * shape_.n));
      builder_.append(kir::Wgmma{.accumulator = scope_.fragments.at(contract_.accumulator),
                                 .accumulator_group = scope_.i32((i * columns + j) * groups),
                                 .columns = shape_.n,
                                 .left = rows,
                                 .right = matrix(right, stage, column, k),
                                 .replaces = replaces});
    }
  }
}

void GroupProduct::start(ExprId stage, bool is_first) const {
  if (contract_.right_second.valid()) return start_split(stage, is_first);
  builder_.append(kir::WgmmaFence{});
  for (int64_t k = 0; k < depth().extent; k += shape_.k) {
    multiply([&](int64_t i) { return matrix(contract_.left, stage, row(i), k); }, contract_.right,
             stage, k, is_first && k == 0);
  }
  builder_.append(kir::WgmmaCommit{});
}

void GroupProduct::start_split(ExprId stage, bool is_first) const {
  constexpr int64_t kOfProduct = kir::Mma::kLeftGroups;  // Registers.
  constexpr int64_t kWarpRows = kir::Wgmma::kRows * kWarp / kWarpGroup;
  const int64_t rows = row_instructions(sum_);
  const int64_t steps = depth().extent / shape_.k;
  const ExprId warp =
      scope_.remainder(builder_.div(scope_.thread, scope_.i32(kWarp)), kWarpGroup / kWarp);
  // Products of a half of the stage go on while the other half is split: its registers are those of
  // the same half of the stage before. What is loaded has others, so that all loads of a stage are
  // on their way at once.
  const int64_t halves = steps > 1 ? 2 : 1;
  const int64_t of_half = divided_up(steps, halves);
  const auto group = [&](int64_t i, int64_t step) {
    return scope_.i32((step % of_half * rows + i) * kOfProduct);
  };
  std::vector<OperandFragment> left;
  for (int64_t step = 0; step < steps; ++step) {
    if (step % of_half == 0) {
      left.emplace_back(scope_, contract_.left, sum_.rows.axis, true,
                        std::min(of_half, steps - step) * rows * kOfProduct);
    }
    for (int64_t i = 0; i < rows; ++i) {
      const ExprId own = builder_.add(row(i), builder_.mul(warp, scope_.i32(kWarpRows)));
      left.back().load(stage, scope_.i32(step), own, group(i, step));
    }
  }
  for (int64_t half = 0; half < halves; ++half) {
    // No product of the tile goes on yet in its first stage.
    if (!is_first) builder_.append(kir::WgmmaWait{.pending = halves - 1});
    const auto [first, second] = left[static_cast<size_t>(half)].split_apart();
    builder_.append(kir::WgmmaFence{});
    for (int64_t step = half * of_half; step < std::min(steps, (half + 1) * of_half); ++step) {
      const auto of = [&](kir::VarId registers) {
        return [&, registers](int64_t i) -> Left {
          return kir::RegisterMatrix{.tile = registers, .group = group(i, step)};
        };
      };
      const int64_t k = step * shape_.k;
      multiply(of(first), contract_.right_second, stage, k, is_first && k == 0);
      multiply(of(second), contract_.right, stage, k, false);
      multiply(of(first), contract_.right, stage, k, false);
    }
    builder_.append(kir::WgmmaCommit{});
  }
}

}  // namespace sinter
