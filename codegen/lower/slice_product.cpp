#include "codegen/lower/slice_product.h"

#include "codegen/lower/fragment_product.h"
#include "codegen/lower/operand_copies.h"
#include "fusion_ir/integers.h"
#include "scheduler/program/program_walks.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

namespace {

/// Chunks of a line, and of the half that a matrix instruction takes of it.
constexpr int64_t kLineChunks = program::kLineBytes / program::kChunkBytes;
constexpr int64_t kHalfChunks = kLineChunks / 2;
/// Columns whose lines a warp loads at once.
constexpr int64_t kColumns = kWarp / kLineChunks;
/// Registers of a chunk. An instruction takes two of them.
constexpr int64_t kWords = program::kChunkBytes / kRegisterBytes;
constexpr int64_t kWordsOfInstruction = 2;
/// Rows of the tile that an instruction has: their lines in two halves.
constexpr int64_t kRows = program::kFragmentRows;

}  // namespace

SliceProduct::SliceProduct(const ProgramScope& scope, const TileLowering& tiles,
                           const program::Pipeline& pipeline)
    : TileProduct(scope, std::get<program::Contract>(scope.program.steps[pipeline.body.front()])),
      pipeline_(pipeline),
      left_(operand(tiles, true)),
      right_(operand(tiles, false)) {}

SliceProduct::Operand SliceProduct::operand(const TileLowering& tiles, bool of_rows) const {
  for (const program::StepId id : pipeline_.copies) {
    const auto& copy = std::get<program::Copy>(scope_.program.steps[id]);
    if (copy.of_rows != of_rows) continue;
    const program::Tile& tile = scope_.tile(copy.tile);
    const TensorAccess& access = of_rows ? scope_.contraction().rows : scope_.contraction().columns;
    return {.copy = copy,
            .tile = tile,
            .access = access,
            .buffer = tiles.buffer_of(access.tensor),
            .rows_together = of_rows ? kRows : kColumns,
            .chunks_together = of_rows ? kHalfChunks : kLineChunks};
  }
  unreachable();
}

/// Where the lane's loads begin, and the registers that they fill.
void SliceProduct::declare(Operand& operand) {
  const program::AxisId own = operand.tile.rows.axis;
  const std::string& name = operand.tile.name;
  const int64_t rows = operand.tile.rows.extent / operand.rows_together;
  const ExprId in_rows = builder_.div(scope_.lane, scope_.i32(operand.chunks_together));
  const ExprId chunk = scope_.remainder(scope_.lane, operand.chunks_together);
  operand.in_line =
      scope_.named(name + "_in_line", builder_.mul(chunk, scope_.i32(operand.copy.width)));
  operand.first = builder_.declare_tile(name + "_first", DType::kI64, rows, 1);
  // Rows beyond the end are not read: a tile may have but one. Of the columns it has nearly all.
  if (operand.copy.of_rows)
    operand.end = builder_.declare_tile(name + "_end", DType::kI32, rows, 1);
  builder_.unrolled("i", rows, [&](ExprId i) {
    const ExprId in_tile =
        builder_.add(builder_.mul(i, scope_.i32(operand.rows_together)), in_rows);
    const ExprId index = builder_.add(scope_.begins.at(own), scope_.wide(in_tile));
    const ExprId last = builder_.sub(scope_.extents.at(own), scope_.i64(1));
    const ExprId element = operand_element(scope_, operand.access, own, pipeline_.loop.axis,
                                           builder_.min(index, last));
    builder_.set(operand.first, i, scope_.i32(0), element);
    if (operand.copy.of_rows) {
      builder_.set(operand.end, i, scope_.i32(0),
                   builder_.select(builder_.less_equal(index, last), scope_.i32(contracted()),
                                   scope_.i32(0)));
    }
  });
  operand.loaded =
      builder_.declare_tile(name + "_line", operand.tile.type,
                            operand.tile.stages * vectors(operand), operand.copy.width);
}

int64_t SliceProduct::contracted() const { return scope_.program.axes[pipeline_.loop.axis].extent; }

int64_t SliceProduct::vectors(const Operand& operand) {
  return operand.tile.rows.extent / operand.rows_together * kLineChunks / operand.chunks_together;
}

