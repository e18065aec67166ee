#include "scheduler/analysis/tensor_list.h"

#include "scheduler/analysis/cuda_units.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "fusion_ir/operand_walk.h"

namespace sinter {
namespace {

int64_t elements_of(const Fusion& fusion, ValueId value) {
  int64_t elements = 1;
  for (const Extent& extent : fusion.values[value].shape) elements *= extent.constant();
  return elements;
}

/// True if the result repeats no element and keeps the operand's order.
bool keeps_order(const Fusion& fusion, const Op& op) {
  if (std::holds_alternative<ReshapeOp>(op.kind)) return true;
  const auto* broadcast = std::get_if<BroadcastOp>(&op.kind);
  return broadcast != nullptr && std::ranges::is_sorted(broadcast->axes) &&
         elements_of(fusion, op.operands[0]) == elements_of(fusion, op.results[0]);
}

bool is_dense(const Fusion& fusion, ValueId input) {
  const Sizes sizes = Binding{}.sizes_of(fusion.values[input].shape);
  const Sizes strides = input_strides(fusion, Binding{}, input);
  const Sizes dense = dense_strides(sizes);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] > 1 && strides[axis] != dense[axis]) return false;
  }
  return true;
}

/// A union-find over ops.
class Parts {
 public:
  explicit Parts(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), uint32_t{0});
  }
  uint32_t find(uint32_t op) {
    while (parent_[op] != op) op = parent_[op] = parent_[parent_[op]];
    return op;
  }
  void join(uint32_t a, uint32_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<uint32_t> parent_;
};

/// A member's structure without sizes: members with equal codes are equal.
struct Member {
  std::vector<int64_t> code;
  std::vector<ValueId> leaves;  ///< Tensors and scalars that it reads, in the order of the code.
  std::vector<ValueId> outputs;
  int64_t elements = 0;
};

class Finder {
 public:
  explicit Finder(const Fusion& fusion)
      : fusion_(fusion),
        parts_(fusion.ops.size()),
        users_(users_of(fusion)),
        ops_(fusion.ops.size()),
        refused_(fusion.ops.size()) {
    for (size_t i = 0; i < fusion.layouts.size(); ++i) {
      OutputLayout layout = fusion.layouts[i];
      if (layout.alias.valid()) aliases_[fusion.outputs[i]] = layout.alias;
      layout.alias = {};
      if (layout != OutputLayout{}) layouts_.insert(fusion.outputs[i]);
    }
  }

  /// Members in the order of their first outputs. The reason why an output belongs to none is left
  /// in `why`.
  std::vector<Member> run() {
    classify();
    connect();
    check();
    join_readers();
    return collect();
  }

  /// The first reason why some output belongs to no member.
  [[nodiscard]] const std::optional<Rejection>& why() const { return why_; }
  [[nodiscard]] bool is_scalar(ValueId value) const { return is_scalar_[value] != 0; }
  /// True for ops that compute element by element.
  [[nodiscard]] bool is_computed(const Op& op) const {
    return std::holds_alternative<PointwiseOp>(op.kind) ||
           std::holds_alternative<CastOp>(op.kind) || keeps_order(fusion_, op);
  }
  /// True if the value is its operand under another shape, or a repeated scalar.
  [[nodiscard]] bool is_renamed(ValueId value) const {
    const Op& op = fusion_.def_of(value);
    return keeps_order(fusion_, op) ||
           (is_scalar(value) && std::holds_alternative<BroadcastOp>(op.kind));
  }
  /// The input that an output overwrites; invalid if the output has its own memory.
  [[nodiscard]] ValueId alias_of(ValueId output) const {
    const auto found = aliases_.find(output);
    return found == aliases_.end() ? ValueId{} : found->second;
  }
  /// True if anything but members and external calls reads a tensor.
  [[nodiscard]] bool is_read_elsewhere(ValueId tensor) const {
    return std::ranges::any_of(users_[tensor], [&](OpId user) {
      return !is_inner(user) && !std::holds_alternative<ExternalOp>(fusion_.ops[user].kind);
    });
  }

