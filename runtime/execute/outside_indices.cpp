#include "runtime/execute/outside_indices.h"

#include <cstring>

namespace sinter {
namespace {

int64_t integer_at(std::span<const std::byte> bytes, DType type, int64_t element) {
  const auto at = [&](auto value) {
    std::memcpy(&value, bytes.data() + static_cast<size_t>(element) * sizeof value, sizeof value);
    return int64_t{value};
  };
  return type == DType::kI32 ? at(int32_t{}) : at(int64_t{});
}

Sizes position_of(int64_t element, const Sizes& sizes) {
  Sizes out(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0;) {
    out[axis] = element % sizes[axis];
    element /= sizes[axis];
  }
  return out;
}

}  // namespace

std::string OutsideIndices::text() const {
  return fmt::format(
      "of {}, {} of {} indices {}{} are outside of the {} elements of the axis, first {} at [{}]",
      take, outside, looked_at, index, name.empty() ? "" : fmt::format(" '{}'", name), limit, first,
      fmt::join(position, ", "));
}

std::vector<OutsideIndices> find_outside_indices(const Plan& plan,
                                                 std::span<const std::span<const std::byte>> kept) {
  SINTER_CHECK_OP(kept.size(), ==, plan.kept_indices().size());
  std::vector<OutsideIndices> out;
  for (const IndexCheck& check : plan.index_checks) {
    const Value& value = plan.fusion.values[plan.kept_indices()[check.kept]];
    const Sizes sizes = Binding{}.sizes_of(value.shape);
    const std::span<const std::byte> bytes = kept[check.kept];
    OutsideIndices found{.take = check.take,
                         .index = check.index,
                         .name = check.name,
                         .limit = check.limit,
                         .looked_at = element_count(sizes)};
    SINTER_CHECK_OP(static_cast<int64_t>(bytes.size()), >=, found.looked_at * bytes_of(value.type));
    for (int64_t i = 0; i < found.looked_at; ++i) {
      const int64_t index = integer_at(bytes, value.type, i);
      if (index >= 0 && index < check.limit) continue;
      if (found.outside++ > 0) continue;
      found.first = index;
      found.position = position_of(i, sizes);
    }
    if (found.outside > 0) out.push_back(std::move(found));
  }
  return out;
}

Error outside_error(std::span<const OutsideIndices> found) {
  const OutsideIndices& first = found.front();
  Error error{
      .kind = ErrorKind::kInvalidArgument,
      .message = fmt::format(
          "the index {} at [{}] of {}{} is outside of the {} elements that {} takes from",
          first.first, fmt::join(first.position, ", "), first.index,
          first.name.empty() ? "" : fmt::format(" '{}'", first.name), first.limit, first.take),
      .remedy = first.limit == 0
                    ? std::string("take from an axis that has elements")
                    : fmt::format("pass indices from 0 to {}; others count as an element "
                                  "that is 0, so mask in the graph what is meant to be left "
                                  "out",
                                  first.limit - 1),
      .values = {first.take, first.index},
      .measured = first.first,
      .limit = first.limit};
  for (const OutsideIndices& take : found)
    error.log += fmt::format("{}{}", error.log.empty() ? "" : "\n", take.text());
  return error;
}

}  // namespace sinter
