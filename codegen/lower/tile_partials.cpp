#include "codegen/lower/tile_partials.h"

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;

TilePartials::TilePartials(const ProgramScope& scope, TileLowering& tiles,
                           const program::Region& region, const Stage& stage, Layout layout)
    : scope_(scope),
      tiles_(tiles),
      region_(region),
      stage_(stage),
      layout_(layout),
      of_lanes_{.vector_width = layout.width},
      sums_(scope.facts, of_lanes_, scope.builder, tiles, layout.groups) {}

void TilePartials::declare() {
  if (has_any()) sums_.declare();
}

void TilePartials::add(ExprId group, ExprId lane) {
  if (has_any()) sums_.accumulate(stage_.outer, group, lane);
}

void TilePartials::leave(ExprId part, const std::function<TilePosition(ExprId)>& position) {
  if (!has_any()) return;
  kir::KernelBuilder& b = scope_.builder;
  b.comment("partial results of the tile's rows");
  sums_.declare_partials();
  sums_.combine_lanes(layout_.lanes, kWarp);
  const ExprId row =
      b.add(b.mul(tile_of_rows(), scope_.i64(region_.partial_rows)), scope_.wide(part));
  const ExprId start =
      scope_.named("partials_begin", b.mul(row, scope_.i64(scope_.facts.space.columns)));
  const program::AxisId n = scope_.tile(region_.tile).columns.axis;
  const bool fits = scope_.facts.space.columns % program::part_of_block(scope_.program, n) == 0;
  b.when(b.less(scope_.lane, scope_.i32(layout_.lanes)), [&] {
    b.unrolled("group", layout_.groups, [&](ExprId group) {
      const TilePosition at = position(group);
      const auto store = [&] {
        sums_.store_partials(group, b.add(start, scope_.wide(at.first_column)));
      };
      if (fits) {
        store();
      } else {
        b.when(tiles_.vector_is_inside(at), store);
      }
    });
  });
}

ExprId TilePartials::tile_of_rows() const {
  kir::KernelBuilder& b = scope_.builder;
  const program::AxisId m = scope_.tile(region_.tile).rows.axis;
  const ExprId step = scope_.i64(program::part_of_block(scope_.program, m));
  ExprId tile = b.div(scope_.begins.at(m), step);
  const ExprId last = b.add(scope_.extents.at(m), b.sub(step, scope_.i64(1)));
  for (const auto& [axis, begin] : scope_.begins) {
    if (scope_.program.axes[axis].first_loop < scope_.program.axes[m].first_loop)
      tile = b.add(b.mul(begin, b.div(last, step)), tile);
  }
  return tile;
}

}  // namespace sinter
