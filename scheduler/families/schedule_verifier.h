#pragma once

#include <optional>
#include <span>
#include <vector>

#include "scheduler/analysis/stages.h"
#include "scheduler/families/family.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// Why a schedule is illegal for a segment on a device; empty if it is legal. Accepts any field
/// values, also those of a schedule that was parsed or pinned. The rules:
///
/// - the parameters are those of the family (has_parameters_of_family)
/// - the family is in the set, and its estimate accepts the schedule (this covers its own rules,
///   the ranges of fields and the budgets)
/// - persistent values exist, ascend and are unique, and a later stage needs each of them
/// - every stage has what it evaluates: see check_stages
/// - the batches of a row cover every column once: see check_batches
std::vector<Rejection> verify_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                       const DeviceLimits& limits, const FamilySet& families);

/// Rejects a distribution of values to stages in which a stage reads an element that it neither
/// loads, nor evaluated before, nor got from an earlier stage; or a row value that depends on this
/// stage's reductions.
std::optional<Rejection> check_stages(const SegmentFacts& facts, const Schedule& schedule,
                                      const StageList& list);

/// Rejects batches that leave out a column, that leave out or repeat a batch, or that run
/// unpredicated where a row may end, for any misalignment of the row. The fields of the schedule
/// must be legal.
std::optional<Rejection> check_batches(const SegmentFacts& facts, const Schedule& schedule,
                                       std::span<const BatchSpan> spans);

}  // namespace sinter
