#include "runtime/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "runtime/cache_entry.h"

namespace sinter {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEntryExtension = ".kernel";
constexpr std::string_view kTemporaryPrefix = "tmp-";
// Writing takes milliseconds: an older temporary belongs to a process that was killed.
constexpr std::chrono::hours kTemporaryLifetime{1};

std::string system_message(int code) { return std::generic_category().message(code); }

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int get() const { return descriptor_; }
  // Network file systems report a failed write here. Returns errno, or 0.
  int close() {
    const int status = ::close(descriptor_);
    descriptor_ = -1;
    return status == 0 ? 0 : errno;
  }

 private:
  int descriptor_;
};

// Reads a whole file; returns errno, or 0.
int read_file(const fs::path& path, std::string& out) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return errno;
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return errno;
  out.resize(static_cast<size_t>(std::max<off_t>(info.st_size, 0)));
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::read(file.get(), out.data() + done, out.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  out.resize(done);
  return 0;
}

// Writes all bytes; returns errno, or 0.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return 0;
}

std::optional<KernelKey> key_of(const fs::path& path) {
  if (path.extension() != kEntryExtension) return std::nullopt;
  return KernelKey::from_hex(path.stem().native());
}

}  // namespace

fs::path DiskCache::path_of(const KernelKey& key) const {
  return directory_ / fmt::format("{}{}", key.hex(), kEntryExtension);
}

Result<std::optional<CompiledKernel>> DiskCache::load(const KernelKey& key) const {
  const fs::path path = path_of(key);
  std::string bytes;
  const int read_error = read_file(path, bytes);
  if (read_error == ENOENT || read_error == ENOTDIR) return std::nullopt;

  auto kernel = read_error == 0
                    ? decode_entry(key, bytes)
                    : Result<CompiledKernel>(
                          fail({.kind = ErrorKind::kInvalidArgument,
                                .message = fmt::format("cache entry {} cannot be read: {}",
                                                       path.string(), system_message(read_error)),
                                .remedy = "check the permissions of the cache directory"}));
  if (!kernel) {
    std::error_code ignored;  // Somebody else may have removed it, or nobody may.
    fs::remove(path, ignored);
    return fail(std::move(kernel.error()));
  }
  // In a read-only directory the order of eviction is not ours to keep: a failure changes nothing.
  (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return std::optional(std::move(*kernel));
}

Result<int64_t> DiskCache::store(const KernelKey& key, const CompiledKernel& kernel) const {
  const std::string bytes = encode_entry(key, kernel);
  if (static_cast<int64_t>(bytes.size()) > max_bytes_) {
    return fail(
        {.kind = ErrorKind::kResourceExhausted,
         .message = fmt::format("kernel {} is larger than the whole disk cache", kernel.entry),
         .remedy = "raise max_disk_bytes",
         .measured = static_cast<int64_t>(bytes.size()),
         .limit = max_bytes_});
  }
  if (auto written = write_file(key, bytes); !written) return fail(std::move(written.error()));
  return evict();
}

Result<void> DiskCache::write_file(const KernelKey& key, const std::string& bytes) const {
  const auto failed = [&](std::string_view step, int code) {
    return fail({.kind = ErrorKind::kResourceExhausted,
                 .message = fmt::format("{} in cache directory {} failed: {}", step,
                                        directory_.string(), system_message(code)),
                 .remedy = "free space there, or point SINTER_CACHE_DIR at a writable directory"});
  };
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) return failed("making a folder", error.value());

  std::string temporary = (directory_ / fmt::format("{}XXXXXX", kTemporaryPrefix)).string();
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.is_open()) return failed("making a file", errno);
  int code = write_all(file.get(), bytes);
  const int close_code = file.close();
  if (code == 0) code = close_code;
  if (code == 0 && std::rename(temporary.c_str(), path_of(key).c_str()) != 0) code = errno;
  if (code != 0) {
    ::unlink(temporary.c_str());
    return failed("writing an entry", code);
  }
  return {};
}

Result<std::vector<CacheFile>> DiskCache::list() const {
  std::vector<CacheFile> out;
  std::error_code error;
  fs::directory_iterator it(directory_, error);
  if (error == std::errc::no_such_file_or_directory) return out;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const auto key = key_of(it->path());
    if (!key) continue;
    std::error_code gone;  // Another process may remove it between the listing and the look.
    const auto bytes = it->file_size(gone);
    if (gone) continue;
    const auto last_used = it->last_write_time(gone);
    if (gone) continue;
    out.push_back({.key = *key, .bytes = static_cast<int64_t>(bytes), .last_used = last_used});
  }
  if (error) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("cache directory {} cannot be listed: {}",
                                        directory_.string(), error.message()),
                 .remedy = "point SINTER_CACHE_DIR at a readable directory"});
  }
  std::sort(out.begin(), out.end(), [](const CacheFile& a, const CacheFile& b) {
    return a.last_used != b.last_used ? a.last_used < b.last_used : a.key < b.key;
  });
  return out;
}

Result<int64_t> DiskCache::evict() const {
  remove_temporaries(kTemporaryLifetime);
  const auto files = list();
  if (!files) return fail(files.error());
  int64_t bytes = 0;
  for (const CacheFile& file : *files) bytes += file.bytes;
  int64_t removed = 0;
  for (const CacheFile& file : *files) {
    if (bytes <= max_bytes_) break;
    std::error_code error;
    // Counts as gone whoever removed it, so that two processes that evict at once do not each
    // remove the whole excess.
    if (fs::remove(path_of(file.key), error)) ++removed;
    if (!error) bytes -= file.bytes;
  }
  return removed;
}

void DiskCache::remove_temporaries(std::chrono::seconds older_than) const {
  const auto newest_kept = fs::file_time_type::clock::now() - older_than;
  std::error_code error;
  fs::directory_iterator it(directory_, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!it->path().filename().native().starts_with(kTemporaryPrefix)) continue;
    std::error_code gone;
    const auto written = it->last_write_time(gone);
    if (!gone && written <= newest_kept) fs::remove(it->path(), gone);
  }
}

Result<std::vector<DamagedFile>> DiskCache::verify() const {
  const auto files = list();
  if (!files) return fail(files.error());
  std::vector<DamagedFile> out;
  for (const CacheFile& file : *files) {
    std::string bytes;
    const int code = read_file(path_of(file.key), bytes);
    if (code == ENOENT) continue;
    if (code != 0) {
      out.push_back({file, system_message(code)});
    } else if (const auto kernel = decode_entry(file.key, bytes); !kernel) {
      out.push_back({file, kernel.error().message});
    }
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
