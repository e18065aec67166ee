#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/placement.h"
#include "scheduler/analysis/subgraphs.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// Index in WorkGraph::nodes of an op that a kernel or the embedder has to run.
using NodeId = uint32_t;

/// Hash for looking up groups of nodes in unordered maps.
struct NodesHash {
  using is_transparent = void;
  size_t operator()(std::span<const NodeId> nodes) const noexcept;
};
struct NodesEqual {
  using is_transparent = void;
  bool operator()(std::span<const NodeId> a, std::span<const NodeId> b) const noexcept {
    return std::ranges::equal(a, b);
  }
};
template <class T>
using ByNodes = std::unordered_map<std::vector<NodeId>, T, NodesHash, NodesEqual>;

/// An op that belongs to one group. All other ops are free: every group that needs their result
/// computes it.
struct WorkNode {
  OpId op;
  bool is_external = false;   ///< The embedder runs it; it is alone in its group.
  double instructions = 0.0;  ///< Instructions of its op per element; at least one.
  /// What the node reads from memory if no other node is in its group: inputs and values that other
  /// nodes own, found through free ops. In canonical order, without duplicates.
  std::vector<ValueId> leaves;
  std::vector<NodeId> producers;  ///< Owners of the leaves; ascending.
  std::vector<NodeId> consumers;  ///< Nodes that have a result of this one among their leaves, or
                                  ///< overwrite one of this node's leaves; ascending.
  friend bool operator==(const WorkNode&, const WorkNode&) = default;
};

/// A graph as the segmenter sees it: the ops that have to be run by some group, and the values that
/// each of them reads. Inputs, constants, and changes of shape are free. A cast or pointwise op is
/// free if its leaves have no more bytes than its result, with its instructions counted as bytes.
/// An edge that would carry the result then carries the leaves, for example a bf16 tensor instead
/// of its cast to f32. Outputs, and operands of external calls, concatenates or contractions, have
/// an owner even if they are cheap.
///
/// A concatenate has no owner: the ops that make its operands write to their places in the result.
/// A reshape has no owner if it is an output or passed to an external call, and its operand is
/// dense in memory: both are one tensor.
///
/// An output that lies in the memory of an input is written after all reads of the input: its
/// writer counts as a consumer of those readers.
///
/// Nodes are in the order of a walk from the outputs, operands first, as far as readers of
/// overwritten inputs allow. The order does not depend on the order in which the ops were inserted.
class WorkGraph {
 public:
  /// `fusion` is specialised and has no pads, and its concatenates can be written in place
  /// (joins.h). It outlives the graph. The ops of `kept` have an owner even if they could be free.
  WorkGraph(const Fusion& fusion, const DeviceLimits& limits, const std::set<OpId>& kept = {});
  /// Only the ops that `wanted` values need; these values count as the graph's outputs.
  WorkGraph(const Fusion& fusion, const DeviceLimits& limits, const std::set<OpId>& kept,
            const std::vector<ValueId>& wanted);
  /// With exactly these ops free, regardless of bytes: they are the free_ops() of a graph of other
  /// sizes.
  WorkGraph(const Fusion& fusion, const std::set<OpId>& free_ops,
            const std::vector<ValueId>& wanted);

  [[nodiscard]] const Fusion& fusion() const { return *fusion_; }
  [[nodiscard]] const std::vector<WorkNode>& nodes() const { return nodes_; }
  [[nodiscard]] size_t size() const { return nodes_.size(); }
  /// The node that owns an op; kNone if the op is free or not needed.
  [[nodiscard]] NodeId node_of(OpId op) const { return node_of_[op]; }
  static constexpr NodeId kNone = 0xffff'ffffU;
  /// The node that owns the op which makes a value; kNone likewise.
  [[nodiscard]] NodeId maker_of(ValueId value) const { return maker_of_[value]; }

  [[nodiscard]] bool is_output(ValueId value) const { return is_output_[value] != 0; }
  /// Values that lie in the tensor of another one.
  [[nodiscard]] const std::map<ValueId, Placement>& placements() const { return placements_; }
  /// True if a value has to be in memory regardless of who reads it.
  [[nodiscard]] bool is_kept(ValueId value) const {
    return is_output(value) || placements_.contains(value);
  }
  /// Memory layout of a value that a node owns or that is an input.
  [[nodiscard]] OutputLayout layout_of(ValueId value) const;
  /// A concatenate's result that a node of the group reads while another one writes part of it.
  [[nodiscard]] std::optional<ValueId> reads_unfinished(std::span<const NodeId> group) const;
  /// An input that a node of the group reads, if a node of the group, the same or another, writes
  /// part of an output to the input's memory.
  [[nodiscard]] std::optional<ValueId> reads_overwritten(std::span<const NodeId> group) const;
  /// The input whose memory an output takes over; invalid if the output has its own memory.
  [[nodiscard]] ValueId alias_of(ValueId output) const;
  /// Nodes that must be in one kernel, ascending: a reader of an input that also depends on the
  /// output which takes over the input's memory, that output's writer, and all nodes between them.
  struct Bound {
    std::vector<NodeId> nodes;
    ValueId output;
    ValueId input;
    NodeId reader = 0;
  };
  [[nodiscard]] const std::vector<Bound>& bound() const { return bound_; }
  /// True if every group that needs a value computes it, even if one group also has to write it.
  [[nodiscard]] bool is_free(ValueId value) const { return is_free_[value] != 0; }
  /// Ops whose results are free; ascending.
  [[nodiscard]] std::vector<OpId> free_ops() const;
  [[nodiscard]] int64_t bytes(ValueId value) const { return bytes_[value]; }
  /// Nodes that have a value among their leaves; ascending.
  [[nodiscard]] const std::vector<NodeId>& readers(ValueId value) const { return readers_[value]; }
  /// readers(value), and the nodes that read the value as part of a concatenate's result; not
  /// ascending.
  [[nodiscard]] std::vector<NodeId> readers_in_memory(ValueId value) const;
  /// True if a value that a node of `group`, ascending, owns is needed outside of the group.
  [[nodiscard]] bool leaves_group(ValueId value, std::span<const NodeId> group) const;
  /// The same for the group of nodes for which `is_inside(node)` is true.
  [[nodiscard]] bool leaves_group(ValueId value, const auto& is_inside) const
    requires std::predicate<decltype(is_inside), NodeId>
  {
    return is_kept(value) || !std::ranges::all_of(readers_[value], is_inside);
  }

