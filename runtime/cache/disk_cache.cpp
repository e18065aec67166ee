#include "runtime/cache/disk_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include "runtime/cache/cache_entry.h"

namespace sinter {
namespace {

namespace fs = std::filesystem;
using FileClock = fs::file_time_type::clock;

constexpr std::string_view kEntryExtension = ".kernel";
constexpr std::string_view kTemporaryPrefix = "tmp-";
// Holds no bytes: a lock of one kernel is a lock on the byte at an offset of the key.
constexpr std::string_view kLockName = "compiling.lock";
// A temporary that nobody has locked belongs to a process that was killed, but for the moment
// between making and locking it, or to a file system without locks.
constexpr std::chrono::minutes kTemporaryLifetime{1};
constexpr std::chrono::hours kTemporaryLifetimeWithoutLocks{1};
// Further in the future a modification time is one of a clock that was set back since.
constexpr std::chrono::minutes kClockSkew{1};
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{20};

std::optional<KernelKey> key_of(const fs::path& path) {
  if (path.extension() != kEntryExtension) return std::nullopt;
  return KernelKey::from_hex(path.stem().native());
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// Takes a lock for writing on one byte; returns errno, or 0. The lock is one of the open file, not
// of the process, so that it also keeps the caches of one process apart.
int lock_byte(int descriptor, off_t at) {
  struct flock range {};  // Of process 0, as locks of open files must be.
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = at;
  range.l_len = 1;
  return ::fcntl(descriptor, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

Error load_error(const fs::path& path, std::string_view reason) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = fmt::format("cache entry {} cannot be read: {}; it was left as it is",
                                 path.string(), reason),
          .remedy =
              "remove it, or check the owner and the permissions of the cache directory and "
              "its files"};
}

Error refused(const fs::path& directory, std::string_view reason) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = fmt::format("cache directory {} is not used: {}", directory.string(), reason),
          .remedy = "chmod o-w it, or point SINTER_CACHE_DIR at a directory of your own"};
}

}  // namespace

// Explicitly, since a child that was forked meanwhile shares the open file.
CompileLock::~CompileLock() {
  if (!file_.is_open()) return;
  struct flock everything {};
  everything.l_type = F_UNLCK;
  everything.l_whence = SEEK_SET;
  (void)::fcntl(file_.get(), F_OFD_SETLK, &everything);
}

// A file with an entry's name, whatever it is.
struct DiskCache::Found {
  CacheFile file;
  bool is_regular = false;
  bool is_evictable = false;  // Ours to remove: a regular file that may be believed.
};

fs::path DiskCache::path_of(const KernelKey& key) const {
  return directory_ / fmt::format("{}{}", key.hex(), kEntryExtension);
}

CacheLoad DiskCache::read(const KernelKey& key, struct stat& info) const {
  const auto failed = [](Error error, bool is_damaged) {
    return tl::unexpected<CacheLoadError>(CacheLoadError{std::move(error), is_damaged});
  };
  if (const std::string reason = why_directory_refused(directory_); !reason.empty())
    return failed(refused(directory_, reason), false);
  const fs::path path = path_of(key);
  FileRead file = read_trusted_file(path, kMaxEntryBytes);
  if (file.state == FileRead::State::kAbsent) return std::nullopt;
  if (file.state == FileRead::State::kNotReadable)
    return failed(load_error(path, file.reason), false);
  info = file.info;
  auto kernel = decode_entry(key, file.bytes);
  if (!kernel) return failed(std::move(kernel.error()), true);
  return std::optional(std::move(*kernel));
}

CacheLoad DiskCache::inspect(const KernelKey& key) const {
  struct stat info {};
  return read(key, info);
}

