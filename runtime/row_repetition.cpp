#include "runtime/row_repetition.h"

#include <algorithm>

#include "fusion_ir/result.h"

namespace sinter {
namespace {

bool is_outermost(const Shape& shape, SymbolId symbol) {
  return !shape.empty() && shape.front() == Extent(symbol);
}

bool has_elsewhere(const Shape& shape, SymbolId symbol) {
  return std::find(shape.begin() + (shape.empty() ? 0 : 1), shape.end(), Extent(symbol)) !=
         shape.end();
}

/// True if slice i of the op's results depends on slice i of its operands alone, and not on i.
bool is_slicewise(const Fusion& fusion, const Op& op, SymbolId symbol) {
  const bool out = is_outermost(fusion.values[op.results.front()].shape, symbol);
  const bool in =
      !op.operands.empty() && is_outermost(fusion.values[op.operands.front()].shape, symbol);
  const auto keeps_axis = [&](const std::vector<int>& axes) {
    return !in || (!axes.empty() && axes.front() == 0);
  };
  const auto reduces_others = [&](const std::vector<int>& axes) {
    return !in || std::ranges::find(axes, 0) == axes.end();
  };
  return std::visit(
      overloaded{
          [&](const InputOp& input) {
            return std::ranges::find(input.strides, Extent(symbol)) == input.strides.end();
          },
          [](const ConstantOp&) { return true; }, [](const PointwiseOp&) { return true; },
          [](const CastOp&) { return true; },
          [&](const BroadcastOp& broadcast) { return keeps_axis(broadcast.axes); },
          [&](const ReduceOp& reduce) { return reduces_others(reduce.axes); },
          [&](const WelfordOp& welford) { return reduces_others(welford.axes); },
          [&](const LogSumExpOp& pair) { return reduces_others(pair.axes); },
          [&](const TakeOp& take) { return !in || take.axis != 0; },
          [&](const ExtentOp& extent) {
            return std::ranges::find(extent.extents, Extent(symbol)) == extent.extents.end();
          },
          [&](const IotaOp& iota) { return !out || iota.axis != 0; },
          [&](const PermuteOp& permute) { return keeps_axis(permute.order); },
          [&](const ReshapeOp&) { return in == out; }, [&](const SliceOp&) { return in == out; },
          [&](const ConcatenateOp& join) { return !in || join.axis != 0; },
          [](const PadOp&) { return true; },        // Adds nothing along a symbol.
          [](const ExternalOp&) { return false; },  // Does what it likes.
      },
      op.kind);
}

bool is_slicewise(const Fusion& fusion, SymbolId symbol) {
  const auto outermost = [&](ValueId value) {
    return is_outermost(fusion.values[value].shape, symbol);
  };
  return std::ranges::any_of(fusion.outputs, outermost) &&
         std::ranges::none_of(
             fusion.values,
             [&](const Value& value) { return has_elsewhere(value.shape, symbol); }) &&
         std::ranges::all_of(fusion.ops,
                             [&](const Op& op) { return is_slicewise(fusion, op, symbol); });
}

}  // namespace

std::optional<SymbolId> slicewise_symbol(const Fusion& fusion) {
  for (uint32_t i = 0; i < fusion.symbols.size(); ++i) {
    if (is_slicewise(fusion, SymbolId{i})) return SymbolId{i};
  }
  return std::nullopt;
}

int64_t repetition_period(const Fusion& fusion, const Binding& binding, SymbolId symbol,
                          int64_t element_budget) {
  const int64_t size = binding.symbol_sizes[symbol.index];
  const int64_t step = fusion.symbols[symbol].divisible_by;
  int64_t slice = 0;
  const auto count = [&](ValueId value) {
    const Shape& shape = fusion.values[value].shape;
    if (!is_outermost(shape, symbol)) return;
    slice += element_count(binding.sizes_of(Shape(shape.begin() + 1, shape.end())));
  };
  std::ranges::for_each(fusion.inputs, count);
  std::ranges::for_each(fusion.outputs, count);
  const int64_t wanted = element_budget / std::max<int64_t>(slice, 1);
  if (wanted >= size) return size;
  const int64_t steps = std::max<int64_t>(wanted / step, 1);
  return std::min(size, (steps - (steps % 2 == 0 ? 1 : 0)) * step);
}

}  // namespace sinter
