#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

// Schedules with a last-block reduction (`finish last_block`): geometry shared by their estimates
// and their lowering.

/// How the threads of the last block combine partial results: `slots` x `across` threads. Each slot
/// accumulates every slots-th row; a tree then combines the slots.
struct LastBlockGeometry {
  /// Column strips with an arrival counter each. The last block that has columns in a strip
  /// finishes it. A column schedule or a cluster distributes strips over its blocks. One strip if
  /// there are totals, which every column may need.
  int64_t strips = 1;
  int64_t columns = 0;       ///< Of a strip.
  int64_t rows = 0;          ///< Of partial results.
  int64_t vector_width = 1;  ///< Columns of a thread.
  int64_t across = 1;        ///< Threads of a slot, a power of two.
  int64_t slots = 1;         ///< A power of two.
  int64_t unroll = 1;        ///< Rows that a thread loads before it uses the first.

  /// Iterations in which a slot covers all columns of the strip; at least 1.
  [[nodiscard]] int64_t rounds() const;
  friend bool operator==(const LastBlockGeometry&, const LastBlockGeometry&) = default;
};

/// Geometry for a schedule with a persistent grid.
LastBlockGeometry last_block_geometry(const SegmentFacts& facts, const Schedule& schedule);

/// Rejects a last-block reduction if there are no partial results, or if another kernel is to
/// overlap.
std::optional<Rejection> check_last_block(const SegmentFacts& facts, const Schedule& schedule);

/// Bytes of the arrival counters in global memory; 0 without a last-block reduction.
int64_t last_block_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Shared bytes through which a block's leader thread passes on the value it read from the arrival
/// counter: one number, padded so that what follows is aligned.
inline constexpr int64_t kArrivalFlagBytes = 16;

/// Shared bytes of a block for the counter's value and for the tree of slots; 0 without a
/// last-block reduction.
int64_t last_block_shared_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Registers that a thread needs to combine partial results; 0 without a last-block reduction.
int64_t last_block_registers(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
