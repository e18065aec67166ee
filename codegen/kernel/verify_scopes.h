#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/kernel/kernel_verifier.h"
#include "codegen/kernel/verify_expressions.h"

namespace sinter {

/// The part of verify_kernel that concerns which variables a statement may name: those declared in
/// its scope, and elements of a tile by constant indices in range. StatementVerifier visits the
/// statements in order and asks. Ids are in range.
class ScopeVerifier {
 protected:
  ScopeVerifier(const kir::Kernel& kernel, std::vector<KernelViolation>* violations)
      : kernel_(kernel), ranges_(kernel), violations_(violations) {}

  /// Appends a violation of the current statement.
  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) {
    violations_->push_back(
        {fmt::format("{}", current_), fmt::format(format, std::forward<Args>(args)...)});
  }

  [[nodiscard]] DType type_of(kir::ExprId expr) const { return kernel_.exprs[expr].type; }
  [[nodiscard]] const kir::Var& var(kir::VarId id) const { return kernel_.vars[id]; }

  /// The variables declared so far in the block around, which leave_block() takes back.
  [[nodiscard]] std::vector<kir::VarId> enter_block();
  void leave_block(std::vector<kir::VarId> declared_outside);
  /// Depth of the current block; the body's is 1.
  [[nodiscard]] int depth() const { return depth_; }
  /// Records an unrolled loop; false if its bounds and step are not constants.
  bool enter_unrolled(const kir::For& loop) { return ranges_.enter(loop); }

  void declare(kir::VarId id);
  void declare_loop_index(kir::VarId id);
  void end_scope(kir::VarId id) { in_scope_[id] = false; }

  void use(kir::VarId id);
  void write(kir::VarId id);
  void write_scalar(kir::VarId id);
  /// Every variable that an expression names, once per statement.
  void check_uses(kir::ExprId id);
  void check_element(kir::VarId tile, kir::ExprId group, kir::ExprId lane, int64_t width);
  /// Checks that `width` consecutive groups or lanes from an index on are among `count`. Returns
  /// the values of the index.
  TileIndexRange check_tile_index(kir::VarId tile, std::string_view what, kir::ExprId index,
                                  int64_t count, int64_t width);

  /// Far above what any access moves; keeps products of widths far from overflow.
  static constexpr int64_t kMostElements = 1024;
  /// Whether an access may move so many elements.
  [[nodiscard]] static bool is_width(int64_t elements);

  const kir::Kernel& kernel_;
  kir::StmtId current_;  ///< The statement that is checked.

 private:
  TileIndexRanges ranges_;
  std::vector<KernelViolation>* violations_;
  int depth_ = 0;
  std::vector<kir::VarId> declared_;  ///< In the current block.
  IdMap<kir::VarId, uint8_t> in_scope_, ever_declared_, is_loop_index_;
  IdMap<kir::ExprId, uint32_t> seen_by_;  ///< 1 + the last statement that checked the expression.
};

}  // namespace sinter
