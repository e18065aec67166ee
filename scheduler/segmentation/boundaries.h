#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/group_schedules.h"
#include "scheduler/segmentation/segmenter.h"

namespace sinter {

/// Bytes that pass through memory because two groups, ascending, of which `second` runs later, are
/// not one: of each tensor that `second` reads of `first` the reading, and the writing if nothing
/// else needs it there; of each that both read one reading.
int64_t bytes_between(const WorkGraph& graph, std::span<const NodeId> first,
                      std::span<const NodeId> second);

/// Which of several cuts of as many bytes.
enum class CutNearest : uint8_t {
  kFirst,  ///< That with the fewest nodes before it.
  kLast,   ///< That with the fewest behind it.
};

/// Where to cut nodes, ascending, in two so that fewest bytes pass between (bytes_between): the
/// part that runs first, ascending. It has all nodes that `first` needs and none that needs one of
/// `last`, which hold one of the nodes each at least. Empty if nodes of `first` need some of
/// `last`. The minimum cut of a flow network: of each tensor an edge of its bytes from the node
/// that makes it to those that read it; what a node needs is on its side or before it.
std::vector<NodeId> cut_of_fewest_bytes(const WorkGraph& graph, std::span<const NodeId> nodes,
                                        std::span<const NodeId> first, std::span<const NodeId> last,
                                        CutNearest nearest = CutNearest::kFirst);

/// Moves the boundary between groups that read from each other to where fewest bytes cross it, as
/// far as both stay legal, no cycle arises and they are predicted to take less time. Reductions
/// stay where they are, for they decide what a group walks; of groups without, what comes first or
/// last. Takes the time of a maximum flow for each pair of neighbours.
Partition move_boundaries(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                          Partition groups);

}  // namespace sinter
