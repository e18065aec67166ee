#include "runtime/interpreter/happens_before.h"

#include <algorithm>

namespace sinter::interpreter {
namespace {

void join(HappensBefore::Clock* into, const HappensBefore::Clock& other) {
  for (size_t i = 0; i < other.size(); ++i) (*into)[i] = std::max((*into)[i], other[i]);
}

}  // namespace

HappensBefore::HappensBefore(int64_t threads, int64_t mbarriers)
    : threads_(threads),
      actors_(static_cast<size_t>(threads + mbarriers)),
      known_(static_cast<size_t>(threads)),
      now_(static_cast<size_t>(threads)),
      fences_(static_cast<size_t>(threads)) {
  start_cluster();
}

void HappensBefore::start_cluster() {
  for (const Time time : now_) latest_ = std::max(latest_, time);
  first_ = latest_ + 1;
  std::ranges::fill(known_, std::make_shared<const Clock>(actors_, latest_));
  std::ranges::fill(now_, first_);
  for (std::vector<Time>& fences : fences_) fences.clear();
}

void HappensBefore::fence_proxy(int64_t thread) {
  const auto at = static_cast<size_t>(thread);
  fences_[at].push_back(++now_[at]);
}

bool HappensBefore::knows_fenced(int64_t thread, int64_t other, Time time) const {
  const std::vector<Time>& fences = fences_[static_cast<size_t>(other)];
  const auto next = std::ranges::upper_bound(fences, time);
  return next != fences.end() && knows(thread, other, *next);
}

HappensBefore::Time HappensBefore::time_of_phase(uint32_t phase) {
  const Time time = first_ + phase;
  latest_ = std::max(latest_, time);
  return time;
}

void HappensBefore::synchronise(std::span<const int64_t> first_threads) {
  const auto thread_at = [](int64_t first, int64_t lane) {
    return static_cast<size_t>(first + lane);
  };
  // Most threads share what they know with their neighbours, so that few clocks are joined.
  Shared last = known_[static_cast<size_t>(first_threads.front())];
  auto together = std::make_shared<Clock>(*last);
  for (const int64_t first : first_threads) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const Shared& known = known_[thread_at(first, lane)];
      if (known == last) continue;
      last = known;
      join(together.get(), *known);
    }
  }
  for (const int64_t first : first_threads) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const size_t thread = thread_at(first, lane);
      (*together)[thread] = now_[thread]++;
    }
  }
  for (const int64_t first : first_threads) {
    for (int64_t lane = 0; lane < kLanes; ++lane) known_[thread_at(first, lane)] = together;
  }
}

void HappensBefore::release(int64_t thread, Clock* clock) {
  const auto at = static_cast<size_t>(thread);
  clock->resize(actors_, 0);
  join(clock, *known_[at]);
  (*clock)[at] = now_[at]++;
}

void HappensBefore::release_warp(int64_t first_thread, Clock* clock) {
  clock->resize(actors_, 0);
  const Clock* joined = nullptr;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    const auto at = static_cast<size_t>(first_thread + lane);
    if (known_[at].get() != joined) join(clock, *known_[at]);
    joined = known_[at].get();
    (*clock)[at] = now_[at]++;
  }
}

void HappensBefore::acquire(int64_t first_thread, uint32_t mask, const Clock& clock) {
  if (clock.empty()) return;
  Shared before;
  Shared after;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    if (((mask >> lane) & 1U) == 0) continue;
    Shared& known = known_[static_cast<size_t>(first_thread + lane)];
    if (known != before) {
      before = known;
      auto joined = std::make_shared<Clock>(*known);
      join(joined.get(), clock);
      after = std::move(joined);
    }
    known = after;
  }
}

}  // namespace sinter::interpreter
