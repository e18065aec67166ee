#pragma once

#include <string>
#include <vector>

#include "codegen/kernel_builder.h"
#include "codegen/kernel_ir.h"
#include "codegen/row_walk.h"
#include "codegen/tile_lowering.h"

namespace sinter {

/// Registers in which a thread accumulates the outer reductions of a segment over its rows: for
/// each component of each tuple a tile of groups x lanes elements.
class OuterAccumulators {
 public:
  OuterAccumulators(const SegmentFacts& facts, kir::KernelBuilder& builder, TileLowering& tiles,
                    int64_t groups, int64_t lanes);

  /// Declares the registers and gives them the identity.
  void declare();
  /// Combines the operands of `reductions` at the element at hand into their tuples.
  void accumulate(const std::vector<OpId>& reductions, kir::ExprId group, kir::ExprId lane);
  /// Lets later evaluations of the element at hand read the results.
  void define_results(kir::ExprId group, kir::ExprId lane);

  // ---- Exchange between the threads of a block, one group
  /// Declares shared memory for one tuple of each element of `threads` threads.
  void declare_exchange(int64_t threads);
  /// Writes the calling thread's tuples at `slot`.
  void send(kir::ExprId slot);
  /// Combines the tuples at `slot` into the calling thread's.
  void receive(kir::ExprId slot);

  // ---- Partial results
  /// Declares a global buffer for each component.
  void declare_partials();
  /// Stores one group of the calling thread at element `index` (i64) of those.
  void store_partials(kir::ExprId group, kir::ExprId index);

  /// Leaves the calling thread's tuples in global memory, where its row of the partial results has
  /// one for every column, for a kernel that combines these rows.
  void store_partials(RowWalk& walk, kir::ExprId row);

 private:
  struct Component {
    OpId op;
    size_t index = 0;  ///< Within the tuple.
    DType type = DType::kF32;
    kir::VarId tile;
    kir::BufferId exchange;
    kir::BufferId partials;
  };

  /// Reads a tuple into scalars, combines `others` into it, and writes it back.
  void combine(size_t first, kir::ExprId group, kir::ExprId lane,
               const std::vector<kir::ExprId>& others);
  std::vector<kir::ExprId> element_tuple(const Op& op);

  const SegmentFacts& facts_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  int64_t groups_;
  int64_t lanes_;
  std::vector<Component> components_;  ///< Those of one reduction are neighbours.
};

/// Values read from memory that what follows the outer reductions needs per column.
std::vector<ValueId> finish_loads(const SegmentFacts& facts);

}  // namespace sinter
