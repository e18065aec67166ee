#include "codegen/lower/handed_rows.h"

#include "scheduler/program/program_walks.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

HandedRows::HandedRows(const ProgramScope& scope, const TileLowering& buffers,
                       const program::Loop& loop, const program::Region& region)
    : RowsOfTile(scope, buffers),
      region_(region),
      handed_(scope, loop, region.tile, schedule_.threads_per_row) {
  tiles_.set_source(region.value, [this](const TilePosition& at, ExprId lane) {
    return builder_.element(chunks_.at(tiles_.row()), at.batch, lane);
  });
}

void HandedRows::evaluate() {
  prepare();
  if (program::exchange_of(scope_.program) == ExchangeKind::kCluster) {
    handed_.run([&](ExprId iteration) { evaluate_rows(iteration, kir::ReduceHalf::kWhole); });
    return;
  }
  handed_.run_twice([&](ExprId iteration) { evaluate_rows(iteration, kir::ReduceHalf::kSend); },
                    [&](ExprId iteration) { evaluate_rows(iteration, kir::ReduceHalf::kReceive); });
  next_exchange();
}

void HandedRows::evaluate_rows(ExprId iteration, kir::ReduceHalf half) {
  const int64_t count = batch_count(scope_.facts, schedule_);
  std::vector<ExprId> in_tile;
  std::vector<VarId> chunks;
  for (int64_t i = 0; i < rows_together_; ++i) {
    in_tile.push_back(handed_.row(iteration, i));
    chunks.push_back(tiles_.declare_tile(region_.value, count));
    handed_.load(chunks.back(), in_tile.back(), walk_.lane(), count);
  }
  if (half != kir::ReduceHalf::kSend) handed_.release(iteration);
  chunks_.clear();
  // Rows that are sent ahead have places of their own in each iteration of a tile.
  const bool is_whole = half == kir::ReduceHalf::kWhole;
  RowExchange how = is_whole ? exchange(handed_.warp(), scope_.program.producer->epilogue_warps)
                             : exchange(iteration, handed_.iterations());
  how.half = half;
  evaluate_together(scope_.tile(region_.tile).rows.axis, in_tile, how,
                    [&](size_t row, ExprId number) { chunks_[number] = chunks[row]; });
  if (is_whole) next_exchange();
}

}  // namespace sinter
