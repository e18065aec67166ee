#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

// Schedules with `finish last_block`: geometry shared by their estimates and their lowering.

/// How the threads of the block that draws the last ticket combine partial results: `slots` x
/// `across` of them, each slot every slots-th row, and then the slots in a tree.
struct LastBlockGeometry {
  /// Runs of columns that are finished apart from each other, each by the last of the blocks that
  /// have columns in it: those that a column schedule or a cluster deals to its blocks. One where
  /// there are totals, which every column may need.
  int64_t strips = 1;
  int64_t columns = 0;       ///< Of a strip.
  int64_t rows = 0;          ///< Of partial results.
  int64_t vector_width = 1;  ///< Columns of a thread.
  int64_t across = 1;        ///< Threads of a slot, a power of two.
  int64_t slots = 1;         ///< A power of two.
  int64_t unroll = 1;        ///< Rows that a thread loads before it uses the first.

  /// Rounds in which a slot takes all columns of the strip, 1 at least.
  [[nodiscard]] int64_t rounds() const;
  friend bool operator==(const LastBlockGeometry&, const LastBlockGeometry&) = default;
};

/// Of a schedule with persistent blocks.
LastBlockGeometry last_block_geometry(const SegmentFacts& facts, const Schedule& schedule);

/// Rejects tickets where no partial results are left, or another kernel is to overlap.
std::optional<Rejection> check_last_block(const SegmentFacts& facts, const Schedule& schedule);

/// Bytes of the counters in global memory; 0 without tickets.
int64_t last_block_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Shared bytes in which a block's threads learn which ticket one of them drew: one number, padded
/// so that what lies behind it is aligned.
inline constexpr int64_t kArrivalFlagBytes = 16;

/// Shared bytes of a block for what it draws and for the tree of slots; 0 without tickets.
int64_t last_block_shared_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Registers that a thread needs to combine partial results; 0 without tickets.
int64_t last_block_registers(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
