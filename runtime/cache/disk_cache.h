#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache/cache_file.h"
#include "runtime/cache/compiled_kernel.h"
#include "runtime/cache/kernel_key.h"

namespace sinter {

/// What a listing says of one cache file.
struct CacheFile {
  KernelKey key;
  int64_t bytes = 0;
  std::filesystem::file_time_type last_used;
};

/// A file that verify() found unfit.
struct DamagedFile {
  CacheFile file;
  std::string reason;
};

/// Why a lookup that found something has no kernel.
struct CacheLoadError : Error {
  /// It was read and is no entry of this key, so that it was removed. Otherwise it was not read,
  /// and stays as it is.
  bool damaged = false;
};
using CacheLoad = tl::expected<std::optional<CompiledKernel>, CacheLoadError>;

/// The right to compile a kernel, which one process at a time has. Given back with its scope, or by
/// the system when the process dies.
class CompileLock {
 public:
  enum class State : uint8_t {
    kHeld,
    kPublished,  ///< Another process wrote the entry meanwhile.
    kGivenUp,    ///< Another process holds it longer than was waited for.
    kNone,       ///< The directory cannot be written, or its file system has no locks.
  };
  CompileLock(State state, bool has_waited, FileDescriptor file)
      : state_(state), has_waited_(has_waited), file_(std::move(file)) {}
  CompileLock(CompileLock&&) noexcept = default;
  CompileLock& operator=(CompileLock&&) = delete;
  ~CompileLock();
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool has_waited() const { return has_waited_; }

 private:
  State state_;
  bool has_waited_;
  FileDescriptor file_;
};

/// A directory of compiled kernels, one file each, named by key. Any number of processes may use
/// one directory at once: a file appears whole (written under a temporary name, then renamed), is
/// never changed, and carries a checksum, so that a torn or flipped file costs a recompile and
/// nothing else. Nothing is synced to the platter: what a power cut loses is compiled again. Calls
/// may come from any thread.
///
/// A directory that every user may write is refused. An entry counts only if it is a regular file
/// of this user or of root that nobody else may write. Anything else in its place is left there.
class DiskCache {
 public:
  /// Bytes of the largest entry that is written or read. Cubins have up to a few MiB.
  static constexpr int64_t kMaxEntryBytes = int64_t{256} << 20;

  /// Does not touch the disk; the directory is made when first written to.
  DiskCache(std::filesystem::path directory, int64_t max_bytes)
      : directory_(std::move(directory)), max_bytes_(max_bytes) {}

  /// The kernel, marked as just used; nothing if there is no entry. An entry that was read and is
  /// damaged is removed; what cannot be read, or must not be believed, stays.
  [[nodiscard]] CacheLoad load(const KernelKey& key) const;
  /// The same without a mark, and nothing is removed.
  [[nodiscard]] CacheLoad inspect(const KernelKey& key) const;

  /// Writes an entry, then removes the least recently used ones until all fit max_bytes. Returns
  /// how many were removed. A full disk is met by removing others, once. An entry that alone
  /// exceeds max_bytes is not written, nor one in the place of something that load() leaves. Fails
  /// with kResourceExhausted and the system's reason; what was there before stays intact.
  [[nodiscard]] Result<int64_t> store(const KernelKey& key, const CompiledKernel& kernel) const;

  /// Waits until no other process compiles this kernel, or has written it, for `patience` at most.
  [[nodiscard]] CompileLock lock(const KernelKey& key, std::chrono::milliseconds patience) const;

  /// Every entry, least recently used first. An absent directory is an empty cache.
  [[nodiscard]] Result<std::vector<CacheFile>> list() const;
  /// Reads every entry and names those that load() would not take. Removes nothing.
  [[nodiscard]] Result<std::vector<DamagedFile>> verify() const;
  /// Removes every entry and every temporary file; returns how many entries there were. Other files
  /// in the directory stay.
  [[nodiscard]] Result<int64_t> clear() const;

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  [[nodiscard]] std::filesystem::path path_of(const KernelKey& key) const;

 private:
  struct Found;
  [[nodiscard]] Result<std::vector<Found>> scan() const;
  [[nodiscard]] Result<void> make_directory() const;
  [[nodiscard]] CacheLoad read(const KernelKey& key, struct stat& info) const;
  /// Removes an entry that was read and found damaged, and none that replaced it since.
  void remove_damaged(const std::filesystem::path& path, const struct stat& damaged) const;
  [[nodiscard]] int write_file(const KernelKey& key, const std::string& bytes,
                               std::string_view& step) const;
  [[nodiscard]] Result<int64_t> evict(int64_t max_bytes, const KernelKey& kept) const;
  void remove_temporaries(std::chrono::seconds older_than) const;

  std::filesystem::path directory_;
  int64_t max_bytes_;
};

}  // namespace sinter
