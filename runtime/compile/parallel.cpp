#include "runtime/compile/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "fusion_ir/error.h"

namespace sinter {
namespace {

/// The machine's cores, less one for a loop's own caller. Loops take helpers from here and put them
/// back, so that several at once do not start as many threads each as there are cores.
class HelperPool {
 public:
  /// Takes at most `wanted` helpers; returns how many.
  int64_t take(int64_t wanted) {
    int64_t idle = idle_.load();
    int64_t taken = 0;
    do {
      taken = std::clamp<int64_t>(wanted, 0, std::max<int64_t>(idle, 0));
    } while (!idle_.compare_exchange_weak(idle, idle - taken));
    return taken;
  }
  void put_back(int64_t helpers) { idle_ += helpers; }

 private:
  std::atomic<int64_t> idle_ = static_cast<int64_t>(std::thread::hardware_concurrency()) - 1;
};

HelperPool& helper_pool() {
  static HelperPool pool;
  return pool;
}

class Loop {
 public:
  Loop(int64_t count, int64_t range_size, int threads,
       const std::function<void(int64_t, int64_t)>& body)
      : count_(count), range_size_(range_size), threads_(threads), body_(body) {}
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() { join(); }

  void run() {
    do {
      add_helpers();
    } while (run_range());
    join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  /// Starts threads for ranges that wait: as many as are asked for, or as there are idle cores.
  /// Called again between ranges, since other loops may have ended.
  void add_helpers() {
    // Beside the one that the caller runs next.
    const int64_t ranges_left = (count_ - 1 - std::min(next_.load(), count_)) / range_size_;
    const int64_t limit = threads_ > 0 ? threads_ - 1 : int64_t{kMostHelpers};
    const int64_t wanted = std::min(ranges_left, limit - static_cast<int64_t>(helpers_.size()));
    if (wanted <= 0) return;
    const int64_t granted = threads_ > 0 ? wanted : helper_pool().take(wanted);
    for (int64_t i = 0; i < granted; ++i) {
      try {
        helpers_.emplace_back([this] {
          while (run_range()) {
          }
        });
      } catch (const std::system_error&) {  // No more threads: those that run do the work.
        if (threads_ == 0) helper_pool().put_back(granted - i);
        return;
      }
      taken_ += threads_ == 0 ? 1 : 0;
    }
  }

  /// Runs the next range; false if there is none.
  bool run_range() {
    const int64_t begin = next_.fetch_add(range_size_);
    if (begin >= count_) return false;
    try {
      body_(begin, begin + std::min(range_size_, count_ - begin));
    } catch (...) {
      next_ = count_;
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    return true;
  }

  void join() {
    for (std::thread& helper : helpers_) helper.join();
    helpers_.clear();
    helper_pool().put_back(std::exchange(taken_, 0));
  }

  static constexpr int64_t kMostHelpers = 255;  // More than any loop here can feed from memory.

  const int64_t count_;
  const int64_t range_size_;
  const int threads_;
  const std::function<void(int64_t, int64_t)>& body_;
  std::atomic<int64_t> next_ = 0;
  std::vector<std::thread> helpers_;
  int64_t taken_ = 0;  ///< Helpers that belong to the pool.
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void for_each_range(int64_t count, int64_t range_size, int threads,
                    const std::function<void(int64_t begin, int64_t end)>& body) {
  SINTER_CHECK_OP(range_size, >, 0);
  if (count <= 0) return;
  if (count <= range_size || threads == 1) {
    for (int64_t begin = 0; begin < count; begin += range_size)
      body(begin, std::min(begin + range_size, count));
    return;
  }
  Loop(count, range_size, threads, body).run();
}

}  // namespace sinter
