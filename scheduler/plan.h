#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/decision.h"
#include "scheduler/device_limits.h"
#include "scheduler/family.h"
#include "scheduler/index_checks.h"
#include "scheduler/placement.h"
#include "scheduler/tuned_choices.h"

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

/// A value that goes through memory: no kernel that reads it makes it too. It is named, or given by
/// its id in the simplified graph, "%v12"; a name comes first.
struct CutPin {
  std::string value{};
  friend bool operator==(const CutPin&, const CutPin&) = default;
};

/// Values, by name or id as above, whose ops run together in one kernel, with all that lies between
/// them; in two where a segment's rows and columns take one each, or its partial results another.
struct GroupPin {
  std::vector<std::string> values{};
  friend bool operator==(const GroupPin&, const GroupPin&) = default;
};

/// When a graph becomes several segments.
enum class Cutting : uint8_t {
  kFaster,  ///< Also where that is predicted to be faster than what runs it whole.
  kNeeded,  ///< Only if nothing runs it whole.
};

struct Plan;

struct PlanOptions {
  FamilySet families = scheduling_families();
  SchedulePin pin{};
  bool simplify =
      true;  ///< Run the simplification passes first, not only remove what is not needed.
  Cutting cutting = Cutting::kFaster;
  /// How the graph is cut, whatever takes least time. Pins that contradict each other, or that
  /// nothing can obey, are errors. A graph with such pins is planned in segments, whose schedules
  /// cannot be pinned.
  std::vector<CutPin> cuts{};
  std::vector<GroupPin> joins{};
  /// A plan of the same graph for the same device at other sizes, whose cuts and schedules are
  /// taken over instead of chosen (scheduler/follow_plan.h). Not beside pins.
  std::shared_ptr<const Plan> like{};
  /// Schedules measured before (runtime/tuning/), for segments of the plan that they are about.
  /// Each is taken or, with the reason on record, left. Not looked at where a plan is followed: its
  /// schedules are.
  std::shared_ptr<const TunedChoices> tuned{};
  /// Leaves the indices of every take in the workspace, so that Executable::check_indices() can
  /// tell which were outside of their axis. Kernels store them beside what they store anyhow.
  bool check_indices = false;
};

/// A tensor that one kernel of a plan leaves for later ones, or needs for itself.
struct WorkspaceTensor {
  enum class Holds : uint8_t {
    kValue,        ///< A value that later steps read, dense.
    kPartials,     ///< Partial results of an outer reduction, [rows][columns] in its type, of a
                   ///< total [rows], for the segment that follows the writer.
    kOwnPartials,  ///< Those that the writer's last block finishes.
    kCounters,     ///< By which a block knows that it is the last; they belong to no value.
  };
  ValueId value;  ///< In the plan's graph; for partial results, the reduction's result.
  int64_t bytes = 0;
  size_t writer = 0;  ///< The segment that leaves it, or, of what an external call makes, the call.
                      ///< Of what several leave in parts, the first of them.
  Holds holds = Holds::kValue;
  bool by_external = false;  ///< `writer` counts external calls.
  int64_t offset = 0;        ///< Bytes from the start of the workspace.
  /// The writer alone reads it.
  [[nodiscard]] bool own() const {
    return holds == Holds::kOwnPartials || holds == Holds::kCounters;
  }
  friend bool operator==(const WorkspaceTensor&, const WorkspaceTensor&) = default;
};

/// One kernel to be: the segment's facts and its candidates, best first.
struct KernelPlan {
  SegmentFacts facts;
  /// What values of `facts.fusion` are in the plan's graph, its inputs, outputs and reductions
  /// among them; empty if they are its own. A workspace tensor stands for its value where it is
  /// read.
  std::map<ValueId, ValueId> in_plan;
  std::vector<ProposedSchedule>
      candidates;  ///< candidates[0] is chosen; the rest serve re-planning and `explain`.
  /// The caller pinned the whole schedule: nothing replaces it, not even one that spills less.
  bool is_required = false;
  bool finishes = false;  ///< Only finishes what the segment before it leaves.
  /// One of two kernels that a segment was split into: it leaves no partial results beyond those
  /// that its twin reads.
  bool is_part = false;
  /// Parts into which each row was cut, for one kernel to take and its twin to combine; 0: whole.
  int64_t row_parts = 0;
  /// Ops of the plan's graph that the segment was cut out for. Empty where it runs the whole graph
  /// or a list of tensors, and for all but the first of a segment's kernels.
  std::vector<OpId> ops{};
  /// The first segment that has the same graph but for names, whose kernel it runs; absent for that
  /// one itself. It then has one candidate.
  std::optional<size_t> same_as{};
  std::vector<Decision> decisions{};    ///< Where the plan has several segments: its own.
  std::vector<Rejection> rejections{};  ///< Likewise.
  [[nodiscard]] const ProposedSchedule& chosen() const { return candidates.front(); }
};

