#include "codegen/lower/handed_elements.h"

#include <algorithm>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

HandedElements::HandedElements(const ProgramScope& scope, const TileLowering& buffers,
                               const program::Loop& loop, const program::Region& region)
    : scope_(scope),
      builder_(scope.builder),
      region_(region),
      tile_(scope.tile(region.tile)),
      schedule_(program::row_schedule(scope.program)),
      list_(stages_of(scope.facts, schedule_)),
      lanes_(program::epilogue_lanes(scope.program)),
      vectors_(program::epilogue_vectors(scope.program)),
      rows_(program::rows_together(scope.program)),
      tiles_(scope.facts, schedule_, builder_),
      handed_(scope, loop, region.tile, lanes_),
      partials_(scope, tiles_, region, list_.stages[0],
                {.lanes = lanes_, .groups = vectors_, .width = region.width}) {
  tiles_.share_buffers(buffers);
  tiles_.set_source(region.value, [this](const TilePosition& at, ExprId lane) {
    return builder_.element(chunks_, at.batch, lane);
  });
}

void HandedElements::evaluate() {
  const DType index = tiles_.column_type();
  const program::AxisId n = tile_.columns.axis;
  first_chunk_ = scope_.named("first_chunk", scope_.remainder(scope_.lane, lanes_));
  const ExprId in_tile = builder_.mul(first_chunk_, scope_.i32(region_.width));
  first_column_ = scope_.named(
      "first_column",
      builder_.add(builder_.cast(scope_.begins.at(n), index), builder_.cast(in_tile, index)));
  partials_.declare();
  const ExprId end = builder_.add(scope_.begins.at(n), scope_.i64(tile_.columns.extent));
  builder_.when(
      builder_.less_equal(end, scope_.extents.at(n)), [&] { body(Predication::kNone); },
      [&] {
        builder_.comment("the last tile reaches past the columns");
        body(Predication::kVector);
      });
  partials_.leave(handed_.number_of_warp(),
                  [&](ExprId number) { return position(number, Predication::kVector); });
}

void HandedElements::body(Predication predication) {
  load_common(predication);
  handed_.run([&](ExprId iteration) { evaluate_rows(iteration, predication); });
  for (const ValueId value : region_.kept) tiles_.unbind_tile(value);
}

TilePosition HandedElements::position(ExprId number, Predication predication) const {
  const DType index = tiles_.column_type();
  const ExprId offset = builder_.mul(number, scope_.i32(lanes_ * region_.width));
  return {.group = number,
          .batch = number,
          .first_column = builder_.add(first_column_, builder_.cast(offset, index)),
          .column_of_thread = first_column_,
          .column_of_vector = offset,
          .predication = predication};
}

void HandedElements::load_common(Predication predication) {
  for (const ValueId value : region_.kept)
    tiles_.bind_tile(value, tiles_.declare_tile(value, vectors_), true);
  builder_.unrolled("u", region_.kept.empty() ? 0 : vectors_, [&](ExprId number) {
    for (const ValueId value : region_.kept) tiles_.load(value, position(number, predication));
  });
}

void HandedElements::evaluate_rows(ExprId iteration, Predication predication) {
  const program::AxisId m = tile_.rows.axis;
  std::vector<ExprId> in_tile;
  std::vector<VarId> chunks;
  for (int64_t i = 0; i < rows_; ++i) {
    in_tile.push_back(handed_.row(iteration, i));
    chunks.push_back(tiles_.declare_tile(region_.value, vectors_));
    handed_.load(chunks.back(), in_tile.back(), first_chunk_, vectors_);
  }
  handed_.release(iteration);
  for (size_t i = 0; i < in_tile.size(); ++i) {
    chunks_ = chunks[i];
    const ExprId row =
        scope_.named("row", builder_.add(scope_.begins.at(m), scope_.wide(in_tile[i])));
    builder_.when(builder_.less(row, scope_.extents.at(m)), [&] {
      tiles_.enter_row(scope_.named("at_row", scope_.row_of_space(m, row)));
      for (const ValueId value : list_.row_values) tiles_.row_value(value);
      evaluate_row(predication);
      tiles_.enter_row(ExprId{});
    });
  }
}

void HandedElements::evaluate_row(Predication predication) {
  std::vector<ValueId> loads = list_.stages[0].loads;
  std::erase_if(loads, [&](ValueId value) { return tiles_.has_tile(value); });
  for (int64_t first = 0; first < vectors_; first += region_.ahead) {
    const int64_t count = std::min(region_.ahead, vectors_ - first);
    const auto at = [&](ExprId u) {
      TilePosition out = position(builder_.add(u, scope_.i32(first)), predication);
      out.group = u;
      return out;
    };
    for (const ValueId value : loads)
      tiles_.bind_tile(value, tiles_.declare_tile(value, count), false);
    builder_.unrolled("u", loads.empty() ? 0 : count, [&](ExprId u) {
      for (const ValueId value : loads) tiles_.load(value, at(u));
    });
    builder_.unrolled("u", count, [&](ExprId u) {
      const TilePosition vector = at(u);
      tiles_.evaluate_vector(list_.stages[0].outputs, vector,
                             [&](ExprId lane) { partials_.add(vector.batch, lane); });
    });
    for (const ValueId value : loads) tiles_.unbind_tile(value);
  }
}

}  // namespace sinter