 private:
  /// A value counts as a scalar if it has no axes, if it is one element that is broadcast to more,
  /// or if it is computed from scalars alone. Members may share it, and each may compute it.
  void classify() {
    for (auto i = static_cast<uint32_t>(fusion_.ops.size()); i-- > 0;) {
      const Op& op = fusion_.ops[OpId{i}];
      const ValueId result = op.results.front();
      if (fusion_.values[result].shape.empty()) is_scalar_[result] = 1;
      if (op.operands.size() == 1 && std::holds_alternative<BroadcastOp>(op.kind) &&
          elements_of(fusion_, op.operands[0]) == 1 && elements_of(fusion_, result) != 1)
        is_scalar_[op.operands[0]] = 1;
      if (is_scalar_[result] == 0 || !is_computed(op)) continue;
      // Operands of pointwise ops on scalars have one element too.
      for (const ValueId operand : op.operands) {
        if (elements_of(fusion_, operand) == 1) is_scalar_[operand] = 1;
      }
    }
    for (const OpId id : fusion_.op_ids()) {
      const Op& op = fusion_.ops[id];
      const bool repeats = std::holds_alternative<BroadcastOp>(op.kind);
      if (!is_computed(op) && !repeats) continue;
      if (std::ranges::all_of(op.operands, [&](ValueId operand) { return is_scalar(operand); }))
        is_scalar_[op.results.front()] = 1;
    }
  }

  [[nodiscard]] bool is_inner(OpId id) const {
    const Op& op = fusion_.ops[id];
    return is_computed(op) && !is_scalar(op.results.front());
  }
  [[nodiscard]] OpId def(ValueId value) const { return fusion_.values[value].def; }

  void connect() {
    for (const OpId id : fusion_.op_ids()) {
      if (!is_inner(id)) continue;
      ++ops_[parts_.find(id.index)];
      for (const ValueId operand : fusion_.ops[id].operands) {
        if (!is_scalar(operand) && is_inner(def(operand)))
          parts_.join(id.index, def(operand).index);
      }
    }
    for (const OpId id : fusion_.op_ids()) {
      const uint32_t part = parts_.find(id.index);
      if (is_inner(id) && part != id.index) ops_[part] += ops_[id.index];
    }
  }

  void refuse(uint32_t part, std::string rule, ValueId at, std::string remedy) {
    refused_[part] = 1;
    if (why_) return;
    why_ = Rejection{.subject = "list of tensors",
                     .rule = std::move(rule),
                     .at = at,
                     .remedy = std::move(remedy)};
  }

  /// Rejects parts that read or feed anything that members may not.
  void check() {
    for (const OpId id : fusion_.op_ids()) {
      if (!is_inner(id)) continue;
      const uint32_t part = parts_.find(id.index);
      const Op& op = fusion_.ops[id];
      for (const ValueId operand : op.operands) check_operand(part, operand);
      for (const OpId user : users_[op.results.front()]) {
        if (is_inner(user)) continue;
        refuse(part, "something else reads what a member makes", op.results.front(),
               "end the fusion behind the members");
      }
      for (const ValueId result : op.results) {
        if (layouts_.contains(result))
          refuse(part, "an output declares how it lies in memory", result,
                 "none needed: the member runs alone");
      }
      if (ops_[part] > kMostMemberOps)
        refuse(part, "a member has more ops than its kernel may", op.results.front(),
               "none needed: it runs alone");
    }
  }

  /// True if a value is written into its place in a concatenate's result.
  [[nodiscard]] bool is_joined(ValueId value) const {
    return std::ranges::any_of(users_[value], [&](OpId user) {
      return std::holds_alternative<ConcatenateOp>(fusion_.ops[user].kind);
    });
  }

