#include "scheduler/analysis/axis_linking.h"

#include <algorithm>
#include <utility>

#include "fusion_ir/match.h"

namespace sinter {
namespace {

class AxisLinker {
 public:
  explicit AxisLinker(const Fusion& fusion)
      : fusion_(fusion), linked_{.axes = ValueAxes(fusion.values.size())} {}

  tl::expected<LinkedAxes, Rejection> run() {
    for (const OpId id : fusion_.op_ids()) {
      if (auto rejection = link(id)) return tl::make_unexpected(*rejection);
    }
    join_parts();
    if (auto rejection = check_distinct()) return tl::make_unexpected(*rejection);
    return std::move(linked_);
  }

 private:
  std::vector<AxisList> fresh_axes(ValueId value) {
    const Shape& shape = fusion_.values[value].shape;
    std::vector<AxisList> out(shape.size());
    for (size_t axis = 0; axis < shape.size(); ++axis)
      linked_.classes.add_fresh_axis(shape[axis], out[axis]);
    return out;
  }

  std::optional<Rejection> link(OpId id) {
    const Op& op = fusion_.ops[id];
    const ValueId result = op.results.front();
    std::optional<Rejection> rejection;
    std::visit(
        overloaded{
            [&](const InputOp&) { linked_.axes.set(result, fresh_axes(result)); },
            [&](const IotaOp&) { linked_.axes.set(result, fresh_axes(result)); },
            [&](const ConstantOp&) {},
            [&](const ExtentOp&) {},
            [&](const PointwiseOp&) { rejection = link_pointwise(op); },
            [&](const CastOp&) { linked_.axes.share(result, op.operands[0]); },
            [&](const BroadcastOp& broadcast) { link_broadcast(op, broadcast); },
            [&](const ReduceOp&) { link_reduction(op); },
            [&](const WelfordOp&) { link_reduction(op); },
            [&](const LogSumExpOp&) { link_reduction(op); },
            [&](const TupleReduceOp&) { link_reduction(op); },
            [&](const TakeOp& take) { rejection = link_take(op, take); },
            [&](const PermuteOp& permute) { link_permute(op, permute); },
            [&](const ReshapeOp&) {
              linked_.axes.set(result, fresh_axes(result));
              if (!linked_.classes.unify(concatenated(linked_.axes[op.operands[0]]),
                                         concatenated(linked_.axes[result]))) {
                rejection = reject_space(
                    "a reshape regroups axes whose sizes do not divide each other", result,
                    "split and merge whole axes, or end the fusion before the reshape");
              }
            },
            [&](const SliceOp&) { link_slice(op); },
            [&](const ConcatenateOp&) {
              rejection = reject_space("a concatenate joins tensors along an axis", result,
                                       "end the fusion before it, and join the tensors in memory");
            },
            [&](const PadOp&) {
              rejection = reject_space("a pad adds elements around a tensor", result,
                                       "end the fusion before it, or select by an iota");
            },
            [&](const ContractOp&) {
              linked_.axes.set(result, fresh_axes(result));
              if (linked_.contraction)
                rejection = reject_space("a kernel computes one contraction", result,
                                         "end the fusion before it, and begin another behind it");
              linked_.contraction = id;
            },
            [&](const ExternalOp&) {
              rejection =
                  reject_space("an external call runs outside of any kernel", result,
                               "end the fusion before the call, and begin another behind it");
            },
        },
        op.kind);
    return rejection;
  }

  std::optional<Rejection> link_pointwise(const Op& op) {
    const ValueId result = op.results.front();
    linked_.axes.share(result, op.operands[0]);
    std::optional<Rejection> rejection;
    for (size_t i = 1; i < op.operands.size(); ++i) {
      if (unify_all(result, op.operands[i])) continue;
      rejection = reject_space("operands split one axis in ways that do not divide each other",
                               op.results.front(), "reshape both operands the same way");
    }
    return rejection;
  }

  std::optional<Rejection> link_take(const Op& op, const TakeOp& take) {
    std::vector<AxisList> out = linked_.axes[op.operands[0]];
    out.erase(out.begin() + take.axis);
    linked_.axes.set(op.results.front(), std::move(out));
    if (unify_all(op.results.front(), op.operands[1])) return std::nullopt;
    return reject_space("a take's index splits an axis in ways that do not divide those of x",
                        op.results.front(), "reshape both operands the same way");
  }

  /// False if some of the axes of `a` and `b` do not divide each other evenly.
  bool unify_all(ValueId a, ValueId b) {
    if (are_same(a, b))
      return true;  // The classes of two lists that are the same stay as they are.
    const std::vector<AxisList>& axes = linked_.axes[a];
    const std::vector<AxisList>& others = linked_.axes[b];
    bool divides = true;
    for (size_t axis = 0; axis < axes.size(); ++axis)
      divides &= linked_.classes.unify(axes[axis], others[axis]);
    const auto resolve = [&](const AxisList& axis) { return linked_.classes.resolve(axis); };
    if (std::ranges::equal(axes, others, {}, resolve, resolve)) linked_.axes.mark_same(a, b);
    return divides;
  }

  [[nodiscard]] bool are_same(ValueId a, ValueId b) const {
    return linked_.axes.representative(a) == linked_.axes.representative(b);
  }

  void link_permute(const Op& op, const PermuteOp& permute) {
    const std::vector<AxisList>& in = linked_.axes[op.operands[0]];
    std::vector<AxisList> out;
    for (const int axis : permute.order) out.push_back(in[static_cast<size_t>(axis)]);
    linked_.axes.set(op.results.front(), std::move(out));
  }

