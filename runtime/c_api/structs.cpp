#include "runtime/c_api/structs.h"

namespace sinter::c_api {

size_t size_of_struct(const void* from, std::string_view name) {
  size_t size = 0;
  std::memcpy(&size, from, sizeof size);
  if (size >= sizeof size && size % 8 == 0 && size <= kMostStructBytes) return size;
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("struct_size of {} is {}, no multiple of 8 from {} to {}",
                                      name, size, sizeof size, kMostStructBytes),
               .remedy = "set struct_size to the sizeof of the struct",
               .measured = static_cast<int64_t>(size),
               .limit = static_cast<int64_t>(kMostStructBytes)});
}

}  // namespace sinter::c_api
