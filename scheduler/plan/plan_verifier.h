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

/// Elements of a tensor up to which it is compared one by one who writes them. Of larger ones that
/// several steps write only the numbers are compared, so that a debug build plans large graphs too.
inline constexpr int64_t kMostElementsCompared = int64_t{1} << 16;

/// What is wrong with the memory of a plan, a sentence each; nothing where it holds that
///
///   - every element of an output, and every element that a step reads of an output or of the
///     workspace, is written by one step, ahead of the one that reads it, and by no other;
///   - a kernel that writes has blocks, and these cover the rows and columns of what they write;
///   - partial results of several blocks are finished, by the kernel behind or by the last block;
///   - tensors of the workspace that a step needs at once share no byte. A tensor is needed from
///     its first writer to its last reader, kept indices to the end, what a kernel keeps for itself
///     in its own step;
///   - what is read or written of a tensor lies inside of it, and tensors inside of the workspace,
///     at multiples of kWorkspaceAlignment.
///
/// It knows the plan's steps, their graphs and slots alone, nothing of how they were chosen.
std::vector<std::string> plan_violations(const Plan& plan,
                                         int64_t most_elements = kMostElementsCompared);

/// In debug builds, throws an InternalError that names the first violation. For whatever makes a
/// plan, or takes another schedule for a segment and plans what finishes it (plan_finish()).
void check_plan(const Plan& plan);

}  // namespace sinter
