#pragma once

#include <type_traits>
#include <variant>

#include "scheduler/plan/plan.h"

namespace sinter {

/// What a plan says of a kernel whose id it holds.
enum class KernelMention : uint8_t {
  kSameAs,  ///< KernelPlan::same_as.
  kBefore,  ///< ExternalCall::before; may be the id past the end.
  kWriter,  ///< WorkspaceTensor::writer.
  kCut,     ///< Cut::from and Cut::to.
};

// Calls `visit(id, mention)` for every kernel id that a part of a plan holds, by reference. Each
// function names all fields of its struct: a field that is added does not compile before it is
// decided here whether kernel ids are in it.

template <class Part, class Visit>
  requires std::is_same_v<std::remove_const_t<Part>, KernelPlan>
void for_each_kernel_id(Part& part, const Visit& visit) {
  auto& [facts, in_plan, candidates, is_required, finishes, is_part, row_parts, ops, same_as,
         decisions, rejections] = part;
  if (same_as) visit(*same_as, KernelMention::kSameAs);
}

template <class Part, class Visit>
  requires std::is_same_v<std::remove_const_t<Part>, ExternalCall>
void for_each_kernel_id(Part& part, const Visit& visit) {
  auto& [op, before] = part;
  visit(before, KernelMention::kBefore);
}

template <class Part, class Visit>
  requires std::is_same_v<std::remove_const_t<Part>, WorkspaceTensor>
void for_each_kernel_id(Part& part, const Visit& visit) {
  auto& [value, bytes, writer, holds, offset] = part;
  if (auto* kernel = std::get_if<KernelId>(&writer)) visit(*kernel, KernelMention::kWriter);
}

template <class Part, class Visit>
  requires std::is_same_v<std::remove_const_t<Part>, Cut>
void for_each_kernel_id(Part& part, const Visit& visit) {
  auto& [rule, value, consumer, from, to, bytes, why, together_us, apart_us] = part;
  visit(from, KernelMention::kCut);
  visit(to, KernelMention::kCut);
}

template <class Part, class Visit>
  requires std::is_same_v<std::remove_const_t<Part>, Plan>
void for_each_kernel_id(Part& part, const Visit& visit) {
  auto& [fusion, binding, limits, kernels, externals, placements, workspace, workspace_bytes,
         decisions, rejections, is_segmented, cuts, free_ops, checks_indices, index_checks] = part;
  for (auto& kernel : kernels) for_each_kernel_id(kernel, visit);
  for (auto& call : externals) for_each_kernel_id(call, visit);
  for (auto& tensor : workspace) for_each_kernel_id(tensor, visit);
  for (auto& cut : cuts) for_each_kernel_id(cut, visit);
}

/// Adds a kernel that runs next after `kernel`, before calls that run there. All ids in the plan
/// then mean the kernels that they meant before; offsets of the workspace are not placed again.
/// Returns the id of the new kernel. Takes time linear in the plan.
KernelId insert_kernel_after(Plan& plan, KernelId kernel, KernelPlan added);

/// Removes a kernel; as insert_kernel_after(). What mentioned it:
///
///   - calls before it run before the kernel after it;
///   - kernels that are the same as it have no earlier equal (KernelPlan::same_as);
///   - tensors that it wrote, and cuts, have an invalid id, which plan_violations() reports, until
///     the caller says who writes them instead.
void remove_kernel(Plan& plan, KernelId removed);

}  // namespace sinter
