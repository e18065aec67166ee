#include "fusion_ir/rewriter.h"

#include <algorithm>
#include <utility>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/match.h"

namespace sinter {
namespace {

/// True if values are numbered in the order of the ops that define them, so that a prefix of the
/// ops owns a prefix of the values.
bool numbered_in_order(const Fusion& fusion) {
  uint32_t next = 0;
  for (const Op& op : fusion.ops) {
    for (const ValueId result : op.results) {
      if (result.index != next++) return false;
    }
  }
  return next == fusion.values.size();
}

struct Liveness {
  std::vector<bool> ops;
  bool all = true;
};

Liveness find_live_ops(const Fusion& fusion) {
  Liveness live{.ops = std::vector<bool>(fusion.ops.size(), false)};
  for (const ValueId input : fusion.inputs) live.ops[fusion.values[input].def.index] = true;
  for (const ValueId output : fusion.outputs) live.ops[fusion.values[output].def.index] = true;
  for (uint32_t i = static_cast<uint32_t>(fusion.ops.size()); i-- > 0;) {
    if (!live.ops[i]) {
      live.all = false;
      continue;
    }
    for (const ValueId operand : fusion.ops[OpId{i}].operands) {
      live.ops[fusion.values[operand].def.index] = true;
    }
  }
  return live;
}

void remap(std::vector<ValueId>& values, const IdMap<ValueId, ValueId>& map) {
  for (ValueId& value : values) value = map[value];
}

/// The graph without its dead ops, renumbered.
Fusion compact(Fusion fusion, const Liveness& live) {
  IdVector<OpId, Op> ops;
  IdVector<ValueId, Value> values;
  IdMap<ValueId, ValueId> map(fusion.values.size());
  for (uint32_t i = 0; i < fusion.ops.size(); ++i) {
    if (!live.ops[i]) continue;
    Op op = std::move(fusion.ops[OpId{i}]);
    remap(op.operands, map);
    for (ValueId& result : op.results) {
      Value value = std::move(fusion.values[result]);
      value.def = OpId{static_cast<uint32_t>(ops.size())};
      const ValueId id = values.push_back(std::move(value));
      map[result] = id;
      result = id;
    }
    ops.push_back(std::move(op));
  }
  remap(fusion.inputs, map);
  remap(fusion.outputs, map);
  for (OutputLayout& layout : fusion.layouts) {
    if (layout.alias.valid()) layout.alias = map[layout.alias];
  }
  fusion.ops = std::move(ops);
  fusion.values = std::move(values);
  return fusion;
}

}  // namespace

Rewriter::Rewriter(const Fusion& source) : source_(source) {
  if (!numbered_in_order(source)) start_copy();
}

ValueId Rewriter::mapped(ValueId source_value) const {
  const ValueId id = map_[source_value];
  return id.valid() ? id : source_value;
}

// Copies the part of the source that was visited and kept as it was. Until a pass changes something
// there is nothing to copy, which makes a pass that finds nothing nearly free.
void Rewriter::start_copy() {
  if (changed_) return;
  changed_ = true;
  made_.name = source_.name;
  made_.symbols = source_.symbols;
  made_.layouts = source_.layouts;  // Outputs keep their number and order.
  for (uint32_t i = 0; i < visited_; ++i) {
    const Op& op = source_.ops[OpId{i}];
    made_.ops.push_back(op);
    for (const ValueId result : op.results) made_.values.push_back(source_.values[result]);
  }
}

std::vector<ValueId> Rewriter::push(Op op, std::vector<Value> results) {
  const OpId id{static_cast<uint32_t>(made_.ops.size())};
  op.results.clear();
  for (uint32_t i = 0; i < results.size(); ++i) {
    results[i].def = id;
    results[i].result = i;
    op.results.push_back(made_.values.push_back(std::move(results[i])));
  }
  std::vector<ValueId> values = op.results;
  made_.ops.push_back(std::move(op));
  return values;
}

std::vector<ValueId> Rewriter::append(OpKind kind, std::vector<ValueId> operands, DType type_hint,
                                      Shape shape_hint) {
  start_copy();
  auto inferred = infer_results(made_, kind, operands, type_hint, shape_hint);
  SINTER_CHECK(inferred.has_value(), "a pass appended an ill-formed {}: {}", text_of(kind),
               inferred.error().text());
  std::vector<Value> results;
  for (ResultType& result : *inferred) {
    results.push_back(
        {.type = result.type, .shape = std::move(result.shape), .def = {}, .name = {}});
  }
  return push({.kind = std::move(kind), .operands = std::move(operands), .results = {}},
              std::move(results));
}

ValueId Rewriter::pointwise(PointwiseFn fn, std::vector<ValueId> operands) {
  return append(PointwiseOp{fn}, std::move(operands)).front();
}

ValueId Rewriter::cast(ValueId x, DType type) {
  if (graph().values[x].type == type) return x;
  return append(CastOp{}, {x}, type).front();
}

ValueId Rewriter::broadcast(ValueId x, Shape shape, std::vector<int> axes) {
  if (graph().values[x].shape == shape) return x;
  return append(BroadcastOp{std::move(axes)}, {x}, DType::kF32, std::move(shape)).front();
}

ValueId Rewriter::splat(ConstantOp value, DType type, const Shape& shape) {
  return broadcast(append(value, {}, type).front(), shape, {});
}

void Rewriter::keep(OpId id, std::vector<ValueId> operands) {
  const Op& op = source_.ops[id];
  std::vector<Value> results;
  for (const ValueId result : op.results) results.push_back(source_.values[result]);
  const auto made =
      push({.kind = op.kind, .operands = std::move(operands), .results = {}}, std::move(results));
  for (size_t i = 0; i < made.size(); ++i) map_[op.results[i]] = made[i];
}

void Rewriter::replace(OpId id, const std::vector<ValueId>& replacements) {
  start_copy();
  const Op& op = source_.ops[id];
  SINTER_CHECK_OP(replacements.size(), ==, op.results.size());
  for (size_t i = 0; i < replacements.size(); ++i) {
    const Value& before = source_.values[op.results[i]];
    Value& after = made_.values[replacements[i]];
    SINTER_CHECK(before.type == after.type && before.shape == after.shape,
                 "{} was replaced by {} of another type or shape", op.results[i], replacements[i]);
    if (after.name.empty()) after.name = before.name;
    map_[op.results[i]] = replacements[i];
  }
}

std::optional<Fusion> Rewriter::finish() {
  if (!changed_) {
    const Liveness live = find_live_ops(source_);
    if (live.all) return std::nullopt;
    return compact(source_, live);
  }
  for (const ValueId input : source_.inputs) made_.inputs.push_back(mapped(input));
  IdMap<ValueId, uint8_t> is_taken(made_.values.size());  // By an input or an output.
  for (const ValueId input : made_.inputs) is_taken[input] = 1;
  for (const ValueId output : source_.outputs) {
    ValueId value = mapped(output);
    if (is_taken[value] != 0) {
      while (is_copy(made_, value)) value = made_.def_of(value).operands.front();
      const Shape shape = made_.values[value].shape;
      value = append(BroadcastOp{all_axes(shape.size())}, {value}, made_.values[value].type, shape)
                  .front();
      made_.values[value].name = source_.values[output].name;
    }
    is_taken[value] = 1;
    made_.outputs.push_back(value);
  }
  for (OutputLayout& layout : made_.layouts) {
    if (layout.alias.valid()) layout.alias = mapped(layout.alias);
  }
  const Liveness live = find_live_ops(made_);
  return live.all ? std::move(made_) : compact(std::move(made_), live);
}

std::optional<Fusion> rewrite(const Fusion& fusion, const RewriteFn& decide) {
  Rewriter rewriter(fusion);
  std::vector<ValueId> operands;
  for (const OpId id : fusion.op_ids()) {
    operands.clear();
    for (const ValueId operand : fusion.ops[id].operands) {
      operands.push_back(rewriter.mapped(operand));
    }
    if (const auto replacements = decide(rewriter, id, operands)) {
      rewriter.replace(id, *replacements);
    } else if (rewriter.changed_) {
      rewriter.keep(id, operands);
    }
    ++rewriter.visited_;
  }
  return rewriter.finish();
}

}  // namespace sinter
