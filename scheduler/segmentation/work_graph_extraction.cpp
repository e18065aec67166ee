// WorkGraph's functions that walk the ops of a group: extract() and structure_of().

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory_resource>
#include <unordered_map>

#include "fusion_ir/match.h"
#include "fusion_ir/op_hash.h"
#include "fusion_ir/operand_walk.h"
#include "scheduler/segmentation/work_graph.h"

namespace sinter {
namespace {

uint64_t hash_of_shape(const Shape& shape) {
  uint64_t hash = shape.size();
  for (const Extent& extent : shape) {
    const std::array words = {hash, static_cast<uint64_t>(extent.constant()),
                              uint64_t{extent.is_bound()}};
    hash = XXH3_64bits(words.data(), sizeof words);
  }
  return hash;
}

/// Makes a group's graph.
class GraphSink {
 public:
  /// Maps its values to those of `source` too, unless `in_plan` is null.
  GraphSink(const Fusion& source, size_t nodes, std::map<ValueId, ValueId>* in_plan)
      : source_(source), in_plan_(in_plan) {
    // Most nodes have one result, and most groups read fewer tensors than half of their nodes.
    const size_t most = nodes + nodes / 2 + 4;
    out_.ops.reserve(most);
    out_.values.reserve(most);
  }

  /// This and similar functions return the first of the new values; the others follow it.
  ValueId copy_op(OpId id, std::span<const ValueId> operands) {
    const Op& op = source_.ops[id];
    const ValueId first = append(op.kind, {operands.begin(), operands.end()}, op.results);
    keep(first, op.results);
    return first;
  }
  /// A copy of `operand` in place of an op.
  ValueId copy_elements(OpId id, ValueId operand) {
    const Op& op = source_.ops[id];
    const size_t rank = source_.values[op.results.front()].shape.size();
    const ValueId first = append(BroadcastOp{all_axes(rank)}, {operand}, op.results);
    keep(first, op.results);
    return first;
  }
  /// An input that holds `leaf` in the shape of `like`.
  ValueId read(ValueId leaf, ValueId like, OutputLayout layout) {
    const ValueId made =
        append(InputOp{.strides = std::move(layout.strides), .alignment = layout.alignment}, {},
               {&like, 1});
    out_.inputs.push_back(made);
    keep(made, {&leaf, 1});
    return made;
  }
  void output(ValueId result, ValueId made, const OutputLayout& layout) {
    if (out_.outputs.empty()) {
      const std::string& name = source_.values[result].name;
      out_.name = fmt::format("{}_{}", source_.name,
                              name.empty() ? fmt::format("v{}", result.index) : name);
    }
    out_.add_output(made, layout);
  }

  Fusion finish() { return std::move(out_); }

 private:
  ValueId append(OpKind kind, std::vector<ValueId> operands, std::span<const ValueId> like) {
    const OpId id = out_.ops.push_back({.kind = std::move(kind), .operands = std::move(operands)});
    std::vector<ValueId> made;
    for (const ValueId value : like) {
      const Value& info = source_.values[value];
      made.push_back(out_.values.push_back({.type = info.type,
                                            .shape = info.shape,
                                            .def = id,
                                            .result = static_cast<uint32_t>(made.size()),
                                            .name = info.name}));
    }
    const ValueId first = made.front();
    out_.ops[id].results = std::move(made);
    return first;
  }
  void keep(ValueId made, std::span<const ValueId> values) {
    if (in_plan_ == nullptr) return;
    for (const ValueId value : values) {
      in_plan_->emplace_hint(in_plan_->end(), made, value);
      ++made.index;
    }
  }

  const Fusion& source_;
  std::map<ValueId, ValueId>* in_plan_;
  Fusion out_;
};

/// Hashes a group's graph without making it.
class HashSink {
 public:
  HashSink(const IdMap<OpId, uint64_t>& hashes, const Fusion& source, size_t nodes)
      : hashes_(hashes), source_(source) {
    constexpr size_t kWordsOfNode = 16;  // Of most nodes, with the inputs and outputs beside them.
    words_.reserve(kWordsOfNode * nodes);
  }

