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

/// The current row as its threads see it; `tiles` has the row's number. By default the row exists
/// for every thread, its inputs are in global memory, and exchanges use the barrier of the block.
struct Row {
  /// False in threads that only repeat a row so that all threads reach barriers and shuffles; these
  /// threads store and accumulate nothing. Invalid: true in all threads.
  kir::ExprId is_real{};
  /// True in the leader thread, which stores and accumulates values that exist once per row.
  /// Invalid: the leader is the row's first thread.
  kir::ExprId is_leader{};
  RowInputs inputs{};
  RowExchange exchange{};
};

/// The work of a group of threads on one row. The driver decides which row that is, how many rows
/// there are, and how the inputs are loaded. Between the steps it may wait, release the pipeline
/// stage of the inputs, or start on the next row.
///
/// prepare, once for all rows of the threads
///     begin(row)  load  compute
///
/// Several rows may be processed in one iteration (unroll-and-jam): their stages alternate, and one
/// exchange carries the statistics of all of them.
///
///     prepare(rows), once
///     begin_rows(rows)  { select_row(0)  begin  load  select_row(1)  begin  load ... }  compute
///
/// Blocks that share rows may reduce and send many rows before they go on with the first of them:
/// all of that with rows whose exchange is kSend, and once more with kReceive. With kSend, rows are
/// only reduced as far as their first exchange; with kReceive they take what was sent, and do the
/// rest.
///
/// With Schedule::prefetch_rows, call load_prefetched in the first row. Then call take_prefetched
/// before each begin, and load_prefetched in the row after it.
///
/// In two-pass schedules (Schedule::rows_per_tile), begin and compute only reduce a row. After that
/// is done for all rows of a tile,
///
///     with_common_reads(chunk)  { apply(chunk) for each of them }
///
/// does the remaining work for a chunk of their columns.
class RowBody {
 public:
  RowBody(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
          TileLowering& tiles, RowWalk& walk, OuterAccumulators& outer);

  /// Declares the storage of values that are kept from stage to stage, for `rows` rows per
  /// iteration, and loads the values that are the same in every row.
  void prepare(size_t rows = 1);
  /// Begins an iteration of `rows` rows and forgets those of the previous iteration. `tiles`
  /// returns to its state when the first row was prepared.
  void begin_rows(size_t rows);
  /// Makes another row of the iteration the current row of `tiles`.
  void select_row(size_t row);
  /// Starts the loads of the prefetched inputs for the row that the tiles have entered.
  void load_prefetched();
  /// Makes the prefetched inputs those of the row that the tiles have entered.
  void take_prefetched();
  /// Starts the row that the tiles have entered, with the work that needs none of its elements: row
  /// values, and outputs that have one element per row.
  void begin(const Row& row);
  /// Loads the inputs that the row keeps.
  void load();
  /// Runs the stages of all rows of the iteration in order; values that are not kept are loaded
  /// chunk by chunk.
  void compute();

  /// Row values that begin and compute produce and apply uses, in any row.
  [[nodiscard]] const std::vector<ValueId>& tile_row_values() const {
    return list_.tile_row_values;
  }
  /// Evaluates the row values that are the same in every row.
  void evaluate_common();
  /// True if begin and compute have anything to do.
  [[nodiscard]] bool has_first_part() const;
  /// True if apply has anything to do.
  [[nodiscard]] bool has_second_part() const;
  /// Runs `rows` with the chunk's reads that are the same in every row already loaded.
  void with_common_reads(const RowChunk& chunk, const std::function<void()>& rows);
  /// Stores and accumulates a chunk of the row that the tiles have entered.
  void apply(const RowChunk& chunk);
  /// If a row is prefetched, runs `rows` with registers for a chunk's reads of two rows. `rows`
  /// calls load_next in the first row, and then for every row take_next, load_next in the row after
  /// it, and apply.
  void with_prefetch_rows(const RowChunk& chunk, const std::function<void()>& rows);
  void load_next(const RowChunk& chunk);
  void take_next(const RowChunk& chunk);

 private:
  [[nodiscard]] bool is_tiled() const { return schedule_.rows_per_tile() > 0; }
  [[nodiscard]] kir::ExprId is_leader();
  [[nodiscard]] size_t last_stage() const { return list_.stages.size() - 1; }
  struct SideRow {
    Row row{};
    TileLowering::RowView view{};  ///< Saved view while another row is current in the tiles.
  };

  [[nodiscard]] const Row& row() const { return rows_[current_].row; }
  [[nodiscard]] kir::ReduceHalf half() const { return row().exchange.half; }
  void expect_loads_after(size_t s);
  void send();
  void run_stage(size_t s);
  void exchange(size_t s, std::vector<RowStatistics>& statistics);
  void pass_over_row(const Stage& stage, size_t s, RowStatistics& statistics);
  void begin_passes(const Stage& stage, size_t s, RowStatistics& statistics);
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
  /// True for outputs that have one element per row.
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
  std::map<ValueId, kir::VarId> next_;  ///< Registers of apply's reads for the next row.
  RowResidents residents_;
  StageReads reads_;
  std::vector<TileLowering::RowView> prepared_;          ///< One for every row of an iteration.
  std::vector<SideRow> rows_ = std::vector<SideRow>(1);  ///< The rows of the iteration.
  size_t current_ = 0;
  int64_t sent_ = 0;  ///< First place of what the first half of an exchange sent.
};

}  // namespace sinter
