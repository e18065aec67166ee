#include "runtime/tuning/challengers.h"
#include "scheduler/analysis/kept_value.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace sinter {
namespace {

/// What makes two schedules the same kind of kernel.
using Kind = std::tuple<std::string, int, bool, bool, bool, int, bool>;

Kind kind_of(const Schedule& schedule) {
  const int residency =
      schedule.kept.empty() ? -1 : static_cast<int>(schedule.kept.front().residency);
  return {schedule.family,
          residency,
          schedule.persistent_blocks > 0,
          schedule.cluster_size() > 1,
          schedule.prefetch_rows() > 0,
          static_cast<int>(schedule.finish),
          schedule.accumulators() == Residency::kShared};
}

class Chooser {
 public:
  Chooser(std::span<const ProposedSchedule> candidates, const Schedule& incumbent, size_t count)
      : candidates_(candidates), count_(count), chosen_(candidates.size()) {
    taken_.push_back(&incumbent);
  }

  std::vector<ProposedSchedule> run() {
    leave_out_slow_ones();
    take_best((count_ + 1) / 2, true);
    take_from_kinds();
    take_best(count_, true);
    take_best(count_, false);
    std::vector<ProposedSchedule> out;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (chosen_[i]) out.push_back(candidates_[i]);
    }
    std::ranges::stable_sort(
        out, {}, [](const ProposedSchedule& candidate) { return candidate.predicted.total_us; });
    return out;
  }

 private:
  void leave_out_slow_ones() {
    double best = 0.0;
    for (const ProposedSchedule& candidate : candidates_) {
      const double us = candidate.predicted.total_us;
      if (best == 0.0 || us < best) best = us;
    }
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].predicted.total_us <= kWorthMeasuring * best) left_.push_back(i);
    }
  }

  [[nodiscard]] bool is_full() const { return taken_.size() > count_; }  // The incumbent is there.

  /// Takes a candidate unless it is there, or, if `apart`, but for one field.
  bool take(size_t index, bool apart) {
    const Schedule& schedule = candidates_[index].schedule;
    const size_t fewest = apart ? 2 : 1;
    for (const Schedule* other : taken_) {
      if (changes_between(*other, schedule).size() < fewest) return false;
    }
    chosen_[index] = true;
    taken_.push_back(&schedule);
    return true;
  }

  void take_best(size_t until, bool apart) {
    for (const size_t index : left_) {
      if (taken_.size() > until) return;
      if (!chosen_[index]) take(index, apart);
    }
  }

  void take_from_kinds() {
    std::map<Kind, std::vector<size_t>> kinds;
    std::vector<const std::vector<size_t>*> order;  // By the rank of the best of each.
    for (const size_t index : left_) {
      auto [kind, is_new] = kinds.try_emplace(kind_of(candidates_[index].schedule));
      kind->second.push_back(index);
      if (is_new) order.push_back(&kind->second);
    }
    std::vector<size_t> next(order.size());
    for (bool took = true; took && !is_full();) {
      took = false;
      for (size_t k = 0; k < order.size() && !is_full(); ++k) {
        while (next[k] < order[k]->size()) {
          const size_t index = (*order[k])[next[k]++];
          if (chosen_[index] || !take(index, true)) continue;
          took = true;
          break;
        }
      }
    }
  }

  std::span<const ProposedSchedule> candidates_;
  size_t count_;
  std::vector<bool> chosen_;
  std::vector<size_t> left_;            ///< Worth measuring, by rank.
  std::vector<const Schedule*> taken_;  ///< The incumbent and what was chosen.
};

}  // namespace

std::vector<ProposedSchedule> choose_challengers(std::span<const ProposedSchedule> candidates,
                                                 const Schedule& incumbent, size_t count) {
  return Chooser(candidates, incumbent, count).run();
}

}  // namespace sinter
