#pragma once

#include <string>
#include <vector>

#include "scheduler/plan.h"

namespace sinter {

/// Fills a segment's candidates with what the families offer and the pins let through, best first;
/// adds why the others offer nothing. An error leaves it without candidates. Errors: Unsupported,
/// ResourceExhausted, InvalidArgument.
Result<void> offer_schedules(KernelPlan& segment, std::vector<Rejection>& rejections,
                             const DeviceLimits& limits, const PlanOptions& options);

/// Orders candidates: of those within kTieShare of the best, one whose registers need no squeeze,
/// by more than kRegisterDoubt, comes first: the fastest if the best's waits are known
/// (Prediction::models_latency), else the one that waits least. The others follow by predicted
/// time. Where the best is of a family that knows its waits, or waits are known and most of the
/// time (kWaitingShare), all are ordered by predicted time.
void rank_schedules(std::vector<ProposedSchedule>& candidates, const FamilySet& families);

/// "multi_wave: 256 threads/row x 1 rows/block, vector 8, unroll 1, %v0 in register", for people.
std::string summary_of(const Schedule& schedule);

/// Why the first candidate runs the segment.
Decision schedule_decision(const KernelPlan& segment, const std::vector<Rejection>& rejections);

/// Which values the minimum cut keeps.
Decision persistence_decision(const SegmentFacts& facts);

/// The rejections as an error: all of them in its log, and below them the graph that their ids
/// belong to, for the caller has only seen the graph before simplification.
Error unsupported(const Fusion& fusion, const std::vector<Rejection>& rejections,
                  std::string message);

}  // namespace sinter
