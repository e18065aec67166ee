#include "runtime/oracle/integer_range.h"

#include <algorithm>
#include <limits>

namespace sinter {

int64_t lowest_integer(DType type) {
  switch (type) {
    case DType::kI64:
      return std::numeric_limits<int64_t>::min();
    case DType::kI32:
      return std::numeric_limits<int32_t>::min();
    case DType::kI8:
      return std::numeric_limits<int8_t>::min();
    default:
      return 0;
  }
}

int64_t highest_integer(DType type) {
  return type == DType::kI64 ? std::numeric_limits<int64_t>::max()
                             : static_cast<int64_t>(largest_finite(type));
}

int64_t saturate_to(DType type, int64_t value) {
  if (type == DType::kBool) return static_cast<int64_t>(value != 0);
  return std::clamp(value, lowest_integer(type), highest_integer(type));
}

}  // namespace sinter
