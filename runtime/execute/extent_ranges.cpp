#include "runtime/execute/extent_ranges.h"

#include <algorithm>

#include "fusion_ir/nearest_name.h"

namespace sinter {
namespace {

constexpr int64_t kUnknown = -1;  // No size: a range has no negative ones.

Error argument_error(std::string message, std::string remedy) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = std::move(remedy)};
}

Error with_limit(Error error, int64_t measured, int64_t limit) {
  error.measured = measured;
  error.limit = limit;
  return error;
}

/// The error for a name that no symbol has; nothing if there is one.
Result<void> check_name(const Fusion& fusion, std::string_view name) {
  if (fusion.find_symbol(name).valid()) return {};
  std::vector<std::string_view> known;
  for (const Symbol& symbol : fusion.symbols) known.push_back(symbol.name);
  return fail(argument_error(
      fmt::format("fusion '{}' has no symbol '{}'", fusion.name, name),
      known.empty()
          ? "name no extents: all of them are constants"
          : suggestion(name, known, fmt::format("name one of: {}", fmt::join(known, ", ")))));
}

Result<void> check_range(const Symbol& symbol, const ExtentRange& range) {
  if (range.least < 0) {
    return fail(with_limit(argument_error(fmt::format("the range of symbol '{}' starts at {}",
                                                      symbol.name, range.least),
                                          "start it at zero or a positive size"),
                           range.least, 0));
  }
  if (range.least > range.most) {
    return fail(with_limit(argument_error(fmt::format("the range {} to {} of symbol '{}' is empty",
                                                      range.least, range.most, symbol.name),
                                          "give the smaller end first"),
                           range.least, range.most));
  }
  const int64_t divisor = std::max<int64_t>(symbol.divisible_by, 1);
  for (const int64_t end : {range.least, range.most}) {
    if (end % divisor == 0) continue;
    return fail(with_limit(
        argument_error(
            fmt::format("the range {} to {} of symbol '{}' ends at {}, which is not divisible by "
                        "{} as promised",
                        range.least, range.most, symbol.name, end, divisor),
            "let it start and end at multiples, or build the fusion without the promise"),
        end, divisor));
  }
  return {};
}

/// The single size of a symbol that has no range.
Result<ExtentRange> fixed_size(const Symbol& symbol, const ExtentValues& fixed) {
  const auto given = fixed.find(symbol.name);
  if (given == fixed.end() && symbol.hint == 0) {
    return fail(argument_error(
        fmt::format("symbol '{}' has neither a range, a size nor a hint", symbol.name),
        fmt::format("pass a range for '{}', or a fixed size", symbol.name)));
  }
  const int64_t size = given == fixed.end() ? symbol.hint : given->second;
  const ExtentRange range{size, size};
  if (size >= 0 && size % std::max<int64_t>(symbol.divisible_by, 1) == 0) return range;
  return fail(with_limit(
      argument_error(
          size < 0 ? fmt::format("the fixed size {} of symbol '{}' is negative", size, symbol.name)
                   : fmt::format("the fixed size {} of symbol '{}' is not divisible by {} as "
                                 "promised",
                                 size, symbol.name, symbol.divisible_by),
          size < 0 ? "pass zero or a positive size"
                   : "pass a multiple, or build the fusion without the promise"),
      size, size < 0 ? 0 : symbol.divisible_by));
}

/// The error for a size outside its range. `where` says whose it is, " (axis 0 of %v1)", or
/// nothing.
Error not_served(const Symbol& symbol, const ExtentRange& range, int64_t size,
                 std::string_view where = {}) {
  const bool is_fixed = range.least == range.most;
  Error error = argument_error(
      is_fixed ? fmt::format("'{}' is {}{}, which was fixed at {}", symbol.name, size, where,
                             range.least)
               : fmt::format("'{}' is {}{}, outside the served range {} to {}", symbol.name, size,
                             where, range.least, range.most),
      is_fixed ? fmt::format("pass {}, or prepare with a range for '{}'", range.least, symbol.name)
      : size < range.least
          ? fmt::format("pass at least {}, or prepare with a wider range", range.least)
          : fmt::format("pass at most {}, or prepare with a wider range", range.most));
  return with_limit(std::move(error), size, size < range.least ? range.least : range.most);
}

/// "%v3 'weight'".
std::string text_of_value(const Fusion& fusion, ValueId value) {
  const std::string& name = fusion.values[value].name;
  return name.empty() ? fmt::format("{}", value) : fmt::format("{} '{}'", value, name);
}

/// The first axis of an input or output that has a symbol's size: where its size was read.
std::string first_axis_of(const Fusion& fusion, SymbolId symbol) {
  for (const auto* list : {&fusion.inputs, &fusion.outputs}) {
    for (const ValueId value : *list) {
      const Shape& shape = fusion.values[value].shape;
      const auto axis = std::ranges::find(shape, Extent(symbol));
      if (axis == shape.end()) continue;
      return fmt::format("axis {} of {}", axis - shape.begin(), text_of_value(fusion, value));
    }
  }
  unreachable();
}

/// Reads the sizes of one tensor.
class TensorSizes {
 public:
  TensorSizes(const Fusion& fusion, std::span<const ExtentRange> ranges, std::span<int64_t> sizes)
      : fusion_(fusion), ranges_(ranges), sizes_(sizes) {}

  Result<void> read(ValueId value, const Tensor& tensor) {
    const Shape& shape = fusion_.values[value].shape;
    if (tensor.sizes.size() != shape.size()) {
      return refuse(
          value, argument_error(
                     fmt::format("the tensor for {} has {} axes, the fusion's {}",
                                 text_of_value(fusion_, value), tensor.sizes.size(), shape.size()),
                     "give one size per axis"));
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      auto done = shape[axis].is_constant()
                      ? read_constant(value, axis, shape[axis].constant(), tensor.sizes[axis])
                      : read_symbol(value, axis, shape[axis].symbol(), tensor.sizes[axis]);
      if (!done) return done;
    }
    return {};
  }

