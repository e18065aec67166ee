#include "scheduler/segmentation/output_copies.h"

#include <algorithm>

#include "fusion_ir/match.h"

namespace sinter {

ValueId copy_output(Plan& plan, ValueId output) {
  Fusion& fusion = plan.fusion;
  const Value value = fusion.values[output];
  fusion.values[output].name.clear();  // Values with the same name could not be pinned.
  const OpId id = fusion.ops.push_back(
      {.kind = BroadcastOp{all_axes(value.shape.size())}, .operands = {output}});
  const ValueId copy = fusion.values.push_back(
      {.type = value.type, .shape = value.shape, .def = id, .name = value.name});
  fusion.ops[id].results = {copy};
  std::ranges::replace(fusion.outputs, output, copy);
  plan.placements[copy] = plan.placements.extract(output).mapped();
  return copy;
}

std::optional<std::vector<ValueId>> copied_outputs(const Plan& plan, size_t ops) {
  std::vector<ValueId> out;
  for (size_t i = ops; i < plan.fusion.ops.size(); ++i) {
    const Op& op = plan.fusion.ops[OpId{static_cast<uint32_t>(i)}];
    if (!plan.placements.contains(op.results.front()) || !is_copy(plan.fusion, op.results.front()))
      return std::nullopt;
    out.push_back(op.operands.front());
  }
  return out;
}

}  // namespace sinter
