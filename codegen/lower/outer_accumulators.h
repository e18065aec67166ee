#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel/combine.h"
#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_ir.h"
#include "codegen/lower/row_statistics.h"
#include "codegen/lower/row_walk.h"
#include "codegen/lower/thread_vectors.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/kept_value.h"

namespace sinter {

/// The accumulators of a thread for the column reductions (outer reductions) of a segment, over its
/// rows. Each component of each tuple has groups x lanes elements, or one register if it is a
/// total. The elements lie in registers or in shared memory (Schedule::accumulators). If they lie
/// in shared memory, registers hold one group of them at a time, between fetch and put_back.
class OuterAccumulators {
 public:
  OuterAccumulators(const SegmentFacts& facts, const Schedule& schedule,
                    kir::KernelBuilder& builder, TileLowering& tiles, int64_t groups);

  /// Declares the accumulators and sets them to the identity.
  void declare();
  /// Loads one group of the columns of `reductions`, which accumulate() then works on.
  void fetch(const std::vector<OpId>& reductions, kir::ExprId group);
  /// Stores that group again.
  void put_back(const std::vector<OpId>& reductions, kir::ExprId group);
  /// Declares the accumulators for schedules in which they hold one chunk of columns after the
  /// other, and sets only the totals to the identity.
  void declare_for_chunks();
  /// Sets one group of the tuples to the identity.
  void clear(kir::ExprId group);
  /// Combines the operands of `reductions` at the current element into their tuples.
  void accumulate(const std::vector<OpId>& reductions, kir::ExprId group, kir::ExprId lane);
  /// Combines row values of the current row into totals.
  void accumulate_row(const std::vector<OpId>& totals);
  /// Defines the results for later evaluations of the current element.
  void define_results(kir::ExprId group, kir::ExprId lane);
  /// Defines the totals for later evaluations.
  void define_totals();
  [[nodiscard]] bool has_totals() const;

  /// Combines the totals of the `threads` threads of a row; all of them then have the result.
  void combine_threads(int64_t threads, const RowExchange& exchange);
  /// Combines the columns of the lanes of a warp whose numbers differ by a multiple of `lanes`, a
  /// power of two; all of them then have the result. All `threads` lanes must call this.
  void combine_lanes(int64_t lanes, int64_t threads);
  /// Combines the tuples of `slots` row slots of `threads` threads each into those of slot 0.
  /// Threads of equal number in their slots hold the same columns. The tree goes through shared
  /// memory; accumulators in shared memory are combined in place. All these threads must call this;
  /// `barrier` emits a barrier of them. Shared bytes: slot_exchange_bytes.
  void combine_slots(int64_t slots, int64_t threads, kir::ExprId slot, kir::ExprId thread,
                     const std::function<void()>& barrier);
  /// Combines the tuples of the blocks of a cluster into those of its first block, one after the
  /// other in the order of the blocks. `block` is the rank of the calling block. `threads` threads
  /// of each block call this; those of equal `thread` have the same columns. The first block waits
  /// on `arrived`, an mbarrier of one arrival. Only for one group, in registers. Shared bytes:
  /// block_exchange_bytes.
  void combine_blocks(kir::ExprId block, int64_t threads, kir::ExprId thread,
                      kir::MbarrierId arrived);

  // ---- Partial results, in global memory, for the second half of a split reduction
  /// Declares a buffer for each component, with the given access.
  void declare_partials(kir::Access access = kir::Access::kWrite);
  /// Stores one group of the calling thread's tuples at element `index` (i64).
  void store_partials(kir::ExprId group, kir::ExprId index);
  /// Loads one group from the place where it was stored.
  void load_partials(kir::ExprId group, kir::ExprId index);
  /// Stores the calling thread's totals at element `row` (i64).
  void store_totals(kir::ExprId row);
  /// Declares the buffers and stores all groups at their columns of `row`. The first thread stores
  /// the totals.
  void store_partials(RowWalk& walk, kir::ExprId row, kir::Access access);
  /// Combines rows `first`, `first` + `step`, ... below `rows` (all i64) of the partial results
  /// into the tuples of group 0, in that order. The rows were written by `writer`, in all blocks.
  /// Column reductions take the vector at `column` (i64). `unroll` rows are loaded before the first
  /// is used.
  void accumulate_partials(const OuterAccumulators& writer, kir::ExprId first, kir::ExprId rows,
                           int64_t step, int64_t unroll, kir::ExprId column);

