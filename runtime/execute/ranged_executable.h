#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/execute/executable.h"
#include "runtime/execute/extent_ranges.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// Which plans the sizes of a range get.
enum class RangePlans : uint8_t {
  kOne,   ///< That of the first sizes, wherever it fits (follow_plan): kernels that differ in
          ///< numbers given at launch alone are compiled once.
  kEach,  ///< Each set of sizes its own, the fastest for it.
};

/// What becomes of sizes outside the ranges.
enum class OutsideRange : uint8_t {
  kRefuse,  ///< An error that names the size.
  kPlan,    ///< A plan of their own; the report names the size.
};

struct RangedOptions {
  /// Sizes of symbols without a range; those not named take their hint.
  ExtentValues fixed{};
  /// Where prepare() plans at once. A symbol with a range that is not named takes its most, where
  /// budgets are tightest.
  ExtentValues first{};
  RangePlans plans = RangePlans::kOne;
  /// Sizes for which the one plan is predicted to take longer than this multiple of what a plan of
  /// their own would get that one; where it is finite both are made. At least 1.
  double slower_at_most = std::numeric_limits<double>::infinity();
  OutsideRange outside = OutsideRange::kRefuse;
  /// Executables kept at most, at least 1; more only while all of them are held by somebody. Each
  /// holds its modules on the device, and up to ZeroedMemory::kMostBytes if its blocks count or
  /// exchange messages.
  size_t kept = 16;
  PlanOptions plan{.families = builtin_families()};
  CompilePlanOptions compile{};
  PrepareOptions prepare{};
};

/// Makes a plan ready to load. May be called by several threads at once.
using PlanCompiler = std::function<Result<CompiledPlan>(Plan)>;

/// An executable that somebody holds stays as it is, whatever is dropped.
using ExecutablePtr = std::shared_ptr<const Executable>;

/// What was prepared for one set of sizes.
struct PreparedExtents {
  ExtentValues extents;
  int64_t workspace_bytes = 0;
  size_t kernels = 0;
  size_t compiled = 0;  ///< Kernels that were in no cache.
  /// Why these sizes have a plan of their own; empty for the first, and for those that share its
  /// plan.
  std::string own_plan{};
  double predicted_us = 0.0;
  int64_t uses = 0;  ///< Since it was prepared.
  friend bool operator==(const PreparedExtents&, const PreparedExtents&) = default;
};

/// What a ranged executable has done so far.
struct RangedReport {
  int64_t uses = 0;                   ///< Times that sizes in the ranges were asked for.
  int64_t plans = 0;                  ///< Times that they had to be planned, failures included.
  int64_t shared = 0;                 ///< Of these, followed the plan of the first sizes.
  int64_t failures = 0;               ///< Plans that could not be made, compiled or prepared.
  int64_t dropped = 0;                ///< Executables that made room for others.
  std::vector<PreparedExtents> kept;  ///< Those at hand, the last used first.
  /// A line of counts, then one for each set of sizes.
  [[nodiscard]] std::string text() const;
};

/// A fusion whose symbols take any sizes of given ranges, which one plan serves: the cuts and
/// schedules of the first sizes. Each set of sizes is prepared when it is first asked for, and
/// kept. Kernels whose sizes differ in the outermost axes alone differ in numbers given at launch,
/// so that they are compiled once for all of the range; other sizes get the same schedules, and
/// kernels of their own. Sizes that the plan does not fit, such as 0, have a plan of their own, and
/// the report says why.
///
/// Any thread may call, several at once; threads that ask for the same new sizes share one
/// preparation. Sizes at hand cost a lock and a lookup more than Executable::execute, and no
/// allocation up to 16 symbols. New ones plan, compile and load: ask for them with at() before a
/// stream is captured. Making room waits for the device, since what goes may still run; where it
/// cannot wait, what goes is kept until it can.
///
/// A graph captured from an execution needs its executable: hold that of at() as long.
class RangedExecutable {
 public:
  /// Plans, compiles and prepares at `options.first`, so that what is wrong with the fusion, the
  /// device or the largest sizes is known at once. Other sizes may still fail, each for itself.
  /// `cache` and `driver` must outlive the result and what at() returns.
  ///
  /// Errors: InvalidArgument (resolve_ranges, `first` outside the ranges, nothing kept, a multiple
  /// below 1, no compiler, a plan to follow beside those of the ranges), those of
  /// plan(), compile_plan() and Executable::prepare() with the sizes in front of the message. What
  /// a family's functions throw is thrown on, here and by at(), but for a SinterException, whose
  /// error is given.
  ///
  /// It has seven parameters because it plans, compiles and prepares: it takes what plan(),
  /// compile_plan() and Executable::prepare() take, in their order.
  static Result<RangedExecutable> prepare(Fusion fusion, const ExtentRanges& ranges,
                                          const DeviceLimits& limits, const NvrtcCompiler& compiler,
                                          KernelCache& cache, DeviceDriver& driver,
                                          RangedOptions options = {});
  /// The same with another way to compile; `options.compile` is not used.
  static Result<RangedExecutable> prepare(Fusion fusion, const ExtentRanges& ranges,
                                          const DeviceLimits& limits, PlanCompiler compile,
                                          DeviceDriver& driver, RangedOptions options = {});

  RangedExecutable(RangedExecutable&& other) noexcept;
  RangedExecutable& operator=(RangedExecutable&& other) noexcept;
  /// As of an Executable: none of its launches is pending.
  ~RangedExecutable();

  /// The executable for these sizes; symbols with a single size may be left out. Hold it at least
  /// until what it launched is over. A failure is not remembered, and harms no other sizes. Errors:
  /// InvalidArgument (unknown symbol, one left out, a size outside its range: nothing is planned),
  /// and as prepare().
  Result<ExecutablePtr> at(const ExtentValues& extents);

  /// Executes at the sizes that the tensors have, which must agree with each other. Errors: those
  /// of sizes_of_tensors(), at() and Executable::execute().
  Result<void> execute(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                       DevicePointer workspace, int64_t workspace_bytes, StreamHandle stream);

  /// The same with a workspace from an allocator, as Executable::execute takes it.
  Result<void> execute(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                       const WorkspaceAllocator& allocator, StreamHandle stream);

  /// Bytes of workspace that execute() needs at these sizes; prepares them if need be. The same
  /// whenever it is asked, but no bound for other sizes, larger or smaller: they may have a plan of
  /// their own. Errors: as at().
  Result<int64_t> workspace_bytes(const ExtentValues& extents);

  [[nodiscard]] RangedReport report() const;
  /// The sizes each symbol may take, by its id.
  [[nodiscard]] std::span<const ExtentRange> ranges() const;

 private:
  class State;
  explicit RangedExecutable(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;  // Null once moved from.
};

}  // namespace sinter
