#pragma once

#include <cstddef>
#include <span>
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

/// Fills `to`, or as much of it as there is to read: `done` bytes. Returns errno, or 0.
int read_up_to(int descriptor, std::span<std::byte> to, size_t& done);

/// Writes all bytes; returns errno, or 0.
int write_all(int descriptor, std::string_view bytes);

/// What the system says of an errno.
std::string system_message(int code);

}  // namespace sinter
