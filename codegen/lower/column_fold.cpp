#include "codegen/lower/column_fold.h"

#include <map>

#include "codegen/kernel/combine.h"
#include "codegen/lower/column_finish.h"
#include "codegen/lower/last_block_finish.h"
#include "codegen/lower/outer_accumulators.h"
#include "scheduler/program/program_walks.h"
#include "scheduler/schedule/accumulators.h"

namespace sinter {
namespace {

using kir::ExprId;
using kir::VarId;

class FoldLowering {
 public:
  FoldLowering(const ProgramScope& scope, const StageList& list, TileLowering& tiles,
               const program::Fold& fold, const Schedule& schedule)
      : facts_(scope.facts),
        schedule_(schedule),
        fold_(fold),
        list_(list),
        builder_(scope.builder),
        tiles_(tiles),
        accumulators_(scope.facts, schedule, scope.builder, tiles, 1),
        rows_(scope.launched.at(fold.rows)),
        strip_count_(program::tile_count(scope.program)) {
    if (!is_split()) columns_ = scope.launched.at(fold.columns);
  }

  void run(kir::Kernel& kernel, std::vector<int64_t>& values) {
    set_up(kernel);
    accumulators_.declare();
    if (is_split()) {
      accumulators_.declare_partials(fold_.by_last_block ? kir::Access::kReadWrite
                                                         : kir::Access::kWrite);
    }
    const auto whole = [&] { walk_rows(); };
    builder_.when(tiles_.vector_is_inside(at(0)), whole);
    if (fold_.slots > 1) {
      accumulators_.combine_slots(fold_.slots, fold_.across, slot_, lane_,
                                  [&] { builder_.append(kir::Barrier{}); });
    }
    ExprId ends = builder_.equal(slot_, builder_.integer(0));
    if (fold_.cluster > 1) {
      builder_.when(ends,
                    [&] { accumulators_.combine_blocks(member_, fold_.across, lane_, arrived_); });
      ends = builder_.both(ends, builder_.equal(member_, builder_.integer(0)));
    }
    builder_.when(builder_.both(ends, tiles_.vector_is_inside(at(0))),
                  [&] { is_split() ? store_partials() : finish(); });
    if (fold_.by_last_block) finish_by_last_block();
    if (is_split()) values.insert(values.end(), {strip_count_, strip_count_ * fold_.shares});
  }

 private:
  void set_up(kir::Kernel& kernel) {
    kernel.cluster = fold_.cluster;
    const int64_t across = fold_.across;
    const DType index = tiles_.column_type();
    builder_.comment(
        fmt::format("{} columns per block, shared by {} row slots", reach(), fold_.slots));
    ExprId block = builder_.special(kir::Special::kBlockIndex);
    if (fold_.cluster > 1) {
      const ExprId cluster = builder_.integer(fold_.cluster);
      member_ = builder_.ref(builder_.declare("member", builder_.rem(block, cluster)));
      block = builder_.div(block, cluster);
      arrived_ = builder_.add_mbarriers("arrived", 1, 1);
      builder_.init_mbarriers();
    }
    block = builder_.cast(block, index);
    if (is_split()) {
      // Consecutive blocks read adjacent columns of the same rows.
      strips_ = builder_.add_param("strips");
      const ExprId strips = builder_.cast(builder_.param(strips_), index);
      blocks_ = builder_.add_param("blocks");
      kernel.grid = {blocks_, 1};
      split_ = builder_.ref(
          builder_.declare("split", builder_.cast(builder_.div(block, strips), DType::kI64)));
      block = strip_ = builder_.rem(block, strips);
    } else {
      kernel.grid = {columns_, reach()};
    }
    const ExprId thread = builder_.special(kir::Special::kThreadIndex);
    slot_ = builder_.ref(builder_.declare("slot", builder_.div(thread, builder_.integer(across))));
    lane_ = builder_.rem(thread, builder_.integer(across));
    const ExprId vector = builder_.add(builder_.mul(block, builder_.integer(across, index)),
                                       builder_.cast(lane_, index));
    first_ = builder_.ref(builder_.declare(
        "first_column", builder_.mul(vector, builder_.integer(fold_.width, index))));
  }

  /// Group `u` of the tiles at the thread's columns; callers add the predication.
  TilePosition at(int64_t u) {
    return {.group = builder_.integer(u),
            .batch = builder_.integer(u),
            .first_column = first_,
            .predication = Predication::kVector};
  }
  TilePosition inside(int64_t u) {
    TilePosition position = at(u);
    position.predication = Predication::kNone;
    return position;
  }

