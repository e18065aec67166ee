#include "scheduler/segmentation/work_graph.h"

#include <xxhash.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <functional>
#include <map>
#include <queue>
#include <ranges>

#include "fusion_ir/match.h"
#include "fusion_ir/operand_walk.h"
#include "scheduler/analysis/cuda_units.h"

namespace sinter {
namespace {

bool is_view(const OpKind& kind) {
  return std::holds_alternative<BroadcastOp>(kind) || std::holds_alternative<PermuteOp>(kind) ||
         std::holds_alternative<ReshapeOp>(kind) || std::holds_alternative<SliceOp>(kind);
}

/// Ops that neither read nor compute anything of relevant cost.
bool has_no_cost(const OpKind& kind) {
  return std::holds_alternative<InputOp>(kind) || std::holds_alternative<ConstantOp>(kind) ||
         std::holds_alternative<ExtentOp>(kind) || std::holds_alternative<IotaOp>(kind) ||
         is_view(kind);
}

/// Bytes that memory moves, per thread, while the device issues one instruction for a warp of 32
/// threads. If a kernel is bound by both, an instruction costs as much as this number of bytes.
double bytes_per_instruction(const DeviceLimits& limits) {
  const double instructions_per_us =
      static_cast<double>(limits.sm_count) * limits.issue_per_clock * limits.clock_mhz * kWarp;
  return limits.memory_bytes_per_us * limits.copy_efficiency / instructions_per_us;
}

int64_t tensor_bytes(const Fusion& fusion, ValueId value) {
  const Value& info = fusion.values[value];
  int64_t elements = 1;
  for (const Extent& extent : info.shape) elements *= extent.constant();
  return elements * bytes_of(info.type);
}

/// True if computing an op's result from `leaves` costs no more than reading it. An instruction per
/// element costs `instruction_bytes` bytes.
bool costs_no_more_than_memory(const Fusion& fusion, OpId id, const std::vector<ValueId>& leaves,
                               double instruction_bytes) {
  const Op& op = fusion.ops[id];
  if (!std::holds_alternative<PointwiseOp>(op.kind) && !std::holds_alternative<CastOp>(op.kind))
    return has_no_cost(op.kind);
  const ValueId result = op.results.front();
  const auto written = static_cast<double>(tensor_bytes(fusion, result));
  double read =
      written / static_cast<double>(bytes_of(fusion.values[result].type)) * instruction_bytes;
  for (const ValueId leaf : leaves) read += static_cast<double>(tensor_bytes(fusion, leaf));
  return read <= written;
}

/// Adds the values that are not yet there; lists are short.
void unite(std::vector<ValueId>& into, std::span<const ValueId> values) {
  for (const ValueId value : values) {
    if (std::ranges::find(into, value) == into.end()) into.push_back(value);
  }
}

}  // namespace

size_t NodesHash::operator()(std::span<const NodeId> nodes) const noexcept {
  return XXH3_64bits(nodes.data(), nodes.size_bytes());
}

WorkGraph::WorkGraph(const Fusion& fusion, const DeviceLimits& limits, const std::set<OpId>& kept)
    : WorkGraph(fusion, limits, kept, fusion.outputs) {}

WorkGraph::WorkGraph(const Fusion& fusion, const DeviceLimits& limits, const std::set<OpId>& kept,
                     const std::vector<ValueId>& wanted)
    : WorkGraph(
          fusion,
          [&, instruction_bytes = bytes_per_instruction(limits)](
              OpId id, const std::vector<ValueId>& leaves, double instructions) {
            return !kept.contains(id) &&
                   costs_no_more_than_memory(fusion, id, leaves, instructions * instruction_bytes);
          },
          wanted) {}

WorkGraph::WorkGraph(const Fusion& fusion, const std::set<OpId>& free_ops,
                     const std::vector<ValueId>& wanted)
    : WorkGraph(
          fusion,
          [&](OpId id, const std::vector<ValueId>&, double) { return free_ops.contains(id); },
          wanted) {}

WorkGraph::WorkGraph(const Fusion& fusion, const IsFree& is_free,
                     const std::vector<ValueId>& wanted)
    : fusion_(&fusion),
      rank_(fusion.ops.size()),
      is_output_(fusion.values.size()),
      node_of_(fusion.ops.size(), kNone),
      maker_of_(fusion.values.size(), kNone),
      bytes_(fusion.values.size()),
      free_leaves_(fusion.values.size()),
      is_free_(fusion.values.size()),
      readers_(fusion.values.size()),
      op_hashes_(fusion.ops.size()),
      is_dense_alone_(fusion.values.size()) {
  for (const ValueId value : fusion.value_ids()) bytes_[value] = tensor_bytes(fusion, value);
  for (const ValueId output : wanted) is_output_[output] = 1;
  for (size_t i = 0; i < fusion.layouts.size(); ++i) {
    layouts_[fusion.outputs[i]] = fusion.layouts[i];
    const ValueId alias = fusion.layouts[i].alias;
    if (alias.valid() && is_output(fusion.outputs[i])) aliases_[fusion.outputs[i]] = alias;
  }
  order_ops(wanted);
  place_operands();
  find_free(is_free);
  // Backwards, since most values lie in a value that comes later, which is then placed already.
  for (const auto& [value, host] : hosts_ | std::views::reverse)
    placements_[value] = place_of(value);
  for (const auto& [output, input] : aliases_) placements_[output] = place_of(output);
  for (const OpId id : order_) {
    for (const ValueId value : fusion.ops[id].results) {
      const bool is_input = std::holds_alternative<InputOp>(fusion.ops[id].kind);
      is_dense_alone_[value] =
          !is_input && !hosts_.contains(value) && !layouts_.contains(value) ? 1 : 0;
    }
  }
  connect();
  find_read_hosts();
  number_joined();
  hash_ops();
  if (!aliases_.empty()) order_overwriting();
  for (const ValueId value : fusion.value_ids())
    maker_of_[value] = node_of_[fusion.values[value].def];
}

void WorkGraph::order_ops(const std::vector<ValueId>& wanted) {
  IdMap<OpId, uint8_t> seen(fusion_->ops.size());
  struct Visit {
    OpId op;
    size_t next = 0;  ///< Next operand to visit.
  };
  std::vector<Visit> stack;
  for (const ValueId output : wanted) {
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

std::vector<OpId> WorkGraph::free_ops() const {
  std::vector<OpId> out;
  for (const OpId id : order_) {
    if (is_free_[fusion_->ops[id].results.front()] != 0) out.push_back(id);
  }
  std::ranges::sort(out);
  return out;
}

/// Operands of concatenates lie in the result.
void WorkGraph::place_operands() {
  for (const OpId id : order_) {
    const Op& op = fusion_->ops[id];
    const auto* join = std::get_if<ConcatenateOp>(&op.kind);
    if (join == nullptr) continue;
    const auto axis = static_cast<size_t>(join->axis);
    int64_t at = 0;
    for (const ValueId operand : op.operands) {
      const bool is_new = hosts_.try_emplace(operand, Host{op.results.front(), axis, at}).second;
      SINTER_CHECK(is_new, "{} would lie in two places", operand);
      at += fusion_->values[operand].shape[axis].constant();
    }
  }
}

Placement WorkGraph::place_of(ValueId value) const {
  // Find the tensor that contains all of them, then place the values back along the chain.
  std::vector<ValueId> inside;
  auto known = placements_.find(value);
  for (auto host = hosts_.find(value); known == placements_.end() && host != hosts_.end();
       host = hosts_.find(value)) {
    inside.push_back(value);
    value = host->second.value;
    known = placements_.find(value);
  }
  Placement place = known != placements_.end() ? known->second : own_place_of(value);
  while (!inside.empty()) {
    value = inside.back();
    inside.pop_back();
    const Host& host = hosts_.at(value);
    if (!host.axis) {
      place.strides = dense_strides(Binding{}.sizes_of(fusion_->values[value].shape));
    } else if (bytes(value) != 0) {  // Values without elements may lie behind the end.
      place.offset += host.at * place.strides[*host.axis] * bytes_of(fusion_->values[value].type);
    }
  }
  return place;
}

/// Placement of a value that lies in no other one, but perhaps in an input's memory.
Placement WorkGraph::own_place_of(ValueId value) const {
  // An input's memory lies in no other value's.
  if (const auto alias = aliases_.find(value); alias != aliases_.end()) value = alias->second;
  if (fusion_->def_as<InputOp>(value) != nullptr)
    return {value, 0, input_strides(*fusion_, Binding{}, value)};
  const auto layout = layouts_.find(value);
  if (layout != layouts_.end() && !layout->second.strides.empty())
    return {value, 0, Binding{}.sizes_of(layout->second.strides)};
  return {value, 0, dense_strides(Binding{}.sizes_of(fusion_->values[value].shape))};
}

bool WorkGraph::is_dense(ValueId value) const {
  const Shape& shape = fusion_->values[value].shape;
  if (is_always_empty(shape)) return true;  // For any strides.
  const Sizes strides = place_of(value).strides;
  const Sizes dense = dense_strides(Binding{}.sizes_of(shape));
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool is_walked = shape[axis].constant() > 1 || shape[axis].is_bound();
    if (is_walked && strides[axis] != dense[axis]) return false;
  }
  return true;
}

OutputLayout WorkGraph::layout_of(ValueId value) const {
  // This is called for every tensor of every group considered, most of which are dense.
  if (const auto* input = fusion_->def_as<InputOp>(value);
      input != nullptr && input->strides.empty())
    return {.alignment = input->alignment};
  if (is_dense_alone_[value] != 0) return {};
  const Placement place = place_of(value);
  OutputLayout out;
  if (const auto* input = fusion_->def_as<InputOp>(place.in)) {
    out.alignment = input->alignment;
  } else if (const auto layout = layouts_.find(place.in); layout != layouts_.end()) {
    out.alignment = layout->second.alignment;
  }
  if (place.offset != 0)
    out.alignment = std::min(out.alignment, place.offset & -place.offset);  // Its lowest bit.
  if (!is_dense(value)) out.strides = {place.strides.begin(), place.strides.end()};
  return out;
}

/// The value with which a reshape that has to be in memory shares its tensor.
std::optional<ValueId> WorkGraph::renames(const Op& op, bool is_passed) const {
  const ValueId result = op.results.front();
  if (!std::holds_alternative<ReshapeOp>(op.kind) || hosts_.contains(result) ||
      aliases_.contains(result))
    return std::nullopt;
  ValueId base = op.operands.front();
  while (std::holds_alternative<ReshapeOp>(fusion_->def_of(base).kind))
    base = fusion_->def_of(base).operands.front();
  const bool is_input = fusion_->def_as<InputOp>(base) != nullptr;
  if ((is_free(base) && !is_input) || !is_dense(base)) return std::nullopt;
  if (!is_output(result)) return is_passed ? std::optional(base) : std::nullopt;
  // The caller's tensor is the one that contains both.
  const bool has_own = is_input || is_output(base) || hosts_.contains(base);
  return has_own || !is_dense(result) ? std::nullopt : std::optional(base);
}

IdMap<ValueId, uint8_t> WorkGraph::find_contracted() const {
  IdMap<ValueId, uint8_t> out(fusion_->values.size());
  for (const OpId id : order_) {
    const Op& op = fusion_->ops[id];
    if (!std::holds_alternative<ContractOp>(op.kind)) continue;
    for (ValueId operand : op.operands) {
      while (is_view(fusion_->def_of(operand).kind)) operand = fusion_->def_of(operand).operands[0];
      if (fusion_->def_as<InputOp>(operand) == nullptr) out[operand] = 1;
    }
  }
  return out;
}

void WorkGraph::find_free(const IsFree& may_be_free) {
  const IdMap<ValueId, uint8_t> is_contracted = find_contracted();
  IdMap<ValueId, uint8_t> is_passed(fusion_->values.size());  // Passed to an external call.
  for (const OpId id : order_) {
    const Op& op = fusion_->ops[id];
    if (!std::holds_alternative<ExternalOp>(op.kind)) continue;
    for (const ValueId operand : op.operands) is_passed[operand] = 1;
  }
  IdMap<ValueId, double> instructions(fusion_->values.size());  // Per element, from the leaves on.
  for (const OpId id : order_) {
    const Op& op = fusion_->ops[id];
    const ValueId result = op.results.front();
    std::vector<ValueId> leaves;
    double issued = issue_slots_of(*fusion_, result);
    for (const ValueId operand : op.operands) {
      if (is_free_[operand] != 0) {
        unite(leaves, free_leaves_[operand]);
        issued += instructions[operand];
      } else {
        unite(leaves, std::span(&operand, 1));
      }
    }
    const bool is_external = std::holds_alternative<ExternalOp>(op.kind);
    if (is_external) {
      leaves.clear();
      for (const ValueId operand : op.operands) {
        const auto renamed = renamed_.find(operand);
        unite(leaves, std::span(renamed == renamed_.end() ? &operand : &renamed->second, 1));
      }
    }
    if (std::holds_alternative<InputOp>(op.kind)) leaves = {result};
    const bool is_free = is_contracted[result] == 0 && may_be_free(id, leaves, issued);
    if (is_free) {
      is_free_[result] = 1;
      instructions[result] = issued;
      free_leaves_[result] = leaves;
    }
    const bool has_no_owner =
        std::holds_alternative<InputOp>(op.kind) || std::holds_alternative<ConcatenateOp>(op.kind);
    const bool is_needed = std::ranges::any_of(op.results, [&](ValueId value) {
      return is_output(value) || is_passed[value] != 0 || hosts_.contains(value);
    });
    if ((is_free && !is_needed) || has_no_owner) continue;
    if (const auto base = is_free ? renames(op, is_passed[result] != 0) : std::nullopt) {
      renamed_[result] = *base;
      if (is_output(result)) {
        hosts_[*base] = {.value = result};
      } else {
        hosts_[result] = {.value = *base};
      }
      continue;
    }
    node_of_[id] = static_cast<NodeId>(nodes_.size());
    nodes_.push_back({.op = id,
                      .is_external = is_external,
                      .instructions = element_instructions(op.kind),
                      .leaves = std::move(leaves),
                      .producers = {},
                      .consumers = {}});
  }
}

void WorkGraph::connect() {
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    for (const ValueId leaf : nodes_[node].leaves) {
      readers_[leaf].push_back(node);
      add_owners(leaf, nodes_[node].producers);
    }
    for (const NodeId producer : nodes_[node].producers) nodes_[producer].consumers.push_back(node);
  }
  for (WorkNode& node : nodes_) {
    std::ranges::sort(node.producers);
    node.producers.erase(std::ranges::unique(node.producers).begin(), node.producers.end());
    node.consumers.erase(std::ranges::unique(node.consumers).begin(), node.consumers.end());
  }
}

/// The nodes that write a value; for a concatenate, those of all its operands.
void WorkGraph::add_owners(ValueId of, std::vector<NodeId>& out) const {
  std::vector<ValueId> open = {of};
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    const Op& op = fusion_->def_of(value);
    if (std::holds_alternative<ConcatenateOp>(op.kind)) {
      open.insert(open.end(), op.operands.rbegin(), op.operands.rend());
    } else if (const NodeId owner = node_of_[fusion_->values[value].def]; owner != kNone) {
      out.push_back(owner);
    } else if (const auto renamed = renamed_.find(value); renamed != renamed_.end()) {
      open.push_back(renamed->second);
    }
  }
}

