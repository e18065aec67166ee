#pragma once

#include <span>
#include <string>

#include "scheduler/plan/plan.h"
#include "scheduler/report/sweep.h"

namespace sinter {

/// A plan's decisions for people: each question with the candidates that were weighed, their
/// predicted microseconds part by part, the verdicts and what was refused with its numbers. The
/// chosen candidate has a '*'.
std::string decisions_text(const Plan& plan);

/// The best candidate of each family side by side, the chosen one first: its numbers, predicted
/// microseconds part by part, and what it takes of the budgets. Parts that nobody has are left out.
std::string families_text(const KernelPlan& segment, const DeviceLimits& limits);

/// What a segment's chosen schedule takes of the device, as bars against the budgets: registers,
/// shared memory, threads and blocks of an SM, bytes in flight against those that saturate memory.
std::string resources_text(const ResourceEstimate& estimate, const DeviceLimits& limits);

/// "another kind wins: rows 1152 (multi_wave); cols 1536 (multi_wave), 20544 (multi_wave)"
std::string changes_text(std::span<const NearestChange> changes);

/// All of it on one screen: sizes and traffic, what is kept, the families side by side and those
/// refused with their numbers, runners-up, resources.
std::string explain(const Plan& plan);

}  // namespace sinter
