#include "runtime/tuning/tune.h"

#include <algorithm>
#include <numeric>

#include "runtime/tuning/challengers.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "scheduler/segmentation/offers.h"

namespace sinter {
namespace {

/// Also what is promised to the compiler, in which challengers may differ alone.
std::string what_of(const Schedule& schedule) {
  return fmt::format("{}, {} blocks/SM promised", summary_of(schedule), schedule.min_blocks_per_sm);
}

/// What a segment is sure to have of the budget if it is there: a compilation, an oracle of few
/// elements and a rotation. Without it a small kernel behind a large one might not be measured, and
/// the graph would have no time.
constexpr double kSecondsToMeasure = 2.0;

/// A segment of a plan as a plan of its own, of one schedule.
Result<Plan> plan_of(const KernelPlan& kernel, const Schedule& schedule, const DeviceLimits& limits,
                     const FamilySet& families) {
  auto out = plan(kernel.facts.fusion, {}, limits,
                  {.families = families,
                   .pin = {.schedule = schedule},
                   .simplify = false,
                   .cutting = Cutting::kNeeded});
  if (!out && ends_the_work(out.error())) throw_error(out.error());
  return out;
}

class Tuner {
 public:
  Tuner(const Fusion& fusion, const PlanOptions& plan_options, CandidateMeasurer& measurer,
        const TuneOptions& options, Plan planned)
      : fusion_(fusion),
        plan_options_(plan_options),
        measurer_(measurer),
        options_(options),
        start_(measurer.seconds()),
        result_{.plan = std::move(planned)} {}

  TuneResult run() {
    const std::vector<KernelId> order = segments_by_time();
    double left_us = 0.0;
    for (const KernelId kernel : order) left_us += predicted_us(kernel);
    segments_ = order.size();
    for (size_t i = 0; i < order.size(); ++i) {
      const double share = left_us > 0.0 ? predicted_us(order[i]) / left_us : 1.0;
      left_us -= predicted_us(order[i]);
      // The last one has all that is left: rounding must not leave it less.
      const double left = options_.budget_seconds - spent();
      const size_t waiting = order.size() - i - 1;
      const double kept = std::min(kSecondsToMeasure * static_cast<double>(waiting), left / 2.0);
      deadline_ =
          waiting == 0 ? options_.budget_seconds : spent() + std::min(left * share, left - kept);
      at_ = i;
      tune_segment(order[i]);
      if (result_.stop == TuneStop::kCancelled || result_.stop == TuneStop::kDevice) {
        for (size_t rest = i + 1; rest < order.size(); ++rest) leave(order[rest]);
        break;
      }
    }
    result_.seconds = spent();
    return std::move(result_);
  }

 private:
  [[nodiscard]] double spent() { return measurer_.seconds() - start_; }
  [[nodiscard]] double predicted_us(KernelId kernel) const {
    return result_.plan.kernels[kernel].candidates.front().predicted.total_us;
  }

  /// Those that have a choice of their own, longest first.
  [[nodiscard]] std::vector<KernelId> segments_by_time() const {
    std::vector<KernelId> out;
    for (const KernelId id : result_.plan.kernels.ids()) {
      const KernelPlan& kernel = result_.plan.kernels[id];
      if (!kernel.finishes && !kernel.same_as) out.push_back(id);
    }
    std::ranges::stable_sort(out, std::greater{}, [&](KernelId id) { return predicted_us(id); });
    return out;
  }

  /// True, with the reason on record, if nothing further may be measured now.
  bool must_stop() {
    if (result_.stop == TuneStop::kDevice) return true;
    if (options_.cancelled && options_.cancelled()) {
      result_.stop = TuneStop::kCancelled;
      return true;
    }
    if (spent() >= deadline_) {
      result_.stop = TuneStop::kBudget;
      return true;
    }
    return false;
  }

  void fail_with(Error error) {
    result_.stop = TuneStop::kDevice;
    result_.trouble = std::move(error);
  }

  void report() {
    if (!options_.progress) return;
    options_.progress({.segment = at_ + 1,
                       .kernels = segments_,
                       .candidate = measured_,
                       .candidates = out_->measurements.size(),
                       .untuned_us = untuned_.median_us,
                       .best_us = best_.median_us,
                       .seconds = spent(),
                       .budget_seconds = options_.budget_seconds});
  }