std::vector<NodeId> WorkGraph::closed(std::span<const NodeId> nodes) const {
  if (nodes.empty()) return {};
  // Node numbers are a topological order: nodes before the first or after the last are not between.
  const NodeId first = std::ranges::min(nodes);
  const NodeId last = std::ranges::max(nodes);
  std::vector<uint8_t> below(last - first + 1);
  std::vector<uint8_t> above(last - first + 1);
  for (const NodeId node : nodes) below[node - first] = above[node - first] = 1;
  for (NodeId node = first; node <= last; ++node) {
    for (const NodeId producer : nodes_[node].producers) {
      if (producer >= first) below[node - first] |= below[producer - first];
    }
  }
  for (NodeId node = last + 1; node-- > first;) {
    for (const NodeId consumer : nodes_[node].consumers) {
      if (consumer <= last) above[node - first] |= above[consumer - first];
    }
  }
  std::vector<NodeId> out;
  for (NodeId node = first; node <= last; ++node) {
    if (below[node - first] != 0 && above[node - first] != 0) out.push_back(node);
  }
  return out;
}

/// Finds the nearest hosts that nodes read. Chains of concatenates may be long; each contains the
/// one before it, which no node reads by itself.
void WorkGraph::find_read_hosts() {
  for (const auto& [value, host] : hosts_) {
    std::vector<ValueId> passed;
    ValueId found = value;
    ValueId nearest;
    for (auto at = hosts_.find(found); at != hosts_.end(); at = hosts_.find(found)) {
      if (const auto known = read_hosts_.find(found); known != read_hosts_.end()) {
        nearest = known->second;
        break;
      }
      passed.push_back(found);
      found = at->second.value;
      if (readers_[found].empty()) continue;
      nearest = found;
      break;
    }
    for (const ValueId inner : passed) read_hosts_[inner] = nearest;
  }
}

