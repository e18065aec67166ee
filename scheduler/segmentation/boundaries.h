#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/group_schedules.h"
#include "scheduler/segmentation/segmenter.h"

namespace sinter {

/// Bytes of memory traffic that merging two groups would save. Both are ascending, and `second`
/// runs later. A tensor that `second` reads from `first` counts its read, and its write if nothing
/// else needs it in memory. A tensor that both read counts one read.
int64_t bytes_between(const WorkGraph& graph, std::span<const NodeId> first,
                      std::span<const NodeId> second);

/// The parts that run first of two cuts of equally many bytes, ascending.
struct BoundaryCuts {
  std::vector<NodeId> fewest_before;  ///< Of the cut with the fewest nodes before it.
  std::vector<NodeId> fewest_behind;  ///< Of the cut with the fewest nodes behind it.
};

/// Cuts nodes, ascending, in two so that the fewest bytes pass between the parts (bytes_between).
/// The part that runs first has all nodes that `first` needs and none that needs a node of `last`;
/// `first` and `last` hold at least one of the nodes each. Empty if nodes of `first` need nodes of
/// `last`. The cut is the minimum cut of a flow network. Each tensor is an edge with its bytes as
/// capacity, from the node that makes it to those that read it. The nodes that a node needs are on
/// its side of the cut or before it.
BoundaryCuts cuts_of_fewest_bytes(const WorkGraph& graph, std::span<const NodeId> nodes,
                                  std::span<const NodeId> first, std::span<const NodeId> last);

/// Moves the boundary between groups of which one reads from the other to where the fewest bytes
/// cross it. A boundary moves only if both groups stay legal, no cycle arises and their predicted
/// time decreases. Reductions stay in their groups, since they determine the iteration space of a
/// group; in groups without reductions the first or the last nodes stay. Runs one maximum flow per
/// pair of neighbours.
Partition move_boundaries(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                          Partition groups);

}  // namespace sinter
