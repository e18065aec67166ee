#include "runtime/cache/cache_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <span>

namespace sinter {

std::string why_untrusted(const struct stat& info) {
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return fmt::format("it belongs to user {}, not to user {} or root", info.st_uid, ::geteuid());
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format("other users may write it (mode {:04o})", info.st_mode & 07777U);
  return {};
}

std::string why_directory_refused(const std::filesystem::path& directory) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) return {};  // Absent, or what follows says why.
  if (!S_ISDIR(info.st_mode) || (info.st_mode & S_IWOTH) == 0) return {};
  return fmt::format("every user may write it (mode {:04o})", info.st_mode & 07777U);
}

FileRead read_trusted_file(const std::filesystem::path& path, int64_t limit) {
  const auto unreadable = [](std::string reason) {
    return FileRead{.state = FileRead::State::kNotReadable, .reason = std::move(reason)};
  };
  FileDescriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    const int code = errno;
    struct stat link {};
    // A loop of links above the file has the same number.
    if (code == ELOOP && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode))
      return unreadable("it is a symbolic link");
    return unreadable(system_message(code));
  }
  FileRead out{.state = FileRead::State::kRead};
  if (::fstat(file.get(), &out.info) != 0) return unreadable(system_message(errno));
  if (!S_ISREG(out.info.st_mode))
    return unreadable(S_ISDIR(out.info.st_mode) ? "it is a directory" : "it is no regular file");
  if (std::string reason = why_untrusted(out.info); !reason.empty())
    return unreadable(std::move(reason));
  if (out.info.st_size > limit)
    return unreadable(
        fmt::format("it has {} bytes, and no entry has more than {}", out.info.st_size, limit));
  out.bytes.resize(static_cast<size_t>(out.info.st_size));
  size_t done = 0;
  const int code = read_up_to(file.get(), std::as_writable_bytes(std::span(out.bytes)), done);
  if (code != 0) return unreadable(system_message(code));
  out.bytes.resize(done);
  return out;
}

}  // namespace sinter
