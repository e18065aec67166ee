#include "fusion_ir/infer_results.h"

#include <algorithm>

#include "fusion_ir/reduction_traits.h"
#include "fusion_ir/typing_checks.h"

namespace sinter {
namespace {

using Inferred = Result<std::vector<ResultType>>;
using Check = TypingChecks::Check;

/// Types arithmetic happens in, bool aside.
bool is_numeric_compute(DType type) { return type != DType::kBool && compute_type(type) == type; }
bool is_float_compute(DType type) { return type == DType::kF64 || type == DType::kF32; }
bool is_logic(DType type) {
  return type == DType::kBool || type == DType::kI64 || type == DType::kI32;
}
bool is_index(DType type) { return type == DType::kI64 || type == DType::kI32; }

/// Whether the operands that share one type may have this one, and in words what they may have.
bool admits(Typing typing, DType type) {
  switch (typing) {
    case Typing::kSame:
      return is_numeric_compute(type);
    case Typing::kFloat:
    case Typing::kTest:
      return is_float_compute(type);
    case Typing::kLogic:
      return is_logic(type);
    case Typing::kCompare:
    case Typing::kSelect:
      return compute_type(type) == type;
    case Typing::kRandom:
      return type == DType::kI64;
  }
  unreachable();
}

std::string_view admitted_text(Typing typing) {
  switch (typing) {
    case Typing::kSame:
      return "f64, f32, i64 or i32";
    case Typing::kFloat:
    case Typing::kTest:
      return "f64 or f32";
    case Typing::kLogic:
      return "bool, i64 or i32";
    case Typing::kCompare:
    case Typing::kSelect:
      return "f64, f32, i64, i32 or bool";
    case Typing::kRandom:
      return "i64";
  }
  unreachable();
}

/// How many operands an op takes; nothing where any number will do.
std::optional<size_t> operand_count(const OpKind& kind) {
  using Count = std::optional<size_t>;
  return std::visit(
      overloaded{
          [](const InputOp&) -> Count { return 0; },
          [](const ConstantOp&) -> Count { return 0; },
          [](const ExtentOp&) -> Count { return 0; },
          [](const IotaOp&) -> Count { return 0; },
          [](const PointwiseOp& op) -> Count { return static_cast<size_t>(info_of(op.fn).arity); },
          [](const TakeOp&) -> Count { return 2; },
          [](const CastOp&) -> Count { return 1; },
          [](const BroadcastOp&) -> Count { return 1; },
          [](const ReduceOp&) -> Count { return 1; },
          [](const WelfordOp&) -> Count { return 1; },
          [](const LogSumExpOp&) -> Count { return 1; },
          [](const PermuteOp&) -> Count { return 1; },
          [](const ReshapeOp&) -> Count { return 1; },
          [](const SliceOp&) -> Count { return 1; },
          [](const PadOp&) -> Count { return 1; },
          [](const ConcatenateOp&) -> Count { return std::nullopt; },
          [](const ExternalOp&) -> Count { return std::nullopt; },
          [](const TupleReduceOp&) -> Count { return 1; },
          [](const ContractOp&) -> Count { return 2; },
      },
      kind);
}

/// Product of the constant extents; nothing when it does not fit 63 bits.
std::optional<int64_t> constant_product(const Shape& shape) {
  int64_t product = 1;
  for (const Extent& extent : shape) {
    if (extent.is_constant() && extent.constant() == 0) return 0;
  }
  for (const Extent& extent : shape) {
    if (extent.is_constant() && __builtin_mul_overflow(product, extent.constant(), &product)) {
      return std::nullopt;
    }
  }
  return product;
}

std::vector<uint32_t> sorted_symbols(const Shape& shape) {
  std::vector<uint32_t> symbols;
  for (const Extent& extent : shape) {
    if (extent.is_symbol()) symbols.push_back(extent.symbol().index);
  }
  std::ranges::sort(symbols);
  return symbols;
}

/// The rules of each op, as a visitor.
class Inference : public TypingChecks {
 public:
  using TypingChecks::TypingChecks;

  Inferred operator()(const InputOp& op) const {
    if (Check error = check_shape(shape_hint_)) return fail(*error);
    if (Check error = layout("input", op.strides, op.alignment)) return fail(*error);
    return one(type_hint_, shape_hint_);
  }

