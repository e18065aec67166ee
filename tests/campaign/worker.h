#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sinter {

/// What a process may use before it is ended.
struct WorkLimits {
  double cpu_seconds = 30.0;               ///< For one piece of work.
  double wall_seconds = 300.0;             ///< Likewise, also where it waits.
  int64_t bytes = int64_t{6} * (1 << 30);  ///< Of address space; none under a sanitizer.
};

/// How a piece of work ended that a process of its own did.
struct WorkResult {
  std::string text{};  ///< What it returned.
  double cpu_seconds = 0.0;
  std::string
      failure{};  ///< "ended by signal 11", "took more than 30 s of CPU time"; empty: it returned.
};

/// Runs pieces of work in processes of their own, so that a crash or a hang ends a piece and
/// nothing else. A process does one piece after the other and is started anew when one has ended
/// it.
class Worker {
 public:
  using Work = std::function<std::string(uint64_t piece)>;

  Worker(Work work, WorkLimits limits) : work_(std::move(work)), limits_(limits) {}
  ~Worker();
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&&) = delete;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] bool is_busy() const { return piece_.has_value(); }
  [[nodiscard]] uint64_t piece() const { return *piece_; }
  /// Only while it is not busy.
  void start(uint64_t piece);
  /// The result of the piece, once it is there; then the worker is idle.
  std::optional<WorkResult> poll();
  /// Readable once a result may be there.
  [[nodiscard]] int descriptor() const { return results_; }

 private:
  void launch();
  void end();
  [[nodiscard]] WorkResult failed(std::string failure);
  [[nodiscard]] double cpu_of_process() const;

  Work work_;
  WorkLimits limits_;
  int process_ = -1;
  int orders_ = -1;   ///< Where pieces are written for the process to read.
  int results_ = -1;  ///< Where it writes what it returned.
  std::optional<uint64_t> piece_{};
  double started_ = 0.0;       ///< On the steady clock.
  double cpu_at_start_ = 0.0;  ///< Of the process.
  std::string received_{};
};

/// Waits until one of the workers may have a result, at most so long.
void wait_for_any(const std::vector<Worker>& workers, int milliseconds);
/// Seconds on a clock that never goes back.
double steady_seconds();

/// Does one piece of work in a process of its own, and waits for it.
WorkResult run_isolated(const std::function<std::string()>& work, const WorkLimits& limits);

}  // namespace sinter
