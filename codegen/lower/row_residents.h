#pragma once

#include <map>
#include <vector>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/row_inputs.h"
#include "codegen/lower/row_walk.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/kept_value.h"

namespace sinter {

/// The values that the threads of a row keep from stage to stage (schedule.kept), in registers or
/// in shared memory, and the loads that fill them. A thread reads only the vectors that it keeps
/// itself, so no barrier is needed.
class RowResidents {
 public:
  RowResidents(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
               TileLowering& tiles, RowWalk& walk);

  /// Declares registers and shared memory for all kept values.
  void declare();
  /// Declares registers for one more row of the same iteration. The tiles are then bound to its own
  /// registers for values that differ from row to row. Values kept in shared memory must not
  /// differ.
  void declare_another_row();
  /// Loads the kept inputs that are the same in every row.
  void load_common() { load(false, {}); }
  /// Loads the other kept inputs of the current row; all loads are in flight before the first is
  /// used.
  void load_row(const RowInputs& inputs) { load(true, inputs); }
  /// Starts the loads of the prefetched inputs (prefetched_inputs) of the row that the tiles have
  /// entered.
  void load_prefetched();
  /// Makes the prefetched inputs those of the current row; waits until they have arrived.
  void take_prefetched();

  /// True for values that are already kept when stage s begins. Inputs are kept from the start,
  /// computed values from the stage that computes them.
  [[nodiscard]] bool is_held(ValueId value, size_t s) const;
  /// True for values kept in shared memory; tiles then hold one chunk at a time.
  [[nodiscard]] bool is_shared(ValueId value) const;
  /// Loads one vector of a value kept in shared memory into the value's bound tile.
  void load_shared(ValueId value, const TilePosition& at);
  /// Stores the one vector that a tile holds to shared memory.
  void store_shared(ValueId value, const TilePosition& at, kir::VarId tile);

 private:
  /// A vector that is loaded into registers and then stored to shared memory.
  struct Passing {
    ValueId value;
    TilePosition at;
    kir::VarId tile;
  };
  void load(bool rows, const RowInputs& inputs);
  /// Starts copying whole inputs to shared memory, by asynchronous copies where possible, so that
  /// as many bytes are in flight as shared memory holds. Returns the vectors outside of loops that
  /// go through registers; they are stored after all other copies are in flight.
  std::vector<Passing> start_shared_copies(const std::vector<ValueId>& copied);
  /// Stores these vectors and waits; each thread waits for its own copies only.
  void finish_shared_copies(const std::vector<ValueId>& copied,
                            const std::vector<Passing>& passing);
  /// True for vectors that go through registers; asynchronous copies take whole vectors only.
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
  std::map<ValueId, kir::VarId> next_;  ///< Registers of prefetched inputs.
};

}  // namespace sinter
