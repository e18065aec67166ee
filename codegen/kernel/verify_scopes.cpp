#include "codegen/kernel/verify_scopes.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "codegen/kernel/kernel_traversal.h"

namespace sinter {

using namespace kir;  // NOLINT(google-build-using-namespace): this file is about nothing else

std::vector<VarId> ScopeVerifier::enter_block() {
  ++depth_;
  return std::exchange(declared_, {});
}

void ScopeVerifier::leave_block(std::vector<VarId> declared_outside) {
  --depth_;
  for (const VarId id : declared_) in_scope_[id] = false;
  declared_ = std::move(declared_outside);
}

void ScopeVerifier::declare_loop_index(VarId id) {
  declare(id);
  is_loop_index_[id] = true;
}

void ScopeVerifier::declare(VarId id) {
  if (ever_declared_[id]) report("{} ({}) is declared a second time", id, var(id).name);
  ever_declared_[id] = true;
  in_scope_[id] = true;
  declared_.push_back(id);
}

void ScopeVerifier::use(VarId id) {
  if (!in_scope_[id]) report("{} ({}) is used outside of its scope", id, var(id).name);
}

void ScopeVerifier::write(VarId id) {
  use(id);
  if (is_loop_index_[id]) report("{} ({}) is the index of a loop", id, var(id).name);
}

void ScopeVerifier::write_scalar(VarId id) {
  write(id);
  if (!var(id).is_scalar()) report("{} ({}) is a tile, not a scalar", id, var(id).name);
}

void ScopeVerifier::check_uses(ExprId id) {
  if (seen_by_[id] == current_.index + 1) return;
  seen_by_[id] = current_.index + 1;
  const Expr& expr = kernel_.exprs[id];
  if (const auto* ref = std::get_if<VarRef>(&expr.kind)) use(ref->var);
  if (const auto* element = std::get_if<ElementRef>(&expr.kind)) {
    check_element(element->tile, element->group, element->lane, 1);
  }
  if (const auto* call = std::get_if<PointwiseExpr>(&expr.kind); call && call->state.valid())
    use(call->state);
  for_each_operand(expr, [this](ExprId operand) { check_uses(operand); });
}

void ScopeVerifier::check_element(VarId tile, ExprId group, ExprId lane, int64_t width) {
  use(tile);
  if (!is_width(width)) width = 1;  // reported with the access
  check_tile_index(tile, "group", group, var(tile).groups, 1);
  const TileIndexRange range = check_tile_index(tile, "lane", lane, var(tile).lanes, width);
  if (range.constant && width > 1 && !range.is_multiple_of(width)) {
    report("lane of {} ({}) is not a multiple of the width {}", tile, var(tile).name, width);
  }
}

TileIndexRange ScopeVerifier::check_tile_index(VarId tile, std::string_view what, ExprId index,
                                               int64_t count, int64_t width) {
  if (type_of(index) != DType::kI32) report("{} of {} is {}, not i32", what, tile, type_of(index));
  const TileIndexRange range = ranges_.of(index);
  if (!range.constant) {
    report("{} of {} ({}) is not constant after unrolling", what, tile, var(tile).name);
    return range;
  }
  if (range.low < 0 || range.high > count - width) {
    // Only a malformed kernel, whose index is no i32, comes near the end of i64.
    const int64_t last =
        std::min(range.high, std::numeric_limits<int64_t>::max() - width) + width - 1;
    report("{} of {} ({}) spans {} to {}, but there are {}", what, tile, var(tile).name, range.low,
           last, count);
  }
  return range;
}

bool ScopeVerifier::is_width(int64_t elements) {
  return elements > 0 && std::has_single_bit(static_cast<uint64_t>(elements)) &&
         elements <= kMostElements;
}

}  // namespace sinter