CacheLoad DiskCache::load(const KernelKey& key) const {
  const fs::path path = path_of(key);
  struct stat read_info {};
  CacheLoad out = read(key, read_info);
  if (out && *out) {
    // In a read-only directory the order of eviction is not ours to keep: a failure changes
    // nothing.
    (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  } else if (!out && out.error().damaged) {
    remove_damaged(path, read_info);
  }
  return out;
}

// Another process may write a right entry at any moment, which was not read. So what has the name
// is moved aside before it is looked at, and gets its name back if it is another one.
void DiskCache::remove_damaged(const fs::path& path, const struct stat& damaged) const {
  const auto is_damaged = [&](const char* file) {
    struct stat now {};
    return ::lstat(file, &now) == 0 && same_file(now, damaged);
  };
  if (!is_damaged(path.c_str())) return;
  std::string aside = (directory_ / fmt::format("{}XXXXXX", kTemporaryPrefix)).string();
  const FileDescriptor place(::mkostemp(aside.data(), O_CLOEXEC));
  if (!place.is_open()) return;
  // Where a still newer entry has the name, link() leaves that one.
  if (std::rename(path.c_str(), aside.c_str()) == 0 && !is_damaged(aside.c_str()))
    (void)::link(aside.c_str(), path.c_str());
  ::unlink(aside.c_str());
}

Result<int64_t> DiskCache::store(const KernelKey& key, const CompiledKernel& kernel) const {
  const std::string bytes = encode_entry(key, kernel);
  const auto size = static_cast<int64_t>(bytes.size());
  if (const int64_t limit = std::min(max_bytes_, kMaxEntryBytes); size > limit) {
    return fail(
        {.kind = ErrorKind::kResourceExhausted,
         .message = fmt::format("kernel {} is larger than {}", kernel.entry,
                                limit == max_bytes_ ? "the whole disk cache" : "an entry may be"),
         .remedy = "raise max_disk_bytes",
         .measured = size,
         .limit = limit});
  }
  if (auto made = make_directory(); !made) return fail(std::move(made.error()));
  struct stat there {};
  const fs::path path = path_of(key);
  if (::lstat(path.c_str(), &there) == 0) {
    if (!S_ISREG(there.st_mode)) return fail(load_error(path, "it is no regular file"));
    if (const std::string reason = why_untrusted(there); !reason.empty())
      return fail(load_error(path, reason));
  }

  std::string_view step;
  int code = write_file(key, bytes, step);
  int64_t evicted = 0;
  if (code == ENOSPC || code == EDQUOT) {
    // The disk is fuller than this cache knows: it gives up as much as it now needs.
    if (const auto files = scan()) {
      int64_t total = 0;
      for (const Found& found : *files) total += found.is_evictable ? found.file.bytes : 0;
      evicted = evict(std::max<int64_t>(0, total - 2 * size), key).value_or(0);
    }
    if (evicted > 0) code = write_file(key, bytes, step);
  }
  if (code != 0) {
    return fail({.kind = ErrorKind::kResourceExhausted,
                 .message = fmt::format("{} in cache directory {} failed: {}", step,
                                        directory_.string(), system_message(code)),
                 .remedy = "free space there, or point SINTER_CACHE_DIR at a writable directory"});
  }
  return evict(max_bytes_, key).map([&](int64_t removed) { return removed + evicted; });
}

Result<void> DiskCache::make_directory() const {
  std::error_code error;
  if (directory_.has_parent_path()) fs::create_directories(directory_.parent_path(), error);
  // Nobody else needs to read it, whatever the mask for new files is.
  if (!error && ::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    error = std::error_code(errno, std::generic_category());
  if (!error && !fs::is_directory(directory_, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) {
    const bool is_wrong_path = error == std::errc::not_a_directory;
    return fail(
        {.kind = is_wrong_path ? ErrorKind::kInvalidArgument : ErrorKind::kResourceExhausted,
         .message = fmt::format("making a folder in cache directory {} failed: {}",
                                directory_.string(), error.message()),
         .remedy = "free space there, or point SINTER_CACHE_DIR at a writable directory"});
  }
  if (const std::string reason = why_directory_refused(directory_); !reason.empty())
    return fail(refused(directory_, reason));
  return {};
}

// Returns errno and the step that failed, or 0.
int DiskCache::write_file(const KernelKey& key, const std::string& bytes,
                          std::string_view& step) const {
  std::string temporary = (directory_ / fmt::format("{}XXXXXX", kTemporaryPrefix)).string();
  step = "making a file";
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.is_open()) return errno;
  step = "writing an entry";
  (void)::flock(file.get(), LOCK_EX | LOCK_NB);  // Says that its writer lives.
  int code = write_all(file.get(), bytes);
  // Network file systems report a failed write when a descriptor is closed: a second one is, so
  // that the first keeps the lock until the file has its name.
  FileDescriptor second(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  if (code == 0) code = second.is_open() ? second.close() : errno;
  if (code == 0 && std::rename(temporary.c_str(), path_of(key).c_str()) != 0) code = errno;
  if (code != 0) ::unlink(temporary.c_str());
  return code;
}

CompileLock DiskCache::lock(const KernelKey& key, std::chrono::milliseconds patience) const {
  using enum CompileLock::State;
  const auto without = [](bool has_waited) {
    return CompileLock(kNone, has_waited, FileDescriptor());
  };
  if (!make_directory()) return without(false);
  FileDescriptor file(::open((directory_ / kLockName).c_str(),
                             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat info {};
  if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return without(false);

  const auto at = static_cast<off_t>(key.low >> 1U);  // Offsets have 63 bits.
  const auto begin = std::chrono::steady_clock::now();
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const bool has_waited = pause != kFirstPause;
    const int code = lock_byte(file.get(), at);
    if (code == 0) return {kHeld, has_waited, std::move(file)};
    if (code != EAGAIN && code != EACCES && code != EINTR) return without(has_waited);
    if (::access(path_of(key).c_str(), F_OK) == 0) return {kPublished, true, FileDescriptor()};
    if (std::chrono::steady_clock::now() - begin >= patience)
      return {kGivenUp, true, FileDescriptor()};
    std::this_thread::sleep_for(pause);
  }
}

Result<std::vector<DiskCache::Found>> DiskCache::scan() const {
  std::vector<Found> out;
  std::error_code error;
  fs::directory_iterator it(directory_, error);
  if (error == std::errc::no_such_file_or_directory) return out;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const auto key = key_of(it->path());
    if (!key) continue;
    // Another process may remove it between the listing and the look.
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) != 0) continue;
    const bool is_regular = S_ISREG(info.st_mode);
    std::error_code gone;
    const auto last_used = is_regular ? it->last_write_time(gone) : fs::file_time_type{};
    if (gone) continue;
    out.push_back({.file = {.key = *key, .bytes = info.st_size, .last_used = last_used},
                   .is_regular = is_regular,
                   .is_evictable = is_regular && why_untrusted(info).empty() &&
                                   info.st_size <= kMaxEntryBytes});
  }
  if (error) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("cache directory {} cannot be listed: {}",
                                        directory_.string(), error.message()),
                 .remedy = "point SINTER_CACHE_DIR at a readable directory"});
  }
  std::ranges::sort(out, [](const Found& a, const Found& b) {
    return a.file.last_used != b.file.last_used ? a.file.last_used < b.file.last_used
                                                : a.file.key < b.file.key;
  });
  return out;
}