  Inferred operator()(const ConstantOp& op) const {
    if (Check error = check_constant(op, type_hint_)) return fail(*error);
    return one(type_hint_, {});
  }

  Inferred operator()(const PointwiseOp& op) const {
    const PointwiseInfo& info = info_of(op.fn);
    const bool select = info.typing == Typing::kSelect;
    if (select && type(0) != DType::kBool) {
      return fail(error(fmt::format("the condition of select is {}, not bool", type(0)),
                        "compare it with something, or cast it to bool"));
    }
    const DType shared = type(select ? 1 : 0);
    for (size_t i = select ? 1 : 0; i < operands_.size(); ++i) {
      if (type(i) != shared) {
        return fail(error(
            fmt::format("operands of {} have different types: {} and {}", op_, shared, type(i)),
            "cast them to one type"));
      }
    }
    if (!admits(info.typing, shared)) {
      return fail(error(
          fmt::format("{} does not take {}; it takes {}", op_, shared, admitted_text(info.typing)),
          "cast the operand first"));
    }
    for (size_t i = 1; i < operands_.size(); ++i) {
      if (shape(i) != shape(0)) {
        return fail(error(
            fmt::format("operands of {} have different shapes: {} and {}", op_, text(0), text(i)),
            "broadcast them to one shape"));
      }
    }
    return one(result_type(op.fn, shared), shape(0));
  }

  Inferred operator()(const CastOp&) const { return one(type_hint_, shape(0)); }

  Inferred operator()(const BroadcastOp& op) const {
    if (Check error = check_shape(shape_hint_)) return fail(*error);
    if (op.axes.size() != shape(0).size()) {
      return fail(error(fmt::format("broadcast of {} names {} axes", text(0), op.axes.size()),
                        "name one result axis per operand axis"));
    }
    if (Check error = check_axes(op.axes, shape_hint_.size())) return fail(*error);
    for (size_t i = 0; i < op.axes.size(); ++i) {
      const Extent& from = shape(0)[i];
      const Extent& to = shape_hint_[static_cast<size_t>(op.axes[i])];
      if (from != to && !from.is_one()) {
        return fail(
            error(fmt::format("broadcast of {} to {}: axis {} of extent {} cannot become {}",
                              text(0), text_of(fusion_, type(0), shape_hint_), i,
                              text_of(fusion_, from), text_of(fusion_, to)),
                  "only a constant extent of 1 expands"));
      }
    }
    return one(type(0), shape_hint_);
  }

  Inferred operator()(const ReduceOp& op) const {
    if (Check error = check_reduced(op.axes)) return fail(*error);
    const ReductionTraits& traits = traits_of(reduction_of(op.fn));
    if (Check error = check_elements(traits.types)) return fail(*error);
    if (traits.is_search() && op.axes.size() != 1) {
      Error out = error(fmt::format("{} runs over {} axes", op_, op.axes.size()),
                        "reduce one axis, or merge axes with a reshape first");
      out.measured = static_cast<int64_t>(op.axes.size());
      out.limit = 1;
      return fail(out);
    }
    return one(traits.is_search() ? DType::kI64 : type(0), without(shape(0), op.axes));
  }

  Inferred operator()(const WelfordOp& op) const { return pair(op.axes); }
  Inferred operator()(const LogSumExpOp& op) const { return pair(op.axes); }

  Inferred operator()(const TupleReduceOp& op) const {
    const ReductionTraits& traits = *op.reduction;
    if (const auto fault = fault_of(traits)) {
      return fail(error(fmt::format("'{}' is no reduction: {}", traits.text, *fault),
                        "correct its row of traits"));
    }
    if (Check error = check_reduced(op.axes)) return fail(*error);
    if (Check error = check_elements(traits.types)) return fail(*error);
    for (const ReductionComponent& component : traits.components) {
      // Its parts are combined by the reduction of one component, which must take them too.
      const ReductionTraits& alone = traits_of(reduction_of(reduction_by(component)));
      if (Check error = check_elements(alone.types)) return fail(*error);
      for (const auto& fn : {component.element, component.combine}) {
        if (!fn) continue;
        const PointwiseInfo& info = info_of(*fn);
        const bool keeps_type = info.typing == Typing::kSame || info.typing == Typing::kFloat ||
                                info.typing == Typing::kLogic;
        if (keeps_type && admits(info.typing, type(0))) continue;
        return fail(error(fmt::format("{} does not take {}, of which {} makes no {}", op_, type(0),
                                      info.text, type(0)),
                          "cast the operand first"));
      }
    }
    return std::vector<ResultType>(traits.results, {type(0), without(shape(0), op.axes)});
  }

