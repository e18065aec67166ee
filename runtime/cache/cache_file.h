#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/cache/file_descriptor.h"

namespace sinter {

/// What an attempt to read a file came to.
struct FileRead {
  enum class State : uint8_t {
    kAbsent,
    kRead,         ///< `bytes` are all of it.
    kNotReadable,  ///< It is there, or may be; `reason` says why it was not read.
  };
  State state = State::kAbsent;
  std::string bytes{};
  std::string reason{};
  struct stat info {};  ///< Of the file read.
};

/// Why a file of this owner and mode must not be believed: another user than this one or root could
/// have written it. Empty if it may be.
std::string why_untrusted(const struct stat& info);
/// Why a directory must not be used as a cache: everybody may put files there. Empty if it may be.
std::string why_directory_refused(const std::filesystem::path& directory);

/// Reads a regular file that may be believed and has at most `limit` bytes. Follows no symbolic
/// link, waits for no writer of a FIFO, and changes nothing.
FileRead read_trusted_file(const std::filesystem::path& path, int64_t limit);

}  // namespace sinter
