#include "codegen/lower/handed_walk.h"

#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

HandedWalk::HandedWalk(const ProgramScope& scope, const program::Loop& loop, program::TileId tile,
                       int64_t lanes)
    : scope_(scope),
      builder_(scope.builder),
      loop_(loop),
      id_(tile),
      tile_(scope.tile(tile)),
      lanes_(lanes) {}

int64_t HandedWalk::iterations_of_part() const {
  return iterations() / program::handed_parts(scope_.program);
}

ExprId HandedWalk::number_of_warp() const {
  // The warps beside the producer's.
  const ExprId first = scope_.i32(scope_.program.threads / kWarp + 1);
  return builder_.sub(builder_.div(scope_.thread, scope_.i32(kWarp)), first);
}

void HandedWalk::wait(ExprId iteration) const {
  const HandedTile& handed = *scope_.handed;
  const ExprId part = builder_.div(iteration, scope_.i32(iterations_of_part()));
  const ExprId barrier = handed.barrier(scope_, part);
  builder_.append(kir::MbarrierWait{handed.full, barrier, builder_.ref(handed.parity)});
}

void HandedWalk::loop(const std::function<void(ExprId)>& body) const {
  builder_.loop("iteration", warp_, scope_.i32(iterations()),
                scope_.i32(scope_.program.producer->epilogue_warps), false, body);
}

void HandedWalk::run(const std::function<void(ExprId)>& evaluate) {
  warp_ = scope_.named("warp", number_of_warp());
  loop([&](ExprId iteration) {
    wait(iteration);
    evaluate(iteration);
  });
  scope_.handed->advance(scope_);
}

void HandedWalk::run_twice(const std::function<void(ExprId)>& before,
                           const std::function<void(ExprId)>& evaluate) {
  warp_ = scope_.named("warp", number_of_warp());
  loop([&](ExprId iteration) {
    wait(iteration);
    before(iteration);
  });
  loop(evaluate);
  scope_.handed->advance(scope_);
}

ExprId HandedWalk::row(ExprId iteration, int64_t number) const {
  const int64_t at_once = kWarp / lanes_;
  const ExprId row =
      builder_.add(builder_.mul(iteration, scope_.i32(loop_.step)), scope_.i32(number * at_once));
  return at_once > 1 ? builder_.add(row, builder_.div(scope_.lane, scope_.i32(lanes_))) : row;
}

void HandedWalk::load(VarId chunks, ExprId row, ExprId first, int64_t count) const {
  const int64_t of_chunk = chunk_elements(tile_);
  for (int64_t number = 0; number < count; ++number) {
    const ExprId chunk = builder_.add(first, scope_.i32(number * lanes_));
    builder_.append(kir::Load{
        .tile = chunks,
        .group = scope_.i32(number),
        .lane = scope_.i32(0),
        .width = of_chunk,
        .buffer = scope_.shared.at(id_),
        .index = handed_element(scope_, tile_, row, builder_.mul(chunk, scope_.i32(of_chunk)))});
  }
}

void HandedWalk::release(ExprId iteration) const {
  const HandedTile& handed = *scope_.handed;
  const int64_t of_part = iterations_of_part();
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