  Inferred operator()(const ContractOp& op) const {
    if (Check error = check_contracted_types(op)) return fail(*error);
    size_t rank = 0;
    for (const size_t side : {0U, 1U}) {
      const std::vector<int>& axes = side == 0 ? op.left : op.right;
      if (Check error = check_contracted_axes(side, axes)) return fail(*error);
      for (const int axis : axes) rank = std::max(rank, static_cast<size_t>(axis) + 1);
    }
    if (op.reduced.empty() || op.reduced.size() > rank || !is_last(op.reduced, rank)) {
      return fail(error(fmt::format("{} reduces axes ({}) of a space of {}", op_,
                                    fmt::join(op.reduced, ", "), rank),
                        "reduce the last axes of the space, at least one; number those of the "
                        "result first, in their order"));
    }
    Shape space;
    for (size_t axis = 0; axis < rank; ++axis) {
      const Extent* const left = extent_along(0, op.left, axis);
      const Extent* const right = extent_along(1, op.right, axis);
      const bool is_reduced = axis + op.reduced.size() >= rank;
      if (left == nullptr || right == nullptr) {
        if (left == right || is_reduced) {
          return fail(error(
              fmt::format("axis {} of the space of {} is {}", axis, op_,
                          left == right ? "one of no operand" : "reduced, but one of one operand"),
              "number the axes from 0 without a gap, and reduce what both operands have; `reduce` "
              "reduces what only one has"));
        }
      } else if (*left != *right) {
        Error out = error(fmt::format("operands of {} differ along axis {} of its space: {} and {}",
                                      op_, axis, text(0), text(1)),
                          "make the extents equal; two symbols are equal only if they are the same "
                          "symbol");
        if (left->is_constant() && right->is_constant()) {
          out.measured = right->constant();
          out.limit = left->constant();
        }
        return fail(out);
      }
      space.push_back(left != nullptr ? *left : *right);
    }
    // A kernel may walk the whole space as one shape.
    if (Check error = check_shape(space)) return fail(*error);
    space.resize(rank - op.reduced.size());
    return one(compute_type(type(0)), std::move(space));
  }

  Inferred operator()(const TakeOp& op) const {
    if (Check error = check_axes({op.axis}, shape(0).size())) return fail(*error);
    if (Check error = check_type(1, is_index, "an i64 or i32 index")) return fail(*error);
    const Shape result = without(shape(0), {op.axis});
    if (shape(1) != result) {
      return fail(error(fmt::format("take along axis {} of {} needs an index of shape {}, not {}",
                                    op.axis, text(0), text_of(fusion_, type(1), result), text(1)),
                        "broadcast or reshape the index"));
    }
    return one(type(0), result);
  }

  Inferred operator()(const ExtentOp& op) const {
    if (op.extents.empty()) {
      return fail(error("an extent op lists no extents", "use a constant of 1"));
    }
    if (Check error = check_extents(op.extents, "extent")) return fail(*error);
    return one(DType::kI64, {});
  }

  Inferred operator()(const IotaOp& op) const {
    if (Check error = check_shape(shape_hint_)) return fail(*error);
    if (Check error = check_axes({op.axis}, shape_hint_.size())) return fail(*error);
    if (!is_numeric_compute(type_hint_)) {
      return fail(
          error(fmt::format("iota does not make {}; it makes f64, f32, i64 or i32", type_hint_),
                "make i32 and cast it"));
    }
    return one(type_hint_, shape_hint_);
  }

  Inferred operator()(const PermuteOp& op) const {
    std::vector<int> sorted = op.order;
    std::ranges::sort(sorted);
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<int>(i)) sorted.clear();
    }
    if (sorted.size() != shape(0).size()) {
      return fail(error(
          fmt::format("({}) is not an order of the axes of {}", fmt::join(op.order, ", "), text(0)),
          "name every axis once"));
    }
    Shape result;
    for (const int axis : op.order) result.push_back(shape(0)[static_cast<size_t>(axis)]);
    return one(type(0), result);
  }