std::vector<NodeId> WorkGraph::readers_in_memory(ValueId value) const {
  std::vector<NodeId> out = readers_[value];
  for (auto host = read_hosts_.find(value); host != read_hosts_.end() && host->second.valid();
       host = read_hosts_.find(host->second))
    out.insert(out.end(), readers_[host->second].begin(), readers_[host->second].end());
  return out;
}

/// Numbers concatenates and their operands so that all parts of one, and their parts, have numbers
/// in one range.
void WorkGraph::number_joined() {
  uint32_t next = 0;
  struct Visit {
    ValueId value;
    size_t next = 0;  ///< Next operand to visit.
  };
  std::vector<Visit> stack;
  for (const OpId id : order_) {
    const Op& op = fusion_->ops[id];
    const ValueId result = op.results.front();
    const auto host = hosts_.find(result);
    const bool is_part = host != hosts_.end() && host->second.axis;
    if (!std::holds_alternative<ConcatenateOp>(op.kind) || is_part) continue;
    stack.push_back({result});
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const Op& def = fusion_->def_of(visit.value);
      if (visit.next == 0) joined_[visit.value].begin = next++;
      if (std::holds_alternative<ConcatenateOp>(def.kind) && visit.next < def.operands.size()) {
        stack.push_back({def.operands[visit.next++]});
      } else {
        joined_[visit.value].end = next;
        stack.pop_back();
      }
    }
  }
}

