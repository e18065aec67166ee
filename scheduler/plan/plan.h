#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "fusion_ir/fusion.h"
#include "fusion_ir/id.h"
#include "scheduler/analysis/contraction.h"
#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/index_checks.h"
#include "scheduler/analysis/placement.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/families/family.h"

namespace sinter {

struct KernelTag {
  static constexpr char kPrefix[] = "kernel ";
};
struct CallTag {
  static constexpr char kPrefix[] = "call ";
};
struct StepTag {
  static constexpr char kPrefix[] = "step ";
};
/// A kernel of a plan. Its index is its place among the kernels in the order they run, the number
/// that texts, files and the C ABI give. Kernels are inserted and removed by plan_edit.h alone,
/// which keeps all ids in the plan right; ids outside of the plan are then out of date.
using KernelId = Id<KernelTag>;
/// An external call of a plan; in the order they run.
using CallId = Id<CallTag>;
/// A step of a plan (Plan::steps): a kernel or a call; in the order they run.
using StepId = Id<StepTag>;

/// The kernel that runs next after `kernel`, not counting calls; after the last one, the id past
/// the end; after none, none.
constexpr KernelId kernel_after(KernelId kernel) {
  return kernel.valid() ? KernelId{kernel.index + 1} : kernel;
}

/// What a step of execution runs.
using PlanStep = std::variant<KernelId, CallId>;

/// A tensor that one kernel of a plan leaves for later ones, or uses as scratch memory.
struct WorkspaceTensor {
  enum class Holds : uint8_t {
    kValue,        ///< A value that later steps read, dense.
    kPartials,     ///< Partial results of an outer reduction, [rows][columns] in its type, of a
                   ///< total [rows], for the kernel that follows the writer.
    kOwnPartials,  ///< Partial results that the writer's last block finishes.
    kCounters,     ///< Arrival counters of last-block reductions; they belong to no value.
    kMessages,     ///< Of blocks that exchange what they know of rows; they belong to no value.
    kScratch,      ///< What a library call takes besides its tensors; it belongs to no value.
  };
  ValueId value;  ///< In the plan's graph; for partial results, the reduction's result.
  int64_t bytes = 0;
  PlanStep writer{};  ///< If several write parts of it, the first of them.
  Holds holds = Holds::kValue;
  int64_t offset = 0;  ///< Bytes from the start of the workspace.
  /// Only the writer reads it.
  [[nodiscard]] bool own() const {
    return holds == Holds::kOwnPartials || holds == Holds::kScratch || is_zero_between_launches();
  }
  /// Memory that holds 0 whenever no launch that uses it runs.
  [[nodiscard]] bool is_zero_between_launches() const {
    return holds == Holds::kCounters || holds == Holds::kMessages;
  }
  friend bool operator==(const WorkspaceTensor&, const WorkspaceTensor&) = default;
};

/// A kernel of the plan: the facts of its segment, and its candidate schedules, best first.
struct KernelPlan {
  SegmentFacts facts;
  /// Maps values of `facts.fusion`, among them its inputs, outputs and reductions, to values of the
  /// plan's graph; empty if both are the same. Where a workspace tensor is read, it stands for its
  /// value.
  std::map<ValueId, ValueId> in_plan;
  std::vector<ProposedSchedule>
      candidates;  ///< candidates[0] is chosen; the rest serve re-planning and `explain`.
  /// The caller pinned the whole schedule: it is never replaced, not even by one that spills less.
  bool is_required = false;
  bool finishes = false;  ///< Only finishes partial results of the kernel before it.
  /// One of the two kernels that a segment was split into. The only partial results it leaves are
  /// those that the other kernel reads.
  bool is_part = false;
  /// Parts into which each row was cut: one kernel reduces the parts, the other combines them. 0:
  /// whole rows.
  int64_t row_parts = 0;
  /// Ops of the plan's graph that the segment consists of. Empty if it runs the whole graph or a
  /// list of tensors, and for all but the first of a segment's kernels.
  std::vector<OpId> ops{};
  /// The first kernel with an equal graph except for names; this one runs its compiled kernel and
  /// has one candidate. Absent for that first kernel itself.
  std::optional<KernelId> same_as{};
  std::vector<Decision> decisions{};    ///< Its own, if the plan has several segments.
  std::vector<Rejection> rejections{};  ///< Likewise.
  [[nodiscard]] const ProposedSchedule& chosen() const { return candidates.front(); }
};

/// A call that the embedder runs between kernels.
struct ExternalCall {
  OpId op;            ///< In the plan's graph.
  KernelId before{};  ///< It runs before this kernel and after the previous one; calls before the
                      ///< same kernel run in their order. The id past the end: after all kernels.
  friend bool operator==(const ExternalCall&, const ExternalCall&) = default;
};

/// Why an op and one that reads its result run in different kernels.
struct Cut {
  enum class Rule : uint8_t {
    kCycle,     ///< An op between them runs elsewhere: one kernel would close a cycle.
    kRefused,   ///< No kernel runs both.
    kSlower,    ///< One kernel takes longer than two.
    kNotFound,  ///< One kernel would be faster but was not found, or might be but was not tried.
    kPinned,    ///< The caller pinned it, or another value between the two kernels.
  };
  Rule rule = Rule::kCycle;
  ValueId value{};           ///< The value that passes through memory.
  OpId consumer{};           ///< The op that reads it.
  KernelId from{};           ///< Leading kernel that writes it.
  KernelId to{};             ///< Leading kernel that reads it.
  int64_t bytes = 0;         ///< Size of the value.
  Rejection why{};           ///< For kRefused; its ids are those of a graph of both.
  double together_us = 0.0;  ///< Predicted for one kernel, or its lower bound.
  double apart_us = 0.0;     ///< Predicted for the two.
  friend bool operator==(const Cut&, const Cut&) = default;
};

/// The rule with its numbers: "one kernel takes 12.0 us, two take 9.8 us".
std::string text_of(const Cut& cut);

/// The steps to execute, with the reasons for them. Value ids in it are those of `fusion`, the
/// simplified and specialised graph.
struct Plan {
  Fusion fusion;
  Binding binding;  ///< Extents of the original graph's symbols.
  DeviceLimits limits;
  IdVector<KernelId, KernelPlan> kernels;      ///< In the order they run.
  IdVector<CallId, ExternalCall> externals{};  ///< In the order they run.
  /// Values that steps write to a part of another value's tensor, and outputs that lie in the
  /// memory of an input.
  std::map<ValueId, Placement> placements{};
  std::vector<WorkspaceTensor> workspace;
  int64_t workspace_bytes = 0;  ///< Bytes that hold all tensors, each while it is needed.
  std::vector<Decision> decisions;
  std::vector<Rejection> rejections;  ///< Rejections of families without candidates.
  /// The graph was cut: every kernel that leads a segment has its own decisions and rejections.
  bool is_segmented = false;
  std::vector<Cut> cuts{};  ///< Where the graph was cut.
  /// Ops of a graph that was cut whose results are computed by each kernel that needs them;
  /// ascending.
  std::vector<OpId> free_ops{};
  /// PlanOptions::check_indices: outputs of `fusion` after the caller's are the indices of takes.
  /// They stay in the workspace until the last step is complete.
  bool checks_indices = false;
  std::vector<IndexCheck> index_checks{};

