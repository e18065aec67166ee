#include "runtime/tuning/tune_report.h"

#include "scheduler/segmentation/offers.h"

namespace sinter {
namespace {

std::string measurement_text(const TuneMeasurement& measurement, bool is_winner) {
  const std::string timed = measurement.timed.samples > 0
                                ? fmt::format("{:9.2f} us", measurement.timed.median_us)
                                : std::string("           -");
  std::string out =
      fmt::format("{} {}  predicted {:9.2f} us  {}, {} blocks/SM: {}\n", is_winner ? "*" : " ",
                  timed, measurement.predicted_us, summary_of(measurement.schedule),
                  measurement.schedule.min_blocks_per_sm, text_of(measurement.verdict));
  const bool says_more = measurement.verdict == TuneVerdict::kWrongResults ||
                         measurement.verdict == TuneVerdict::kFailed ||
                         measurement.verdict == TuneVerdict::kDoesNotCompile;
  if (says_more) out += fmt::format("    {}\n", measurement.because);
  return out;
}

/// What all kernels take, or which of them have no time and why.
std::string sum_text(const TuneResult& result) {
  if (const auto tuned = result.tuned_us()) {
    return fmt::format("{:.2f} us tuned, {:.2f} us untuned, over {} kernel(s) measured apart\n",
                       *tuned, result.untuned_us().value_or(0.0), result.kernels.size());
  }
  std::string out = "no time for the graph:\n";
  for (const TunedKernel* kernel : result.unmeasured()) {
    out += fmt::format("  segment {} ({}): {}\n", kernel->segment.index, result.name_of(*kernel),
                       kernel->decision.because);
  }
  return out;
}

}  // namespace

std::string report_text(const TuneResult& result) {
  std::string out = fmt::format("{} on {}: {} in {:.1f} s\n", result.plan.fusion.name,
                                result.plan.limits.name, text_of(result.stop), result.seconds);
  for (const TunedKernel& kernel : result.kernels) {
    out += fmt::format("segment {} ({}): {}\n  because {}\n", kernel.segment.index,
                       result.name_of(kernel), kernel.decision.chosen, kernel.decision.because);
    for (size_t i = 0; i < kernel.measurements.size(); ++i)
      out += measurement_text(kernel.measurements[i], kernel.is_measured() && i == kernel.winner);
  }
  out += sum_text(result);
  if (const size_t wrong = result.wrong_results(); wrong > 0)
    out += fmt::format(
        "WRONG RESULTS of {} candidate(s): a defect of Sinter, please report it with the schedules "
        "above\n",
        wrong);
  if (result.trouble) out += fmt::format("stopped by: {}\n", result.trouble->text());
  return out;
}

}  // namespace sinter
