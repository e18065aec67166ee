#include "codegen/lower_rows.h"

#include <algorithm>
#include <functional>
#include <map>

#include "codegen/async_protocol.h"
#include "codegen/kernel_builder.h"
#include "codegen/outer_accumulators.h"
#include "codegen/row_body.h"
#include "codegen/row_walk.h"
#include "codegen/tile_lowering.h"
#include "scheduler/ring.h"
#include "scheduler/row_schedule.h"

namespace sinter {
namespace {

using kir::ExprId;
using kir::VarId;

class RowLowering {
 public:
  RowLowering(const SegmentFacts& facts, const Schedule& schedule)
      : facts_(facts),
        schedule_(schedule),
        builder_(&kernel_),
        tiles_(facts, schedule, builder_),
        walk_(facts, schedule, builder_, tiles_),
        outer_(facts, builder_, tiles_, batch_count(facts, schedule), schedule.vector_width),
        body_(facts, schedule, builder_, tiles_, walk_, outer_) {}

  LoweredKernel run() {
    set_up();
    if (schedule_.family == kWarpSpecialised) return run_specialised();
    if (schedule_.persistent_blocks == 0) {
      kernel_.grid = {rows_, schedule_.rows_per_block};
      one_row(block_row(builder_.special(kir::Special::kBlockIndex)));
      return {std::move(kernel_), {facts_.space.rows}};
    }
    const kir::ParamId blocks = builder_.add_param("blocks");
    kernel_.grid = {blocks, 1};
    outer_.declare();
    body_.prepare();
    const auto step = builder_.mul(builder_.cast(builder_.param(blocks), DType::kI64),
                                   builder_.integer(schedule_.rows_per_block, DType::kI64));
    builder_.loop("first_row", block_row(builder_.special(kir::Special::kBlockIndex)),
                  builder_.param(rows_), step, false,
                  [&](ExprId first_row) { one_row(first_row); });
    outer_.store_partials(walk_, partial_row());
    return {std::move(kernel_), {facts_.space.rows, schedule_.persistent_blocks}};
  }

 private:
  // ---- Warp specialisation

  /// A producer thread fills the ring; groups of threads take its rows in turns.
  LoweredKernel run_specialised() {
    const int64_t groups = schedule_.rows_per_block;
    const int64_t stages = ring_stages(schedule_);
    const int64_t compute = schedule_.threads_per_block();
    prove_ring();
    kernel_.threads = specialised_threads(schedule_);
    const kir::ParamId blocks = builder_.add_param("blocks");
    kernel_.grid = {blocks, 1};
    for (const ValueId value : ring_inputs(facts_)) {
      ring_[value] = builder_.add_buffer({.name = tiles_.name_of_value(value) + "_ring",
                                          .type = facts_.fusion.values[value].type,
                                          .space = kir::Space::kShared,
                                          .access = kir::Access::kReadWrite,
                                          .alignment = 16,
                                          .value = value,
                                          .count = stages * facts_.space.columns});
    }
    full_ = builder_.add_mbarriers("full", stages, 1);
    empty_ = builder_.add_mbarriers("empty", stages, threads());
    builder_.append(kir::InitMbarriers{});
    builder_.append(kir::Barrier{});

    block_ = builder_.ref(builder_.declare(
        "block", builder_.cast(builder_.special(kir::Special::kBlockIndex), DType::kI64)));
    step_ = builder_.cast(builder_.param(blocks), DType::kI64);
    const ExprId one = builder_.integer(1, DType::kI64);
    // This block's rows: those at its number and then at every grid size further.
    const ExprId left =
        builder_.add(builder_.sub(builder_.param(rows_), block_), builder_.sub(step_, one));
    const ExprId items = builder_.ref(
        builder_.declare("items", builder_.cast(builder_.div(left, step_), DType::kI32)));
    const ExprId thread = builder_.special(kir::Special::kThreadIndex);
    const int64_t raised = compute_registers(schedule_);
    const auto compute_groups = [&] {
      builder_.comment("compute groups");
      if (raised != 0) builder_.append(kir::SetMaxRegisters{raised, true});
      outer_.declare();
      body_.prepare();
      const ExprId group = walk_.slot().valid() ? walk_.slot() : builder_.integer(0);
      load_first_row_values(group, items);
      builder_.loop("item", group, items, builder_.integer(groups), false,
                    [&](ExprId item) { consume(item, group); });
      outer_.store_partials(walk_, partial_row());
    };
    const auto producer = [&] {
      builder_.comment("producer");
      if (raised != 0) builder_.append(kir::SetMaxRegisters{kProducerRegisters, false});
      builder_.when(builder_.equal(thread, builder_.integer(compute)), [&] { produce(items); });
    };
    builder_.when(builder_.less(thread, builder_.integer(compute)), compute_groups, producer);
    return {std::move(kernel_), {facts_.space.rows, schedule_.persistent_blocks}};
  }