std::optional<ValueId> WorkGraph::reads_unfinished(std::span<const NodeId> group) const {
  if (joined_.empty()) return std::nullopt;
  std::vector<uint32_t> parts;  // Parts of concatenates that nodes of the group write.
  for (const NodeId node : group) {
    for (const ValueId result : fusion_->ops[nodes_[node].op].results) {
      if (const auto found = joined_.find(result); found != joined_.end())
        parts.push_back(found->second.begin);
    }
  }
  if (parts.empty()) return std::nullopt;
  std::ranges::sort(parts);
  for (const NodeId node : group) {
    for (const ValueId leaf : nodes_[node].leaves) {
      if (!std::holds_alternative<ConcatenateOp>(fusion_->def_of(leaf).kind)) continue;
      const Joined& range = joined_.at(leaf);
      const auto part = std::ranges::lower_bound(parts, range.begin);
      if (part != parts.end() && *part < range.end) return leaf;
    }
  }
  return std::nullopt;
}

ValueId WorkGraph::alias_of(ValueId output) const {
  const auto found = aliases_.find(output);
  return found == aliases_.end() ? ValueId{} : found->second;
}

std::optional<ValueId> WorkGraph::reads_overwritten(std::span<const NodeId> group) const {
  const auto is_here = [&](NodeId node) { return std::ranges::binary_search(group, node); };
  for (const auto& [output, input] : aliases_) {
    const NodeId owner = node_of_[fusion_->values[output].def];
    if (owner != kNone) continue;  // One node writes all of it.
    std::vector<NodeId> writers;
    add_owners(output, writers);
    if (std::ranges::any_of(writers, is_here) && std::ranges::any_of(readers_[input], is_here))
      return input;
  }
  return std::nullopt;
}

