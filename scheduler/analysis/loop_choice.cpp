#include "scheduler/analysis/loop_choice.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <utility>
#include <variant>

namespace sinter {
namespace {

bool contains(std::span<const uint32_t> nodes, uint32_t node) {
  return std::ranges::find(nodes, node) != nodes.end();
}

class LoopChooser {
 public:
  LoopChooser(const Fusion& fusion, const LinkedAxes& linked, const TensorViews& views)
      : fusion_(fusion),
        linked_(linked),
        classes_(linked.classes),
        axes_(linked.axes),
        reduced_lists_(linked.reduced),
        views_(views) {}

  tl::expected<LoopChoice, Rejection> run() {
    std::vector<uint32_t> walked = walked_classes(find_reduced());
    order(walked);
    std::vector<uint32_t> columns;
    if (linked_.contraction) {
      if (auto rejection = choose_contracted(walked, columns))
        return tl::make_unexpected(*rejection);
    } else if (auto rejection = choose_columns(walked, columns)) {
      return tl::make_unexpected(*rejection);
    }
    // Which operand of a contraction has the columns is settled.
    const ValueId uniform = linked_.contraction ? ValueId{} : uniform_outer(columns);
    if (uniform.valid()) {
      // The axes that such a reduction removes become the innermost loops, which makes it an inner
      // reduction.
      const std::vector<uint32_t>& removed = reduced_by_.at(uniform);
      std::ranges::stable_partition(walked,
                                    [&](uint32_t node) { return !contains(removed, node); });
      out_.inner = false;
      out_.outer.clear();
      if (auto rejection = choose_columns(walked, columns)) return tl::make_unexpected(*rejection);
    }
    for (const uint32_t node : walked) {
      if (!contains(columns, node)) out_.nodes.push_back(node);
    }
    out_.rows = out_.nodes.size();
    for (const uint32_t node : walked) {
      if (contains(columns, node)) out_.nodes.push_back(node);
    }
    if (auto rejection = check_index_order()) return tl::make_unexpected(*rejection);
    return std::move(out_);
  }

 private:
  /// Finds the classes that each reduction removes, and returns all of them.
  std::vector<uint32_t> find_reduced() {
    for (const auto& [result, axis] : reduced_lists_) {
      std::vector<uint32_t>& nodes = reduced_by_[result];  // Empty for an axis of one element.
      for (const uint32_t node : classes_.resolve(axis)) nodes.push_back(node);
    }
    std::vector<uint32_t> reduced;
    for (auto& [result, nodes] : reduced_by_) {
      std::ranges::sort(nodes);
      for (const uint32_t node : nodes) {
        if (!contains(reduced, node)) reduced.push_back(node);
      }
    }
    return reduced;
  }

  /// Classes that become loops: the reduced ones, then those of reduced values and of outputs.
  [[nodiscard]] std::vector<uint32_t> walked_classes(std::vector<uint32_t> walked) const {
    const auto walk = [&](ValueId value) {
      for (const AxisList& axis : axes_[value]) {
        for (const uint32_t node : classes_.resolve(axis)) {
          if (!contains(walked, node)) walked.push_back(node);
        }
      }
    };
    for (const OpId id : fusion_.op_ids()) {
      if (is_reduction(fusion_.ops[id].kind)) walk(fusion_.ops[id].operands[0]);
    }
    for (const ValueId output : fusion_.outputs) walk(output);
    return walked;
  }

  /// Sorts the loops from the outermost to the innermost.
  void order(std::vector<uint32_t>& walked) const {
    const ClassStrides strides = leading_strides(walked);
    const auto rank = [&](uint32_t node) {
      const auto found = strides.find(node);
      return found == strides.end() || found->second == 0 ? std::numeric_limits<int64_t>::max()
                                                          : found->second;
    };
    std::ranges::stable_sort(walked, [&](uint32_t a, uint32_t b) { return rank(a) > rank(b); });
    for (const auto& [result, axis] : reduced_lists_) {
      if (is_index_reduction(fusion_.def_of(result).kind))
        keep_order(classes_.resolve(axis), walked);
    }
  }

