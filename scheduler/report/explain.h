#pragma once

#include <span>
#include <string>

#include "scheduler/plan/plan.h"
#include "scheduler/report/sweep.h"

namespace sinter {

/// A plan's decisions for people: each question with the candidates that were compared, their
/// predicted microseconds part by part, the verdicts, and the rejections with their numbers. The
/// chosen candidate has a '*'.
std::string decisions_text(const Plan& plan);

/// A table of the best candidate of each family, the chosen one first: its numbers, predicted
/// microseconds part by part, and its share of the budgets. Parts that are 0 for all are omitted.
std::string families_text(const KernelPlan& segment, const DeviceLimits& limits);

/// Resources of a segment's chosen schedule, as bars against the budgets: registers, shared memory,
/// threads and blocks of an SM, bytes in flight against those that saturate memory.
std::string resources_text(const ResourceEstimate& estimate, const DeviceLimits& limits);

/// "another kind wins: rows 1152 (multi_wave); cols 1536 (multi_wave), 20544 (multi_wave)"
std::string changes_text(std::span<const NearestChange> changes);

/// All of it on one screen: sizes and traffic, kept values, the table of families and the families
/// that were rejected with their numbers, runners-up, resources.
std::string explain(const Plan& plan);

}  // namespace sinter