/// Adds edges from the readers of inputs to the writers of outputs that overwrite them. Nodes on
/// cycles that this closes are bound together, and nodes are renumbered in a topological order.
void WorkGraph::order_overwriting() {
  struct Wait {
    NodeId reader;
    NodeId writer;
    ValueId output;
    ValueId input;
  };
  std::vector<Wait> waits;
  for (const auto& [output, input] : aliases_) {
    std::vector<NodeId> writers;
    add_owners(output, writers);
    for (const NodeId reader : readers_[input]) {
      for (const NodeId writer : writers) {
        if (reader != writer) waits.push_back({reader, writer, output, input});
      }
    }
  }
  if (waits.empty()) return;
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> graph(nodes_.size());
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    for (const NodeId consumer : nodes_[node].consumers) boost::add_edge(node, consumer, graph);
  }
  for (const Wait& wait : waits) boost::add_edge(wait.reader, wait.writer, graph);
  std::vector<NodeId> component(nodes_.size());
  const auto components = static_cast<NodeId>(boost::strong_components(
      graph,
      boost::make_iterator_property_map(component.begin(), get(boost::vertex_index, graph))));
  for (const Wait& wait : waits) {
    if (component[wait.reader] == component[wait.writer]) continue;
    nodes_[wait.reader].consumers.push_back(wait.writer);
    nodes_[wait.writer].producers.push_back(wait.reader);
  }
  std::vector<NodeId> in_component(components);
  for (const NodeId of : component) ++in_component[of];
  std::map<NodeId, size_t> bound_of;
  for (const Wait& wait : waits) {
    if (component[wait.reader] != component[wait.writer]) continue;
    if (!bound_of.try_emplace(component[wait.reader], bound_.size()).second) continue;
    bound_.push_back(
        {.nodes = {}, .output = wait.output, .input = wait.input, .reader = wait.reader});
  }
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    if (const auto found = bound_of.find(component[node]); found != bound_of.end())
      bound_[found->second].nodes.push_back(node);
  }
  // Of the ready nodes the one with the smallest number, so that most keep their place.
  std::vector<size_t> waiting(nodes_.size());
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    std::vector<NodeId>& producers = nodes_[node].producers;
    std::ranges::sort(producers);
    producers.erase(std::ranges::unique(producers).begin(), producers.end());
    std::vector<NodeId>& consumers = nodes_[node].consumers;
    std::ranges::sort(consumers);
    consumers.erase(std::ranges::unique(consumers).begin(), consumers.end());
    waiting[node] = producers.size();
    if (producers.empty()) ready.push(node);
  }
  std::vector<NodeId> number(nodes_.size());
  NodeId next = 0;
  while (!ready.empty()) {
    const NodeId node = ready.top();
    ready.pop();
    number[node] = next++;
    for (const NodeId consumer : nodes_[node].consumers) {
      if (--waiting[consumer] == 0) ready.push(consumer);
    }
  }
  SINTER_CHECK_OP(next, ==, nodes_.size());
  renumber(number);
}

