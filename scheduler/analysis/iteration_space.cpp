#include "scheduler/analysis/iteration_space.h"

#include <algorithm>
#include <boost/container/flat_map.hpp>
#include <boost/container/small_vector.hpp>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "fusion_ir/match.h"
#include "scheduler/analysis/axis_linking.h"

namespace sinter {
namespace {

/// Strides by axis class. A missing class has stride 0.
using ClassStrides =
    boost::container::flat_map<uint32_t, int64_t, std::less<>,
                               boost::container::small_vector<std::pair<uint32_t, int64_t>, 3>>;

/// The memory layout of a value.
struct View {
  ValueId tensor;
  int64_t offset = 0;
  ClassStrides strides;
};

class Analysis {
 public:
  Analysis(const Fusion& fusion, LinkedAxes linked)
      : fusion_(fusion),
        classes_(std::move(linked.classes)),
        axes_(std::move(linked.axes)),
        reduced_lists_(std::move(linked.reduced)) {}

  tl::expected<IterationSpace, Rejection> run() {
    for (const OpId id : fusion_.op_ids()) {
      if (auto rejection = find_views(fusion_.ops[id])) return tl::make_unexpected(*rejection);
    }
    if (auto rejection = choose_dimensions()) return tl::make_unexpected(*rejection);
    if (auto rejection = check_size()) return tl::make_unexpected(*rejection);
    fill_accesses();
    if (auto rejection = find_dependences()) return tl::make_unexpected(*rejection);
    merge_dimensions();
    if (auto rejection = check_outputs()) return tl::make_unexpected(*rejection);
    return std::move(space_);
  }

 private:
  // ---- Views: values that are addresses into an input rather than computed

  std::optional<Rejection> find_views(const Op& op) {
    const ValueId result = op.results.front();
    if (std::holds_alternative<InputOp>(op.kind)) {
      // Strides are meaningless for a tensor without elements, even as a sign that it repeats.
      const bool is_empty = is_always_empty(fusion_.values[result].shape);
      const std::span<const Extent> strides = std::get<InputOp>(op.kind).strides;
      views_[result] = whole_view(result, is_empty ? std::span<const Extent>() : strides);
      return std::nullopt;
    }
    const bool moves = std::holds_alternative<PermuteOp>(op.kind) ||
                       std::holds_alternative<ReshapeOp>(op.kind) ||
                       std::holds_alternative<BroadcastOp>(op.kind);
    if (moves && views_.contains(op.operands[0])) {
      views_[result] = views_.at(op.operands[0]);
      return std::nullopt;
    }
    const auto* slice = std::get_if<SliceOp>(&op.kind);
    if (slice == nullptr) return std::nullopt;
    const auto found = views_.find(op.operands[0]);
    if (found == views_.end()) {
      return reject_space(
          "a slice takes part of a computed value", result,
          "slice the inputs it is computed from, or make the value an output of its own fusion");
    }
    View view{.tensor = found->second.tensor, .offset = found->second.offset, .strides = {}};
    for (size_t axis = 0; axis < slice->start.size(); ++axis) {
      const AxisList in = classes_.resolve(axes_[op.operands[0]][axis]);
      const AxisList out = classes_.resolve(axes_[result][axis]);
      if (in == out && slice->start[axis] == 0 && slice->step[axis] == 1) {
        for (const uint32_t node : in) view.strides[node] = stride_of(found->second, node);
        continue;
      }
      // The sliced axis must have a single stride, or the start has no single offset.
      int64_t stride = in.empty() ? 0 : stride_of(found->second, in.back());
      int64_t expected = stride;
      for (size_t i = in.size(); i-- > 0;) {
        if (stride_of(found->second, in[i]) != expected) {
          return reject_space("a slice cuts an axis that a reshape split", result,
                              "slice before reshaping");
        }
        expected *= classes_.size(in[i]);
      }
      view.offset += slice->start[axis] * stride;
      stride *= slice->step[axis];
      for (size_t i = out.size(); i-- > 0;) {
        view.strides[out[i]] = stride;
        stride *= classes_.size(out[i]);
      }
    }
    views_[result] = view;
    return std::nullopt;
  }

  static int64_t stride_of(const View& view, uint32_t node) {
    const auto found = view.strides.find(node);
    return found == view.strides.end() ? 0 : found->second;
  }

  // ---- Dimensions

