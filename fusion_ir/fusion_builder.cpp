#include "fusion_ir/fusion_builder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "fusion_ir/reduction_traits.h"
#include "fusion_ir/verifier.h"

namespace sinter {
namespace {

[[noreturn]] void invalid(std::string message, std::string remedy,
                          std::vector<ValueId> values = {}) {
  throw_error({.kind = ErrorKind::kInvalidFusion,
               .message = std::move(message),
               .remedy = std::move(remedy),
               .values = std::move(values)});
}

/// No two builders of a process have the same.
IdOwner next_owner() {
  static std::atomic<uint32_t> last = 0;
  return {.builder = ++last};
}

/// Counts negative axes from the end.
int normalize_axis(const FusionBuilder& builder, ValueId x, int axis) {
  const auto rank = static_cast<int>(builder.value(x).shape.size());
  if (axis < -rank || axis >= rank) {
    throw_error({.kind = ErrorKind::kInvalidFusion,
                 .message = fmt::format("axis {} is outside {} of rank {}", axis, x, rank),
                 .remedy = fmt::format("name axes from {} to {}", -rank, rank - 1),
                 .values = {x},
                 .measured = axis,
                 .limit = rank - 1});
  }
  return axis < 0 ? axis + rank : axis;
}

/// A number as a constant of a type: rounded for floats, which others must hold exactly.
ConstantOp constant_of(double value, DType type) {
  if (is_float(type)) return {.real = round_to(type, value)};
  if (value != std::trunc(value) || std::fabs(value) > 0x1p53) {
    invalid(fmt::format("{} is not an exact value of {}", value, type),
            "round it, or use constant_integer beyond 2^53");
  }
  return {.integer = static_cast<int64_t>(value)};
}

/// The type in which a reduction takes elements of `type`.
DType reduced_type(const ReductionTraits& reduction, DType type) {
  if (reduction.types == ReducedTypes::kLogic) return DType::kBool;
  const DType computed = compute_type(type);
  return computed == DType::kBool ? DType::kI32 : computed;
}

/// The stronger of two compute types: f64 > f32 > i64 > i32 > bool.
DType common_type(DType a, DType b) {
  // The enumeration lists the compute types in that order.
  static_assert(DType::kF64 < DType::kF32 && DType::kF32 < DType::kI64 &&
                DType::kI64 < DType::kI32 && DType::kI32 < DType::kBool);
  return std::min(a, b);
}

/// The shape that all operands broadcast to.
Shape common_shape(const Fusion& fusion, std::span<const ValueId> operands) {
  Shape common;
  ValueId widest;
  for (const ValueId id : operands) {
    const Shape& shape = fusion.values[id].shape;
    if (!widest.valid() || shape.size() > common.size()) {
      common = shape;
      widest = id;
    }
  }
  for (const ValueId id : operands) {
    const Shape& shape = fusion.values[id].shape;
    const size_t offset = common.size() - shape.size();
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      Extent& target = common[offset + axis];
      if (shape[axis] == target || shape[axis].is_one()) continue;
      if (!target.is_one()) {
        invalid(fmt::format("shapes do not broadcast: extent {} of {} against {}",
                            text_of(fusion, shape[axis]), id, text_of(fusion, target)),
                "make the extents equal, or one of them the constant 1; two symbols are equal only "
                "if they are the same symbol",
                {operands.begin(), operands.end()});
      }
      target = shape[axis];
    }
  }
  return common;
}

/// Axes of a ContractOp.
struct Equation {
  std::vector<int> left, right, reduced;
};

/// "bmk,bkn->bmn": as einsum has it.
Equation parse_equation(std::string_view text, const std::vector<ValueId>& values) {
  const auto mistake = [&](std::string_view what) {
    invalid(fmt::format("the equation '{}' {}", text, what),
            "write a letter for each axis, as in \"bmk,bkn->bmn\"", values);
  };
  std::array<std::string, 3> terms;
  size_t term = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == ',' && term == 0) {
      term = 1;
    } else if (c == '-' && term == 1 && text.substr(i, 2) == "->") {
      term = 2;
      ++i;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      terms[term] += c;
    } else {
      mistake(fmt::format("has '{}' where a letter, ',' or '->' should be", c));
    }
  }
  if (term != 2) mistake("has no two operands and result");
  auto& [left, right, result] = terms;
  for (const std::string& letters : terms) {
    std::string sorted = letters;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end())
      mistake("names an axis twice in a term");
  }
  std::string space = result;
  for (const char c : left) {
    if (space.find(c) == std::string::npos && right.find(c) != std::string::npos) space += c;
  }
  const auto places = [&](const std::string& letters) {
    std::vector<int> out;
    for (const char c : letters) {
      const size_t place = space.find(c);
      if (place == std::string::npos)
        mistake(fmt::format("reduces '{}', which only one operand has: reduce it first", c));
      out.push_back(static_cast<int>(place));
    }
    return out;
  };
  Equation out{.left = places(left), .right = places(right), .reduced = {}};
  for (const char c : result) {
    if (left.find(c) == std::string::npos && right.find(c) == std::string::npos)
      mistake(fmt::format("has '{}' in its result, but in no operand", c));
  }
  for (size_t axis = result.size(); axis < space.size(); ++axis)
    out.reduced.push_back(static_cast<int>(axis));
  if (out.reduced.empty()) mistake("reduces no axis: broadcast the operands and multiply them");
  return out;
}

}  // namespace

