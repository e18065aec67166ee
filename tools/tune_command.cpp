#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "runtime/driver/driver_api.h"
#include "runtime/tuning/tune_report.h"
#include "runtime/tuning/tuning_database.h"
#include "runtime/tuning/tuning_json.h"
#include "tools/command.h"
#include "tools/device_session.h"
#include "tools/problem.h"
#include "tools/standard_error.h"

namespace sinter::tool {
namespace {

/// Threads that compile ahead: more than these the candidates of one segment hardly keep busy, and
/// NVRTC takes some 100 MB for each.
constexpr unsigned kMostCompileThreads = 16;

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

/// While it lives, the first Ctrl-C sets `interrupted`, and the second ends the process.
class InterruptGuard {
 public:
  InterruptGuard() : previous_(std::signal(SIGINT, &InterruptGuard::handle)) {}
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard() { (void)std::signal(SIGINT, previous_); }

 private:
  static void handle(int) {
    interrupted = true;
    (void)std::signal(SIGINT, SIG_DFL);
  }
  void (*previous_)(int);
};

/// Writes how far tuning is to standard error: a bar on a terminal, else a line for each candidate.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (is_terminal_ && is_shown_) tell("\n");
  }
  void show(const TuneProgress& progress) {
    constexpr size_t kWidth = 24;  // Characters, so that the line fits a terminal of 100.
    std::string where;
    if (progress.kernels > 1)
      where = fmt::format("segment {}/{} ", progress.segment, progress.kernels);
    const std::string text =
        fmt::format("{}{}/{}  best {:.2f} us, untuned {:.2f} us  {:.0f} of {:.0f} s", where,
                    progress.candidate, progress.candidates, progress.best_us, progress.untuned_us,
                    progress.seconds, progress.budget_seconds);
    if (!is_terminal_) {
      tell(fmt::format("tune: {}\n", text));
      return;
    }
    const size_t filled =
        progress.candidates == 0 ? 0 : kWidth * progress.candidate / progress.candidates;
    tell(fmt::format("\r[{}{}] {}\033[K", std::string(filled, '#'),
                     std::string(kWidth - filled, '.'), text));
    (void)std::fflush(stderr);
    is_shown_ = true;
  }

 private:
  bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  bool is_shown_ = false;
};

}  // namespace

Result<Report> tune_command(const TuneArguments& arguments) {
  auto problem = load_problem(arguments.problem);
  if (!problem) return fail(problem.error());
  auto driver = cuda_driver();
  if (!driver) return fail(driver.error());
  auto compiler = NvrtcCompiler::open();
  if (!compiler) return fail(compiler.error());
  auto key =
      tuning_key(problem->fusion, problem->extents, problem->limits, toolkit_identity(*compiler));
  if (!key) return fail(key.error());
  // Whoever cannot keep the result should know before it is measured.
  std::optional<TuningDatabase> database;
  if (!arguments.database.empty()) {
    auto opened = TuningDatabase::open(arguments.database, TuningDatabase::Mode::kCreate);
    if (!opened) return fail(opened.error());
    database.emplace(std::move(*opened));
  }
  KernelCache cache(cache_options());
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, kMostCompileThreads);
  auto measurer = DeviceMeasurer::create(**driver, *compiler, cache,
                                         {.seed = arguments.seed,
                                          .compile = {.families = problem->plan_options.families},
                                          .compile_threads = static_cast<int>(threads),
                                          .launch_limit_seconds = arguments.launch_limit_seconds});
  if (!measurer) return fail(measurer.error());

  Result<TuneResult> result = [&] {
    const InterruptGuard guard;
    ProgressLine line;
    return tune(problem->fusion, problem->extents, problem->limits, problem->plan_options,
                **measurer,
                {.top = arguments.top,
                 .budget_seconds = arguments.budget_seconds,
                 .samples = arguments.samples,
                 .progress = [&](const TuneProgress& progress) { line.show(progress); },
                 .cancelled = [] { return interrupted.load(); }});
  }();
  if (!result) return fail(result.error());

  Report report{.text = report_text(*result),
                .json = to_json(*result),
                .passed = result->wrong_results() == 0 && !result->trouble,
                .device_hangs = (*measurer)->is_hanging()};
  report.json["graph"] = key->graph;
  report.json["extents"] = key->extents;
  report.json["device_identity"] = key->device;
  report.json["toolkit"] = key->toolkit;
  report.json["database"] = nullptr;
  if (database) {
    const auto records = records_of(*result, *key, utc_now());
    if (auto stored = database->store(records); !stored) return fail(stored.error());
    report.text += fmt::format("kept {} schedule(s) in {}\n", records.size(), arguments.database);
    report.json["database"] = arguments.database;
  }
  return report;
}

}  // namespace sinter::tool
