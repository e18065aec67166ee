#include "codegen/lower_rows.h"

#include "codegen/row_kernel.h"

namespace sinter {
namespace {

using kir::ExprId;

/// Enters a row of its own in every row slot of the block, `first` in the first.
Row enter_rows(RowKernel& k, ExprId first) {
  Row row;
  ExprId number = first;
  if (k.schedule.rows_per_block > 1) {
    const ExprId wanted = k.builder.ref(k.builder.declare(
        "wanted_row", k.builder.add(first, k.builder.cast(k.walk.slot(), DType::kI64))));
    row.is_real = k.builder.ref(k.builder.declare("row_is_real", k.builder.less(wanted, k.rows)));
    // Slots beyond the last row repeat it.
    number = k.builder.min(wanted, k.builder.sub(k.rows, k.builder.integer(1, DType::kI64)));
  }
  if (k.facts.space.row_dimensions > 0)
    k.tiles.enter_row(k.builder.ref(k.builder.declare("row", number)));
  return row;
}

/// A block for every rows_per_block rows.
LoweredKernel lower_single_rows(RowKernel& k) {
  k.kernel.grid = {k.rows_param, k.schedule.rows_per_block};
  k.body.begin(enter_rows(k, k.first_row()));
  k.body.prepare();
  k.body.load();
  k.body.compute();
  return {std::move(k.kernel), {k.facts.space.rows}};
}

/// A grid that stays: every block walks rows, and keeps what they have in common and what it
/// accumulates over them.
LoweredKernel lower_persistent_blocks(RowKernel& k) {
  const kir::ParamId blocks = k.builder.add_param("blocks");
  k.kernel.grid = {blocks, 1};
  k.outer.declare();
  k.body.prepare();
  const ExprId step = k.builder.mul(k.builder.cast(k.builder.param(blocks), DType::kI64),
                                    k.builder.integer(k.schedule.rows_per_block, DType::kI64));
  k.builder.loop("first_row", k.first_row(), k.rows, step, false, [&](ExprId first_row) {
    k.body.begin(enter_rows(k, first_row));
    k.body.load();
    k.body.compute();
  });
  k.store_partials({}, [&] { k.builder.append(kir::Barrier{}); });
  return {std::move(k.kernel), {k.facts.space.rows, k.schedule.persistent_blocks}};
}

}  // namespace

LoweredKernel lower_rows(const SegmentFacts& facts, const Schedule& schedule) {
  RowKernel k(facts, schedule);
  return schedule.persistent_blocks == 0 ? lower_single_rows(k) : lower_persistent_blocks(k);
}

}  // namespace sinter
