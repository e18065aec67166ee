#include "scheduler/analysis/index_checks.h"

#include <map>

#include "fusion_ir/match.h"

namespace sinter {
namespace {

/// For each op, whether an output needs it.
std::vector<bool> needed_ops(const Fusion& fusion) {
  std::vector<bool> out(fusion.ops.size());
  for (const ValueId output : fusion.outputs) out[fusion.values[output].def.index] = true;
  for (size_t i = fusion.ops.size(); i-- > 0;) {
    if (!out[i]) continue;
    for (const ValueId operand : fusion.ops[OpId{static_cast<uint32_t>(i)}].operands)
      out[fusion.values[operand].def.index] = true;
  }
  return out;
}

/// A copy is needed because no input or output of the caller can be a second output.
ValueId add_copy(Fusion& fusion, ValueId value) {
  const Value source = fusion.values[value];
  const OpId id = fusion.ops.push_back(
      {.kind = BroadcastOp{all_axes(source.shape.size())}, .operands = {value}});
  const ValueId copy =
      fusion.values.push_back({.type = source.type, .shape = source.shape, .def = id});
  fusion.ops[id].results = {copy};
  return copy;
}

}  // namespace

CheckedFusion with_kept_indices(const Fusion& fusion, const Binding& binding) {
  CheckedFusion out{.fusion = fusion};
  const std::vector<bool> needed = needed_ops(fusion);
  std::map<ValueId, size_t> kept;
  for (const OpId id : fusion.op_ids()) {
    const Op& op = fusion.ops[id];
    const auto* take = std::get_if<TakeOp>(&op.kind);
    if (take == nullptr || !needed[id.index]) continue;
    const ValueId index = op.operands[1];
    const auto [found, is_new] = kept.try_emplace(index, kept.size());
    if (is_new) out.fusion.add_output(add_copy(out.fusion, index));
    const Shape& shape = fusion.values[op.operands[0]].shape;
    out.checks.push_back({.take = op.results.front(),
                          .index = index,
                          .limit = binding.size_of(shape[static_cast<size_t>(take->axis)]),
                          .kept = found->second,
                          .name = fusion.values[index].name});
  }
  return out;
}

}  // namespace sinter
