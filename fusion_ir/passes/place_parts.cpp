#include "fusion_ir/passes/place_parts.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "fusion_ir/match.h"
#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

/// Operands of a concatenate that functions of the result are computed on: rotary embeddings have
/// two, projections of attention three. Graphs grow by as much.
constexpr size_t kMostParts = 8;

using Replacements = std::optional<std::vector<ValueId>>;

bool is_elementwise(const OpKind& kind) {
  return std::holds_alternative<PointwiseOp>(kind) || std::holds_alternative<CastOp>(kind);
}

SliceOp whole(size_t rank) {
  return {.start = std::vector<int64_t>(rank, 0),
          .stop = std::vector<int64_t>(rank, -1),
          .step = std::vector<int64_t>(rank, 1)};
}

bool is_whole(const SliceOp& slice, size_t axis) {
  return slice.start[axis] == 0 && slice.stop[axis] < 0 && slice.step[axis] == 1;
}

/// Which values of a graph may be computed in parts: all that needs one takes parts of it, and
/// these have no more elements than the whole.
class Parted {
 public:
  explicit Parted(const Fusion& fusion)
      : fusion_(fusion),
        is_taken_(fusion.values.size()),
        share_(fusion.values.size()),
        is_blocked_(fusion.values.size()),
        uses_(fusion.values.size()),
        is_output_(fusion.values.size()) {
    for (const ValueId output : fusion.outputs) is_output_[output] = 1;
    for (const Op& op : fusion.ops) {
      for (const ValueId operand : unique(op.operands)) ++uses_[operand];
    }
    for (uint32_t i = static_cast<uint32_t>(fusion.ops.size()); i-- > 0;) ask(fusion.ops[OpId{i}]);
  }

  [[nodiscard]] bool is(ValueId value) const {
    constexpr double kRounding = 1e-9;
    return is_output_[value] == 0 && is_blocked_[value] == 0 && uses_[value] > 0 &&
           share_[value] <= 1.0 + kRounding;
  }

  /// True if nothing comes of a value's elements but reductions, beside calls that take all of it.
  [[nodiscard]] bool is_only_reduced(ValueId value) const { return is_taken_[value] == 0; }

  /// An elementwise op's operand that is joined of others, if only this op needs it, or it is as
  /// well read in parts.
  [[nodiscard]] std::optional<ValueId> joined_operand(const Op& op) const {
    if (!is_elementwise(op.kind)) return std::nullopt;
    for (const ValueId operand : op.operands) {
      if (fusion_.def_as<ConcatenateOp>(operand) == nullptr) continue;
      const bool is_own = uses_[operand] == 1 && is_output_[operand] == 0;
      if (is_own || is_only_reduced(operand)) return operand;
    }
    return std::nullopt;
  }

 private:
  static std::vector<ValueId> unique(std::vector<ValueId> values) {
    std::ranges::sort(values);
    values.erase(std::ranges::unique(values).begin(), values.end());
    return values;
  }

  void ask(const Op& op) {
    const ValueId result = op.results.front();
    const bool passes_on =
        is_elementwise(op.kind) && is_only_reduced(result) && is_output_[result] == 0;
    if (!is_reduction(op.kind) && !std::holds_alternative<ExternalOp>(op.kind) && !passes_on) {
      for (const ValueId operand : op.operands) is_taken_[operand] = 1;
    }
    double share = 1.0;  // Of each operand, that parts of it make up in all.
    if (std::holds_alternative<SliceOp>(op.kind)) {
      share = share_of_slice(op);
    } else if (!joined_operand(op)) {
      const bool passes = is_elementwise(op.kind) || std::holds_alternative<BroadcastOp>(op.kind);
      if (!passes || !is(result)) {
        for (const ValueId operand : op.operands) is_blocked_[operand] = 1;
        return;
      }
      share = share_[result];
    }
    for (const ValueId operand : unique(op.operands)) share_[operand] += share;
  }