  void check_operand(uint32_t part, ValueId operand) {
    if (is_scalar(operand) || is_inner(def(operand))) return;
    const OpKind& kind = fusion_.def_of(operand).kind;
    if (std::holds_alternative<InputOp>(kind)) {
      if (!is_dense(fusion_, operand))
        refuse(part, "a tensor is not dense", operand, "pass contiguous tensors");
    } else if (layouts_.contains(operand)) {
      refuse(part, "a tensor declares how it lies in memory", operand,
             "none needed: the member runs alone");
    } else if (is_joined(operand)) {
      refuse(part, "a tensor lies within another one", operand,
             "none needed: the member runs alone");
    } else if (!std::holds_alternative<ExternalOp>(kind)) {
      refuse(part, "a member reads what is neither an input nor computed element by element",
             operand, "make the value an output of its own fusion");
    }
  }

  /// Joins parts that read the same tensor, so that it is read once.
  void join_readers() {
    IdMap<ValueId, uint32_t> reader(fusion_.values.size(), kNone);
    for (const OpId id : fusion_.op_ids()) {
      if (!is_inner(id) || refused_[parts_.find(id.index)] != 0) continue;
      for (const ValueId operand : fusion_.ops[id].operands) {
        if (is_scalar(operand) || is_inner(def(operand))) continue;
        if (reader[operand] == kNone) reader[operand] = id.index;
        const uint32_t a = parts_.find(id.index);
        const uint32_t b = parts_.find(reader[operand]);
        if (a == b) continue;
        const size_t both = ops_[a] + ops_[b];
        parts_.join(a, b);
        ops_[parts_.find(a)] = both;
      }
    }
  }

  std::vector<Member> collect() {
    std::vector<size_t> number(fusion_.ops.size(), 0);  // Number of the part's member plus 1.
    std::vector<Member> out;
    for (const ValueId output : fusion_.outputs) {
      if (is_scalar(output) || !is_inner(def(output))) {
        refuse_output(output);
        continue;
      }
      const uint32_t part = parts_.find(def(output).index);
      if (refused_[part] != 0) continue;
      if (number[part] == 0) {
        out.emplace_back();
        number[part] = out.size();
      }
      out[number[part] - 1].outputs.push_back(output);
    }
    for (Member& member : out) encode(member);
    std::erase_if(out, [](const Member& member) { return member.code.empty(); });
    return out;
  }

  void refuse_output(ValueId output) {
    if (why_) return;
    why_ = Rejection{.subject = "list of tensors",
                     .rule = "an output is a scalar, or not computed element by element",
                     .at = output,
                     .remedy = "give it a fusion of its own"};
  }

  /// True if nothing is computed between a member's input and the value.
  [[nodiscard]] bool is_leaf(ValueId value) const {
    while (is_renamed(value)) value = fusion_.def_of(value).operands[0];
    return !is_inner(def(value));
  }

  /// Encodes a member from its outputs backwards; leaves no code if its tensors differ in size.
  void encode(Member& member) {
    ++member_at_hand_;
    locals_ = 0;
    fits_ = true;
    member.elements = elements_of(fusion_, member.outputs.front());
    std::set<int64_t> stored;
    for (const ValueId output : member.outputs) {
      const int64_t local = visit(output, member);
      member.code.insert(member.code.end(), {kOutput, local});
      // Two names of one value would be stored twice.
      fits_ &= stored.insert(local).second && !is_leaf(output);
    }
    for (const ValueId output : member.outputs) {
      if (aliases_.empty()) break;
      member.code.push_back(alias_number(output, member));
    }
    if (fits_) return;
    member.code.clear();
    if (!why_)
      why_ = Rejection{.subject = "list of tensors",
                       .rule =
                           "a member has tensors of several sizes, an output that is another one "
                           "or an input or overwrites what it does not read, or too many ops",
                       .at = member.outputs.front(),
                       .remedy = "give it a fusion of its own"};
  }

