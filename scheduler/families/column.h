#pragma once

#include "scheduler/families/family.h"
#include "scheduler/program/program.h"

namespace sinter {

/// Column: reductions over the rows, whole in one kernel. A block owns threads_per_row vectors of
/// columns. Its rows_per_block rows of threads share the segment's rows: each loads `unroll` rows
/// at once. They combine their accumulators through shared memory in a fixed tree. Where columns
/// are few, rows are distributed to the blocks of a cluster, whose first block receives the
/// accumulators of the others and finishes; or to more blocks, which leave partial results. The
/// family also finishes the partial results of other families.
///
/// Rejects: no reduction over the rows; reductions along the columns; outputs of one value per row.
std::optional<Rejection> refuse_column(const SegmentFacts& facts);

/// The program of a schedule.
program::Program column_program(const SegmentFacts& facts, const Schedule& schedule);

Proposal propose_column(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_column(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const DeviceLimits& limits);

Prediction predict_column(const SegmentFacts& facts, const Schedule& schedule,
                          const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