  /// Strides of the tensor that the loop order follows, which is the one that covers most: the
  /// first output, or for reductions the input, whose reads come first.
  [[nodiscard]] ClassStrides leading_strides(const std::vector<uint32_t>& walked) const {
    ClassStrides leading;
    double most = -1.0;
    double all = 1.0;  // No tensor covers more.
    for (const uint32_t node : walked)
      all *= static_cast<double>(std::max<int64_t>(classes_.size(node), 1));
    const auto consider = [&](const ClassStrides& strides) {
      double covered = 1.0;
      for (const uint32_t node : walked) {
        const auto found = strides.find(node);
        if (found != strides.end() && found->second != 0)
          covered *= static_cast<double>(std::max<int64_t>(classes_.size(node), 1));
      }
      if (covered > most) {
        most = covered;
        leading = strides;
      }
    };
    const auto consider_outputs = [&] {
      for (size_t i = 0; i < fusion_.outputs.size() && most < all; ++i)
        consider(output_view(fusion_, linked_, i).strides);
    };
    const bool reduces = !reduced_lists_.empty();  // Perhaps along axes of one element only.
    if (!reduces) consider_outputs();
    for (const auto& [value, view] : views_) {
      if (most < all) consider(view.strides);
    }
    consider_outputs();
    return leading;
  }

  /// Rejects index reductions whose axis the loops do not walk in the order of its indices. Two
  /// index reductions can number the same elements in different orders, as a matrix and its
  /// transpose flattened do.
  [[nodiscard]] std::optional<Rejection> check_index_order() const {
    for (const auto& [result, axis] : reduced_lists_) {
      if (!is_index_reduction(fusion_.def_of(result).kind)) continue;
      const AxisList numbered = classes_.resolve(axis);
      auto next = numbered.begin();
      for (const uint32_t node : out_.nodes) {
        if (next != numbered.end() && node == *next) ++next;
      }
      if (next == numbered.end()) continue;
      return reject_space(
          fmt::format(
              "index reduction {} numbers elements in another order than they are walked in",
              result),
          result, "put index reductions over different orders of axes into fusions of their own");
    }
    return std::nullopt;
  }

  /// Classes along which a value's elements differ. An input expanded with a stride of 0 does not
  /// vary along the axis.
  [[nodiscard]] std::set<uint32_t> varies_along(ValueId value) const {
    std::set<uint32_t> out;
    std::set<ValueId> seen;
    std::vector<ValueId> pending = {value};
    const auto add = [&](const AxisList& axis) {
      for (const uint32_t node : classes_.resolve(axis)) out.insert(node);
    };
    while (!pending.empty()) {
      const ValueId at = pending.back();
      pending.pop_back();
      if (!seen.insert(at).second) continue;
      const Op& op = fusion_.def_of(at);
      if (const auto view = views_.find(at); view != views_.end()) {
        for (const auto& [node, stride] : view->second.strides) {
          if (stride != 0) out.insert(node);
        }
      } else if (const auto* iota = std::get_if<IotaOp>(&op.kind)) {
        add(axes_[at][static_cast<size_t>(iota->axis)]);
      } else if (is_reduction(op.kind) || std::holds_alternative<TakeOp>(op.kind)) {
        for (const AxisList& axis : axes_[at]) add(axis);  // Some of these, at most.
      } else {
        pending.insert(pending.end(), op.operands.begin(), op.operands.end());
      }
    }
    return out;
  }

  /// An outer reduction of values that are the same in all columns, which every thread of the
  /// columns would repeat; invalid if there is none.
  [[nodiscard]] ValueId uniform_outer(const std::vector<uint32_t>& columns) const {
    ValueId uniform;
    for (const ValueId result : out_.outer) {
      if (classes_.resolve(concatenated(axes_[result])).empty()) continue;  // A total.
      const std::set<uint32_t> varies = varies_along(fusion_.def_of(result).operands[0]);
      // Another outer reduction would find its columns in place of its rows.
      if (std::ranges::any_of(columns, [&](uint32_t node) { return varies.contains(node); }))
        return {};
      uniform = result;
    }
    return uniform;
  }

