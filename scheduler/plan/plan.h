#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/contraction.h"
#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/index_checks.h"
#include "scheduler/analysis/placement.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/families/family.h"

namespace sinter {

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
  std::vector<KernelPlan> kernels;        ///< In the order they run.
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

/// The question that finishes answer with the times of both ways, `finish` of a schedule.
inline constexpr std::string_view kWhatFinishes = "what finishes the partial results";

/// The contractions of the plan's graph, with what their kernels are predicted to take.
std::vector<Contraction> contractions_of(const Plan& plan);

}  // namespace sinter
