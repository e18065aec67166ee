#include "scheduler/workspace.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "fusion_ir/integers.h"

namespace sinter {
namespace {

/// Steps from the one that writes a tensor to the last that reads it. What is read after the
/// execution is needed to the end.
struct Lifetime {
  size_t first = 0;
  size_t last = 0;
};

std::vector<Lifetime> lifetimes(const Plan& plan) {
  const std::vector<PlanStep> steps = plan.steps();
  std::vector<size_t> step_of_segment(plan.segments.size());
  std::vector<size_t> step_of_call(plan.externals.size());
  std::map<ValueId, Lifetime> used;  // By tensor; several steps may write parts of one.
  const auto use = [&](ValueId value, size_t step) {
    used.try_emplace(tensor_of(plan, value), Lifetime{step, step}).first->second.last = step;
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind == PlanStep::Kind::kExternal) {
      step_of_call[steps[i].index] = i;
      const Op& op = plan.fusion.ops[plan.externals[steps[i].index].op];
      for (const ValueId operand : op.operands) use(operand, i);
      for (const ValueId result : op.results) use(result, i);
      continue;
    }
    step_of_segment[steps[i].index] = i;
    const SegmentPlan& segment = plan.segments[steps[i].index];
    const auto in_plan = [&](ValueId value) {
      return segment.in_plan.empty() ? value : segment.in_plan.at(value);
    };
    for (const ValueId input : segment.facts.fusion.inputs) use(in_plan(input), i);
    for (const ValueId output : segment.facts.fusion.outputs) use(in_plan(output), i);
  }
  for (const ValueId kept : plan.kept_indices()) used.at(kept).last = steps.size() - 1;
  std::vector<Lifetime> out;
  for (const WorkspaceTensor& tensor : plan.workspace) {
    const size_t written =
        tensor.by_external ? step_of_call[tensor.writer] : step_of_segment[tensor.writer];
    size_t last = written;
    if (tensor.holds == WorkspaceTensor::Holds::kPartials) {
      last = std::min(step_of_segment[tensor.writer] + 1, steps.size() - 1);
    } else if (!tensor.own()) {
      out.push_back(used.at(tensor.value));
      continue;
    }
    out.push_back({written, last});
  }
  return out;
}

}  // namespace

void place_workspace(Plan& plan) {
  const std::vector<Lifetime> lives = lifetimes(plan);
  std::vector<size_t> order(plan.workspace.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](size_t i) { return plan.workspace[i].bytes; });
  plan.workspace_bytes = 0;
  std::vector<size_t> placed;  // By offset.
  for (const size_t i : order) {
    WorkspaceTensor& tensor = plan.workspace[i];
    const int64_t bytes = rounded_up(tensor.bytes, kWorkspaceAlignment);
    int64_t offset = 0;
    for (const size_t other : placed) {
      if (lives[other].last < lives[i].first || lives[i].last < lives[other].first) continue;
      const WorkspaceTensor& beside = plan.workspace[other];
      if (beside.offset >= offset + bytes) break;
      offset = std::max(offset, beside.offset + rounded_up(beside.bytes, kWorkspaceAlignment));
    }
    tensor.offset = offset;
    placed.insert(std::ranges::upper_bound(placed, offset, {},
                                           [&](size_t p) { return plan.workspace[p].offset; }),
                  i);
    plan.workspace_bytes = std::max(plan.workspace_bytes, offset + bytes);
  }
}

}  // namespace sinter
