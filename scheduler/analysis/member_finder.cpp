#include "scheduler/analysis/member_finder.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>
#include <variant>

#include "fusion_ir/operand_walk.h"
#include "scheduler/analysis/tensor_list.h"

namespace sinter {
namespace {

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

constexpr uint32_t kNone = 0xffff'ffffU;
enum Word : int64_t { kFunction, kCast, kConstant, kScalar, kTensor, kOutput };

}  // namespace

int64_t elements_of(const Fusion& fusion, ValueId value) {
  int64_t elements = 1;
  for (const Extent& extent : fusion.values[value].shape) elements *= extent.constant();
  return elements;
}

OpParts::OpParts(size_t count) : parent_(count) {
  std::iota(parent_.begin(), parent_.end(), uint32_t{0});
}

uint32_t OpParts::find(uint32_t op) {
  while (parent_[op] != op) op = parent_[op] = parent_[parent_[op]];
  return op;
}

void OpParts::join(uint32_t a, uint32_t b) {
  a = find(a);
  b = find(b);
  parent_[std::max(a, b)] = std::min(a, b);
}

MemberFinder::MemberFinder(const Fusion& fusion)
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

std::vector<EncodedMember> MemberFinder::run() {
  classify();
  connect();
  check();
  join_readers();
  return collect();
}

bool MemberFinder::is_computed(const Op& op) const {
  return std::holds_alternative<PointwiseOp>(op.kind) || std::holds_alternative<CastOp>(op.kind) ||
         keeps_order(fusion_, op);
}

bool MemberFinder::is_renamed(ValueId value) const {
  const Op& op = fusion_.def_of(value);
  return keeps_order(fusion_, op) ||
         (is_scalar(value) && std::holds_alternative<BroadcastOp>(op.kind));
}

ValueId MemberFinder::alias_of(ValueId output) const {
  const auto found = aliases_.find(output);
  return found == aliases_.end() ? ValueId{} : found->second;
}

bool MemberFinder::is_read_elsewhere(ValueId tensor) const {
  return std::ranges::any_of(users_[tensor], [&](OpId user) {
    return !is_inner(user) && !std::holds_alternative<ExternalOp>(fusion_.ops[user].kind);
  });
}

void MemberFinder::classify() {
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

bool MemberFinder::is_inner(OpId id) const {
  const Op& op = fusion_.ops[id];
  return is_computed(op) && !is_scalar(op.results.front());
}

void MemberFinder::connect() {
  for (const OpId id : fusion_.op_ids()) {
    if (!is_inner(id)) continue;
    ++ops_[parts_.find(id.index)];
    for (const ValueId operand : fusion_.ops[id].operands) {
      if (!is_scalar(operand) && is_inner(def(operand))) parts_.join(id.index, def(operand).index);
    }
  }
  for (const OpId id : fusion_.op_ids()) {
    const uint32_t part = parts_.find(id.index);
    if (is_inner(id) && part != id.index) ops_[part] += ops_[id.index];
  }
}

void MemberFinder::refuse(uint32_t part, std::string rule, ValueId at, std::string remedy) {
  refused_[part] = 1;
  if (why_) return;
  why_ = Rejection{
      .subject = "list of tensors", .rule = std::move(rule), .at = at, .remedy = std::move(remedy)};
}

void MemberFinder::check() {
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

bool MemberFinder::is_joined(ValueId value) const {
  return std::ranges::any_of(users_[value], [&](OpId user) {
    return std::holds_alternative<ConcatenateOp>(fusion_.ops[user].kind);
  });
}

void MemberFinder::check_operand(uint32_t part, ValueId operand) {
  if (is_scalar(operand) || is_inner(def(operand))) return;
  const OpKind& kind = fusion_.def_of(operand).kind;
  if (std::holds_alternative<InputOp>(kind)) {
    if (!is_dense(fusion_, operand))
      refuse(part, "a tensor is not dense", operand, "pass contiguous tensors");
  } else if (layouts_.contains(operand)) {
    refuse(part, "a tensor declares how it lies in memory", operand,
           "none needed: the member runs alone");
  } else if (is_joined(operand)) {
    refuse(part, "a tensor lies within another one", operand, "none needed: the member runs alone");
  } else if (!std::holds_alternative<ExternalOp>(kind)) {
    refuse(part, "a member reads what is neither an input nor computed element by element", operand,
           "make the value an output of its own fusion");
  }
}

void MemberFinder::join_readers() {
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

std::vector<EncodedMember> MemberFinder::collect() {
  std::vector<size_t> number(fusion_.ops.size(), 0);  // Number of the part's member plus 1.
  std::vector<EncodedMember> out;
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
  for (EncodedMember& member : out) encode(member);
  std::erase_if(out, [](const EncodedMember& member) { return member.code.empty(); });
  return out;
}

void MemberFinder::refuse_output(ValueId output) {
  if (why_) return;
  why_ = Rejection{.subject = "list of tensors",
                   .rule = "an output is a scalar, or not computed element by element",
                   .at = output,
                   .remedy = "give it a fusion of its own"};
}

bool MemberFinder::is_leaf(ValueId value) const {
  while (is_renamed(value)) value = fusion_.def_of(value).operands[0];
  return !is_inner(def(value));
}

void MemberFinder::encode(EncodedMember& member) {
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

int64_t MemberFinder::alias_number(ValueId output, const EncodedMember& member) {
  const ValueId alias = alias_of(output);
  if (!alias.valid()) return -1;
  const auto leaf = std::ranges::find(member.leaves, alias);
  fits_ &= leaf != member.leaves.end() && !is_scalar(alias);
  return leaf - member.leaves.begin();
}

int64_t MemberFinder::visit(ValueId from, EncodedMember& member) {
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
    const int64_t number =
        is_renamed(value) ? local_[fusion_.def_of(value).operands[0]].number : write(value, member);
    local_[value] = {member_at_hand_, number};
  };
  walk_operands(fusion_, from, enter, leave);
  return fits_ ? local_[from].number : 0;
}

int64_t MemberFinder::write(ValueId value, EncodedMember& member) {
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

}  // namespace sinter
