#include "codegen/lower/handed_rows.h"

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
  handed_.run([&](ExprId iteration) { evaluate_rows(iteration); });
}

void HandedRows::evaluate_rows(ExprId iteration) {
  const int64_t count = batch_count(scope_.facts, schedule_);
  std::vector<ExprId> in_tile;
  std::vector<VarId> chunks;
  for (int64_t i = 0; i < rows_together_; ++i) {
    in_tile.push_back(handed_.row(iteration, i));
    chunks.push_back(tiles_.declare_tile(region_.value, count));
    handed_.load(chunks.back(), in_tile.back(), walk_.lane(), count);
  }
  handed_.release(iteration);
  chunks_.clear();
  evaluate_together(scope_.tile(region_.tile).rows.axis, in_tile,
                    exchange(handed_.warp(), scope_.program.producer->epilogue_warps),
                    [&](size_t row, ExprId number) { chunks_[number] = chunks[row]; });
}

}  // namespace sinter
