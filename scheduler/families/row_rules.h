#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "scheduler/budgets/device_limits.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// Checks the fields that every row schedule shares: powers of two, vector and access mode,
/// persistent values that exist.
std::optional<Rejection> check_row_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                            const DeviceLimits& limits);

/// Rejects an `unroll` that loads more batches of a row at once than the family unrolls.
std::optional<Rejection> check_unroll(const SegmentFacts& facts, const Schedule& schedule,
                                      int64_t most_batches);

/// Vector widths worth trying for a segment's tensors: from 16 bytes of the narrowest element down
/// to 16 bytes of the widest. If neighbouring elements of an output are not contiguous in memory,
/// the widths go down to single elements: the narrower its vectors, the more of each sector a warp
/// stores at once.
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

/// Outer reductions that keep the columns accumulate per column. Rejects one whose operand does not
/// vary along the columns.
std::optional<Rejection> check_outer_operands(const SegmentFacts& facts, std::string_view family);

/// Why outer reductions cannot leave partial results: tuples, or columns of several strides. No
/// value: there are no such reductions, or they can.
std::optional<Rejection> check_outer_reductions(const SegmentFacts& facts, std::string_view family);

/// Rejects an output that is stored neither once in every row nor after all rows.
std::optional<Rejection> check_row_outputs(const SegmentFacts& facts, std::string_view family);

/// Rules that a segment must satisfy for any row schedule; empty if it does.
std::vector<Rejection> check_row_segment(const SegmentFacts& facts, std::string_view family);

}  // namespace sinter
