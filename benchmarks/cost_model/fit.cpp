#include "benchmarks/cost_model/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "fusion_ir/error.h"

namespace sinter::bench {
namespace {

constexpr double kNear = 0.02;
constexpr double kChoiceWeight = 0.4;
/// Factors by which a constant is changed, the largest first.
constexpr std::array kSteps = {1.3, 1.1, 1.03};
/// What a step must gain, as a share of the loss; less is taken for noise. A round figure.
constexpr double kLeastGain = 1e-3;
/// A coarse value: the same from whichever side it is reached.
constexpr int kDigits = 3;

double rounded(double value) {
  if (value == 0.0) return 0.0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - (kDigits - 1));
  return std::stod(fmt::format("{:.12g}", std::round(value / unit) * unit));
}

/// The losses of all problems under the best constants so far, and what they become under others.
class Descent {
 public:
  explicit Descent(const std::vector<TimedSet>& sets) : constants_(sets.front().limits.cost) {
    for (size_t card = 0; card < sets.size(); ++card) {
      limits_.push_back(sets[card].limits);
      limits_.back().cost = constants_;
      for (size_t i = 0; i < sets[card].problems.size(); ++i) {
        const TimedProblem& problem = sets[card].problems[i];
        problems_.push_back(
            {.problem = &problem, .card = card, .fold = card * kFolds + i % kFolds});
        std::vector<double> logs;
        for (const TimedSchedule& timed : problem.timed)
          logs.push_back(log_of(problem, timed, limits_[card]));
        losses_.push_back(loss_of(problem, logs));
        predictions_.push_back(std::move(logs));
      }
    }
  }

  FitResult run() {
    const CostConstants before = constants_;
    const double loss_before = sum_of(losses_).total();
    for (const double step : kSteps) {
      // Each step may open the way for others, large ones for small ones.
      for (bool improved = true; improved;) {
        improved = false;
        for (const CostConstantField& field : cost_constant_fields()) {
          if (field.origin == ConstantOrigin::kFitted && improve(field, step)) improved = true;
        }
      }
    }
    FitResult out{.constants = constants_,
                  .changes = {},
                  .loss_before = loss_before,
                  .loss_after = sum_of(losses_).total(),
                  .predictions = made_};
    for (const CostConstantField& field : cost_constant_fields()) {
      const double old = value_of(field, before);
      const double now = value_of(field, constants_);
      if (old != now) out.changes.push_back({std::string(field.name), old, now});
    }
    return out;
  }

 private:
  /// Of one problem, or the sum of several.
  struct Loss {
    double error = 0.0;   ///< Mean square of the schedules' log(measured / predicted).
    double behind = 0.0;  ///< Expected log(chosen / fastest).
    [[nodiscard]] double total() const { return error + kChoiceWeight * behind; }
    Loss& operator+=(const Loss& other) {
      error += other.error;
      behind += other.behind;
      return *this;
    }
  };
  using Losses = std::vector<Loss>;

  struct Placed {
    const TimedProblem* problem = nullptr;
    size_t card = 0;
    size_t fold = 0;  ///< Of all cards.
  };

  double log_of(const TimedProblem& problem, const TimedSchedule& timed,
                const DeviceLimits& limits) {
    ++made_;
    return std::log(predicted(problem, timed, limits).total_us);
  }

  static Loss loss_of(const TimedProblem& problem, const std::vector<double>& logs) {
    const double least = *std::ranges::min_element(logs);
    const double fastest = std::ranges::min_element(problem.timed, {}, &TimedSchedule::us)->us;
    double squares = 0.0;
    double chances = 0.0;
    double behind = 0.0;
    for (size_t i = 0; i < logs.size(); ++i) {
      const double error = std::log(problem.timed[i].us) - logs[i];
      squares += error * error;
      const double chance = std::exp((least - logs[i]) / kNear);
      chances += chance;
      behind += chance * std::log(problem.timed[i].us / fastest);
    }
    return {.error = squares / static_cast<double>(logs.size()), .behind = behind / chances};
  }