  std::optional<Rejection> choose_dimensions() {
    // Classes that each reduction removes.
    for (const auto& [result, axis] : reduced_lists_) {
      std::vector<uint32_t>& nodes = reduced_by_[result];  // Empty for an axis of one element.
      for (const uint32_t node : classes_.resolve(axis)) nodes.push_back(node);
    }
    std::vector<uint32_t> reduced;
    for (auto& [result, nodes] : reduced_by_) {
      std::ranges::sort(nodes);
      for (const uint32_t node : nodes) {
        if (std::ranges::find(reduced, node) == reduced.end()) reduced.push_back(node);
      }
    }

    // Classes that become loops: those of outputs and of reduced values.
    std::vector<uint32_t> walked = reduced;
    const auto walk = [&](ValueId value) {
      for (const AxisList& axis : axes_[value]) {
        for (const uint32_t node : classes_.resolve(axis)) {
          if (std::ranges::find(walked, node) == walked.end()) walked.push_back(node);
        }
      }
    };
    for (const OpId id : fusion_.op_ids()) {
      if (is_reduction(fusion_.ops[id].kind)) walk(fusion_.ops[id].operands[0]);
    }
    for (const ValueId output : fusion_.outputs) walk(output);

    // The loop order follows the tensor that covers most: the first output, or for reductions the
    // input, whose reads come first.
    ClassStrides order;
    double most = -1.0;
    const auto consider = [&](const ClassStrides& strides) {
      double covered = 1.0;
      for (const uint32_t node : walked) {
        const auto found = strides.find(node);
        if (found != strides.end() && found->second != 0)
          covered *= static_cast<double>(std::max<int64_t>(classes_.size(node), 1));
      }
      if (covered > most) {
        most = covered;
        order = strides;
      }
    };
    const auto consider_outputs = [&] {
      for (size_t i = 0; i < fusion_.outputs.size(); ++i) consider(output_view(i).strides);
    };
    const bool reduces = !reduced_lists_.empty();  // Perhaps along axes of one element only.
    if (!reduces) consider_outputs();
    for (const auto& [value, view] : views_) consider(view.strides);
    consider_outputs();

    const auto rank = [&](uint32_t node) {
      const auto found = order.find(node);
      return found == order.end() || found->second == 0 ? std::numeric_limits<int64_t>::max()
                                                        : found->second;
    };
    std::ranges::stable_sort(walked, [&](uint32_t a, uint32_t b) { return rank(a) > rank(b); });
    for (const auto& [result, axis] : reduced_lists_) {
      if (is_index_reduction(fusion_.def_of(result).kind))
        keep_order(classes_.resolve(axis), walked);
    }
    std::vector<uint32_t> columns;
    if (auto rejection = choose_columns(walked, columns)) return rejection;
    if (const ValueId uniform = uniform_outer(columns); uniform.valid()) {
      // The axes that such a reduction removes become the innermost loops, which makes it an inner
      // reduction.
      const std::vector<uint32_t>& removed = reduced_by_.at(uniform);
      std::ranges::stable_partition(
          walked, [&](uint32_t node) { return std::ranges::find(removed, node) == removed.end(); });
      inner_ = false;
      outer_.clear();
      if (auto rejection = choose_columns(walked, columns)) return rejection;
    }
    const auto is_column = [&](uint32_t node) {
      return std::ranges::find(columns, node) != columns.end();
    };
    for (const uint32_t node : walked) {
      if (!is_column(node)) nodes_.push_back(node);
    }
    space_.row_dimensions = nodes_.size();
    for (const uint32_t node : walked) {
      if (is_column(node)) nodes_.push_back(node);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      space_.dimensions.push_back({classes_.size(nodes_[i]), inner_ && i >= space_.row_dimensions});
    }
    return check_index_order();
  }

