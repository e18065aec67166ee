#include "codegen/lower_columns.h"

#include <map>

#include "codegen/combine.h"
#include "codegen/kernel_builder.h"
#include "codegen/outer_accumulators.h"
#include "codegen/tile_lowering.h"

namespace sinter {
namespace {

using kir::ExprId;
using kir::VarId;

class ColumnLowering {
 public:
  ColumnLowering(const SegmentFacts& facts, const Schedule& schedule)
      : facts_(facts),
        schedule_(schedule),
        list_(distribute(facts, {})),
        builder_(&kernel_),
        tiles_(facts, schedule, builder_),
        accumulators_(facts, builder_, tiles_, 1, schedule.vector_width) {}

  kir::Kernel run() {
    set_up();
    accumulators_.declare();
    const auto whole = [&] { walk_rows(); };
    builder_.when(tiles_.vector_is_inside(at(0)), whole);
    if (schedule_.rows_per_block > 1) combine_slots();
    builder_.when(
        builder_.both(builder_.equal(slot_, builder_.integer(0)), tiles_.vector_is_inside(at(0))),
        [&] { finish(); });
    return std::move(kernel_);
  }

 private:
  void set_up() {
    kernel_.name = facts_.fusion.name;
    kernel_.threads = schedule_.threads_per_block();
    kernel_.min_blocks_per_sm = schedule_.min_blocks_per_sm;
    tiles_.declare_buffers(true);
    rows_ = builder_.add_param("rows");
    const kir::ParamId columns = builder_.add_param("columns");
    const int64_t across = schedule_.threads_per_row;
    const int64_t reach = across * schedule_.vector_width;
    kernel_.grid = {columns, reach};
    builder_.comment(fmt::format("{} columns per block, shared by {} row slots", reach,
                                 schedule_.rows_per_block));
    const ExprId thread = builder_.special(kir::Special::kThreadIndex);
    slot_ = builder_.ref(builder_.declare("slot", builder_.div(thread, builder_.integer(across))));
    const DType index = tiles_.column_type();
    const ExprId block = builder_.cast(builder_.special(kir::Special::kBlockIndex), index);
    const ExprId lane = builder_.cast(builder_.rem(thread, builder_.integer(across)), index);
    const ExprId vector = builder_.add(builder_.mul(block, builder_.integer(across, index)), lane);
    first_ = builder_.ref(builder_.declare(
        "first_column", builder_.mul(vector, builder_.integer(schedule_.vector_width, index))));
  }

  /// Group `u` of the tiles at the thread's columns; callers guard.
  TilePosition at(int64_t u) {
    return {.group = builder_.integer(u),
            .batch = builder_.integer(u),
            .first_column = first_,
            .guard = Guard::kVector};
  }
  TilePosition inside(int64_t u) {
    TilePosition position = at(u);
    position.guard = Guard::kNone;
    return position;
  }

  void walk_rows() {
    const Stage& stage = list_.stages[0];
    const int64_t slots = schedule_.rows_per_block;
    const auto row_number = [&](int64_t value) { return builder_.integer(value, DType::kI64); };
    builder_.loop("first_row", builder_.cast(slot_, DType::kI64), builder_.param(rows_),
                  row_number(slots * schedule_.unroll), false, [&](ExprId first_row) {
                    for (const ValueId value : stage.loads)
                      tiles_.bind_tile(value, tiles_.declare_tile(value, schedule_.unroll), false);
                    std::vector<ExprId> rows;
                    const ExprId last = builder_.sub(builder_.param(rows_), row_number(1));
                    for (int64_t u = 0; u < schedule_.unroll; ++u) {
                      const ExprId row = builder_.add(first_row, row_number(u * slots));
                      // Past the end the last row is read again, and not used.
                      rows.push_back(u == 0
                                         ? row
                                         : builder_.ref(builder_.declare(fmt::format("row_{}", u),
                                                                         builder_.min(row, last))));
                      tiles_.enter_row(rows.back());
                      for (const ValueId value : stage.loads) tiles_.load(value, inside(u));
                    }
                    for (int64_t u = 0; u < schedule_.unroll; ++u) {
                      const auto accumulate = [&] {
                        tiles_.enter_row(rows[static_cast<size_t>(u)]);
                        for (const ValueId value : list_.row_values) tiles_.row_value(value);
                        accumulate_row(inside(u));
                      };
                      if (u == 0) {
                        accumulate();
                      } else {
                        builder_.when(builder_.less(builder_.add(first_row, row_number(u * slots)),
                                                    builder_.param(rows_)),
                                      accumulate);
                      }
                    }
                    for (const ValueId value : stage.loads) tiles_.unbind_tile(value);
                  });
    tiles_.enter_row(ExprId{});
  }

