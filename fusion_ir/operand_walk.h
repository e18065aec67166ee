#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Walks from a value to what it is computed from, with a stack of its own, so that a chain of
/// operands may be as long as memory allows. `enter(value)` is asked each time that the walk meets
/// a value: false ends the walk there, as for what is an input or known already. What was entered
/// is passed to `leave(value)` after all of its operands, taken in their order.
///
/// `operands_of(value)` gives the operands that the walk goes through, where these are not all:
/// a vector, or a span of what outlives the walk.
template <class Operands, class Enter, class Leave>
void walk_operands(ValueId from, const Operands& operands_of, const Enter& enter,
                   const Leave& leave) {
  struct Visit {
    ValueId value;
    decltype(operands_of(from)) operands;
    size_t next = 0;  ///< Operand to go on with.
  };
  std::vector<Visit> stack;
  if (enter(from)) stack.push_back({from, operands_of(from)});
  while (!stack.empty()) {
    Visit& visit = stack.back();
    if (visit.next < visit.operands.size()) {
      const ValueId operand = visit.operands[visit.next++];
      if (enter(operand)) stack.push_back({operand, operands_of(operand)});
    } else {
      const ValueId value = visit.value;
      stack.pop_back();
      leave(value);
    }
  }
}
template <class Enter, class Leave>
void walk_operands(const Fusion& fusion, ValueId from, const Enter& enter, const Leave& leave) {
  const auto all = [&](ValueId value) {
    return std::span<const ValueId>(fusion.def_of(value).operands);
  };
  walk_operands(from, all, enter, leave);
}

/// The same where nothing is done behind the operands.
template <class Enter>
void walk_operands(const Fusion& fusion, ValueId from, const Enter& enter) {
  constexpr size_t kOpenAtFirst = 16;  // Most walks have fewer open, and allocate once.
  std::vector<ValueId> open;
  const auto visit = [&](ValueId value) {
    if (!enter(value)) return;
    const std::vector<ValueId>& operands = fusion.def_of(value).operands;
    if (open.capacity() == 0) open.reserve(std::max(kOpenAtFirst, operands.size()));
    open.insert(open.end(), operands.rbegin(), operands.rend());
  };
  visit(from);
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    visit(value);
  }
}

}  // namespace sinter