  /// These nodes and all nodes on a path from one of them to another; ascending.
  [[nodiscard]] std::vector<NodeId> closed(std::span<const NodeId> nodes) const;

  /// How the group's graph represents a change of shape between memory and its user.
  enum class LeafViews : uint8_t {
    kOps,     ///< An op, so that all views of a tensor are known to be of the same tensor.
    kInputs,  ///< Part of the input: a dense tensor is read under any shape.
  };
  /// The graph of a group of nodes, ascending, named after its first output. Its inputs are leaves;
  /// its outputs are the values that other nodes or the caller need. `in_plan` maps all its values
  /// to values of this graph.
  [[nodiscard]] Subgraph extract(std::span<const NodeId> group,
                                 LeafViews views = LeafViews::kOps) const;
  /// That graph alone. Most groups that are extracted are judged and then forgotten.
  [[nodiscard]] Fusion extract_graph(std::span<const NodeId> group, LeafViews views) const;
  /// 64-bit hash of that graph except for the values of constants, computed without making it.
  [[nodiscard]] uint64_t structure_of(std::span<const NodeId> group) const;

 private:
  void order_ops(const std::vector<ValueId>& wanted);
  void place_operands();
  [[nodiscard]] std::optional<ValueId> renames(const Op& op, bool is_passed) const;
  [[nodiscard]] Placement place_of(ValueId value) const;
  [[nodiscard]] Placement own_place_of(ValueId value) const;
  [[nodiscard]] bool is_dense(ValueId value) const;
  void add_owners(ValueId value, std::vector<NodeId>& out) const;
  /// Whether an op's result is free, given its leaves and its instructions per element.
  using IsFree = std::function<bool(OpId, const std::vector<ValueId>& leaves, double instructions)>;
  WorkGraph(const Fusion& fusion, const IsFree& is_free, const std::vector<ValueId>& wanted);
  void find_free(const IsFree& is_free);
  /// Values that contractions read from memory, behind changes of shape; without inputs.
  [[nodiscard]] IdMap<ValueId, uint8_t> find_contracted() const;
  void connect();
  void find_read_hosts();
  void number_joined();
  void hash_ops();
  void order_overwriting();
  void renumber(const std::vector<NodeId>& number);

  const Fusion* fusion_;
  std::vector<OpId> order_;     ///< Ops that outputs need, operands first.
  IdMap<OpId, uint32_t> rank_;  ///< Place in `order_`.
  IdMap<ValueId, uint8_t> is_output_;
  IdMap<OpId, NodeId> node_of_;
  IdMap<ValueId, NodeId> maker_of_;
  IdMap<ValueId, int64_t> bytes_;
  /// For every result of a free op: the leaves it is computed from.
  IdMap<ValueId, std::vector<ValueId>> free_leaves_;
  IdMap<ValueId, uint8_t> is_free_;
  std::vector<WorkNode> nodes_;
  IdMap<ValueId, std::vector<NodeId>> readers_;
  /// Hash of each op with the types and shapes of its results, but without a constant's value.
  IdMap<OpId, uint64_t> op_hashes_;
  /// The value in whose memory another one lies directly; `axis` and `at` for a concatenate's
  /// operand.
  struct Host {
    ValueId value;
    std::optional<size_t> axis{};  ///< No value if both have the same elements.
    int64_t at = 0;
  };
  /// 1: not an input, not in another value's memory, and without a layout of its own.
  IdMap<ValueId, uint8_t> is_dense_alone_;
  std::map<ValueId, OutputLayout> layouts_;  ///< Of outputs, if any of them is not dense.
  std::map<ValueId, Host> hosts_;
  /// For each value that lies in another one: the nearest enclosing value that nodes read; invalid
  /// if there is none.
  std::map<ValueId, ValueId> read_hosts_;
  /// Of a concatenate's result or operand: the range of numbers of itself, of its parts and of
  /// their parts. Its own number is `begin`.
  struct Joined {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  std::map<ValueId, Joined> joined_;
  std::map<ValueId, ValueId> renamed_;  ///< The tensor that a reshape without an owner shares.
  std::map<ValueId, Placement> placements_;
  std::map<ValueId, ValueId> aliases_;  ///< Inputs by the outputs that take over their memory.
  std::vector<Bound> bound_;
};

}  // namespace sinter