  /// Chooses which of the loop classes, outermost first, are the columns. Reductions that remove
  /// the innermost class are inner ones, and must all remove the same classes. The others are outer
  /// ones, and must all remove the rest. If there are reductions over a part, one that removes
  /// everything is an outer one too.
  std::optional<Rejection> choose_columns(const std::vector<uint32_t>& walked,
                                          std::vector<uint32_t>& columns) {
    columns = walked;
    if (reduced_by_.empty()) return std::nullopt;
    if (walked.empty()) {  // One element in all: reductions over it count as inner.
      out_.inner = true;
      return std::nullopt;
    }
    // Reductions over axes of one element remove nothing. They count as inner if there are no
    // others, else as outer ones over a single row. They also count as outer ones if one of them is
    // a total of row values.
    const bool all_empty = std::ranges::all_of(reduced_by_, [&](const auto& entry) {
      const ValueId operand = fusion_.def_of(entry.first).operands[0];
      return entry.second.empty() && !classes_.resolve(concatenated(axes_[operand])).empty();
    });
    const uint32_t innermost = innermost_class(walked);
    const auto removes_part = [&](const auto& entry) {
      return !entry.second.empty() && entry.second.size() < walked.size();
    };
    const bool has_parts = std::ranges::any_of(reduced_by_, removes_part);
    const auto is_total = [&](const std::vector<uint32_t>& nodes) {
      return has_parts && nodes.size() == walked.size();
    };
    const auto is_inner = [&](const std::vector<uint32_t>& nodes) {
      return nodes.empty() ? all_empty : contains(nodes, innermost) && !is_total(nodes);
    };
    ValueId first;
    for (const auto& [result, nodes] : reduced_by_) {
      const bool inner = is_inner(nodes);
      if (!inner) continue;
      if (!out_.inner) {
        columns = nodes;
        first = result;
        out_.inner = true;
      } else if (nodes != columns) {
        return reject_space(
            fmt::format("reductions {} and {} remove different axes", first, result), result,
            "put reductions over different axes into fusions of their own");
      }
    }
    const auto is_outer_class = [&](uint32_t node) {
      return std::ranges::any_of(reduced_by_, [&](const auto& entry) {
        return !is_total(entry.second) && contains(entry.second, node);
      });
    };
    std::vector<uint32_t> rows;
    for (const uint32_t node : walked) {
      if (out_.inner ? !contains(columns, node) : is_outer_class(node)) rows.push_back(node);
    }
    std::ranges::sort(rows);
    for (const auto& [result, nodes] : reduced_by_) {
      if (is_inner(nodes)) continue;
      if (nodes != rows && !is_total(nodes)) {
        return reject_space(
            fmt::format("reduction {} removes neither all rows nor all columns", result), result,
            "put reductions over different axes into fusions of their own");
      }
      out_.outer.insert(result);
    }
    if (!out_.inner) std::erase_if(columns, [&](uint32_t node) { return contains(rows, node); });
    return check_outer_columns(columns);
  }

  /// Chooses the columns of a contraction: the axes of its result that only one operand has, those
  /// that reductions remove if there are any. Moves the axes that both operands have to the front
  /// of the loops.
  std::optional<Rejection> choose_contracted(std::vector<uint32_t>& walked,
                                             std::vector<uint32_t>& columns) {
    const Op& op = fusion_.ops[*linked_.contraction];
    const auto& contract = std::get<ContractOp>(op.kind);
    const ValueId result = op.results.front();
    std::vector<uint32_t> left;  // Classes that only the left operand has.
    std::vector<uint32_t> both;
    const auto has = [](const std::vector<int>& axes, size_t axis) {
      return std::ranges::find(axes, static_cast<int>(axis)) != axes.end();
    };
    std::vector<uint32_t> all;
    for (size_t axis = 0; axis < axes_[result].size(); ++axis) {
      for (const uint32_t node : classes_.resolve(axes_[result][axis])) {
        all.push_back(node);
        const bool in_left = has(contract.left, axis);
        const bool in_right = has(contract.right, axis);
        if (in_left && in_right) both.push_back(node);
        if (in_left && !in_right) left.push_back(node);
        if (!in_left) columns.push_back(node);
      }
    }
    if (walked.size() != all.size() ||
        !std::ranges::all_of(walked, [&](uint32_t node) { return contains(all, node); })) {
      return reject_space("an output has other axes than the contraction", result,
                          "give what has other axes a fusion of its own");
    }
    const auto innermost = std::ranges::find_if(
        walked.rbegin(), walked.rend(), [&](uint32_t node) { return !contains(both, node); });
    const bool left_is_inner = innermost != walked.rend() && contains(left, *innermost);
    const std::vector<uint32_t>& natural = left_is_inner ? left : columns;
    if (reduced_by_.empty() || are_outer(walked, natural)) {
      for (const auto& [reduced, nodes] : reduced_by_) out_.outer.insert(reduced);
      if (left_is_inner) columns = left;
    } else if (auto rejection = choose_reduced(left, columns, both)) {
      return rejection;
    }
    std::ranges::stable_partition(walked, [&](uint32_t node) { return contains(both, node); });
    return std::nullopt;
  }

  /// True if all reductions beside a contraction remove the rows of these columns, while elements
  /// are stored along them. Elements that follow from such a reduction, or none that are stored,
  /// make the rows the columns instead (choose_reduced).
  [[nodiscard]] bool are_outer(const std::vector<uint32_t>& walked,
                               const std::vector<uint32_t>& columns) const {
    std::vector<uint32_t> rows;
    for (const uint32_t node : walked) {
      if (!contains(columns, node)) rows.push_back(node);
    }
    std::ranges::sort(rows);
    const auto removes_rows = [&](const auto& entry) { return entry.second == rows; };
    const auto has_all = [&](ValueId value) {
      return classes_.resolve(concatenated(axes_[value])).size() == walked.size();
    };
    if (rows.empty() || !std::ranges::all_of(reduced_by_, removes_rows) ||
        !std::ranges::any_of(fusion_.outputs, has_all))
      return false;
    IdMap<ValueId, uint8_t> follows(fusion_.values.size());
    for (const OpId id : fusion_.op_ids()) {
      const Op& op = fusion_.ops[id];
      const bool of_reduction =
          is_reduction(op.kind) ||
          std::ranges::any_of(op.operands, [&](ValueId operand) { return follows[operand] != 0; });
      for (const ValueId result : op.results) follows[result] = of_reduction ? 1 : 0;
      if (of_reduction && has_all(op.results.front())) return false;
    }
    return true;
  }