  /// The kernels and calls in the order they run.
  [[nodiscard]] IdVector<StepId, PlanStep> steps() const;
  /// The kernel that finishes the partial results of `kernel`; none: it leaves none, or its last
  /// block finishes them.
  [[nodiscard]] std::optional<KernelId> finish_of(KernelId kernel) const;
  /// True if no kernel of the plan writes the columns that a kernel contracts, nor those of kernels
  /// that are the same: they are inputs of `fusion` in whose memory no output lies.
  [[nodiscard]] bool has_constant_columns(KernelId kernel) const;
  /// The kernels without those that only finish the partial results of the kernel before them. The
  /// prediction of a kernel that leaves partial results includes the time to finish them.
  [[nodiscard]] std::vector<const KernelPlan*> leading_kernels() const;
  [[nodiscard]] double predicted_us() const;  ///< Sum over its kernels.
  /// Outputs of `fusion` that the caller passes tensors for, and those that index checks read.
  [[nodiscard]] std::span<const ValueId> caller_outputs() const;
  [[nodiscard]] std::span<const ValueId> kept_indices() const;
};

/// The question of the decision that compares the times of both ways to finish partial results
/// (`finish` of a schedule).
inline constexpr std::string_view kWhatFinishes = "what finishes the partial results";

/// The contractions of the plan's graph, with the predicted time of their kernels.
std::vector<Contraction> contractions_of(const Plan& plan);

}  // namespace sinter