  void link_broadcast(const Op& op, const BroadcastOp& broadcast) {
    std::vector<AxisList> out = fresh_axes(op.results.front());
    const auto& in = linked_.axes[op.operands[0]];
    const Shape& in_shape = fusion_.values[op.operands[0]].shape;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in_shape[i].is_one()) out[static_cast<size_t>(broadcast.axes[i])] = in[i];
    }
    linked_.axes.set(op.results.front(), std::move(out));
  }

  void link_slice(const Op& op) {
    std::vector<AxisList> out = linked_.axes[op.operands[0]];
    for (size_t axis = 0; axis < out.size(); ++axis) {
      const Extent& extent = fusion_.values[op.results.front()].shape[axis];
      if (extent == fusion_.values[op.operands[0]].shape[axis]) continue;
      out[axis].clear();
      linked_.classes.add_fresh_axis(extent, out[axis]);
    }
    linked_.axes.set(op.results.front(), std::move(out));
  }

  void link_reduction(const Op& op) {
    const std::vector<AxisList>& in = linked_.axes[op.operands[0]];
    const std::vector<int>& reduced = reduced_axes(op.kind);
    std::vector<AxisList> kept;
    for (size_t axis = 0; axis < in.size(); ++axis) {
      if (std::ranges::find(reduced, static_cast<int>(axis)) == reduced.end()) {
        kept.push_back(in[axis]);
      } else {
        linked_.reduced.emplace_back(op.results.front(), in[axis]);
      }
    }
    linked_.axes.set(op.results.front(), std::move(kept));
    for (const ValueId result : op.results) linked_.axes.share(result, op.results.front());
  }

  /// Parts of the graph that share only their shape use the same loops: those of the first
  /// reduction's operand, or of the first output.
  void join_parts() {
    std::vector<const Op*> alike;  // The first reduction, and those that reduce the same axes.
    for (const OpId id : fusion_.op_ids()) {
      const Op& op = fusion_.ops[id];
      if (!is_reduction(op.kind)) continue;
      if (!alike.empty() && reduced_axes(op.kind) != reduced_axes(alike.front()->kind)) continue;
      for (const Op* other : alike) join(other->operands[0], op.operands[0]);
      for (const Op* other : alike) join_total(*other, op);
      alike.push_back(&op);
    }
    if (!alike.empty()) return;
    for (const ValueId output : fusion_.outputs) join(fusion_.outputs.front(), output);
  }

  void join(ValueId a, ValueId b) {
    if (are_same(a, b)) return;
    if (fusion_.values[a].shape != fusion_.values[b].shape || !may_join(a, b)) return;
    unify_all(a, b);
  }

  /// A total of values whose axes are all reduced uses the loops of the other reduction.
  void join_total(const Op& a, const Op& b) {
    const ValueId x = a.operands[0];
    const ValueId y = b.operands[0];
    if (are_same(x, y) || share_classes(x, y)) return;
    const std::vector<int>& reduced = reduced_axes(a.kind);
    if (reduced.size() != linked_.axes[x].size() && reduced.size() != linked_.axes[y].size())
      return;
    const auto same_size = [&](int axis) {
      const auto i = static_cast<size_t>(axis);
      return fusion_.values[x].shape[i] == fusion_.values[y].shape[i];
    };
    if (!std::ranges::all_of(reduced, same_size)) return;
    for (const int axis : reduced) {
      const auto i = static_cast<size_t>(axis);
      linked_.classes.unify(linked_.axes[x][i], linked_.axes[y][i]);
    }
  }

  /// True if no axis of one value shares a loop with a different axis of the other.
  [[nodiscard]] bool may_join(ValueId a, ValueId b) const {
    const auto spans = [&](const AxisList& axis, ValueId value) {
      const AxisList all = linked_.classes.resolve(concatenated(linked_.axes[value]));
      return std::ranges::any_of(
          axis, [&](uint32_t node) { return std::ranges::find(all, node) != all.end(); });
    };
    for (size_t axis = 0; axis < linked_.axes[a].size(); ++axis) {
      const AxisList mine = linked_.classes.resolve(linked_.axes[a][axis]);
      const AxisList other = linked_.classes.resolve(linked_.axes[b][axis]);
      if (mine != other && (spans(mine, b) || spans(other, a))) return false;
    }
    return true;
  }

  [[nodiscard]] bool share_classes(ValueId a, ValueId b) const {
    const auto all = [&](ValueId value) {
      return linked_.classes.resolve(concatenated(linked_.axes[value]));
    };
    const AxisList mine = all(a);
    return std::ranges::any_of(
        all(b), [&](uint32_t node) { return std::ranges::find(mine, node) != mine.end(); });
  }

  /// Rejects a value two of whose axes share a loop. No op yields a diagonal, so such a value would
  /// need two orders of one axis at once.
  [[nodiscard]] std::optional<Rejection> check_distinct() const {
    std::vector<uint8_t> is_checked;  // By representative.
    for (const ValueId value : fusion_.value_ids()) {
      const uint32_t list = linked_.axes.representative(value);
      if (list >= is_checked.size()) is_checked.resize(list + 1);
      if (std::exchange(is_checked[list], 1) != 0) continue;
      AxisList all = linked_.classes.resolve(concatenated(linked_.axes[value]));
      std::ranges::sort(all);
      if (std::ranges::adjacent_find(all) == all.end()) continue;
      return reject_space(
          "two axes would have to be walked as one: a value meets its own transpose", value,
          "transpose in a fusion of its own");
    }
    return std::nullopt;
  }

  const Fusion& fusion_;
  LinkedAxes linked_;
};

}  // namespace

tl::expected<LinkedAxes, Rejection> link_axes(const Fusion& fusion) {
  return AxisLinker(fusion).run();
}

Rejection reject_space(std::string rule, ValueId at, std::string remedy) {
  return rejected_at("iteration space", std::move(rule), at, std::move(remedy));
}

}  // namespace sinter
