#include "codegen/lower/lower_pipeline.h"

#include <map>

#include "codegen/lower/prefetched_row_values.h"
#include "codegen/lower/row_kernel.h"
#include "codegen/protocol/async_protocol.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/pipeline.h"

namespace sinter {
namespace {

using kir::ExprId;

/// Throws if some interleaving of the warps breaks the pipeline's protocol.
void prove_pipeline(const SegmentFacts& facts, const Schedule& schedule) {
  std::vector<int64_t> copies;
  for (const ValueId value : pipeline_inputs(facts))
    copies.push_back(columns_per_block(facts, schedule) *
                     bytes_of(facts.fusion.values[value].type));
  const auto fault = prove(
      pipeline_protocol(pipeline_slots(schedule), static_cast<int>(schedule.rows_per_block),
                        static_cast<int>(schedule.threads_per_row / 32), copies,
                        releases_early(facts, schedule) ? SlotRelease::kEarly : SlotRelease::kLate,
                        schedule.rows_per_iteration()));
  if (fault) throw SinterException(fault->error());
}

/// A block takes the rows at its number and then at every number of blocks further. The blocks of a
/// cluster take the same rows, each block its part of the columns. rows_per_iteration consecutive
/// rows of a block are an item; the last item may be short. Item k uses pipeline stage k modulo the
/// stages, and consumer group k modulo the groups.
///
/// A group processes the rows of an item in one iteration (unroll-and-jam), in code without tests
/// whether a row exists. The rows of a short item run one after the other in separate code for one
/// row. That code needs fewer registers and exposes the latency of only a few rows at the end of
/// the kernel. It adds code size, while predicates would cost time in every row.
class PipelineLowering {
 public:
  PipelineLowering(const SegmentFacts& facts, const Schedule& schedule)
      : facts_(facts),
        schedule_(schedule),
        kernel_(facts, schedule),
        builder_(kernel_.builder),
        ahead_(static_cast<size_t>(schedule.rows_per_iteration()),
               PrefetchedRowValues(facts, builder_, kernel_.tiles)) {}

  LoweredKernel run() {
    kernel_.kernel.threads = specialised_threads(schedule_);
    const kir::ParamId blocks = builder_.add_param("blocks");
    kernel_.kernel.grid = {blocks, 1};
    declare_pipeline();
    declare_share(blocks);
    const ExprId compute = builder_.integer(schedule_.threads_per_block());
    const ExprId thread = builder_.special(kir::Special::kThreadIndex);
    const int64_t raised = schedule_.consumer_registers();
    const auto compute_groups = [&] {
      builder_.comment("compute groups");
      if (raised != 0) builder_.append(kir::SetMaxRegisters{raised, true});
      consume_items();
    };
    const auto producer = [&] {
      builder_.comment("producer");
      if (raised != 0) builder_.append(kir::SetMaxRegisters{kProducerRegisters, false});
      builder_.when(builder_.equal(thread, compute), [&] { produce_items(); });
    };
    builder_.when(builder_.less(thread, compute), compute_groups, producer);
    return {std::move(kernel_.kernel), {facts_.space.rows, partial_rows(schedule_)}};
  }

 private:
  [[nodiscard]] int64_t groups() const { return schedule_.rows_per_block; }
  /// Rows of an item.
  [[nodiscard]] int64_t item_rows() const { return schedule_.rows_per_iteration(); }
  [[nodiscard]] int64_t columns() const { return columns_per_block(facts_, schedule_); }
  [[nodiscard]] bool in_cluster() const { return schedule_.cluster_size() > 1; }

  // ---- Set-up

  void declare_pipeline() {
    const int64_t slots = pipeline_slots(schedule_);
    for (const ValueId value : pipeline_inputs(facts_)) {
      pipeline_[value] =
          builder_.add_buffer({.name = kernel_.tiles.name_of_value(value) + "_stages",
                               .type = facts_.fusion.values[value].type,
                               .space = kir::Space::kShared,
                               .access = kir::Access::kReadWrite,
                               .alignment = 16,
                               .value = value,
                               .count = schedule_.pipeline_stages() * columns()});
    }
    full_ = builder_.add_mbarriers("full", slots, 1);
    empty_ = builder_.add_mbarriers("empty", slots, schedule_.threads_per_row);
    builder_.init_mbarriers();
  }

