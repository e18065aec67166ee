#include "codegen/lower/lower_rows.h"

#include "codegen/lower/lower_two_pass.h"
#include "codegen/lower/prefetched_row_values.h"
#include "codegen/lower/row_kernel.h"
#include "scheduler/schedule/accumulators.h"

namespace sinter {
namespace {

using kir::ExprId;

/// Enters consecutive rows in the row slots of the block, `first` in slot 0.
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

/// Prefetches a block's next rows while it works on the current ones, if the schedule has
/// prefetch_rows. The driver passes the first row of each iteration; the rows of the other row
/// slots follow it.
class PrefetchRows {
 public:
  explicit PrefetchRows(RowKernel& k) : k_(k), values_(k.facts, k.builder, k.tiles) {}

  /// Starts the loads for the rows of the first iteration, if there are any.
  void start(ExprId first) {
    if (!is_used()) return;
    values_.declare();
    k_.builder.comment("the first row");
    k_.builder.when(k_.builder.less(first, k_.rows), [&] {
      const ExprId row = row_of_slot(first);
      load(row);
      if (!values_.empty()) values_.load(row);
    });
  }

  /// Takes the prefetched values of the rows that the tiles have entered, and starts the loads for
  /// the iteration that begins with row `next`, if there is one.
  void advance(ExprId next) {
    if (!is_used()) return;
    const ExprId row = k_.tiles.row();
    k_.builder.comment("the row that came ahead, and the one after it");
    k_.body.take_prefetched();
    const ExprId after = row_of_slot(next);
    const ExprId exists = k_.builder.less(next, k_.rows);
    k_.builder.when(exists, [&] { load(after); });
    values_.advance(row, after, exists);
  }

  [[nodiscard]] bool is_used() const { return k_.schedule.prefetch_rows() > 0; }

 private:
  /// The row of the thread's slot in the iteration that begins with `first`. Slots beyond the last
  /// row repeat the last row.
  ExprId row_of_slot(ExprId first) {
    if (k_.walk.slot().valid())
      first = k_.builder.add(first, k_.builder.cast(k_.walk.slot(), DType::kI64));
    const ExprId last = k_.builder.sub(k_.rows, k_.builder.integer(1, DType::kI64));
    return k_.builder.ref(k_.builder.declare("row_ahead", k_.builder.min(first, last)));
  }

  void load(ExprId row) {
    k_.tiles.enter_row(row);
    k_.body.load_prefetched();
    k_.tiles.enter_row(ExprId{});
  }

  RowKernel& k_;
  PrefetchedRowValues values_;
};

/// Non-persistent grid: one block for every rows_per_block rows.
LoweredKernel lower_single_rows(RowKernel& k) {
  k.kernel.grid = {k.rows_param, k.schedule.rows_per_block};
  if (k.schedule.cluster_size() > 1) k.builder.start_mbarriers();
  Row row = enter_rows(k, k.first_row());
  row.exchange = k.cluster_exchange({});
  k.body.begin(row);
  k.body.prepare();
  k.body.load();
  k.body.compute();
  k.builder.sync_cluster();  // Rows without elements have no exchange, which would have waited.
  return {std::move(k.kernel), {k.facts.space.rows}};
}

/// Persistent blocks: every block walks over many rows, and keeps the values common to all rows and
/// its accumulators.
LoweredKernel lower_persistent_blocks(RowKernel& k) {
  const kir::ParamId blocks = k.builder.add_param("blocks");
  k.kernel.grid = {blocks, 1};
  const bool in_cluster = k.schedule.cluster_size() > 1;
  if (in_cluster) k.builder.init_mbarriers();
  k.outer.declare();
  k.body.prepare();
  const ExprId step = k.builder.mul(k.builder.cast(k.builder.param(blocks), DType::kI64),
                                    k.builder.integer(k.schedule.rows_per_block, DType::kI64));
  kir::VarId iteration;
  if (in_cluster) iteration = k.builder.declare("iteration", k.builder.integer(0));
  PrefetchRows ahead(k);
  ahead.start(k.first_row());
  k.builder.loop("first_row", k.first_row(), k.rows, step, false, [&](ExprId first_row) {
    Row row = enter_rows(k, first_row);
    ahead.advance(k.builder.add(first_row, step));
    if (in_cluster) row.exchange = k.cluster_exchange(k.builder.ref(iteration));
    const auto work = [&] {
      k.body.begin(row);
      k.body.load();
      k.body.compute();
    };
    if (ahead.is_used()) {
      // Always true, which ptxas does not know. Otherwise ptxas moves the first stage in front of
      // the loads. The next row then needs no registers during that stage, but it is not in flight
      // either, and some kernels spill (docs/experiments/constants_lowering.md).
      k.builder.when(k.builder.less(k.builder.integer(0, DType::kI64), k.builder.param(blocks)),
                     work);
    } else {
      work();
    }
    if (in_cluster)
      k.builder.assign(iteration, k.builder.add(k.builder.ref(iteration), k.builder.integer(1)));
  });
  k.store_partials(k.cluster_exchange({}), [&] { k.builder.append(kir::Barrier{}); });
  return {std::move(k.kernel), {k.facts.space.rows, partial_rows(k.schedule)}};
}

}  // namespace

LoweredKernel lower_rows(const SegmentFacts& facts, const Schedule& schedule) {
  RowKernel k(facts, schedule);
  if (schedule.rows_per_tile() > 0) return lower_two_pass(k);
  return schedule.persistent_blocks == 0 ? lower_single_rows(k) : lower_persistent_blocks(k);
}

}  // namespace sinter
