#include "tests/campaign/minimise.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "fusion_ir/fusion_builder.h"

namespace sinter {
namespace {

/// A change of a graph, op by op; what is left empty changes nothing.
struct Edit {
  /// Values of the source that take the place of a value, which has their type and shape.
  std::map<ValueId, ValueId> replaced{};
  /// Values that become inputs.
  std::set<ValueId> given{};
  std::vector<ValueId> outputs{};  ///< Those that stay; empty: all.
  /// Constant extents of this size get another.
  std::optional<std::pair<int64_t, int64_t>> size{};
  bool plain_layouts = false;  ///< Dense, aligned to 16 bytes, in memory of their own.
};

class Rebuilding {
 public:
  Rebuilding(const Fusion& source, const Edit& edit)
      : source_(source), edit_(edit), b_(source.name), made_(source.values.size()) {}

  /// Nothing if the builder refuses the change.
  std::optional<Fusion> run() {
    try {
      return rebuilt();
    } catch (const SinterException&) {
      return std::nullopt;
    }
  }

 private:
  Fusion rebuilt() {
    // Ids of symbols stay what they are.
    for (const Symbol& symbol : source_.symbols)
      b_.symbol(symbol.name, symbol.hint, symbol.divisible_by);
    const std::vector<ValueId>& outputs = edit_.outputs.empty() ? source_.outputs : edit_.outputs;
    std::vector<bool> needed(source_.values.size(), false);
    for (const ValueId output : outputs) needed[target(output).index] = true;
    for (size_t i = source_.ops.size(); i-- > 0;) {
      const Op& op = source_.ops[OpId{static_cast<uint32_t>(i)}];
      const bool runs = std::ranges::any_of(op.results, [&](ValueId result) {
        return needed[result.index] && !edit_.given.contains(result);
      });
      if (!runs) continue;
      for (const ValueId operand : op.operands) needed[target(operand).index] = true;
    }
    for (const Op& op : source_.ops) {
      const bool is_needed =
          std::ranges::any_of(op.results, [&](ValueId result) { return needed[result.index]; });
      if (is_needed) add(op);
    }
    for (const ValueId output : outputs) {
      const bool has_layout = !edit_.plain_layouts && is_output(output);
      OutputLayout layout = has_layout ? source_.layout_of(output) : OutputLayout{};
      if (layout.alias.valid() && !made_[layout.alias].valid()) layout = {};
      if (layout.alias.valid()) layout.alias = made_[layout.alias];
      ValueId to = made_[target(output)];
      // An input is no output, and no value is two.
      if (b_.fusion().def_as<InputOp>(to) != nullptr || !put_out_.insert(to).second)
        to = b_.broadcast(to, b_.fusion().values[to].shape, all_axes(to));
      b_.output(to, "", layout);
    }
    return b_.build();
  }

  [[nodiscard]] bool is_output(ValueId value) const {
    return std::ranges::find(source_.outputs, value) != source_.outputs.end();
  }
  std::vector<int> all_axes(ValueId value) {
    std::vector<int> axes;
    for (size_t axis = 0; axis < b_.fusion().values[value].shape.size(); ++axis)
      axes.push_back(static_cast<int>(axis));
    return axes;
  }

  [[nodiscard]] ValueId target(ValueId value) const {
    const auto found = edit_.replaced.find(value);
    return found == edit_.replaced.end() ? value : found->second;
  }
  [[nodiscard]] Extent resized(const Extent& extent) const {
    const bool changes =
        edit_.size && extent.is_constant() && extent.constant() == edit_.size->first;
    return changes ? Extent(edit_.size->second) : extent;
  }
  [[nodiscard]] Shape resized(Shape shape) const {
    for (Extent& extent : shape) extent = resized(extent);
    return shape;
  }

  void add(const Op& op) {
    OpKind kind = op.kind;
    if (auto* input = std::get_if<InputOp>(&kind)) {
      if (edit_.plain_layouts) *input = {};
      for (Extent& stride : input->strides) stride = resized(stride);
    }
    if (auto* slice = std::get_if<SliceOp>(&kind); slice != nullptr && edit_.size) {
      for (size_t axis = 0; axis < slice->stop.size(); ++axis) {
        slice->stop[axis] = std::min(slice->stop[axis], edit_.size->second);
        slice->start[axis] = std::min(slice->start[axis], std::max<int64_t>(slice->stop[axis], 0));
      }
    }
    if (auto* extent = std::get_if<ExtentOp>(&kind)) {
      for (Extent& factor : extent->extents) factor = resized(factor);
    }
    if (auto* external = std::get_if<ExternalOp>(&kind)) {
      for (ResultType& result : external->results) result.shape = resized(result.shape);
    }
    const bool all_given = std::ranges::all_of(
        op.results, [&](ValueId result) { return edit_.given.contains(result); });
    if (!all_given) {
      std::vector<ValueId> operands;
      for (const ValueId operand : op.operands) operands.push_back(made_[target(operand)]);
      const Value& first = source_.values[op.results.front()];
      std::vector<std::string> names;
      for (const ValueId result : op.results) names.push_back(source_.values[result].name);
      const auto results = b_.append(kind, operands, first.type, resized(first.shape), names);
      for (size_t i = 0; i < results.size(); ++i) made_[op.results[i]] = results[i];
    }
    for (const ValueId result : op.results) {
      if (!edit_.given.contains(result)) continue;
      const Value& value = source_.values[result];
      made_[result] =
          b_.input(value.type, resized(value.shape), fmt::format("given{}", result.index));
    }
  }

