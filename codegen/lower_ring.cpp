#include "codegen/lower_ring.h"

#include <map>

#include "codegen/async_protocol.h"
#include "codegen/row_kernel.h"
#include "codegen/row_values_ahead.h"
#include "scheduler/ring.h"

namespace sinter {
namespace {

using kir::ExprId;

/// Refuses a ring whose protocol breaks in some order of its warps.
void prove_ring(const SegmentFacts& facts, const Schedule& schedule) {
  std::vector<int64_t> copies;
  for (const ValueId value : ring_inputs(facts))
    copies.push_back(columns_per_block(facts, schedule) *
                     bytes_of(facts.fusion.values[value].type));
  const auto fault = prove(
      ring_protocol(schedule.stages, static_cast<int>(schedule.rows_per_block),
                    static_cast<int>(schedule.threads_per_row / 32), copies,
                    releases_early(facts, schedule) ? SlotRelease::kEarly : SlotRelease::kLate));
  if (fault) throw SinterException(fault->error());
}

/// A block, or the blocks of a cluster together, each its columns, takes the rows at its number and
/// then at every number of blocks further, as items 0, 1, ...; an
/// item has the slot of its number modulo the stages, and the group of its number modulo the
/// groups.
class RingLowering {
 public:
  RingLowering(const SegmentFacts& facts, const Schedule& schedule)
      : facts_(facts),
        schedule_(schedule),
        kernel_(facts, schedule),
        builder_(kernel_.builder),
        ahead_(facts, builder_, kernel_.tiles) {}

  LoweredKernel run() {
    kernel_.kernel.threads = specialised_threads(schedule_);
    const kir::ParamId blocks = builder_.add_param("blocks");
    kernel_.kernel.grid = {blocks, 1};
    declare_ring();
    const ExprId items = declare_items(blocks);
    const ExprId compute = builder_.integer(schedule_.threads_per_block());
    const ExprId thread = builder_.special(kir::Special::kThreadIndex);
    const int64_t raised = schedule_.compute_registers;
    const auto compute_groups = [&] {
      builder_.comment("compute groups");
      if (raised != 0) builder_.append(kir::SetMaxRegisters{raised, true});
      consume_items(items);
    };
    const auto producer = [&] {
      builder_.comment("producer");
      if (raised != 0) builder_.append(kir::SetMaxRegisters{kProducerRegisters, false});
      builder_.when(builder_.equal(thread, compute), [&] { produce_items(items); });
    };
    builder_.when(builder_.less(thread, compute), compute_groups, producer);
    return {std::move(kernel_.kernel), {facts_.space.rows, partial_rows(schedule_)}};
  }

 private:
  [[nodiscard]] int64_t groups() const { return schedule_.rows_per_block; }
  [[nodiscard]] int64_t columns() const { return columns_per_block(facts_, schedule_); }
  [[nodiscard]] bool in_cluster() const { return schedule_.cluster_blocks > 1; }

  // ---- Set-up

  void declare_ring() {
    const int64_t stages = schedule_.stages;
    for (const ValueId value : ring_inputs(facts_)) {
      ring_[value] = builder_.add_buffer({.name = kernel_.tiles.name_of_value(value) + "_ring",
                                          .type = facts_.fusion.values[value].type,
                                          .space = kir::Space::kShared,
                                          .access = kir::Access::kReadWrite,
                                          .alignment = 16,
                                          .value = value,
                                          .count = stages * columns()});
    }
    full_ = builder_.add_mbarriers("full", stages, 1);
    empty_ = builder_.add_mbarriers("empty", stages, schedule_.threads_per_row);
    builder_.init_mbarriers();
  }

  /// How many items the block takes.
  ExprId declare_items(kir::ParamId blocks) {
    block_ = builder_.ref(builder_.declare("block", kernel_.block_number()));
    step_ = builder_.cast(builder_.param(blocks), DType::kI64);
    const ExprId one = builder_.integer(1, DType::kI64);
    const ExprId left = builder_.add(builder_.sub(kernel_.rows, block_), builder_.sub(step_, one));
    return builder_.ref(
        builder_.declare("items", builder_.cast(builder_.div(left, step_), DType::kI32)));
  }

  // ---- Items

  ExprId row_of(ExprId item) {
    return builder_.add(block_, builder_.mul(builder_.cast(item, DType::kI64), step_));
  }
  ExprId slot_of(ExprId item) { return builder_.rem(item, builder_.integer(schedule_.stages)); }
  /// Parity of the phase in which the item fills its slot: of the times that the ring went round.
  ExprId parity_of(ExprId item, int64_t later = 0) {
    const ExprId round = builder_.div(item, builder_.integer(schedule_.stages));
    return builder_.rem(builder_.add(round, builder_.integer(later)), builder_.integer(2));
  }

