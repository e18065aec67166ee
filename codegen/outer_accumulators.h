#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/kernel_builder.h"
#include "codegen/kernel_ir.h"
#include "codegen/row_statistics.h"
#include "codegen/row_walk.h"
#include "codegen/tile_lowering.h"

namespace sinter {

/// Registers in which a thread accumulates the outer reductions of a segment over its rows: for
/// each component of each tuple a tile of groups x lanes elements, or one register if it is a
/// total.
class OuterAccumulators {
 public:
  OuterAccumulators(const SegmentFacts& facts, kir::KernelBuilder& builder, TileLowering& tiles,
                    int64_t groups, int64_t lanes);

  /// Declares the registers and gives them the identity.
  void declare();
  /// Combines the operands of `reductions` at the element at hand into their tuples.
  void accumulate(const std::vector<OpId>& reductions, kir::ExprId group, kir::ExprId lane);
  /// Combines row values of the row at hand into totals.
  void accumulate_row(const std::vector<OpId>& totals);
  /// Lets later evaluations of the element at hand read the results.
  void define_results(kir::ExprId group, kir::ExprId lane);
  /// Lets later evaluations read the totals.
  void define_totals();
  [[nodiscard]] bool has_totals() const;

  /// Combines the totals of the `threads` threads of a row into one that all of them have.
  void combine_threads(int64_t threads, const RowExchange& exchange);
  /// Combines the tuples of `slots` slots of `threads` threads, those of equal numbers in their
  /// slots, into those of slot 0, by a tree through shared memory. All these threads come here;
  /// `barrier` emits what they wait for each other at. Shared bytes: slot_exchange_bytes.
  void combine_slots(int64_t slots, int64_t threads, kir::ExprId slot, kir::ExprId thread,
                     const std::function<void()>& barrier);
  /// Combines the tuples of the blocks of a cluster into those of its first block, one after the
  /// other in their order. `block` is the calling one's number in it. `threads` threads of each
  /// block come here, those of equal `thread` have the same columns. The first block waits at
  /// `arrived`, an mbarrier of one arrival. For one group. Shared bytes: block_exchange_bytes.
  void combine_blocks(kir::ExprId block, int64_t threads, kir::ExprId thread,
                      kir::MbarrierId arrived);

  // ---- Partial results, in global memory for a kernel that combines their rows
  /// Declares a buffer for each component.
  void declare_partials();
  /// Stores one group of the calling thread's tuples at element `index` (i64).
  void store_partials(kir::ExprId group, kir::ExprId index);
  /// Stores the calling thread's totals at element `row` (i64).
  void store_totals(kir::ExprId row);
  /// Stores all groups, each where `row` has its columns, and from the first thread the totals.
  void store_partials(RowWalk& walk, kir::ExprId row);

 private:
  struct Component {
    OpId op;
    size_t index = 0;  ///< Within the tuple.
    DType type = DType::kF32;
    bool total = false;
    kir::VarId tile;
    kir::BufferId exchange;
    kir::BufferId partials;
  };
  enum class Part : uint8_t { kColumns, kTotals };

  /// Reads a tuple into scalars, combines `others` into it, and writes it back.
  void combine(size_t first, kir::ExprId group, kir::ExprId lane,
               const std::vector<kir::ExprId>& others);
  std::vector<kir::ExprId> element_tuple(const Op& op);
  /// Gives the results of the reduction whose tuple starts at component `first`.
  void define(size_t first, kir::ExprId group, kir::ExprId lane,
              const std::function<void(ValueId, kir::ExprId)>& to);
  /// The components of one part.
  [[nodiscard]] std::vector<Component*> components(Part part);
  /// One group of one part of the tuples, by the tree of combine_slots.
  void combine_slots_of(Part part, kir::ExprId group, int64_t slots, int64_t threads,
                        kir::ExprId slot, kir::ExprId thread, const std::function<void()>& barrier);
  /// Writes one group of the calling thread's tuples to the exchange, at a thread's place.
  void send(Part part, kir::ExprId group, kir::ExprId place);
  /// Combines the tuples at that place into it.
  void receive(Part part, kir::ExprId group, kir::ExprId place);
  /// Sends the calling thread's tuples to that place in the cluster's first block.
  void send_to_first_block(Part part, kir::ExprId place, kir::MbarrierId arrived);
  [[nodiscard]] int64_t lanes_of(Part part) const { return part == Part::kTotals ? 1 : lanes_; }

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
