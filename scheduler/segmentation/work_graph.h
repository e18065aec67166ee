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

/// Number of an op that a kernel, or the embedder, has to run: its place in WorkGraph::nodes.
using NodeId = uint32_t;

/// Looks nodes of groups up in unordered maps.
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

/// An op that belongs to one group. All others are free: whoever needs their result computes it.
struct WorkNode {
  OpId op;
  bool is_external = false;   ///< The embedder runs it; it shares a group with nothing.
  double instructions = 0.0;  ///< Of its op, for each element: one at least.
  /// What it reads from memory if nothing else is in its group: values that other nodes own and
  /// inputs, found through free ops. In canonical order, none twice.
  std::vector<ValueId> leaves;
  std::vector<NodeId> producers;  ///< Owners of the leaves; ascending.
  std::vector<NodeId> consumers;  ///< Nodes that have a result of it among their leaves, or
                                  ///< overwrite one of these; ascending.
  friend bool operator==(const WorkNode&, const WorkNode&) = default;
};

/// A graph as the segmenter sees it: the ops that have to be run somewhere, and what each of them
/// reads. Inputs, constants, and changes of shape are free. So is a cast or a pointwise function
/// whose leaves have no more bytes than its result, its instructions counted as bytes: an edge that
/// would carry the result carries the leaves instead, as the bf16 tensor in the place of its cast
/// to f32. What is an output, or an operand of an external call or a concatenate, has an owner
/// however cheap it is.
///
/// A concatenate has none, for nothing is left to do: what its operands are made by writes them
/// into their places in the result. Nor has a reshape that is an output or passed to a call, of a
/// value that lies dense in memory: both are one tensor.
///
/// An output that takes over the memory of an input is written when everything has read the input:
/// its writer counts as a consumer of those readers.
///
/// The order of nodes is that of a walk from the outputs, operands first, as far as readers of
/// inputs that are overwritten leave it. It does not depend on the order in which the ops were
/// inserted.
class WorkGraph {
 public:
  /// `fusion` is specialised, has no pads, and its concatenates can be written in place (joins.h);
  /// it outlives the graph. Ops `kept` have an owner although they would
  /// be free.
  WorkGraph(const Fusion& fusion, const DeviceLimits& limits, const std::set<OpId>& kept = {});
  /// Only what `wanted` values need; these count as the graph's outputs.
  WorkGraph(const Fusion& fusion, const DeviceLimits& limits, const std::set<OpId>& kept,
            const std::vector<ValueId>& wanted);
  /// With just these ops free, whatever bytes they spare: as free_ops() of a graph of other sizes.
  WorkGraph(const Fusion& fusion, const std::set<OpId>& free_ops,
            const std::vector<ValueId>& wanted);

  [[nodiscard]] const Fusion& fusion() const { return *fusion_; }
  [[nodiscard]] const std::vector<WorkNode>& nodes() const { return nodes_; }
  [[nodiscard]] size_t size() const { return nodes_.size(); }
  /// The node that owns an op; kNone if it is free, or nothing needs it.
  [[nodiscard]] NodeId node_of(OpId op) const { return node_of_[op]; }
  static constexpr NodeId kNone = 0xffff'ffffU;
  /// The node that owns the op which makes a value; kNone likewise.
  [[nodiscard]] NodeId maker_of(ValueId value) const { return maker_of_[value]; }

