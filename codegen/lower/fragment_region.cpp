#include "codegen/lower/fragment_region.h"

#include <algorithm>
#include <map>

#include "codegen/lower/fragment_product.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

namespace {

constexpr int64_t kInstructionColumns = program::MatrixShape{}.n;

}  // namespace

FragmentRegion::FragmentRegion(const ProgramScope& scope, const StageList& list,
                               TileLowering& tiles, const program::Region& region)
    : scope_(scope),
      builder_(scope.builder),
      list_(list),
      tiles_(tiles),
      region_(region),
      tile_(scope.tile(region.tile)),
      fragment_(scope.fragments.at(region.tile)),
      staged_(scope, tiles, region),
      partials_(scope, tiles, region, list.stages[0],
                {.lanes = kLanesOfRow,
                 .groups = column_instructions(tile_) * vectors_of_instruction(),
                 .width = region.width}) {}

void FragmentRegion::evaluate() {
  const DType index = tiles_.column_type();
  const program::AxisId n = tile_.columns.axis;
  const ExprId in_tile = builder_.add(scope_.part_begins.at(n), lane_column());
  first_column_ = scope_.named(
      "first_column",
      builder_.add(builder_.cast(scope_.begins.at(n), index), builder_.cast(in_tile, index)));
  partials_.declare();
  const ExprId end = builder_.add(
      scope_.begins.at(n),
      scope_.wide(builder_.add(scope_.part_begins.at(n), scope_.i32(tile_.columns.extent))));
  builder_.when(
      builder_.less_equal(end, scope_.extents.at(n)), [&] { body(Predication::kNone); },
      [&] {
        builder_.comment("the last tile reaches past the columns");
        body(Predication::kVector);
      });
  partials_.leave(warp_of_rows(scope_, tile_), [&](ExprId vector) {
    const int64_t of_instruction = vectors_of_instruction();
    return TilePosition{
        .group = vector,
        .batch = vector,
        .first_column = column_of(
            builder_.div(vector, scope_.i32(of_instruction)),
            builder_.mul(scope_.remainder(vector, of_instruction), scope_.i32(region_.width)))};
  });
}

void FragmentRegion::body(Predication predication) {
  builder_.unrolled("i", row_instructions(tile_), [&](ExprId i) {
    builder_.unrolled("half", halves_of_rows(tile_), [&](ExprId half) {
      // What is stored through shared memory is stored before more is collected there.
      const int64_t columns = tile_.columns.extent;
      const int64_t collected = staged_.empty() ? columns : staged_.row_columns();
      for (int64_t first = 0; first < columns; first += collected) {
        const int64_t count = std::min(collected, columns - first);
        evaluate_row(i, half, first, count, predication);
        if (!staged_.empty()) {
          staged_.store({.first_row = first_row(scope_, tile_, i, half),
                         .first_column = first,
                         .columns = count,
                         .predication = predication});
        }
      }
    });
  });
}

void FragmentRegion::evaluate_row(ExprId i, ExprId half, int64_t first, int64_t count,
                                  Predication predication) {
  const program::AxisId m = tile_.rows.axis;
  const ExprId in_tile = builder_.add(first_row(scope_, tile_, i, half), row_of_lane(scope_));
  const ExprId row = builder_.ref(
      builder_.declare("row", builder_.add(scope_.begins.at(m), scope_.wide(in_tile))));
  const int64_t columns = column_instructions(tile_);
  builder_.when(builder_.less(row, scope_.extents.at(m)), [&] {
    tiles_.enter_row(scope_.row_of_space(m, row));
    for (const ValueId value : list_.row_values) tiles_.row_value(value);
    builder_.unrolled("j", count / kInstructionColumns, [&](ExprId of_part) {
      const ExprId j = builder_.add(of_part, scope_.i32(first / kInstructionColumns));
      const ExprId instruction = builder_.add(builder_.mul(i, scope_.i32(columns)), j);
      const ExprId group = builder_.add(builder_.mul(instruction, scope_.i32(2)), half);
      for (int64_t lane = 0; lane < kPair; lane += region_.width) {
        const ExprId collected =
            builder_.add(builder_.mul(of_part, scope_.i32(kInstructionColumns)),
                         builder_.add(lane_column(), scope_.i32(lane)));
        const ExprId number = builder_.add(builder_.mul(j, scope_.i32(vectors_of_instruction())),
                                           scope_.i32(lane / region_.width));
        evaluate_vector({.group = group,
                         .lane = lane,
                         .number = number,
                         .column = column_of(j, scope_.i32(lane)),
                         .collected = collected},
                        predication);
      }
    });
    tiles_.enter_row(ExprId{});
  });
}

int64_t FragmentRegion::vectors_of_instruction() const { return kPair / region_.width; }

ExprId FragmentRegion::column_of(ExprId j, ExprId lane) {
  const DType index = tiles_.column_type();
  const ExprId instruction = builder_.add(
      first_column_, builder_.cast(builder_.mul(j, scope_.i32(kInstructionColumns)), index));
  return builder_.add(instruction, builder_.cast(lane, index));
}

/// The first of the two columns of an instruction that the lane holds, i32.
ExprId FragmentRegion::lane_column() {
  return builder_.mul(scope_.remainder(scope_.lane, kLanesOfRow), scope_.i32(kPair));
}

void FragmentRegion::evaluate_vector(const Vector& vector, Predication predication) {
  const Stage& stage = list_.stages[0];
  const ExprId zero = scope_.i32(0);
  const TilePosition at{
      .group = zero, .batch = zero, .first_column = vector.column, .predication = predication};
  const auto evaluate = [&] {
    // A store must not come before the loads of the same vector: outputs may lie in inputs.
    for (const ValueId value : stage.loads) {
      tiles_.bind_tile(value, tiles_.declare_tile(value, 1), false);
      tiles_.load(value, at);
    }
    std::map<size_t, VarId> output_tiles;
    for (const size_t output : stage.outputs)
      output_tiles[output] = tiles_.declare_output_tile(output);
    builder_.unrolled("v", region_.width, [&](ExprId v) {
      tiles_.begin_element(at, v);
      tiles_.define_element_value(
          region_.value,
          builder_.element(fragment_, vector.group, builder_.add(v, scope_.i32(vector.lane))));
      for (const auto& [output, tile] : output_tiles)
        builder_.set(tile, zero, v, tiles_.output_element(output));
      partials_.add(vector.number, v);
    });
    for (const auto& [output, tile] : output_tiles) {
      if (staged_.takes(output)) {
        staged_.put(output, tile, row_of_lane(scope_), vector.collected);
      } else {
        tiles_.store_collected(output, tile, at);
      }
    }
    for (const ValueId value : stage.loads) tiles_.unbind_tile(value);
  };
  if (predication == Predication::kVector) {
    builder_.when(tiles_.vector_is_inside(at), evaluate);
  } else {
    evaluate();
  }
}

}  // namespace sinter
