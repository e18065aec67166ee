#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/families/family.h"
#include "scheduler/segmentation/segment_pins.h"
#include "scheduler/segmentation/work_graph.h"

namespace sinter {

/// Whether one kernel can run a group, and what it takes at least.
struct GroupVerdict {
  bool legal = false;
  Rejection rejection{};  ///< Why not. Its ids are those of the group's graph.
  double least_us = 0.0;  ///< No schedule takes less, as far as is known without trying any.
  double issue_us = 0.0;  ///< What issuing its instructions takes, each once for an element.
  bool reduces = false;   ///< It has a reduction.
  WorkGraph::LeafViews views = WorkGraph::LeafViews::kOps;  ///< How its graph has to be made.
  uint64_t structure = 0;  ///< Hash of its graph but for the values of constants; 0: not asked.
};

/// Instructions that a kernel may have for each element. A thread's vector of 8 elements then has
/// 8,192 in its unrolled body, which is what the 128 KiB of instruction cache between an SM and L2
/// hold at 16 bytes each (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
/// Microbenchmarking", arXiv 1804.06826).
inline constexpr double kMostInstructions = 1024.0;
/// Of one kernel that ran a whole graph, for each element: one at least for each op.
double instructions_of(const Fusion& fusion);

/// Judges groups of a graph, each kind once: groups whose graphs are equal but for the values of
/// constants, on which nothing here depends, get the same verdict, which is found by a hash.
/// Schedules are not tried. `graph` does not change.
class GroupJudge {
 public:
  /// All of them outlive it. Without pins nothing is pinned.
  GroupJudge(const WorkGraph& graph, const DeviceLimits& limits, const FamilySet& families,
             const SegmentPins* pins = nullptr)
      : graph_(graph), limits_(limits), families_(families), pins_(pins), in_group_(graph.size()) {}
  GroupJudge(const WorkGraph& graph, const DeviceLimits& limits, const FamilySet&& families,
             const SegmentPins* pins = nullptr) = delete;

  /// False if a group has more instructions or tensors of its own than a kernel may, which is told
  /// without its graph: judge() then refuses it, for this reason or another.
  [[nodiscard]] bool may_fit(std::span<const NodeId> group);
  /// `group` is ascending. The reference stays valid.
  const GroupVerdict& judge(std::span<const NodeId> group);

  /// Refuses a group, and all of its structure, until all are allowed again.
  void refuse(std::span<const NodeId> group, Rejection why);
  /// Takes back what refuse() did: what was analysed stays known.
  void allow_all();

  /// Groups analysed, and answers given for others of the same structure.
  struct Counts {
    int64_t analysed = 0;
    int64_t repeated = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  GroupVerdict& verdict_of(std::span<const NodeId> group);
  GroupVerdict& judge_anew(std::span<const NodeId> group);
  [[nodiscard]] GroupVerdict analysed(Subgraph subgraph, WorkGraph::LeafViews views) const;

  const WorkGraph& graph_;
  const DeviceLimits& limits_;
  const FamilySet& families_;
  const SegmentPins* pins_;
  ByNodes<GroupVerdict> forbidden_;                      ///< By the pins, whatever the structure.
  std::unordered_map<uint64_t, GroupVerdict> verdicts_;  ///< By GroupVerdict::structure.
  ByNodes<GroupVerdict*> known_;                         ///< Groups asked for before.
  std::vector<GroupVerdict*> refused_;  ///< Legal ones that refuse() has made illegal.
  /// Of groups that read what another of their nodes joins.
  GroupVerdict unfinished_{.rejection = {.subject = "segmentation",
                                         .rule = "a kernel would read what it joins of parts",
                                         .remedy = "none needed: one part waits for the other"}};
  /// Of groups that read a tensor in which parts of an output are joined.
  GroupVerdict overwritten_{
      .rejection = {.subject = "segmentation",
                    .rule = "a kernel would read an input in whose memory it joins parts",
                    .remedy = "none needed: the parts wait for those that read"}};
  Counts counts_;
  IdMap<ValueId, uint32_t> counted_;  ///< By leaf: the call of may_fit() that counted it last.
  std::vector<uint32_t> in_group_;    ///< By node: the one that asked for a group with it last.
  uint32_t last_counted_ = 0;         ///< The last call's number.
};

}  // namespace sinter