  [[nodiscard]] bool is_output(ValueId value) const { return is_output_[value] != 0; }
  /// Values that lie in the tensor of another one.
  [[nodiscard]] const std::map<ValueId, Placement>& placements() const { return placements_; }
  /// True if a value has to be in memory whoever reads it.
  [[nodiscard]] bool is_kept(ValueId value) const {
    return is_output(value) || placements_.contains(value);
  }
  /// How the memory of a value lies that a node owns or that is an input.
  [[nodiscard]] OutputLayout layout_of(ValueId value) const;
  /// A concatenate's result that a node of the group reads while another one writes part of it.
  [[nodiscard]] std::optional<ValueId> reads_unfinished(std::span<const NodeId> group) const;
  /// An input that a node of the group reads while another one, or the same, writes into its memory
  /// part of an output that is joined there.
  [[nodiscard]] std::optional<ValueId> reads_overwritten(std::span<const NodeId> group) const;
  /// The input whose memory an output takes over; invalid if it has its own.
  [[nodiscard]] ValueId alias_of(ValueId output) const;
  /// What has to be one kernel, ascending: an input's reader that also waits for the output which
  /// takes over the input's memory, that output's writer, and all between them.
  struct Bound {
    std::vector<NodeId> nodes;
    ValueId output;
    ValueId input;
    NodeId reader = 0;
  };
  [[nodiscard]] const std::vector<Bound>& bound() const { return bound_; }
  /// True if groups that need a value compute it, though one may have to write it too.
  [[nodiscard]] bool is_free(ValueId value) const { return is_free_[value] != 0; }
  /// Ops whose results are free; ascending.
  [[nodiscard]] std::vector<OpId> free_ops() const;
  [[nodiscard]] int64_t bytes(ValueId value) const { return bytes_[value]; }
  /// Nodes that have a value among their leaves; ascending.
  [[nodiscard]] const std::vector<NodeId>& readers(ValueId value) const { return readers_[value]; }
  /// These, and those that read it as part of what a concatenate makes; no longer ascending.
  [[nodiscard]] std::vector<NodeId> readers_in_memory(ValueId value) const;
  /// True if others than `group`, ascending, need a value that a node of it owns.
  [[nodiscard]] bool leaves_group(ValueId value, std::span<const NodeId> group) const;
  /// The same of the nodes for which `is_inside(node)` is true.
  [[nodiscard]] bool leaves_group(ValueId value, const auto& is_inside) const
    requires std::predicate<decltype(is_inside), NodeId>
  {
    return is_kept(value) || !std::ranges::all_of(readers_[value], is_inside);
  }

  /// These nodes and all that lies on a path from one of them to another; ascending.
  [[nodiscard]] std::vector<NodeId> closed(std::span<const NodeId> nodes) const;

  /// What a change of shape between memory and its user is in the group's graph.
  enum class LeafViews : uint8_t {
    kOps,     ///< An op, so that all views of a tensor are known to be of one.
    kInputs,  ///< Part of the input: a dense tensor is read under any shape.
  };
  /// The graph of a group of nodes, ascending, named after its first output: its inputs are leaves,
  /// its outputs what others or the caller need. `in_plan` has what all its values are in this
  /// graph.
  [[nodiscard]] Subgraph extract(std::span<const NodeId> group,
                                 LeafViews views = LeafViews::kOps) const;
  /// 64-bit hash of that graph but for the values of constants, found without making it.
  [[nodiscard]] uint64_t structure_of(std::span<const NodeId> group) const;

 private:
  void order_ops(const std::vector<ValueId>& wanted);
  void place_operands();
  [[nodiscard]] std::optional<ValueId> renames(const Op& op, bool is_passed) const;
  [[nodiscard]] Placement place_of(ValueId value) const;
  [[nodiscard]] Placement own_place_of(ValueId value) const;
  [[nodiscard]] bool is_dense(ValueId value) const;
  void add_owners(ValueId value, std::vector<NodeId>& out) const;
  /// Whether an op's result is free, read from these leaves with so many instructions an element.
  using IsFree = std::function<bool(OpId, const std::vector<ValueId>& leaves, double instructions)>;
  WorkGraph(const Fusion& fusion, const IsFree& is_free, const std::vector<ValueId>& wanted);
  void find_free(const IsFree& is_free);
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
  /// Of every result of a free op: what it is computed from.
  IdMap<ValueId, std::vector<ValueId>> free_leaves_;
  IdMap<ValueId, uint8_t> is_free_;
  std::vector<WorkNode> nodes_;
  IdMap<ValueId, std::vector<NodeId>> readers_;
  /// Of each op, with the types and shapes of its results, but not with a constant's value.
  IdMap<OpId, uint64_t> op_hashes_;
  /// What a value lies in, one step on; `axis` and `at` of a concatenate's operand.
  struct Host {
    ValueId value;
    std::optional<size_t> axis{};  ///< Nothing where both are the same elements.
    int64_t at = 0;
  };
  /// 1: no input, in no other value's memory, and without a layout of its own.
  IdMap<ValueId, uint8_t> is_dense_alone_;
  std::map<ValueId, OutputLayout> layouts_;  ///< Of outputs, where any is not dense.
  std::map<ValueId, Host> hosts_;
  /// By value that lies in another one: the nearest that it lies in and that nodes read; invalid if
  /// there is none.
  std::map<ValueId, ValueId> read_hosts_;
  /// Of a concatenate's result or operand: numbers of its parts, those of their parts, and its own,
  /// which is `begin`.
  struct Joined {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  std::map<ValueId, Joined> joined_;
  std::map<ValueId, ValueId> renamed_;  ///< What a reshape without an owner is one tensor with.
  std::map<ValueId, Placement> placements_;
  std::map<ValueId, ValueId> aliases_;  ///< Inputs by the outputs that take over their memory.
  std::vector<Bound> bound_;
};

}  // namespace sinter