void WorkGraph::renumber(const std::vector<NodeId>& number) {
  const auto renamed = [&](std::vector<NodeId>& list) {
    for (NodeId& node : list) node = number[node];
    std::ranges::sort(list);
  };
  std::vector<WorkNode> nodes(nodes_.size());
  for (NodeId node = 0; node < nodes_.size(); ++node) {
    renamed(nodes_[node].producers);
    renamed(nodes_[node].consumers);
    nodes[number[node]] = std::move(nodes_[node]);
  }
  nodes_ = std::move(nodes);
  for (NodeId node = 0; node < nodes_.size(); ++node) node_of_[nodes_[node].op] = node;
  for (const ValueId value : fusion_->value_ids()) renamed(readers_[value]);
  for (Bound& bound : bound_) {
    renamed(bound.nodes);
    bound.reader = number[bound.reader];
  }
}

bool WorkGraph::leaves_group(ValueId value, std::span<const NodeId> group) const {
  const std::vector<NodeId>& readers = readers_[value];
  const auto is_beyond = [&](NodeId node) { return node < group.front() || node > group.back(); };
  return readers.size() > group.size() ||
         (!readers.empty() && (is_beyond(readers.front()) || is_beyond(readers.back()))) ||
         leaves_group(value, [&](NodeId node) { return std::ranges::binary_search(group, node); });
}

}  // namespace sinter
