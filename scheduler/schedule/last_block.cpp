#include "scheduler/schedule/last_block.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {
namespace {

/// 32-bit registers per thread that loads in flight may fill. Four 16-byte accesses already hide L2
/// latency as well as more, and this many fit the registers that the rows needed.
constexpr int64_t kWordsInFlight = 32;

constexpr int64_t kMostUnroll = 8;

/// Registers per thread for coordinates, the current row and its bounds test, and the addresses of
/// partial results and outputs; from SASS.
constexpr int64_t kBaseRegisters = 34;

constexpr int64_t kCounterBytes = 4;

int64_t power_of_two_from(int64_t count) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(count, 1))));
}

int64_t power_of_two_within(int64_t most) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(most, 1))));
}

bool has_totals(const SegmentFacts& facts) {
  return std::ranges::any_of(facts.outer_reductions, [&](OpId id) { return facts.is_total(id); });
}

/// True if the combined results have an element per column.
bool has_columns(const SegmentFacts& facts) {
  if (facts.space.columns == 0) return false;
  // This includes an output that repeats one number along the columns.
  for (size_t i = 0; i < facts.fusion.outputs.size(); ++i) {
    if (facts.is_after_rows(facts.fusion.outputs[i]) && facts.space.output_coverage[i].columns)
      return true;
  }
  return accumulates_columns(facts);
}

/// Elements of one 16-byte access to the widest partial results.
int64_t widest_vector(const SegmentFacts& facts) {
  int64_t bytes = 1;
  for (const OpId id : facts.outer_reductions) {
    for (const DType type : exchange_types(facts.fusion, facts.fusion.ops[id]))
      bytes = std::max(bytes, bytes_of(type));
  }
  return kMostAccessBytes / bytes;
}

/// A schedule whose exchange of row slots has the shape of the tree of slots.
Schedule tree_of(const LastBlockGeometry& geometry) {
  return {.threads_per_row = geometry.across,
          .rows_per_block = geometry.slots,
          .vector_width = geometry.vector_width};
}

}  // namespace

int64_t LastBlockGeometry::rounds() const {
  return std::max<int64_t>(divided_up(columns, across * vector_width), 1);
}

LastBlockGeometry last_block_geometry(const SegmentFacts& facts, const Schedule& schedule) {
  LastBlockGeometry out;
  out.rows = partial_rows(schedule);
  const bool of_columns = std::holds_alternative<ColumnParameters>(schedule.parameters);
  const bool apart = !has_totals(facts);
  if (apart) out.strips = of_columns ? column_strips(facts, schedule) : schedule.cluster_size();
  if (has_columns(facts)) {
    const int64_t reach = schedule.threads_per_row * schedule.vector_width;
    const int64_t of_strip = of_columns ? reach : columns_per_block(facts, schedule);
    out.columns = apart ? std::min(of_strip, facts.space.columns) : facts.space.columns;
  }
  out.vector_width = std::min(schedule.vector_width, widest_vector(facts));
  // Whole vectors: rows of partial results follow each other without padding.
  while (facts.space.columns % out.vector_width != 0) out.vector_width /= 2;
  const int64_t threads = schedule.threads_per_block();
  const int64_t vectors = divided_up(out.columns, out.vector_width);
  out.across = std::min(power_of_two_from(vectors), power_of_two_within(threads));
  const int64_t words = std::max<int64_t>(accumulator_words(facts, out.vector_width), 1);
  out.unroll = std::clamp<int64_t>(power_of_two_within(kWordsInFlight / words), 1, kMostUnroll);
  const int64_t needed = power_of_two_from(divided_up(out.rows, out.unroll));
  out.slots = std::min(needed, power_of_two_within(threads / out.across));
  out.unroll = std::min(out.unroll, power_of_two_from(divided_up(out.rows, out.slots)));
  return out;
}

std::optional<Rejection> check_last_block(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.finish == Finish::kKernel) return std::nullopt;
  const auto broken = [&](auto... said) { return rejected(schedule, said...); };
  if (!facts.has_outer() || schedule.persistent_blocks <= 0) {
    return broken("no block leaves partial results that the last one could finish",
                  schedule.persistent_blocks, 1, "persistent blocks", "use finish kernel");
  }
  const bool finishes = std::ranges::any_of(facts.fusion.outputs, [&](ValueId output) {
    return facts.is_after_rows(output) && !facts.is_empty(output);
  });
  if (!finishes) {
    return broken("what the last block would finish has no elements", 0, 1, "elements",
                  "use finish kernel");
  }
  if (schedule.dependent_launch != DependentLaunch::kNone) {
    return broken("kernels that finish their own partial results run alone", 0, 0, "",
                  "use dependent_launch none");
  }
  return std::nullopt;
}

int64_t last_block_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.finish != Finish::kLastBlock) return 0;
  return last_block_geometry(facts, schedule).strips * kCounterBytes;
}

int64_t last_block_shared_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.finish != Finish::kLastBlock) return 0;
  return kArrivalFlagBytes +
         slot_exchange_bytes(facts, tree_of(last_block_geometry(facts, schedule)));
}

int64_t last_block_registers(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.finish != Finish::kLastBlock) return 0;
  const LastBlockGeometry geometry = last_block_geometry(facts, schedule);
  return kBaseRegisters + accumulator_words(facts, geometry.vector_width) * (1 + geometry.unroll);
}

}  // namespace sinter