/// A call that the embedder runs between kernels.
struct ExternalCall {
  OpId op;            ///< In the plan's graph.
  size_t before = 0;  ///< It runs before this segment and after the one before; calls before the
                      ///< same segment run in their order.
  friend bool operator==(const ExternalCall&, const ExternalCall&) = default;
};

/// What runs next: a segment's kernel or an external call.
struct PlanStep {
  enum class Kind : uint8_t { kKernel, kExternal };
  Kind kind = Kind::kKernel;
  size_t index = 0;  ///< Into the plan's segments or external calls.
  friend bool operator==(const PlanStep&, const PlanStep&) = default;
};

/// Why an op and one that reads its result run in different kernels.
struct Cut {
  enum class Rule : uint8_t {
    kCycle,     ///< Something between them runs elsewhere, and would wait for itself.
    kRefused,   ///< No kernel runs both.
    kSlower,    ///< One takes longer than two.
    kNotFound,  ///< One would be faster, and was not found; or might be, and was not tried.
    kPinned,    ///< The caller pinned it, or another value between the two kernels.
  };
  Rule rule = Rule::kCycle;
  ValueId value{};           ///< What passes through memory.
  OpId consumer{};           ///< The op that reads it.
  size_t from = 0;           ///< Leading segment that writes it.
  size_t to = 0;             ///< Leading segment that reads it.
  int64_t bytes = 0;         ///< Of the value.
  Rejection why{};           ///< Of kRefused; its ids are those of a graph of both.
  double together_us = 0.0;  ///< Predicted for one kernel, or the least it could take.
  double apart_us = 0.0;     ///< Predicted for the two.
  friend bool operator==(const Cut&, const Cut&) = default;
};
/// The rule with its numbers: "one kernel takes 12.0 us, two take 9.8 us".
std::string text_of(const Cut& cut);

/// What will run, and why. Values ids in it are those of `fusion`, the simplified and specialised
/// graph.
struct Plan {
  Fusion fusion;
  Binding binding;  ///< Of the original graph's symbols.
  DeviceLimits limits;
  std::vector<KernelPlan> kernels;      ///< In the order they run.
  std::vector<ExternalCall> externals{};  ///< In the order they run.
  /// Values that steps leave in part of another one's tensor, and outputs in that of an input.
  std::map<ValueId, Placement> placements{};
  std::vector<WorkspaceTensor> workspace;
  int64_t workspace_bytes = 0;  ///< That hold all of them, each while it is needed.
  std::vector<Decision> decisions;
  std::vector<Rejection> rejections;  ///< Of families that offered nothing.
  /// The graph was cut: every segment that leads has decisions and rejections of its own.
  bool is_segmented = false;
  std::vector<Cut> cuts{};  ///< Where it was.
  /// Ops of a graph that was cut whose results each kernel computes that needs them, ascending.
  std::vector<OpId> free_ops{};
  /// PlanOptions::check_indices: outputs of `fusion` behind the caller's are the indices of takes,
  /// and lie in the workspace until the last step is over.
  bool checks_indices = false;
  std::vector<IndexCheck> index_checks{};

  /// Kernels and calls in the order they run.
  [[nodiscard]] std::vector<PlanStep> steps() const;
  /// The segments without those that only finish the partial results of the one before them, whose
  /// prediction has the time of both.
  [[nodiscard]] std::vector<const KernelPlan*> leading_kernels() const;
  [[nodiscard]] double predicted_us() const;  ///< Of all its kernels.
  /// Outputs of `fusion` that the caller passes tensors for, and those that index checks read.
  [[nodiscard]] std::span<const ValueId> caller_outputs() const;
  [[nodiscard]] std::span<const ValueId> kept_indices() const;
};

/// Where the tensor of a kernel's buffer comes from at execution.
struct TensorSlot {
  enum class Kind : uint8_t { kInput, kOutput, kWorkspace };
  Kind kind = Kind::kInput;
  size_t index = 0;    ///< Among the fusion's inputs or outputs, or the plan's workspace tensors.
  int64_t offset = 0;  ///< Bytes from the tensor's first element.
};
/// What a kernel does with a buffer.
enum class BufferUse : uint8_t {
  kRead,
  kWrite,
  kReadWrite,  ///< Reads what it wrote itself: workspace.
};
/// `value` is the one that the buffer of a kernel of segment `segment` holds; none for counters.
TensorSlot slot_of(const Plan& plan, size_t segment, ValueId value, BufferUse use);
/// Where a value of the plan's graph lies that is an input, an output, or left by a step for
/// others.
TensorSlot slot_of(const Plan& plan, ValueId value);
/// Strides in elements of such a value.
Sizes strides_of(const Plan& plan, ValueId value);
/// The value whose tensor such a value lies in: itself, but for those placed in another one.
ValueId tensor_of(const Plan& plan, ValueId value);

