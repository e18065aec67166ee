#pragma once

#include <string>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// Candidates within this share of the best predicted time count as equal: of these one wins
/// whose registers the compiler need not squeeze, the fastest where waits are known
/// (Prediction::models_latency), else the one whose blocks wait least, then the simpler family, in
/// the order of the set. Among 4,098 timed schedules of 263 sizes of the suite, none of which
/// spill, the fastest takes 1.8 % longer than the fastest timed, the one that waits least 2.2 %
/// (benchmarks/results/h200_2026-11-24_suite_sweep.json).
inline constexpr double kTieShare = 0.015;

/// Share of a cap by which estimated registers may be above it before that counts as squeezing:
/// about what estimates are off by. Of what was timed and does not spill the choice takes 1.58 %
/// longer than the fastest, among 258 sizes of the suite on an H200, and 1.59 % with a doubt of 0,
/// with 23 and 26 sizes behind by more than 4 %; 0.99 and 1.03 % among 262 on an H100
/// (benchmarks/results/h200_2026-11-25_suite_{cold,cold_bf16,late}.json and
/// h100_2026-11-26_suite_sweep.json). Gated RMS norms of 4096 x 8192 in bf16 take 71 us with 64
/// registers, estimated 68, and 74 with 128, estimated 100 (H100).
inline constexpr double kRegisterDoubt = 0.08;

/// Share of its predicted time from which a kernel mostly waits, for its launch and for its blocks'
/// first rows. Squeezed registers then make room for more blocks, which hide more than the compiler
/// spoils: of what was timed and does not spill the fastest predicted takes 1.0 % longer than the
/// fastest, among 26 sizes below 20 us, and 1.5 % if it must not be squeezed (1.2 and 1.1 % among
/// 82 sizes of 80 to 300 us; benchmarks/results/h200_2026-11-25_suite_cold*.json). Layer norms of
/// 2048 x 4096 in bf16 take 15.1 us with 48 registers and 16.3 with 54.
inline constexpr double kWaitingShare = 0.25;

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
