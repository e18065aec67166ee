#include "codegen/lower/rows_of_tile.h"

#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;

RowsOfTile::RowsOfTile(const ProgramScope& scope, const TileLowering& buffers)
    : scope_(scope),
      builder_(scope.builder),
      schedule_(program::row_schedule(scope.program)),
      rows_together_(program::rows_together(scope.program)),
      tiles_(scope.facts, schedule_, builder_),
      walk_(scope.facts, schedule_, builder_, tiles_),
      outer_(scope.facts, schedule_, builder_, tiles_, 0),
      body_(scope.facts, schedule_, builder_, tiles_, walk_, outer_) {
  tiles_.share_buffers(buffers);
}

void RowsOfTile::prepare() {
  walk_.declare();
  body_.prepare(static_cast<size_t>(rows_together_));
}

RowExchange RowsOfTile::exchange(ExprId group, int64_t groups) const {
  RowExchange out;
  if (!scope_.exchange.valid()) return out;
  // Exchanges alternate between two copies.
  const ExprId number = builder_.ref(scope_.exchange);
  out.phase = scope_.remainder(number, 2);
  if (scope_.mail.valid()) {
    // Places are 0 at first.
    out.mail = scope_.mail;
    out.number = builder_.add(number, scope_.i32(1));
  } else {
    out.parity = scope_.remainder(builder_.div(number, scope_.i32(2)), 2);
  }
  out.group = group;
  out.groups = groups;
  return out;
}

void RowsOfTile::evaluate_together(program::AxisId m, const std::vector<ExprId>& in_tile,
                                   const RowExchange& exchange, const EnterRow& enter) {
  const ExprId rows = scope_.extents.at(m);
  // Lanes of rows beyond the end repeat the last row, so that all lanes of a warp reach shuffles.
  const ExprId last = builder_.sub(rows, scope_.i64(1));
  body_.begin_rows(in_tile.size());
  for (size_t i = 0; i < in_tile.size(); ++i) {
    const ExprId row = builder_.ref(
        builder_.declare("row", builder_.add(scope_.begins.at(m), scope_.wide(in_tile[i]))));
    const ExprId number =
        builder_.ref(builder_.declare("at_row", scope_.row_of_space(m, builder_.min(row, last))));
    body_.select_row(i);
    tiles_.enter_row(number);
    enter(i, number);
    body_.begin(
        {.is_real = scope_.named("is_real", builder_.less(row, rows)), .exchange = exchange});
    body_.load();
  }
  body_.compute();
  tiles_.enter_row(ExprId{});
}

void RowsOfTile::next_exchange() {
  if (scope_.exchange.valid())
    builder_.assign(scope_.exchange, builder_.add(builder_.ref(scope_.exchange), scope_.i32(1)));
}

}  // namespace sinter