  /// Number of the member's leaf that an output overwrites; -1: none. A member must not overwrite a
  /// tensor that it does not read, because another member may read it.
  int64_t alias_number(ValueId output, const Member& member) {
    const ValueId alias = alias_of(output);
    if (!alias.valid()) return -1;
    const auto leaf = std::ranges::find(member.leaves, alias);
    fits_ &= leaf != member.leaves.end() && !is_scalar(alias);
    return leaf - member.leaves.begin();
  }

  /// Number of a value within the current member.
  int64_t visit(ValueId from, Member& member) {
    size_t depth = 0;
    const auto enter = [&](ValueId value) {
      if (local_[value].member == member_at_hand_) return false;
      if (!is_scalar(value)) fits_ &= elements_of(fusion_, value) == member.elements;
      // Long chains of scalar ops belong to another kernel.
      fits_ &= depth <= kMostMemberOps && locals_ <= static_cast<int64_t>(kMostMemberOps);
      if (!fits_) return false;
      const bool is_leaf_of_member = !is_renamed(value) && !is_computed(fusion_.def_of(value));
      if (is_leaf_of_member) {
        local_[value] = {member_at_hand_, write(value, member)};
      } else {
        ++depth;
      }
      return !is_leaf_of_member;
    };
    const auto leave = [&](ValueId value) {
      --depth;
      if (!fits_) return;
      const int64_t number = is_renamed(value) ? local_[fusion_.def_of(value).operands[0]].number
                                               : write(value, member);
      local_[value] = {member_at_hand_, number};
    };
    walk_operands(fusion_, from, enter, leave);
    return fits_ ? local_[from].number : 0;
  }

  /// Appends a value, whose operands have numbers, to the code of the current member.
  int64_t write(ValueId value, Member& member) {
    const Op& op = fusion_.def_of(value);
    std::vector<int64_t> words = {static_cast<int64_t>(fusion_.values[value].type)};
    if (const auto* constant = std::get_if<ConstantOp>(&op.kind)) {
      words.insert(words.end(),
                   {kConstant, std::bit_cast<int64_t>(constant->real), constant->integer});
    } else if (is_computed(op)) {
      const auto* pointwise = std::get_if<PointwiseOp>(&op.kind);
      words.push_back(pointwise != nullptr ? kFunction : kCast);
      if (pointwise != nullptr) words.push_back(static_cast<int64_t>(pointwise->fn));
      for (const ValueId operand : op.operands) words.push_back(local_[operand].number);
    } else {
      constexpr int64_t kDenseAlignment = 16;  // Alignment of values in the workspace.
      const auto* input = std::get_if<InputOp>(&op.kind);
      words.push_back(is_scalar(value) ? kScalar : kTensor);
      if (!is_scalar(value)) words.push_back(input != nullptr ? input->alignment : kDenseAlignment);
      member.leaves.push_back(value);
    }
    member.code.insert(member.code.end(), words.begin(), words.end());
    return locals_++;
  }

  static constexpr uint32_t kNone = 0xffff'ffffU;
  enum Word : int64_t { kFunction, kCast, kConstant, kScalar, kTensor, kOutput };
  struct Local {
    uint32_t member = 0;  ///< Member that the number belongs to.
    int64_t number = 0;
  };

  const Fusion& fusion_;
  Parts parts_;
  IdMap<ValueId, std::vector<OpId>> users_;
  IdMap<ValueId, uint8_t> is_scalar_;
  std::vector<size_t> ops_;             ///< By part.
  std::vector<uint8_t> refused_;        ///< Likewise.
  std::set<ValueId> layouts_;           ///< Outputs with one of their own.
  std::map<ValueId, ValueId> aliases_;  ///< Inputs by the outputs that take over their memory.
  std::optional<Rejection> why_;
  IdMap<ValueId, Local> local_;
  uint32_t member_at_hand_ = 0;
  int64_t locals_ = 0;  ///< Of the current member.
  bool fits_ = true;
};

