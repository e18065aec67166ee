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
      rows_together_(program::rows_together(scope.program)),
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
  walk_.declare();
  body_.prepare(static_cast<size_t>(rows_together_));
  builder_.unrolled("i", row_instructions(tile_), [&](ExprId i) {
    i_ = i;
    if (rows_together_ == 2) {
      evaluate_rows({scope_.i32(0), scope_.i32(1)});
    } else {
      builder_.unrolled("half", 2, [&](ExprId half) { evaluate_rows({half}); });
    }
  });
}

RowExchange RowRegion::exchange() {
  RowExchange out;
  if (!scope_.exchange.valid()) return out;
  // Exchanges alternate between two copies.
  const ExprId number = builder_.ref(scope_.exchange);
  out.phase = scope_.remainder(number, 2);
  out.parity = scope_.remainder(builder_.div(number, scope_.i32(2)), 2);
  out.group = builder_.div(scope_.thread, scope_.i32(kWarp));
  out.groups = scope_.program.threads / kWarp;
  return out;
}

void RowRegion::evaluate_rows(const std::vector<ExprId>& halves) {
  const program::AxisId m = tile_.rows.axis;
  const ExprId rows = scope_.extents.at(m);
  // Lanes of rows beyond the end repeat the last row, so that all lanes of a warp reach shuffles.
  const ExprId last = builder_.sub(rows, scope_.i64(1));
  const RowExchange exchanged = exchange();
  halves_.clear();
  body_.begin_rows(halves.size());
  for (size_t i = 0; i < halves.size(); ++i) {
    const ExprId in_tile =
        builder_.add(first_row(scope_, tile_, i_, halves[i]), row_of_lane(scope_));
    const ExprId row = builder_.ref(
        builder_.declare("row", builder_.add(scope_.begins.at(m), scope_.wide(in_tile))));
    const ExprId number =
        builder_.ref(builder_.declare("at_row", scope_.row_of_space(m, builder_.min(row, last))));
    body_.select_row(i);
    tiles_.enter_row(number);
    halves_[number] = halves[i];
    body_.begin(
        {.is_real = scope_.named("is_real", builder_.less(row, rows)), .exchange = exchanged});
    body_.load();
  }
  body_.compute();
  if (scope_.exchange.valid())
    builder_.assign(scope_.exchange, builder_.add(builder_.ref(scope_.exchange), scope_.i32(1)));
  tiles_.enter_row(ExprId{});
  if (staged_.empty()) return;
  staged_.store({.first_row = first_row(scope_, tile_, i_, halves.front()),
                 .first_column = 0,
                 .columns = columns_per_block(scope_.facts, schedule_),
                 .predication = Predication::kNone});
}

}  // namespace sinter