  /// Declares how many rows, and how many whole items, the block takes.
  void declare_share(kir::ParamId blocks) {
    block_ = builder_.ref(builder_.declare("block", kernel_.block_number()));
    step_ = builder_.cast(builder_.param(blocks), DType::kI64);
    const ExprId one = builder_.integer(1, DType::kI64);
    const ExprId left = builder_.add(builder_.sub(kernel_.rows, block_), builder_.sub(step_, one));
    const ExprId taken = builder_.cast(builder_.div(left, step_), DType::kI32);
    if (item_rows() == 1) {
      rows_ = items_ = builder_.ref(builder_.declare("items", taken));
      return;
    }
    rows_ = builder_.ref(builder_.declare("rows_taken", taken));
    items_ =
        builder_.ref(builder_.declare("items", builder_.div(rows_, builder_.integer(item_rows()))));
  }

  // ---- Items

  /// Number of a row among the rows of the block.
  ExprId number_of(ExprId item, int64_t row = 0) {
    return builder_.add(builder_.mul(item, builder_.integer(item_rows())), builder_.integer(row));
  }
  ExprId row_at(ExprId number) {
    return builder_.add(block_, builder_.mul(builder_.cast(number, DType::kI64), step_));
  }
  /// The same, clamped to the last row.
  ExprId row_at_most(ExprId number) {
    return builder_.min(row_at(number),
                        builder_.sub(kernel_.rows, builder_.integer(1, DType::kI64)));
  }
  ExprId slot_of(ExprId item) { return builder_.rem(item, slots()); }
  ExprId slots() { return builder_.integer(pipeline_slots(schedule_)); }
  /// Parity of the phase in which the item fills its pipeline stage: item / stages, modulo 2.
  ExprId parity_of(ExprId item, int64_t later = 0) {
    const ExprId round = builder_.div(item, slots());
    return builder_.rem(builder_.add(round, builder_.integer(later)), builder_.integer(2));
  }

  // ---- Producer

  void produce_items() {
    const ExprId all = builder_.div(builder_.add(rows_, builder_.integer(item_rows() - 1)),
                                    builder_.integer(item_rows()));
    builder_.loop("item", builder_.integer(0), all, builder_.integer(1), false,
                  [&](ExprId item) { produce(item); });
  }

  void produce(ExprId item) {
    const ExprId slot = builder_.ref(builder_.declare("slot", slot_of(item)));
    // Waits for the `empty` phase before the item's own. In the first round this wait passes at
    // once.
    builder_.append(kir::MbarrierWait{empty_, slot, parity_of(item, 1)});
    ExprId bytes = builder_.integer(pipeline_row_bytes(facts_, schedule_), DType::kI32);
    if (item_rows() > 1) {
      const ExprId left = builder_.sub(rows_, number_of(item));
      bytes = builder_.mul(builder_.min(left, builder_.integer(item_rows())), bytes);
    }
    builder_.append(kir::ExpectBytes{full_, slot, bytes});
    copy_row(item, slot, 0);
    for (int64_t row = 1; row < item_rows(); ++row) {
      builder_.when(builder_.less(number_of(item, row), rows_), [&] { copy_row(item, slot, row); });
    }
  }

  void copy_row(ExprId item, ExprId slot, int64_t row) {
    kernel_.tiles.enter_row(builder_.ref(builder_.declare("row", row_at(number_of(item, row)))));
    const ExprId columns = builder_.integer(this->columns());
    const ExprId first = builder_.cast(kernel_.walk.first_of_block(), DType::kI64);
    for (const auto& [value, buffer] : pipeline_) {
      builder_.append(kir::BulkCopy{buffer, start_of(slot, builder_.integer(row)),
                                    kernel_.tiles.buffer_of(facts_.space.find_input(value)->tensor),
                                    builder_.add(kernel_.tiles.row_start(value), first), columns,
                                    full_, slot, kernel_.tiles.hint_of(value)});
    }
  }

  // ---- Consumer groups

  void consume_items() {
    kernel_.outer.declare();
    kernel_.body.prepare(ahead_.size());
    const ExprId slot = kernel_.walk.slot();
    const ExprId group = slot.valid() ? slot : builder_.integer(0);
    for (PrefetchedRowValues& row : ahead_) row.declare();
    if (!ahead_.front().empty()) {
      builder_.when(builder_.less(number_of(group), rows_), [&] {
        for (size_t row = 0; row < ahead_.size(); ++row) {
          const ExprId number = number_of(group, static_cast<int64_t>(row));
          // The first row of an item always exists.
          ahead_[row].load(row == 0 ? row_at(number) : row_at_most(number));
        }
      });
    }
    builder_.loop("item", group, items_, builder_.integer(groups()), false,
                  [&](ExprId item) { consume(item, group); });
    if (item_rows() > 1) consume_short(group);
    kernel_.store_partials(exchange_in(group), [&] {
      // The consumer groups use barriers 1 to groups().
      builder_.append(
          kir::GroupBarrier{builder_.integer(groups() + 1), schedule_.threads_per_block()});
    });
  }

