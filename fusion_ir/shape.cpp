#include "fusion_ir/shape.h"

#include <algorithm>
#include <ranges>

#include "fusion_ir/error.h"

namespace sinter {

bool is_identifier(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && !is_digit(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || is_digit(c); });
}

Sizes dense_strides(std::span<const int64_t> sizes) {
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= sizes[axis];
  }
  return strides;
}

int64_t reach_of(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t last = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 0) return 0;
    last += (sizes[axis] - 1) * strides[axis];
  }
  return last + 1;
}

namespace {

template <class Range>
int64_t product_of(const Range& sizes) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(count, size, &count)) {
      throw_error({.kind = ErrorKind::kInvalidArgument,
                   .message = fmt::format("a tensor of sizes [{}] has more than 2^63 elements",
                                          fmt::join(sizes, ", ")),
                   .remedy = "bind smaller extents"});
    }
  }
  return count;
}

}  // namespace

int64_t element_count(std::span<const int64_t> sizes) { return product_of(sizes); }

int64_t element_count(const Shape& shape) {
  return product_of(shape | std::views::transform(&Extent::constant));
}

}  // namespace sinter
