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
    kPlan,     ///< A family is asked for schedules of a segment.
    kCompile,  ///< A kernel is lowered, to be compiled.
  };
  Stage stage = Stage::kPlan;
  std::string_view family{};
  std::string_view segment{};  ///< Name of its graph.
  size_t steps = 0;            ///< Steps of this stage before this one.
};

/// The time that ends so many seconds from now; none for 0. Errors: InvalidArgument (a negative
/// budget, one beyond 1e9 seconds or no number).
Result<std::optional<std::chrono::steady_clock::time_point>> deadline_in(double budget_seconds);

/// What may end planning and compiling before they are done.
struct Interruption {
  /// Told of every step; false ends the work, which then fails with Cancelled. Called on the
  /// threads that work, by one at a time.
  std::function<bool(const Progress&)> progress{};
  /// No step begins after it.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
};

/// Thrown where the deadline has passed. plan() keeps the kernel that takes the whole graph if it
/// has it, and a Decision says so; else it, like compile_plan(), fails with ResourceExhausted.
class DeadlinePassed : public SinterException {
 public:
  using SinterException::SinterException;
};

/// Where the work looks whether it is to end. Thread-safe.
class InterruptionPoint {
 public:
  explicit InterruptionPoint(Interruption interruption) : interruption_(std::move(interruption)) {}
  /// To be called before a step. Throws SinterException (Cancelled) and DeadlinePassed.
  void check(Progress::Stage stage, std::string_view family, std::string_view segment);

 private:
  std::mutex mutex_;  // Guards all below.
  Interruption interruption_;
  std::array<size_t, 2> steps_{};  ///< By stage.
};

/// The families with a check before they are asked for schedules, so that planning with them can be
/// interrupted. Until it is, what they answer stays the same.
/// (codegen/lower/interruptible_lowering.h does the same for lowering.)
FamilySet interruptible(FamilySet families, Interruption interruption);

}  // namespace sinter
