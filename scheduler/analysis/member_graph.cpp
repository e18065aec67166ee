#include "scheduler/analysis/member_graph.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sinter {
namespace {

class MemberGraph {
 public:
  MemberGraph(const Fusion& fusion, const MemberFinder& finder, int64_t elements)
      : fusion_(fusion), finder_(finder), elements_(elements) {}

  Fusion build(const EncodedMember& member) {
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
  const MemberFinder& finder_;
  int64_t elements_;
  Fusion out_;
  std::map<ValueId, ValueId> made_;
  std::map<ValueId, ValueId> repeated_;  ///< By scalar of the new graph.
};

}  // namespace

Fusion member_graph(const Fusion& fusion, const MemberFinder& finder, const EncodedMember& member,
                    int64_t elements) {
  return MemberGraph(fusion, finder, elements).build(member);
}

}  // namespace sinter
