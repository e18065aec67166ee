#include "fusion_ir/match.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace sinter {

std::vector<int> all_axes(size_t rank) {
  std::vector<int> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

std::vector<int> other_axes(size_t rank, std::span<const int> axes) {
  std::vector<int> others = all_axes(rank);
  std::erase_if(others, [&](int axis) { return std::ranges::find(axes, axis) != axes.end(); });
  return others;
}

Shape space_of(const ContractOp& op, const Shape& left, const Shape& right) {
  Shape out;
  const auto place = [&](const std::vector<int>& axes, const Shape& shape) {
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<size_t>(axes[i]);
      if (axis >= out.size()) out.resize(axis + 1);
      out[axis] = shape[i];
    }
  };
  place(op.left, left);
  place(op.right, right);
  return out;
}

bool is_always_empty(const Shape& shape) {
  return std::ranges::find(shape, Extent(0)) != shape.end();
}

std::optional<ConstantOp> splat_constant(const Fusion& fusion, ValueId value) {
  while (fusion.def_as<BroadcastOp>(value) != nullptr) {
    value = fusion.def_of(value).operands.front();
  }
  if (const auto* constant = fusion.def_as<ConstantOp>(value)) return *constant;
  return std::nullopt;
}

bool is_splat_of(const Fusion& fusion, ValueId value, double number) {
  const auto constant = splat_constant(fusion, value);
  if (!constant) return false;
  if (is_float(fusion.values[value].type)) {
    return std::bit_cast<uint64_t>(constant->real) == std::bit_cast<uint64_t>(number);
  }
  return static_cast<double>(constant->integer) == number;
}

std::span<const ValueId> operands_of(const Fusion& fusion, ValueId value, PointwiseFn fn) {
  const auto* op = fusion.def_as<PointwiseOp>(value);
  if (op == nullptr || op->fn != fn) return {};
  return fusion.def_of(value).operands;
}

bool is_copy(const Fusion& fusion, ValueId value) {
  return fusion.def_as<BroadcastOp>(value) != nullptr &&
         fusion.values[fusion.def_of(value).operands.front()].shape == fusion.values[value].shape;
}

bool broadcasts_over(const Fusion& fusion, ValueId value, ValueId reduced,
                     std::span<const int> axes) {
  const auto* broadcast = fusion.def_as<BroadcastOp>(value);
  if (broadcast == nullptr || fusion.def_of(value).operands.front() != reduced) return false;
  const Shape& shape = fusion.values[value].shape;
  const Shape& reduced_shape = fusion.values[reduced].shape;
  if (broadcast->axes != other_axes(shape.size(), axes)) return false;
  for (size_t i = 0; i < reduced_shape.size(); ++i) {
    if (reduced_shape[i] != shape[static_cast<size_t>(broadcast->axes[i])]) return false;
  }
  return true;
}

bool is_commutative(PointwiseFn fn) {
  switch (fn) {
    case PointwiseFn::kAdd:
    case PointwiseFn::kMul:
    case PointwiseFn::kMax:
    case PointwiseFn::kMin:
    case PointwiseFn::kAnd:
    case PointwiseFn::kOr:
    case PointwiseFn::kXor:
    case PointwiseFn::kEq:
    case PointwiseFn::kNe:
    case PointwiseFn::kFma:
      return true;
    case PointwiseFn::kNeg:
    case PointwiseFn::kAbs:
    case PointwiseFn::kExp:
    case PointwiseFn::kExp2:
    case PointwiseFn::kExpm1:
    case PointwiseFn::kLog:
    case PointwiseFn::kLog2:
    case PointwiseFn::kLog1p:
    case PointwiseFn::kSqrt:
    case PointwiseFn::kRsqrt:
    case PointwiseFn::kReciprocal:
    case PointwiseFn::kSin:
    case PointwiseFn::kCos:
    case PointwiseFn::kTanh:
    case PointwiseFn::kErf:
    case PointwiseFn::kFloor:
    case PointwiseFn::kCeil:
    case PointwiseFn::kTrunc:
    case PointwiseFn::kRound:
    case PointwiseFn::kIsNan:
    case PointwiseFn::kIsFinite:
    case PointwiseFn::kNot:
    case PointwiseFn::kSub:
    case PointwiseFn::kDiv:
    case PointwiseFn::kRem:
    case PointwiseFn::kPow:
    case PointwiseFn::kLt:
    case PointwiseFn::kLe:
    case PointwiseFn::kGt:
    case PointwiseFn::kGe:
    case PointwiseFn::kSelect:
    case PointwiseFn::kClamp:
    case PointwiseFn::kPhiloxUniform:
      return false;
  }
  unreachable();
}

}  // namespace sinter
