#pragma once

#include <string_view>

#include "scheduler/families/family.h"
#include "scheduler/program/program.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

/// Pointwise: no reductions. The iteration space is one run of elements. A block takes a tile of
/// threads x vector x unroll of them. The grid is non-persistent, one block per tile (faster than a
/// grid-stride loop for copy-like work: docs/performance.md).
///
/// Rejects: a list of tensors; a reduction.
std::optional<Rejection> refuse_pointwise(const SegmentFacts& facts);

/// The program of a schedule.
program::Program pointwise_program(const SegmentFacts& facts, const Schedule& schedule);

Proposal propose_pointwise(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_pointwise(const SegmentFacts& facts,
                                                             const Schedule& schedule,
                                                             const DeviceLimits& limits);

Prediction predict_pointwise(const SegmentFacts& facts, const Schedule& schedule,
                             const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
