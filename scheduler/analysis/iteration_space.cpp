#include "scheduler/analysis/iteration_space.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "fusion_ir/match.h"
#include "scheduler/analysis/axis_linking.h"
#include "scheduler/analysis/loop_choice.h"
#include "scheduler/analysis/tensor_views.h"

namespace sinter {
namespace {

/// Addresses tensors from loops that are chosen, and says what each value depends on.
class Analysis {
 public:
  Analysis(const Fusion& fusion, const LinkedAxes& linked, const TensorViews& views,
           LoopChoice loops)
      : fusion_(fusion),
        linked_(linked),
        classes_(linked.classes),
        axes_(linked.axes),
        views_(views),
        nodes_(std::move(loops.nodes)),
        inner_(loops.inner),
        outer_(std::move(loops.outer)) {
    space_.row_dimensions = loops.rows;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      space_.dimensions.push_back({classes_.size(nodes_[i]), inner_ && i >= space_.row_dimensions});
    }
  }

  tl::expected<IterationSpace, Rejection> run() {
    if (auto rejection = check_size()) return tl::make_unexpected(*rejection);
    fill_accesses();
    if (auto rejection = find_contraction()) return tl::make_unexpected(*rejection);
    if (auto rejection = find_dependences()) return tl::make_unexpected(*rejection);
    merge_dimensions();
    if (auto rejection = check_outputs()) return tl::make_unexpected(*rejection);
    return std::move(space_);
  }