  /// Refuses a ring whose protocol breaks in some order of its warps, before anything is emitted.
  void prove_ring() const {
    std::vector<int64_t> copies;
    for (const ValueId value : ring_inputs(facts_))
      copies.push_back(facts_.space.columns * bytes_of(facts_.fusion.values[value].type));
    const auto fault = prove(ring_protocol(
        ring_stages(schedule_), static_cast<int>(schedule_.rows_per_block),
        static_cast<int>(threads() / 32), copies,
        releases_early(facts_, schedule_) ? SlotRelease::kEarly : SlotRelease::kLate));
    if (fault) throw SinterException(fault->error());
  }

  /// Number of the ring's slot that an item takes, and how often the ring has gone round before.
  ExprId slot_of(ExprId item) {
    return builder_.rem(item, builder_.integer(ring_stages(schedule_)));
  }
  ExprId round_of(ExprId item) {
    return builder_.div(item, builder_.integer(ring_stages(schedule_)));
  }
  ExprId row_of(ExprId item) {
    return builder_.add(block_, builder_.mul(builder_.cast(item, DType::kI64), step_));
  }

  void produce(ExprId items) {
    builder_.loop("item", builder_.integer(0), items, builder_.integer(1), false, [&](ExprId item) {
      const ExprId slot = builder_.ref(builder_.declare("slot", slot_of(item)));
      const ExprId two = builder_.integer(2);
      builder_.append(kir::MbarrierWait{
          empty_, slot, builder_.rem(builder_.add(round_of(item), builder_.integer(1)), two)});
      builder_.append(
          kir::ExpectBytes{full_, slot, builder_.integer(ring_row_bytes(facts_), DType::kI32)});
      tiles_.enter_row(builder_.ref(builder_.declare("row", row_of(item))));
      const ExprId columns = builder_.integer(facts_.space.columns);
      for (const auto& [value, buffer] : ring_) {
        builder_.append(kir::BulkCopy{buffer, builder_.mul(slot, columns),
                                      tiles_.buffer_of(facts_.space.find_input(value)->tensor),
                                      tiles_.row_start(value), columns, full_, slot,
                                      tiles_.hint_of(value)});
      }
    });
  }

  void consume(ExprId item, ExprId group) {
    const ExprId slot = builder_.ref(builder_.declare("slot", slot_of(item)));
    row_ = builder_.ref(builder_.declare("row", row_of(item)));
    tiles_.enter_row(row_);
    const ExprId two = builder_.integer(2);
    take_row_values(item);
    const ExprId round = builder_.div(item, builder_.integer(schedule_.rows_per_block));
    body_.begin({.inputs = {.staged = ring_,
                            .start = builder_.mul(slot, builder_.integer(facts_.space.columns))},
                 .exchange = {.phase = builder_.rem(round, two),
                              .barrier = builder_.add(group, builder_.integer(1)),  // 0: block's.
                              .group = group,
                              .groups = schedule_.rows_per_block}});
    builder_.append(kir::MbarrierWait{full_, slot, builder_.rem(round_of(item), two)});
    body_.load();
    const bool early = releases_early(facts_, schedule_);
    if (early) builder_.append(kir::MbarrierArrive{empty_, slot});
    body_.compute();
    if (!early) builder_.append(kir::MbarrierArrive{empty_, slot});
  }

