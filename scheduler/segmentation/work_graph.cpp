#include "scheduler/segmentation/work_graph.h"

#include <algorithm>
#include <map>

#include "fusion_ir/match.h"

namespace sinter {
namespace {

bool is_view(const OpKind& kind) {
  return std::holds_alternative<BroadcastOp>(kind) || std::holds_alternative<PermuteOp>(kind) ||
         std::holds_alternative<ReshapeOp>(kind) || std::holds_alternative<SliceOp>(kind);
}

/// Neither reads nor computes anything that a kernel would notice.
bool has_no_cost(const OpKind& kind) {
  return std::holds_alternative<InputOp>(kind) || std::holds_alternative<ConstantOp>(kind) ||
         std::holds_alternative<ExtentOp>(kind) || std::holds_alternative<IotaOp>(kind) ||
         is_view(kind);
}

/// Bytes that memory moves while the device issues one instruction for each of 32 threads, by
/// thread: where a kernel is bound by both, an instruction costs as much as so many bytes.
double bytes_per_instruction(const DeviceLimits& limits) {
  constexpr double kWarp = 32.0;
  const double instructions_per_us =
      static_cast<double>(limits.sm_count) * limits.issue_per_clock * limits.clock_mhz * kWarp;
  return limits.memory_bytes_per_us * limits.copy_efficiency / instructions_per_us;
}

double instructions_of(const OpKind& kind) {
  if (const auto* pointwise = std::get_if<PointwiseOp>(&kind))
    return info_of(pointwise->fn).issue_slots;
  return std::holds_alternative<CastOp>(kind) ? 1.0 : 0.0;
}

/// Adds what is not yet there; lists are short.
void unite(std::vector<ValueId>& into, std::span<const ValueId> values) {
  for (const ValueId value : values) {
    if (std::ranges::find(into, value) == into.end()) into.push_back(value);
  }
}

}  // namespace

WorkGraph::WorkGraph(const Fusion& fusion, const DeviceLimits& limits, const std::set<OpId>& kept)
    : fusion_(&fusion),
      rank_(fusion.ops.size()),
      is_output_(fusion.values.size()),
      node_of_(fusion.ops.size(), kNone),
      free_leaves_(fusion.values.size()),
      is_free_(fusion.values.size()),
      readers_(fusion.values.size()) {
  for (const ValueId output : fusion.outputs) is_output_[output] = 1;
  order_ops();
  find_free(limits, kept);
  connect();
}

void WorkGraph::order_ops() {
  IdMap<OpId, uint8_t> seen(fusion_->ops.size());
  struct Visit {
    OpId op;
    size_t next = 0;  ///< Operand to go on with.
  };
  std::vector<Visit> stack;
  for (const ValueId output : fusion_->outputs) {
    stack.push_back({fusion_->values[output].def});
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const Op& op = fusion_->ops[visit.op];
      if (visit.next == 0 && seen[visit.op] != 0) {
        stack.pop_back();
      } else if (seen[visit.op] = 1; visit.next < op.operands.size()) {
        const OpId operand = fusion_->values[op.operands[visit.next++]].def;
        if (seen[operand] == 0) stack.push_back({operand});
      } else {
        rank_[visit.op] = static_cast<uint32_t>(order_.size());
        order_.push_back(visit.op);
        stack.pop_back();
      }
    }
  }
}

int64_t WorkGraph::bytes(ValueId value) const {
  const Value& info = fusion_->values[value];
  int64_t elements = 1;
  for (const Extent& extent : info.shape) elements *= extent.constant();
  return elements * bytes_of(info.type);
}

void WorkGraph::find_free(const DeviceLimits& limits, const std::set<OpId>& kept) {
  const double instruction_bytes = bytes_per_instruction(limits);
  IdMap<ValueId, uint8_t> is_passed(fusion_->values.size());  // To an external call.
  for (const OpId id : order_) {
    const Op& op = fusion_->ops[id];
    if (!std::holds_alternative<ExternalOp>(op.kind)) continue;
    for (const ValueId operand : op.operands) is_passed[operand] = 1;
  }
  IdMap<ValueId, double> instructions(fusion_->values.size());  // From the leaves on, per element.
  for (const OpId id : order_) {
    const Op& op = fusion_->ops[id];
    const ValueId result = op.results.front();
    std::vector<ValueId> leaves;
    double issued = instructions_of(op.kind);
    for (const ValueId operand : op.operands) {
      if (is_free_[operand] != 0) {
        unite(leaves, free_leaves_[operand]);
        issued += instructions[operand];
      } else {
        unite(leaves, std::span(&operand, 1));
      }
    }
    bool is_free = has_no_cost(op.kind);
    const bool is_external = std::holds_alternative<ExternalOp>(op.kind);
    if (is_external) {
      leaves.clear();
      unite(leaves, op.operands);
    }
    if (std::holds_alternative<InputOp>(op.kind)) leaves = {result};
    if (std::holds_alternative<PointwiseOp>(op.kind) || std::holds_alternative<CastOp>(op.kind)) {
      const Value& info = fusion_->values[result];
      const auto written = static_cast<double>(bytes(result));
      double read = written / static_cast<double>(bytes_of(info.type)) * issued * instruction_bytes;
      for (const ValueId leaf : leaves) read += static_cast<double>(bytes(leaf));
      is_free = read <= written;
    }
    is_free = is_free && !kept.contains(id);
    if (is_free) {
      is_free_[result] = 1;
      instructions[result] = issued;
      free_leaves_[result] = leaves;
    }
    const bool is_source = std::holds_alternative<InputOp>(op.kind);
    const bool is_needed = std::ranges::any_of(
        op.results, [&](ValueId value) { return is_output_[value] != 0 || is_passed[value] != 0; });
    if ((is_free && !is_needed) || is_source) continue;
    node_of_[id] = static_cast<NodeId>(nodes_.size());
    nodes_.push_back({.op = id,
                      .is_external = is_external,
                      .leaves = std::move(leaves),
                      .producers = {},
                      .consumers = {}});
  }
}