  ValueId copy_op(OpId id, std::span<const ValueId> operands) {
    add(kOp, hashes_[id]);
    words_.push_back(operands.size());
    for (const ValueId operand : operands) words_.push_back(operand.index);
    return numbered(source_.ops[id].results.size());
  }
  ValueId copy_elements(OpId id, ValueId operand) {
    add(kCopy, hashes_[id]);
    words_.push_back(operand.index);
    return numbered(1);
  }
  ValueId read(ValueId, ValueId like, const OutputLayout& layout) {
    const Value& value = source_.values[like];
    add(kInput, static_cast<uint64_t>(value.type));
    add(layout);
    words_.push_back(hash_of_shape(value.shape));
    return numbered(1);
  }
  void output(ValueId, ValueId made, const OutputLayout& layout) {
    add(kOutput, made.index);
    add(layout);
    words_.push_back(layout.alias.index);
  }
  [[nodiscard]] uint64_t finish() const {
    return XXH3_64bits(words_.data(), words_.size() * sizeof(uint64_t));
  }

 private:
  enum Word : uint8_t { kOp, kCopy, kInput, kOutput };
  void add(Word what, uint64_t of) {
    words_.push_back(what);
    words_.push_back(of);
  }
  void add(const OutputLayout& layout) {
    words_.push_back(static_cast<uint64_t>(layout.alignment));
    words_.push_back(layout.strides.size());
    for (const Extent& stride : layout.strides)
      words_.push_back(static_cast<uint64_t>(stride.constant()));
  }
  ValueId numbered(size_t count) {
    const ValueId first{next_};
    next_ += static_cast<uint32_t>(count);
    return first;
  }

  const IdMap<OpId, uint64_t>& hashes_;
  const Fusion& source_;
  std::vector<uint64_t> words_;
  uint32_t next_ = 0;
};

/// Walks a group: passes copies of its ops, and of the free ops they are computed from, to a sink,
/// which numbers their results anew.
template <class Sink>
class Extraction {
 public:
  Extraction(const WorkGraph& graph, std::span<const NodeId> group, WorkGraph::LeafViews views,
             Sink sink)
      : graph_(graph), group_(group), views_(views), sink_(std::move(sink)) {}

  auto run() {
    owned_.reserve(group_.size());
    for (const NodeId node : group_) own(graph_.nodes()[node].op);
    for (size_t i = 0; i < group_.size(); ++i) {
      ValueId made = owned_[i];
      for (const ValueId result : source().ops[graph_.nodes()[group_[i]].op].results) {
        if (graph_.leaves_group(result, group_)) {
          OutputLayout layout = graph_.layout_of(result);
          layout.alias = input_of(graph_.alias_of(result));
          sink_.output(result, made, layout);
        }
        ++made.index;
      }
    }
    return sink_.finish();
  }

 private:
  [[nodiscard]] const Fusion& source() const { return graph_.fusion(); }
  [[nodiscard]] bool reads_input(ValueId value) const {
    return std::holds_alternative<InputOp>(source().def_of(value).kind);
  }

  void own(OpId id) {
    const Op& op = source().ops[id];
    ValueId made;
    if (const auto leaf = dense_leaf(op.results.front())) {
      // The elements are in the same order: a copy, regardless of their shape.
      made = sink_.copy_elements(id, read(*leaf, op.results.front()));
    } else {
      operands_.clear();
      for (const ValueId operand : op.operands) operands_.push_back(use(operand));
      made = sink_.copy_op(id, operands_);
    }
    owned_.push_back(made);
  }

  /// The copy of a value that a node of the group owns; invalid if none does, or only a later one.
  [[nodiscard]] ValueId copy_of_owned(ValueId value) const {
    const NodeId owner = graph_.maker_of(value);
    if (owner == WorkGraph::kNone || owner < group_.front() || owner > group_.back()) return {};
    const auto node = std::ranges::lower_bound(group_, owner);
    const auto place = static_cast<size_t>(node - group_.begin());
    if (*node != owner || place >= owned_.size()) return {};
    return ValueId{owned_[place].index + source().values[value].result};
  }
  [[nodiscard]] bool is_owned(ValueId value) const { return copy_of_owned(value).valid(); }

  /// The input that holds a leaf; invalid if the group does not read it.
  [[nodiscard]] ValueId input_of(ValueId leaf) const {
    if (!leaf.valid()) return {};
    const auto found = std::ranges::find(inputs_, leaf, &std::pair<ValueId, ValueId>::first);
    return found == inputs_.end() ? ValueId{} : found->second;
  }

