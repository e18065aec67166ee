#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/families/family.h"
#include "scheduler/segmentation/segment_pins.h"
#include "scheduler/segmentation/work_graph.h"

namespace sinter {

/// Whether one kernel can run a group, and a lower bound of its time.
struct GroupVerdict {
  bool legal = false;
  Rejection rejection{};  ///< Why it is illegal, with ids of the group's graph.
  double least_us = 0.0;  ///< Lower bound, found without trying schedules.
  double issue_us = 0.0;  ///< Issue time of its instructions, each once per element.
  bool reduces = false;   ///< It has a reduction.
  WorkGraph::LeafViews views = WorkGraph::LeafViews::kOps;  ///< How to extract its graph.
  uint64_t structure = 0;  ///< Hash of its graph without the values of constants; 0: not computed.
};

/// Most instructions per element that a kernel may have. A thread's vector of 8 elements then has
/// 8,192 in its unrolled body, which is what the 128 KiB of instruction cache between an SM and L2
/// hold at 16 bytes each (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
/// Microbenchmarking", arXiv 1804.06826).
inline constexpr double kMostInstructions = 1024.0;
/// The rule that refuses a group with more.
inline constexpr std::string_view kInstructionsRule =
    "the instructions of an element fill the instruction cache";
/// Instructions per element of one kernel that runs the whole graph: at least one per op.
double instructions_of(const Fusion& fusion);

/// Judges groups of a graph, each structure once. Groups whose graphs are equal except for the
/// values of constants get the same verdict, which is found by a hash; no verdict depends on these
/// values. Schedules are not tried. `graph` does not change.
class GroupJudge {
 public:
  /// All arguments outlive the judge. `pins` may be null: nothing is then pinned.
  GroupJudge(const WorkGraph& graph, const DeviceLimits& limits, const FamilySet& families,
             const SegmentPins* pins = nullptr)
      : graph_(graph), limits_(limits), families_(families), pins_(pins), in_group_(graph.size()) {}
  GroupJudge(const WorkGraph& graph, const DeviceLimits& limits, const FamilySet&& families,
             const SegmentPins* pins = nullptr) = delete;

  /// False if a group exceeds a kernel's limit of instructions or of tensors. judge() then refuses
  /// the group.
  [[nodiscard]] bool may_fit(std::span<const NodeId> group) {
    return exceeded_limit(group) == Limit::kNone;
  }
  /// `group` is ascending. The reference stays valid. The graph of a group that exceeds a kernel's
  /// limits is not made.
  const GroupVerdict& judge(std::span<const NodeId> group);

  /// The facts of a group, without its kept values, if it is among the last that were analysed and
  /// its facts were not taken yet: a group is often scheduled right after it was judged.
  std::optional<SegmentFacts> take_facts(std::span<const NodeId> group);

  /// Refuses a group, and all groups of its structure, until allow_all().
  void refuse(std::span<const NodeId> group, Rejection why);
  /// Undoes all calls of refuse(). Verdicts that were found before are kept.
  void allow_all();

  /// Groups that were analysed, and verdicts reused for others of the same structure.
  struct Counts {
    int64_t analysed = 0;
    int64_t repeated = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  enum class Limit : uint8_t { kNone, kInstructions, kTensors };
  Limit exceeded_limit(std::span<const NodeId> group);
  GroupVerdict& verdict_of(std::span<const NodeId> group);
  GroupVerdict& judge_anew(std::span<const NodeId> group);
  GroupVerdict analysed(std::span<const NodeId> group, Fusion graph, WorkGraph::LeafViews views);

  const WorkGraph& graph_;
  const DeviceLimits& limits_;
  const FamilySet& families_;
  const SegmentPins* pins_;
  ByNodes<GroupVerdict> forbidden_;                      ///< By the pins, for any structure.
  std::unordered_map<uint64_t, GroupVerdict> verdicts_;  ///< By GroupVerdict::structure.
  ByNodes<GroupVerdict*> known_;                         ///< Groups asked for before.
  std::vector<GroupVerdict*> refused_;  ///< Legal ones that refuse() has made illegal.
  /// For groups that read a concatenate's result while another of their nodes writes a part of it.
  GroupVerdict unfinished_{.rejection = {.subject = "segmentation",
                                         .rule = "a kernel would read what it joins of parts",
                                         .remedy = "none needed: one part waits for the other"}};
  /// For groups that read a tensor in whose memory parts of an output are written.
  GroupVerdict overwritten_{
      .rejection = {.subject = "segmentation",
                    .rule = "a kernel would read an input in whose memory it joins parts",
                    .remedy = "none needed: the parts wait for those that read"}};
  /// For groups that exceed a kernel's limits.
  GroupVerdict too_long_{.rejection = {.subject = "segmentation",
                                       .rule = std::string(kInstructionsRule),
                                       .remedy = "none needed: the parts run one after the other"}};
  GroupVerdict too_many_tensors_{
      .rejection = {.subject = "segmentation",
                    .rule = std::string(kArgumentsRule),
                    .remedy = "none needed: the parts run one after the other"}};
  /// Two, since the groups on both sides of a boundary are judged before either is scheduled.
  static constexpr size_t kRecent = 2;
  struct Recent {
    std::vector<NodeId> nodes;
    SegmentFacts facts;
  };
  std::deque<Recent> recent_;  ///< Legal groups, the last first.
  Counts counts_;
  IdMap<ValueId, uint32_t> counted_;  ///< By leaf: the last exceeded_limit() that counted it.
  std::vector<uint32_t> in_group_;    ///< By node: the last such call whose group has it.
  uint32_t last_counted_ = 0;         ///< Number of the last call.
};

}  // namespace sinter
