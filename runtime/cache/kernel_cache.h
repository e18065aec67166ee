#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/cache/compiled_kernel.h"
#include "runtime/cache/disk_cache.h"
#include "runtime/cache/kernel_key.h"

namespace sinter {

struct KernelCacheOptions {
  /// Where entries lie on disk; empty: in memory only.
  std::filesystem::path directory{};
  int64_t max_disk_bytes = int64_t{1} << 30;
  int64_t max_memory_bytes = int64_t{256} << 20;
  /// How long another process that compiles the same kernel is waited for. A kernel compiles in
  /// less than a few seconds: who takes longer is stopped or hangs, and this process compiles too.
  std::chrono::milliseconds max_wait{20'000};
  /// Told of damaged and unreadable entries and failed writes, one sentence each, on the thread
  /// that met them. May be called from several threads at once.
  std::function<void(const Error&)> on_trouble{};

  /// The directory from SINTER_CACHE_DIR, else $XDG_CACHE_HOME/sinter, else $HOME/.cache/sinter;
  /// empty if SINTER_CACHE_DISABLE is set to anything but 0, or no home is known.
  static KernelCacheOptions from_environment();
};

/// Counts since the cache was made.
struct KernelCacheStatistics {
  int64_t memory_hits = 0;  ///< Also those that waited for the same kernel to be compiled.
  int64_t disk_hits = 0;
  int64_t misses = 0;   ///< Compilations asked for, failed ones included.
  int64_t damaged = 0;  ///< Entries read, found damaged and removed.
  int64_t unreadable =
      0;                ///< Lookups that found what they could not or must not read, and left it.
  int64_t evicted = 0;  ///< From disk, by this cache.
  int64_t write_failures = 0;
  int64_t waits = 0;           ///< For another process that compiled the same kernel.
  int64_t waits_given_up = 0;  ///< Of these those that max_wait ended.
  friend bool operator==(const KernelCacheStatistics&, const KernelCacheStatistics&) = default;
};

enum class KernelOrigin : uint8_t {
  kMemory,
  kDisk,
  kCompiled,
  kLibrary,  ///< Another library has the kernel.
};

struct CacheLookup {
  CompiledKernelPtr kernel;
  KernelOrigin origin = KernelOrigin::kCompiled;
};

/// Compiled kernels by content, in memory and on disk. Trouble with the disk never fails a lookup:
/// it is counted and reported, and the kernel is compiled. Calls may come from any thread; threads
/// and processes that ask for one key at once share one compilation.
class KernelCache {
 public:
  using Compile = std::function<Result<CompiledKernel>()>;

  explicit KernelCache(KernelCacheOptions options);

  /// The kernel for a key, compiled by `compile` if neither memory nor disk has it. An error of
  /// `compile` goes to everybody who waits for it, and is not kept.
  [[nodiscard]] Result<CacheLookup> get_or_compile(const KernelKey& key, const Compile& compile);

  [[nodiscard]] KernelCacheStatistics statistics() const;
  /// Forgets the kernels in memory; those in use stay alive with their users, those being compiled
  /// arrive as usual.
  void clear_memory();
  /// The disk side, for tools; null if there is none.
  [[nodiscard]] const DiskCache* disk() const { return disk_ ? &*disk_ : nullptr; }

 private:
  struct Slot {
    std::shared_future<Result<CompiledKernelPtr>> kernel;
    int64_t bytes = 0;  // Zero until the kernel is there: such a slot is never evicted.
    uint64_t last_use = 0;
  };

  /// What a look at the disk says of a kernel.
  struct OnDisk {
    std::optional<CompiledKernel> kernel;
    bool may_be_written = false;
  };
  [[nodiscard]] OnDisk load_from_disk(const KernelKey& key);
  [[nodiscard]] CompileLock lock_on_disk(const KernelKey& key);
  void store_on_disk(const KernelKey& key, const CompiledKernel& kernel);
  [[nodiscard]] Result<CacheLookup> find_or_make(const KernelKey& key, const Compile& compile);
  void settle(const KernelKey& key, const Result<CacheLookup>& made);
  void report(const Error& error) const;

  KernelCacheOptions options_;
  std::optional<DiskCache> disk_;

  mutable std::mutex mutex_;  // Guards all below; never held while compiling, reading or reporting.
  std::unordered_map<KernelKey, Slot> slots_;
  int64_t memory_bytes_ = 0;
  uint64_t use_count_ = 0;
  KernelCacheStatistics statistics_;
};

}  // namespace sinter
