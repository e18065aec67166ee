#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/decision.h"
#include "scheduler/device_limits.h"
#include "scheduler/family.h"

namespace sinter {

/// Fields of a schedule a user insists on. What is left empty, the scheduler chooses. A pin that no
/// legal schedule meets is an error, never a silent change.
struct SchedulePin {
  std::optional<Schedule> schedule{};  ///< The whole schedule; fields beside it must agree.
  std::optional<std::string> family{};
  std::optional<int64_t> threads_per_row{};
  std::optional<int64_t> rows_per_block{};
  std::optional<int64_t> vector_width{};
  std::optional<int64_t> unroll{};
  std::optional<Residency> residency{};  ///< Of all persistent values, at least one.

  [[nodiscard]] bool matches(const Schedule& candidate) const;
  [[nodiscard]] std::string text() const;
  friend bool operator==(const SchedulePin&, const SchedulePin&) = default;
};

struct PlanOptions {
  FamilySet families = scheduling_families();
  SchedulePin pin{};
  bool simplify = true;  ///< Run the simplification passes first.
};

/// A tensor that one kernel of a plan leaves for later ones: partial results of an outer reduction,
/// [rows][columns] in the reduction's type, of a total [rows], or a row value.
struct WorkspaceTensor {
  ValueId value;  ///< In the plan's graph; for partial results, the reduction's result.
  int64_t bytes = 0;
  size_t writer = 0;  ///< The segment that leaves it.
  /// The writer alone reads it: partial results that its last block finishes, and the counters by
  /// which a block knows that it is the last, which belong to no value.
  bool own = false;
  friend bool operator==(const WorkspaceTensor&, const WorkspaceTensor&) = default;
};

/// One kernel to be: the segment's facts and its candidates, best first.
struct SegmentPlan {
  SegmentFacts facts;
  /// What the inputs and outputs of `facts.fusion` are in the plan's graph; empty if they are its
  /// own. A workspace tensor stands for its value where it is read.
  std::map<ValueId, ValueId> in_plan;
  std::vector<ProposedSchedule>
      candidates;  ///< candidates[0] is chosen; the rest serve re-planning and `explain`.
  /// The caller pinned the whole schedule: nothing replaces it, not even one that spills less.
  bool is_required = false;
  [[nodiscard]] const ProposedSchedule& chosen() const { return candidates.front(); }
};

/// What will run, and why. Values ids in it are those of `fusion`, the simplified and specialised
/// graph.
struct Plan {
  Fusion fusion;
  Binding binding;  ///< Of the original graph's symbols.
  DeviceLimits limits;
  std::vector<SegmentPlan> segments;  ///< In the order they run.
  std::vector<WorkspaceTensor> workspace;
  std::vector<Decision> decisions;
  std::vector<Rejection> rejections;  ///< Of families that offered nothing.

  /// The segments without one that only finishes the partial results of the segment before it,
  /// whose prediction has the time of both.
  [[nodiscard]] std::span<const SegmentPlan> leading_segments() const;
  [[nodiscard]] double predicted_us() const;  ///< Of all its kernels.
};

/// Where the tensor of a kernel's buffer comes from at execution.
struct TensorSlot {
  enum class Kind : uint8_t { kInput, kOutput, kWorkspace };
  Kind kind = Kind::kInput;
  size_t index = 0;  ///< Among the fusion's inputs or outputs, or the plan's workspace tensors.
};
/// What a kernel does with a buffer.
enum class BufferUse : uint8_t {
  kRead,
  kWrite,
  kReadWrite,  ///< Reads what it wrote itself: workspace.
};
/// `value` is the one that the buffer of a kernel of segment `segment` holds; none for counters.
TensorSlot slot_of(const Plan& plan, size_t segment, ValueId value, BufferUse use);

/// Plans a fusion for a device. A pure function: equal arguments give equal plans, in every
/// process.
///
/// Errors: InvalidFusion (the verifier's findings), InvalidArgument (extents), Unsupported (no
/// family takes the graph; every rejection is listed), ResourceExhausted (a pinned schedule that
/// breaks a budget or rule). Value ids of the last two are those of the simplified graph, which
/// stands in the error's log.
Result<Plan> plan(const Fusion& fusion, const ExtentValues& extents, const DeviceLimits& limits,
                  const PlanOptions& options = {});

/// The question that plan_finish answers with the times of both ways, `finish` of a schedule.
inline constexpr std::string_view kWhatFinishes = "what finishes the partial results";

/// Plans, after the first segment's schedule, the segment that finishes its partial results, and
/// the workspace between them; drops those of an earlier choice. A schedule whose last block
/// finishes has a workspace of its own and no second segment. Nothing is left to do for a
/// schedule without partial results, nor for a segment without outer reductions. Errors: as plan().
Result<void> plan_finish(Plan& plan, const Schedule& schedule, const FamilySet& families);

/// Candidates within this share of the best predicted time count as equal: of these the one whose
/// blocks wait least wins, then the simpler family, in the order of the set. The cost model's error
/// is larger than this (benchmarks/results/), so a smaller difference means nothing.
inline constexpr double kTieShare = 0.03;

}  // namespace sinter
