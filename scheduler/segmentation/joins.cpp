#include "scheduler/segmentation/joins.h"

#include <algorithm>

#include "fusion_ir/match.h"
#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

bool has(const Fusion& fusion, auto&& is_meant) {
  return std::ranges::any_of(fusion.ops, [&](const Op& op) { return is_meant(op.kind); });
}

/// A pad as concatenates, one for each axis that grows.
ValueId joined_pad(Rewriter& rewriter, const PadOp& pad, ValueId operand) {
  const DType type = rewriter.graph().values[operand].type;
  ValueId out = operand;
  // The first axis comes last: the operands of a concatenate along it are dense.
  for (size_t axis = pad.low.size(); axis-- > 0;) {
    std::vector<ValueId> parts;
    const auto add = [&](int64_t size) {
      if (size == 0) return;
      Shape shape = rewriter.graph().values[out].shape;
      shape[axis] = size;
      parts.push_back(rewriter.splat(pad.value, type, shape));
    };
    add(pad.low[axis]);
    parts.push_back(out);
    add(pad.high[axis]);
    if (parts.size() > 1)
      out =
          rewriter.append(ConcatenateOp{.axis = static_cast<int>(axis)}, std::move(parts)).front();
  }
  return out;
}

Fusion without_pads(const Fusion& fusion) {
  return rewrite(fusion,
                 [&](Rewriter& rewriter, OpId id,
                     std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                   const Op& op = fusion.ops[id];
                   const auto* pad = std::get_if<PadOp>(&op.kind);
                   if (pad == nullptr) return std::nullopt;
                   return {{joined_pad(rewriter, *pad, operands.front())}};
                 })
      .value_or(fusion);
}

/// True if a concatenate's operand, which begins at `at` along the axis, is dense in the result and
/// aligned as external calls may expect.
bool lies_dense(const Fusion& fusion, const Op& concatenate, int64_t at) {
  constexpr int64_t kCallAlignment = 16;
  const Value& result = fusion.values[concatenate.results.front()];
  const auto axis = static_cast<size_t>(std::get<ConcatenateOp>(concatenate.kind).axis);
  int64_t before = bytes_of(result.type);
  for (size_t i = axis + 1; i < result.shape.size(); ++i) before *= result.shape[i].constant();
  return at * before % kCallAlignment == 0 &&
         std::ranges::all_of(std::span(result.shape).first(axis),
                             [](const Extent& extent) { return extent.is_one(); });
}

/// Values that have memory of their own, so that they cannot lie in a concatenate's result.
class OwnMemory {
 public:
  explicit OwnMemory(const Fusion& fusion)
      : fusion_(fusion),
        is_output_(fusion.values.size()),
        joins_(fusion.values.size()),
        is_passed_(fusion.values.size()) {
    for (const ValueId output : fusion.outputs) is_output_[output] = 1;
    for (const Op& op : fusion.ops) {
      const bool joins = std::holds_alternative<ConcatenateOp>(op.kind);
      const bool calls = std::holds_alternative<ExternalOp>(op.kind);
      for (const ValueId operand : op.operands) {
        if (joins) ++joins_[operand];
        if (calls) is_passed_[operand] = 1;
      }
    }
  }

  /// For a concatenate's operand that begins at `at`.
  [[nodiscard]] bool of(ValueId value, const Op& concatenate, int64_t at) const {
    if (fusion_.def_as<InputOp>(value) != nullptr || is_output_[value] != 0) return true;
    if (joins_[value] > 1) return true;
    const bool is_dense =
        lies_dense(fusion_, concatenate, at) && joins_[concatenate.results.front()] == 0;
    const bool needs_dense = is_passed_[value] != 0 || fusion_.def_as<ExternalOp>(value) != nullptr;
    return needs_dense && !is_dense;
  }

 private:
  const Fusion& fusion_;
  IdMap<ValueId, uint8_t> is_output_;
  IdMap<ValueId, uint32_t> joins_;  ///< Number of uses in concatenates.
  IdMap<ValueId, uint8_t> is_passed_;
};

}  // namespace

Fusion with_places_for_joins(const Fusion& fusion) {
  const auto pads = [](const OpKind& kind) { return std::holds_alternative<PadOp>(kind); };
  const auto joins = [](const OpKind& kind) { return std::holds_alternative<ConcatenateOp>(kind); };
  if (has(fusion, pads)) return with_places_for_joins(without_pads(fusion));
  if (!has(fusion, joins)) return fusion;
  const OwnMemory own(fusion);
  return rewrite(fusion,
                 [&](Rewriter& rewriter, OpId id,
                     std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                   const Op& op = fusion.ops[id];
                   if (!joins(op.kind)) return std::nullopt;
                   std::vector<ValueId> places;
                   bool copies = false;
                   const auto axis = static_cast<size_t>(std::get<ConcatenateOp>(op.kind).axis);
                   int64_t at = 0;
                   for (size_t i = 0; i < operands.size(); ++i) {
                     places.push_back(operands[i]);
                     const bool needs_copy = own.of(op.operands[i], op, at);
                     at += fusion.values[op.operands[i]].shape[axis].constant();
                     if (!needs_copy) continue;
                     copies = true;
                     const Value& like = rewriter.graph().values[operands[i]];
                     const DType type = like.type;
                     const Shape shape = like.shape;
                     places.back() = rewriter
                                         .append(BroadcastOp{all_axes(shape.size())}, {operands[i]},
                                                 type, shape)
                                         .front();
                   }
                   if (!copies) return std::nullopt;
                   return rewriter.append(op.kind, std::move(places));
                 })
      .value_or(fusion);
}

}  // namespace sinter
