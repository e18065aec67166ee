#include "runtime/check/row_repetition.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <span>

#include "fusion_ir/reduction_traits.h"
#include "fusion_ir/result.h"
#include "fusion_ir/verifier.h"

namespace sinter {
namespace {

using Symbols = std::span<const SymbolId>;

bool is_one_of(const Extent& extent, Symbols symbols) {
  return extent.is_symbol() && std::ranges::find(symbols, extent.symbol()) != symbols.end();
}

bool is_outermost(const Shape& shape, Symbols symbols) {
  return !shape.empty() && is_one_of(shape.front(), symbols);
}

bool has_elsewhere(const Shape& shape, Symbols symbols) {
  return std::any_of(shape.begin() + (shape.empty() ? 0 : 1), shape.end(),
                     [&](const Extent& extent) { return is_one_of(extent, symbols); });
}

bool has_any(const std::vector<Extent>& extents, Symbols symbols) {
  return std::ranges::any_of(extents,
                             [&](const Extent& extent) { return is_one_of(extent, symbols); });
}

enum class Totals : uint8_t { kRefused, kAllowed };

/// True if what `n` slices give when they repeat follows from what they give once.
bool can_be_folded(const Fusion& fusion, const Op& op, ReduceFn fn) {
  switch (traits_of(reduction_of(fn)).repetition) {
    case Repetition::kTimesFloat:
      return is_float(fusion.values[op.operands.front()].type);
    case Repetition::kSame:
      return true;
    case Repetition::kUnknown:
      return false;
  }
  unreachable();
}

/// True if slice i of the op's results depends on slice i of its operands alone, and not on i; or
/// if it is a total of all slices.
bool is_slicewise(const Fusion& fusion, const Op& op, Symbols symbols, Totals totals) {
  const bool out = is_outermost(fusion.values[op.results.front()].shape, symbols);
  const bool in =
      !op.operands.empty() && is_outermost(fusion.values[op.operands.front()].shape, symbols);
  const auto keeps_axis = [&](const std::vector<int>& axes) {
    return !in || (!axes.empty() && axes.front() == 0);
  };
  const auto reduces_others = [&](const std::vector<int>& axes) {
    return !in || std::ranges::find(axes, 0) == axes.end();
  };
  return std::visit(
      overloaded{
          [&](const InputOp& input) { return !has_any(input.strides, symbols); },
          [](const ConstantOp&) { return true; },
          [](const PointwiseOp&) { return true; },
          [](const CastOp&) { return true; },
          [&](const BroadcastOp& broadcast) { return keeps_axis(broadcast.axes); },
          [&](const ReduceOp& reduce) {
            return reduces_others(reduce.axes) ||
                   (totals == Totals::kAllowed && can_be_folded(fusion, op, reduce.fn));
          },
          [&](const WelfordOp& welford) { return reduces_others(welford.axes); },
          [&](const LogSumExpOp& pair) { return reduces_others(pair.axes); },
          [&](const TupleReduceOp& tuple) { return reduces_others(tuple.axes); },
          [&](const TakeOp& take) { return !in || take.axis != 0; },
          [&](const ExtentOp& extent) { return !has_any(extent.extents, symbols); },
          [&](const IotaOp& iota) { return !out || iota.axis != 0; },
          [&](const PermuteOp& permute) { return keeps_axis(permute.order); },
          [&](const ReshapeOp&) { return in == out; },
          [&](const SliceOp&) { return in == out; },
          [&](const ConcatenateOp& join) { return !in || join.axis != 0; },
          [&](const PadOp&) { return in == out; },  // Adds nothing along a symbol.
          [&](const ContractOp& contract) {
            // Slices are a batch, or the rows of one operand, and the result has them outermost.
            const auto keeps = [&](size_t side, const std::vector<int>& axes) {
              return !is_outermost(fusion.values[op.operands[side]].shape, symbols) ||
                     (out && axes.front() == 0);
            };
            return keeps(0, contract.left) && keeps(1, contract.right);
          },
          [](const ExternalOp&) { return false; },  // Does what it likes.
      },
      op.kind);
}

bool is_slicewise(const Fusion& fusion, Symbols symbols, Totals totals) {
  const auto outermost = [&](ValueId value) {
    return is_outermost(fusion.values[value].shape, symbols);
  };
  const auto& ends = totals == Totals::kAllowed ? fusion.inputs : fusion.outputs;
  return std::ranges::any_of(ends, outermost) &&
         std::ranges::none_of(
             fusion.values,
             [&](const Value& value) { return has_elsewhere(value.shape, symbols); }) &&
         std::ranges::all_of(
             fusion.ops, [&](const Op& op) { return is_slicewise(fusion, op, symbols, totals); });
}

/// By value: true if its outermost axis is that of the slices, or has several elements for each.
using Slices = IdMap<ValueId, uint8_t>;

/// Operands and results of an op whose outermost axes iterate together, in slices of as many
/// elements as divide them; other axes do not matter.
std::vector<ValueId> linked_values(const Fusion& fusion, const Op& op) {
  std::vector<ValueId> all = op.operands;
  all.insert(all.end(), op.results.begin(), op.results.end());
  std::erase_if(all, [&](ValueId value) { return fusion.values[value].shape.empty(); });
  if (const auto* contract = std::get_if<ContractOp>(&op.kind)) {
    // Where the result has rows, what has them outermost too.
    if (fusion.values[op.results.front()].shape.empty()) return {};
    all = op.results;
    const auto add = [&](size_t side, const std::vector<int>& axes) {
      if (!axes.empty() && axes.front() == 0) all.push_back(op.operands[side]);
    };
    add(0, contract->left);
    add(1, contract->right);
    return all;
  }
  const auto same_size = [&] {
    return all.size() == 2 &&
           fusion.values[all[0]].shape.front() == fusion.values[all[1]].shape.front();
  };
  const auto keeps = [](const std::vector<int>& axes) {
    return !axes.empty() && axes.front() == 0;
  };
  const bool linked = std::visit(
      overloaded{
          [](const PointwiseOp&) { return true; },
          [](const CastOp&) { return true; },
          [&](const BroadcastOp& broadcast) { return keeps(broadcast.axes) && same_size(); },
          [&](const ReduceOp& reduce) { return !keeps(reduce.axes); },
          [&](const WelfordOp& welford) { return !keeps(welford.axes); },
          [&](const LogSumExpOp& pair) { return !keeps(pair.axes); },
          [&](const TupleReduceOp& tuple) { return !keeps(tuple.axes); },
          [](const TakeOp& take) { return take.axis != 0; },
          [&](const PermuteOp& permute) { return keeps(permute.order); },
          // In row-major order, parts of equal length remain such parts.
          [&](const ReshapeOp&) { return all.size() == 2; },
          [&](const SliceOp&) { return same_size(); },
          [&](const PadOp&) { return same_size(); },
          [](const ConcatenateOp& join) { return join.axis != 0; },
          [](const InputOp&) { return false; },
          [](const ConstantOp&) { return false; },
          [](const ExtentOp&) { return false; },
          [](const IotaOp&) { return false; },
          [](const ExternalOp&) { return false; },
          [](const ContractOp&) -> bool { unreachable(); },
      },
      op.kind);
  return linked ? all : std::vector<ValueId>{};
}

Slices slices_with(const Fusion& fusion, ValueId seed) {
  Slices out(fusion.values.size());
  out[seed] = 1;
  const auto spread = [&](const Op& op) {
    const std::vector<ValueId> values = linked_values(fusion, op);
    const auto is_slice = [&](ValueId value) { return out[value] != 0; };
    if (std::ranges::none_of(values, is_slice) || std::ranges::all_of(values, is_slice))
      return false;
    for (const ValueId value : values) out[value] = 1;
    return true;
  };
  // To and fro, until nothing is added.
  for (bool grows = true; grows;) {
    grows = false;
    for (const Op& op : fusion.ops) grows |= spread(op);
    for (size_t i = fusion.ops.size(); i-- > 0;)
      grows |= spread(fusion.ops[OpId{static_cast<uint32_t>(i)}]);
  }
  return out;
}

/// True if one slice of a tensor ends before the next one begins, or, of an input, all are one.
bool are_apart(const Sizes& sizes, const Sizes& strides) {
  int64_t reach = 1;
  for (size_t axis = 1; axis < sizes.size(); ++axis)
    reach += std::max<int64_t>(sizes[axis] - 1, 0) * strides[axis];
  return strides[0] == 0 || strides[0] >= reach;
}

bool slices_are_apart(const Fusion& fusion, const Slices& slices) {
  const auto apart = [&](ValueId value, const Sizes& strides) {
    return slices[value] == 0 || are_apart(Binding{}.sizes_of(fusion.values[value].shape), strides);
  };
  return std::ranges::all_of(fusion.inputs,
                             [&](ValueId value) {
                               return apart(value, input_strides(fusion, Binding{}, value));
                             }) &&
         std::ranges::all_of(fusion.outputs, [&](ValueId value) {
           return apart(value, output_strides(fusion, Binding{}, value));
         });
}

/// The specialized fusion with symbols in the place of its slices' axes.
SlicedFusion name_slices(const Fusion& fusion, const Slices& slices) {
  SlicedFusion out{.fusion = fusion};
  const auto size_of = [&](ValueId value) { return fusion.values[value].shape.front().constant(); };
  for (const ValueId value : fusion.value_ids()) {
    if (slices[value] != 0) out.slices = std::gcd(out.slices, size_of(value));
  }
  std::map<int64_t, SymbolId> symbols;
  for (const ValueId value : fusion.value_ids()) {
    if (slices[value] == 0) continue;
    const int64_t times = size_of(value) / out.slices;
    const auto [at, is_new] = symbols.try_emplace(times);
    if (is_new) {
      at->second = out.fusion.symbols.push_back({.name = fmt::format("slices_{}", times)});
      out.axes.push_back({.symbol = at->second, .times = times});
    }
    out.fusion.values[value].shape.front() = Extent(at->second);
  }
  // What takes the whole axis takes that of a period.
  for (Op& op : out.fusion.ops) {
    auto* slice = std::get_if<SliceOp>(&op.kind);
    if (slice != nullptr && slices[op.results.front()] != 0) slice->stop.front() = -1;
  }
  return out;
}

/// All that may be the slices of a specialized fusion: the outermost axes of inputs and outputs, of
/// the largest tensor first.
std::vector<SlicedFusion> slice_candidates(const Fusion& fusion) {
  std::vector<ValueId> seeds = fusion.inputs;
  seeds.insert(seeds.end(), fusion.outputs.begin(), fusion.outputs.end());
  std::erase_if(seeds, [&](ValueId value) {
    const Shape& shape = fusion.values[value].shape;
    return shape.empty() || shape.front().constant() < 2;
  });
  std::ranges::stable_sort(seeds, std::greater{}, [&](ValueId value) {
    return element_count(fusion.values[value].shape);
  });
  std::vector<SlicedFusion> out;
  Slices seen(fusion.values.size());
  for (const ValueId seed : seeds) {
    if (seen[seed] != 0) continue;
    const Slices slices = slices_with(fusion, seed);
    for (const ValueId value : fusion.value_ids()) seen[value] |= slices[value];
    if (slices_are_apart(fusion, slices)) out.push_back(name_slices(fusion, slices));
  }
  return out;
}

/// True if the fusion is sound where each axis has one slice.
bool is_sound(const SlicedFusion& sliced) {
  return verify(specialize(sliced.fusion, sliced.binding(1))).empty();
}

}  // namespace

Binding SlicedFusion::binding(int64_t count) const {
  Binding out;
  for (const Axis& axis : axes) out.symbol_sizes.push_back(axis.times * count);
  return out;
}

std::vector<SymbolId> SlicedFusion::symbols() const {
  std::vector<SymbolId> out;
  for (const Axis& axis : axes) out.push_back(axis.symbol);
  return out;
}

std::optional<SlicedFusion> find_slices(const Fusion& fusion, const Binding& binding) {
  std::vector<SlicedFusion> candidates = slice_candidates(specialize(fusion, binding));
  for (const Totals totals : {Totals::kRefused, Totals::kAllowed}) {
    for (SlicedFusion& candidate : candidates) {
      if (candidate.slices < 2 || !is_slicewise(candidate.fusion, candidate.symbols(), totals))
        continue;
      // Where axes of slices meet that are none of each other, shapes do not fit.
      if (!is_sound(candidate)) continue;
      candidate.has_totals = totals == Totals::kAllowed;
      return std::move(candidate);
    }
  }
  return std::nullopt;
}

int64_t SlicedFusion::period(int64_t element_budget) const {
  const Binding one = binding(1);
  int64_t elements = 0;
  const auto count = [&](ValueId value) {
    if (is_outermost(fusion.values[value].shape, symbols()))
      elements += element_count(one.sizes_of(fusion.values[value].shape));
  };
  std::ranges::for_each(fusion.inputs, count);
  std::ranges::for_each(fusion.outputs, count);
  const int64_t wanted = element_budget / std::max<int64_t>(elements, 1);
  if (wanted >= slices) return slices;
  return wanted < 2 ? 1 : wanted - (wanted % 2 == 0 ? 1 : 0);
}

std::optional<SymbolId> slicewise_symbol(const Fusion& fusion) {
  for (uint32_t i = 0; i < fusion.symbols.size(); ++i) {
    const SymbolId symbol{i};
    if (is_slicewise(fusion, Symbols(&symbol, 1), Totals::kRefused)) return symbol;
  }
  return std::nullopt;
}

}  // namespace sinter