FusionBuilder::FusionBuilder(std::string name) : owner_(next_owner()) {
  fusion_.name = std::move(name);
}

const Value& FusionBuilder::value(ValueId id) const {
  const ValueId known = own(id);
  if (!fusion_.values.contains(known)) {
    invalid(fmt::format("{} is not a value of fusion '{}'", id, fusion_.name),
            "pass ids that this builder returned", {id});
  }
  return fusion_.values[known];
}

std::vector<int> FusionBuilder::axes_of(ValueId x, std::vector<int> axes) const {
  if (axes.empty()) {
    for (size_t axis = 0; axis < value(x).shape.size(); ++axis)
      axes.push_back(static_cast<int>(axis));
    return axes;
  }
  for (int& axis : axes) axis = normalize_axis(*this, x, axis);
  std::ranges::sort(axes);
  const auto repeated = std::ranges::adjacent_find(axes);
  if (repeated != axes.end())
    invalid(fmt::format("axis {} of {} is named twice", *repeated, x), "name each axis once", {x});
  return axes;
}

ValueId FusionBuilder::own(ValueId id) const {
  const uint32_t builder = id.owner.builder;
  if (builder != 0 && builder != owner_.builder) {
    invalid(
        fmt::format("{} was made by another builder than that of fusion '{}'", id, fusion_.name),
        "pass ids that this builder returned", {id});
  }
  return {.index = id.index};
}

Extent FusionBuilder::own(const Extent& extent) const {
  if (!extent.is_symbol()) return extent;
  const uint32_t builder = extent.symbol().owner.builder;
  if (builder != 0 && builder != owner_.builder) {
    invalid(fmt::format("a symbol was declared by another builder than that of fusion '{}'",
                        fusion_.name),
            "pass extents that symbol() of this builder returned");
  }
  return SymbolId{.index = extent.symbol().index};
}

void FusionBuilder::own_all(std::vector<Extent>& extents) const {
  for (Extent& extent : extents) extent = own(extent);
}

void FusionBuilder::own_all(OpKind& kind) const {
  if (auto* input = std::get_if<InputOp>(&kind)) own_all(input->strides);
  if (auto* extent = std::get_if<ExtentOp>(&kind)) own_all(extent->extents);
  if (auto* external = std::get_if<ExternalOp>(&kind)) {
    for (ResultType& result : external->results) own_all(result.shape);
  }
}

Extent FusionBuilder::symbol(std::string name, int64_t hint, int64_t divisible_by) {
  if (!is_identifier(name)) {
    invalid(fmt::format("symbol name '{}' is not an identifier", name),
            "use letters, digits and underscores, not starting with a digit");
  }
  if (hint < 0 || divisible_by < 1 || hint % divisible_by != 0) {
    invalid(fmt::format("symbol '{}' has hint {} and divisor {}", name, hint, divisible_by),
            "give a divisor of at least 1 and a hint that is a multiple of it, or 0 for no hint");
  }
  if (!symbol_names_.insert(name).second) {
    invalid(fmt::format("symbol '{}' is declared twice", name), "reuse the first extent");
  }
  SymbolId symbol = fusion_.symbols.push_back(
      {.name = std::move(name), .hint = hint, .divisible_by = divisible_by});
  symbol.owner = owner_;
  return symbol;
}

ValueId FusionBuilder::input(DType type, const Shape& shape, std::string name,
                             InputOptions options) {
  InputOp op{.strides = std::move(options.strides), .alignment = options.alignment};
  return append(std::move(op), {}, type, shape, {std::move(name)})[0];
}

