#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/decision.h"

namespace sinter {

/// Elements of a value of a specialised graph.
int64_t elements_of(const Fusion& fusion, ValueId value);

/// A union-find over ops.
class OpParts {
 public:
  explicit OpParts(size_t count);
  uint32_t find(uint32_t op);
  void join(uint32_t a, uint32_t b);

 private:
  std::vector<uint32_t> parent_;
};

/// A member of a list of tensors and its structure without sizes: members with equal codes are
/// equal.
struct EncodedMember {
  std::vector<int64_t> code;
  std::vector<ValueId> leaves;  ///< Tensors and scalars that it reads, in the order of the code.
  std::vector<ValueId> outputs;
  int64_t elements = 0;
};

/// Finds the members of lists of tensors in a specialised graph: parts of it that compute element
/// by element and share only scalars. Members of equal structure get the same code.
class MemberFinder {
 public:
  explicit MemberFinder(const Fusion& fusion);

  /// Members in the order of their first outputs. The reason why an output belongs to none is left
  /// in `why`.
  std::vector<EncodedMember> run();

  /// The first reason why some output belongs to no member.
  [[nodiscard]] const std::optional<Rejection>& why() const { return why_; }
  [[nodiscard]] bool is_scalar(ValueId value) const { return is_scalar_[value] != 0; }
  /// True for ops that compute element by element.
  [[nodiscard]] bool is_computed(const Op& op) const;
  /// True if the value is its operand under another shape, or a repeated scalar.
  [[nodiscard]] bool is_renamed(ValueId value) const;
  /// The input that an output overwrites; invalid if the output has its own memory.
  [[nodiscard]] ValueId alias_of(ValueId output) const;
  /// True if anything but members and external calls reads a tensor.
  [[nodiscard]] bool is_read_elsewhere(ValueId tensor) const;

 private:
  /// A value counts as a scalar if it has no axes, if it is one element that is broadcast to more,
  /// or if it is computed from scalars alone. Members may share it, and each may compute it.
  void classify();
  [[nodiscard]] bool is_inner(OpId id) const;
  [[nodiscard]] OpId def(ValueId value) const { return fusion_.values[value].def; }
  void connect();
  void refuse(uint32_t part, std::string rule, ValueId at, std::string remedy);
  /// Rejects parts that read or feed anything that members may not.
  void check();
  /// True if a value is written into its place in a concatenate's result.
  [[nodiscard]] bool is_joined(ValueId value) const;
  void check_operand(uint32_t part, ValueId operand);
  /// Joins parts that read the same tensor, so that it is read once.
  void join_readers();
  std::vector<EncodedMember> collect();
  void refuse_output(ValueId output);
  /// True if nothing is computed between a member's input and the value.
  [[nodiscard]] bool is_leaf(ValueId value) const;
  /// Encodes a member from its outputs backwards; leaves no code if its tensors differ in size.
  void encode(EncodedMember& member);
  /// Number of the member's leaf that an output overwrites; -1: none. A member must not overwrite a
  /// tensor that it does not read, because another member may read it.
  int64_t alias_number(ValueId output, const EncodedMember& member);
  /// Number of a value within the current member.
  int64_t visit(ValueId from, EncodedMember& member);
  /// Appends a value, whose operands have numbers, to the code of the current member.
  int64_t write(ValueId value, EncodedMember& member);

  struct Local {
    uint32_t member = 0;  ///< Member that the number belongs to.
    int64_t number = 0;
  };

  const Fusion& fusion_;
  OpParts parts_;
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

}  // namespace sinter