  Inferred operator()(const ReshapeOp&) const {
    if (Check error = check_shape(shape_hint_)) return fail(*error);
    // Symbols that stand on both sides cancel; where others remain the check waits for their sizes.
    const auto from = constant_product(shape(0));
    const auto to = constant_product(shape_hint_);
    if (!from || !to || (sorted_symbols(shape(0)) == sorted_symbols(shape_hint_) && *from != *to)) {
      Error out = error(fmt::format("reshape of {} to {} changes the number of elements", text(0),
                                    text_of(fusion_, type(0), shape_hint_)),
                        "give a shape with the same product of extents, below 2^63");
      out.measured = to;
      out.limit = from;
      return fail(out);
    }
    return one(type(0), shape_hint_);
  }

  Inferred operator()(const SliceOp& op) const {
    const size_t rank = shape(0).size();
    if (op.start.size() != rank || op.stop.size() != rank || op.step.size() != rank) {
      return fail(error(fmt::format("slice of {} has {} starts, {} stops and {} steps", text(0),
                                    op.start.size(), op.stop.size(), op.step.size()),
                        "give one of each per axis"));
    }
    Shape result;
    for (size_t axis = 0; axis < rank; ++axis) {
      const Extent& extent = shape(0)[axis];
      const int64_t start = op.start[axis];
      const int64_t step = op.step[axis];
      if (op.stop[axis] < 0 && start == 0 && step == 1) {
        result.push_back(extent);
        continue;
      }
      if (extent.is_symbol() && op.stop[axis] < 0) {
        return fail(error(
            fmt::format("slice of {} leaves an extent that has no name on axis {}", text(0), axis),
            "give a constant stop, or take the whole axis"));
      }
      const int64_t stop = op.stop[axis] < 0 ? extent.constant() : op.stop[axis];
      const bool fits = extent.is_symbol() || stop <= extent.constant();
      if (start < 0 || start > stop || step < 1 || !fits) {
        Error out = error(fmt::format("slice of {} takes {}:{}:{} along axis {}", text(0), start,
                                      op.stop[axis], step, axis),
                          "keep 0 <= start <= stop <= extent and step >= 1");
        if (!fits) {
          out.measured = stop;
          out.limit = extent.constant();
        }
        return fail(out);
      }
      const int64_t length = stop - start;
      result.emplace_back(length / step + (length % step != 0 ? 1 : 0));
    }
    return one(type(0), result);
  }

