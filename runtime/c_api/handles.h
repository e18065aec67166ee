#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

namespace sinter::c_api {

/// What a handle may stand for, one for each opaque type of sinter_c.h.
enum class HandleKind : uint8_t {
  kError,
  kText,
  kBuilder,
  kFusion,
  kDevice,
  kRuntime,
  kPlan,
  kExecutable,
  kTuningDatabase,
  kCompiled,
  kRanged,
};
std::string_view name_of(HandleKind kind);

/// A handle as a number: what a caller holds as a pointer. Its upper 16 bits make it no address
/// that a process can have, so that looking through one faults at once instead of reading
/// something.
using HandleBits = uintptr_t;

/// Why a number is no handle of the kind asked for.
struct InvalidHandle {
  HandleKind expected;
  HandleBits bits = 0;
};

/// The objects that callers hold handles of. A lookup gives a share, so an object outlives its
/// release by the calls that are using it. Numbers are counted up and never given out again: 2^44
/// handles outlast a process. Thread-safe.
class HandleRegistry {
 public:
  HandleBits add(HandleKind kind, std::shared_ptr<void> object);
  /// Throws InvalidHandle.
  [[nodiscard]] std::shared_ptr<void> find(HandleBits bits, HandleKind kind) const;
  /// Takes the object out. Throws InvalidHandle.
  std::shared_ptr<void> remove(HandleBits bits, HandleKind kind);
  [[nodiscard]] size_t size() const;

 private:
  struct Entry {
    HandleKind kind;
    std::shared_ptr<void> object;
  };

  mutable std::shared_mutex mutex_;
  std::unordered_map<HandleBits, Entry> entries_;
  uint64_t next_ = 1;
};

/// The registry of the process. It is never destroyed, because handles may be used and released by
/// whatever runs at exit.
HandleRegistry& handles();

}  // namespace sinter::c_api
