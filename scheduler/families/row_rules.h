#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "scheduler/budgets/device_limits.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// Checks the fields every row schedule shares: powers of two, vector and access mode, persistent
/// values that exist.
std::optional<Rejection> check_row_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                            const DeviceLimits& limits);

/// Rejects more batches of a row loaded at once than a family unrolls.
std::optional<Rejection> check_unroll(const SegmentFacts& facts, const Schedule& schedule,
                                      int64_t most_batches);

/// Vector widths that are worth trying for a segment's tensors: from 16 bytes of the narrowest
/// element down to 16 bytes of the widest; down to single elements where an output's neighbours lie
/// apart in memory, so that a warp stores more of each sector at once the narrower its vectors are.
struct VectorWidths {
  int64_t widest = 1;
  int64_t narrowest = 1;
};

VectorWidths vector_widths(const SegmentFacts& facts);

/// These widths, widest first, with the row access mode each allows.
struct RowVector {
  int64_t width = 1;
  RowAccess access = RowAccess::kAligned;
};

std::vector<RowVector> row_vectors(const SegmentFacts& facts);

/// Outer reductions that keep the columns accumulate per column: one of values that do not vary
/// along them is refused.
std::optional<Rejection> check_outer_operands(const SegmentFacts& facts, std::string_view family);

/// What keeps outer reductions from leaving partial results: tuples, or columns that several
/// strides walk. Nothing: there are none, or they may.
std::optional<Rejection> check_outer_reductions(const SegmentFacts& facts, std::string_view family);

/// An output that is neither stored once in every row nor after all of them.
std::optional<Rejection> check_row_outputs(const SegmentFacts& facts, std::string_view family);

/// Rules that segments must meet before rows make sense at all; empty if they do.
std::vector<Rejection> check_row_segment(const SegmentFacts& facts, std::string_view family);

}  // namespace sinter
