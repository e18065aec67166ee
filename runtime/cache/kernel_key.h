#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codegen/cuda/kernel_source.h"
#include "codegen/device/device_headers.h"

namespace sinter {

/// Content address of a compiled kernel: 128 bits of xxHash3 over all that decides its bytes.
struct KernelKey {
  uint64_t high = 0;
  uint64_t low = 0;

  /// 32 hex digits; the name of the entry on disk.
  [[nodiscard]] std::string hex() const;
  static std::optional<KernelKey> from_hex(std::string_view hex);

  friend auto operator<=>(const KernelKey&, const KernelKey&) = default;
};

/// The key of a kernel: its text and entry, the headers it can include, the compiler's command line
/// (which names the architecture), the compiler's identity, Sinter's version and the format of
/// cache entries.
KernelKey kernel_key(const KernelSource& source, std::span<const EmbeddedHeader> headers,
                     std::span<const std::string> compiler_options,
                     std::string_view compiler_identity);

}  // namespace sinter

template <>
struct std::hash<sinter::KernelKey> {
  size_t operator()(const sinter::KernelKey& key) const noexcept { return key.low; }
};
