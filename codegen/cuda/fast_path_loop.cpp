#include "codegen/cuda/fast_path_loop.h"

#include <algorithm>
#include <utility>

#include "codegen/kernel/kernel_traversal.h"

namespace sinter {
namespace {

using kir::ExprId;

class FastPathLoopFinder {
 public:
  explicit FastPathLoopFinder(const kir::Kernel& kernel) : kernel_(kernel) {}

  std::optional<FastPathLoop> find(const kir::For& loop) {
    const auto bound = [&](ExprId id) {
      return std::get<kir::IntegerConstant>(kernel_.exprs[id].kind).value;
    };
    if (!loop.unroll || bound(loop.begin) + bound(loop.step) >= bound(loop.end)) return {};
    visit(loop.body);
    const bool reads_what_it_writes =
        std::ranges::any_of(tiles_written_, [&](kir::VarId tile) { return contains(read_, tile); });
    if (!has_logarithm_ || !can_run_again_ || reads_what_it_writes) return {};
    found_.fills_tiles = !tiles_written_.empty();
    return std::move(found_);
  }

 private:
  static bool contains(const std::vector<kir::VarId>& vars, kir::VarId var) {
    return std::ranges::find(vars, var) != vars.end();
  }

  void visit(const kir::Block& block) {
    for (const kir::StmtId id : block) visit(kernel_.stmts[id].kind);
  }

  void visit(const kir::StmtKind& stmt) {
    kir::for_each_expr(stmt, [&](ExprId expr) { visit(expr); });
    if (const auto* declared = std::get_if<kir::Declare>(&stmt)) {
      declared_.push_back(declared->var);
    } else if (const auto* assigned = std::get_if<kir::Assign>(&stmt)) {
      write(assigned->var);
    } else if (const auto* set = std::get_if<kir::SetElement>(&stmt)) {
      write(set->tile);
    } else if (const auto* branch = std::get_if<kir::If>(&stmt)) {
      visit(branch->then_body);
      visit(branch->else_body);
    } else if (!std::holds_alternative<kir::Comment>(stmt)) {
      can_run_again_ = false;
    }
  }

  void write(kir::VarId var) {
    if (contains(declared_, var)) return;
    std::vector<kir::VarId>& written =
        kernel_.vars[var].is_scalar() ? found_.changed : tiles_written_;
    if (!contains(written, var)) written.push_back(var);
  }

  void visit(ExprId id) {
    const kir::Expr& expr = kernel_.exprs[id];
    kir::for_each_operand(expr, [&](ExprId operand) { visit(operand); });
    if (const auto* element = std::get_if<kir::ElementRef>(&expr.kind)) {
      read_.push_back(element->tile);
    } else if (const auto* call = std::get_if<kir::PointwiseExpr>(&expr.kind)) {
      has_logarithm_ |= has_fast_path_form(kernel_, *call);
      // Its generator keeps numbers between calls.
      can_run_again_ &= call->fn != PointwiseFn::kPhiloxUniform;
    }
  }

  const kir::Kernel& kernel_;
  FastPathLoop found_;
  std::vector<kir::VarId> declared_, tiles_written_, read_;
  bool has_logarithm_ = false;
  bool can_run_again_ = true;
};

}  // namespace

bool has_fast_path_form(const kir::Kernel& kernel, const kir::PointwiseExpr& call) {
  return !call.arguments.empty() &&
         has_fast_path_form(call.fn, kernel.exprs[call.arguments[0]].type);
}

std::optional<FastPathLoop> find_fast_path_loop(const kir::Kernel& kernel, const kir::For& loop) {
  return FastPathLoopFinder(kernel).find(loop);
}

}  // namespace sinter