/// For each leaf of the code, whether it is a scalar that all members share; other leaves are
/// slots.
std::vector<bool> shared_leaves(const Finder& finder, std::span<const Member> members) {
  const Member& first = members.front();
  std::vector<bool> out(first.leaves.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = finder.is_scalar(first.leaves[i]) &&
             std::ranges::all_of(members, [&](const Member& member) {
               return member.leaves[i] == first.leaves[i];
             });
  }
  return out;
}

/// A member as a graph of its own, whose tensors have one axis.
class MemberGraph {
 public:
  MemberGraph(const Fusion& fusion, const Finder& finder, int64_t elements)
      : fusion_(fusion), finder_(finder), elements_(elements) {}

  Fusion build(const Member& member) {
    for (const ValueId leaf : member.leaves) add_leaf(leaf);
    for (const ValueId output : member.outputs) {
      const ValueId alias = finder_.alias_of(output);
      const ValueId made = as_tensor(use(output));
      OutputLayout layout;
      if (alias.valid())
        layout = {.alignment = alignment_of(made_.at(alias)), .alias = made_.at(alias)};
      out_.add_output(made, layout);
    }
    out_.name = name_of_all(fusion_.name);
    return std::move(out_);
  }

 private:
  /// Name without the number that distinguishes members, so that lists share one kernel text.
  static std::string name_of_all(const std::string& name) {
    return name.substr(0, name.find_last_not_of("0123456789") + 1);
  }

  void add_leaf(ValueId leaf) {
    const auto* input = fusion_.def_as<InputOp>(leaf);
    const bool is_scalar = finder_.is_scalar(leaf);
    InputOp op;
    if (is_scalar) {
      op.alignment = bytes_of(fusion_.values[leaf].type);
    } else if (input != nullptr) {
      op.alignment = input->alignment;
    }
    made_[leaf] = append(op, {}, leaf, is_scalar);
    out_.inputs.push_back(made_[leaf]);
  }

  /// Copies a value, after the values that it is computed from.
  ValueId use(ValueId from) {
    struct Open {
      ValueId value;
      std::vector<ValueId> operands{};  ///< Those made so far.
    };
    std::vector<Open> stack;
    if (!made_.contains(from)) stack.push_back({from});
    while (!stack.empty()) {
      Open& open = stack.back();
      const Op& op = fusion_.def_of(open.value);
      const bool is_renamed = finder_.is_renamed(open.value);
      const bool is_scalar = finder_.is_scalar(open.value);
      if (open.operands.size() < op.operands.size()) {
        const ValueId operand = op.operands[open.operands.size()];
        const auto known = made_.find(operand);
        if (known == made_.end()) {
          stack.push_back({operand});
        } else {
          const ValueId made = known->second;
          open.operands.push_back(is_renamed || is_scalar ? made : as_tensor(made));
        }
        continue;
      }
      made_[open.value] = is_renamed
                              ? open.operands.front()
                              : append(op.kind, std::move(open.operands), open.value, is_scalar);
      stack.pop_back();
    }
    return made_.at(from);
  }

  [[nodiscard]] int64_t alignment_of(ValueId input) const {
    return out_.def_as<InputOp>(input)->alignment;
  }

  /// A scalar, broadcast; a tensor unchanged.
  ValueId as_tensor(ValueId value) {
    if (!out_.values[value].shape.empty()) return value;
    const auto [known, is_new] = repeated_.try_emplace(value);
    if (is_new) {
      known->second = append(BroadcastOp{}, {value}, out_.values[value].type, {}, false);
    }
    return known->second;
  }

  ValueId append(OpKind kind, std::vector<ValueId> operands, ValueId like, bool is_scalar) {
    const Value& info = fusion_.values[like];
    return append(std::move(kind), std::move(operands), info.type, info.name, is_scalar);
  }
  ValueId append(OpKind kind, std::vector<ValueId> operands, DType type, const std::string& name,
                 bool is_scalar) {
    const OpId id = out_.ops.push_back({.kind = std::move(kind), .operands = std::move(operands)});
    const Shape shape = is_scalar ? Shape{} : Shape{elements_};
    const ValueId made = out_.values.push_back(
        {.type = type, .shape = shape, .def = id, .name = is_scalar ? name : name_of_all(name)});
    out_.ops[id].results = {made};
    return made;
  }