ValueId FusionBuilder::constant(double value, DType type) {
  return append(constant_of(value, type), {}, type, {})[0];
}

ValueId FusionBuilder::constant_integer(int64_t value, DType type) {
  if (is_float(type)) {
    const auto real = static_cast<double>(value);
    return append(ConstantOp{.real = round_to(type, real)}, {}, type, {})[0];
  }
  return append(ConstantOp{.integer = value}, {}, type, {})[0];
}

ValueId FusionBuilder::iota(const Shape& shape, int axis, DType type) {
  const int from_front = axis < 0 ? axis + static_cast<int>(shape.size()) : axis;
  return append(IotaOp{.axis = from_front}, {}, type, shape)[0];
}

ValueId FusionBuilder::pointwise(PointwiseFn fn, std::vector<ValueId> operands, std::string name) {
  const bool select = info_of(fn).typing == Typing::kSelect;
  // The condition of a select keeps its type; everything else meets at the common one.
  const std::span<ValueId> typed = std::span(operands).subspan(select && !operands.empty() ? 1 : 0);
  DType type = DType::kBool;
  for (const ValueId id : operands) (void)value(id);
  for (const ValueId id : typed) type = common_type(type, compute_type(fusion_.values[id].type));
  // Seeds and counters widen without loss; floats are refused below.
  if (info_of(fn).typing == Typing::kRandom && !is_float(type)) type = DType::kI64;
  for (ValueId& id : typed) id = cast(id, type);
  const Shape shape = common_shape(fusion_, operands);
  for (ValueId& id : operands) {
    const size_t rank = fusion_.values[id].shape.size();
    if (fusion_.values[id].shape == shape) continue;
    std::vector<int> axes;
    for (size_t axis = shape.size() - rank; axis < shape.size(); ++axis) {
      axes.push_back(static_cast<int>(axis));
    }
    id = broadcast(id, shape, std::move(axes));
  }
  return append(PointwiseOp{fn}, std::move(operands), type, {}, {std::move(name)})[0];
}

ValueId FusionBuilder::cast(ValueId x, DType type, std::string name) {
  if (value(x).type == type) return x;
  return append(CastOp{}, {x}, type, {}, {std::move(name)})[0];
}

ValueId FusionBuilder::broadcast(ValueId x, const Shape& shape, std::vector<int> axes) {
  return append(BroadcastOp{std::move(axes)}, {x}, value(x).type, shape)[0];
}

ValueId FusionBuilder::broadcast_over(ValueId x, ValueId like, std::vector<int> axes) {
  const std::vector<int> removed = axes_of(like, std::move(axes));
  const Shape shape = value(like).shape;
  std::vector<int> kept;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto index = static_cast<int>(axis);
    if (!std::ranges::binary_search(removed, index)) kept.push_back(index);
  }
  return broadcast(x, shape, std::move(kept));
}

ValueId FusionBuilder::reduce(ReduceFn fn, ValueId x, std::vector<int> axes, std::string name) {
  const DType type = reduced_type(traits_of(reduction_of(fn)), value(x).type);
  ReduceOp op{fn, axes_of(x, std::move(axes))};
  return append(std::move(op), {cast(x, type)}, type, {}, {std::move(name)})[0];
}

FusionBuilder::MeanM2 FusionBuilder::welford(ValueId x, std::vector<int> axes) {
  const DType type = compute_type(value(x).type);
  WelfordOp op{axes_of(x, std::move(axes))};
  const auto results = append(std::move(op), {cast(x, type)}, type, {});
  return {.mean = results[0], .m2 = results[1]};
}

FusionBuilder::MaxSum FusionBuilder::logsumexp_pair(ValueId x, std::vector<int> axes) {
  const DType type = compute_type(value(x).type);
  LogSumExpOp op{axes_of(x, std::move(axes))};
  const auto results = append(std::move(op), {cast(x, type)}, type, {});
  return {.max = results[0], .sum = results[1]};
}

std::vector<ValueId> FusionBuilder::reduce_tuple(const ReductionTraits& reduction, ValueId x,
                                                 std::vector<int> axes) {
  const DType type = reduced_type(reduction, value(x).type);
  TupleReduceOp op{&reduction, axes_of(x, std::move(axes))};
  return append(std::move(op), {cast(x, type)}, type, {});
}

ValueId FusionBuilder::contract(std::string_view equation, ValueId a, ValueId b,
                                ContractOptions options) {
  (void)value(a);
  (void)value(b);
  const Equation parsed = parse_equation(equation, {a, b});
  ContractOp op{.fn = options.fn,
                .left = parsed.left,
                .right = parsed.right,
                .reduced = parsed.reduced,
                .precision = options.precision};
  return contract(std::move(op), a, b);
}