  static Loss sum_of(const Losses& losses) {
    Loss sum;
    for (const Loss& loss : losses) sum += loss;
    return sum;
  }

  /// Sums over the problems of a card, or of a fold.
  [[nodiscard]] Losses sums_by(size_t Placed::*part, size_t parts, const Losses& losses) const {
    Losses sums(parts);
    for (size_t p = 0; p < losses.size(); ++p) sums[problems_[p].*part] += losses[p];
    return sums;
  }

  /// Takes a step up or, if that is not better, a step down. False: neither is.
  bool improve(const CostConstantField& field, double step) {
    const double old = value_of(field, constants_);
    return std::ranges::any_of(std::array{old * step, old / step}, [&](double value) {
      const double tried = std::clamp(rounded(value), field.least, field.most);
      return tried != old && take_if_better(field, tried);
    });
  }

  bool take_if_better(const CostConstantField& field, double value) {
    CostConstants constants = constants_;
    field.of(constants) = value;
    std::vector<DeviceLimits> limits = limits_;
    for (DeviceLimits& card : limits) card.cost = constants;
    std::vector<std::vector<double>> predictions = predictions_;
    Losses losses = losses_;
    for (size_t p = 0; p < problems_.size(); ++p) {
      const TimedProblem& problem = *problems_[p].problem;
      bool changed = false;
      for (size_t i = 0; i < problem.timed.size(); ++i) {
        const double now = log_of(problem, problem.timed[i], limits[problems_[p].card]);
        changed = changed || now != predictions[p][i];
        predictions[p][i] = now;
      }
      if (changed) losses[p] = loss_of(problem, predictions[p]);
    }
    if (!is_better(losses)) return false;
    constants_ = constants;
    limits_ = std::move(limits);
    predictions_ = std::move(predictions);
    losses_ = std::move(losses);
    return true;
  }

  [[nodiscard]] bool is_better(const Losses& losses) const {
    const double before = sum_of(losses_).total();
    if (before - sum_of(losses).total() < kLeastGain * before) return false;
    const size_t all_folds = limits_.size() * kFolds;
    const Losses folds = sums_by(&Placed::fold, all_folds, losses);
    const Losses old_folds = sums_by(&Placed::fold, all_folds, losses_);
    for (size_t i = 0; i < folds.size(); ++i) {
      if (folds[i].total() > old_folds[i].total()) return false;
    }
    const Losses cards = sums_by(&Placed::card, limits_.size(), losses);
    const Losses old_cards = sums_by(&Placed::card, limits_.size(), losses_);
    for (size_t i = 0; i < cards.size(); ++i) {
      if (cards[i].error > old_cards[i].error || cards[i].behind > old_cards[i].behind)
        return false;
    }
    return true;
  }

  CostConstants constants_;
  std::vector<DeviceLimits> limits_;  ///< Of each card, with these constants.
  std::vector<Placed> problems_;
  std::vector<std::vector<double>> predictions_;  ///< Logarithms, by problem and schedule.
  Losses losses_;
  size_t made_ = 0;
};

}  // namespace

FitResult fit(const std::vector<TimedSet>& sets) {
  SINTER_CHECK(!sets.empty(), "no timed schedules");
  for (const TimedSet& set : sets)
    SINTER_CHECK(!set.problems.empty(), "nothing was timed on {}", set.limits.name);
  return Descent(sets).run();
}

TimedSet part_of(const TimedSet& set, bool held_out) {
  TimedSet out{.limits = set.limits, .families = set.families, .problems = {}};
  for (size_t i = 0; i < set.problems.size(); ++i) {
    if ((i % kHeldOutOf == 0) == held_out) out.problems.push_back(set.problems[i]);
  }
  return out;
}

}  // namespace sinter::bench