  const Fusion& fusion_;
  const Finder& finder_;
  int64_t elements_;
  Fusion out_;
  std::map<ValueId, ValueId> made_;
  std::map<ValueId, ValueId> repeated_;  ///< By scalar of the new graph.
};

int64_t bytes_of_value(const Fusion& fusion, ValueId value) {
  return elements_of(fusion, value) * bytes_of(fusion.values[value].type);
}

ListFound found_list(const Fusion& fusion, const Finder& finder, std::vector<Member> members) {
  const std::vector<bool> shared = shared_leaves(finder, members);
  ListFound out;
  out.shared = std::ranges::count(shared, true);
  // An output written in place uses the input's slot.
  const auto has_own = [&](ValueId output) { return !finder.alias_of(output).valid(); };
  out.slots = static_cast<int64_t>(shared.size()) - out.shared +
              std::ranges::count_if(members.front().outputs, has_own);
  for (Member& member : members) {
    for (const ValueId leaf : member.leaves) {
      if (finder.is_scalar(leaf)) {
        out.scalars.push_back(leaf);
        continue;
      }
      const int64_t bytes = bytes_of_value(fusion, leaf);
      out.bytes_read += bytes;
      if (finder.is_read_elsewhere(leaf)) out.shared_bytes += bytes;
    }
    for (const ValueId output : member.outputs) out.bytes_written += bytes_of_value(fusion, output);
    out.members.push_back({.outputs = std::move(member.outputs),
                           .tensors = std::move(member.leaves),
                           .elements = member.elements});
  }
  std::ranges::sort(out.scalars);
  out.scalars.erase(std::ranges::unique(out.scalars).begin(), out.scalars.end());
  return out;
}

Rejection no_list(std::string rule, double value, double limit, std::string unit) {
  return {.subject = "list of tensors",
          .rule = std::move(rule),
          .value = value,
          .limit = limit,
          .unit = std::move(unit),
          .remedy = "the other families take what is no list"};
}

/// Describes the whole graph for planners: one contiguous range of elements, of which each member
/// has a part.
void describe_all(SegmentFacts& facts, const TensorList& list) {
  const Fusion& fusion = facts.fusion;
  facts.space.columns = list.elements();
  facts.space.dimensions = {{.size = facts.space.columns, .reduced = false}};
  for (const ValueId output : fusion.outputs) {
    facts.space.outputs.push_back({.value = output,
                                   .tensor = output,
                                   .strides = {1},
                                   .element_bytes = bytes_of(fusion.values[output].type),
                                   .alignment = fusion.layout_of(output).alignment});
    facts.space.output_coverage.push_back({.rows = false, .columns = true});
    facts.space.dependence[output] = {.rows = false, .columns = true};
    facts.bytes_written += bytes_of_value(fusion, output);
  }
  for (const ValueId input : fusion.inputs) facts.bytes_read += bytes_of_value(fusion, input);
  facts.widest_tile_bytes = list.member.widest_tile_bytes;
  facts.narrowest_tile_bytes = list.member.narrowest_tile_bytes;
}

}  // namespace

int64_t TensorList::elements() const {
  int64_t out = 0;
  for (const ListMember& one : members) out += one.elements;
  return out;
}

int64_t TensorList::blocks(int64_t elements_per_block) const {
  int64_t out = 0;
  for (const ListMember& one : members)
    out += (one.elements + elements_per_block - 1) / elements_per_block;
  return out;
}

bool TensorList::divides(int64_t vector_width) const {
  return std::ranges::all_of(
      members, [&](const ListMember& one) { return one.elements % vector_width == 0; });
}

int64_t list_capacity(int64_t members) {
  return (members + kListCapacityUnit - 1) / kListCapacityUnit * kListCapacityUnit;
}

