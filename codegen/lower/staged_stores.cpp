#include "codegen/lower/staged_stores.h"

#include <algorithm>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

StagedStores::Wide::Wide(const SegmentFacts& facts, kir::KernelBuilder& builder,
                         const TileLowering& buffers, int64_t width)
    : schedule{.vector_width = width}, tiles(facts, schedule, builder) {
  tiles.share_buffers(buffers);
}

StagedStores::StagedStores(const ProgramScope& scope, const TileLowering& tiles,
                           const program::Region& region)
    : scope_(scope), builder_(scope.builder), region_(region) {
  for (const program::Staging& staging : region.staged) {
    lowerings_[staging.output] =
        std::make_unique<Wide>(scope.facts, builder_, tiles, staging.width);
  }
}

ExprId StagedStores::index(const program::Tile& tile, ExprId row, ExprId column) {
  const int64_t of_chunk = chunk_elements(tile);
  const ExprId warp = builder_.div(scope_.thread, scope_.i32(kWarp));
  const ExprId first = builder_.add(builder_.mul(warp, scope_.i32(elements_of(tile))),
                                    builder_.mul(row, scope_.i32(tile.columns.extent)));
  const ExprId chunk =
      scope_.swizzled(layout_of(tile), row, builder_.div(column, scope_.i32(of_chunk)));
  return builder_.add(first, builder_.add(builder_.mul(chunk, scope_.i32(of_chunk)),
                                          scope_.remainder(column, of_chunk)));
}

void StagedStores::put(size_t output, VarId vector, ExprId row, ExprId column) {
  for (const program::Staging& staging : region_.staged) {
    if (staging.output != output) continue;
    const program::Tile& tile = scope_.tile(staging.tile);
    const ExprId zero = scope_.i32(0);
    builder_.append(kir::Store{.buffer = scope_.shared.at(staging.tile),
                               .index = index(tile, row, column),
                               .width = builder_.kernel().vars[vector].lanes,
                               .tile = vector,
                               .group = zero,
                               .lane = zero});
  }
}

void StagedStores::store(const Collected& collected) {
  builder_.append(kir::WarpBarrier{});
  for (const program::Staging& staging : region_.staged) store(staging, collected);
  // The lanes put the next rows where these were.
  builder_.append(kir::WarpBarrier{});
}

void StagedStores::store(const program::Staging& staging, const Collected& collected) {
  const program::Tile& tile = scope_.tile(staging.tile);
  const program::Tile& fragment = scope_.tile(region_.tile);
  const program::AxisId m = fragment.rows.axis;
  const program::AxisId n = fragment.columns.axis;
  TileLowering& wide = lowerings_.at(staging.output)->tiles;
  const int64_t in_row = collected.columns / staging.width;
  const int64_t accesses = tile.rows.extent * in_row;
  const ExprId zero = scope_.i32(0);
  const ExprId first_column = builder_.add(
      scope_.begins.at(n),
      scope_.wide(builder_.add(scope_.part_begins.at(n), scope_.i32(collected.first_column))));
  const auto store_one = [&](ExprId number) {
    const ExprId row = builder_.div(number, scope_.i32(in_row));
    const ExprId column = builder_.mul(scope_.remainder(number, in_row), scope_.i32(staging.width));
    const ExprId at_row =
        builder_.add(scope_.begins.at(m), scope_.wide(builder_.add(collected.first_row, row)));
    const TilePosition at{.group = zero,
                          .batch = zero,
                          .first_column = builder_.cast(
                              builder_.add(first_column, scope_.wide(column)), wide.column_type())};
    ExprId is_inside = builder_.less(at_row, scope_.extents.at(m));
    if (collected.predication != Predication::kNone)
      is_inside = builder_.both(is_inside, wide.vector_is_inside(at));
    builder_.when(is_inside, [&] {
      const VarId vector = builder_.declare_tile(tile.name + "_part", tile.type, 1, staging.width);
      builder_.append(kir::Load{.tile = vector,
                                .group = zero,
                                .lane = zero,
                                .width = staging.width,
                                .buffer = scope_.shared.at(staging.tile),
                                .index = index(tile, row, column)});
      wide.enter_row(scope_.row_of_space(m, at_row));
      wide.store(staging.output, vector, at);
      wide.enter_row(ExprId{});
    });
  };
  // Some accesses are in flight together. The addresses of all of them would take the registers
  // that the fragments have.
  constexpr int64_t kTogether = program::kStoresTogether;
  const int64_t of_lane = divided_up(accesses, kWarp);
  const auto store_from = [&](ExprId first) {
    builder_.unrolled("u", std::min(of_lane, kTogether), [&](ExprId u) {
      const ExprId t = builder_.add(first, u);
      const ExprId number = builder_.add(scope_.lane, builder_.mul(t, scope_.i32(kWarp)));
      if (accesses % (kWarp * std::min(of_lane, kTogether)) == 0) {
        store_one(number);
      } else {
        builder_.when(builder_.less(number, scope_.i32(accesses)), [&] { store_one(number); });
      }
    });
  };
  if (of_lane <= kTogether) {
    store_from(zero);
  } else {
    builder_.loop("t", zero, scope_.i32(of_lane), scope_.i32(kTogether), false, store_from);
  }
}

}  // namespace sinter
