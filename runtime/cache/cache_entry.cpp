#include "runtime/cache/cache_entry.h"

#include <xxhash.h>

#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>

namespace sinter {
namespace {

static_assert(std::endian::native == std::endian::little,
              "entries are written with memcpy; a big-endian host needs byte swaps here");

constexpr std::string_view kMagic = "SINTERKC";
constexpr size_t kHeaderBytes = kMagic.size() + 3 * sizeof(uint64_t);
constexpr size_t kChecksumBytes = sizeof(uint64_t);

class Writer {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(const T& value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<uint64_t>(text.size()));
    out_ += text;
  }
  void raw(std::string_view bytes) { out_ += bytes; }
  [[nodiscard]] const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

// Reads what Writer wrote; after the first read past the end all further ones leave zeros.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(T& value) {
    const std::string_view bytes = take(sizeof(value));
    value = T{};
    if (bytes.size() == sizeof(value)) std::memcpy(&value, bytes.data(), sizeof(value));
  }
  void operator()(bool& value) {
    uint8_t byte = 0;
    (*this)(byte);
    value = byte != 0;
  }
  void operator()(std::string& text) {
    uint64_t size = 0;
    (*this)(size);
    text = take(size);
  }
  [[nodiscard]] bool consumed_exactly() const { return !overrun_ && rest_.empty(); }

 private:
  std::string_view take(uint64_t size) {
    if (overrun_ || size > rest_.size()) {
      overrun_ = true;
      return {};
    }
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }

  std::string_view rest_;
  bool overrun_ = false;
};

// The one list of fields; both directions go through it.
template <class Kernel, class Archive>
void visit_fields(Kernel& kernel, Archive& archive) {
  archive(kernel.entry);
  archive(kernel.architecture);
  archive(kernel.cubin);
  archive(kernel.log);
  archive(kernel.compile_ms);
  auto& resources = kernel.resources;
  archive(resources.registers);
  archive(resources.spill_store_bytes);
  archive(resources.spill_load_bytes);
  archive(resources.stack_bytes);
  archive(resources.shared_bytes);
  archive(resources.barriers);
  archive(resources.constant_bytes);
  archive(resources.wgmma_serialized);
  archive(resources.launch_bounds_ignored);
}

uint64_t checksum_of(std::string_view bytes) { return XXH64(bytes.data(), bytes.size(), 0); }

}  // namespace

std::string encode_entry(const KernelKey& key, const CompiledKernel& kernel) {
  Writer payload;
  visit_fields(kernel, payload);
  Writer file;
  file.raw(kMagic);
  file(key.high);
  file(key.low);
  file(static_cast<uint64_t>(payload.bytes().size()));
  file.raw(payload.bytes());
  file(checksum_of(file.bytes()));
  return file.bytes();
}

Result<CompiledKernel> decode_entry(const KernelKey& key, std::string_view bytes) {
  const auto damaged = [&](std::string_view how) {
    return fail(
        {.kind = ErrorKind::kInvalidArgument,
         .message = fmt::format("cache entry {} is damaged: {}", key.hex(), how),
         .remedy = "none needed: a lookup removes the entry and the kernel is compiled again"});
  };
  if (bytes.size() < kHeaderBytes + kChecksumBytes) return damaged("it is shorter than its header");
  if (!bytes.starts_with(kMagic)) return damaged("it does not start with the magic bytes");

  KernelKey stored_key;
  uint64_t payload_bytes = 0;
  Reader header(bytes.substr(kMagic.size(), kHeaderBytes - kMagic.size()));
  header(stored_key.high);
  header(stored_key.low);
  header(payload_bytes);
  if (payload_bytes != bytes.size() - kHeaderBytes - kChecksumBytes) {
    return damaged(fmt::format("it has {} bytes where its header announces {} of payload",
                               bytes.size(), payload_bytes));
  }
  uint64_t stored_checksum = 0;
  Reader trailer(bytes.substr(bytes.size() - kChecksumBytes));
  trailer(stored_checksum);
  if (stored_checksum != checksum_of(bytes.substr(0, bytes.size() - kChecksumBytes))) {
    return damaged("its checksum does not match");
  }
  if (stored_key != key) return damaged(fmt::format("it belongs to key {}", stored_key.hex()));

  CompiledKernel kernel;
  Reader payload(bytes.substr(kHeaderBytes, payload_bytes));
  visit_fields(kernel, payload);
  if (!payload.consumed_exactly()) return damaged("its payload does not parse");
  return kernel;
}

}  // namespace sinter
