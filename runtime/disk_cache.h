#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compiled_kernel.h"
#include "runtime/kernel_key.h"

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

/// A directory of compiled kernels, one file each, named by key. Any number of processes may use
/// one directory at once without locks: a file appears whole (written under a temporary name, then
/// renamed), is never changed, and carries a checksum, so that a torn or flipped file costs a
/// recompile and nothing else. Nothing is synced to the platter: what a power cut loses is compiled
/// again. Calls may come from any thread.
class DiskCache {
 public:
  /// Does not touch the disk; the directory is made when first written to.
  DiskCache(std::filesystem::path directory, int64_t max_bytes)
      : directory_(std::move(directory)), max_bytes_(max_bytes) {}

  /// The kernel, marked as just used; nothing if there is no entry. A damaged or unreadable entry
  /// is removed and returned as the error.
  [[nodiscard]] Result<std::optional<CompiledKernel>> load(const KernelKey& key) const;

  /// Writes an entry, then removes the least recently used ones until all fit max_bytes. Returns
  /// how many were removed. An entry that alone exceeds max_bytes is not written. Fails with
  /// kResourceExhausted and the system's reason; what was there before stays intact.
  [[nodiscard]] Result<int64_t> store(const KernelKey& key, const CompiledKernel& kernel) const;

  /// Every entry, least recently used first. An absent directory is an empty cache.
  [[nodiscard]] Result<std::vector<CacheFile>> list() const;
  /// Reads every entry and names those that are damaged. Removes nothing.
  [[nodiscard]] Result<std::vector<DamagedFile>> verify() const;
  /// Removes every entry and every temporary file; returns how many entries there were. Other files
  /// in the directory stay.
  [[nodiscard]] Result<int64_t> clear() const;

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  [[nodiscard]] std::filesystem::path path_of(const KernelKey& key) const;

 private:
  [[nodiscard]] Result<void> write_file(const KernelKey& key, const std::string& bytes) const;
  [[nodiscard]] Result<int64_t> evict() const;
  void remove_temporaries(std::chrono::seconds older_than) const;

  std::filesystem::path directory_;
  int64_t max_bytes_;
};

}  // namespace sinter
