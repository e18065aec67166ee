#include "codegen/lower/row_body.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/row_schedule.h"

#include <algorithm>
#include <map>
#include <set>

namespace sinter {

using kir::ExprId;
using kir::VarId;

/// Elements per thread that two-pass statistics take at a time if the row is in registers and the
/// two passes do not span the whole row (kMostConvertedTwice).
constexpr int64_t kLookedAtTogether = 8;

RowBody::RowBody(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
                 TileLowering& tiles, RowWalk& walk, OuterAccumulators& outer)
    : facts_(facts),
      schedule_(schedule),
      builder_(builder),
      tiles_(tiles),
      walk_(walk),
      outer_(outer),
      list_(stages_of(facts, schedule)),
      residents_(facts, schedule, builder, tiles, walk),
      reads_(facts, tiles, residents_) {}

void RowBody::prepare(size_t rows) {
  residents_.declare();
  residents_.load_common();
  prepared_ = {tiles_.view()};
  while (prepared_.size() < rows) {
    residents_.declare_another_row();
    prepared_.push_back(tiles_.view());
  }
  tiles_.set_view(prepared_.front());
}

void RowBody::begin_rows(size_t rows) {
  rows_.clear();
  for (size_t i = 0; i < rows; ++i) rows_.emplace_back().view = prepared_[i];
  current_ = 0;
  tiles_.set_view(prepared_.front());
}

void RowBody::select_row(size_t row) {
  if (row == current_) return;
  rows_[current_].view = tiles_.view();
  tiles_.set_view(rows_[row].view);
  current_ = row;
}

void RowBody::load_prefetched() {
  walk_.enter_row();
  residents_.load_prefetched();
}

void RowBody::take_prefetched() {
  walk_.enter_row();
  residents_.take_prefetched();
}

void RowBody::begin(const Row& row) {
  rows_[current_].row = row;
  walk_.enter_row();
  for (const ValueId value : list_.row_values) tiles_.row_value(value);
  if (half() == kir::ReduceHalf::kSend) return;
  accumulate_totals(list_.totals);
  store_row_outputs(0);
}

void RowBody::load() { residents_.load_row(row().inputs); }

void RowBody::compute() {
  if (half() == kir::ReduceHalf::kSend) {
    send();
    return;
  }
  const size_t count = is_tiled() ? last_stage() : list_.stages.size();
  for (size_t s = 0; s < count; ++s) run_stage(s);
}

// ---- Two-pass schedules

void RowBody::evaluate_common() {
  for (const ValueId value : list_.row_values) {
    if (!facts_.space.dependence[value].rows) tiles_.row_value(value);
  }
}

bool RowBody::has_first_part() const {
  if (last_stage() > 0 || !list_.tile_row_values.empty() || !list_.totals.empty()) return true;
  for (size_t i = 0; i < facts_.fusion.outputs.size(); ++i) {
    if (is_row_output(i)) return true;
  }
  return false;
}

bool RowBody::has_second_part() const {
  const Stage& stage = list_.stages.back();
  return !stage.outer.empty() || !stage.outputs.empty();
}

void RowBody::with_common_reads(const RowChunk& chunk, const std::function<void()>& rows) {
  ChunkReads reads = reads_.of_stage(last_stage(), list_.stages.back());
  std::erase_if(reads.inputs, [&](ValueId value) { return facts_.space.dependence[value].rows; });
  with_reads(reads, chunk, rows);
}

void RowBody::apply(const RowChunk& chunk) {
  const Stage& stage = list_.stages.back();
  RowStatistics none(facts_, builder_, tiles_, {});
  with_reads(reads_.of_stage(last_stage(), stage), chunk, [&] { sweep(stage, none, chunk); });
}

void RowBody::with_prefetch_rows(const RowChunk& chunk, const std::function<void()>& rows) {
  const ChunkReads reads = reads_.of_stage(last_stage(), list_.stages.back());
  for (const ValueId value : reads.inputs) {
    tiles_.bind_tile(value, tiles_.declare_tile(value, chunk.batches), false);
    next_[value] = tiles_.declare_tile(value, chunk.batches, "_next");
  }
  rows();
  for (const ValueId value : reads.inputs) tiles_.unbind_tile(value);
  next_.clear();
}

void RowBody::load_next(const RowChunk& chunk) {
  std::map<ValueId, VarId> current;
  for (const auto& [value, next] : next_) {
    current[value] = tiles_.tile_of(value);
    tiles_.bind_tile(value, next, false);
  }
  walk_.for_vectors(chunk, [&](const TilePosition& at) {
    for (const auto& [value, next] : next_) tiles_.load(value, at);
  });
  for (const auto& [value, tile] : current) tiles_.bind_tile(value, tile, false);
}

/// Copies element by element; the compiler makes it one move per word of packed elements.
void RowBody::take_next(const RowChunk& chunk) {
  const auto take = [&](const TilePosition& at) {
    for (const auto& [value, next] : next_) {
      const VarId tile = tiles_.tile_of(value);
      builder_.unrolled(
          "v", builder_.kernel().vars[tile].lanes, [&, next = next, tile = tile](ExprId lane) {
            builder_.set(tile, at.group, lane, builder_.element(next, at.group, lane));
          });
    }
  };
  walk_.for_vectors(chunk,
                    [&](const TilePosition& at) { walk_.when_inside(at, [&] { take(at); }); });
}

// ---- Stages

/// Tells the loads of stage s which tensors later stages read again.
void RowBody::expect_loads_after(size_t s) {
  std::set<ValueId> again;
  for (size_t later = s + 1; later < list_.stages.size(); ++later) {
    for (const ValueId value : list_.stages[later].loads)
      again.insert(facts_.space.find_input(value)->tensor);
  }
  tiles_.expect_again(std::move(again));
}

void RowBody::send() {
  expect_loads_after(0);
  Stage stage = list_.stages.front();
  SINTER_CHECK(!stage.reductions.empty() && !is_tiled() &&
                   !syncs_between_passes(facts_, schedule_, stage, 0),
               "a row without one exchange at the end of its first stage");
  stage.outer.clear();
  stage.outputs.clear();
  builder_.comment("stage 0, as far as it is sent");
  std::vector<RowStatistics> statistics;
  for (size_t i = 0; i < rows_.size(); ++i) {
    select_row(i);
    statistics.emplace_back(facts_, builder_, tiles_, stage.reductions);
    pass_over_row(stage, 0, statistics.back());
  }
  exchange(0, statistics);
}

void RowBody::run_stage(size_t s) {
  const Stage& stage = list_.stages[s];
  expect_loads_after(s);
  if (!stage.reductions.empty() || !stage.outer.empty() || !stage.outputs.empty() ||
      !stage.kept.empty()) {
    builder_.comment(fmt::format("stage {}", s));
  }
  std::vector<RowStatistics> statistics;
  if (syncs_between_passes(facts_, schedule_, stage, s)) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      select_row(i);
      statistics.emplace_back(facts_, builder_, tiles_, stage.reductions);
      statistics.back().sync_between_passes(walk_.lane(), pivot_threads(facts_, schedule_));
      begin_passes(stage, s, statistics.back());
    }
    RowStatistics::exchange(statistics, walk_.threads(), fmt::format("stage{}_first", s),
                            row().exchange);
    for (size_t i = 0; i < rows_.size(); ++i) {
      select_row(i);
      finish_passes(s, statistics[i]);
    }
  } else {
    const bool was_sent = s == 0 && half() == kir::ReduceHalf::kReceive;
    for (size_t i = 0; i < rows_.size(); ++i) {
      select_row(i);
      statistics.emplace_back(facts_, builder_, tiles_, stage.reductions);
      RowStatistics none(facts_, builder_, tiles_, {});
      pass_over_row(stage, s, was_sent ? none : statistics.back());
    }
  }
  for (size_t i = 0; i < rows_.size() && !stage.gathered.empty(); ++i) {
    select_row(i);
    for (const ValueId value : stage.gathered) tiles_.row_value(value);
  }
  const bool exchanges = !stage.reductions.empty();
  exchange(s, statistics);
  for (size_t i = 0; i < rows_.size(); ++i) {
    select_row(i);
    statistics[i].define_results();
  }
  // An exchange by shuffles alone does not make the compiler drop values that were read from shared
  // memory. They would stay in registers until the next stage, which reads them again anyway, and
  // could spill. The warp barrier forces the second read (docs/experiments/constants_lowering.md).
  if (exchanges && walk_.threads() <= kWarp && reads_shared()) builder_.append(kir::WarpBarrier{});
  for (size_t i = 0; i < rows_.size(); ++i) {
    select_row(i);
    for (const ValueId value : stage.row_values) tiles_.row_value(value);
    accumulate_totals(stage.totals);
    store_row_outputs(static_cast<int>(s) + 1);
  }
}

