// The part of TileLowering that computes graph values: those that do not vary along the row, the
// elements along it, and gathers.

#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "codegen/lower/tile_lowering.h"
#include "fusion_ir/operand_walk.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

namespace {

/// Ops without a statement of their own: their value is another expression.
bool is_transparent(const OpKind& kind) {
  return std::holds_alternative<ConstantOp>(kind) || std::holds_alternative<BroadcastOp>(kind) ||
         std::holds_alternative<PermuteOp>(kind) || std::holds_alternative<ReshapeOp>(kind);
}

}  // namespace

ExprId TileLowering::constant(ValueId value) {
  const auto& literal = *facts_.fusion.def_as<ConstantOp>(value);
  const DType type = facts_.fusion.values[value].type;
  if (is_float(type)) return builder_.cast(builder_.real(literal.real, compute_type(type)), type);
  const DType compute = compute_type(type);
  return builder_.cast(builder_.integer(literal.integer, compute), type);
}

ExprId TileLowering::compute(ValueId value, const std::function<ExprId(ValueId)>& operand,
                             ExprId column) {
  const Op& op = facts_.fusion.def_of(value);
  const DType type = facts_.fusion.values[value].type;
  if (const auto* pointwise = std::get_if<PointwiseOp>(&op.kind)) {
    std::vector<ExprId> arguments;
    for (const ValueId id : op.operands) arguments.push_back(operand(id));
    return builder_.apply(pointwise->fn, std::move(arguments));
  }
  if (std::holds_alternative<CastOp>(op.kind)) return builder_.cast(operand(op.operands[0]), type);
  if (std::holds_alternative<ConstantOp>(op.kind)) return constant(value);
  if (std::holds_alternative<IotaOp>(op.kind)) {
    return builder_.cast(weighted_coordinate(facts_.space.iota_weights[value], column), type);
  }
  // Broadcast, permute and reshape of computed values only rename coordinates.
  SINTER_CHECK(op.operands.size() == 1, "{} is not computed element by element", value);
  return operand(op.operands[0]);
}

// ---- Values that do not vary along the row

ExprId TileLowering::row_value(ValueId value) {
  if (const auto found = view_.values.find(value); found != view_.values.end())
    return found->second;
  walk_operands(
      value, [&](ValueId of) { return row_operands(of); },
      [&](ValueId needed) { return !has_row_value(needed); },
      [&](ValueId needed) { compute_row_value(needed); });
  return view_.values.at(value);
}

/// The row values that a row value is computed from. For a take: the index, and the operands of all
/// elements that it may gather.
std::vector<ValueId> TileLowering::row_operands(ValueId value) const {
  const Op& op = facts_.fusion.def_of(value);
  if (!std::holds_alternative<TakeOp>(op.kind)) return op.operands;
  std::vector<ValueId> out = {op.operands[1]};
  if (facts_.space.gathers.contains(value)) return out;
  std::set<ValueId> seen;
  walk_operands(facts_.fusion, op.operands[0], [&](ValueId needed) {
    if (!seen.insert(needed).second) return false;
    if (!facts_.is_tile(needed)) out.push_back(needed);
    return facts_.is_tile(needed) && !facts_.is_read(needed);
  });
  return out;
}

/// True if a row value is known. One that is read from memory is loaded here.
bool TileLowering::has_row_value(ValueId value) {
  if (view_.values.contains(value)) return true;
  ExprId result;
  if (const TensorAccess* access = facts_.space.find_input(value)) {
    const ExprId index = address(*access, ExprId{});
    const VarId var =
        builder_.declare_scalar(name_of_value(access->tensor), facts_.fusion.values[value].type);
    const ExprId zero = builder_.integer(0);
    const kir::BufferId buffer = buffer_of(access->tensor);
    builder_.append(
        kir::Load{var, zero, zero, 1, buffer, index, kir::CacheHint::kDefault, tensor_of(buffer)});
    result = builder_.ref(var);
  } else {
    return false;
  }
  view_.values[value] = result;
  return true;
}

/// Evaluates a row value whose operands are evaluated.
void TileLowering::compute_row_value(ValueId value) {
  if (facts_.fusion.def_as<TakeOp>(value) != nullptr) {
    view_.values[value] = take(value);
    return;
  }
  const ExprId expr = compute(
      value, [&](ValueId id) { return view_.values.at(id); }, ExprId{});
  if (is_transparent(facts_.fusion.def_of(value).kind)) {
    view_.values[value] = expr;
    return;
  }
  describe(value);
  view_.values[value] = builder_.ref(builder_.declare(name_of_value(value), expr));
}

// ---- Gathers

ExprId TileLowering::index_is_inside(ExprId position, int64_t size) {
  return builder_.ref(builder_.declare(
      "index_is_inside",
      builder_.both(builder_.less_equal(builder_.integer(0, DType::kI64), position),
                    builder_.less(position, builder_.integer(size, DType::kI64)))));
}

ExprId TileLowering::load_where(ExprId inside, const TensorAccess& access, ExprId index) {
  const DType type = facts_.fusion.values[access.value].type;
  const VarId var = builder_.declare_scalar(name_of_value(access.tensor) + "_picked", type);
  const ExprId zero = builder_.integer(0);
  builder_.when(
      inside,
      [&] {
        builder_.append(kir::Load{var, zero, zero, 1, buffer_of(access.tensor), index,
                                  kir::CacheHint::kDefault});
      },
      [&] {
        const DType compute = compute_type(type);
        const ExprId nothing =
            is_float(type) ? builder_.real(0.0, compute) : builder_.integer(0, compute);
        builder_.assign(var, builder_.cast(nothing, type));
      });
  return builder_.ref(var);
}