ValueId FusionBuilder::contract(ContractOp op, ValueId a, ValueId b) {
  const DType left = value(a).type;
  const DType right = value(b).type;
  if (!contract_as_they_are(left, right)) {
    const DType type = common_type(compute_type(left), compute_type(right));
    a = cast(a, type);
    b = cast(b, type);
  }
  return append(std::move(op), {a, b}, DType::kF32, {})[0];
}

ValueId FusionBuilder::matmul(ValueId a, ValueId b, ContractOptions options) {
  const Shape left = value(a).shape;
  const Shape right = value(b).shape;
  if (left.empty() || right.empty()) {
    invalid(
        fmt::format("matmul of {} and {}: one is a scalar", text_of(fusion_, value(a).type, left),
                    text_of(fusion_, value(b).type, right)),
        "multiply by a scalar with mul", {a, b});
  }
  // Axes of the matrices from the last one on: rows and k on the left, k and columns on the right.
  const size_t left_batch = left.size() - std::min<size_t>(left.size(), 2);
  const size_t right_batch = right.size() - std::min<size_t>(right.size(), 2);
  const size_t batch = std::max(left_batch, right_batch);
  const int rows = static_cast<int>(batch);
  const int columns = rows + (left.size() > 1 ? 1 : 0);
  const int k = columns + (right.size() > 1 ? 1 : 0);
  const auto place = [&](const Shape& shape, const Shape& other, ValueId& x, size_t mine,
                         size_t others) {
    // An extent of 1 beside another one is dropped: the axis is one of the other operand alone.
    std::vector<int> axes;
    Shape kept;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const size_t at = axis + batch - mine;
      const bool is_batch = axis < mine;
      if (is_batch && at + others >= batch) {
        const Extent& beside = other[at + others - batch];
        if (shape[axis].is_one() && !beside.is_one()) continue;
      }
      if (is_batch) axes.push_back(static_cast<int>(at));
      kept.push_back(shape[axis]);
    }
    if (kept.size() != shape.size()) x = reshape(x, kept);
    return axes;
  };
  ContractOp op{.fn = options.fn, .reduced = {k}, .precision = options.precision};
  op.left = place(left, right, a, left_batch, right_batch);
  op.right = place(right, left, b, right_batch, left_batch);
  if (left.size() > 1) op.left.push_back(rows);
  op.left.push_back(k);
  op.right.push_back(k);
  if (right.size() > 1) op.right.push_back(columns);
  return contract(std::move(op), a, b);
}

ValueId FusionBuilder::linear(ValueId x, ValueId w, ValueId bias, ContractOptions options) {
  const auto rank = static_cast<int>(value(x).shape.size());
  if (rank == 0 || value(w).shape.size() != 2) {
    invalid(fmt::format("linear of {} and {} needs x[..., k] and w[n, k]",
                        text_of(fusion_, value(x).type, value(x).shape),
                        text_of(fusion_, value(w).type, value(w).shape)),
            "reshape the operands", {x, w});
  }
  ContractOp op{.fn = options.fn,
                .right = {rank - 1, rank},
                .reduced = {rank},
                .precision = options.precision};
  for (int axis = 0; axis + 1 < rank; ++axis) op.left.push_back(axis);
  op.left.push_back(rank);
  const ValueId product = contract(std::move(op), x, w);
  return bias.valid() ? add(product, bias) : product;
}

ValueId FusionBuilder::take(ValueId x, ValueId index, int axis) {
  const TakeOp op{.axis = normalize_axis(*this, x, axis)};
  const DType type = value(index).type;
  const ValueId wide = is_integer(type) ? cast(index, compute_type(type)) : index;
  return append(op, {x, wide}, value(x).type, {})[0];
}

ValueId FusionBuilder::permute(ValueId x, std::vector<int> order) {
  for (int& axis : order) axis = normalize_axis(*this, x, axis);
  return append(PermuteOp{std::move(order)}, {x}, value(x).type, {})[0];
}

ValueId FusionBuilder::reshape(ValueId x, const Shape& shape) {
  return append(ReshapeOp{}, {x}, value(x).type, shape)[0];
}

ValueId FusionBuilder::slice(ValueId x, std::vector<int64_t> start, std::vector<int64_t> stop,
                             std::vector<int64_t> step) {
  const DType type = value(x).type;
  if (step.empty()) step.assign(start.size(), 1);
  return append(SliceOp{std::move(start), std::move(stop), std::move(step)}, {x}, type, {})[0];
}

