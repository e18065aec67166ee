#pragma once

#include <string>

#include "scheduler/plan.h"

namespace sinter {

/// A plan's decisions for people: each question with the candidates that were weighed, their
/// predicted microseconds part by part, the verdicts and what was refused with its numbers. The
/// chosen candidate has a '*'.
std::string decisions_text(const Plan& plan);

/// What a segment's chosen schedule takes of the device, as bars against the budgets: registers,
/// shared memory, threads and blocks of an SM, bytes in flight against those that saturate memory.
std::string resources_text(const ResourceEstimate& estimate, const DeviceLimits& limits);

/// All of it on one screen: sizes and traffic, decisions, resources.
std::string explain(const Plan& plan);

}  // namespace sinter