ExprId TileLowering::take_at(ValueId value, ExprId index, ExprId column) {
  const Gather& gather = facts_.space.gathers.at(value);
  describe(value);
  const ExprId position = builder_.ref(
      builder_.declare(name_of_value(value) + "_index", builder_.cast(index, DType::kI64)));
  ExprId inside = index_is_inside(position, gather.size);
  // Lanes past the last element are also evaluated, but not stored.
  if (column.valid() && position_.predication == Predication::kElement)
    inside = builder_.both(inside, lane_is_inside(position_, lane_));
  const ExprId jump = builder_.mul(position, builder_.integer(gather.stride, DType::kI64));
  return load_where(inside, gather.access, builder_.add(address(gather.access, column), jump));
}

ExprId TileLowering::take(ValueId value) {
  const Op& op = facts_.fusion.def_of(value);
  if (facts_.space.gathers.contains(value))
    return take_at(value, row_value(op.operands[1]), ExprId{});
  describe(value);
  const VarId index = builder_.declare(name_of_value(op.operands[1]) + "_index",
                                       builder_.cast(row_value(op.operands[1]), DType::kI64));
  const ExprId position = builder_.ref(index);
  const ExprId inside = index_is_inside(position, facts_.space.columns);
  const ValueId source = op.operands[0];
  std::map<ValueId, ExprId> memo;
  const ExprId picked = gathered(source, position, inside, memo);
  const DType type = facts_.fusion.values[value].type;
  const DType compute = compute_type(type);
  // The load itself gives zero if the index is out of range.
  const bool is_loaded = facts_.is_tile(source) && facts_.space.find_input(source) != nullptr;
  if (compute != type && is_loaded) return picked;
  // `select` does not take storage types. The cast to the compute type and back changes nothing.
  const ExprId zero = is_float(type) ? builder_.real(0.0, compute) : builder_.integer(0, compute);
  const ExprId taken = builder_.select(inside, builder_.cast(picked, compute), zero);
  return builder_.ref(builder_.declare(name_of_value(value), builder_.cast(taken, type)));
}

ExprId TileLowering::gathered(ValueId value, ExprId column, ExprId inside,
                              std::map<ValueId, ExprId>& memo) {
  const auto is_known = [&](ValueId needed) {
    if (!facts_.is_tile(needed)) {
      row_value(needed);
      return true;
    }
    if (memo.contains(needed)) return true;
    const TensorAccess* access = facts_.space.find_input(needed);
    if (access != nullptr) memo[needed] = load_where(inside, *access, address(*access, column));
    return access != nullptr;
  };
  const auto known = [&](ValueId needed) {
    return facts_.is_tile(needed) ? memo.at(needed) : row_value(needed);
  };
  walk_operands(
      facts_.fusion, value, [&](ValueId needed) { return !is_known(needed); },
      [&](ValueId needed) {
        const ExprId expr = compute(needed, known, column);
        memo[needed] =
            is_transparent(facts_.fusion.def_of(needed).kind)
                ? expr
                : builder_.ref(builder_.declare(name_of_value(needed) + "_picked", expr));
      });
  return known(value);
}

// ---- Values along the row

void TileLowering::begin_element(const TilePosition& position, ExprId lane) {
  position_ = position;
  lane_ = lane;
  element_values_.clear();
  for (const auto& [value, source] : sources_) element_values_[value] = source(position, lane);
}

ExprId TileLowering::element_value(ValueId value) {
  // A gather reads its source at the index, not at the current element.
  const auto operands = [&](ValueId of) {
    const Op& op = facts_.fusion.def_of(of);
    const std::span<const ValueId> all(op.operands);
    return std::holds_alternative<TakeOp>(op.kind) ? all.subspan(1) : all;
  };
  walk_operands(
      value, operands, [&](ValueId needed) { return !has_element(needed); },
      [&](ValueId needed) { compute_element(needed); });
  return is_element(value) ? element_values_.at(value) : row_value(value);
}

/// True if a value needs no statement for the current element, except that a row value may be
/// evaluated.
bool TileLowering::has_element(ValueId value) {
  if (!is_element(value)) {
    row_value(value);
    return true;
  }
  if (element_values_.contains(value)) return true;
  if (const auto tile = view_.tiles.find(value); tile != view_.tiles.end()) {
    const bool uniform = builder_.kernel().vars[tile->second.var].lanes == 1;
    element_values_[value] = builder_.element(
        tile->second.var, tile->second.resident ? position_.batch : position_.group,
        uniform ? builder_.integer(0) : lane_);
    return true;
  }
  SINTER_CHECK(!facts_.is_read(value), "{} was not loaded", value);
  return false;
}

/// Evaluates a value whose operands are evaluated.
void TileLowering::compute_element(ValueId value) {
  const auto operand = [&](ValueId id) {
    return is_element(id) ? element_values_.at(id) : row_value(id);
  };
  const ExprId column = builder_.add(position_.first_column, builder_.cast(lane_, column_type_));
  const Op& op = facts_.fusion.def_of(value);
  if (std::holds_alternative<TakeOp>(op.kind)) {
    element_values_[value] = take_at(value, operand(op.operands[1]), column);
    return;
  }
  const ExprId expr = compute(value, operand, column);
  if (is_transparent(op.kind)) {
    element_values_[value] = expr;
    return;
  }
  describe(value);
  element_values_[value] = builder_.ref(builder_.declare(name_of_value(value), expr));
}

}  // namespace sinter