Result<std::vector<CacheFile>> DiskCache::list() const {
  const auto files = scan();
  if (!files) return fail(files.error());
  std::vector<CacheFile> out;
  for (const Found& found : *files) {
    if (found.is_regular) out.push_back(found.file);
  }
  return out;
}

Result<int64_t> DiskCache::evict(int64_t max_bytes, const KernelKey& kept) const {
  remove_temporaries(kTemporaryLifetime);
  auto files = scan();
  if (!files) return fail(files.error());
  std::erase_if(*files, [](const Found& found) { return !found.is_evictable; });

  // The time that the file system gave the entry just written: clocks of a file server and of this
  // host may differ. What is later was used before the clock was set back, and so longest ago.
  const auto written =
      std::ranges::find_if(*files, [&](const Found& found) { return found.file.key == kept; });
  const auto now = written != files->end() ? written->file.last_used : FileClock::now();
  std::ranges::stable_partition(
      *files, [&](const Found& found) { return found.file.last_used > now + kClockSkew; });

  int64_t bytes = 0;
  for (const Found& found : *files) bytes += found.file.bytes;
  int64_t removed = 0;
  for (const Found& found : *files) {
    if (bytes <= max_bytes) break;
    if (found.file.key == kept) continue;
    std::error_code error;
    // Counts as gone whoever removed it, so that two processes that evict at once do not each
    // remove the whole excess.
    if (fs::remove(path_of(found.file.key), error)) ++removed;
    if (!error) bytes -= found.file.bytes;
  }
  return removed;
}

void DiskCache::remove_temporaries(std::chrono::seconds older_than) const {
  const auto now = FileClock::now();
  std::error_code error;
  fs::directory_iterator it(directory_, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!it->path().filename().native().starts_with(kTemporaryPrefix)) continue;
    std::error_code gone;
    if (!fs::is_regular_file(it->symlink_status(gone)) || gone) continue;
    const auto written = it->last_write_time(gone);
    // In either direction: a clock may have been set back.
    const auto age = written <= now ? now - written : written - now;
    if (gone || age < older_than) continue;
    const FileDescriptor file(
        ::open(it->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.is_open()) continue;
    const int code = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    const bool is_abandoned = code == 0 || (code != EWOULDBLOCK && code != EINTR &&
                                            age >= kTemporaryLifetimeWithoutLocks);
    if (is_abandoned) fs::remove(it->path(), gone);
  }
}

Result<std::vector<DamagedFile>> DiskCache::verify() const {
  if (const std::string reason = why_directory_refused(directory_); !reason.empty())
    return fail(refused(directory_, reason));
  const auto files = scan();
  if (!files) return fail(files.error());
  std::vector<DamagedFile> out;
  for (const Found& found : *files) {
    if (const CacheLoad kernel = inspect(found.file.key); !kernel)
      out.push_back({found.file, kernel.error().message});
  }
  return out;
}

Result<int64_t> DiskCache::clear() const {
  const auto files = list();
  if (!files) return fail(files.error());
  int64_t removed = 0;
  for (const CacheFile& file : *files) {
    std::error_code error;
    if (fs::remove(path_of(file.key), error)) ++removed;
    if (error) {
      return fail({.kind = ErrorKind::kInvalidArgument,
                   .message = fmt::format("{} cannot be removed: {}", path_of(file.key).string(),
                                          error.message()),
                   .remedy = "check the permissions of the cache directory"});
    }
  }
  remove_temporaries(std::chrono::seconds(0));
  return removed;
}

}  // namespace sinter