void SliceProduct::load(const Operand& operand, ExprId begin, ExprId stage) {
  const int64_t parts = kLineChunks / operand.chunks_together;
  const int64_t of_part = operand.chunks_together * operand.copy.width;
  const ExprId none = scope_.zero(operand.tile.type);
  builder_.unrolled("i", vectors(operand), [&](ExprId i) {
    const ExprId row = builder_.div(i, scope_.i32(parts));
    const ExprId part = scope_.remainder(i, parts);
    const ExprId group = builder_.add(builder_.mul(stage, scope_.i32(vectors(operand))), i);
    const ExprId at =
        builder_.add(begin, builder_.add(operand.in_line, builder_.mul(part, scope_.i32(of_part))));
    ExprId is_inside;
    if (operand.copy.of_rows) {
      is_inside = builder_.less(at, builder_.element(operand.end, row, scope_.i32(0)));
    } else if (!program::has_whole_turns(scope_.program, pipeline_)) {
      is_inside = builder_.less(at, scope_.i32(contracted()));
    }
    if (is_inside.valid()) {
      builder_.unrolled("v", operand.copy.width,
                        [&](ExprId v) { builder_.set(operand.loaded, group, v, none); });
    }
    const ExprId offset =
        offset_along(scope_, operand.access, pipeline_.loop.axis, scope_.wide(at));
    builder_.append(kir::Load{
        .tile = operand.loaded,
        .group = group,
        .lane = scope_.i32(0),
        .width = operand.copy.width,
        .buffer = operand.buffer,
        .index = builder_.add(builder_.element(operand.first, row, scope_.i32(0)), offset),
        .hint = hint_of(operand.copy),
        .predicate = is_inside});
  });
}

void SliceProduct::multiply() {
  declare(left_);
  declare(right_);
  const int64_t groups =
      sum_.rows.extent / kRows * (sum_.columns.extent / kColumns) * kir::Mma::kAccumulatorGroups;
  sums_ = builder_.declare_tile(sum_.name, sum_.type, groups, kir::Mma::kAccumulatorLanes);
  const ExprId none = scope_.zero(sum_.type);
  builder_.unrolled("i", groups, [&](ExprId i) {
    for (int64_t lane = 0; lane < kir::Mma::kAccumulatorLanes; ++lane)
      builder_.set(sums_, i, scope_.i32(lane), none);
  });
  const ExprId warp = scope_.named("warp", builder_.div(scope_.thread, scope_.i32(kWarp)));
  const int64_t of_turn = pipeline_.loop.step * pipeline_.stages;
  const int64_t rounds = divided_up(contracted(), of_turn * pipeline_.slice_warps);
  const auto begin_of = [&](ExprId round) {
    const ExprId turn = builder_.add(builder_.mul(round, scope_.i32(pipeline_.slice_warps)), warp);
    return scope_.named("k_begin", builder_.mul(turn, scope_.i32(of_turn)));
  };
  const auto line = [&](ExprId begin, ExprId stage) {
    return builder_.add(begin, builder_.mul(stage, scope_.i32(pipeline_.loop.step)));
  };
  const auto load_columns = [&](ExprId begin) {
    builder_.unrolled("stage", pipeline_.stages,
                      [&](ExprId stage) { load(right_, line(begin, stage), stage); });
  };
  if (pipeline_.loads_before_wait) {
    builder_.set_constant(right_.buffer);
    builder_.comment("columns that the kernel before does not write");
    load_columns(begin_of(scope_.i32(0)));
    builder_.append(kir::WaitForPrevious{});
  }
  builder_.loop(
      "round", scope_.i32(0), scope_.i32(rounds), scope_.i32(1), false, [&](ExprId round) {
        const ExprId begin = begin_of(round);
        if (pipeline_.loads_before_wait) {
          builder_.when(builder_.less(scope_.i32(0), round), [&] { load_columns(begin); });
        } else {
          load_columns(begin);
        }
        builder_.unrolled("stage", pipeline_.stages, [&](ExprId stage) {
          load(left_, line(begin, stage), scope_.i32(0));
          multiply_line(stage);
        });
      });
}

void SliceProduct::take_word(const Operand& operand, VarId registers, ExprId from, ExprId word,
                             int64_t to) {
  const int64_t of_word = kRegisterBytes / bytes_of(operand.tile.type);
  for (int64_t v = 0; v < of_word; ++v) {
    const ExprId lane = builder_.add(builder_.mul(word, scope_.i32(of_word)), scope_.i32(v));
    ExprId element = builder_.element(operand.loaded, from, lane);
    if (contract_.precision == ContractPrecision::kTf32) element = builder_.round_to_tf32(element);
    builder_.set(registers, scope_.i32(to), scope_.i32(v), element);
  }
}