  /// Processes all rows of a whole item in one iteration.
  void consume(ExprId item, ExprId group) {
    const ExprId slot = builder_.ref(builder_.declare("slot", slot_of(item)));
    const ExprId next = builder_.add(item, builder_.integer(groups()));
    const RowExchange exchange = exchange_of(builder_.div(item, builder_.integer(groups())), group);
    const bool early = releases_early(facts_, schedule_);
    kernel_.body.begin_rows(ahead_.size());
    for (size_t i = 0; i < ahead_.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      kernel_.body.select_row(i);
      const ExprId at = builder_.ref(builder_.declare("row", row_at(number_of(item, row))));
      ahead_[i].advance(at, row_at_most(number_of(next, row)));
      kernel_.body.begin({.inputs = inputs_in(slot, builder_.integer(row)), .exchange = exchange});
    }
    builder_.append(kir::MbarrierWait{full_, slot, parity_of(item)});
    for (size_t i = 0; i < ahead_.size(); ++i) {
      kernel_.body.select_row(i);
      kernel_.body.load();
    }
    if (early) builder_.append(kir::MbarrierArrive{empty_, slot});
    kernel_.body.compute();
    if (!early) builder_.append(kir::MbarrierArrive{empty_, slot});
  }

  /// Processes a short last item row by row, in the group of that item. The prefetched row values
  /// of its first row are in the registers for an item's first row.
  void consume_short(ExprId group) {
    const ExprId first = number_of(items_);
    const ExprId is_mine = builder_.equal(builder_.rem(items_, builder_.integer(groups())), group);
    builder_.when(builder_.both(builder_.less(first, rows_), is_mine), [&] {
      builder_.comment("an item of fewer rows");
      const ExprId slot = builder_.ref(builder_.declare("slot", slot_of(items_)));
      builder_.append(kir::MbarrierWait{full_, slot, parity_of(items_)});
      builder_.loop("row_of_item", builder_.integer(0), builder_.sub(rows_, first),
                    builder_.integer(1), false, [&](ExprId row) {
                      const ExprId number = builder_.add(first, row);
                      kernel_.body.begin_rows(1);
                      const ExprId at = builder_.ref(builder_.declare("row", row_at(number)));
                      ahead_.front().advance(
                          at, row_at_most(builder_.add(number, builder_.integer(1))));
                      kernel_.body.begin(
                          {.inputs = inputs_in(slot, row), .exchange = exchange_of(row, group)});
                      kernel_.body.load();
                      kernel_.body.compute();
                    });
      builder_.append(kir::MbarrierArrive{empty_, slot});
    });
  }

  /// Index in an input's pipeline buffer at which a row of pipeline stage `slot` starts.
  ExprId start_of(ExprId slot, ExprId row) {
    return builder_.add(builder_.mul(slot, builder_.integer(item_rows() * columns())),
                        builder_.mul(row, builder_.integer(columns())));
  }

  RowInputs inputs_in(ExprId slot, ExprId row) {
    const ExprId first = builder_.cast(kernel_.walk.first_of_block(), DType::kI32);
    return {.staged = pipeline_, .start = builder_.sub(start_of(slot, row), first)};
  }

  /// Each group exchanges with its own barrier and scratch memory.
  RowExchange exchange_in(ExprId group) {
    return {.phase = {},
            .barrier = builder_.add(group, builder_.integer(1)),  // 0 is the block's.
            .group = group,
            .groups = groups(),
            .parity = in_cluster() ? builder_.integer(0) : ExprId{}};
  }

  /// Consecutive exchanges, counted by `iteration`, alternate between two copies of the scratch
  /// memory.
  RowExchange exchange_of(ExprId iteration, ExprId group) {
    RowExchange exchange = exchange_in(group);
    exchange.phase = builder_.rem(iteration, builder_.integer(2));
    if (in_cluster())
      exchange.parity =
          builder_.rem(builder_.div(iteration, builder_.integer(2)), builder_.integer(2));
    return exchange;
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  RowKernel kernel_;
  kir::KernelBuilder& builder_;
  std::vector<PrefetchedRowValues> ahead_;  ///< Prefetched row values, for each row of an item.
  std::map<ValueId, kir::BufferId> pipeline_;
  kir::MbarrierId full_, empty_;
  ExprId block_, step_;  ///< Number of the block or cluster, and how many there are, i64.
  ExprId rows_, items_;  ///< Rows of the block or cluster, and their whole items, i32.
};

}  // namespace

LoweredKernel lower_pipeline(const SegmentFacts& facts, const Schedule& schedule) {
  prove_pipeline(facts, schedule);
  return PipelineLowering(facts, schedule).run();
}

}  // namespace sinter
