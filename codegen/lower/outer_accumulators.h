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

/// Where a thread accumulates the outer reductions of a segment over its rows: for each component
/// of each tuple groups x lanes elements, or one register if it is a total. The former are
/// registers too, or lie in shared memory (Schedule::accumulators); then registers hold one group
/// of them at a time, between fetch and put_back.
class OuterAccumulators {
 public:
  OuterAccumulators(const SegmentFacts& facts, const Schedule& schedule,
                    kir::KernelBuilder& builder, TileLowering& tiles, int64_t groups);

  /// Declares the accumulators and gives them the identity.
  void declare();
  /// Makes one group of the columns of `reductions` the one at hand for accumulate().
  void fetch(const std::vector<OpId>& reductions, kir::ExprId group);
  /// Keeps what that group has become.
  void put_back(const std::vector<OpId>& reductions, kir::ExprId group);
  /// Declares them where they hold one chunk of columns after the other, and gives the identity to
  /// totals alone.
  void declare_for_chunks();
  /// Gives one group of the tuples the identity.
  void clear(kir::ExprId group);
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
  /// slots, into those of slot 0, by a tree through shared memory, where that is in the
  /// accumulators themselves if they lie there. All these threads come here; `barrier` emits what
  /// they wait for each other at. Shared bytes: slot_exchange_bytes.
  void combine_slots(int64_t slots, int64_t threads, kir::ExprId slot, kir::ExprId thread,
                     const std::function<void()>& barrier);
  /// Combines the tuples of the blocks of a cluster into those of its first block, one after the
  /// other in their order. `block` is the calling one's number in it. `threads` threads of each
  /// block come here, those of equal `thread` have the same columns. The first block waits at
  /// `arrived`, an mbarrier of one arrival. For one group, in registers. Shared bytes:
  /// block_exchange_bytes.
  void combine_blocks(kir::ExprId block, int64_t threads, kir::ExprId thread,
                      kir::MbarrierId arrived);

  // ---- Partial results, in global memory for a kernel that combines their rows
  /// Declares a buffer for each component, which the kernel may read as well if `access` says so.
  void declare_partials(kir::Access access = kir::Access::kWrite);
  /// Stores one group of the calling thread's tuples at element `index` (i64).
  void store_partials(kir::ExprId group, kir::ExprId index);
  /// Takes one group back from where it was stored.
  void load_partials(kir::ExprId group, kir::ExprId index);
  /// Stores the calling thread's totals at element `row` (i64).
  void store_totals(kir::ExprId row);
  /// Stores all groups, each where `row` has its columns, and from the first thread the totals, to
  /// buffers that it declares.
  void store_partials(RowWalk& walk, kir::ExprId row, kir::Access access);
  /// Combines rows `first`, `first` + `step`, ... of the `rows` (all i64) that `writer` and its
  /// like in other blocks left into the tuples of group 0, in that order; of columns the vector at
  /// `column` (i64). So many as `unroll` are loaded before the first is used.
  void accumulate_partials(const OuterAccumulators& writer, kir::ExprId first, kir::ExprId rows,
                           int64_t step, int64_t unroll, kir::ExprId column);

 private:
  void declare(bool clears_columns);
  struct Component {
    OpId op;
    size_t index = 0;  ///< Within the tuple.
    DType type = DType::kF32;
    bool total = false;
    kir::VarId tile;  ///< All groups, or the one at hand of those in `kept`.
    std::optional<ThreadVectors> kept{};
    kir::BufferId exchange;
    kir::BufferId partials;
  };
  enum class Part : uint8_t { kColumns, kTotals };

  /// Gives `lanes` elements of a component the identity.
  void clear(const Component& component, kir::ExprId group, int64_t lanes);
  /// Reads a tuple into scalars, combines `others` into it with `emit`, and writes it back.
  void combine(size_t first, kir::ExprId group, kir::ExprId lane,
               const std::vector<kir::ExprId>& others,
               decltype(kir::emit_combine)* emit = kir::emit_combine);
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
  /// Combines what tiles of one group hold, by component, into one group of a part.
  void combine_received(Part part, kir::ExprId group,
                        const std::map<const Component*, kir::VarId>& received);
  /// The columns, where shared memory holds those of all slots.
  void combine_slots_in_place(int64_t slots, int64_t threads, kir::ExprId slot,
                              const std::function<void()>& barrier);
  /// Combines the columns of another thread (i32) into the calling one's.
  void combine_with(kir::ExprId other);
  /// A run-time loop over all groups.
  void for_groups(const std::function<void(kir::ExprId group)>& body);
  /// Runs `body` for those components of `reductions` that shared memory keeps.
  void for_kept(const std::vector<OpId>& reductions,
                const std::function<void(const Component&)>& body);
  /// Group of a component's registers that holds a group of columns.
  kir::ExprId group_of(const Component& component, kir::ExprId group);
  [[nodiscard]] bool in_shared() const { return schedule_.accumulators == Residency::kShared; }
  [[nodiscard]] kir::ExprId own_thread();
  /// Sends the calling thread's tuples to that place in the cluster's first block.
  void send_to_first_block(Part part, kir::ExprId place, kir::MbarrierId arrived);
  [[nodiscard]] int64_t lanes_of(Part part) const { return part == Part::kTotals ? 1 : lanes_; }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  int64_t groups_;
  int64_t lanes_;
  std::vector<Component> components_;  ///< Those of one reduction are neighbours.
};

/// Values read from memory that what follows the outer reductions needs per column.
std::vector<ValueId> finish_loads(const SegmentFacts& facts);

}  // namespace sinter