/// Combines what the threads of each row know at the end of stage s.
void RowBody::exchange(size_t s, std::vector<RowStatistics>& statistics) {
  RowExchange how = row().exchange;
  if (s > 0) how.half = kir::ReduceHalf::kWhole;
  if (how.half == kir::ReduceHalf::kReceive) how.first_place = sent_;
  const int64_t sent =
      RowStatistics::combine(statistics, walk_.threads(), fmt::format("stage{}", s), how);
  if (how.half == kir::ReduceHalf::kSend) sent_ = sent;
}

/// Walks over all elements of the current row for stage s.
void RowBody::pass_over_row(const Stage& stage, size_t s, RowStatistics& statistics) {
  if (passes_over_whole_row(facts_, schedule_, stage, s)) {
    begin_passes(stage, s, statistics);
    finish_passes(s, statistics);
    return;
  }
  const ChunkReads first = reads_.of_stage(s, stage);
  int64_t unroll = std::max<int64_t>(schedule_.unroll, 1);
  if (statistics.take_two_passes() && reads_.of_values(s, statistics.second_operands()).empty())
    unroll = std::max(unroll, kLookedAtTogether / schedule_.vector_width);
  walk_.for_chunks(unroll, [&](const RowChunk& chunk) {
    statistics.begin_chunk();
    with_reads(first, chunk, [&] {
      sweep(stage, statistics, chunk);
      if (!statistics.take_two_passes()) return;
      statistics.between_passes(chunk.is_in_order);
      second_pass(statistics, chunk);
      statistics.end_chunk(false);
    });
  });
}