  [[nodiscard]] double share_of_slice(const Op& op) const {
    const Shape& from = fusion_.values[op.operands.front()].shape;
    const Shape& to = fusion_.values[op.results.front()].shape;
    double share = 1.0;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (from[axis] == to[axis] || from[axis].is_symbol() || to[axis].is_symbol()) continue;
      share *= static_cast<double>(to[axis].constant()) /
               static_cast<double>(std::max<int64_t>(from[axis].constant(), 1));
    }
    return share;
  }

  const Fusion& fusion_;
  IdMap<ValueId, uint8_t> is_taken_;
  IdMap<ValueId, double> share_;
  IdMap<ValueId, uint8_t> is_blocked_;  ///< Something needs all of it.
  IdMap<ValueId, uint32_t> uses_;
  IdMap<ValueId, uint8_t> is_output_;
};

/// Makes parts of values of the source, in the graph that a rewriter makes.
class Parts {
 public:
  Parts(const Fusion& source, const Parted& parted)
      : source_(source), parted_(parted), lies_in_memory_(source.values.size()) {
    for (const Op& op : source.ops) {
      const bool lies = find_lies_in_memory(op);
      for (const ValueId result : op.results) lies_in_memory_[result] = lies ? 1 : 0;
    }
  }

  /// True if a part of the value can be had without making all of it.
  [[nodiscard]] bool can(ValueId value, const SliceOp& slice) {
    // A part that is asked for, and those of the operands it waits for: none is refused so far.
    struct Asked {
      ValueId value;
      SliceOp slice;
      size_t next = 0;  ///< Operand to go on with.
    };
    std::vector<Asked> path;
    const auto ask = [&](ValueId of, SliceOp part) {
      const std::optional<bool> known = can_alone(of, part);
      if (!known) path.push_back({of, std::move(part)});
      return known.value_or(true);
    };
    bool can = ask(value, slice);
    while (can && !path.empty()) {
      Asked& asked = path.back();
      const Op& op = source_.def_of(asked.value);
      if (asked.next < op.operands.size()) {
        can = ask(op.operands[asked.next++], of_operand(op, asked.slice));
      } else {
        can_[key_of(asked.value, asked.slice)] = true;
        path.pop_back();
      }
    }
    for (const Asked& asked : path) can_[key_of(asked.value, asked.slice)] = false;
    return can;
  }

  ValueId make(Rewriter& rewriter, ValueId value, const SliceOp& slice) {
    // A part, and the parts of its operands that are made so far.
    struct Open {
      ValueId value;
      SliceOp slice;
      std::vector<ValueId> operands{};
    };
    std::vector<Open> stack;
    const auto made_or_opened = [&](ValueId of, SliceOp part) -> std::optional<ValueId> {
      if (takes_all(part)) return rewriter.mapped(of);
      const auto known = made_.find(key_of(of, part));
      if (known != made_.end()) return known->second;
      stack.push_back({of, std::move(part)});
      return std::nullopt;
    };
    std::optional<ValueId> made = made_or_opened(value, slice);
    while (!stack.empty()) {
      Open& open = stack.back();
      if (made) open.operands.push_back(*made);
      const Op& op = source_.def_of(open.value);
      const bool is_computed =
          is_elementwise(op.kind) || std::holds_alternative<BroadcastOp>(op.kind);
      if (is_computed && open.operands.size() < op.operands.size()) {
        made = made_or_opened(op.operands[open.operands.size()], of_operand(op, open.slice));
        continue;
      }
      made = make_one(rewriter, open.value, open.slice, std::move(open.operands));
      made_[key_of(open.value, open.slice)] = *made;
      stack.pop_back();
    }
    return *made;
  }

 private:
  using Key = std::tuple<ValueId, std::vector<int64_t>, std::vector<int64_t>, std::vector<int64_t>>;
  static Key key_of(ValueId value, const SliceOp& slice) {
    return {value, slice.start, slice.stop, slice.step};
  }

