#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace sinter {

/// A file descriptor that is closed with its scope.
class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor = -1) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int get() const { return descriptor_; }
  /// Network file systems report a failed write here. Returns errno, or 0.
  int close();

 private:
  int descriptor_;
};

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

/// Writes all bytes; returns errno, or 0.
int write_all(int descriptor, std::string_view bytes);

/// What the system says of an errno.
std::string system_message(int code);

}  // namespace sinter
