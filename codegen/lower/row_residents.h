#pragma once

#include <map>
#include <vector>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/row_inputs.h"
#include "codegen/lower/row_walk.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/kept_value.h"

namespace sinter {

/// What the threads of a row keep from stage to stage (schedule.kept), in registers or in
/// shared memory: where it lies, and how inputs get there. A thread keeps its own vectors and reads
/// no others, so that nothing of this needs a barrier.
class RowResidents {
 public:
  RowResidents(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
               TileLowering& tiles, RowWalk& walk);

  /// Declares registers and shared memory for all of it.
  void declare();
  /// Declares registers for one more row to be worked on beside the others: the tiles then have
  /// those of its own for what differs from row to row. What is kept in shared memory must not.
  void declare_another_row();
  /// Loads the inputs among it that are the same in every row.
  void load_common() { load(false, {}); }
  /// Loads the others, of the row at hand: all its loads are in flight before the first is used.
  void load_row(const RowInputs& inputs) { load(true, inputs); }
  /// Starts loading what comes a row ahead (prefetched_inputs), of the row that the tiles have
  /// entered.
  void load_prefetched();
  /// Makes what was loaded ahead that of the row at hand, once it has arrived.
  void take_prefetched();

  /// True for what is kept since before stage s: inputs from the start, computed values from the
  /// stage that computes them.
  [[nodiscard]] bool is_held(ValueId value, size_t s) const;
  /// True for what is kept in shared memory; tiles then hold a chunk of it at a time.
  [[nodiscard]] bool is_shared(ValueId value) const;
  /// Loads one vector of what is kept in shared memory into the value's bound tile.
  void load_shared(ValueId value, const TilePosition& at);
  /// Keeps the one vector that a tile holds.
  void store_shared(ValueId value, const TilePosition& at, kir::VarId tile);

 private:
  /// A vector that is loaded into registers, on its way to shared memory.
  struct Passing {
    ValueId value;
    TilePosition at;
    kir::VarId tile;
  };
  void load(bool rows, const RowInputs& inputs);
  /// Copies inputs to shared memory whole, past the registers where that can be, so that as much is
  /// in flight as shared memory holds. Returns what comes through registers, outside of loops, and
  /// is to be stored once all else is in flight too.
  std::vector<Passing> start_shared_copies(const std::vector<ValueId>& copied);
  /// Stores it, and waits: each thread for its own copies only.
  void finish_shared_copies(const std::vector<ValueId>& copied,
                            const std::vector<Passing>& passing);
  /// True for vectors that are loaded and stored: copies past the registers take whole ones.
  [[nodiscard]] bool passes_registers(ValueId value, const TilePosition& at) const;
  void load_passing(const std::vector<ValueId>& copied, const RowChunk& batch,
                    std::vector<Passing>& out);
  kir::ExprId shared_index(const TilePosition& at);
  [[nodiscard]] const KeptValue* find(ValueId value) const;

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  RowWalk& walk_;
  std::map<ValueId, kir::BufferId> shared_;
  std::map<ValueId, kir::VarId> next_;  ///< Registers of what comes a row ahead.
};

}  // namespace sinter
