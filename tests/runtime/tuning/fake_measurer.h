#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/tuning/candidate_measurer.h"

namespace sinter {

/// A device that is told what schedules take, and a clock that moves by what it is asked to do.
class FakeMeasurer final : public CandidateMeasurer {
 public:
  static constexpr double kPrepareSeconds = 1.0;
  static constexpr double kSampleSeconds = 0.25;  ///< For each call.

  /// Microseconds of a schedule; `nth` counts the samples of one candidate.
  std::function<double(const Schedule&, int64_t nth)> us = [](const Schedule&, int64_t) {
    return 100.0;
  };
  /// Changes what prepare() answers.
  std::function<void(PreparedCandidate&)> prepared = [](PreparedCandidate&) {};
  std::function<Result<void>()> ready = [] { return Result<void>(); };
  std::function<Result<void>(const Fusion&)> begun = [](const Fusion&) { return Result<void>(); };
  /// Asked before each rotation.
  std::function<Result<void>()> sampled = [] { return Result<void>(); };

  int begins = 0;
  int rotations = 0;
  std::vector<Schedule> asked{};  ///< By prepare(), in order.
  std::set<size_t> held{};        ///< Candidates not dropped.
  size_t announced = 0;

  [[nodiscard]] double seconds() override { return now_; }
  [[nodiscard]] Result<void> check_ready() override { return ready(); }
  [[nodiscard]] Result<void> begin(const Fusion& fusion, const Binding&) override {
    ++begins;
    return begun(fusion);
  }
  void announce(std::vector<Plan> plans) override { announced += plans.size(); }

  [[nodiscard]] Result<PreparedCandidate> prepare(const Plan& plan) override {
    now_ += kPrepareSeconds;
    PreparedCandidate out{.id = next_++, .schedule = plan.kernels.front().chosen().schedule};
    asked.push_back(out.schedule);
    prepared(out);
    if (!out.failure) {
      held.insert(out.id);
      schedules_[out.id] = out.schedule;
    }
    return out;
  }

  [[nodiscard]] Result<std::vector<std::vector<double>>> sample(std::span<const size_t> candidates,
                                                                int rounds) override {
    if (auto failed = sampled(); !failed) return fail(failed.error());
    now_ += kSampleSeconds;
    ++rotations;
    std::vector<std::vector<double>> out(candidates.size());
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < candidates.size(); ++i)
        out[i].push_back(us(schedules_.at(candidates[i]), taken_[candidates[i]]++));
    }
    return out;
  }
  void drop(size_t candidate) override { held.erase(candidate); }

 private:
  double now_ = 1000.0;
  size_t next_ = 0;
  std::map<size_t, Schedule> schedules_;
  std::map<size_t, int64_t> taken_;
};

}  // namespace sinter