  /// An input, what a call or a concatenate leaves, and other shapes of these.
  [[nodiscard]] bool find_lies_in_memory(const Op& op) const {
    const OpKind& kind = op.kind;
    if (std::holds_alternative<InputOp>(kind) || std::holds_alternative<ExternalOp>(kind) ||
        std::holds_alternative<ConcatenateOp>(kind))
      return true;
    const bool is_view = std::holds_alternative<PermuteOp>(kind) ||
                         std::holds_alternative<ReshapeOp>(kind) ||
                         std::holds_alternative<SliceOp>(kind);
    return is_view && lies_in_memory_[op.operands.front()] != 0;
  }

  /// Whether a part can be had; nothing where that is up to the operands.
  [[nodiscard]] std::optional<bool> can_alone(ValueId value, const SliceOp& slice) const {
    if (takes_all(slice)) return true;
    const auto known = can_.find(key_of(value, slice));
    if (known != can_.end()) return known->second;
    const Op& op = source_.def_of(value);
    if (std::holds_alternative<BroadcastOp>(op.kind)) return std::nullopt;
    if (is_elementwise(op.kind)) return parted_.is(value) ? std::nullopt : std::optional(false);
    if (const auto* iota = std::get_if<IotaOp>(&op.kind)) return can_count(value, *iota);
    return lies_in_memory_[value] != 0;
  }

  /// The part of an operand that a part of a function's or broadcast's result is made of.
  [[nodiscard]] SliceOp of_operand(const Op& op, const SliceOp& slice) const {
    return std::holds_alternative<BroadcastOp>(op.kind) ? before_broadcast(op, slice) : slice;
  }

  ValueId make_one(Rewriter& rewriter, ValueId value, const SliceOp& slice,
                   std::vector<ValueId> operands) const {
    const Op& op = source_.def_of(value);
    if (std::holds_alternative<BroadcastOp>(op.kind)) {
      return rewriter.append(op.kind, std::move(operands), DType::kF32, part_of(value, slice))
          .front();
    }
    if (const auto* iota = std::get_if<IotaOp>(&op.kind))
      return make_iota(rewriter, value, *iota, slice);
    if (!is_elementwise(op.kind)) return rewriter.append(slice, {rewriter.mapped(value)}).front();
    return rewriter.append(op.kind, std::move(operands), source_.values[value].type).front();
  }

  static bool takes_all(const SliceOp& slice) {
    for (size_t axis = 0; axis < slice.start.size(); ++axis) {
      if (!is_whole(slice, axis)) return false;
    }
    return true;
  }

  /// Counting in steps from further on is exact in integers, and in f32 and f64 as far as all
  /// numbers are.
  [[nodiscard]] bool can_count(ValueId value, const IotaOp& iota) const {
    constexpr int64_t kExactInF32 = int64_t{1} << 24;
    const Value& info = source_.values[value];
    const Extent extent = info.shape[static_cast<size_t>(iota.axis)];
    if (info.type == DType::kI32 || info.type == DType::kI64 || info.type == DType::kF64)
      return true;
    return info.type == DType::kF32 && extent.is_constant() && extent.constant() <= kExactInF32;
  }

  /// The part of a broadcast's operand that a part of the result repeats.
  [[nodiscard]] SliceOp before_broadcast(const Op& op, const SliceOp& slice) const {
    const auto& axes = std::get<BroadcastOp>(op.kind).axes;
    const Shape& shape = source_.values[op.operands.front()].shape;
    SliceOp out = whole(shape.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      if (shape[i].is_one()) continue;
      const auto axis = static_cast<size_t>(axes[i]);
      out.start[i] = slice.start[axis];
      out.stop[i] = slice.stop[axis];
      out.step[i] = slice.step[axis];
    }
    return out;
  }