  void walk_rows() {
    const Stage& stage = list_.stages[0];
    const int64_t slots = fold_.slots;
    const int64_t walk = slots * fold_.ahead;
    const auto row_number = [&](int64_t value) { return builder_.integer(value, DType::kI64); };
    ExprId begin = builder_.cast(slot_, DType::kI64);
    const int64_t blocks = program::blocks_of_columns(fold_);
    if (blocks > 1) begin = builder_.add(begin, builder_.mul(share(), row_number(walk)));
    builder_.loop("first_row", begin, builder_.param(rows_), row_number(walk * blocks), false,
                  [&](ExprId first_row) {
                    for (const ValueId value : stage.loads)
                      tiles_.bind_tile(value, tiles_.declare_tile(value, fold_.ahead), false);
                    std::vector<ExprId> rows;
                    const ExprId last = builder_.sub(builder_.param(rows_), row_number(1));
                    for (int64_t u = 0; u < fold_.ahead; ++u) {
                      const ExprId row = builder_.add(first_row, row_number(u * slots));
                      // Past the end, the last row is read again and not used.
                      rows.push_back(u == 0
                                         ? row
                                         : builder_.ref(builder_.declare(fmt::format("row_{}", u),
                                                                         builder_.min(row, last))));
                      tiles_.enter_row(rows.back());
                      for (const ValueId value : stage.loads) tiles_.load(value, inside(u));
                    }
                    for (int64_t u = 0; u < fold_.ahead; ++u) {
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

  /// Number of the block among those that share its columns, i64.
  ExprId share() {
    if (!member_.valid()) return split_;
    const ExprId member = builder_.cast(member_, DType::kI64);
    if (!is_split()) return member;
    return builder_.add(builder_.mul(split_, builder_.integer(fold_.cluster, DType::kI64)), member);
  }

  void accumulate_row(const TilePosition& position) {
    const Stage& stage = list_.stages[0];
    std::map<size_t, VarId> output_tiles;
    for (const size_t output : stage.outputs)
      output_tiles[output] = tiles_.declare_output_tile(output);
    // All threads of a slot have the same totals.
    accumulators_.accumulate_row(list_.totals);
    builder_.unrolled("v", fold_.width, [&](ExprId lane) {
      tiles_.begin_element(position, lane);
      accumulators_.accumulate(stage.outer, builder_.integer(0), lane);
      for (const auto& [output, tile] : output_tiles)
        builder_.set(tile, builder_.integer(0), lane, tiles_.output_element(output));
    });
    for (const auto& [output, tile] : output_tiles) tiles_.store(output, tile, position);
  }

  /// Stores the block's accumulators over its share of the rows.
  void store_partials() {
    const ExprId columns = builder_.integer(facts_.space.columns, DType::kI64);
    const ExprId index =
        builder_.add(builder_.mul(split_, columns), builder_.cast(first_, DType::kI64));
    accumulators_.store_partials(builder_.integer(0), index);
    if (accumulators_.has_totals()) when_first([&] { accumulators_.store_totals(split_); });
  }

  /// Runs `body` in the thread of the first column.
  void when_first(const std::function<void()>& body) {
    builder_.when(builder_.equal(first_, builder_.integer(0, tiles_.column_type())), body);
  }

  void finish() {
    const TilePosition position = inside(0);
    accumulators_.define_totals();
    store_finished_totals(facts_, tiles_,
                          [&](const std::function<void()>& body) { when_first(body); });
    store_finished_columns(facts_, builder_, tiles_, accumulators_, position);
  }

  /// Last-block reduction over the blocks, or first blocks of clusters, that share these columns;
  /// or over all of them.
  void finish_by_last_block() {
    const auto finish = [&] {
      const DType index = tiles_.column_type();
      const ExprId clusters = builder_.param(blocks_);
      const ExprId rows = builder_.ref(
          builder_.declare("partial_rows", builder_.div(clusters, builder_.param(strips_))));
      const bool apart = !accumulators_.has_totals();
      LastBlockFinish(facts_, schedule_, builder_, tiles_, accumulators_)
          .run({.thread = builder_.special(kir::Special::kThreadIndex),
                .strip = apart ? builder_.cast(strip_, DType::kI32) : builder_.integer(0),
                .first_column = apart ? builder_.mul(strip_, builder_.integer(reach(), index))
                                      : builder_.integer(0, index),
                .blocks = builder_.cast(apart ? rows : clusters, DType::kI32),
                .rows = rows,
                .barrier = [&] { builder_.append(kir::Barrier{}); }});
    };
    if (fold_.cluster == 1) {
      finish();
    } else {
      builder_.when(builder_.equal(member_, builder_.integer(0)), finish);
    }
  }

  /// True if several blocks share a strip (run of columns) and store partial results.
  [[nodiscard]] bool is_split() const { return fold_.shares > 0; }
  [[nodiscard]] int64_t reach() const { return fold_.reach(); }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  const program::Fold& fold_;
  const StageList& list_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  OuterAccumulators accumulators_;
  kir::ParamId rows_;
  int64_t strip_count_;
  kir::ParamId columns_;          ///< Only if not split.
  kir::ParamId strips_, blocks_;  ///< Strips (runs of columns), and blocks; only if split.
  /// Signals the accumulators of the cluster's other blocks; only in clusters.
  kir::MbarrierId arrived_;
  ExprId member_;  ///< Number of the block in its cluster, i32; only in clusters.
  ExprId split_;   ///< Number among the blocks or clusters that share these columns, i64; only if
                   ///< split.
  ExprId strip_;   ///< Number of the strip; only if split.
  ExprId slot_;    ///< The thread's row slot within its block.
  ExprId lane_;    ///< The thread's number within the row.
  ExprId first_;   ///< The thread's first column.
};

}  // namespace

void lower_fold(const ProgramScope& scope, const StageList& list, TileLowering& tiles,
                const program::Fold& fold, const Schedule& schedule, kir::Kernel& kernel,
                std::vector<int64_t>& values) {
  FoldLowering(scope, list, tiles, fold, schedule).run(kernel, values);
}

}  // namespace sinter
