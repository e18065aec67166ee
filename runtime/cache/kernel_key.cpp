#include "runtime/cache/kernel_key.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>
#include <memory>

namespace sinter {
namespace {

// Raise when the layout of disk entries changes: old entries then simply have other names.
constexpr uint64_t kEntryFormat = 1;

// Feeds fields with their lengths, so that moving a byte from one field to the next changes the
// hash.
class FieldHasher {
 public:
  FieldHasher() : state_(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(state_.get()); }

  void add(uint64_t value) { XXH3_128bits_update(state_.get(), &value, sizeof(value)); }

  void add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    XXH3_128bits_update(state_.get(), text.data(), text.size());
  }

  [[nodiscard]] KernelKey key() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {.high = hash.high64, .low = hash.low64};
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

}  // namespace

std::string KernelKey::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

std::optional<KernelKey> KernelKey::from_hex(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  KernelKey key;
  const char* middle = hex.data() + 16;
  const auto high = std::from_chars(hex.data(), middle, key.high, 16);
  const auto low = std::from_chars(middle, middle + 16, key.low, 16);
  if (high.ec != std::errc{} || high.ptr != middle) return std::nullopt;
  if (low.ec != std::errc{} || low.ptr != middle + 16) return std::nullopt;
  return key;
}

KernelKey kernel_key(const KernelSource& source, std::span<const EmbeddedHeader> headers,
                     std::span<const std::string> compiler_options,
                     std::string_view compiler_identity) {
  FieldHasher hasher;
  hasher.add(kEntryFormat);
  hasher.add(std::string_view(SINTER_VERSION));
  hasher.add(compiler_identity);
  hasher.add(static_cast<uint64_t>(compiler_options.size()));
  for (const std::string& option : compiler_options) hasher.add(option);
  hasher.add(static_cast<uint64_t>(headers.size()));
  for (const EmbeddedHeader& header : headers) {
    hasher.add(header.name);
    hasher.add(header.text);
  }
  hasher.add(source.entry);
  hasher.add(source.text);
  return hasher.key();
}

}  // namespace sinter