int64_t list_search_places(int64_t capacity) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(capacity)));
}

int64_t list_search_steps(int64_t capacity) {
  int64_t steps = 0;
  for (int64_t left = list_search_places(capacity); left > 1; left /= kListSearchParts) ++steps;
  return steps;
}

int64_t list_argument_bytes(int64_t members, int64_t slots, int64_t shared) {
  constexpr int64_t kWide = 8;    // An address, a number of elements or of blocks.
  constexpr int64_t kNarrow = 4;  // A first block; their number is even.
  const int64_t capacity = list_capacity(members);
  return capacity * (slots + 1) * kWide + list_search_places(capacity) * kNarrow +
         (shared + 1) * kWide;
}

int64_t most_list_members(int64_t slots, int64_t shared) {
  int64_t members = 0;
  while (list_argument_bytes(members + kListCapacityUnit, slots, shared) <= kMostArgumentBytes)
    members += kListCapacityUnit;
  return members;
}

std::vector<ListFound> find_lists(const Fusion& fusion) {
  Finder finder(fusion);
  std::map<std::vector<int64_t>, size_t> kinds;
  std::vector<std::vector<Member>> lists;
  for (Member& member : finder.run()) {
    const auto [kind, is_new] = kinds.try_emplace(member.code, lists.size());
    if (is_new) lists.emplace_back();
    lists[kind->second].push_back(std::move(member));
  }
  std::vector<ListFound> out;
  for (std::vector<Member>& members : lists) {
    if (members.size() >= 2) out.push_back(found_list(fusion, finder, std::move(members)));
  }
  return out;
}

tl::expected<SegmentFacts, Rejection> analyse_list(Fusion fusion) {
  Finder finder(fusion);
  const std::vector<Member> members = finder.run();
  if (finder.why()) return tl::make_unexpected(*finder.why());
  const auto count = static_cast<double>(members.size());
  if (members.size() < 2)
    return tl::make_unexpected(no_list("a list has two members at least", count, 2, "members"));
  for (const Member& member : members) {
    if (member.code == members.front().code) continue;
    Rejection rejection = no_list("members differ in more than their sizes", count, 1, "kinds");
    rejection.at = member.outputs.front();
    return tl::make_unexpected(std::move(rejection));
  }
  const auto by_elements = [](const Member& member) { return member.elements; };
  const int64_t most = std::ranges::max_element(members, {}, by_elements)->elements;
  auto member = analyse(MemberGraph(fusion, finder, most).build(members.front()));
  if (!member) return tl::make_unexpected(member.error());

  const std::vector<bool> is_shared = shared_leaves(finder, members);
  auto list = std::make_shared<TensorList>();
  list->member = std::move(*member);
  const Fusion& graph = list->member.fusion;
  for (size_t i = 0; i < is_shared.size(); ++i) {
    if (is_shared[i]) {
      list->shared.push_back({.input = graph.inputs[i], .value = members.front().leaves[i]});
    } else {
      list->slots.push_back(graph.inputs[i]);
    }
  }
  std::vector<bool> has_own(graph.outputs.size(), true);
  for (const InPlace& pair : list->member.in_place) has_own[pair.output] = false;
  for (size_t i = 0; i < has_own.size(); ++i) {
    if (has_own[i]) list->slots.push_back(graph.outputs[i]);
  }
  for (const Member& one : members) {
    ListMember& made = list->members.emplace_back();
    made.elements = one.elements;
    for (size_t i = 0; i < is_shared.size(); ++i) {
      if (!is_shared[i]) made.tensors.push_back(one.leaves[i]);
    }
    for (size_t i = 0; i < has_own.size(); ++i) {
      if (has_own[i]) made.tensors.push_back(one.outputs[i]);
    }
  }
  SegmentFacts facts;
  facts.fusion = std::move(fusion);
  describe_all(facts, *list);
  facts.list = std::move(list);
  return facts;
}

}  // namespace sinter
