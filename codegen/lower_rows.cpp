#include "codegen/lower_rows.h"

#include <algorithm>
#include <functional>
#include <map>

#include "codegen/async_protocol.h"
#include "codegen/kernel_builder.h"
#include "codegen/outer_accumulators.h"
#include "codegen/row_inputs.h"
#include "codegen/row_residents.h"
#include "codegen/row_statistics.h"
#include "codegen/row_walk.h"
#include "codegen/stage_reads.h"
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
        list_(distribute(facts, schedule.persistent)),
        builder_(&kernel_),
        tiles_(facts, schedule, builder_),
        walk_(facts, schedule, builder_, tiles_),
        residents_(facts, schedule, builder_, tiles_, walk_),
        reads_(facts, tiles_, residents_),
        outer_(facts, builder_, tiles_, batch_count(facts, schedule), schedule.vector_width) {}

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
    residents_.declare();
    residents_.load_common();
    const auto step = builder_.mul(builder_.cast(builder_.param(blocks), DType::kI64),
                                   builder_.integer(schedule_.rows_per_block, DType::kI64));
    builder_.loop("first_row", block_row(builder_.special(kir::Special::kBlockIndex)),
                  builder_.param(rows_), step, false,
                  [&](ExprId first_row) { one_row(first_row); });
    store_partials();
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
      inputs_.staged[value] = builder_.add_buffer({.name = tiles_.name_of_value(value) + "_ring",
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
      residents_.declare();
      residents_.load_common();
      const ExprId group = walk_.slot().valid() ? walk_.slot() : builder_.integer(0);
      load_first_row_values(group, items);
      builder_.loop("item", group, items, builder_.integer(groups), false,
                    [&](ExprId item) { consume(item, group); });
      if (facts_.has_outer()) store_partials();
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
      for (const auto& [value, buffer] : inputs_.staged) {
        builder_.append(kir::BulkCopy{buffer, builder_.mul(slot, columns),
                                      tiles_.buffer_of(facts_.space.find_input(value)->tensor),
                                      tiles_.row_start(value), columns, full_, slot,
                                      tiles_.hint_of(value)});
      }
    });
  }

  void consume(ExprId item, ExprId group) {
    const ExprId slot = builder_.ref(builder_.declare("slot", slot_of(item)));
    inputs_.start = builder_.mul(slot, builder_.integer(facts_.space.columns));
    row_ = builder_.ref(builder_.declare("row", row_of(item)));
    tiles_.enter_row(row_);
    const ExprId two = builder_.integer(2);
    phase_ = builder_.rem(builder_.div(item, builder_.integer(schedule_.rows_per_block)), two);
    group_ = group;
    take_row_values(item);
    for (const ValueId value : list_.row_values) tiles_.row_value(value);
    store_row_outputs(0);
    builder_.append(kir::MbarrierWait{full_, slot, builder_.rem(round_of(item), two)});
    residents_.load_row(inputs_);
    const bool early = releases_early(facts_, schedule_);
    if (early) builder_.append(kir::MbarrierArrive{empty_, slot});
    for (size_t s = 0; s < list_.stages.size(); ++s) emit_stage(s);
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
    row_ = first_row;
    if (schedule_.rows_per_block > 1) {
      const ExprId wanted = builder_.ref(builder_.declare(
          "wanted_row", builder_.add(first_row, builder_.cast(walk_.slot(), DType::kI64))));
      // Threads beyond the last row repeat it, so that barriers and shuffles stay whole; they store
      // and accumulate nothing.
      row_is_real_ = builder_.ref(
          builder_.declare("row_is_real", builder_.less(wanted, builder_.param(rows_))));
      row_ = builder_.min(wanted,
                          builder_.sub(builder_.param(rows_), builder_.integer(1, DType::kI64)));
    }
    if (facts_.space.row_dimensions > 0) {
      row_ = builder_.ref(builder_.declare("row", row_));
      tiles_.set_row(row_);
    }
    walk_.enter_row();
    for (const ValueId value : list_.row_values) tiles_.row_value(value);
    store_row_outputs(0);
    if (schedule_.persistent_blocks == 0) {
      residents_.declare();
      residents_.load_common();
    }
    residents_.load_row(inputs_);
    for (size_t s = 0; s < list_.stages.size(); ++s) emit_stage(s);
  }

  /// What the block accumulated, one row of partial results for every slot.
  void store_partials() {
    const ExprId block = block_row(builder_.special(kir::Special::kBlockIndex));
    const ExprId slot = walk_.slot().valid()
                            ? builder_.add(block, builder_.cast(walk_.slot(), DType::kI64))
                            : block;
    const ExprId row = builder_.ref(builder_.declare("partial_row", slot));
    const ExprId columns = builder_.integer(facts_.space.columns, DType::kI64);
    for (const OuterAccumulators::Component& component : outer_.components()) {
      const ValueId value = facts_.fusion.ops[component.op].results.front();
      const kir::BufferId buffer =
          builder_.add_buffer({.name = tiles_.name_of_value(value) + "_partials",
                               .type = component.type,
                               .space = kir::Space::kGlobal,
                               .access = kir::Access::kWrite,
                               .alignment = 16,
                               .value = value});
      walk_.for_vectors([&](const TilePosition& at) {
        const auto store = [&] {
          const ExprId index =
              builder_.add(builder_.mul(row, columns), builder_.cast(at.first_column, DType::kI64));
          builder_.append(
              kir::Store{buffer, index, width(), component.tile, at.batch, builder_.integer(0)});
        };
        if (at.guard == Guard::kNone) {
          store();
        } else {
          builder_.when(tiles_.vector_is_inside(at), store);
        }
      });
    }
  }

  // ---- Stages

  void emit_stage(size_t s) {
    const Stage& stage = list_.stages[s];
    if (!stage.reductions.empty() || !stage.outer.empty() || !stage.outputs.empty() ||
        !stage.kept.empty()) {
      builder_.comment(fmt::format("stage {}", s));
    }
    RowStatistics statistics(facts_, builder_, tiles_, stage.reductions);
    const ChunkReads first = reads_.of_stage(s, stage);
    const ChunkReads second = reads_.of_values(s, statistics.second_operands());
    // Where a second look at the row reads nothing but what is held, statistics may take the whole
    // row as one chunk.
    const bool is_held =
        std::ranges::none_of(second.inputs, [&](ValueId value) { return facts_.is_full(value); });
    if (statistics.take_two_sweeps() && is_held) {
      statistics.begin_chunk();
      walk_.for_chunks(chunk_batches(), [&](const RowChunk& chunk) {
        with_reads(first, chunk, [&] { sweep(s, statistics, chunk); });
      });
      statistics.between_sweeps();
      walk_.for_chunks(chunk_batches(), [&](const RowChunk& chunk) {
        with_reads(second, chunk, [&] { second_sweep(statistics, chunk); });
      });
      statistics.end_chunk(true);
    } else {
      walk_.for_chunks(chunk_batches(), [&](const RowChunk& chunk) {
        statistics.begin_chunk();
        with_reads(first, chunk, [&] {
          sweep(s, statistics, chunk);
          if (!statistics.take_two_sweeps()) return;
          statistics.between_sweeps();
          second_sweep(statistics, chunk);
          statistics.end_chunk(false);
        });
      });
    }
    RowExchange exchange;
    if (group_.valid()) {
      exchange.phase = phase_;
      exchange.barrier = builder_.add(group_, builder_.integer(1));  // 0 is the block's.
      exchange.group = group_;
      exchange.groups = schedule_.rows_per_block;
    }
    statistics.finish(threads(), fmt::format("stage{}", s), exchange);
    for (const ValueId value : stage.row_values) tiles_.row_value(value);
    store_row_outputs(static_cast<int>(s) + 1);
  }

  [[nodiscard]] int64_t chunk_batches() const { return std::max<int64_t>(schedule_.unroll, 1); }

  /// Loads what a chunk needs into registers, runs the body, and forgets the registers.
  void with_reads(const ChunkReads& reads, const RowChunk& chunk,
                  const std::function<void()>& body) {
    for (const auto* values : {&reads.inputs, &reads.shared}) {
      for (const ValueId value : *values)
        tiles_.bind_tile(value, tiles_.declare_tile(value, chunk.batches), false);
    }
    if (!reads.empty()) {
      walk_.for_vectors(chunk, [&](const TilePosition& at) {
        for (const ValueId value : reads.inputs) load_input(builder_, tiles_, inputs_, value, at);
        for (const ValueId value : reads.shared) residents_.load_shared(value, at);
      });
    }
    body();
    for (const auto* values : {&reads.inputs, &reads.shared}) {
      for (const ValueId value : *values) tiles_.unbind_tile(value);
    }
  }

  // ---- Sweeps

  /// First look at the elements: accumulates, stores outputs, keeps what later stages need.
  void sweep(size_t s, RowStatistics& statistics, const RowChunk& chunk) {
    const Stage& stage = list_.stages[s];
    std::vector<ValueId> kept_computed;
    std::vector<ValueId> kept_shared;
    for (const ValueId value : stage.kept) {
      if (facts_.is_read(value)) continue;
      (residents_.is_shared(value) ? kept_shared : kept_computed).push_back(value);
    }
    if (statistics.empty() && stage.outer.empty() && stage.outputs.empty() &&
        kept_computed.empty() && kept_shared.empty())
      return;

    walk_.for_vectors(chunk, [&](const TilePosition& at) {
      walk_.when_inside(at,
                        [&] { sweep_vector(stage, statistics, kept_computed, kept_shared, at); });
    });
  }

  void sweep_vector(const Stage& stage, RowStatistics& statistics,
                    const std::vector<ValueId>& kept_computed,
                    const std::vector<ValueId>& kept_shared, const TilePosition& at) {
    std::map<size_t, VarId> output_tiles;
    std::map<ValueId, VarId> shared_tiles;
    for (const size_t output : stage.outputs)
      output_tiles[output] = tiles_.declare_output_tile(output);
    for (const ValueId value : kept_shared) shared_tiles[value] = tiles_.declare_tile(value, 1);
    walk_.for_lanes(at, [&](ExprId lane, ExprId inside) {
      for (const ValueId value : kept_computed) keep(value, at, lane);
      for (const auto& [value, tile] : shared_tiles)
        builder_.set(tile, builder_.integer(0), lane, tiles_.element_value(value));
      statistics.add(at, lane, inside);
      accumulate_outer(stage, at, lane, inside);
      for (const auto& [output, tile] : output_tiles)
        builder_.set(tile, builder_.integer(0), lane, tiles_.output_element(output));
    });
    statistics.end_vector(at);
    for (const auto& [value, tile] : shared_tiles) residents_.store_shared(value, at, tile);
    TilePosition unguarded = at;
    // A vector guard already encloses the whole vector.
    if (at.guard == Guard::kVector) unguarded.guard = Guard::kNone;
    for (const auto& [output, tile] : output_tiles)
      when_row_is_real(
          output, [&, output = output, tile = tile] { tiles_.store(output, tile, unguarded); });
  }

  void accumulate_outer(const Stage& stage, const TilePosition& at, ExprId lane, ExprId inside) {
    if (stage.outer.empty()) return;
    // Operands are evaluated for whoever needs them later too, outside of the condition.
    for (const OpId op : stage.outer) tiles_.element_value(facts_.fusion.ops[op].operands[0]);
    const auto accumulate = [&] { outer_.accumulate(stage.outer, at.batch, lane); };
    ExprId condition = inside;
    if (row_is_real_.valid())
      condition = condition.valid() ? builder_.both(condition, row_is_real_) : row_is_real_;
    if (condition.valid()) {
      builder_.when(condition, accumulate);
    } else {
      accumulate();
    }
  }

  /// Computes a kept value here, although its registers are already bound.
  void keep(ValueId value, const TilePosition& at, ExprId lane) {
    const VarId tile = tiles_.tile_of(value);
    tiles_.unbind_tile(value);
    const ExprId computed = tiles_.element_value(value);
    tiles_.bind_tile(value, tile, true);
    builder_.set(tile, at.batch, lane, computed);
  }

  /// Second look at the elements, for statistics.
  void second_sweep(RowStatistics& statistics, const RowChunk& chunk) {
    walk_.for_vectors(chunk, [&](const TilePosition& at) {
      walk_.when_inside(at, [&] {
        walk_.for_lanes(at, [&](ExprId, ExprId inside) { statistics.add_again(inside); });
      });
    });
  }

  // ---- Outputs

  /// Guards stores of threads that repeat the last row, and of outputs that the rows do not vary.
  void when_row_is_real(size_t output, const std::function<void()>& body) {
    ExprId condition = row_is_real_;
    if (!facts_.space.output_coverage[output].rows && facts_.space.row_dimensions > 0) {
      const ExprId first_row = builder_.equal(row_, builder_.integer(0, DType::kI64));
      condition = condition.valid() ? builder_.both(condition, first_row) : first_row;
    }
    if (condition.valid()) {
      builder_.when(condition, body);
    } else {
      body();
    }
  }

  void store_row_outputs(int level) {
    for (size_t i = 0; i < facts_.fusion.outputs.size(); ++i) {
      if (facts_.is_after_rows(facts_.fusion.outputs[i]) ||
          facts_.space.output_coverage[i].columns ||
          facts_.level[facts_.fusion.outputs[i]] != level)
        continue;
      builder_.when(builder_.equal(walk_.lane(), builder_.integer(0)),
                    [&] { when_row_is_real(i, [&] { tiles_.store_row_output(i); }); });
    }
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  const StageList list_;
  kir::Kernel kernel_;
  kir::KernelBuilder builder_;
  TileLowering tiles_;
  RowWalk walk_;
  RowResidents residents_;
  StageReads reads_;
  OuterAccumulators outer_;

  kir::ParamId rows_;

  kir::MbarrierId full_, empty_;
  ExprId block_, step_;                   ///< Block number and grid size, i64.
  std::map<ValueId, VarId> next_values_;  ///< Row values of the group's next row.
  RowInputs inputs_;
  ExprId phase_, group_;  ///< Of the exchanges of the row at hand.

  ExprId row_;
  ExprId row_is_real_;  ///< Invalid: always.
};

}  // namespace

LoweredKernel lower_rows(const SegmentFacts& facts, const Schedule& schedule) {
  return RowLowering(facts, schedule).run();
}

}  // namespace sinter