  /// A segment that nothing is measured of.
  void leave(KernelId kernel) {
    result_.kernels.push_back(
        {.segment = kernel, .graph = hash_of(kernel), .decision = decision_for(kernel)});
    result_.kernels.back().decision.because =
        fmt::format("not measured: {}", text_of(result_.stop));
  }

  [[nodiscard]] uint64_t hash_of(KernelId kernel) const {
    return structural_hash(result_.plan.kernels[kernel].facts.fusion);
  }
  [[nodiscard]] Decision decision_for(KernelId kernel) const {
    return {.question = "which schedule is fastest, as measured",
            .chosen = what_of(result_.plan.kernels[kernel].chosen().schedule)};
  }

  /// Starts on inputs for a segment. A graph in one piece is checked as the caller wrote it: only
  /// its symbols say along which axis the oracle may repeat a few slices.
  Result<void> begin(const KernelPlan& kernel) {
    if (kernel.in_plan.empty()) return measurer_.begin(fusion_, result_.plan.binding);
    return measurer_.begin(kernel.facts.fusion, Binding{});
  }

  /// The segment with its candidates as ranked, so that the compiler's report may change the
  /// choice as it does in an untuned plan.
  Result<Plan> untuned_plan(const KernelPlan& segment) {
    auto out =
        plan_of(segment, segment.chosen().schedule, result_.plan.limits, plan_options_.families);
    if (!out) return out;
    for (KernelPlan& kernel : out->kernels) {
      if (kernel.finishes) continue;
      kernel.candidates = segment.candidates;
      kernel.is_required = segment.is_required;
      break;
    }
    return out;
  }

  void tune_segment(KernelId segment) {
    const KernelPlan& kernel = result_.plan.kernels[segment];
    result_.kernels.push_back(
        {.segment = segment, .graph = hash_of(segment), .decision = decision_for(segment)});
    out_ = &result_.kernels.back();
    untuned_ = {};
    best_ = {};
    measured_ = 0;
    kept_.clear();
    if (options_.cancelled && options_.cancelled()) {
      result_.stop = TuneStop::kCancelled;
      out_->decision.because = "not measured: cancelled";
      return;
    }
    if (spent() >= options_.budget_seconds) {
      result_.stop = TuneStop::kBudget;
      out_->decision.because = "not measured: the budget is spent";
      return;
    }
    measure_segment(kernel);
    for (const size_t id : kept_) measurer_.drop(id);
    describe_choice();
  }

  void measure_segment(const KernelPlan& kernel) {
    auto untuned = untuned_plan(kernel);
    if (!untuned) return give_up(std::move(untuned.error()));
    // Where the whole schedule is pinned there is nothing to choose from.
    const std::vector<ProposedSchedule> guess = choose_challengers(
        kernel.candidates, kernel.chosen().schedule, kernel.is_required ? 0 : options_.top);
    // Before the oracle begins, which takes as long.
    announce(kernel, *untuned, guess);
    auto begun = begin(kernel);
    if (!begun) return give_up(std::move(begun.error()));
    const std::optional<PreparedCandidate> incumbent = prepare_untuned(kernel, *untuned);
    if (!incumbent) return;

    // What the compiler's report led to may be another than the plan's first choice.
    const std::vector<ProposedSchedule> challengers =
        kernel.is_required
            ? std::vector<ProposedSchedule>{}
            : choose_challengers(kernel.candidates, incumbent->schedule, options_.top);
    for (const ProposedSchedule& challenger : challengers) {
      out_->measurements.push_back(
          {.schedule = challenger.schedule, .predicted_us = challenger.predicted.total_us});
    }
    if (!time_untuned(incumbent->id)) return;
    best_id_ = untuned_id_ = incumbent->id;
    for (size_t i = 1; i < out_->measurements.size(); ++i) {
      if (must_stop()) break;
      challenge(kernel, i, incumbent->spill_bytes);
      measured_ = i + 1;
      report();
    }
    for (TuneMeasurement& left : out_->measurements) {
      if (left.verdict == TuneVerdict::kOverBudget && left.because.empty())
        left.because = fmt::format("not measured: {}", text_of(result_.stop));
    }
  }