  Inferred operator()(const ConcatenateOp& op) const {
    if (operands_.empty()) {
      Error out = error("concatenate takes at least 1 operand, not 0",
                        "pass the values to stand one behind the other");
      out.measured = 0;
      out.limit = 1;
      return fail(out);
    }
    if (Check error = check_axes({op.axis}, shape(0).size())) return fail(*error);
    if (operands_.size() == 1) return one(type(0), shape(0));
    const auto axis = static_cast<size_t>(op.axis);
    int64_t total = 0;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (type(i) != type(0)) {
        return fail(error(
            fmt::format("operands of {} have different types: {} and {}", op_, type(0), type(i)),
            "cast them to one type"));
      }
      const bool same_rank = shape(i).size() == shape(0).size();
      if (!same_rank || without(shape(i), {op.axis}) != without(shape(0), {op.axis})) {
        return fail(
            error(fmt::format("operands of {} have different shapes beside axis {}: {} and {}", op_,
                              op.axis, text(0), text(i)),
                  "make all extents but those of the axis equal"));
      }
      const Extent& extent = shape(i)[axis];
      if (extent.is_symbol()) {
        return fail(
            error(fmt::format("concatenate of {} leaves an extent that has no name on axis {}",
                              text(i), op.axis),
                  "concatenate along an axis of constant extents"));
      }
      if (__builtin_add_overflow(total, extent.constant(), &total)) {
        return fail(error(
            fmt::format("the extents along axis {} of a concatenate do not fit 63 bits", op.axis),
            "concatenate smaller values"));
      }
    }
    Shape result = shape(0);
    result[axis] = total;
    return one(type(0), result);
  }

  Inferred operator()(const PadOp& op) const {
    const size_t rank = shape(0).size();
    if (op.low.size() != rank || op.high.size() != rank) {
      return fail(error(
          fmt::format("pad of {} has {} lows and {} highs", text(0), op.low.size(), op.high.size()),
          "give one of each per axis"));
    }
    if (Check error = check_constant(op.value, type(0))) return fail(*error);
    Shape result = shape(0);
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t low = op.low[axis];
      const int64_t high = op.high[axis];
      if (low < 0 || high < 0) {
        Error out = error(fmt::format("pad of {} adds {} and {} elements along axis {}", text(0),
                                      low, high, axis),
                          "add none or more; a slice takes elements away");
        out.measured = std::min(low, high);
        out.limit = 0;
        return fail(out);
      }
      if (low == 0 && high == 0) continue;
      if (result[axis].is_symbol()) {
        return fail(error(
            fmt::format("pad of {} leaves an extent that has no name on axis {}", text(0), axis),
            "pad axes of constant extent only"));
      }
      int64_t length = 0;
      if (__builtin_add_overflow(result[axis].constant(), low, &length) ||
          __builtin_add_overflow(length, high, &length)) {
        return fail(error(fmt::format("the padded extent of axis {} does not fit 63 bits", axis),
                          "add fewer elements"));
      }
      result[axis] = length;
    }
    return one(type(0), result);
  }

  Inferred operator()(const ExternalOp& op) const {
    if (op.name.empty()) {
      return fail(error("an external call has no name", "name what the embedder shall run"));
    }
    if (op.results.empty()) {
      return fail(error(fmt::format("external call '{}' declares no results", op.name),
                        "declare the type and shape of at least one result"));
    }
    for (const ResultType& result : op.results) {
      if (Check error = check_shape(result.shape)) return fail(*error);
    }
    return op.results;
  }

 private:
  static Inferred one(DType type, Shape shape) {
    return std::vector<ResultType>{{type, std::move(shape)}};
  }

  /// Of a reduction's operand.
  [[nodiscard]] Check check_elements(ReducedTypes types) const {
    switch (types) {
      case ReducedTypes::kNumeric:
        return check_type(0, is_numeric_compute, "f64, f32, i64 or i32");
      case ReducedTypes::kLogic:
        if (type(0) == DType::kBool) return std::nullopt;
        return error(fmt::format("{} does not take {}; it takes bool", op_, type(0)),
                     "cast the operand first");
      case ReducedTypes::kReal:
        return check_type(0, is_float_compute, "f64 or f32");
    }
    unreachable();
  }

  [[nodiscard]] Check check_contracted_types(const ContractOp& op) const {
    if (!contract_as_they_are(type(0), type(1))) {
      return error(
          fmt::format("operands of {} have different types: {} and {}", op_, type(0), type(1)),
          "cast them to one type; two 8-bit floats may differ");
    }
    if (type(0) == DType::kBool) {
      return error(fmt::format("{} does not take bool", op_), "cast the operands to i8");
    }
    if (op.fn == ContractFn::kLogSumExp && !is_float(type(0))) {
      return error(fmt::format("{} does not take {}; it takes floats", op_, type(0)),
                   "cast the operands to f32");
    }
    if (op.precision != ContractPrecision::kIeee &&
        (op.fn != ContractFn::kSum || type(0) != DType::kF32)) {
      return error(fmt::format("{} of {} has no precision {}", op_, type(0), text_of(op.precision)),
                   "leave it out: only contract.sum of f32 has one");
    }
    return std::nullopt;
  }
  /// Of an operand: as many as it has, none of them negative or named twice.
  [[nodiscard]] Check check_contracted_axes(size_t side, const std::vector<int>& axes) const {
    if (axes.size() != shape(side).size()) {
      return error(fmt::format("{} of {} places {} axes", op_, text(side), axes.size()),
                   "name one axis of the space for each axis of an operand");
    }
    std::vector<int> sorted = axes;
    std::ranges::sort(sorted);
    if (!sorted.empty() && sorted.front() >= 0 && sorted.back() >= static_cast<int>(kMaxRank)) {
      Error out = error(fmt::format("the space of {} has axis {}", op_, sorted.back()),
                        "merge axes that both operands have with a reshape: a space has no more "
                        "axes than a tensor");
      out.measured = sorted.back();
      out.limit = static_cast<int64_t>(kMaxRank) - 1;
      return out;
    }
    const bool is_negative = !sorted.empty() && sorted.front() < 0;
    if (is_negative || std::ranges::adjacent_find(sorted) != sorted.end()) {
      return error(
          fmt::format("{} places axes of {} at ({}) of its space", op_, text(side),
                      fmt::join(axes, ", ")),
          fmt::format("name each axis once, from 0 to {}; no op takes a diagonal", kMaxRank - 1));
    }
    return std::nullopt;
  }
  /// Whether `axes` are the last ones of a space, ascending.
  static bool is_last(const std::vector<int>& axes, size_t rank) {
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] != static_cast<int>(rank - axes.size() + i)) return false;
    }
    return true;
  }
  /// Of an operand along an axis of the space; null if it does not have it.
  [[nodiscard]] const Extent* extent_along(size_t side, const std::vector<int>& axes,
                                           size_t axis) const {
    const auto found = std::ranges::find(axes, static_cast<int>(axis));
    return found == axes.end() ? nullptr : &shape(side)[static_cast<size_t>(found - axes.begin())];
  }

  [[nodiscard]] Inferred pair(const std::vector<int>& axes) const {
    if (Check error = check_reduced(axes)) return fail(*error);
    if (Check error = check_type(0, is_float_compute, "f64 or f32")) return fail(*error);
    const ResultType result{type(0), without(shape(0), axes)};
    return std::vector<ResultType>{result, result};
  }

  static Shape without(const Shape& shape, const std::vector<int>& axes) {
    Shape out;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (std::ranges::find(axes, static_cast<int>(axis)) == axes.end()) out.push_back(shape[axis]);
    }
    return out;
  }
};

}  // namespace