 private:
  static Result<void> refuse(ValueId value, Error error) {
    error.values = {value};
    return fail(std::move(error));
  }

  [[nodiscard]] Result<void> read_constant(ValueId value, size_t axis, int64_t constant,
                                           int64_t size) const {
    if (size == constant) return {};
    return refuse(
        value,
        with_limit(argument_error(fmt::format("axis {} of {} is {}, in the fusion it is {}", axis,
                                              text_of_value(fusion_, value), size, constant),
                                  "pass a tensor of the fusion's size, or build the fusion with a "
                                  "symbol there"),
                   size, constant));
  }

  Result<void> read_symbol(ValueId value, size_t axis, SymbolId symbol, int64_t size) {
    int64_t& known = sizes_[symbol.index];
    const Symbol& named = fusion_.symbols[symbol];
    if (known != kUnknown) {
      if (known == size) return {};
      return refuse(
          value, with_limit(argument_error(
                                fmt::format("'{}' is {} along axis {} of {}, but {} along {}",
                                            named.name, size, axis, text_of_value(fusion_, value),
                                            known, first_axis_of(fusion_, symbol)),
                                "pass tensors that agree on the size"),
                            size, known));
    }
    const ExtentRange& range = ranges_[symbol.index];
    if (!range.has(size)) {
      return refuse(
          value, not_served(named, range, size,
                            fmt::format(" (axis {} of {})", axis, text_of_value(fusion_, value))));
    }
    known = size;
    return {};
  }

  const Fusion& fusion_;
  std::span<const ExtentRange> ranges_;
  std::span<int64_t> sizes_;
};

}  // namespace

Result<std::vector<ExtentRange>> resolve_ranges(const Fusion& fusion, const ExtentRanges& ranges,
                                                const ExtentValues& fixed) {
  for (const auto& [name, range] : ranges) {
    if (auto known = check_name(fusion, name); !known) return fail(known.error());
  }
  for (const auto& [name, size] : fixed) {
    if (auto known = check_name(fusion, name); !known) return fail(known.error());
    if (!ranges.contains(name)) continue;
    return fail(argument_error(fmt::format("symbol '{}' has a range and a fixed size", name),
                               "pass one of them"));
  }
  std::vector<ExtentRange> out;
  for (const Symbol& symbol : fusion.symbols) {
    const auto given = ranges.find(symbol.name);
    if (given != ranges.end()) {
      if (auto checked = check_range(symbol, given->second); !checked) return fail(checked.error());
      out.push_back(given->second);
      continue;
    }
    auto size = fixed_size(symbol, fixed);
    if (!size) return fail(size.error());
    out.push_back(*size);
  }
  return out;
}

Result<Sizes> sizes_in_ranges(const Fusion& fusion, std::span<const ExtentRange> ranges,
                              const ExtentValues& extents) {
  for (const auto& [name, size] : extents) {
    if (auto known = check_name(fusion, name); !known) return fail(known.error());
  }
  Sizes out;
  for (uint32_t i = 0; i < fusion.symbols.size(); ++i) {
    const Symbol& symbol = fusion.symbols[SymbolId{i}];
    const auto given = extents.find(symbol.name);
    if (given == extents.end() && ranges[i].least != ranges[i].most) {
      return fail(
          argument_error(fmt::format("there is no size for symbol '{}'", symbol.name),
                         fmt::format("pass one from {} to {}", ranges[i].least, ranges[i].most)));
    }
    const int64_t size = given == extents.end() ? ranges[i].least : given->second;
    if (!ranges[i].has(size)) return fail(not_served(symbol, ranges[i], size));
    out.push_back(size);
  }
  return out;
}

Result<void> sizes_of_tensors(const Fusion& fusion, std::span<const ExtentRange> ranges,
                              std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                              std::span<int64_t> sizes) {
  if (inputs.size() != fusion.inputs.size() || outputs.size() != fusion.outputs.size()) {
    return fail(argument_error(
        fmt::format("{} inputs and {} outputs were passed, the fusion has {} and {}", inputs.size(),
                    outputs.size(), fusion.inputs.size(), fusion.outputs.size()),
        "pass tensors in the order of the fusion's inputs and outputs"));
  }
  std::ranges::fill(sizes, kUnknown);
  TensorSizes reader(fusion, ranges, sizes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (auto read = reader.read(fusion.inputs[i], inputs[i]); !read) return read;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (auto read = reader.read(fusion.outputs[i], outputs[i]); !read) return read;
  }
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != kUnknown) continue;
    if (ranges[i].least != ranges[i].most) {
      return fail(argument_error(
          fmt::format("no tensor has the size of symbol '{}'", fusion.symbols[SymbolId{i}].name),
          "ask for the executable by the extents, and execute that one"));
    }
    sizes[i] = ranges[i].least;
  }
  return {};
}

ExtentValues named_sizes(const Fusion& fusion, std::span<const int64_t> sizes) {
  ExtentValues out;
  for (uint32_t i = 0; i < sizes.size(); ++i) out[fusion.symbols[SymbolId{i}].name] = sizes[i];
  return out;
}

std::string text_of_sizes(const Fusion& fusion, std::span<const int64_t> sizes) {
  std::string out;
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    out += fmt::format("{}{}={}", i == 0 ? "" : ", ", fusion.symbols[SymbolId{i}].name, sizes[i]);
  }
  return out.empty() ? "no symbols" : out;
}

}  // namespace sinter
