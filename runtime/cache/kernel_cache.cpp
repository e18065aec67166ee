#include "runtime/cache/kernel_cache.h"

#include <cstdlib>
#include <string_view>
#include <utility>

namespace sinter {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

int64_t bytes_of(const CompiledKernel& kernel) {
  return static_cast<int64_t>(sizeof(kernel) + kernel.cubin.size() + kernel.log.size());
}

}  // namespace

KernelCacheOptions KernelCacheOptions::from_environment() {
  KernelCacheOptions options;
  const std::string_view disable = environment("SINTER_CACHE_DISABLE");
  if (!disable.empty() && disable != "0") return options;
  if (const auto directory = environment("SINTER_CACHE_DIR"); !directory.empty()) {
    options.directory = directory;
  } else if (const std::filesystem::path cache = environment("XDG_CACHE_HOME");
             cache.is_absolute()) {  // The XDG specification says to ignore a relative one.
    options.directory = cache / "sinter";
  } else if (const auto home = environment("HOME"); !home.empty()) {
    options.directory = std::filesystem::path(home) / ".cache" / "sinter";
  }
  return options;
}

KernelCache::KernelCache(KernelCacheOptions options) : options_(std::move(options)) {
  if (!options_.directory.empty()) disk_.emplace(options_.directory, options_.max_disk_bytes);
}

Result<CacheLookup> KernelCache::get_or_compile(const KernelKey& key, const Compile& compile) {
  return as_result([&]() -> Result<CacheLookup> {
    std::promise<Result<CompiledKernelPtr>> promise;
    std::shared_future<Result<CompiledKernelPtr>> shared;
    {
      const std::lock_guard lock(mutex_);
      const auto [it, is_new] = slots_.try_emplace(key);
      it->second.last_use = ++use_count_;
      if (is_new) {
        it->second.kernel = promise.get_future().share();
      } else {
        shared = it->second.kernel;
        ++statistics_.memory_hits;
      }
    }
    if (shared.valid()) {
      const Result<CompiledKernelPtr>& kernel = shared.get();
      if (!kernel) return fail(kernel.error());
      return CacheLookup{.kernel = *kernel, .origin = KernelOrigin::kMemory};
    }

    // From here on others wait for the promise: it must be kept whatever happens.
    try {
      Result<CacheLookup> made = find_or_make(key, compile);
      settle(key, made);
      promise.set_value(made ? Result<CompiledKernelPtr>(made->kernel) : fail(made.error()));
      return made;
    } catch (...) {
      settle(key, fail({}));
      promise.set_exception(std::current_exception());
      throw;
    }
  });
}

Result<CacheLookup> KernelCache::find_or_make(const KernelKey& key, const Compile& compile) {
  const auto from_disk = [](OnDisk& found) {
    return CacheLookup{.kernel = std::make_shared<const CompiledKernel>(std::move(*found.kernel)),
                       .origin = KernelOrigin::kDisk};
  };
  OnDisk found = load_from_disk(key);
  if (found.kernel) return from_disk(found);
  // Held until the entry is written, so that those who wait find it.
  std::optional<CompileLock> lock;
  if (found.may_be_written) {
    lock.emplace(lock_on_disk(key));
    // Another process may have written it between the look and the lock.
    if (lock->state() != CompileLock::State::kNone) found = load_from_disk(key);
    if (found.kernel) return from_disk(found);
  }
  auto compiled = compile();
  if (!compiled) return fail(std::move(compiled.error()));
  const auto kernel = std::make_shared<const CompiledKernel>(std::move(*compiled));
  if (found.may_be_written) store_on_disk(key, *kernel);
  return CacheLookup{.kernel = kernel, .origin = KernelOrigin::kCompiled};
}

// Books the outcome of a lookup: keeps a kernel, drops the slot of a failure.
void KernelCache::settle(const KernelKey& key, const Result<CacheLookup>& made) {
  const std::lock_guard lock(mutex_);
  if (made && made->origin == KernelOrigin::kDisk) {
    ++statistics_.disk_hits;
  } else {
    ++statistics_.misses;
  }
  const auto slot = slots_.find(key);
  SINTER_CHECK(slot != slots_.end(), "slot of {} vanished while it was made", key.hex());
  if (!made) {
    slots_.erase(slot);
    return;
  }
  slot->second.bytes = bytes_of(*made->kernel);
  memory_bytes_ += slot->second.bytes;

  while (memory_bytes_ > options_.max_memory_bytes) {
    auto oldest = slots_.end();
    for (auto it = slots_.begin(); it != slots_.end(); ++it) {
      if (it->second.bytes == 0) continue;
      if (oldest == slots_.end() || it->second.last_use < oldest->second.last_use) oldest = it;
    }
    memory_bytes_ -= oldest->second.bytes;
    slots_.erase(oldest);
  }
}

KernelCache::OnDisk KernelCache::load_from_disk(const KernelKey& key) {
  if (!disk_) return {};
  auto loaded = disk_->load(key);
  if (loaded) return {.kernel = std::move(*loaded), .may_be_written = true};
  const bool is_damaged = loaded.error().damaged;
  {
    const std::lock_guard lock(mutex_);
    ++(is_damaged ? statistics_.damaged : statistics_.unreadable);
  }
  report(loaded.error());
  return {.kernel = std::nullopt, .may_be_written = is_damaged};
}

CompileLock KernelCache::lock_on_disk(const KernelKey& key) {
  CompileLock out = disk_->lock(key, options_.max_wait);
  const std::lock_guard lock(mutex_);
  if (out.has_waited()) ++statistics_.waits;
  if (out.state() == CompileLock::State::kGivenUp) ++statistics_.waits_given_up;
  return out;
}

void KernelCache::store_on_disk(const KernelKey& key, const CompiledKernel& kernel) {
  if (!disk_) return;
  const auto evicted = disk_->store(key, kernel);
  {
    const std::lock_guard lock(mutex_);
    if (evicted) {
      statistics_.evicted += *evicted;
    } else {
      ++statistics_.write_failures;
    }
  }
  if (!evicted) report(evicted.error());
}

void KernelCache::report(const Error& error) const {
  if (options_.on_trouble) options_.on_trouble(error);
}

KernelCacheStatistics KernelCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void KernelCache::clear_memory() {
  const std::lock_guard lock(mutex_);
  std::erase_if(slots_, [](const auto& slot) { return slot.second.bytes != 0; });
  memory_bytes_ = 0;
}

}  // namespace sinter