  void announce(const KernelPlan& kernel, const Plan& untuned,
                const std::vector<ProposedSchedule>& challengers) {
    std::vector<Plan> plans = {untuned};
    for (const ProposedSchedule& challenger : challengers) {
      auto plan = plan_of(kernel, challenger.schedule, result_.plan.limits, plan_options_.families);
      if (plan) plans.push_back(std::move(*plan));
    }
    measurer_.announce(std::move(plans));
  }

  /// Ends a segment before anything was measured.
  void give_up(Error error) {
    if (ends_the_work(error)) throw_error(std::move(error));
    out_->decision.because = fmt::format("not measured: {}", error.message);
    if (error.kind == ErrorKind::kDeviceError) fail_with(std::move(error));
  }

  std::optional<PreparedCandidate> prepare_untuned(const KernelPlan& kernel, const Plan& plan) {
    out_->measurements.push_back(
        {.schedule = kernel.chosen().schedule, .predicted_us = kernel.chosen().predicted.total_us});
    TuneMeasurement& first = out_->measurements.front();
    auto prepared = measurer_.prepare(plan);
    if (!prepared) {
      failed(first, std::move(prepared.error()));
      return std::nullopt;
    }
    if (!judge(first, *prepared)) return std::nullopt;
    if (prepared->schedule != first.schedule) {
      first.schedule = prepared->schedule;
      const auto same =
          std::ranges::find(kernel.candidates, first.schedule, &ProposedSchedule::schedule);
      if (same != kernel.candidates.end()) first.predicted_us = same->predicted.total_us;
    }
    first.verdict = TuneVerdict::kUntuned;
    return std::move(*prepared);
  }

  void failed(TuneMeasurement& measurement, Error error) {
    if (ends_the_work(error)) throw_error(std::move(error));
    measurement.verdict = TuneVerdict::kFailed;
    measurement.because = error.message;
    fail_with(std::move(error));
  }

  /// False, with a verdict, if what was prepared is not to be timed.
  bool judge(TuneMeasurement& measurement, const PreparedCandidate& prepared) {
    if (prepared.failure) {
      if (ends_the_work(*prepared.failure)) throw_error(*prepared.failure);
      measurement.verdict = TuneVerdict::kDoesNotCompile;
      measurement.because = prepared.failure->message;
      return false;
    }
    kept_.push_back(prepared.id);
    measurement.registers = prepared.registers;
    measurement.spill_bytes = prepared.spill_bytes;
    measurement.worst_ratio = prepared.worst_ratio;
    if (prepared.wrong.empty()) return true;
    measurement.verdict = TuneVerdict::kWrongResults;
    measurement.because = prepared.wrong;
    return false;
  }

  bool time_untuned(size_t id) {
    TuneMeasurement& first = out_->measurements.front();
    auto samples = measurer_.sample(std::span(&id, 1), options_.samples);
    if (!samples) {
      failed(first, std::move(samples.error()));
      return false;
    }
    first.timed = untuned_ = best_ = summarize(samples->front());
    measured_ = 1;
    record_best();
    report();
    return true;
  }

  void record_best() {
    out_->tuned_us = best_.median_us;
    out_->untuned_us = untuned_.median_us;
    out_->samples = best_.samples;
  }

  void challenge(const KernelPlan& kernel, size_t index, int64_t spill_bytes) {
    TuneMeasurement& measurement = out_->measurements[index];
    auto plan = plan_of(kernel, measurement.schedule, result_.plan.limits, plan_options_.families);
    if (!plan) {
      measurement.verdict = TuneVerdict::kDoesNotCompile;
      measurement.because = plan.error().message;
      return;
    }
    auto prepared = measurer_.prepare(*plan);
    if (!prepared) return failed(measurement, std::move(prepared.error()));
    if (!judge(measurement, *prepared)) {
      drop_last(*prepared);
      return;
    }
    if (prepared->spill_bytes > spill_bytes) {
      measurement.verdict = TuneVerdict::kSpills;
      measurement.because = fmt::format("spills {} bytes per thread, the untuned choice {}",
                                        prepared->spill_bytes, spill_bytes);
      drop_last(*prepared);
      return;
    }
    compare(measurement, index, prepared->id);
    if (out_->winner != index) drop_last(*prepared);
  }

