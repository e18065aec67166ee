#pragma once

#include <chrono>
#include <filesystem>
#include <utility>

#include "fusion_ir/result.h"

namespace sinter {

/// A folder below the system's temporary one that goes with its scope.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Name of the database in a folder that copy_database() made.
inline constexpr const char* kCopiedDatabase = "copy.db";

/// Copies an SQLite file and its rollback journal as they are at one moment, for a reader who may
/// not roll the journal of a killed writer back in place. Needs permission to read both, and a
/// temporary folder. While another process rolls back it waits, until `patience` is over.
Result<TemporaryFolder> copy_database(const std::filesystem::path& database,
                                      std::chrono::milliseconds patience);

}  // namespace sinter
