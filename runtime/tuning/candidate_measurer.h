#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/plan/plan.h"

namespace sinter {

/// A plan compiled, loaded, run once and held against the oracle.
struct PreparedCandidate {
  size_t id = 0;        ///< By which it is sampled and dropped.
  Schedule schedule{};  ///< Of its leading kernel, as compiled.
  int64_t registers = 0;
  int64_t spill_bytes = 0;
  double worst_ratio = 0.0;        ///< Largest error over its bound.
  std::string wrong{};             ///< What is wrong with its results; empty: nothing.
  std::optional<Error> failure{};  ///< It does not compile or load; nothing else is known then.
};

/// What tune() needs of a device: a clock, and candidates compiled, checked and timed. Open to
/// tests, which put a fake in its place; DeviceMeasurer is the real one. Calls come from one
/// thread. Errors are such that nothing further can be measured, but for begin()'s.
class CandidateMeasurer {
 public:
  CandidateMeasurer() = default;
  CandidateMeasurer(const CandidateMeasurer&) = delete;
  CandidateMeasurer& operator=(const CandidateMeasurer&) = delete;
  virtual ~CandidateMeasurer() = default;

  /// Since some moment; never runs backwards. Budgets are counted by it.
  [[nodiscard]] virtual double seconds() = 0;
  /// Refuses where nothing may be measured now: a stream is being captured.
  [[nodiscard]] virtual Result<void> check_ready() = 0;
  /// Makes inputs and expected outputs of a graph, of which candidates are plans from now on, and
  /// drops those before. Errors of kinds other than kDeviceError: this graph cannot be measured.
  [[nodiscard]] virtual Result<void> begin(const Fusion& fusion, const Binding& binding) = 0;
  /// Plans that prepare() will probably be asked for, in place of those announced before, so that
  /// they can be compiled meanwhile.
  virtual void announce(std::vector<Plan> plans) { (void)plans; }
  /// Compiles a plan, runs it into poisoned outputs of the measurer's own, and checks all of them.
  [[nodiscard]] virtual Result<PreparedCandidate> prepare(const Plan& plan) = 0;
  /// Times each candidate so many times, in turn, so that what drifts meets all alike. Microseconds
  /// by candidate, in their order.
  [[nodiscard]] virtual Result<std::vector<std::vector<double>>> sample(
      std::span<const size_t> candidates, int rounds) = 0;
  /// Gives back what a candidate holds.
  virtual void drop(size_t candidate) = 0;
};

}  // namespace sinter
