#include "fusion_ir/fusion.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "fusion_ir/nearest_name.h"
#include "fusion_ir/op_hash.h"
#include "fusion_ir/reduction_traits.h"

namespace sinter {
namespace {

/// Collects what a structural hash covers as 64-bit words; every list is preceded by its length, so
/// that different structures never give the same words.
class HashInput {
 public:
  template <class T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  void add(T value) {
    words_.push_back(static_cast<uint64_t>(value));
  }
  void add(double value) {
    words_.push_back(std::bit_cast<uint64_t>(
        std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value));
  }
  template <class Tag>
  void add(Id<Tag> id) {
    add(id.index);
  }
  void add(const Extent& extent) {
    add(extent.is_symbol());
    if (extent.is_symbol()) {
      add(extent.symbol());
    } else {
      add(extent.constant());
      if (extent.is_bound()) add(std::string_view("bound"));
    }
  }
  /// Text rather than an enumerator's number, so that adding a function leaves old hashes alone.
  void add(std::string_view text) { add(XXH3_64bits(text.data(), text.size())); }
  template <class T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const T& item : list) add(item);
  }

  void add(const ConstantOp& constant) {
    add(constant.real);
    add(constant.integer);
  }
  void add(const ResultType& result) {
    add(name_of(result.type));
    add(result.shape);
  }
  void add(const OpKind& kind) {
    add(text_of(kind));
    std::visit(overloaded{
                   [&](const InputOp& op) {
                     add(op.strides);
                     add(op.alignment);
                   },
                   [&](const ConstantOp& op) { add(op); },
                   [&](const PointwiseOp&) {},
                   [&](const CastOp&) {},
                   [&](const BroadcastOp& op) { add(op.axes); },
                   [&](const ReduceOp& op) { add(op.axes); },
                   [&](const WelfordOp& op) { add(op.axes); },
                   [&](const LogSumExpOp& op) { add(op.axes); },
                   [&](const TakeOp& op) { add(op.axis); },
                   [&](const ExtentOp& op) { add(op.extents); },
                   [&](const IotaOp& op) { add(op.axis); },
                   [&](const PermuteOp& op) { add(op.order); },
                   [&](const ReshapeOp&) {},
                   [&](const SliceOp& op) {
                     add(op.start);
                     add(op.stop);
                     add(op.step);
                   },
                   [&](const ConcatenateOp& op) { add(op.axis); },
                   [&](const PadOp& op) {
                     add(op.low);
                     add(op.high);
                     add(op.value);
                   },
                   [&](const ExternalOp& op) {
                     add(std::string_view(op.name));
                     add(op.results);
                   },
                   [&](const TupleReduceOp& op) {
                     // Two embedders may give one name to different reductions.
                     for (const ReductionComponent& component : op.reduction->components) {
                       for (const auto& fn : {component.element, component.combine})
                         add(fn ? info_of(*fn).text : std::string_view());
                     }
                     add(op.axes);
                   },
                   [&](const ContractOp& op) {
                     add(op.left);
                     add(op.right);
                     add(op.reduced);
                     add(text_of(op.precision));
                   },
               },
               kind);
  }

  [[nodiscard]] uint64_t hash() const {
    return XXH3_64bits(words_.data(), words_.size() * sizeof(uint64_t));
  }

 private:
  std::vector<uint64_t> words_;
};

Error argument_error(std::string message, std::string remedy) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = std::move(remedy)};
}

/// Product of factors >= 0 and `unit`; nothing beyond 63 bits. A zero counts as one where
/// `zero_as_one`, for the strides of an empty tensor must not overflow either.
std::optional<int64_t> checked_product(std::span<const int64_t> factors, int64_t unit,
                                       bool zero_as_one) {
  int64_t product = unit;
  if (!zero_as_one && std::ranges::find(factors, 0) != factors.end()) return 0;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, std::max<int64_t>(factor, 1), &product)) {
      return std::nullopt;
    }
  }
  return product;
}

/// Bytes from the first to past the last element of a strided tensor; nothing beyond 63 bits.
std::optional<int64_t> checked_span_bytes(const Sizes& sizes, const Sizes& strides, int64_t bytes) {
  int64_t last = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(sizes[axis] - 1, 0), strides[axis], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  int64_t span = 0;
  if (__builtin_add_overflow(last, 1, &span) || __builtin_mul_overflow(span, bytes, &span)) {
    return std::nullopt;
  }
  return span;
}

Error too_large(ValueId value, const Sizes& sizes) {
  Error error =
      argument_error(fmt::format("a tensor of sizes [{}] reaches over more than 2^63 bytes",
                                 fmt::join(sizes, ", ")),
                     "bind smaller extents");
  error.values = {value};
  return error;
}

