#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/interpreter/memory_access.h"

namespace sinter::interpreter {

/// Which events of a cluster come before which, whatever the order of the run: vector clocks
/// (Mattern, "Virtual time and global states of distributed systems", 1989). Actors are the threads
/// of its blocks, numbered through, and after them the mbarriers. A thread's time moves on when it
/// tells others what it has done; a mbarrier's time is that of its phase.
class HappensBefore {
 public:
  /// 1 and more; times of a cluster are above those of the clusters before it.
  using Time = uint32_t;
  /// By actor, the last time that is known; empty: nothing is.
  using Clock = std::vector<Time>;

  HappensBefore(int64_t threads, int64_t mbarriers);

  /// Everything before comes before everything in the cluster.
  void start_cluster();
  [[nodiscard]] Time first_time() const { return first_; }
  [[nodiscard]] int64_t threads() const { return threads_; }
  [[nodiscard]] bool is_thread(int64_t actor) const { return actor < threads_; }

  [[nodiscard]] Time now(int64_t thread) const { return now_[static_cast<size_t>(thread)]; }
  /// Whether what `actor` did at `time` comes before what `thread` does next.
  [[nodiscard]] bool knows(int64_t thread, int64_t actor, Time time) const {
    return actor == thread ||
           time <= (*known_[static_cast<size_t>(thread)])[static_cast<size_t>(actor)];
  }
  /// The thread executes a proxy fence.
  void fence_proxy(int64_t thread);
  /// Whether a proxy fence of `other` follows what that thread did at `time`, and comes before what
  /// `thread` does next.
  [[nodiscard]] bool knows_fenced(int64_t thread, int64_t other, Time time) const;
  [[nodiscard]] int64_t actor_of_mbarrier(int64_t mbarrier) const { return threads_ + mbarrier; }
  /// When a mbarrier completes its phase.
  Time time_of_phase(uint32_t phase);

  /// The warps that begin at these threads meet.
  void synchronise(std::span<const int64_t> first_threads);
  /// Adds to a clock what the thread has done and knows.
  void release(int64_t thread, Clock* clock);
  /// The same for all threads of the warp that begins at this one, in a fraction of the time where
  /// they know the same.
  void release_warp(int64_t first_thread, Clock* clock);
  /// The active threads of a warp learn what a clock holds.
  void acquire(int64_t first_thread, uint32_t mask, const Clock& clock);

 private:
  using Shared = std::shared_ptr<const Clock>;

  int64_t threads_;
  size_t actors_;
  Time first_ = 0;
  Time latest_ = 0;                        ///< Of all times there were.
  std::vector<Shared> known_;              ///< By thread; its own entry is not kept up.
  std::vector<Time> now_;                  ///< By thread.
  std::vector<std::vector<Time>> fences_;  ///< By thread, times just after proxy fences, ascending.
};

}  // namespace sinter::interpreter