  /// Row values read from memory are loaded a row ahead: nothing else in a row's chain of waits is
  /// as long as their way from memory.
  void load_first_row_values(ExprId group, ExprId items) {
    for (const TensorAccess& access : facts_.space.inputs) {
      const Dependence dependence = facts_.space.dependence[access.value];
      if (dependence.columns || !dependence.rows) continue;
      next_values_[access.value] = builder_.declare_scalar(
          tiles_.name_of_value(access.value) + "_next", facts_.fusion.values[access.value].type);
    }
    if (next_values_.empty()) return;
    builder_.when(builder_.less(group, items), [&] { load_row_values(row_of(group)); });
  }

  void load_row_values(ExprId row) {
    tiles_.enter_row(builder_.ref(builder_.declare("next_row", row)));
    for (const auto& [value, next] : next_values_) builder_.assign(next, tiles_.row_value(value));
    tiles_.enter_row(ExprId{});
  }

  /// What was loaded for the row at hand; starts loading for the group's next one, the last row
  /// where there is none.
  void take_row_values(ExprId item) {
    if (next_values_.empty()) return;
    std::map<ValueId, VarId> current;
    for (const auto& [value, next] : next_values_)
      current[value] = builder_.declare(tiles_.name_of_value(value), builder_.ref(next));
    const ExprId next = row_of(builder_.add(item, builder_.integer(schedule_.rows_per_block)));
    const ExprId last = builder_.sub(builder_.param(rows_), builder_.integer(1, DType::kI64));
    load_row_values(builder_.min(next, last));
    tiles_.enter_row(row_);
    for (const auto& [value, var] : current) tiles_.define_row_value(value, builder_.ref(var));
  }

  // ---- Rows

  [[nodiscard]] int64_t threads() const { return schedule_.threads_per_row; }
  [[nodiscard]] int64_t width() const { return schedule_.vector_width; }

  // ---- Prologue

  void set_up() {
    kernel_.name = facts_.fusion.name;
    kernel_.threads = schedule_.threads_per_block();
    kernel_.min_blocks_per_sm = schedule_.min_blocks_per_sm;
    tiles_.declare_buffers(false);
    rows_ = builder_.add_param("rows");
    builder_.comment(fmt::format("{} threads per row, {} rows per block, {} elements per vector",
                                 threads(), schedule_.rows_per_block, width()));
    walk_.declare();
  }

  /// First row of the block's n-th group of rows.
  ExprId block_row(ExprId n) {
    return builder_.mul(builder_.cast(n, DType::kI64),
                        builder_.integer(schedule_.rows_per_block, DType::kI64));
  }

  /// Everything a block does with one row, or one row in every slot.
  void one_row(ExprId first_row) {
    ExprId row = first_row;
    Row at{};
    if (schedule_.rows_per_block > 1) {
      const ExprId wanted = builder_.ref(builder_.declare(
          "wanted_row", builder_.add(first_row, builder_.cast(walk_.slot(), DType::kI64))));
      at.is_real = builder_.ref(
          builder_.declare("row_is_real", builder_.less(wanted, builder_.param(rows_))));
      row = builder_.min(wanted,
                         builder_.sub(builder_.param(rows_), builder_.integer(1, DType::kI64)));
    }
    if (facts_.space.row_dimensions > 0)
      tiles_.enter_row(builder_.ref(builder_.declare("row", row)));
    body_.begin(at);
    if (schedule_.persistent_blocks == 0) body_.prepare();
    body_.load();
    body_.compute();
  }

  /// Row of the partial results that the thread's row slot leaves.
  ExprId partial_row() {
    const ExprId block = block_row(builder_.special(kir::Special::kBlockIndex));
    return walk_.slot().valid() ? builder_.add(block, builder_.cast(walk_.slot(), DType::kI64))
                                : block;
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  kir::Kernel kernel_;
  kir::KernelBuilder builder_;
  TileLowering tiles_;
  RowWalk walk_;
  OuterAccumulators outer_;
  RowBody body_;

  kir::ParamId rows_;

  kir::MbarrierId full_, empty_;
  ExprId block_, step_;                   ///< Block number and grid size, i64.
  std::map<ValueId, VarId> next_values_;  ///< Row values of the group's next row.
  std::map<ValueId, kir::BufferId> ring_;
  ExprId row_;
};

}  // namespace

LoweredKernel lower_rows(const SegmentFacts& facts, const Schedule& schedule) {
  return RowLowering(facts, schedule).run();
}

}  // namespace sinter
