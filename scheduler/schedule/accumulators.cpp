#include "scheduler/schedule/accumulators.h"

#include <algorithm>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/shared_memory.h"

namespace sinter {
namespace {

/// Elements of an outer reduction's accumulators in a row of `columns`.
int64_t accumulated(const SegmentFacts& facts, OpId id, int64_t columns) {
  return facts.is_total(id) ? 1 : columns;
}

}  // namespace

int64_t total_exchange_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  Stage totals;
  for (const OpId id : facts.outer_reductions) {
    if (facts.is_total(id)) totals.reductions.push_back(id);
  }
  return exchange_bytes(facts, totals, schedule, 1);
}

int64_t accumulator_words(const SegmentFacts& facts, int64_t columns) {
  int64_t words = 0;
  for (const OpId id : facts.outer_reductions) {
    for (const DType type : exchange_types(facts.fusion, facts.fusion.ops[id])) {
      words +=
          (bytes_of(type) + kRegisterBytes - 1) / kRegisterBytes * accumulated(facts, id, columns);
    }
  }
  return words;
}

bool accumulates_columns(const SegmentFacts& facts) {
  return std::ranges::any_of(facts.outer_reductions, [&](OpId id) { return !facts.is_total(id); });
}

int64_t accumulator_column_bytes(const SegmentFacts& facts) {
  int64_t bytes = 0;
  for (const OpId id : facts.outer_reductions) {
    if (facts.is_total(id)) continue;
    for (const DType type : exchange_types(facts.fusion, facts.fusion.ops[id]))
      bytes += bytes_of(type);
  }
  return bytes;
}

AccumulatorTraffic accumulator_traffic(const SegmentFacts& facts, const Stage& stage,
                                       const Schedule& schedule) {
  constexpr int64_t kDirections = 2;  // A load and a store.
  AccumulatorTraffic traffic;
  if (schedule.accumulators() != Residency::kShared) return traffic;
  for (const OpId id : stage.outer) {
    if (facts.is_total(id)) continue;
    for (const DType type : exchange_types(facts.fusion, facts.fusion.ops[id])) {
      const int64_t vector_bytes = schedule.vector_width * bytes_of(type);
      traffic.column_bytes += kDirections * bytes_of(type);
      traffic.vector_accesses +=
          kDirections * ((vector_bytes + kMostAccessBytes - 1) / kMostAccessBytes);
    }
  }
  return traffic;
}

int64_t accumulator_shared_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.accumulators() != Residency::kShared) return 0;
  // Blocks are whole warps: each component ends on 16 bytes.
  return accumulator_column_bytes(facts) * batch_count(facts, schedule) *
         schedule.threads_per_block() * schedule.vector_width;
}

int64_t partial_elements(const SegmentFacts& facts) {
  int64_t elements = 0;
  for (const OpId id : facts.outer_reductions)
    elements += accumulated(facts, id, facts.space.columns);
  return elements;
}

int64_t partial_rows(const Schedule& schedule) {
  return schedule.persistent_blocks / schedule.cluster_size();
}

int64_t evaluating_warps(const MatmulParameters& own) {
  return own.epilogue_warps > 0 ? own.epilogue_warps : own.row_warps;
}

int64_t partial_rows(const SegmentFacts& facts, const Schedule& schedule) {
  const auto* own = std::get_if<MatmulParameters>(&schedule.parameters);
  if (own == nullptr || !facts.space.contraction) return partial_rows(schedule);
  int64_t batches = 1;
  int64_t rows = 1;
  for (size_t i = 0; i < facts.space.row_dimensions; ++i)
    (i < facts.space.contraction->batch_dimensions ? batches : rows) *=
        facts.space.dimensions[i].size;
  return batches * divided_up(rows, own->tile_rows) * evaluating_warps(*own);
}

bool leaves_partials(const SegmentFacts& facts, const Schedule& schedule) {
  return facts.space.contraction ? facts.has_outer() : schedule.persistent_blocks != 0;
}

int64_t column_strips(const SegmentFacts& facts, const Schedule& schedule) {
  const int64_t reach = schedule.threads_per_row * schedule.vector_width;
  return (facts.space.columns + reach - 1) / reach;
}

namespace {

/// Shared bytes of a tuple for each vector element and total of `threads` threads. With `travels`
/// the tuples have types that can go to another block.
int64_t tuple_exchange_bytes(const SegmentFacts& facts, const Schedule& schedule, int64_t threads,
                             bool travels) {
  int64_t bytes = 0;
  for (const OpId id : facts.outer_reductions) {
    if (facts.space.columns == 0 && !facts.is_total(id)) continue;
    if (schedule.accumulators() == Residency::kShared && !facts.is_total(id)) continue;
    const int64_t elements = threads * accumulated(facts, id, schedule.vector_width);
    for (const DType type : exchange_types(facts.fusion, facts.fusion.ops[id])) {
      bytes += (elements * bytes_of(travels ? travel_type(type) : type) + 15) / 16 * 16;
    }
  }
  return bytes;
}

}  // namespace

int64_t slot_exchange_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  const int64_t threads = (schedule.rows_per_block - 1) * schedule.threads_per_row;
  return tuple_exchange_bytes(facts, schedule, threads, false);
}

int64_t block_exchange_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.cluster_size() == 1) return 0;
  const int64_t threads = (schedule.cluster_size() - 1) * schedule.threads_per_row;
  constexpr int64_t kUnit = 16;
  return (tuple_exchange_bytes(facts, schedule, threads, true) + kBytesPerMbarrier + kUnit - 1) /
         kUnit * kUnit;
}

}  // namespace sinter
