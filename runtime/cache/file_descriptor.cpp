#include "runtime/cache/file_descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace sinter {

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int FileDescriptor::close() {
  const int status = ::close(std::exchange(descriptor_, -1));
  return status == 0 ? 0 : errno;
}

int read_up_to(int descriptor, std::span<std::byte> to, size_t& done) {
  done = 0;
  while (done < to.size()) {
    const ssize_t count = ::read(descriptor, to.data() + done, to.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return 0;
}

int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return 0;
}

std::string system_message(int code) { return std::generic_category().message(code); }

}  // namespace sinter