/// The first of two passes over the whole row.
void RowBody::begin_passes(const Stage& stage, size_t s, RowStatistics& statistics) {
  const ChunkReads reads = reads_.of_stage(s, stage);
  statistics.begin_chunk();
  walk_.for_chunks(std::max<int64_t>(schedule_.unroll, 1), [&](const RowChunk& chunk) {
    with_reads(reads, chunk, [&] { sweep(stage, statistics, chunk); });
  });
}

/// The second pass over the whole row.
void RowBody::finish_passes(size_t s, RowStatistics& statistics) {
  const ChunkReads reads = reads_.of_values(s, statistics.second_operands());
  statistics.between_passes();
  walk_.for_chunks(std::max<int64_t>(schedule_.unroll, 1), [&](const RowChunk& chunk) {
    with_reads(reads, chunk, [&] { second_pass(statistics, chunk); });
  });
  statistics.end_chunk(true);
}

/// True if inputs or kept values of the row lie in shared memory.
bool RowBody::reads_shared() const {
  return !row().inputs.staged.empty() ||
         std::ranges::any_of(schedule_.kept, [&](const KeptValue& kept) {
           return residents_.is_shared(kept.value);
         });
}

/// Loads a chunk's reads into registers, runs the body, and unbinds the registers.
void RowBody::with_reads(const ChunkReads& reads, const RowChunk& chunk,
                         const std::function<void()>& body) {
  for (const auto* values : {&reads.inputs, &reads.shared}) {
    for (const ValueId value : *values)
      tiles_.bind_tile(value, tiles_.declare_tile(value, chunk.groups()), false);
  }
  if (!reads.empty()) {
    walk_.for_vectors(chunk, [&](const TilePosition& at) {
      for (const ValueId value : reads.inputs)
        load_input(builder_, tiles_, row().inputs, value, at);
      for (const ValueId value : reads.shared) residents_.load_shared(value, at);
    });
  }
  body();
  for (const auto* values : {&reads.inputs, &reads.shared}) {
    for (const ValueId value : *values) tiles_.unbind_tile(value);
  }
}

// ---- Passes over a chunk

/// First pass over the elements of a chunk, if the stage has work per element.
void RowBody::sweep(const Stage& stage, RowStatistics& statistics, const RowChunk& chunk) {
  const bool keeps =
      std::ranges::any_of(stage.kept, [&](ValueId value) { return !facts_.is_read(value); });
  if (!keeps && statistics.empty() && stage.outer.empty() && stage.outputs.empty()) return;
  walk_.for_vectors(chunk, [&](const TilePosition& at) {
    walk_.when_inside(at, [&] { pass_over_vector(stage, statistics, at); });
  });
}