void SliceProduct::multiply_line(ExprId stage) {
  const int64_t of_word = kRegisterBytes / bytes_of(left_.tile.type);
  const int64_t columns = sum_.columns.extent / kColumns;
  constexpr int64_t kHalvesOfLine = kLineChunks / kHalfChunks;
  const VarId left = builder_.declare_tile(left_.tile.name + "_part", left_.tile.type,
                                           kir::Mma::kLeftGroups, of_word);
  const VarId right = builder_.declare_tile(right_.tile.name + "_part", right_.tile.type,
                                            kir::Mma::kRightGroups, of_word);
  builder_.unrolled("pair", kWords / kWordsOfInstruction, [&](ExprId pair) {
    const auto word = [&](int64_t of_pair) {
      return builder_.add(builder_.mul(pair, scope_.i32(kWordsOfInstruction)), scope_.i32(of_pair));
    };
    builder_.unrolled("i", sum_.rows.extent / kRows, [&](ExprId i) {
      // Registers of a left operand: the first word of both halves, then the second.
      for (int64_t group = 0; group < kir::Mma::kLeftGroups; ++group) {
        const ExprId vector = builder_.add(builder_.mul(i, scope_.i32(kHalvesOfLine)),
                                           scope_.i32(group % kHalvesOfLine));
        take_word(left_, left, vector, word(group / kHalvesOfLine), group);
      }
      builder_.unrolled("j", columns, [&](ExprId j) {
        const ExprId vector = builder_.add(builder_.mul(stage, scope_.i32(columns)), j);
        for (int64_t group = 0; group < kir::Mma::kRightGroups; ++group)
          take_word(right_, right, vector, word(group), group);
        builder_.append(kir::Mma{.accumulator = sums_,
                                 .accumulator_group = accumulator(i, j),
                                 .left = left,
                                 .left_group = scope_.i32(0),
                                 .right = right,
                                 .right_group = scope_.i32(0)});
      });
    });
  });
}

ExprId SliceProduct::accumulator(ExprId i, ExprId j) const {
  const ExprId number =
      builder_.add(builder_.mul(i, scope_.i32(sum_.columns.extent / kColumns)), j);
  return builder_.mul(number, scope_.i32(kir::Mma::kAccumulatorGroups));
}

void SliceProduct::put(const program::Merge& merge) {
  const program::Tile& through = scope_.tile(merge.through);
  const ExprId warp = builder_.div(scope_.thread, scope_.i32(kWarp));
  const VarId both = builder_.declare_tile("both", sum_.type, 1, 1);
  const ExprId zero = scope_.i32(0);
  const ExprId one = scope_.i32(1);
  builder_.unrolled("i", sum_.rows.extent / kRows, [&](ExprId i) {
    builder_.unrolled("j", sum_.columns.extent / kColumns, [&](ExprId j) {
      const ExprId group = accumulator(i, j);
      builder_.set(both, zero, zero,
                   builder_.add(builder_.element(sums_, group, zero),
                                builder_.element(sums_, builder_.add(group, one), one)));
      const ExprId row = builder_.add(builder_.mul(i, scope_.i32(kRows)), row_of_lane(scope_));
      const ExprId column = builder_.add(builder_.mul(j, scope_.i32(kColumns)),
                                         scope_.remainder(scope_.lane, kLanesOfRow));
      builder_.append(kir::Store{.buffer = scope_.shared.at(merge.through),
                                 .index = scope_.shared_element(through, warp, row, column),
                                 .width = 1,
                                 .tile = both,
                                 .group = zero,
                                 .lane = zero});
    });
  });
  builder_.append(kir::Barrier{});
}

void SliceProduct::take(const program::Merge& merge) {
  const program::Tile& through = scope_.tile(merge.through);
  const program::Tile& fragment = scope_.tile(merge.fragment);
  const VarId out = scope_.fragments.at(merge.fragment);
  const VarId of_warp = builder_.declare_tile("of_warp", fragment.type, 1, kPair);
  const ExprId zero = scope_.i32(0);
  const ExprId column =
      builder_.add(scope_.part_begins.at(fragment.columns.axis),
                   builder_.mul(scope_.remainder(scope_.lane, kLanesOfRow), scope_.i32(kPair)));
  const ExprId row = builder_.add(first_row(scope_, fragment, zero, zero), row_of_lane(scope_));
  builder_.unrolled("warp", through.stages, [&](ExprId warp) {
    builder_.append(kir::Load{.tile = of_warp,
                              .group = zero,
                              .lane = zero,
                              .width = kPair,
                              .buffer = scope_.shared.at(merge.through),
                              .index = scope_.shared_element(through, warp, row, column)});
    for (int64_t lane = 0; lane < kPair; ++lane) {
      const ExprId sum = builder_.element(out, zero, scope_.i32(lane));
      builder_.set(out, zero, scope_.i32(lane),
                   builder_.add(sum, builder_.element(of_warp, zero, scope_.i32(lane))));
    }
  });
}

}  // namespace sinter