 private:
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
    for (const uint32_t node : nodes_) access.strides.push_back(view.stride_of(node));
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
      // A contraction addresses its operands itself.
      if (views_.contains(op.results.front()) || std::holds_alternative<ContractOp>(op.kind))
        continue;
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
      space_.outputs.push_back(access_of(output, output_view(fusion_, linked_, i), alignment));
      Dependence coverage;
      for (const AxisList& axis : axes_[output]) {
        for (const uint32_t node : classes_.resolve(axis)) mark(coverage, node);
      }
      space_.output_coverage.push_back(coverage);
    }
  }

  /// Addresses the operands of the contraction, if there is one.
  std::optional<Rejection> find_contraction() {
    if (!linked_.contraction) return std::nullopt;
    const Op& op = fusion_.ops[*linked_.contraction];
    const auto& contract = std::get<ContractOp>(op.kind);
    ContractedSpace out;
    out.op = *linked_.contraction;
    out.value = op.results.front();
    const Shape space = space_of(contract, fusion_.values[op.operands[0]].shape,
                                 fusion_.values[op.operands[1]].shape);
    for (const int axis : contract.reduced)
      out.sizes.push_back(space[static_cast<size_t>(axis)].constant());
    auto left = operand_access(op, op.operands[0], contract.left, out.sizes.size());
    if (!left) return left.error();
    auto right = operand_access(op, op.operands[1], contract.right, out.sizes.size());
    if (!right) return right.error();
    const bool left_has_columns = std::ranges::any_of(contract.left, [&](int axis) {
      return std::ranges::find(contract.right, axis) == contract.right.end() &&
             is_column_axis(op.results.front(), axis);
    });
    out.rows = std::move(left_has_columns ? *right : *left);
    out.columns = std::move(left_has_columns ? *left : *right);
    space_.contraction = std::move(out);
    return std::nullopt;
  }

  /// True for an axis of a value that columns walk.
  [[nodiscard]] bool is_column_axis(ValueId value, int axis) const {
    if (static_cast<size_t>(axis) >= axes_[value].size()) return false;
    Dependence covered;
    for (const uint32_t node : classes_.resolve(axes_[value][static_cast<size_t>(axis)]))
      mark(covered, node);
    return covered.columns;
  }

  /// An operand of a contraction as the loops address it. `places` are its axes in the space of the
  /// contraction.
  [[nodiscard]] tl::expected<TensorAccess, Rejection> operand_access(const Op& op, ValueId operand,
                                                                     const std::vector<int>& places,
                                                                     size_t contracted) const {
    const auto found = views_.find(operand);
    if (found == views_.end()) {
      return tl::make_unexpected(
          reject_space("an operand of a contraction is computed by the same kernel", operand,
                       "none needed where the graph may be cut: a kernel before computes it"));
    }
    const View& view = found->second;
    TensorAccess access = access_of(operand, view, alignment_of(view));
    access.strides.assign(nodes_.size() + contracted, 0);
    const std::vector<AxisList>& result = axes_[op.results.front()];
    for (size_t axis = 0; axis < places.size(); ++axis) {
      std::optional<int64_t> stride =
          stride_along(view, classes_.resolve(axes_[operand][axis]), classes_);
      if (!stride) {
        return tl::make_unexpected(
            reject_space("an axis of a contraction is split by a reshape in memory", operand,
                         "reshape behind the contraction"));
      }
      const auto place = static_cast<size_t>(places[axis]);
      if (place >= result.size()) {
        access.strides[nodes_.size() + place - result.size()] = *stride;
        continue;
      }
      const AxisList walked = classes_.resolve(result[place]);
      for (size_t i = walked.size(); i-- > 0;) {
        const auto node = std::ranges::find(nodes_, walked[i]);
        SINTER_CHECK(node != nodes_.end(), "no loop walks an axis of {}", op.results.front());
        access.strides[static_cast<size_t>(node - nodes_.begin())] = *stride;
        *stride *= classes_.size(walked[i]);
      }
    }
    return access;
  }

  void mark(Dependence& dependence, uint32_t node) const {
    const auto found = std::ranges::find(nodes_, node);
    if (found == nodes_.end()) return;
    const bool is_row = static_cast<size_t>(found - nodes_.begin()) < space_.row_dimensions;
    (is_row ? dependence.rows : dependence.columns) = true;
  }

  std::optional<Rejection> find_dependences() {
    const size_t values = fusion_.values.size();
    space_.dependence = IdMap<ValueId, Dependence>(values);
    space_.after_rows = IdMap<ValueId, uint8_t>(values);
    IdMap<ValueId, uint8_t> after_columns(values);  // Computed from inner reductions.
    IdMap<ValueId, const View*> view_of(values);
    for (const auto& [value, view] : views_) view_of[value] = &view;
    for (const OpId id : fusion_.op_ids()) {
      const Op& op = fusion_.ops[id];
      Dependence dependence;
      const View* const view = view_of[op.results.front()];
      if (view != nullptr) {
        for (const auto& [node, stride] : view->strides) {
          if (stride != 0) mark(dependence, node);
        }
      } else if (const auto* iota = std::get_if<IotaOp>(&op.kind)) {
        const AxisList& axis = axes_[op.results.front()][static_cast<size_t>(iota->axis)];
        for (const uint32_t node : classes_.resolve(axis)) mark(dependence, node);
        space_.iota_weights[op.results.front()] = axis_weights(axis);
      } else if (std::holds_alternative<ContractOp>(op.kind)) {
        for (const AxisList& axis : axes_[op.results.front()]) {
          for (const uint32_t node : classes_.resolve(axis)) mark(dependence, node);
        }
      } else {
        for (const ValueId operand : op.operands) {
          dependence.rows |= space_.dependence[operand].rows;
          dependence.columns |= space_.dependence[operand].columns;
        }
      }
      bool after_rows = false;
      if (view == nullptr) {
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
    if (linked_.reduced.empty()) return find_gather(op, axis);
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
    const std::optional<int64_t> stride = stride_along(view, axis, classes_);
    if (!stride)
      return reject_space("a take gathers along an axis that a reshape split", result, kTakenApart);
    Gather gather{.access = {}, .stride = *stride, .size = 1};
    for (const uint32_t node : axis) {
      gather.size *= classes_.size(node);
      view.strides.erase(node);
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
      if (space_.contraction) {
        check(space_.contraction->rows.strides);
        check(space_.contraction->columns.strides);
      }
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
      if (space_.contraction) {
        drop(space_.contraction->rows.strides);
        drop(space_.contraction->columns.strides);
      }
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
    if (space_.contraction) merge_contracted(*space_.contraction);
  }

  /// Merges contracted loops that both operands walk as one, and counts the loops of the batch.
  void merge_contracted(ContractedSpace& contraction) const {
    const size_t loops = space_.dimensions.size();
    for (size_t i = 0; i + 1 < contraction.sizes.size();) {
      const auto collapses = [&](const TensorAccess& access) {
        return access.strides[loops + i] ==
               access.strides[loops + i + 1] * contraction.sizes[i + 1];
      };
      if (!collapses(contraction.rows) || !collapses(contraction.columns)) {
        ++i;
        continue;
      }
      for (TensorAccess* access : {&contraction.rows, &contraction.columns})
        access->strides.erase(access->strides.begin() + static_cast<ptrdiff_t>(loops + i));
      contraction.sizes[i + 1] *= contraction.sizes[i];
      contraction.sizes.erase(contraction.sizes.begin() + static_cast<ptrdiff_t>(i));
    }
    for (size_t i = 0; i < space_.row_dimensions; ++i) {
      if (contraction.columns.strides[i] != 0 && space_.dimensions[i].size > 1)
        contraction.batch_dimensions = i + 1;
    }
  }

  const Fusion& fusion_;
  const LinkedAxes& linked_;
  const AxisClasses& classes_;
  const ValueAxes& axes_;
  const TensorViews& views_;
  std::vector<uint32_t> nodes_;  ///< Class of each dimension.
  bool inner_;                   ///< Some reduction removes the columns.
  std::set<ValueId> outer_;      ///< Reductions that remove the rows, by first result.
  IterationSpace space_;
};

}  // namespace

const TensorAccess* IterationSpace::find_input(ValueId value) const {
  const uint32_t place = input_places[value];
  return place == 0 ? nullptr : &inputs[place - 1];
}

int64_t ContractedSpace::contracted() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> IterationSpace::loop_sizes() const {
  std::vector<int64_t> out;
  out.reserve(dimensions.size() + (contraction ? contraction->sizes.size() : 0));
  for (const Dimension& dimension : dimensions) out.push_back(dimension.size);
  if (contraction) out.insert(out.end(), contraction->sizes.begin(), contraction->sizes.end());
  return out;
}

tl::expected<IterationSpace, Rejection> iteration_space(const Fusion& fusion) {
  const auto linked = link_axes(fusion);
  if (!linked) return tl::make_unexpected(linked.error());
  const auto views = find_views(fusion, *linked);
  if (!views) return tl::make_unexpected(views.error());
  auto loops = choose_loops(fusion, *linked, *views);
  if (!loops) return tl::make_unexpected(loops.error());
  return Analysis(fusion, *linked, *views, *std::move(loops)).run();
}

}  // namespace sinter