  // ---- Producer

  void produce_items(ExprId items) {
    builder_.loop("item", builder_.integer(0), items, builder_.integer(1), false,
                  [&](ExprId item) { produce(item); });
  }

  void produce(ExprId item) {
    const ExprId slot = builder_.ref(builder_.declare("slot", slot_of(item)));
    // A slot is empty in the phase before the one that it is filled in; at first it was never full.
    builder_.append(kir::MbarrierWait{empty_, slot, parity_of(item, 1)});
    builder_.append(kir::ExpectBytes{
        full_, slot, builder_.integer(ring_row_bytes(facts_, schedule_), DType::kI32)});
    kernel_.tiles.enter_row(builder_.ref(builder_.declare("row", row_of(item))));
    const ExprId columns = builder_.integer(this->columns());
    const ExprId first = builder_.cast(kernel_.walk.first_of_block(), DType::kI64);
    for (const auto& [value, buffer] : ring_) {
      builder_.append(kir::BulkCopy{buffer, builder_.mul(slot, columns),
                                    kernel_.tiles.buffer_of(facts_.space.find_input(value)->tensor),
                                    builder_.add(kernel_.tiles.row_start(value), first), columns,
                                    full_, slot, kernel_.tiles.hint_of(value)});
    }
  }

  // ---- Compute groups

  void consume_items(ExprId items) {
    kernel_.outer.declare();
    kernel_.body.prepare();
    const ExprId slot = kernel_.walk.slot();
    const ExprId group = slot.valid() ? slot : builder_.integer(0);
    ahead_.declare();
    if (!ahead_.empty())
      builder_.when(builder_.less(group, items), [&] { ahead_.load(row_of(group)); });
    builder_.loop("item", group, items, builder_.integer(groups()), false,
                  [&](ExprId item) { consume(item, group); });
    kernel_.store_partials(exchange_in(group), [&] {
      // The groups have barriers 1 to groups().
      builder_.append(
          kir::GroupBarrier{builder_.integer(groups() + 1), schedule_.threads_per_block()});
    });
  }

  void consume(ExprId item, ExprId group) {
    const ExprId slot = builder_.ref(builder_.declare("slot", slot_of(item)));
    const ExprId row = builder_.ref(builder_.declare("row", row_of(item)));
    const ExprId next = row_of(builder_.add(item, builder_.integer(groups())));
    const ExprId last = builder_.sub(kernel_.rows, builder_.integer(1, DType::kI64));
    ahead_.advance(row, builder_.min(next, last));
    const bool early = releases_early(facts_, schedule_);
    kernel_.body.begin({.inputs = inputs_in(slot), .exchange = exchange_of(item, group)});
    builder_.append(kir::MbarrierWait{full_, slot, parity_of(item)});
    kernel_.body.load();
    if (early) builder_.append(kir::MbarrierArrive{empty_, slot});
    kernel_.body.compute();
    if (!early) builder_.append(kir::MbarrierArrive{empty_, slot});
  }

  RowInputs inputs_in(ExprId slot) {
    const ExprId first = builder_.cast(kernel_.walk.first_of_block(), DType::kI32);
    return {.staged = ring_,
            .start = builder_.sub(builder_.mul(slot, builder_.integer(columns())), first)};
  }

  /// Groups exchange apart from each other.
  RowExchange exchange_in(ExprId group) {
    return {.phase = {},
            .barrier = builder_.add(group, builder_.integer(1)),  // 0 is the block's.
            .group = group,
            .groups = groups(),
            .parity = in_cluster() ? builder_.integer(0) : ExprId{}};
  }

  /// From row to row they take turns with two copies.
  RowExchange exchange_of(ExprId item, ExprId group) {
    RowExchange exchange = exchange_in(group);
    const ExprId turn = builder_.div(item, builder_.integer(groups()));
    exchange.phase = builder_.rem(turn, builder_.integer(2));
    if (in_cluster())
      exchange.parity = builder_.rem(builder_.div(turn, builder_.integer(2)), builder_.integer(2));
    return exchange;
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  RowKernel kernel_;
  kir::KernelBuilder& builder_;
  RowValuesAhead ahead_;
  std::map<ValueId, kir::BufferId> ring_;
  kir::MbarrierId full_, empty_;
  ExprId block_, step_;  ///< Number of the block or cluster, and how many there are, i64.
};

}  // namespace

LoweredKernel lower_ring(const SegmentFacts& facts, const Schedule& schedule) {
  prove_ring(facts, schedule);
  return RingLowering(facts, schedule).run();
}

}  // namespace sinter