  [[nodiscard]] Shape part_of(ValueId value, const SliceOp& slice) const {
    Shape shape = source_.values[value].shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (is_whole(slice, axis)) continue;
      const int64_t stop = slice.stop[axis] < 0 ? shape[axis].constant() : slice.stop[axis];
      const int64_t reach = std::max<int64_t>(stop - slice.start[axis], 0);
      shape[axis] = (reach + slice.step[axis] - 1) / slice.step[axis];
    }
    return shape;
  }

  /// A count from further on, in larger steps.
  ValueId make_iota(Rewriter& rewriter, ValueId value, const IotaOp& iota,
                    const SliceOp& slice) const {
    const DType type = source_.values[value].type;
    const Shape shape = part_of(value, slice);
    const auto axis = static_cast<size_t>(iota.axis);
    const auto number = [&](int64_t n) {
      const ConstantOp constant =
          is_float(type) ? ConstantOp{.real = static_cast<double>(n)} : ConstantOp{.integer = n};
      return rewriter.splat(constant, type, shape);
    };
    ValueId out = rewriter.append(iota, {}, type, shape).front();
    if (slice.step[axis] != 1)
      out = rewriter.pointwise(PointwiseFn::kMul, {out, number(slice.step[axis])});
    if (slice.start[axis] != 0)
      out = rewriter.pointwise(PointwiseFn::kAdd, {out, number(slice.start[axis])});
    return out;
  }

  const Fusion& source_;
  const Parted& parted_;
  IdMap<ValueId, uint8_t> lies_in_memory_;
  std::map<Key, bool> can_;
  std::map<Key, ValueId> made_;  ///< In the new graph.
};

class Placement {
 public:
  explicit Placement(const Fusion& fusion)
      : fusion_(fusion), parted_(fusion), parts_(fusion, parted_) {}

  Replacements decide(Rewriter& rewriter, OpId id, std::span<const ValueId> operands) {
    const Op& op = fusion_.ops[id];
    if (const auto* slice = std::get_if<SliceOp>(&op.kind))
      return slice_of(rewriter, op, *slice, operands.front());
    if (is_reduction(op.kind) && parted_.is_only_reduced(op.operands.front()))
      return reduced_joined(rewriter, op, operands.front());
    if (const auto joined = parted_.joined_operand(op))
      return computed_joined(rewriter, op, *joined);
    return std::nullopt;
  }

 private:
  Replacements slice_of(Rewriter& rewriter, const Op& op, const SliceOp& slice, ValueId operand) {
    const ValueId source = op.operands.front();
    if (fusion_.def_as<ConcatenateOp>(source) != nullptr)
      return slice_of_joined(rewriter, slice, operand);
    const OpKind& kind = fusion_.def_of(source).kind;
    const bool moves = is_elementwise(kind) ||
                       (std::holds_alternative<BroadcastOp>(kind) && parted_.is(source)) ||
                       std::holds_alternative<IotaOp>(kind);
    if (!moves || !parts_.can(source, slice)) return std::nullopt;
    return {{parts_.make(rewriter, source, slice)}};
  }

  /// A slice of the one operand of a concatenate that it lies in.
  static Replacements slice_of_joined(Rewriter& rewriter, const SliceOp& slice, ValueId joined) {
    const Fusion& graph = rewriter.graph();
    const auto* join = graph.def_as<ConcatenateOp>(joined);
    if (join == nullptr) return std::nullopt;
    const auto axis = static_cast<size_t>(join->axis);
    if (is_whole(slice, axis) || slice.stop[axis] < 0) return std::nullopt;
    int64_t at = 0;
    for (const ValueId operand : graph.def_of(joined).operands) {
      const int64_t end = at + graph.values[operand].shape[axis].constant();
      if (slice.start[axis] >= at && slice.stop[axis] <= end) {
        SliceOp inner = slice;
        inner.start[axis] -= at;
        inner.stop[axis] -= at;
        return rewriter.append(std::move(inner), {operand});
      }
      at = end;
    }
    return std::nullopt;
  }

