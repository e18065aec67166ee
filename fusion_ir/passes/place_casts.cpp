#include "fusion_ir/passes/place_casts.h"

#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

using Replacements = std::optional<std::vector<ValueId>>;

bool moves_data(const OpKind& kind) {
  return std::holds_alternative<PermuteOp>(kind) || std::holds_alternative<ReshapeOp>(kind) ||
         std::holds_alternative<SliceOp>(kind) || std::holds_alternative<TakeOp>(kind);
}

/// True if the narrow result may move in place of the wide operand. Slice and take shrink what they
/// move, so that a cast behind them has less to do.
bool moves_all_data(const OpKind& kind) {
  return std::holds_alternative<PermuteOp>(kind) || std::holds_alternative<ReshapeOp>(kind);
}

/// move(cast(x)) -> cast(move(x)) where x is narrower.
Replacements move_before_cast(Rewriter& rewriter, const Op& op, const Value& result,
                              std::span<const ValueId> operands) {
  const Fusion& graph = rewriter.graph();
  if (graph.def_as<CastOp>(operands.front()) == nullptr) return std::nullopt;
  const ValueId narrow = graph.def_of(operands.front()).operands.front();
  const DType type = graph.values[narrow].type;
  if (bytes_of(type) >= bytes_of(result.type)) return std::nullopt;
  std::vector<ValueId> moved(operands.begin(), operands.end());
  moved.front() = narrow;
  const ValueId value = rewriter.append(op.kind, std::move(moved), type, result.shape).front();
  return std::vector{rewriter.cast(value, result.type)};
}

/// cast(broadcast(x)) -> broadcast(cast(x)); cast(move(x)) -> move(cast(x)) where the cast narrows.
Replacements cast_before_move(Rewriter& rewriter, const Value& result, ValueId operand,
                              bool has_other_readers) {
  const Fusion& graph = rewriter.graph();
  const OpKind kind = graph.def_of(operand).kind;
  const bool narrows = bytes_of(result.type) < bytes_of(graph.values[operand].type);
  const bool repeats = std::holds_alternative<BroadcastOp>(kind);
  if (!repeats && !(moves_all_data(kind) && narrows && !has_other_readers)) return std::nullopt;
  const ValueId source = graph.def_of(operand).operands.front();
  const ValueId cast = rewriter.cast(source, result.type);
  return rewriter.append(kind, {cast}, result.type, result.shape);
}

}  // namespace

std::optional<Fusion> place_casts(const Fusion& fusion) {
  std::vector<int> readers(fusion.values.size(), 0);
  for (const Op& op : fusion.ops) {
    for (const ValueId operand : op.operands) ++readers[operand.index];
  }
  for (const ValueId output : fusion.outputs) ++readers[output.index];
  return rewrite(
      fusion, [&](Rewriter& rewriter, OpId id, std::span<const ValueId> operands) -> Replacements {
        const Op& op = fusion.ops[id];
        const Value& result = fusion.values[op.results.front()];
        if (moves_data(op.kind)) {
          return move_before_cast(rewriter, op, result, operands);
        }
        if (!std::holds_alternative<CastOp>(op.kind)) return std::nullopt;
        return cast_before_move(rewriter, result, operands.front(),
                                readers[op.operands.front().index] > 1);
      });
}

}  // namespace sinter
