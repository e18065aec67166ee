#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "runtime/c_api/errors.h"

namespace sinter::c_api {

/// No struct of any version is larger: what claims to be is not believed, and not read.
inline constexpr size_t kMostStructBytes = 4096;

/// The checked `struct_size` of a caller's struct. Multiples of 8 end between fields.
size_t size_of_struct(const void* from, std::string_view name);

/// A caller's struct: what its size covers, defaults for the rest. Null gives the defaults. What
/// the caller has beyond the fields known here must be zero.
template <class Struct>
Struct read_struct(const Struct* from, std::string_view name) {
  static_assert(std::is_trivially_copyable_v<Struct> && offsetof(Struct, struct_size) == 0);
  static_assert(sizeof(Struct) % 8 == 0 && sizeof(Struct) <= kMostStructBytes);
  Struct out{};
  if (from == nullptr) return out;
  const size_t size = size_of_struct(from, name);
  std::memcpy(&out, from, std::min(size, sizeof(Struct)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] == 0) continue;
    bad_argument(fmt::format("byte {} of {} is not zero, and this version knows no more than {}", i,
                             name, sizeof(Struct)),
                 "leave fields that this version of the library does not know at zero");
  }
  return out;
}

/// Fills a caller's struct as far as its size reaches; what lies beyond `value` becomes zero.
template <class Struct>
void fill_struct(Struct* to, std::string_view name, const Struct& value) {
  static_assert(std::is_trivially_copyable_v<Struct> && offsetof(Struct, struct_size) == 0);
  static_assert(sizeof(Struct) % 8 == 0 && sizeof(Struct) <= kMostStructBytes);
  require(to, name);
  const size_t size = size_of_struct(to, name);
  auto* bytes = reinterpret_cast<unsigned char*>(to);
  const auto* from = reinterpret_cast<const unsigned char*>(&value);
  constexpr size_t kKept = sizeof(size_t);  // The caller's own struct_size.
  std::copy(from + kKept, from + std::max(kKept, std::min(size, sizeof(Struct))), bytes + kKept);
  if (size > sizeof(Struct)) std::fill(bytes + sizeof(Struct), bytes + size, 0);
}

}  // namespace sinter::c_api
