#include "scheduler/analysis/in_place.h"

#include <algorithm>
#include <set>
#include <vector>

namespace sinter {
namespace {

constexpr std::string_view kApart = "none needed: what reads the input runs in a kernel before";

/// Values that gathers read at their indices: the operand of the gather, and all values that its
/// elements are computed from, which are read and computed again for the element that is looked up.
std::set<ValueId> gathered_values(const Fusion& fusion) {
  std::set<ValueId> out;
  std::vector<ValueId> pending;
  for (const Op& op : fusion.ops) {
    if (std::holds_alternative<TakeOp>(op.kind)) pending.push_back(op.operands.front());
  }
  while (!pending.empty()) {
    const ValueId value = pending.back();
    pending.pop_back();
    if (!out.insert(value).second) continue;
    const Op& op = fusion.def_of(value);
    if (!is_reduction(op.kind))
      pending.insert(pending.end(), op.operands.begin(), op.operands.end());
  }
  return out;
}

/// Values that are read again after the reductions over all rows: those that later elements are
/// computed from.
std::set<ValueId> values_read_at_the_end(const SegmentFacts& facts) {
  const Fusion& fusion = facts.fusion;
  std::set<ValueId> out;
  std::vector<ValueId> pending;
  const auto add_operands = [&](const Op& op) {
    if (is_reduction(op.kind)) return;
    for (const ValueId operand : op.operands) {
      if (!facts.is_after_rows(operand)) pending.push_back(operand);
    }
  };
  for (const Op& op : fusion.ops) {
    if (facts.is_after_rows(op.results.front())) add_operands(op);
  }
  while (!pending.empty()) {
    const ValueId value = pending.back();
    pending.pop_back();
    if (out.insert(value).second) add_operands(fusion.def_of(value));
  }
  return out;
}

/// True if both accesses address the same elements at the same coordinates, each of them once.
bool is_same_walk(const IterationSpace& space, const TensorAccess& read,
                  const TensorAccess& written) {
  if (read.offset != written.offset) return false;
  for (size_t i = 0; i < space.dimensions.size(); ++i) {
    if (space.dimensions[i].size <= 1) continue;
    if (written.strides[i] == 0 || read.strides[i] != written.strides[i]) return false;
  }
  return true;
}

}  // namespace

tl::expected<std::vector<InPlace>, Rejection> find_in_place(const SegmentFacts& facts) {
  const Fusion& fusion = facts.fusion;
  const std::set<ValueId> gathered = gathered_values(fusion);
  const std::set<ValueId> read_at_the_end = values_read_at_the_end(facts);
  std::vector<InPlace> out;
  for (size_t i = 0; i < fusion.layouts.size(); ++i) {
    const ValueId input = fusion.layouts[i].alias;
    if (!input.valid()) continue;
    const ValueId output = fusion.outputs[i];
    bool is_read = false;
    if (const auto& contraction = facts.space.contraction) {
      for (const TensorAccess* operand : {&contraction->rows, &contraction->columns}) {
        if (operand->tensor != input) continue;
        return tl::make_unexpected(rejected_at(
            "in place", "an operand of a contraction is overwritten while others still read it",
            operand->value, std::string(kApart)));
      }
    }
    for (const TensorAccess& access : facts.space.inputs) {
      if (access.tensor != input) continue;
      is_read = true;
      // All threads of a row or block read a value that is stored once, at any time.
      if (facts.is_after_rows(output) || !facts.is_full(access.value)) {
        return tl::make_unexpected(
            rejected_at("in place", "threads read an element that another one overwrites", output,
                        std::string(kApart)));
      }
      if (read_at_the_end.contains(access.value)) {
        return tl::make_unexpected(
            rejected_at("in place", "an input is read again after all rows, when it is overwritten",
                        access.value, std::string(kApart)));
      }
      if (gathered.contains(access.value) ||
          !is_same_walk(facts.space, access, facts.space.outputs[i])) {
        return tl::make_unexpected(
            rejected_at("in place", "an input is read at other elements than an output overwrites",
                        access.value, std::string(kApart)));
      }
    }
    if (is_read) out.push_back({.output = i, .input = input});
  }
  return out;
}

}  // namespace sinter
