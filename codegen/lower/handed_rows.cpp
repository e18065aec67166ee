#include "codegen/lower/handed_rows.h"

#include "scheduler/program/program_walks.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

HandedRows::HandedRows(const ProgramScope& scope, const TileLowering& buffers,
                       const program::Loop& loop, const program::Region& region)
    : RowsOfTile(scope, buffers), loop_(loop), region_(region), tile_(scope.tile(region.tile)) {
  tiles_.set_source(region.value, [this](const TilePosition& at, ExprId lane) {
    return builder_.element(chunks_.at(tiles_.row()), at.batch, lane);
  });
}

void HandedRows::evaluate() {
  prepare();
  const int64_t iterations = tile_.rows.extent / loop_.step;
  const int64_t parts = program::handed_parts(scope_.program);
  const int64_t of_part = iterations / parts;
  const int64_t warps = scope_.program.producer->epilogue_warps;
  // The warps beside the producer's.
  const ExprId first_warp = scope_.i32(scope_.program.threads / kWarp + 1);
  warp_ = scope_.named("warp",
                       builder_.sub(builder_.div(scope_.thread, scope_.i32(kWarp)), first_warp));
  const HandedTile& handed = *scope_.handed;
  builder_.loop(
      "iteration", warp_, scope_.i32(iterations), scope_.i32(warps), false, [&](ExprId iteration) {
        const ExprId part = builder_.div(iteration, scope_.i32(of_part));
        const ExprId barrier = handed.barrier(scope_, part);
        builder_.append(kir::MbarrierWait{handed.full, barrier, builder_.ref(handed.parity)});
        evaluate_rows(iteration);
      });
  handed.advance(scope_);
}

void HandedRows::load(VarId chunks, ExprId row) {
  const int64_t of_chunk = chunk_elements(tile_);
  for (int64_t batch = 0; batch < batch_count(scope_.facts, schedule_); ++batch) {
    const ExprId chunk = builder_.add(walk_.lane(), scope_.i32(batch * schedule_.threads_per_row));
    builder_.append(kir::Load{
        .tile = chunks,
        .group = scope_.i32(batch),
        .lane = scope_.i32(0),
        .width = of_chunk,
        .buffer = scope_.shared.at(region_.tile),
        .index = handed_element(scope_, tile_, row, builder_.mul(chunk, scope_.i32(of_chunk)))});
  }
}

void HandedRows::evaluate_rows(ExprId iteration) {
  const int64_t at_once = kWarp / schedule_.threads_per_row;
  std::vector<ExprId> in_tile;
  std::vector<VarId> chunks;
  for (int64_t i = 0; i < rows_together_; ++i) {
    ExprId row =
        builder_.add(builder_.mul(iteration, scope_.i32(loop_.step)), scope_.i32(i * at_once));
    if (at_once > 1)
      row = builder_.add(row, builder_.div(scope_.lane, scope_.i32(schedule_.threads_per_row)));
    in_tile.push_back(row);
    chunks.push_back(tiles_.declare_tile(region_.value, batch_count(scope_.facts, schedule_)));
    load(chunks.back(), row);
  }
  release(iteration);
  chunks_.clear();
  evaluate_together(tile_.rows.axis, in_tile,
                    exchange(warp_, scope_.program.producer->epilogue_warps),
                    [&](size_t row, ExprId number) { chunks_[number] = chunks[row]; });
}

/// Gives a part of the tile back when the warp has loaded its last rows of it.
void HandedRows::release(ExprId iteration) {
  const HandedTile& handed = *scope_.handed;
  const int64_t of_part = tile_.rows.extent / loop_.step / program::handed_parts(scope_.program);
  const ExprId part = builder_.div(iteration, scope_.i32(of_part));
  const ExprId next = builder_.add(scope_.remainder(iteration, of_part),
                                   scope_.i32(scope_.program.producer->epilogue_warps));
  builder_.append(kir::WarpBarrier{});
  const ExprId is_last = builder_.less_equal(scope_.i32(of_part), next);
  builder_.when(builder_.both(is_last, builder_.equal(scope_.lane, scope_.i32(0))), [&] {
    builder_.append(kir::MbarrierArrive{handed.empty, handed.barrier(scope_, part)});
  });
}

}  // namespace sinter
