#pragma once

#include <string>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// Tie-break threshold: candidates within this fraction of the best predicted time count as equal.
/// Source: timed schedules of the suite (docs/experiments/constants_choices.md). The rule among
/// equals is that of rank_schedules().
inline constexpr double kTieShare = 0.015;

/// Fraction by which the estimated registers of a candidate may exceed its register cap before it
/// counts as register-limited. Source: about the error of the estimates, and timed schedules
/// (docs/experiments/constants_choices.md).
inline constexpr double kRegisterDoubt = 0.08;

/// A kernel is latency-bound if launch plus exposed latency exceeds this fraction of its predicted
/// time. Higher occupancy is then preferred even if it is register-limited: it hides more latency
/// than the register limit costs. Source: timed schedules (docs/experiments/constants_choices.md).
inline constexpr double kWaitingShare = 0.25;

/// Sets a segment's candidates to the schedules that the families offer and the pins allow, best
/// first; adds the reasons of families that offer none. An error leaves the segment without
/// candidates. Errors: Unsupported, ResourceExhausted, InvalidArgument.
Result<void> offer_schedules(KernelPlan& segment, std::vector<Rejection>& rejections,
                             const DeviceLimits& limits, const PlanOptions& options);

/// Orders candidates. Of those within kTieShare of the best predicted time, one that is not
/// register-limited by more than kRegisterDoubt comes first: the fastest of them if the model
/// resolves the best's latency (Prediction::models_latency), else the one with the least latency
/// per block, then the one of the simpler family, in the order of the set. A candidate with
/// Finish::kLastBlock comes first only if the fastest has that finish too. The others follow by
/// predicted time. If the best is of a family that models latency (Family::models_latency), or if
/// its latency is resolved and it is latency-bound (kWaitingShare), all are ordered by predicted
/// time.
void rank_schedules(std::vector<ProposedSchedule>& candidates, const FamilySet& families);

/// Makes the candidates of a kernel that runs behind another one of its plan start by dependent
/// launch, and predicts their times so. Left as they are: candidates that let the next kernel start
/// early themselves, that finish their partial results by their last block, library calls, and
/// lists of tensors.
void start_early(KernelPlan& kernel, const DeviceLimits& limits, const FamilySet& families);

/// Lets candidates that wait for the kernel before load the columns of their contraction first,
/// where they can. Needs: no kernel of the plan writes these.
void load_before_waiting(KernelPlan& kernel);

/// Lets the kernel behind start as soon as all blocks of this one have: it loads before it waits.
/// Candidates that start_early() leaves as they are stay so.
void let_next_start(KernelPlan& kernel, const DeviceLimits& limits, const FamilySet& families);

/// "multi_wave: 256 threads/row x 1 rows/block, vector 8, unroll 1, %v0 in register", for people.
std::string summary_of(const Schedule& schedule);

/// Why the first candidate runs the segment.
Decision schedule_decision(const KernelPlan& segment, const std::vector<Rejection>& rejections);

/// Which values the minimum cut keeps.
Decision persistence_decision(const SegmentFacts& facts);

/// The rejections as an error. Its log has all of them, and the graph that their ids belong to,
/// since the caller has only seen the graph before simplification.
Error unsupported(const Fusion& fusion, const std::vector<Rejection>& rejections,
                  std::string message);

}  // namespace sinter
