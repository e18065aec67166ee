#pragma once

#include <functional>

#include "codegen/kernel_builder.h"
#include "codegen/outer_accumulators.h"
#include "codegen/row_inputs.h"
#include "codegen/row_residents.h"
#include "codegen/row_statistics.h"
#include "codegen/row_walk.h"
#include "codegen/stage_reads.h"
#include "codegen/tile_lowering.h"

namespace sinter {

/// What the threads of a row know of it, beside its number, which the tiles have. As it stands, the
/// row is there for every thread, its inputs are in global memory, and the block waits together.
struct Row {
  /// False in threads that only repeat a row, so that barriers and shuffles stay whole: they store
  /// and accumulate nothing. Invalid: true in all.
  kir::ExprId is_real{};
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
/// Where rows come ahead (Schedule::rows_ahead), load_ahead in the first row, then before each
/// begin take_ahead, and load_ahead in the row after it.
class RowBody {
 public:
  RowBody(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
          TileLowering& tiles, RowWalk& walk, OuterAccumulators& outer);

  /// Declares what a row keeps from stage to stage, and loads what is the same in every row.
  void prepare();
  /// Starts loading the inputs that come ahead, of the row that the tiles have entered.
  void load_ahead();
  /// Makes those inputs, loaded last, the ones of the row that the tiles have entered.
  void take_ahead();
  /// Starts on the row that the tiles have entered, with what waits for none of its elements: row
  /// values, and outputs that have one element a row.
  void begin(const Row& row);
  /// Loads the inputs that the row keeps.
  void load();
  /// Runs the stages one after the other; chunk by chunk they load what is not kept.
  void compute();

 private:
  void run_stage(size_t s);
  [[nodiscard]] bool reads_shared() const;
  void with_reads(const ChunkReads& reads, const RowChunk& chunk,
                  const std::function<void()>& body);
  void sweep(const Stage& stage, RowStatistics& statistics, const RowChunk& chunk);
  void sweep_vector(const Stage& stage, RowStatistics& statistics, const TilePosition& at);
  void sweep_again(RowStatistics& statistics, const RowChunk& chunk);
  void keep_in_register(ValueId value, const TilePosition& at, kir::ExprId lane);
  void accumulate_outer(const Stage& stage, const TilePosition& at, kir::ExprId lane,
                        kir::ExprId inside);
  void accumulate_totals(const std::vector<OpId>& totals);
  void store_row_outputs(int level);
  void when_stored(size_t output, const std::function<void()>& body);

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  RowWalk& walk_;
  OuterAccumulators& outer_;
  const StageList list_;
  RowResidents residents_;
  StageReads reads_;
  Row row_;
};

}  // namespace sinter