  const Fusion& source_;
  const Edit& edit_;
  FusionBuilder b_;
  IdMap<ValueId, ValueId> made_;
  std::set<ValueId> put_out_;
};

class Minimiser {
 public:
  Minimiser(Case failing, const std::function<bool(const Case&)>& fails,
            const std::function<bool()>& is_over)
      : case_(std::move(failing)), fails_(fails), is_over_(is_over) {}

  Case run() {
    for (bool changed = true; changed && !is_over_();) {
      changed = simplify_options();
      changed = drop_outputs() || changed;
      changed = drop_ops() || changed;
      changed = shrink() || changed;
    }
    return case_;
  }

 private:
  bool accept(Case candidate) {
    if (is_over_() || !fails_(candidate)) return false;
    case_ = std::move(candidate);
    return true;
  }
  bool accept(const Edit& edit) {
    auto fusion = Rebuilding(case_.fusion, edit).run();
    if (!fusion || *fusion == case_.fusion) return false;
    Case candidate = case_;
    candidate.fusion = std::move(*fusion);
    return accept(std::move(candidate));
  }

  bool simplify_options() {
    bool changed = false;
    const auto attempt = [&](auto set) {
      Case candidate = case_;
      set(candidate);
      if (print_case(candidate) != print_case(case_)) changed = accept(candidate) || changed;
    };
    attempt([](Case& c) { c.pinned_cuts = 0; });
    attempt([](Case& c) { c.drawn_schedules = 0; });
    attempt([](Case& c) { c.other_families = 0; });
    attempt([](Case& c) { c.check_indices = false; });
    attempt([](Case& c) { c.cut_if_needed_only = false; });
    attempt([](Case& c) { c.contract_always = false; });
    attempt([](Case& c) { c.simplify = true; });
    attempt([](Case& c) { c.device = "H200"; });
    attempt([](Case& c) { c.data = DrawnKind::kUniform; });
    changed = accept(Edit{.plain_layouts = true}) || changed;
    return changed;
  }

  bool drop_outputs() {
    bool changed = false;
    if (case_.fusion.outputs.size() > 1) {
      for (const ValueId only : case_.fusion.outputs) {
        if (accept(Edit{.outputs = {only}})) return true;
      }
    }
    for (size_t i = 0; i < case_.fusion.outputs.size() && case_.fusion.outputs.size() > 1;) {
      std::vector<ValueId> rest = case_.fusion.outputs;
      rest.erase(rest.begin() + static_cast<ptrdiff_t>(i));
      if (accept(Edit{.outputs = rest})) {
        changed = true;
      } else {
        ++i;
      }
    }
    return changed;
  }

  /// An op gives way to one of its operands, or its results become inputs; the last ones first.
  bool drop_ops() {
    bool changed = false;
    for (size_t i = case_.fusion.ops.size(); i-- > 0;) {
      if (i >= case_.fusion.ops.size()) continue;
      const Op op = case_.fusion.ops[OpId{static_cast<uint32_t>(i)}];
      if (op.operands.empty() && !std::holds_alternative<IotaOp>(op.kind)) continue;
      if (drop(op)) changed = true;
    }
    return changed;
  }
  bool drop(const Op& op) {
    // What it computes is put out in its own place: what follows is dropped.
    if (case_.fusion.outputs != op.results && accept(Edit{.outputs = {op.results.front()}}))
      return true;
    for (const ValueId result : op.results) {
      for (const ValueId operand : op.operands) {
        const Value& from = case_.fusion.values[operand];
        const Value& to = case_.fusion.values[result];
        if (from.type != to.type || from.shape != to.shape) continue;
        if (accept(Edit{.replaced = {{result, operand}}})) return true;
      }
    }
    return accept(Edit{.given = {op.results.begin(), op.results.end()}});
  }

  bool shrink() {
    bool changed = false;
    for (const auto& [name, size] : ExtentValues(case_.extents)) {
      for (const int64_t smaller :
           {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, size / 2, size - 1}) {
        if (smaller < 0 || smaller >= size) continue;
        Case candidate = case_;
        candidate.extents[name] = smaller;
        if (!accept(std::move(candidate))) continue;
        changed = true;
        break;
      }
    }
    std::set<int64_t> sizes;
    for (const Value& value : case_.fusion.values) {
      for (const Extent& extent : value.shape) {
        if (extent.is_constant()) sizes.insert(extent.constant());
      }
    }
    for (const int64_t size : sizes) {
      for (const int64_t smaller :
           {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, size / 2, size - 1}) {
        if (smaller < 0 || smaller >= size) continue;
        if (!accept(Edit{.size = std::pair(size, smaller)})) continue;
        changed = true;
        break;
      }
    }
    return changed;
  }

  Case case_;
  const std::function<bool(const Case&)>& fails_;
  const std::function<bool()>& is_over_;
};

}  // namespace

Case minimise(Case failing, const std::function<bool(const Case&)>& fails,
              const std::function<bool()>& is_over) {
  return Minimiser(std::move(failing), fails, is_over).run();
}

}  // namespace sinter
