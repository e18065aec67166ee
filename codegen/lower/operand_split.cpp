#include "codegen/lower/operand_split.h"

#include <algorithm>

#include "codegen/lower/tf32_parts.h"
#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

void lower_split(const ProgramScope& scope, const program::Split& split, ExprId stage) {
  kir::KernelBuilder& b = scope.builder;
  const program::Tile& tile = scope.tile(split.tile);
  const int64_t of_chunk = chunk_elements(tile);
  const int64_t threads = scope.program.producer->split_warps * kWarp;
  const int64_t chunks = elements_of(tile) / of_chunk;
  // They follow the warp of the producer.
  const ExprId own = b.sub(scope.thread, scope.i32(scope.program.threads + kWarp));
  const ExprId begin =
      b.add(b.mul(stage, scope.i32(elements_of(tile))), b.mul(own, scope.i32(of_chunk)));
  // Chunks of a thread, in equal parts of those whose loads are on their way at once.
  constexpr int64_t kTogether = 6;
  const int64_t of_thread = divided_up(chunks, threads);
  const int64_t together = divided_up(of_thread, divided_up(of_thread, kTogether));
  for (int64_t first = 0; first < of_thread; first += together) {
    const int64_t count = std::min(together, of_thread - first);
    const VarId parts = b.declare_tile(tile.name + "_parts", tile.type, count, of_chunk);
    const VarId seconds = b.declare_tile(tile.name + "_seconds", tile.type, count, of_chunk);
    // Of the last chunks some threads have none.
    const int64_t whole = std::min(count, chunks / threads - first);
    const ExprId has_last = b.less(own, scope.i32(chunks % threads));
    const auto place = [&](ExprId i) {
      return b.add(begin, b.mul(b.add(i, scope.i32(first)), scope.i32(threads * of_chunk)));
    };
    const auto load = [&](ExprId i) {
      b.append(kir::Load{.tile = parts,
                         .group = i,
                         .lane = scope.i32(0),
                         .width = of_chunk,
                         .buffer = scope.shared.at(split.tile),
                         .index = place(i)});
    };
    const auto store = [&](ExprId i) {
      for (const auto& [to, from] : {std::pair{split.tile, parts}, {split.second, seconds}}) {
        b.append(kir::Store{.buffer = scope.shared.at(to),
                            .index = place(i),
                            .width = of_chunk,
                            .tile = from,
                            .group = i,
                            .lane = scope.i32(0)});
      }
    };
    b.unrolled("i", whole, load);
    if (whole < count) {
      for (int64_t lane = 0; lane < of_chunk; ++lane)
        b.set(parts, scope.i32(whole), scope.i32(lane), b.real(0.0));
      b.when(has_last, [&] { load(scope.i32(whole)); });
    }
    split_to_tf32(scope, parts, parts, seconds);
    b.unrolled("i", whole, store);
    if (whole < count) b.when(has_last, [&] { store(scope.i32(whole)); });
  }
}

}  // namespace sinter
