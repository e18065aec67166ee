#include "codegen/lower/row_region.h"

#include "codegen/lower/fragment_product.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

RowRegion::RowRegion(const ProgramScope& scope, const TileLowering& buffers,
                     const program::Region& region)
    : scope_(scope),
      builder_(scope.builder),
      region_(region),
      tile_(scope.tile(region.tile)),
      schedule_(program::row_schedule(scope.program)),
      tiles_(scope.facts, schedule_, builder_),
      walk_(scope.facts, schedule_, builder_, tiles_),
      outer_(scope.facts, schedule_, builder_, tiles_, 0),
      body_(scope.facts, schedule_, builder_, tiles_, walk_, outer_),
      staged_(scope, buffers, region) {
  tiles_.share_buffers(buffers);
  const VarId fragment = scope.fragments.at(region.tile);
  const int64_t columns = column_instructions(tile_);
  tiles_.set_source(region.value, [this, fragment, columns](const TilePosition& at, ExprId lane) {
    const ExprId instruction = builder_.add(builder_.mul(i_, scope_.i32(columns)), at.batch);
    return builder_.element(fragment, builder_.add(builder_.mul(instruction, scope_.i32(2)), half_),
                            lane);
  });
  for (const program::Staging& staging : region.staged) {
    tiles_.set_sink(staging.output, [this, &staging](VarId vector, const TilePosition& at) {
      staged_.put(staging.output, vector, builder_.cast(at.first_column, DType::kI32));
    });
  }
}

void RowRegion::evaluate() {
  walk_.declare();
  body_.prepare();
  builder_.unrolled("i", row_instructions(tile_), [&](ExprId i) {
    builder_.unrolled("half", 2, [&](ExprId half) {
      i_ = i;
      half_ = half;
      evaluate_half();
    });
  });
}

void RowRegion::evaluate_half() {
  const program::AxisId m = tile_.rows.axis;
  const ExprId first = first_row(scope_, tile_, i_, half_);
  const ExprId in_tile = builder_.add(first, row_of_lane(scope_));
  const ExprId row = builder_.ref(
      builder_.declare("row", builder_.add(scope_.begins.at(m), scope_.wide(in_tile))));
  const ExprId rows = scope_.extents.at(m);
  // Lanes of rows beyond the end repeat the last row, so that all lanes of a warp reach shuffles.
  const ExprId last = builder_.sub(rows, scope_.i64(1));
  body_.begin_rows(1);
  tiles_.enter_row(scope_.row_of_space(m, scope_.named("at_row", builder_.min(row, last))));
  body_.begin({.is_real = scope_.named("is_real", builder_.less(row, rows))});
  body_.load();
  body_.compute();
  tiles_.enter_row(ExprId{});
  if (staged_.empty()) return;
  const int64_t columns = scope_.facts.space.columns;
  staged_.store(
      {.first_row = first,
       .first_column = 0,
       .columns = tile_.columns.extent,
       .predication = columns < tile_.columns.extent ? Predication::kVector : Predication::kNone});
}

}  // namespace sinter
