#include "scheduler/plan/plan.h"

#include <algorithm>

#include "scheduler/analysis/contraction.h"

namespace sinter {

std::string text_of(const Cut& cut) {
  switch (cut.rule) {
    case Cut::Rule::kCycle:
      return "what runs between them would wait for itself";
    case Cut::Rule::kRefused:
      return fmt::format("no kernel runs both: {}", cut.why.rule);
    case Cut::Rule::kSlower:
      return fmt::format("one kernel takes {:.1f} us, two take {:.1f} us", cut.together_us,
                         cut.apart_us);
    case Cut::Rule::kNotFound:
      return fmt::format("not found: one kernel may take {:.1f} us, two take {:.1f} us",
                         cut.together_us, cut.apart_us);
    case Cut::Rule::kPinned:
      return "pinned to go through memory";
  }
  unreachable();
}

IdVector<StepId, PlanStep> Plan::steps() const {
  IdVector<StepId, PlanStep> out;
  CallId call{0};
  // The last id is the one past the end: calls after all kernels run before it.
  for (const KernelId kernel : first_ids<KernelId>(kernels.size() + 1)) {
    for (; externals.contains(call) && externals[call].before == kernel; ++call.index)
      out.push_back(call);
    if (kernels.contains(kernel)) out.push_back(kernel);
  }
  return out;
}

std::optional<KernelId> Plan::finish_of(KernelId kernel) const {
  const KernelId next = kernel_after(kernel);
  return kernels.contains(next) && kernels[next].finishes ? std::optional(next) : std::nullopt;
}

std::vector<const KernelPlan*> Plan::leading_kernels() const {
  std::vector<const KernelPlan*> out;
  for (const KernelPlan& kernel : kernels) {
    if (!kernel.finishes) out.push_back(&kernel);
  }
  return out;
}

double Plan::predicted_us() const {
  double us = 0.0;
  for (const KernelPlan* kernel : leading_kernels()) us += kernel->chosen().predicted.total_us;
  return us;
}

std::span<const ValueId> Plan::caller_outputs() const {
  return std::span(fusion.outputs).first(fusion.outputs.size() - kept_indices().size());
}

std::span<const ValueId> Plan::kept_indices() const {
  size_t count = 0;
  for (const IndexCheck& check : index_checks) count = std::max(count, check.kept + 1);
  return std::span(fusion.outputs).last(count);
}

bool Plan::has_constant_columns(KernelId kernel) const {
  return std::ranges::all_of(kernels.ids(), [&](KernelId id) {
    const KernelPlan& own = kernels[id];
    if (id != kernel && own.same_as != kernel) return true;
    if (!own.facts.space.contraction) return false;
    const ValueId columns = own.facts.space.contraction->columns.tensor;
    const ValueId tensor = own.in_plan.empty() ? columns : own.in_plan.at(columns);
    return std::ranges::find(fusion.inputs, tensor) != fusion.inputs.end() &&
           std::ranges::find(fusion.layouts, tensor, &OutputLayout::alias) == fusion.layouts.end();
  });
}

std::vector<Contraction> contractions_of(const Plan& plan) {
  std::vector<Contraction> out = find_contractions(plan.fusion);
  for (Contraction& contraction : out) {
    const auto makes = [&](const KernelPlan& kernel) {
      if (kernel.in_plan.empty()) return true;
      return std::ranges::any_of(kernel.in_plan, [&](const auto& pair) {
        return pair.second == contraction.value &&
               kernel.facts.fusion.def_as<InputOp>(pair.first) == nullptr;
      });
    };
    const auto found = std::ranges::find_if(plan.kernels, makes);
    if (found != plan.kernels.end()) contraction.predicted_us = found->chosen().predicted.total_us;
  }
  return out;
}

}  // namespace sinter
