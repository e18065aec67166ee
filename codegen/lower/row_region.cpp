#include "codegen/lower/row_region.h"

#include "codegen/lower/fragment_product.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

RowRegion::RowRegion(const ProgramScope& scope, const TileLowering& buffers,
                     const program::Region& region)
    : RowsOfTile(scope, buffers),
      region_(region),
      tile_(scope.tile(region.tile)),
      staged_(scope, buffers, region) {
  const VarId fragment = scope.fragments.at(region.tile);
  const int64_t columns = column_instructions(tile_);
  tiles_.set_source(region.value, [this, fragment, columns](const TilePosition& at, ExprId lane) {
    const ExprId instruction = builder_.add(builder_.mul(i_, scope_.i32(columns)), at.batch);
    const ExprId group =
        builder_.add(builder_.mul(instruction, scope_.i32(2)), halves_.at(tiles_.row()));
    return builder_.element(fragment, group, lane);
  });
  for (const program::Staging& staging : region.staged) {
    tiles_.set_sink(staging.output, [this, &staging](VarId vector, const TilePosition& at) {
      // Rows that are evaluated together lie below each other.
      ExprId row = row_of_lane(scope_);
      if (rows_together_ > 1) {
        row = builder_.add(
            row, builder_.mul(halves_.at(tiles_.row()), scope_.i32(program::kFragmentRows)));
      }
      const ExprId column = at.column_in_part.valid() ? at.column_in_part : at.first_column;
      staged_.put(staging.output, vector, row, builder_.cast(column, DType::kI32));
    });
  }
}

void RowRegion::evaluate() {
  prepare();
  builder_.unrolled("i", row_instructions(tile_), [&](ExprId i) {
    i_ = i;
    if (rows_together_ == 2) {
      evaluate_rows({scope_.i32(0), scope_.i32(1)});
    } else {
      builder_.unrolled("half", 2, [&](ExprId half) { evaluate_rows({half}); });
    }
  });
}

void RowRegion::evaluate_rows(const std::vector<ExprId>& halves) {
  std::vector<ExprId> in_tile;
  for (const ExprId half : halves)
    in_tile.push_back(builder_.add(first_row(scope_, tile_, i_, half), row_of_lane(scope_)));
  halves_.clear();
  const ExprId warp = builder_.div(scope_.thread, scope_.i32(kWarp));
  evaluate_together(tile_.rows.axis, in_tile, exchange(warp, scope_.program.threads / kWarp),
                    [&](size_t row, ExprId number) { halves_[number] = halves[row]; });
  next_exchange();
  if (staged_.empty()) return;
  staged_.store({.first_row = first_row(scope_, tile_, i_, halves.front()),
                 .first_column = 0,
                 .columns = columns_per_block(scope_.facts, schedule_),
                 .predication = Predication::kNone});
}

}  // namespace sinter