Result<int64_t> bind_symbol(const Symbol& symbol, const ExtentValues& extents) {
  const auto given = extents.find(symbol.name);
  if (given == extents.end() && symbol.hint == 0) {
    return fail(
        argument_error(fmt::format("symbol '{}' has neither a size nor a hint", symbol.name),
                       fmt::format("pass a size for '{}'", symbol.name)));
  }
  const int64_t size = given == extents.end() ? symbol.hint : given->second;
  if (size < 0) {
    Error error = argument_error(fmt::format("the size of symbol '{}' is negative", symbol.name),
                                 "pass zero or a positive size");
    error.measured = size;
    error.limit = 0;
    return fail(std::move(error));
  }
  if (symbol.divisible_by > 1 && size % symbol.divisible_by != 0) {
    Error error =
        argument_error(fmt::format("size {} of symbol '{}' is not divisible by {} as promised",
                                   size, symbol.name, symbol.divisible_by),
                       "pass a multiple, or build the fusion without the promise");
    error.measured = size;
    error.limit = symbol.divisible_by;
    return fail(std::move(error));
  }
  return size;
}

/// What an op needs of the bound sizes beyond what its types and shapes say.
std::optional<Error> check_bound_op(const Fusion& fusion, const Binding& binding, OpId id) {
  const Op& op = fusion.ops[id];
  const auto operand_sizes = [&] { return binding.sizes_of(fusion.values[op.operands[0]].shape); };
  const auto located = [&](Error error) {
    error.ops = {id};
    error.values = op.results;
    return error;
  };
  if (std::holds_alternative<ReshapeOp>(op.kind)) {
    const Sizes from = operand_sizes();
    const Sizes to = binding.sizes_of(fusion.values[op.results[0]].shape);
    if (element_count(from) != element_count(to)) {
      return located(argument_error(
          fmt::format("a reshape turns [{}] into [{}], which has another number of elements",
                      fmt::join(from, ", "), fmt::join(to, ", ")),
          "bind extents with equal products"));
    }
  }
  if (const auto* slice = std::get_if<SliceOp>(&op.kind)) {
    const Sizes sizes = operand_sizes();
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (slice->stop[axis] <= sizes[axis]) continue;
      Error error = argument_error(fmt::format("a slice stops at {} on axis {} of [{}]",
                                               slice->stop[axis], axis, fmt::join(sizes, ", ")),
                                   "bind a larger extent");
      error.measured = slice->stop[axis];
      error.limit = sizes[axis];
      return located(std::move(error));
    }
  }
  if (const auto* extent = std::get_if<ExtentOp>(&op.kind)) {
    if (!checked_product(binding.sizes_of(extent->extents), 1, false)) {
      return located(
          argument_error("a product of extents does not fit 63 bits", "bind smaller extents"));
    }
  }
  return std::nullopt;
}

/// The strides of an output, which no two of its elements may share an address by: each axis, from
/// the smallest stride on, has to step over all that those before it reach.
std::optional<Error> check_bound_output(const Fusion& fusion, const Binding& binding, ValueId id) {
  const Sizes sizes = binding.sizes_of(fusion.values[id].shape);
  const Sizes strides = output_strides(fusion, binding, id);
  if (!checked_span_bytes(sizes, strides, bytes_of(fusion.values[id].type)))
    return too_large(id, sizes);
  if (std::ranges::find(sizes, 0) != sizes.end()) return std::nullopt;
  std::vector<std::pair<int64_t, int64_t>> axes;  // (stride, size) of those that are walked.
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] > 1) axes.emplace_back(strides[axis], sizes[axis]);
  }
  std::ranges::sort(axes);
  int64_t reached = 1;
  for (const auto& [stride, size] : axes) {
    if (stride < reached) {
      Error error = argument_error(
          fmt::format("elements of the output {} share addresses: sizes [{}], strides [{}]", id,
                      fmt::join(sizes, ", "), fmt::join(strides, ", ")),
          "give strides that step over the axes inside");
      error.values = {id};
      error.measured = stride;
      error.limit = reached;
      return error;
    }
    reached = stride * (size - 1) + reached;
  }
  return std::nullopt;
}

}  // namespace

void Fusion::add_output(ValueId value, const OutputLayout& layout) {
  if (layouts.empty() && layout != OutputLayout{}) layouts.resize(outputs.size());
  outputs.push_back(value);
  if (!layouts.empty() || layout != OutputLayout{}) layouts.push_back(layout);
}