  void drop_last(const PreparedCandidate& prepared) {
    if (prepared.failure || result_.stop == TuneStop::kDevice) return;
    measurer_.drop(prepared.id);
    std::erase(kept_, prepared.id);
  }

  /// Rotates the challenger with the best so far and the untuned choice; again if it wins.
  void compare(TuneMeasurement& measurement, size_t index, size_t id) {
    for (const bool confirming : {false, true}) {
      if (confirming && must_stop()) {
        measurement.verdict = TuneVerdict::kNotConfirmed;
        measurement.because = fmt::format("{} before it was confirmed", text_of(result_.stop));
        return;
      }
      std::vector<size_t> ids = {untuned_id_, id};
      if (best_id_ != untuned_id_) ids.push_back(best_id_);
      auto samples = measurer_.sample(ids, options_.samples);
      if (!samples) return failed(measurement, std::move(samples.error()));
      const SampleSummary untuned = summarize(samples->front());
      measurement.timed = summarize((*samples)[1]);
      measurement.best = summarize(samples->back());
      if (best_id_ == untuned_id_) measurement.best = untuned;
      const SampleSummary& best = measurement.best;
      const double noise = noise_us(best, measurement.timed);
      const std::string numbers =
          fmt::format("{:.2f} us, the best before it {:.2f} us, noise {:.2f} us",
                      measurement.timed.median_us, best.median_us, noise);
      if (!is_faster(measurement.timed, best)) {
        const bool slower = measurement.timed.median_us - best.median_us > noise;
        measurement.verdict = confirming ? TuneVerdict::kNotConfirmed
                              : slower   ? TuneVerdict::kSlower
                                         : TuneVerdict::kWithinNoise;
        measurement.because = numbers;
        return;
      }
      if (!confirming) continue;
      measurement.verdict = TuneVerdict::kFaster;
      measurement.because = numbers;
      if (best_id_ != untuned_id_) {
        measurer_.drop(best_id_);
        std::erase(kept_, best_id_);
      }
      untuned_ = untuned;
      best_ = measurement.timed;
      best_id_ = id;
      out_->winner = index;
      record_best();
    }
  }

  void describe_choice() {
    Decision& decision = out_->decision;
    for (const TuneMeasurement& measurement : out_->measurements) {
      decision.candidates.push_back(
          {.what = what_of(measurement.schedule),
           .predicted = {.total_us = measurement.predicted_us},
           .legal = measurement.verdict != TuneVerdict::kDoesNotCompile &&
                    measurement.verdict != TuneVerdict::kWrongResults,
           .because =
               measurement.because.empty()
                   ? std::string(text_of(measurement.verdict))
                   : fmt::format("{}: {}", text_of(measurement.verdict), measurement.because)});
    }
    if (!out_->is_measured()) {
      if (decision.because.empty() && !out_->measurements.empty()) {
        const TuneMeasurement& first = out_->measurements.front();
        decision.because = fmt::format("the untuned choice cannot be measured: {}: {}",
                                       text_of(first.verdict), first.because);
      }
      return;
    }
    decision.chosen = what_of(out_->measurements[out_->winner].schedule);
    decision.because =
        out_->winner == 0
            ? fmt::format(
                  "nothing is faster than the untuned choice, {:.2f} us, by more than the "
                  "noise",
                  out_->untuned_us)
            : fmt::format("{:.2f} us, the untuned choice {:.2f} us, medians of {} in one rotation",
                          out_->tuned_us, out_->untuned_us, out_->samples);
  }

  const Fusion& fusion_;
  const PlanOptions& plan_options_;
  CandidateMeasurer& measurer_;
  const TuneOptions& options_;
  double start_;
  TuneResult result_;

  size_t segments_ = 0;
  // Of the segment at hand.
  size_t at_ = 0;
  double deadline_ = 0.0;
  TunedKernel* out_ = nullptr;
  SampleSummary untuned_{};
  SampleSummary best_{};
  size_t untuned_id_ = 0;
  size_t best_id_ = 0;
  size_t measured_ = 0;
  std::vector<size_t> kept_;  ///< Prepared and not dropped.
};

Result<void> check_options(const TuneOptions& options) {
  if (options.samples < kLeastTuningSamples)
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = "too few timing samples for a median",
                 .remedy = "take at least 15",
                 .measured = options.samples,
                 .limit = kLeastTuningSamples});
  // Also refuses what is no number.
  if (!(options.budget_seconds > 0.0))
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("a budget of {} seconds leaves nothing to measure in",
                                        options.budget_seconds),
                 .remedy = "give a positive number of seconds"});
  return {};
}

}  // namespace