  /// A reduction along other axes than the one that its operand is joined along.
  static Replacements reduced_joined(Rewriter& rewriter, const Op& op, ValueId joined) {
    const Fusion& graph = rewriter.graph();
    const auto* join = graph.def_as<ConcatenateOp>(joined);
    if (join == nullptr) return std::nullopt;
    const std::vector<int>& reduced = reduced_axes(op.kind);
    if (std::ranges::find(reduced, join->axis) != reduced.end()) return std::nullopt;
    const auto before = std::ranges::count_if(reduced, [&](int axis) { return axis < join->axis; });
    const ConcatenateOp after{.axis = join->axis - static_cast<int>(before)};
    const std::vector<ValueId> operands = graph.def_of(joined).operands;
    if (operands.size() > kMostParts) return std::nullopt;
    std::vector<std::vector<ValueId>> parts(op.results.size());
    for (const ValueId operand : operands) {
      const std::vector<ValueId> made = rewriter.append(op.kind, {operand});
      for (size_t i = 0; i < made.size(); ++i) parts[i].push_back(made[i]);
    }
    std::vector<ValueId> out;
    for (std::vector<ValueId>& part : parts)
      out.push_back(rewriter.append(after, std::move(part)).front());
    return out;
  }

  /// An elementwise op on each operand of a concatenate.
  Replacements computed_joined(Rewriter& rewriter, const Op& op, ValueId joined) {
    const Op& join = fusion_.def_of(joined);
    if (join.operands.size() > kMostParts) return std::nullopt;
    const ConcatenateOp after = std::get<ConcatenateOp>(join.kind);
    const auto axis = static_cast<size_t>(after.axis);
    const std::vector<SliceOp> slices = places(join, axis);
    for (const ValueId operand : op.operands) {
      if (operand == joined || is_joined_alike(operand, join)) continue;
      if (!std::ranges::all_of(slices,
                               [&](const SliceOp& slice) { return parts_.can(operand, slice); }))
        return std::nullopt;
    }
    std::vector<ValueId> made;
    for (size_t i = 0; i < slices.size(); ++i) {
      std::vector<ValueId> operands;
      for (const ValueId operand : op.operands) {
        operands.push_back(operand == joined || is_joined_alike(operand, join)
                               ? rewriter.mapped(fusion_.def_of(operand).operands[i])
                               : parts_.make(rewriter, operand, slices[i]));
      }
      const DType type = fusion_.values[op.results.front()].type;
      made.push_back(rewriter.append(op.kind, std::move(operands), type).front());
    }
    return rewriter.append(after, std::move(made));
  }

  /// Where the operands of a concatenate lie in its result.
  [[nodiscard]] std::vector<SliceOp> places(const Op& join, size_t axis) const {
    std::vector<SliceOp> out;
    const Shape& shape = fusion_.values[join.results.front()].shape;
    if (join.operands.size() == 1) return {whole(shape.size())};
    int64_t at = 0;
    for (const ValueId operand : join.operands) {
      out.push_back(whole(shape.size()));
      out.back().start[axis] = at;
      at += fusion_.values[operand].shape[axis].constant();
      out.back().stop[axis] = at;
    }
    return out;
  }

  [[nodiscard]] bool is_joined_alike(ValueId value, const Op& join) const {
    const Op& other = fusion_.def_of(value);
    return other.kind == join.kind &&
           std::ranges::equal(other.operands, join.operands, [&](ValueId a, ValueId b) {
             return fusion_.values[a].shape == fusion_.values[b].shape;
           });
  }

  const Fusion& fusion_;
  Parted parted_;
  Parts parts_;
};

}  // namespace

std::optional<Fusion> place_parts(const Fusion& fusion) {
  const bool has_parts = std::ranges::any_of(fusion.ops, [](const Op& op) {
    return std::holds_alternative<SliceOp>(op.kind) ||
           std::holds_alternative<ConcatenateOp>(op.kind);
  });
  if (!has_parts) return std::nullopt;
  Placement placement(fusion);
  return rewrite(fusion, [&](Rewriter& rewriter, OpId id, std::span<const ValueId> operands) {
    return placement.decide(rewriter, id, operands);
  });
}

}  // namespace sinter