  void accumulate_row(const TilePosition& position) {
    const Stage& stage = list_.stages[0];
    std::map<size_t, VarId> output_tiles;
    for (const size_t output : stage.outputs)
      output_tiles[output] = tiles_.declare_output_tile(output);
    builder_.unrolled("v", schedule_.vector_width, [&](ExprId lane) {
      tiles_.begin_element(position, lane);
      accumulators_.accumulate(stage.outer, builder_.integer(0), lane);
      for (const auto& [output, tile] : output_tiles)
        builder_.set(tile, builder_.integer(0), lane, tiles_.output_element(output));
    });
    for (const auto& [output, tile] : output_tiles) tiles_.store(output, tile, position);
  }

  /// A tree over the slots: the upper half of those left hands its tuples to the lower half.
  void combine_slots() {
    builder_.comment(fmt::format("combine {} row slots", schedule_.rows_per_block));
    accumulators_.declare_exchange(kernel_.threads);
    const ExprId thread = builder_.special(kir::Special::kThreadIndex);
    for (int64_t half = schedule_.rows_per_block / 2; half >= 1; half /= 2) {
      const ExprId lower = builder_.less(slot_, builder_.integer(half));
      const ExprId upper = builder_.both(builder_.less_equal(builder_.integer(half), slot_),
                                         builder_.less(slot_, builder_.integer(2 * half)));
      builder_.when(upper, [&] { accumulators_.send(thread); });
      builder_.append(kir::Barrier{});
      builder_.when(lower, [&] {
        accumulators_.receive(
            builder_.add(thread, builder_.integer(half * schedule_.threads_per_row)));
      });
    }
  }

  void finish() {
    const TilePosition position = inside(0);
    std::vector<ValueId> loads;
    std::vector<size_t> outputs;
    for (size_t i = 0; i < facts_.fusion.outputs.size(); ++i) {
      if (facts_.is_after_rows(facts_.fusion.outputs[i])) outputs.push_back(i);
    }
    for (const ValueId value : finish_loads(facts_)) {
      tiles_.bind_tile(value, tiles_.declare_tile(value, 1), false);
      tiles_.load(value, position);
    }
    std::map<size_t, VarId> output_tiles;
    for (const size_t output : outputs) output_tiles[output] = tiles_.declare_output_tile(output);
    builder_.unrolled("v", schedule_.vector_width, [&](ExprId lane) {
      tiles_.begin_element(position, lane);
      accumulators_.define_results(builder_.integer(0), lane);
      for (const auto& [output, tile] : output_tiles)
        builder_.set(tile, builder_.integer(0), lane, tiles_.output_element(output));
    });
    for (const auto& [output, tile] : output_tiles) tiles_.store(output, tile, position);
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  const StageList list_;
  kir::Kernel kernel_;
  kir::KernelBuilder builder_;
  TileLowering tiles_;
  OuterAccumulators accumulators_;
  kir::ParamId rows_;
  ExprId slot_;   ///< The thread's row within its block.
  ExprId first_;  ///< Its first column.
};

}  // namespace

LoweredKernel lower_columns(const SegmentFacts& facts, const Schedule& schedule) {
  return {ColumnLowering(facts, schedule).run(), {facts.space.rows, facts.space.columns}};
}

}  // namespace sinter