Result<std::vector<ResultType>> infer_results(const Fusion& fusion, const OpKind& kind,
                                              std::span<const ValueId> operands, DType type_hint,
                                              const Shape& shape_hint) {
  const std::string_view op = text_of(kind);
  for (const ValueId operand : operands) {
    if (!fusion.values.contains(operand)) {
      return fail({.kind = ErrorKind::kInvalidFusion,
                   .message = fmt::format("an operand of {} is not a value of this fusion", op),
                   .remedy = "pass ids that this fusion's builder returned",
                   .values = {operand}});
    }
  }
  const std::optional<size_t> expected = operand_count(kind);
  if (expected && operands.size() != *expected) {
    return fail({.kind = ErrorKind::kInvalidFusion,
                 .message = fmt::format("{} takes {} operand{}, not {}", op, *expected,
                                        *expected == 1 ? "" : "s", operands.size()),
                 .remedy = "pass as many operands as the op takes",
                 .values = {operands.begin(), operands.end()},
                 .measured = static_cast<int64_t>(operands.size()),
                 .limit = static_cast<int64_t>(*expected)});
  }
  return std::visit(Inference(fusion, op, operands, type_hint, shape_hint), kind);
}

Result<void> check_layout(const Fusion& fusion, ValueId output, const OutputLayout& layout) {
  const Value& value = fusion.values[output];
  const Inference rules(fusion, "output", {}, value.type, value.shape);
  if (auto error = rules.layout("output", layout.strides, layout.alignment)) {
    error->values = {output};
    return fail(*error);
  }
  if (!layout.alias.valid()) return {};
  const auto refuse = [&](std::string message, std::string remedy) {
    return fail({.kind = ErrorKind::kInvalidFusion,
                 .message = std::move(message),
                 .remedy = std::move(remedy),
                 .values = {output, layout.alias}});
  };
  const bool exists = fusion.values.contains(layout.alias);
  const auto* input = exists ? fusion.def_as<InputOp>(layout.alias) : nullptr;
  if (input == nullptr) {
    return refuse(fmt::format("the output {} aliases {}, which is no input", output, layout.alias),
                  "name an input, whose memory the caller owns");
  }
  const Value& memory = fusion.values[layout.alias];
  if (memory.type != value.type || memory.shape != value.shape) {
    return refuse(fmt::format("the output {}, {}, aliases the input {}, {}", output,
                              text_of(fusion, value.type, value.shape), layout.alias,
                              text_of(fusion, memory.type, memory.shape)),
                  "alias an input of the same type and shape");
  }
  if (input->strides != layout.strides || input->alignment != layout.alignment) {
    return refuse(fmt::format("the output {} aliases the input {} with other strides or another "
                              "alignment",
                              output, layout.alias),
                  "give the output neither: it gets the input's");
  }
  return {};
}

}  // namespace sinter