OutputLayout Fusion::layout_of(ValueId output) const {
  if (layouts.empty()) return {};
  const auto index = static_cast<size_t>(std::ranges::find(outputs, output) - outputs.begin());
  SINTER_CHECK(index < outputs.size(), "{} is not an output", output);
  return layouts[index];
}

SymbolId Fusion::find_symbol(std::string_view symbol_name) const {
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    if (symbols[SymbolId{i}].name == symbol_name) return SymbolId{i};
  }
  return {};
}

std::string text_of(const Fusion& fusion, const Extent& extent) {
  if (extent.is_constant()) return fmt::format("{}", extent.constant());
  if (!fusion.symbols.contains(extent.symbol())) return fmt::format("{}", extent.symbol());
  return fusion.symbols[extent.symbol()].name;
}

std::string text_of(const Fusion& fusion, DType type, const Shape& shape) {
  std::string out{name_of(type)};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    out += fmt::format("{}{}", axis == 0 ? "[" : ", ", text_of(fusion, shape[axis]));
  }
  return shape.empty() ? out : out + "]";
}

IdMap<ValueId, std::vector<OpId>> users_of(const Fusion& fusion) {
  IdMap<ValueId, std::vector<OpId>> users(fusion.values.size());
  for (const OpId op : fusion.op_ids()) {
    for (const ValueId operand : fusion.ops[op].operands) {
      std::vector<OpId>& list = users[operand];
      if (list.empty() || list.back() != op) list.push_back(op);
    }
  }
  return users;
}

bool structurally_equal(const Fusion& a, const Fusion& b) {
  const auto same_symbol = [](const Symbol& x, const Symbol& y) {
    return x.hint == y.hint && x.divisible_by == y.divisible_by;
  };
  const auto same_value = [](const Value& x, const Value& y) {
    return x.type == y.type && x.shape == y.shape && x.def == y.def && x.result == y.result;
  };
  return std::ranges::equal(a.symbols, b.symbols, same_symbol) &&
         std::ranges::equal(a.values, b.values, same_value) && a.ops == b.ops &&
         a.inputs == b.inputs && a.outputs == b.outputs && a.layouts == b.layouts;
}

bool equal_but_for_sizes(const Fusion& a, const Fusion& b) {
  const auto same_rank = [](const Value& x, const Value& y) {
    return x.type == y.type && x.shape.size() == y.shape.size() && x.def == y.def &&
           x.result == y.result;
  };
  const auto forget = [](std::vector<Extent>& extents) {
    std::ranges::fill(extents, Extent(int64_t{0}));
  };
  const auto without_sizes = [&](OpKind kind) {
    if (auto* input = std::get_if<InputOp>(&kind)) forget(input->strides);
    if (auto* slice = std::get_if<SliceOp>(&kind)) std::ranges::fill(slice->stop, 0);
    if (std::holds_alternative<ConstantOp>(kind)) kind = ConstantOp{};
    if (auto* external = std::get_if<ExternalOp>(&kind)) {
      for (ResultType& result : external->results) forget(result.shape);
    }
    return kind;
  };
  const auto same_op = [&](const Op& x, const Op& y) {
    return x.operands == y.operands && x.results == y.results && x.kind.index() == y.kind.index() &&
           (x.kind == y.kind || without_sizes(x.kind) == without_sizes(y.kind));
  };
  const auto same_layout = [](const OutputLayout& x, const OutputLayout& y) {
    return x.strides.size() == y.strides.size() && x.alignment == y.alignment && x.alias == y.alias;
  };
  return a.symbols.size() == b.symbols.size() &&
         std::ranges::equal(a.values, b.values, same_rank) &&
         std::ranges::equal(a.ops, b.ops, same_op) && a.inputs == b.inputs &&
         a.outputs == b.outputs && std::ranges::equal(a.layouts, b.layouts, same_layout);
}

uint64_t hash_of(const OpKind& kind) {
  HashInput input;
  input.add(kind);
  return input.hash();
}

uint64_t structural_hash(const Fusion& fusion) {
  HashInput input;
  input.add(fusion.symbols.size());
  for (const Symbol& symbol : fusion.symbols) {
    input.add(symbol.hint);
    input.add(symbol.divisible_by);
  }
  input.add(fusion.values.size());
  for (const Value& value : fusion.values) {
    input.add(name_of(value.type));
    input.add(value.shape);
    input.add(value.def);
    input.add(value.result);
  }
  input.add(fusion.ops.size());
  for (const Op& op : fusion.ops) {
    input.add(op.kind);
    input.add(op.operands);
    input.add(op.results);
  }
  input.add(fusion.inputs);
  input.add(fusion.outputs);
  // Nothing where all are dense, so that hashes of graphs without layouts are what they were.
  for (const OutputLayout& layout : fusion.layouts) {
    input.add(layout.strides);
    input.add(layout.alignment);
    if (!layout.alias.valid()) continue;
    input.add(std::string_view("alias"));
    input.add(layout.alias);
  }
  return input.hash();
}

