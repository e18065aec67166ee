#include "codegen/lower/operand_split.h"

#include <algorithm>

#include "codegen/lower/tf32_parts.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

void lower_split(const ProgramScope& scope, const program::Split& split, ExprId stage) {
  // Chunks whose loads are on their way at once.
  constexpr int64_t kTogether = 4;
  kir::KernelBuilder& b = scope.builder;
  const program::Tile& tile = scope.tile(split.tile);
  const int64_t of_chunk = chunk_elements(tile);
  const int64_t threads = scope.program.threads;
  const int64_t chunks = elements_of(tile) / of_chunk / threads;  // Of a thread.
  const ExprId own = b.mul(scope.thread, scope.i32(of_chunk));
  const ExprId begin = b.add(b.mul(stage, scope.i32(elements_of(tile))), own);
  const ExprId second_begin = b.add(b.mul(scope.second_copy, scope.i32(elements_of(tile))), own);
  for (int64_t first = 0; first < chunks; first += kTogether) {
    const int64_t count = std::min(kTogether, chunks - first);
    const VarId parts = b.declare_tile(tile.name + "_parts", tile.type, count, of_chunk);
    const VarId seconds = b.declare_tile(tile.name + "_seconds", tile.type, count, of_chunk);
    const auto place = [&](ExprId start, ExprId i) {
      const ExprId chunk = b.add(i, scope.i32(first));
      return b.add(start, b.mul(chunk, scope.i32(threads * of_chunk)));
    };
    b.unrolled("i", count, [&](ExprId i) {
      b.append(kir::Load{.tile = parts,
                         .group = i,
                         .lane = scope.i32(0),
                         .width = of_chunk,
                         .buffer = scope.shared.at(split.tile),
                         .index = place(begin, i)});
    });
    b.unrolled("i", count, [&](ExprId i) {
      b.unrolled("lane", of_chunk, [&](ExprId lane) {
        const Tf32Parts of = tf32_parts(scope, b.element(parts, i, lane));
        b.set(seconds, i, lane, of.second);
        b.set(parts, i, lane, of.first);
      });
      const auto store = [&](program::TileId to, VarId from, ExprId start) {
        b.append(kir::Store{.buffer = scope.shared.at(to),
                            .index = place(start, i),
                            .width = of_chunk,
                            .tile = from,
                            .group = i,
                            .lane = scope.i32(0)});
      };
      store(split.tile, parts, begin);
      store(split.second, seconds, second_begin);
    });
  }
}

}  // namespace sinter