/// Plans a fusion for a device. A pure function: equal arguments give equal plans, in every
/// process.
///
/// Errors: InvalidFusion (the verifier's findings), InvalidArgument (extents), Unsupported (no
/// family takes the graph; every rejection is listed), ResourceExhausted (a pinned schedule that
/// breaks a budget or rule; a deadline), Cancelled (scheduler/interruption.h), InternalError (a
/// defect); for pinned cuts and joins InvalidArgument (names, contradictions) and
/// Unsupported (no kernel runs what is joined); for a plan to follow those of follow_plan(). Value
/// ids of all but the first two are those of the simplified graph, which stands in the error's log.
Result<Plan> plan(const Fusion& fusion, const ExtentValues& extents, const DeviceLimits& limits,
                  const PlanOptions& options = {});

/// The question that finishes answer with the times of both ways, `finish` of a schedule.
inline constexpr std::string_view kWhatFinishes = "what finishes the partial results";

/// Plans, after the schedule of a segment, the segment that finishes its partial results, and the
/// workspace between them; drops those of an earlier choice. A schedule whose last block finishes
/// has a workspace of its own and no second segment. Nothing is left to do for a schedule without
/// partial results, nor for a segment without outer reductions. Errors: as plan().
Result<void> plan_finish(Plan& plan, size_t segment, const Schedule& schedule,
                         const FamilySet& families);

/// Where the kernels of a whole graph take no longer than this multiple of what its bytes take, and
/// the launch of another one, it is not tried whether cutting it would be faster: no cut could save
/// more than the rest, which is about what the model is off by, and trying takes as long as
/// planning the whole.
inline constexpr double kWorthCutting = 1.25;
/// By how much several kernels must be predicted faster than the one that takes the whole graph:
/// more than what predictions are off by, which are those of several. Distillation losses of 2048 x
/// 256000 in bf16 were predicted 4 % faster cut, and took 1,460 us instead of 1,356 (H200).
inline constexpr double kCutGain = 0.05;

/// Nor is it tried for graphs of more ops that reduce nothing: their parts would only move more,
/// unless they walk tensors in different orders, and a thousand ops take seconds.
inline constexpr size_t kMostPointwiseOpsCut = 128;

/// Candidates within this share of the best predicted time count as equal: of these one wins
/// whose registers the compiler need not squeeze, the fastest where waits are known
/// (Prediction::models_latency), else the one whose blocks wait least, then the simpler family, in
/// the order of the set. Among 4,098 timed schedules of 263 sizes of the suite, none of which
/// spill, the fastest takes 1.8 % longer than the fastest timed, the one that waits least 2.2 %
/// (benchmarks/results/h200_2026-11-24_suite_sweep.json).
inline constexpr double kTieShare = 0.015;

/// Share of a cap by which estimated registers may be above it before that counts as squeezing:
/// about what estimates are off by. Of what was timed and does not spill the choice takes 1.58 %
/// longer than the fastest, among 258 sizes of the suite on an H200, and 1.59 % with a doubt of 0,
/// with 23 and 26 sizes behind by more than 4 %; 0.99 and 1.03 % among 262 on an H100
/// (benchmarks/results/h200_2026-11-25_suite_{cold,cold_bf16,late}.json and
/// h100_2026-11-26_suite_sweep.json). Gated RMS norms of 4096 x 8192 in bf16 take 71 us with 64
/// registers, estimated 68, and 74 with 128, estimated 100 (H100).
inline constexpr double kRegisterDoubt = 0.08;

/// Share of its predicted time from which a kernel mostly waits, for its launch and for its blocks'
/// first rows. Squeezed registers then make room for more blocks, which hide more than the compiler
/// spoils: of what was timed and does not spill the fastest predicted takes 1.0 % longer than the
/// fastest, among 26 sizes below 20 us, and 1.5 % if it must not be squeezed (1.2 and 1.1 % among
/// 82 sizes of 80 to 300 us; benchmarks/results/h200_2026-11-25_suite_cold*.json). Layer norms of
/// 2048 x 4096 in bf16 take 15.1 us with 48 registers and 16.3 with 54.
inline constexpr double kWaitingShare = 0.25;

}  // namespace sinter