Sizes Binding::sizes_of(const Shape& shape) const {
  Sizes sizes;
  for (const Extent& extent : shape) sizes.push_back(size_of(extent));
  return sizes;
}

Result<Binding> bind_extents(const Fusion& fusion, const ExtentValues& extents) {
  return as_result([&]() -> Result<Binding> {
    for (const auto& [name, size] : extents) {
      if (fusion.find_symbol(name).valid()) continue;
      std::vector<std::string_view> known;
      for (const Symbol& symbol : fusion.symbols) known.push_back(symbol.name);
      return fail(argument_error(
          fmt::format("fusion '{}' has no symbol '{}'", fusion.name, name),
          known.empty() ? "pass no extents: all of them are constants"
                        : suggestion(name, known,
                                     fmt::format("pass sizes for: {}", fmt::join(known, ", ")))));
    }
    Binding binding;
    for (const Symbol& symbol : fusion.symbols) {
      Result<int64_t> size = bind_symbol(symbol, extents);
      if (!size) return fail(size.error());
      binding.symbol_sizes.push_back(*size);
    }
    for (const ValueId id : fusion.value_ids()) {
      const Value& value = fusion.values[id];
      const Sizes sizes = binding.sizes_of(value.shape);
      if (!checked_product(sizes, bytes_of(value.type), true)) return fail(too_large(id, sizes));
    }
    for (const ValueId id : fusion.inputs) {
      const Sizes sizes = binding.sizes_of(fusion.values[id].shape);
      const Sizes strides = input_strides(fusion, binding, id);
      if (!checked_span_bytes(sizes, strides, bytes_of(fusion.values[id].type))) {
        return fail(too_large(id, sizes));
      }
    }
    if (!fusion.layouts.empty()) {
      for (const ValueId id : fusion.outputs) {
        if (auto error = check_bound_output(fusion, binding, id)) return fail(std::move(*error));
      }
    }
    for (const OpId id : fusion.op_ids()) {
      if (auto error = check_bound_op(fusion, binding, id)) return fail(std::move(*error));
    }
    return binding;
  });
}

namespace {

/// With every extent as `bind` makes it.
template <class Bind>
Fusion specialize_by(const Fusion& fusion, const Binding& binding, const Bind& bind) {
  Fusion out = fusion;
  const auto bind_all = [&](std::vector<Extent>& extents) {
    for (Extent& extent : extents) extent = bind(extent);
  };
  out.symbols = {};
  for (OutputLayout& layout : out.layouts) bind_all(layout.strides);
  for (Value& value : out.values) bind_all(value.shape);
  for (Op& op : out.ops) {
    if (auto* input = std::get_if<InputOp>(&op.kind)) bind_all(input->strides);
    if (auto* external = std::get_if<ExternalOp>(&op.kind)) {
      for (ResultType& result : external->results) bind_all(result.shape);
    }
    if (auto* extent = std::get_if<ExtentOp>(&op.kind)) {
      const Sizes sizes = binding.sizes_of(extent->extents);
      op.kind = ConstantOp{.integer = element_count(sizes)};
    }
  }
  return out;
}

}  // namespace

Fusion specialize(const Fusion& fusion, const Binding& binding) {
  return specialize_by(fusion, binding,
                       [&](const Extent& extent) { return Extent(binding.size_of(extent)); });
}

Fusion specialize_alike(const Fusion& fusion, const Binding& binding) {
  return specialize_by(fusion, binding, [&](const Extent& extent) {
    return extent.is_symbol() ? Extent::bound(binding.size_of(extent)) : extent;
  });
}

Sizes input_strides(const Fusion& fusion, const Binding& binding, ValueId input) {
  const auto* op = fusion.def_as<InputOp>(input);
  SINTER_CHECK(op != nullptr, "{} is not an input", input);
  if (!op->strides.empty()) return binding.sizes_of(op->strides);
  return dense_strides(binding.sizes_of(fusion.values[input].shape));
}

Sizes output_strides(const Fusion& fusion, const Binding& binding, ValueId output) {
  const OutputLayout layout = fusion.layout_of(output);
  if (!layout.strides.empty()) return binding.sizes_of(layout.strides);
  return dense_strides(binding.sizes_of(fusion.values[output].shape));
}

}  // namespace sinter