std::string_view text_of(TuneVerdict verdict) {
  switch (verdict) {
    case TuneVerdict::kUntuned:
      return "untuned choice";
    case TuneVerdict::kFaster:
      return "faster";
    case TuneVerdict::kWithinNoise:
      return "within noise";
    case TuneVerdict::kNotConfirmed:
      return "not confirmed";
    case TuneVerdict::kSlower:
      return "slower";
    case TuneVerdict::kSpills:
      return "spills";
    case TuneVerdict::kDoesNotCompile:
      return "does not compile";
    case TuneVerdict::kWrongResults:
      return "WRONG RESULTS";
    case TuneVerdict::kFailed:
      return "failed";
    case TuneVerdict::kOverBudget:
      return "not measured";
  }
  unreachable();
}

std::string_view text_of(TuneStop stop) {
  switch (stop) {
    case TuneStop::kFinished:
      return "finished";
    case TuneStop::kBudget:
      return "the budget was spent";
    case TuneStop::kCancelled:
      return "cancelled";
    case TuneStop::kDevice:
      return "the device failed";
  }
  unreachable();
}

TunedChoices TuneResult::choices() const {
  TunedChoices out{.source = "tune()"};
  for (const TunedKernel& kernel : kernels) {
    if (!kernel.is_measured()) continue;
    out.schedules.push_back({.segment = kernel.graph,
                             .schedule = print(kernel.measurements[kernel.winner].schedule),
                             .tuned_us = kernel.tuned_us,
                             .untuned_us = kernel.untuned_us,
                             .samples = kernel.samples});
  }
  return out;
}

size_t TuneResult::wrong_results() const {
  size_t out = 0;
  for (const TunedKernel& kernel : kernels) {
    out += static_cast<size_t>(std::ranges::count(kernel.measurements, TuneVerdict::kWrongResults,
                                                  &TuneMeasurement::verdict));
  }
  return out;
}

namespace {

std::optional<double> sum_of(const TuneResult& result, double TunedKernel::*us) {
  if (!result.unmeasured().empty()) return std::nullopt;
  double out = 0.0;
  for (const TunedKernel& kernel : result.kernels) {
    const auto runs = std::ranges::count_if(result.plan.kernels, [&](const KernelPlan& other) {
      return other.same_as == kernel.segment;
    });
    out += kernel.*us * static_cast<double>(1 + runs);
  }
  return out;
}

}  // namespace

std::vector<const TunedKernel*> TuneResult::unmeasured() const {
  std::vector<const TunedKernel*> out;
  for (const TunedKernel& kernel : kernels) {
    if (!kernel.is_measured()) out.push_back(&kernel);
  }
  return out;
}

std::optional<double> TuneResult::tuned_us() const { return sum_of(*this, &TunedKernel::tuned_us); }
std::optional<double> TuneResult::untuned_us() const {
  return sum_of(*this, &TunedKernel::untuned_us);
}

const std::string& TuneResult::name_of(const TunedKernel& kernel) const {
  return plan.kernels[kernel.segment].facts.fusion.name;
}

Result<TuneResult> tune(const Fusion& fusion, const ExtentValues& extents,
                        const DeviceLimits& limits, const PlanOptions& plan_options,
                        CandidateMeasurer& measurer, const TuneOptions& options) {
  return as_result([&]() -> Result<TuneResult> {
    if (auto right = check_options(options); !right) return fail(std::move(right.error()));
    if (auto ready = measurer.check_ready(); !ready) return fail(std::move(ready.error()));
    PlanOptions untuned = plan_options;
    untuned.tuned.reset();
    auto planned = plan(fusion, extents, limits, untuned);
    if (!planned) return fail(std::move(planned.error()));
    return Tuner(fusion, untuned, measurer, options, std::move(*planned)).run();
  });
}

}  // namespace sinter