 private:
  void declare(bool clears_columns);
  struct Component {
    OpId op;
    size_t index = 0;  ///< Within the tuple.
    DType type = DType::kF32;
    bool total = false;
    kir::VarId tile;  ///< All groups, or the current group of those in `kept`.
    std::optional<ThreadVectors> kept{};
    kir::BufferId exchange;
    kir::BufferId partials;
  };
  enum class Part : uint8_t { kColumns, kTotals };
  /// The row slots of a block, and the calling thread's place among them (i32).
  struct Slots {
    int64_t count = 1;
    int64_t threads = 1;   ///< Of each slot.
    kir::ExprId slot{};    ///< That of the calling thread.
    kir::ExprId thread{};  ///< Number of the calling thread in its slot.
  };

  /// Sets `lanes` elements of a component to the identity.
  void clear(const Component& component, kir::ExprId group, int64_t lanes);
  /// Reads a tuple into scalars, combines `others` into it with `emit`, and writes it back.
  void combine(size_t first, kir::ExprId group, kir::ExprId lane,
               const std::vector<kir::ExprId>& others,
               decltype(kir::emit_combine)* emit = kir::emit_combine);
  std::vector<kir::ExprId> element_tuple(const Op& op);
  /// Passes the results of the reduction whose tuple starts at component `first` to `to`.
  void define(size_t first, kir::ExprId group, kir::ExprId lane,
              const std::function<void(ValueId, kir::ExprId)>& to);
  /// The components of one part.
  [[nodiscard]] std::vector<Component*> components(Part part);
  /// Combines one group of one part of the tuples by the tree of combine_slots.
  void combine_slots_of(Part part, kir::ExprId group, const Slots& slots,
                        const std::function<void()>& barrier);
  /// Writes one group of the calling thread's tuples to place `place` of the exchange buffer.
  void send(Part part, kir::ExprId group, kir::ExprId place);
  /// Combines the tuples at `place` of the exchange buffer into one group.
  void receive(Part part, kir::ExprId group, kir::ExprId place);
  /// Combines the tuples in `received`, a one-group tile for each component, into one group of a
  /// part.
  void combine_received(Part part, kir::ExprId group,
                        const std::map<const Component*, kir::VarId>& received);
  /// Combines the columns of all slots in place, in shared memory.
  void combine_slots_in_place(int64_t slots, int64_t threads, kir::ExprId slot,
                              const std::function<void()>& barrier);
  /// Combines the columns of another thread (i32) into those of the calling thread.
  void combine_with(kir::ExprId other);
  /// Emits a run-time loop over all groups.
  void for_groups(const std::function<void(kir::ExprId group)>& body);
  /// Runs `body` for the components of `reductions` that are kept in shared memory.
  void for_kept(const std::vector<OpId>& reductions,
                const std::function<void(const Component&)>& body);
  /// Group of a component's registers that holds the given group of columns.
  kir::ExprId group_of(const Component& component, kir::ExprId group);
  [[nodiscard]] bool in_shared() const { return schedule_.accumulators() == Residency::kShared; }
  [[nodiscard]] kir::ExprId own_thread();
  /// Sends the calling thread's tuples to place `place` in the cluster's first block.
  void send_to_first_block(Part part, kir::ExprId place, kir::MbarrierId arrived);
  [[nodiscard]] int64_t lanes_of(Part part) const { return part == Part::kTotals ? 1 : lanes_; }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  int64_t groups_;
  int64_t lanes_;
  std::vector<Component> components_;  ///< Components of one reduction are adjacent.
};

/// Values that the ops after the outer reductions read from memory per column.
std::vector<ValueId> finish_loads(const SegmentFacts& facts);

}  // namespace sinter