void WorkGraph::connect() {
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    for (const ValueId leaf : nodes_[node].leaves) {
      readers_[leaf].push_back(node);
      const NodeId producer = node_of_[fusion_->values[leaf].def];
      if (producer == kNone) continue;
      nodes_[node].producers.push_back(producer);
      nodes_[producer].consumers.push_back(node);
    }
  }
  for (WorkNode& node : nodes_) {
    std::ranges::sort(node.producers);
    node.producers.erase(std::ranges::unique(node.producers).begin(), node.producers.end());
    node.consumers.erase(std::ranges::unique(node.consumers).begin(), node.consumers.end());
  }
}

bool WorkGraph::leaves_group(ValueId value, std::span<const NodeId> group) const {
  return is_output(value) || std::ranges::any_of(readers_[value], [&](NodeId reader) {
           return !std::ranges::binary_search(group, reader);
         });
}

namespace {

/// Copies ops of a graph into another one, numbering anew.
class Extraction {
 public:
  Extraction(const WorkGraph& graph, std::span<const NodeId> group, WorkGraph::LeafViews views)
      : graph_(graph), group_(group), views_(views) {}

  Subgraph run() {
    for (const NodeId node : group_) own(graph_.nodes()[node].op);
    for (const NodeId node : group_) {
      for (const ValueId result : source().ops[graph_.nodes()[node].op].results) {
        if (!graph_.leaves_group(result, group_)) continue;
        out_.fusion.outputs.push_back(owned_.at(result));
      }
    }
    if (!out_.fusion.outputs.empty()) {
      const ValueId first = out_.in_plan.at(out_.fusion.outputs.front());
      const std::string& name = source().values[first].name;
      out_.fusion.name = fmt::format("{}_{}", source().name,
                                     name.empty() ? fmt::format("v{}", first.index) : name);
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] const Fusion& source() const { return graph_.fusion(); }

  void own(OpId id) {
    const Op& op = source().ops[id];
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) operands.push_back(use(operand));
    const std::vector<ValueId> made = append(op.kind, std::move(operands), op.results);
    for (size_t i = 0; i < made.size(); ++i) {
      owned_[op.results[i]] = made[i];
      out_.in_plan[made[i]] = op.results[i];
    }
  }

  /// The value as an operand: computed in the group, computed again, or read.
  ValueId use(ValueId value) {
    if (const auto found = owned_.find(value); found != owned_.end()) return found->second;
    if (const auto found = copies_.find(value); found != copies_.end()) return found->second;
    const Op& op = source().def_of(value);
    ValueId made;
    if (!graph_.is_free(value) || std::holds_alternative<InputOp>(op.kind)) {
      made = read(value, value);
    } else if (const auto leaf = dense_leaf(value)) {
      made = read(*leaf, value);
    } else {
      std::vector<ValueId> operands;
      for (const ValueId operand : op.operands) operands.push_back(use(operand));
      made = append(op.kind, std::move(operands), op.results).front();
      out_.in_plan[made] = value;
    }
    copies_[value] = made;
    return made;
  }

  /// The dense tensor in memory that `value`, made by reshapes, has the elements of, in its order.
  [[nodiscard]] std::optional<ValueId> dense_leaf(ValueId value) const {
    if (views_ == WorkGraph::LeafViews::kOps) return std::nullopt;
    if (!std::holds_alternative<ReshapeOp>(source().def_of(value).kind)) return std::nullopt;
    while (std::holds_alternative<ReshapeOp>(source().def_of(value).kind) &&
           !owned_.contains(value))
      value = source().def_of(value).operands.front();
    if (owned_.contains(value)) return std::nullopt;
    const auto* input = source().def_as<InputOp>(value);
    if (input != nullptr ? !input->strides.empty() : graph_.is_free(value)) return std::nullopt;
    return value;
  }

  /// An input that holds `leaf` in the shape of `like`.
  ValueId read(ValueId leaf, ValueId like) {
    const auto* input = source().def_as<InputOp>(leaf);
    const ValueId made = append(input != nullptr ? *input : InputOp{}, {}, {&like, 1}).front();
    out_.fusion.inputs.push_back(made);
    out_.in_plan[made] = leaf;
    return made;
  }

  std::vector<ValueId> append(OpKind kind, std::vector<ValueId> operands,
                              std::span<const ValueId> like) {
    Fusion& fusion = out_.fusion;
    const OpId id =
        fusion.ops.push_back({.kind = std::move(kind), .operands = std::move(operands)});
    std::vector<ValueId> made;
    for (const ValueId value : like) {
      const Value& info = source().values[value];
      made.push_back(fusion.values.push_back({.type = info.type,
                                              .shape = info.shape,
                                              .def = id,
                                              .result = static_cast<uint32_t>(made.size()),
                                              .name = info.name}));
    }
    fusion.ops[id].results = made;
    return made;
  }

  const WorkGraph& graph_;
  std::span<const NodeId> group_;
  WorkGraph::LeafViews views_;
  Subgraph out_;
  std::map<ValueId, ValueId> owned_;   ///< Results of the group's nodes.
  std::map<ValueId, ValueId> copies_;  ///< Free values and what is read.
};

}  // namespace

Subgraph WorkGraph::extract(std::span<const NodeId> group, LeafViews views) const {
  return Extraction(*this, group, views).run();
}

}  // namespace sinter