  /// The value as an operand: computed in the group, recomputed, or read.
  ValueId use(ValueId value) {
    if (const ValueId owned = copy_of_owned(value); owned.valid()) return owned;
    walk_operands(
        source(), value, [&](ValueId needed) { return !is_there(needed); },
        [&](ValueId needed) { compute_again(needed); });
    return made_of(value);
  }

  [[nodiscard]] ValueId made_of(ValueId value) const {
    const auto copy = copies_.find(value);
    const ValueId made = copy != copies_.end() ? copy->second : copy_of_owned(value);
    SINTER_CHECK(made.valid(), "{} is used before it is made", value);
    return made;
  }

  /// True if a value is known or is read from memory; in the latter case it is known from now on.
  bool is_there(ValueId value) {
    if (is_owned(value) || copies_.contains(value)) return true;
    const bool is_input = reads_input(value);
    const auto leaf = graph_.is_free(value) && !is_input ? dense_leaf(value) : value;
    if (leaf) copies_[value] = read(*leaf, value);
    return leaf.has_value();
  }

  void compute_again(ValueId value) {
    const OpId id = source().values[value].def;
    again_.clear();
    for (const ValueId operand : source().ops[id].operands) again_.push_back(made_of(operand));
    copies_[value] = sink_.copy_op(id, again_);
  }

  /// The dense tensor in memory whose elements `value`, made by reshapes, has in the same order.
  [[nodiscard]] std::optional<ValueId> dense_leaf(ValueId value) const {
    if (views_ == WorkGraph::LeafViews::kOps) return std::nullopt;
    if (!std::holds_alternative<ReshapeOp>(source().def_of(value).kind)) return std::nullopt;
    while (std::holds_alternative<ReshapeOp>(source().def_of(value).kind) && !is_owned(value))
      value = source().def_of(value).operands.front();
    if (is_owned(value)) return std::nullopt;
    const bool is_input = reads_input(value);
    if ((graph_.is_free(value) && !is_input) || !graph_.layout_of(value).strides.empty())
      return std::nullopt;
    return value;
  }

  ValueId read(ValueId leaf, ValueId like) {
    const ValueId made = sink_.read(leaf, like, graph_.layout_of(leaf));
    inputs_.emplace_back(leaf, made);
    return made;
  }

  const WorkGraph& graph_;
  std::span<const NodeId> group_;
  WorkGraph::LeafViews views_;
  Sink sink_;
  std::vector<std::pair<ValueId, ValueId>> inputs_;  ///< Leaves, and the inputs that hold them.
  // Thousands of groups are extracted: nodes of the map are allocated from one piece of memory.
  std::array<std::byte, 4096> first_memory_;
  std::pmr::monotonic_buffer_resource memory_{first_memory_.data(), first_memory_.size()};
  std::pmr::unordered_map<ValueId, ValueId> copies_{&memory_};  ///< Free values and leaves.
  std::vector<ValueId> owned_;     ///< Copy of the first result of each of the group's nodes.
  std::vector<ValueId> operands_;  ///< Of the current op.
  std::vector<ValueId> again_;     ///< Of an op that is recomputed.
};

}  // namespace

Subgraph WorkGraph::extract(std::span<const NodeId> group, LeafViews views) const {
  Subgraph out;
  out.fusion =
      Extraction(*this, group, views, GraphSink(*fusion_, group.size(), &out.in_plan)).run();
  return out;
}

Fusion WorkGraph::extract_graph(std::span<const NodeId> group, LeafViews views) const {
  return Extraction(*this, group, views, GraphSink(*fusion_, group.size(), nullptr)).run();
}

uint64_t WorkGraph::structure_of(std::span<const NodeId> group) const {
  return Extraction(*this, group, LeafViews::kOps, HashSink(op_hashes_, *fusion_, group.size()))
      .run();
}

void WorkGraph::hash_ops() {
  for (const OpId id : order_) {
    const Op& op = fusion_->ops[id];
    const bool is_constant = std::holds_alternative<ConstantOp>(op.kind);
    uint64_t hash = hash_of(is_constant ? OpKind(ConstantOp{}) : op.kind);
    for (const ValueId result : op.results) {
      const Value& value = fusion_->values[result];
      const std::array words = {hash, static_cast<uint64_t>(value.type),
                                hash_of_shape(value.shape)};
      hash = XXH3_64bits(words.data(), sizeof words);
    }
    op_hashes_[id] = hash;
  }
}

}  // namespace sinter
