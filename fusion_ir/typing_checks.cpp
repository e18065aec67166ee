#include "fusion_ir/typing_checks.h"

#include <bit>
#include <cmath>

namespace sinter {

TypingChecks::Check TypingChecks::layout(std::string_view what, const std::vector<Extent>& strides,
                                         int64_t alignment) const {
  if (!strides.empty() && strides.size() != shape_hint_.size()) {
    return error(
        fmt::format("an {} of rank {} has {} strides", what, shape_hint_.size(), strides.size()),
        "give one stride per axis, or none for a dense tensor");
  }
  if (Check error = check_extents(strides, "stride")) return error;
  const int64_t bytes = bytes_of(type_hint_);
  if (alignment > 0 && std::has_single_bit(static_cast<uint64_t>(alignment)) && alignment >= bytes)
    return std::nullopt;
  Error out = error(fmt::format("an alignment of {} bytes does not suit {}", alignment, type_hint_),
                    fmt::format("promise a power of two of at least {} bytes", bytes));
  out.measured = alignment;
  out.limit = bytes;
  return out;
}

Error TypingChecks::error(std::string message, std::string remedy) const {
  return {.kind = ErrorKind::kInvalidFusion,
          .message = std::move(message),
          .remedy = std::move(remedy),
          .values = {operands_.begin(), operands_.end()}};
}

TypingChecks::Check TypingChecks::check_constant(const ConstantOp& constant, DType type) const {
  if (is_float(type)) {
    const bool exact =
        std::isnan(constant.real) || std::bit_cast<uint64_t>(round_to(type, constant.real)) ==
                                         std::bit_cast<uint64_t>(constant.real);
    if (exact && constant.integer == 0) return std::nullopt;
    return error(fmt::format("{} is not a value of {}", constant.real, type),
                 "round the constant with round_to");
  }
  if (constant.real == 0.0 && !std::signbit(constant.real) &&
      holds_integer(type, constant.integer)) {
    return std::nullopt;
  }
  const std::string given =
      constant.real != 0.0 ? fmt::format("{}", constant.real) : fmt::format("{}", constant.integer);
  return error(fmt::format("{} is not a value of {}", given, type),
               "give an integer within the type's range");
}

TypingChecks::Check TypingChecks::check_type(size_t i, bool (*admitted)(DType),
                                             std::string_view text) const {
  if (admitted(type(i))) return std::nullopt;
  return error(fmt::format("{} does not take {}; it takes {}", op_, type(i), text),
               "cast the operand first");
}

TypingChecks::Check TypingChecks::check_extents(std::span<const Extent> extents,
                                                std::string_view what) const {
  for (const Extent& extent : extents) {
    if (extent.is_symbol() && !fusion_.symbols.contains(extent.symbol())) {
      return error(fmt::format("{} {} is not a symbol of this fusion", what, extent.symbol()),
                   "declare it with symbol() on the same builder");
    }
    if (extent.is_constant() && extent.constant() < 0) {
      Error out = error(fmt::format("{} {} is negative", what, extent.constant()),
                        "give zero or a positive number");
      out.measured = extent.constant();
      out.limit = 0;
      return out;
    }
  }
  return std::nullopt;
}

TypingChecks::Check TypingChecks::check_shape(const Shape& shape) const {
  if (shape.size() > kMaxRank) {
    Error out = error(fmt::format("a shape of rank {} is beyond the limit", shape.size()),
                      fmt::format("merge axes down to {}", kMaxRank));
    out.measured = static_cast<int64_t>(shape.size());
    out.limit = static_cast<int64_t>(kMaxRank);
    return out;
  }
  return check_extents(shape, "extent");
}

TypingChecks::Check TypingChecks::check_axes(const std::vector<int>& axes, size_t rank) const {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || static_cast<size_t>(axes[i]) >= rank) {
      Error out = error(fmt::format("{} names axis {} of a tensor of rank {}", op_, axes[i], rank),
                        "name axes from 0 to rank - 1");
      out.measured = axes[i];
      out.limit = static_cast<int64_t>(rank) - 1;
      return out;
    }
    if (i > 0 && axes[i] <= axes[i - 1]) {
      return error(
          fmt::format("{} names axes ({}), which do not ascend", op_, fmt::join(axes, ", ")),
          "name each axis once, in ascending order");
    }
  }
  return std::nullopt;
}

TypingChecks::Check TypingChecks::check_reduced(const std::vector<int>& axes) const {
  if (axes.empty()) {
    return error(fmt::format("{} of {} names no axes", op_, text(0)), "name at least one axis");
  }
  return check_axes(axes, shape(0).size());
}

}  // namespace sinter