  /// Rejects index reductions whose axis the loops do not walk in the order of its indices. Two
  /// index reductions can number the same elements in different orders, as a matrix and its
  /// transpose flattened do.
  [[nodiscard]] std::optional<Rejection> check_index_order() const {
    for (const auto& [result, axis] : reduced_lists_) {
      if (!is_index_reduction(fusion_.def_of(result).kind)) continue;
      const AxisList numbered = classes_.resolve(axis);
      auto next = numbered.begin();
      for (const uint32_t node : nodes_) {
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
    for (const ValueId result : outer_) {
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
      inner_ = true;
      return std::nullopt;
    }
    const auto contains = [](const std::vector<uint32_t>& nodes, uint32_t node) {
      return std::ranges::find(nodes, node) != nodes.end();
    };
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
      if (!inner_) {
        columns = nodes;
        first = result;
        inner_ = true;
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
      if (inner_ ? !contains(columns, node) : is_outer_class(node)) rows.push_back(node);
    }
    std::ranges::sort(rows);
    for (const auto& [result, nodes] : reduced_by_) {
      if (is_inner(nodes)) continue;
      if (nodes != rows && !is_total(nodes)) {
        return reject_space(
            fmt::format("reduction {} removes neither all rows nor all columns", result), result,
            "put reductions over different axes into fusions of their own");
      }
      outer_.insert(result);
    }
    if (!inner_) std::erase_if(columns, [&](uint32_t node) { return contains(rows, node); });
    return check_outer_columns(columns);
  }

  /// Rejects a reduction over the rows that keeps only some of the columns: it would be repeated
  /// for each of the others.
  [[nodiscard]] std::optional<Rejection> check_outer_columns(
      const std::vector<uint32_t>& columns) const {
    for (const ValueId result : outer_) {
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

  /// Rejects sizes that, times the threads of a block and the bytes of an element, would exceed 63
  /// bits.
  [[nodiscard]] std::optional<Rejection> check_size() const {
    constexpr double kMostElements = 281474976710656.0;  // 2^48: 256 TiB of bytes.
    double elements = 1.0;
    bool is_empty = false;
    for (const Dimension& dimension : space_.dimensions) {
      is_empty |= dimension.size == 0;
      elements *= static_cast<double>(std::max<int64_t>(dimension.size, 1));
    }
    if (elements <= kMostElements) return std::nullopt;
    Rejection rejection =
        is_empty
            ? reject_space("the loops of a tensor without elements are longer than a device counts",
                           fusion_.outputs.front(), "shorten the axes beside the empty one")
            : reject_space("the loops cover more elements than a device could hold",
                           fusion_.outputs.front(), "split the tensors");
    rejection.value = elements;
    rejection.limit = kMostElements;
    rejection.unit = "elements";
    return rejection;
  }

  /// The layout of a whole tensor as strides by class. `strides` are those of its axes, as for an
  /// input or an output; empty if it is dense.
  [[nodiscard]] View whole_view(ValueId tensor, std::span<const Extent> strides) const {
    View view{.tensor = tensor, .offset = 0, .strides = {}};
    int64_t stride = 1;
    for (size_t axis = axes_[tensor].size(); axis-- > 0;) {
      if (!strides.empty()) stride = strides[axis].constant();
      const AxisList resolved = classes_.resolve(axes_[tensor][axis]);
      for (size_t i = resolved.size(); i-- > 0;) {
        view.strides[resolved[i]] = stride;
        stride *= classes_.size(resolved[i]);
      }
    }
    return view;
  }

  [[nodiscard]] View output_view(size_t output) const {
    std::span<const Extent> strides;
    if (!fusion_.layouts.empty()) strides = fusion_.layouts[output].strides;
    return whole_view(fusion_.outputs[output], strides);
  }

  /// Guaranteed alignment of the input under a view.
  [[nodiscard]] int64_t alignment_of(const View& view) const {
    return fusion_.def_as<InputOp>(view.tensor)->alignment;
  }

  [[nodiscard]] TensorAccess access_of(ValueId value, const View& view, int64_t alignment) const {
    TensorAccess access{.value = value,
                        .tensor = view.tensor,
                        .offset = view.offset,
                        .strides = {},
                        .element_bytes = bytes_of(fusion_.values[value].type),
                        .alignment = alignment};
    access.strides.reserve(nodes_.size());
    for (const uint32_t node : nodes_) access.strides.push_back(stride_of(view, node));
    return access;
  }

  [[nodiscard]] std::vector<int64_t> axis_weights(const AxisList& axis) const {
    std::vector<int64_t> weights(nodes_.size(), 0);
    const AxisList resolved = classes_.resolve(axis);
    int64_t weight = 1;
    for (size_t i = resolved.size(); i-- > 0;) {
      const auto found = std::ranges::find(nodes_, resolved[i]);
      if (found != nodes_.end()) weights[static_cast<size_t>(found - nodes_.begin())] = weight;
      weight *= classes_.size(resolved[i]);
    }
    return weights;
  }

  void fill_accesses() {
    IdMap<ValueId, uint8_t> is_needed(fusion_.values.size());  // By an op or the caller.
    for (const Op& op : fusion_.ops) {
      if (views_.contains(op.results.front())) continue;
      for (const ValueId operand : op.operands) is_needed[operand] = 1;
    }
    for (const ValueId output : fusion_.outputs) is_needed[output] = 1;
    space_.input_places = IdMap<ValueId, uint32_t>(fusion_.values.size());
    for (const auto& [value, view] : views_) {
      if (is_needed[value] == 0) continue;
      space_.inputs.push_back(access_of(value, view, alignment_of(view)));
      space_.input_places[value] = static_cast<uint32_t>(space_.inputs.size());
    }
    for (size_t i = 0; i < fusion_.outputs.size(); ++i) {
      const ValueId output = fusion_.outputs[i];
      const int64_t alignment =
          fusion_.layouts.empty() ? OutputLayout{}.alignment : fusion_.layouts[i].alignment;
      space_.outputs.push_back(access_of(output, output_view(i), alignment));
      Dependence coverage;
      for (const AxisList& axis : axes_[output]) {
        for (const uint32_t node : classes_.resolve(axis)) mark(coverage, node);
      }
      space_.output_coverage.push_back(coverage);
    }
  }

  void mark(Dependence& dependence, uint32_t node) const {
    const auto found = std::ranges::find(nodes_, node);
    if (found == nodes_.end()) return;
    const bool is_row = static_cast<size_t>(found - nodes_.begin()) < space_.row_dimensions;
    (is_row ? dependence.rows : dependence.columns) = true;
  }

  std::optional<Rejection> find_dependences() {
    IdMap<ValueId, uint8_t> after_columns;  // Computed from inner reductions.
    for (const OpId id : fusion_.op_ids()) {
      const Op& op = fusion_.ops[id];
      Dependence dependence;
      if (const auto found = views_.find(op.results.front()); found != views_.end()) {
        for (const auto& [node, stride] : found->second.strides) {
          if (stride != 0) mark(dependence, node);
        }
      } else if (const auto* iota = std::get_if<IotaOp>(&op.kind)) {
        const AxisList& axis = axes_[op.results.front()][static_cast<size_t>(iota->axis)];
        for (const uint32_t node : classes_.resolve(axis)) mark(dependence, node);
        space_.iota_weights[op.results.front()] = axis_weights(axis);
      } else {
        for (const ValueId operand : op.operands) {
          dependence.rows |= space_.dependence[operand].rows;
          dependence.columns |= space_.dependence[operand].columns;
        }
      }
      bool after_rows = false;
      if (!views_.contains(op.results.front())) {
        for (const ValueId operand : op.operands) after_rows |= space_.after_rows[operand] != 0;
      }
      if (after_rows && dependence.rows) {
        return reject_space("a row needs the result of a reduction over all rows",
                            op.results.front(),
                            "put what uses the reduced value into a fusion of its own");
      }
      bool needs_columns = false;
      for (const ValueId operand : op.operands) needs_columns |= after_columns[operand] != 0;
      if (after_rows && needs_columns) {
        // The finish of outer reductions walks no rows, so it cannot reduce any.
        return reject_space(
            "what follows from all rows needs the result of a reduction along the columns",
            op.results.front(), "put what uses both into a fusion of its own");
      }
      if (outer_.contains(op.results.front())) {
        if (after_rows) {
          return reject_space("a reduction over the rows waits for another one", op.results.front(),
                              "put the second reduction into a fusion of its own");
        }
        dependence.rows = false;
        after_rows = true;
        needs_columns = false;  // All rows have contributed.
        OuterReduction& gives = space_.outer[op.results.front()];
        gives = outer_kind(op);
        if (gives != OuterReduction::kColumns) dependence.columns = false;
      } else if (is_reduction(op.kind)) {
        if (after_rows) {
          return reject_space("a reduction along the columns waits for one over the rows",
                              op.results.front(),
                              "put the second reduction into a fusion of its own");
        }
        dependence.columns = false;
        needs_columns = true;
      }
      for (const ValueId result : op.results) {
        space_.after_rows[result] = after_rows ? 1 : 0;
        after_columns[result] = needs_columns ? 1 : 0;
      }
      if (const auto* take = std::get_if<TakeOp>(&op.kind)) {
        if (auto rejection = find_take(op, *take)) return rejection;
        const ValueId result = op.results.front();
        dependence = space_.dependence[op.operands[1]];
        if (const auto found = space_.gathers.find(result); found != space_.gathers.end()) {
          for (size_t i = 0; i < nodes_.size(); ++i) {
            if (found->second.access.strides[i] != 0) mark(dependence, nodes_[i]);
          }
        } else {
          dependence.rows |= space_.dependence[op.operands[0]].rows;
        }
      }
      for (const ValueId result : op.results) space_.dependence[result] = dependence;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool covers_columns(ValueId value) const {
    Dependence covered;
    for (const AxisList& axis : axes_[value]) {
      for (const uint32_t node : classes_.resolve(axis)) mark(covered, node);
    }
    return covered.columns;
  }

  [[nodiscard]] OuterReduction outer_kind(const Op& op) const {
    if (covers_columns(op.results.front())) return OuterReduction::kColumns;
    return covers_columns(op.operands.front()) ? OuterReduction::kElements
                                               : OuterReduction::kRowValues;
  }

  /// Accepts a gather in two cases: the gathered axis is all of the columns, so that the index
  /// replaces the column coordinate; or there are no reductions, and an element's address follows
  /// from its index.
  std::optional<Rejection> find_take(const Op& op, const TakeOp& take) {
    const ValueId result = op.results.front();
    const AxisList axis = classes_.resolve(axes_[op.operands[0]][static_cast<size_t>(take.axis)]);
    if (reduced_lists_.empty()) return find_gather(op, axis);
    if (space_.after_rows[op.operands[0]] != 0 || space_.after_rows[op.operands[1]] != 0) {
      // The finish of outer reductions has only its own columns available.
      return reject_space("a take needs the result of a reduction over all rows", result,
                          kTakenApart);
    }
    const AxisList columns(nodes_.begin() + static_cast<ptrdiff_t>(space_.row_dimensions),
                           nodes_.end());
    if (axis != columns) {
      return reject_space("a take gathers along another axis than that of the columns", result,
                          kTakenApart);
    }
    space_.take_weights[result] =
        axis_weights(axes_[op.operands[0]][static_cast<size_t>(take.axis)]);
    return std::nullopt;
  }

  static constexpr const char* kTakenApart =
      "none needed where the graph may be cut: a kernel of its own runs it";

  std::optional<Rejection> find_gather(const Op& op, const AxisList& axis) {
    const ValueId result = op.results.front();
    const auto found = views_.find(op.operands[0]);
    if (found == views_.end())
      return reject_space("a take gathers from a value that the same kernel computes", result,
                          kTakenApart);
    View view = found->second;
    Gather gather{.access = {}, .stride = 0, .size = 1};
    int64_t expected = axis.empty() ? 0 : stride_of(view, axis.back());
    gather.stride = expected;
    for (size_t i = axis.size(); i-- > 0;) {
      if (stride_of(view, axis[i]) != expected)
        return reject_space("a take gathers along an axis that a reshape split", result,
                            kTakenApart);
      expected *= classes_.size(axis[i]);
      gather.size *= classes_.size(axis[i]);
      view.strides.erase(axis[i]);
    }
    gather.access = access_of(op.operands[0], view, alignment_of(view));
    space_.gathers.emplace(result, std::move(gather));
    return std::nullopt;
  }

  [[nodiscard]] bool is_empty(ValueId value) const {
    return element_count(fusion_.values[value].shape) == 0;
  }

  /// Rejects an output that varies along only some of the columns, which several threads would
  /// store, and an output with elements in loops without any, which no thread would store.
  [[nodiscard]] std::optional<Rejection> check_outputs() const {
    for (size_t i = 0; i < fusion_.outputs.size(); ++i) {
      const ValueId output = fusion_.outputs[i];
      if (is_empty(output)) continue;
      const bool is_after_rows = space_.after_rows[output] != 0;
      if (is_after_rows && space_.output_coverage[i].rows) {
        return reject_space("a row needs the result of a reduction over all rows", output,
                            "put what uses the reduced value into a fusion of its own");
      }
      if (space_.rows == 0 && !is_after_rows) {
        return reject_space(fmt::format("output {} has elements, and there are no rows", output),
                            output, "give empty tensors fusions of their own");
      }
      // If no reduction removes the columns, columns are distributed over blocks.
      if (space_.columns == 0 && !inner_) {
        return reject_space(fmt::format("output {} has elements, and there are no columns", output),
                            output, "give empty tensors fusions of their own");
      }
      const std::vector<int64_t>& strides = space_.outputs[i].strides;
      if (!space_.output_coverage[i].columns) continue;
      for (size_t dimension = space_.row_dimensions; dimension < strides.size(); ++dimension) {
        if (strides[dimension] != 0 || space_.dimensions[dimension].size == 1) continue;
        Rejection rejection = reject_space(
            fmt::format("output {} spans only part of the columns", fusion_.outputs[i]),
            fusion_.outputs[i], "give outputs of different shapes fusions of their own");
        rejection.value = static_cast<double>(dimension - space_.row_dimensions);
        rejection.limit = static_cast<double>(strides.size() - space_.row_dimensions);
        rejection.unit = "dimensions";
        return rejection;
      }
    }
    return std::nullopt;
  }

  /// Merges adjacent dimensions that every tensor walks as one.
  void merge_dimensions() {
    const auto collapses = [](const std::vector<int64_t>& strides, size_t outer,
                              int64_t inner_size) {
      return strides[outer] == strides[outer + 1] * inner_size;
    };
    for (size_t i = 0; i + 1 < space_.dimensions.size();) {
      const int64_t inner_size = space_.dimensions[i + 1].size;
      bool mergeable = space_.dimensions[i].reduced == space_.dimensions[i + 1].reduced &&
                       i + 1 != space_.row_dimensions;
      const auto check = [&](const std::vector<int64_t>& strides) {
        mergeable = mergeable && (strides.empty() || collapses(strides, i, inner_size));
      };
      for (const TensorAccess& access : space_.inputs) check(access.strides);
      for (const TensorAccess& access : space_.outputs) check(access.strides);
      for (const auto& [value, gather] : space_.gathers) check(gather.access.strides);
      for (const ValueId value : fusion_.value_ids()) {
        check(std::as_const(space_.iota_weights)[value]);
        check(std::as_const(space_.take_weights)[value]);
      }
      if (!mergeable) {
        ++i;
        continue;
      }
      const auto drop = [&](std::vector<int64_t>& strides) {
        if (!strides.empty()) strides.erase(strides.begin() + static_cast<ptrdiff_t>(i));
      };
      for (TensorAccess& access : space_.inputs) drop(access.strides);
      for (TensorAccess& access : space_.outputs) drop(access.strides);
      for (auto& [value, gather] : space_.gathers) drop(gather.access.strides);
      for (const ValueId value : fusion_.value_ids()) {
        if (!std::as_const(space_.iota_weights)[value].empty()) drop(space_.iota_weights[value]);
        if (!std::as_const(space_.take_weights)[value].empty()) drop(space_.take_weights[value]);
      }
      space_.dimensions[i + 1].size *= space_.dimensions[i].size;
      space_.dimensions.erase(space_.dimensions.begin() + static_cast<ptrdiff_t>(i));
      if (i < space_.row_dimensions) --space_.row_dimensions;
    }
    for (size_t i = 0; i < space_.dimensions.size(); ++i) {
      (i < space_.row_dimensions ? space_.rows : space_.columns) *= space_.dimensions[i].size;
    }
  }

  const Fusion& fusion_;
  AxisClasses classes_;
  IdMap<ValueId, std::vector<AxisList>> axes_;
  std::vector<std::pair<ValueId, AxisList>> reduced_lists_;
  std::map<ValueId, std::vector<uint32_t>>
      reduced_by_;           ///< Classes, by a reduction's first result.
  std::set<ValueId> outer_;  ///< Reductions that remove the rows, by first result.
  bool inner_ = false;       ///< Some reduction removes the columns.
  std::map<ValueId, View> views_;
  std::vector<uint32_t> nodes_;  ///< Class of each dimension.
  IterationSpace space_;
};

}  // namespace

const TensorAccess* IterationSpace::find_input(ValueId value) const {
  const uint32_t place = input_places[value];
  return place == 0 ? nullptr : &inputs[place - 1];
}

tl::expected<IterationSpace, Rejection> iteration_space(const Fusion& fusion) {
  auto linked = link_axes(fusion);
  if (!linked) return tl::make_unexpected(linked.error());
  return Analysis(fusion, *std::move(linked)).run();
}

}  // namespace sinter
