#include "codegen/lower/lowered_kernel.h"

#include <bit>
#include <cstring>

#include "fusion_ir/dtype.h"
#include "fusion_ir/error.h"
#include "fusion_ir/result.h"

namespace sinter {

static_assert(std::endian::native == std::endian::little);

std::vector<std::byte> argument_bytes(const kir::Buffer& buffer, std::span<const int64_t> values) {
  SINTER_CHECK_OP(static_cast<int64_t>(values.size()), ==, buffer.count);
  const auto size = static_cast<size_t>(bytes_of(buffer.type));
  std::vector<std::byte> out(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    // Little-endian: an i32 is the low half.
    std::memcpy(out.data() + i * size, &values[i], size);
  }
  return out;
}

}  // namespace sinter
