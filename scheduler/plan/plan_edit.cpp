#include "scheduler/plan/plan_edit.h"

#include <utility>

namespace sinter {
namespace {

/// The new id of each kernel and of the place past the end, by the former one. An invalid id: the
/// kernel is gone.
using Moves = IdMap<KernelId, KernelId>;

}  // namespace

KernelId insert_kernel_after(Plan& plan, KernelId kernel, KernelPlan added) {
  SINTER_CHECK(plan.kernels.contains(kernel), "the plan has no {}", kernel);
  IdVector<KernelId, KernelPlan> kernels;
  Moves moves(plan.kernels.size() + 1);
  KernelId out;
  for (const KernelId id : plan.kernels.ids()) {
    moves[id] = kernels.push_back(std::move(plan.kernels[id]));
    if (id == kernel) out = kernels.push_back(std::move(added));
  }
  moves[plan.kernels.next_id()] = kernels.next_id();
  plan.kernels = std::move(kernels);
  for_each_kernel_id(plan, [&](KernelId& id, KernelMention) { id = std::as_const(moves)[id]; });
  return out;
}

void remove_kernel(Plan& plan, KernelId removed) {
  SINTER_CHECK(plan.kernels.contains(removed), "the plan has no {}", removed);
  IdVector<KernelId, KernelPlan> kernels;
  Moves moves(plan.kernels.size() + 1);
  for (const KernelId id : plan.kernels.ids()) {
    if (id != removed) moves[id] = kernels.push_back(std::move(plan.kernels[id]));
  }
  moves[plan.kernels.next_id()] = kernels.next_id();
  plan.kernels = std::move(kernels);
  for_each_kernel_id(plan, [&](KernelId& id, KernelMention mention) {
    const bool waits = mention == KernelMention::kBefore && id == removed;
    id = std::as_const(moves)[waits ? kernel_after(removed) : id];
  });
  for (KernelPlan& kernel : plan.kernels) {
    if (kernel.same_as && !kernel.same_as->valid()) kernel.same_as.reset();
  }
}

}  // namespace sinter
