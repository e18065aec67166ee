#pragma once

#include <functional>
#include <map>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/outer_accumulators.h"
#include "codegen/lower/row_inputs.h"
#include "codegen/lower/row_residents.h"
#include "codegen/lower/row_statistics.h"
#include "codegen/lower/row_walk.h"
#include "codegen/lower/stage_reads.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/stages.h"

namespace sinter {

/// What the threads of a row know of it, beside its number, which the tiles have. As it stands, the
/// row is there for every thread, its inputs are in global memory, and the block waits together.
struct Row {
  /// False in threads that only repeat a row, so that barriers and shuffles stay whole: they store
  /// and accumulate nothing. Invalid: true in all.
  kir::ExprId is_real{};
  /// True in the one thread that stores and accumulates what there is once a row. Invalid: the
  /// row's first.
  kir::ExprId is_leader{};
  RowInputs inputs{};
  RowExchange exchange{};
};

/// What a group of threads does with one row. Which row that is, how many there are, and who brings
/// their inputs is the driver's matter; between the steps it may wait, let go of a place that the
/// inputs had, or start on the row after.
///
///     prepare, once for all rows that the threads take
///     begin(row)  load  compute
///
/// Several rows may be worked on side by side: their stages alternate, and one exchange carries the
/// statistics of all of them.
///
///     prepare(rows), once
///     begin_rows(rows)  { select_row(0)  begin  load  select_row(1)  begin  load ... }  compute
///
/// Where rows come ahead (Schedule::prefetch_rows), load_prefetched in the first row, then before
/// each begin take_prefetched, and load_prefetched in the row after it.
///
/// Where rows come in turns (Schedule::rows_per_tile), begin and compute reduce a row, and do no
/// more. When that is done for all rows of a turn
///
///     with_common_reads(chunk)  { apply(chunk) for each of them }
///
/// does what is left for a chunk of their columns.
class RowBody {
 public:
  RowBody(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
          TileLowering& tiles, RowWalk& walk, OuterAccumulators& outer);

  /// Declares what `rows` rows at a time keep from stage to stage, and loads what is the same in
  /// every row.
  void prepare(size_t rows = 1);
  /// Begins with so many rows side by side, and forgets those of the turn before. The tiles stand
  /// where they stood when the first row was prepared.
  void begin_rows(size_t rows);
  /// Takes the tiles to another row of the turn.
  void select_row(size_t row);
  /// Starts loading the inputs that come ahead, of the row that the tiles have entered.
  void load_prefetched();
  /// Makes those inputs, loaded last, the ones of the row that the tiles have entered.
  void take_prefetched();
  /// Starts on the row that the tiles have entered, with what waits for none of its elements: row
  /// values, and outputs that have one element a row.
  void begin(const Row& row);
  /// Loads the inputs that the row keeps.
  void load();
  /// Runs the stages of all rows of the turn one after the other; chunk by chunk they load what is
  /// not kept.
  void compute();

  /// Row values that apply takes from begin and compute, in any row.
  [[nodiscard]] const std::vector<ValueId>& tile_row_values() const {
    return list_.tile_row_values;
  }
  /// Evaluates the row values that all rows have from the start.
  void evaluate_common();
  /// True if begin and compute have anything to do.
  [[nodiscard]] bool has_first_part() const;
  /// True if apply has.
  [[nodiscard]] bool has_second_part() const;
  /// Runs `rows` with what a chunk reads that is the same in every row.
  void with_common_reads(const RowChunk& chunk, const std::function<void()>& rows);
  /// Goes through a chunk of the row that the tiles have entered: stores and accumulates.
  void apply(const RowChunk& chunk);
  /// Where a row comes ahead, runs `rows` with registers for what a chunk reads of two rows: it
  /// calls load_next in the first of them, and then in every row take_next, load_next in the row
  /// after it, and apply.
  void with_prefetch_rows(const RowChunk& chunk, const std::function<void()>& rows);
  void load_next(const RowChunk& chunk);
  void take_next(const RowChunk& chunk);

 private:
  [[nodiscard]] bool takes_turns() const { return schedule_.rows_per_tile > 0; }
  [[nodiscard]] kir::ExprId is_leader();
  [[nodiscard]] size_t last_stage() const { return list_.stages.size() - 1; }
  struct SideRow {
    Row row{};
    TileLowering::RowView view{};  ///< While the tiles stand in another row.
  };

  [[nodiscard]] const Row& row() const { return rows_[current_].row; }
  void run_stage(size_t s);
  void pass_over_row(size_t s, RowStatistics& statistics);
  void begin_passes(size_t s, RowStatistics& statistics);
  void finish_passes(size_t s, RowStatistics& statistics);
  [[nodiscard]] bool reads_shared() const;
  void with_reads(const ChunkReads& reads, const RowChunk& chunk,
                  const std::function<void()>& body);
  void sweep(const Stage& stage, RowStatistics& statistics, const RowChunk& chunk);
  void pass_over_vector(const Stage& stage, RowStatistics& statistics, const TilePosition& at);
  void second_pass(RowStatistics& statistics, const RowChunk& chunk);
  void keep_in_register(ValueId value, const TilePosition& at, kir::ExprId lane);
  void accumulate_outer(const Stage& stage, const TilePosition& at, kir::ExprId lane);
  void accumulate_totals(const std::vector<OpId>& totals);
  /// True for outputs that have one element a row.
  [[nodiscard]] bool is_row_output(size_t output) const;
  void store_row_outputs(int level);
  void when_stored(size_t output, const std::function<void()>& body);

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  RowWalk& walk_;
  OuterAccumulators& outer_;
  const StageList list_;
  std::map<ValueId, kir::VarId> next_;  ///< Registers of what apply reads of the row after.
  RowResidents residents_;
  StageReads reads_;
  std::vector<TileLowering::RowView> prepared_;  ///< Of every row that may be worked on at once.
  std::vector<SideRow> rows_ = std::vector<SideRow>(1);  ///< Of the turn.
  size_t current_ = 0;
};

}  // namespace sinter