/// Accumulates, collects and stores outputs, and keeps the values of later stages.
void RowBody::pass_over_vector(const Stage& stage, RowStatistics& statistics,
                               const TilePosition& at) {
  std::map<size_t, VarId> output_tiles;
  std::map<ValueId, VarId> shared_tiles;
  std::vector<ValueId> kept_in_registers;
  for (const size_t output : stage.outputs)
    output_tiles[output] = tiles_.declare_output_tile(output);
  for (const ValueId value : stage.kept) {
    if (facts_.is_read(value)) continue;
    if (residents_.is_shared(value)) {
      shared_tiles[value] = tiles_.declare_tile(value, 1);
    } else {
      kept_in_registers.push_back(value);
    }
  }
  const ExprId zero = builder_.integer(0);
  outer_.fetch(stage.outer, at.batch);
  walk_.for_lanes(at, [&](ExprId lane) {
    for (const ValueId value : kept_in_registers) keep_in_register(value, at, lane);
    for (const auto& [value, tile] : shared_tiles)
      builder_.set(tile, zero, lane, tiles_.element_value(value));
    statistics.add(lane);
    accumulate_outer(stage, at, lane);
    for (const auto& [output, tile] : output_tiles)
      builder_.set(tile, zero, lane, tiles_.output_element(output));
  });
  outer_.put_back(stage.outer, at.batch);
  statistics.end_vector(at);
  for (const auto& [value, tile] : shared_tiles) residents_.store_shared(value, at, tile);
  for (const auto& [output, tile] : output_tiles) {
    when_stored(output,
                [&, output = output, tile = tile] { tiles_.store_collected(output, tile, at); });
  }
}

/// Second pass over the elements of a chunk, for statistics.
void RowBody::second_pass(RowStatistics& statistics, const RowChunk& chunk) {
  const auto for_elements = [&](const RowStatistics::SearchElement& take) {
    walk_.for_vectors(chunk, [&](const TilePosition& at) {
      walk_.when_inside(at, [&] { walk_.for_lanes(at, [&](ExprId lane) { take(at, lane); }); });
    });
  };
  if (statistics.deviate())
    for_elements([&](const TilePosition&, ExprId) { statistics.add_again(); });
  statistics.search(for_elements);
}

/// Computes a kept value here, although its registers are already bound.
void RowBody::keep_in_register(ValueId value, const TilePosition& at, ExprId lane) {
  const VarId tile = tiles_.tile_of(value);
  tiles_.unbind_tile(value);
  const ExprId computed = tiles_.element_value(value);
  tiles_.bind_tile(value, tile, true);
  builder_.set(tile, at.batch, lane, computed);
}

void RowBody::accumulate_outer(const Stage& stage, const TilePosition& at, ExprId lane) {
  if (stage.outer.empty()) return;
  // Operands are evaluated outside of the condition, because later statements may also use them.
  for (const OpId op : stage.outer) tiles_.element_value(facts_.fusion.ops[op].operands[0]);
  // In two-pass schedules registers hold the accumulators of one chunk, otherwise of the whole row.
  const ExprId group = is_tiled() ? at.group : at.batch;
  const auto accumulate = [&] { outer_.accumulate(stage.outer, group, lane); };
  if (row().is_real.valid()) {
    builder_.when(row().is_real, accumulate);
  } else {
    accumulate();
  }
}

ExprId RowBody::is_leader() {
  return row().is_leader.valid() ? row().is_leader : walk_.is_first_thread();
}

/// Every row counts once, so only the leader thread accumulates it.
void RowBody::accumulate_totals(const std::vector<OpId>& totals) {
  if (totals.empty()) return;
  for (const OpId op : totals) tiles_.row_value(facts_.fusion.ops[op].operands[0]);
  ExprId condition = is_leader();
  if (row().is_real.valid()) condition = builder_.both(condition, row().is_real);
  builder_.when(condition, [&] { outer_.accumulate_row(totals); });
}

// ---- Outputs

bool RowBody::is_row_output(size_t output) const {
  return !facts_.is_after_rows(facts_.fusion.outputs[output]) &&
         !facts_.space.output_coverage[output].columns;
}

/// Stores the outputs that have one element per row and depend on `level` inner reductions.
void RowBody::store_row_outputs(int level) {
  for (size_t i = 0; i < facts_.fusion.outputs.size(); ++i) {
    if (!is_row_output(i) || facts_.level[facts_.fusion.outputs[i]] != level) continue;
    builder_.when(is_leader(), [&] { when_stored(i, [&] { tiles_.store_row_output(i); }); });
  }
}

/// Runs `body` under the store's predicates: threads that repeat a row store nothing, and only the
/// first row stores an output that is the same in all rows.
void RowBody::when_stored(size_t output, const std::function<void()>& body) {
  ExprId condition = row().is_real;
  if (!facts_.space.output_coverage[output].rows && facts_.space.row_dimensions > 0) {
    const ExprId first = builder_.equal(tiles_.row(), builder_.integer(0, DType::kI64));
    condition = condition.valid() ? builder_.both(condition, first) : first;
  }
  if (condition.valid()) {
    builder_.when(condition, body);
  } else {
    body();
  }
}

}  // namespace sinter
