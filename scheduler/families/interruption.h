#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

#include "fusion_ir/result.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/families/family.h"

namespace sinter {

/// A step of planning or compiling that is about to begin.
struct Progress {
  enum class Stage : uint8_t {
    kPlan,     ///< A family proposes schedules of a segment.
    kCompile,  ///< A kernel is lowered and compiled.
  };
  Stage stage = Stage::kPlan;
  std::string_view family{};
  std::string_view segment{};  ///< Name of its graph.
  size_t steps = 0;            ///< Number of earlier steps of this stage.
};

/// The time `budget_seconds` from now; no value for 0. Errors: InvalidArgument (a negative budget,
/// one beyond 1e9 seconds, or NaN).
Result<std::optional<std::chrono::steady_clock::time_point>> deadline_in(double budget_seconds);

/// Ends planning and compiling before they are complete.
struct Interruption {
  /// Called before every step; false cancels the work, which then fails with Cancelled. It is
  /// called on the threads that work, by one thread at a time.
  std::function<bool(const Progress&)> progress{};
  /// No step begins after this time.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
};

/// Thrown if the deadline has passed. plan() then keeps the single kernel that runs the whole
/// graph, if it has been found, and records a Decision. Otherwise plan(), like compile_plan(),
/// fails with ResourceExhausted.
class DeadlinePassed : public SinterException {
 public:
  using SinterException::SinterException;
};

/// Where planning and compiling check whether they are cancelled. Thread-safe.
class InterruptionPoint {
 public:
  explicit InterruptionPoint(Interruption interruption) : interruption_(std::move(interruption)) {}
  /// Call before a step. Throws SinterException (Cancelled) and DeadlinePassed.
  void check(Progress::Stage stage, std::string_view family, std::string_view segment);

 private:
  std::mutex mutex_;  // Guards all below.
  Interruption interruption_;
  std::array<size_t, 2> steps_{};  ///< By stage.
};

/// The families with a check before each call of propose(), so that planning with them can be
/// interrupted. If it is not interrupted, their proposals do not change.
/// (codegen/lower/interruptible_lowering.h does the same for lowering.)
FamilySet interruptible(FamilySet families, Interruption interruption);

}  // namespace sinter
