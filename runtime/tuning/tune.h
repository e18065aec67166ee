#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tuning/candidate_measurer.h"
#include "runtime/tuning/noise.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// Timed runs that a median needs at least, as everywhere (runtime/driver/event_timer.h).
inline constexpr int kLeastTuningSamples = 15;

/// Where tuning is.
struct TuneProgress {
  size_t segment = 0;  ///< That is tuned now, of so many.
  size_t kernels = 0;
  size_t candidate = 0;  ///< Measured of it so far, the untuned choice included, of so many.
  size_t candidates = 0;
  double untuned_us = 0.0;  ///< 0 until measured.
  double best_us = 0.0;     ///< Of the best confirmed so far.
  double seconds = 0.0;     ///< Spent of the budget.
  double budget_seconds = 0.0;
};

struct TuneOptions {
  size_t top = 16;                    ///< Challengers of each segment, beside the untuned choice.
  double budget_seconds = 60.0;       ///< For everything, compilation and oracle included.
  int samples = kLeastTuningSamples;  ///< Of each median; at least kLeastTuningSamples.
  std::function<void(const TuneProgress&)> progress{};
  /// Asked between candidates and between rounds; true ends tuning with the best confirmed so far.
  /// May read what a signal handler or another thread sets.
  std::function<bool()> cancelled{};
};

/// What became of a candidate.
enum class TuneVerdict : uint8_t {
  kUntuned,       ///< The plan's own choice, which others have to beat.
  kFaster,        ///< Won by more than the noise, twice; a later one may have won over it.
  kWithinNoise,   ///< Faster, or slower, by no more than the noise.
  kNotConfirmed,  ///< Won the first round and not the second.
  kSlower,
  kSpills,          ///< Spills more bytes than the untuned choice; not timed.
  kDoesNotCompile,  ///< Or does not load or fit here.
  kWrongResults,    ///< Never chosen. Sinter's defect, or the device's.
  kFailed,          ///< The device failed, or its launch did not end; tuning ended with it.
  kOverBudget,      ///< Not measured: no time was left, or tuning was cancelled or had ended.
};
std::string_view text_of(TuneVerdict verdict);

struct TuneMeasurement {
  Schedule schedule{};
  double predicted_us = 0.0;
  SampleSummary timed{};  ///< No samples: it was not timed.
  SampleSummary best{};   ///< Of the best before it, in the same rotation.
  int64_t registers = 0;
  int64_t spill_bytes = 0;
  double worst_ratio = 0.0;  ///< Largest error over its bound.
  TuneVerdict verdict = TuneVerdict::kOverBudget;
  std::string because{};
};

/// One segment, measured on its own.
struct TunedKernel {
  KernelId segment;                             ///< In TuneResult::plan.
  uint64_t graph = 0;                           ///< structural_hash() of its graph.
  std::vector<TuneMeasurement> measurements{};  ///< The untuned choice first; empty: none was made.
  size_t winner = 0;                            ///< Among them.
  double tuned_us = 0.0;                        ///< Of the winner, and
  double untuned_us = 0.0;  ///< of the untuned choice in the same rotation; 0: not measured.
  int64_t samples = 0;      ///< Of each.
  Decision decision{};
  [[nodiscard]] bool is_measured() const { return samples > 0; }
};

enum class TuneStop : uint8_t {
  kFinished,
  kBudget,
  kCancelled,
  kDevice,  ///< The device failed; see TuneResult::trouble.
};
std::string_view text_of(TuneStop stop);

struct TuneResult {
  Plan plan;                           ///< Untuned.
  std::vector<TunedKernel> kernels{};  ///< In the order in which they were tuned.
  TuneStop stop = TuneStop::kFinished;
  double seconds = 0.0;
  std::optional<Error> trouble{};  ///< What ended it.

  /// The winners, for PlanOptions::tuned; those of segments that were measured.
  [[nodiscard]] TunedChoices choices() const;
  /// Candidates whose results are wrong.
  [[nodiscard]] size_t wrong_results() const;
  /// Those of `segments` that were not measured; their decisions say why. Where there are any,
  [[nodiscard]] std::vector<const TunedKernel*> unmeasured() const;
  /// there is no sum: it would hide what it lacks. Each segment counts as often as the plan runs
  /// it.
  [[nodiscard]] std::optional<double> tuned_us() const;
  [[nodiscard]] std::optional<double> untuned_us() const;
  /// What the kernel of one of `segments` is called.
  [[nodiscard]] const std::string& name_of(const TunedKernel& segment) const;
};

/// Measures the best predicted candidates of each of a plan's segments and says which is fastest.
/// The untuned choice, as the compiler's report leaves it, is where each segment begins; another
/// wins if its results are right and it is faster than the best so far by more than the noise
/// (runtime/tuning/noise.h), in two rotations. The segments predicted to take longest come first,
/// and each may spend the share of the budget left that it has of the predicted time left, but not
/// what the others need to be measured at all.
///
/// A segment is measured alone, with what finishes its partial results, on inputs of its own; its
/// neighbours' time and what they leave in L2 are not looked at. Nothing of the caller's is
/// written.
///
/// Errors: those of plan(); InvalidArgument for options, and during stream capture. What happens to
/// a candidate is a verdict, and what ends tuning early is in the result.
Result<TuneResult> tune(const Fusion& fusion, const ExtentValues& extents,
                        const DeviceLimits& limits, const PlanOptions& plan_options,
                        CandidateMeasurer& measurer, const TuneOptions& options = {});

}  // namespace sinter
