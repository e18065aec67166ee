#include "runtime/tuning/database_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cache/cache_file.h"

namespace sinter {
namespace {

namespace fs = std::filesystem;

// Where SQLite locks a file (its file format, "Locking And Concurrency"): whoever writes, or rolls
// a journal back, has all of these bytes for writing; whoever reads has them for reading.
constexpr off_t kSharedFirst = 0x40000000 + 2;
constexpr off_t kSharedSize = 510;
constexpr std::chrono::milliseconds kPause{2};

// Of the open file, and so unlike SQLite's locks, which are of the process, undone alone.
int set_shared_lock(int descriptor, short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = kSharedFirst;
  range.l_len = kSharedSize;
  return ::fcntl(descriptor, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

// One copy at a time, since threads share the descriptors of descriptor_of().
std::mutex& copying() {
  static std::mutex mutex;
  return mutex;
}

// Opens a database, once for the process: to close any descriptor of a file drops all locks that
// SQLite has on it in this process.
int descriptor_of(const fs::path& database) {
  static std::vector<std::pair<struct stat, int>> opened;
  struct stat wanted {};
  if (::stat(database.c_str(), &wanted) != 0) return -1;
  for (const auto& [info, descriptor] : opened) {
    if (info.st_dev == wanted.st_dev && info.st_ino == wanted.st_ino) return descriptor;
  }
  const int descriptor = ::open(database.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  if (descriptor >= 0 && ::fstat(descriptor, &info) == 0) opened.emplace_back(info, descriptor);
  return descriptor;
}

// Copies from the beginning to the end; returns errno, or 0.
int copy_bytes(int from, const fs::path& to) {
  FileDescriptor out(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.is_open()) return errno;
  std::array<char, 65536> buffer{};
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(from, buffer.data(), buffer.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return out.close();
    const int code = write_all(out.get(), {buffer.data(), static_cast<size_t>(count)});
    if (code != 0) return code;
    at += count;
  }
}

int copy_with_journal(int database, const fs::path& journal, const fs::path& folder) {
  const fs::path copy = folder / kCopiedDatabase;
  if (const int code = copy_bytes(database, copy); code != 0) return code;
  const FileDescriptor from(::open(journal.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!from.is_open()) return errno == ENOENT ? 0 : errno;  // Rolled back meanwhile.
  return copy_bytes(from.get(), copy.string() + "-journal");
}

}  // namespace

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<TemporaryFolder> copy_database(const fs::path& database,
                                      std::chrono::milliseconds patience) {
  const auto failed = [&](std::string_view step, int code) {
    return fail({.kind = ErrorKind::kResourceExhausted,
                 .message = fmt::format("the tuning database {} was left by a process that was "
                                        "killed while it wrote, and {} failed: {}",
                                        database.string(), step, system_message(code)),
                 .remedy = "open it once with permission to write it and its directory, or set "
                           "TMPDIR to a directory with room for a copy"});
  };
  const std::lock_guard one_at_a_time(copying());
  const int descriptor = descriptor_of(database);
  if (descriptor < 0) return failed("opening it", errno);
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "sinter-tuning-XXXXXX").string();
  if (error) return failed("finding a temporary directory", error.value());
  if (::mkdtemp(name.data()) == nullptr) return failed("making a temporary folder", errno);
  TemporaryFolder folder(name);

  const auto deadline = std::chrono::steady_clock::now() + patience;
  int code = set_shared_lock(descriptor, F_RDLCK);
  while ((code == EAGAIN || code == EACCES || code == EINTR) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
    code = set_shared_lock(descriptor, F_RDLCK);
  }
  if (code != 0) return failed("locking it", code);
  code = copy_with_journal(descriptor, database.string() + "-journal", folder.path());
  (void)set_shared_lock(descriptor, F_UNLCK);
  if (code != 0) return failed("copying it", code);
  return folder;
}

}  // namespace sinter