  /// Makes the axes that all reductions beside a contraction remove its columns: axes that only
  /// the left operand has, or only the right one, which are in `columns`. Of a part of an operand's
  /// axes, the others join those of the batch, `both`: each of their elements is a contraction of
  /// its own, with other columns and the same rows.
  std::optional<Rejection> choose_reduced(const std::vector<uint32_t>& left,
                                          std::vector<uint32_t>& columns,
                                          std::vector<uint32_t>& both) {
    const auto& [first, nodes] = *reduced_by_.begin();
    const auto has_all = [&](const std::vector<uint32_t>& operand) {
      return std::ranges::all_of(nodes, [&](uint32_t node) { return contains(operand, node); });
    };
    const std::vector<uint32_t>& reduced_operand = has_all(left) ? left : columns;
    for (const auto& [result, removed] : reduced_by_) {
      if (removed == nodes && !nodes.empty() && has_all(reduced_operand)) continue;
      return reject_space(
          fmt::format("reduction {} beside a contraction removes other axes than those of one "
                      "operand",
                      result),
          result, "none needed where the graph may be cut: another kernel reduces");
    }
    for (const uint32_t node : reduced_operand) {
      if (!contains(nodes, node)) both.push_back(node);
    }
    columns = nodes;
    out_.inner = true;
    return std::nullopt;
  }

  /// Rejects a reduction over the rows that keeps only some of the columns: it would be repeated
  /// for each of the others.
  [[nodiscard]] std::optional<Rejection> check_outer_columns(
      const std::vector<uint32_t>& columns) const {
    for (const ValueId result : out_.outer) {
      const AxisList kept = classes_.resolve(concatenated(axes_[result]));
      const auto is_kept = [&](uint32_t node) {
        return std::ranges::find(kept, node) != kept.end();
      };
      if (kept.empty() || std::ranges::all_of(columns, is_kept)) continue;
      Rejection rejection = reject_space(
          fmt::format("reduction {} over the rows keeps only some of the columns", result), result,
          "put what has further axes into a fusion of its own");
      rejection.value = static_cast<double>(kept.size());
      rejection.limit = static_cast<double>(columns.size());
      rejection.unit = "axes";
      return rejection;
    }
    return std::nullopt;
  }

  /// Reorders the classes of an axis among the loops into their order in the axis, so that an
  /// element's position among the reduced ones is its index.
  static void keep_order(const AxisList& axis, std::vector<uint32_t>& walked) {
    auto next = axis.begin();
    for (uint32_t& node : walked) {
      if (std::ranges::find(axis, node) != axis.end()) node = *next++;
    }
  }

  /// The innermost loop class. Without elements, strides are meaningless; it is then the last class
  /// of the first reduced value that has the most axes.
  uint32_t innermost_class(const std::vector<uint32_t>& walked) const {
    const bool empty =
        std::ranges::any_of(walked, [&](uint32_t node) { return classes_.size(node) == 0; });
    if (!empty) return walked.back();
    AxisList most;
    for (const OpId id : fusion_.op_ids()) {
      const Op& op = fusion_.ops[id];
      if (!is_reduction(op.kind)) continue;
      const AxisList axes = classes_.resolve(concatenated(axes_[op.operands[0]]));
      if (axes.size() > most.size()) most = axes;
    }
    return most.empty() ? walked.back() : most.back();
  }

  const Fusion& fusion_;
  const LinkedAxes& linked_;
  const AxisClasses& classes_;
  const ValueAxes& axes_;
  const std::vector<std::pair<ValueId, AxisList>>& reduced_lists_;
  const TensorViews& views_;
  /// Classes that a reduction removes, by its first result.
  std::map<ValueId, std::vector<uint32_t>> reduced_by_;
  LoopChoice out_;
};

}  // namespace

tl::expected<LoopChoice, Rejection> choose_loops(const Fusion& fusion, const LinkedAxes& linked,
                                                 const TensorViews& views) {
  return LoopChooser(fusion, linked, views).run();
}

}  // namespace sinter
