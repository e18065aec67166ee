#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/plan/plan.h"

namespace sinter {

#ifdef NDEBUG
inline constexpr bool kVerifyPlansByDefault = false;
#else
inline constexpr bool kVerifyPlansByDefault = true;
#endif

/// Elements of a tensor up to which the verifier checks for each element which steps write it. For
/// larger tensors that several steps write, only the element counts are compared, so that a debug
/// build can plan large graphs.
inline constexpr int64_t kMostElementsCompared = int64_t{1} << 16;

/// The violations of a plan's memory rules, one sentence each; empty if all hold:
///
///   - every element of an output, and every element that a step reads of an output or of the
///     workspace, is written by exactly one step, which runs before the one that reads it;
///   - a kernel that writes has blocks, and these cover the rows and columns of what they write;
///   - partial results of several blocks are finished, by the next kernel or by the last block,
///     which takes as many of them as the grid leaves; counters are as many as the last block
///     needs;
///   - tensors of the workspace that a step needs at once share no byte. A tensor is needed from
///     its first writer to its last reader, kept indices to the end, scratch tensors of a kernel in
///     its own step;
///   - reads and writes lie inside of their tensor, and tensors inside of the workspace, at
///     multiples of kWorkspaceAlignment.
///
/// It uses only the plan's steps, their graphs and tensor slots, not how they were chosen.
std::vector<std::string> plan_violations(const Plan& plan,
                                         int64_t most_elements = kMostElementsCompared);

/// In debug builds, throws an InternalError that names the first violation. Called wherever a plan
/// is made, or another schedule is taken for a segment and its finish is planned (plan_finish()).
void check_plan(const Plan& plan);

}  // namespace sinter