ValueId FusionBuilder::concatenate(std::vector<ValueId> operands, int axis) {
  if (!operands.empty()) axis = normalize_axis(*this, operands.front(), axis);
  return append(ConcatenateOp{axis}, std::move(operands), DType::kF32, {})[0];
}

ValueId FusionBuilder::pad(ValueId x, std::vector<int64_t> low, std::vector<int64_t> high,
                           double value) {
  const DType type = this->value(x).type;
  return append(PadOp{std::move(low), std::move(high), constant_of(value, type)}, {x}, type, {})[0];
}

std::vector<ValueId> FusionBuilder::external(std::string name, std::vector<ValueId> operands,
                                             std::vector<ResultType> results,
                                             std::vector<std::string> names) {
  return append(ExternalOp{std::move(name), std::move(results)}, std::move(operands), DType::kF32,
                {}, std::move(names));
}

ValueId FusionBuilder::named(ValueId x, std::string name) {
  (void)value(x);
  fusion_.values[x].name = std::move(name);
  return x;
}

void FusionBuilder::output(ValueId x, std::string name, OutputOptions options) {
  (void)value(x);
  x = own(x);
  own_all(options.strides);
  if (fusion_.def_as<InputOp>(x) != nullptr) {
    invalid(fmt::format("input {} cannot be an output", x), "read the caller's tensor instead",
            {x});
  }
  if (!outputs_.insert(x).second) {
    invalid(fmt::format("{} is already an output", x), "declare each output once", {x});
  }
  if (options.alias.valid()) {
    (void)value(options.alias);
    options.alias = own(options.alias);
    const auto* input = fusion_.def_as<InputOp>(options.alias);
    const bool has_own = !options.strides.empty() || options.alignment != OutputOptions{}.alignment;
    if (input != nullptr && !has_own) {
      options.strides = input->strides;
      options.alignment = input->alignment;
    }
  }
  if (!name.empty()) fusion_.values[x].name = std::move(name);
  if (auto checked = check_layout(fusion_, x, options); !checked) throw_error(checked.error());
  if (options.alias.valid() && !aliased_.insert(options.alias).second) {
    invalid(fmt::format("an output lies in the memory of input {} already", options.alias),
            "let one output alias an input", {x, options.alias});
  }
  fusion_.add_output(x, options);
}

ValueId FusionBuilder::element_count(ValueId like, const std::vector<int>& axes) {
  ExtentOp op;
  for (const int axis : axes_of(like, axes)) {
    op.extents.push_back(fusion_.values[like].shape[static_cast<size_t>(axis)]);
  }
  if (op.extents.empty()) return constant(1.0);
  return cast(append(std::move(op), {}, DType::kI64, {})[0], DType::kF32);
}

Fusion FusionBuilder::build() const {
  if (fusion_.outputs.empty()) {
    invalid(fmt::format("fusion '{}' has no outputs", fusion_.name),
            "declare at least one with output()");
  }
  const std::vector<Violation> violations = verify(fusion_);
  SINTER_CHECK(violations.empty(), "{}", text_of(violations));
  return fusion_;
}

std::vector<ValueId> FusionBuilder::append(OpKind kind, std::vector<ValueId> operands,
                                           DType type_hint, const Shape& shape_hint,
                                           std::vector<std::string> names) {
  own_all(kind);
  for (ValueId& operand : operands) operand = own(operand);
  Shape shape = shape_hint;
  own_all(shape);
  auto inferred = infer_results(fusion_, kind, operands, type_hint, shape);
  if (!inferred) throw_error(std::move(inferred).error());
  const bool is_input = std::holds_alternative<InputOp>(kind);
  const OpId op = fusion_.ops.push_back(
      {.kind = std::move(kind), .operands = std::move(operands), .results = {}});
  std::vector<ValueId> results;
  for (uint32_t i = 0; i < inferred->size(); ++i) {
    ResultType& result = (*inferred)[i];
    results.push_back(
        fusion_.values.push_back({.type = result.type,
                                  .shape = std::move(result.shape),
                                  .def = op,
                                  .result = i,
                                  .name = i < names.size() ? std::move(names[i]) : std::string{}}));
  }
  fusion_.ops[op].results = results;
  if (is_input) fusion_.inputs.push_back(results[0]);
  for (ValueId& result : results) result.owner = owner_;
  return results;
}

}  // namespace sinter
