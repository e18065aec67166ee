#include "codegen/passes/take_fast_paths.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_traversal.h"

namespace sinter {
namespace {

using kir::CallForm;
using kir::ExprId;
using kir::VarId;

bool has_fast_path(const kir::Kernel& kernel, const kir::PointwiseExpr& call) {
  return call.form == CallForm::kGeneral && !call.arguments.empty() &&
         has_fast_path_form(call.fn, kernel.exprs[call.arguments[0]].type);
}

/// The variables that must be restored or renamed to run a loop again from its start.
struct Rerun {
  std::vector<VarId> changed;   ///< Scalars declared outside that it changes; restored.
  std::vector<VarId> declared;  ///< Declared inside; renamed.
  bool fills_tiles = false;     ///< It writes tiles declared outside.
};

class LoopWithLogarithms {
 public:
  explicit LoopWithLogarithms(const kir::Kernel& kernel) : kernel_(kernel) {}

  std::optional<Rerun> find(const kir::For& loop) {
    const auto bound = [&](ExprId id) {
      return std::get<kir::IntegerConstant>(kernel_.exprs[id].kind).value;
    };
    if (!loop.unroll || bound(loop.begin) + bound(loop.step) >= bound(loop.end)) return {};
    visit(loop.body);
    const bool reads_what_it_writes =
        std::ranges::any_of(tiles_written_, [&](VarId tile) { return contains(read_, tile); });
    if (!has_logarithm_ || !can_run_again_ || reads_what_it_writes) return {};
    found_.fills_tiles = !tiles_written_.empty();
    return std::move(found_);
  }

 private:
  static bool contains(const std::vector<VarId>& vars, VarId var) {
    return std::ranges::find(vars, var) != vars.end();
  }

  void visit(const kir::Block& block) {
    for (const kir::StmtId id : block) visit(kernel_.stmts[id].kind);
  }

  void visit(const kir::StmtKind& stmt) {
    kir::for_each_expr(stmt, [&](ExprId expr) { visit(expr); });
    if (const auto* declared = std::get_if<kir::Declare>(&stmt)) {
      found_.declared.push_back(declared->var);
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

  void write(VarId var) {
    if (contains(found_.declared, var)) return;
    std::vector<VarId>& written = kernel_.vars[var].is_scalar() ? found_.changed : tiles_written_;
    if (!contains(written, var)) written.push_back(var);
  }

  void visit(ExprId id) {
    const kir::Expr& expr = kernel_.exprs[id];
    kir::for_each_operand(expr, [&](ExprId operand) { visit(operand); });
    if (const auto* element = std::get_if<kir::ElementRef>(&expr.kind)) {
      read_.push_back(element->tile);
    } else if (const auto* call = std::get_if<kir::PointwiseExpr>(&expr.kind)) {
      has_logarithm_ |= has_fast_path(kernel_, *call);
      // The generator keeps words between calls.
      can_run_again_ &= call->fn != PointwiseFn::kPhiloxUniform;
    }
  }

  const kir::Kernel& kernel_;
  Rerun found_;
  std::vector<VarId> tiles_written_, read_;
  bool has_logarithm_ = false;
  bool can_run_again_ = true;
};

/// Copies a loop with its logarithms in one form. In the second copy the variables that the loop
/// declares get new ids (rename).
class LoopCopy {
 public:
  LoopCopy(kir::KernelBuilder& builder, CallForm form, VarId exact)
      : builder_(builder), form_(form), exact_(exact) {}

  void rename(VarId var) {
    const kir::Var& from = builder_.kernel().vars[var];
    renamed_[var] = builder_.add_var(from.name, from.type, from.groups, from.lanes);
  }

  void append(const kir::For& loop) {
    kir::For copy = loop;
    copy.index = var(loop.index);
    copy.body = block(loop.body);
    builder_.append(std::move(copy));
  }

 private:
  [[nodiscard]] VarId var(VarId id) const {
    const auto found = renamed_.find(id);
    return found == renamed_.end() ? id : found->second;
  }

  kir::Block block(const kir::Block& from) {
    kir::Block out;
    builder_.into(&out, [&] {
      for (const kir::StmtId id : from) {
        // Copied, because the statement table grows during the replacement.
        kir::StmtKind kind = builder_.kernel().stmts[id].kind;
        kir::replace_exprs(kind, [&](ExprId expr) { return copied(expr); });
        kir::replace_blocks(kind, [&](const kir::Block& inner) { return block(inner); });
        if (auto* declared = std::get_if<kir::Declare>(&kind)) declared->var = var(declared->var);
        if (auto* assigned = std::get_if<kir::Assign>(&kind)) assigned->var = var(assigned->var);
        if (auto* set = std::get_if<kir::SetElement>(&kind)) set->tile = var(set->tile);
        builder_.append(std::move(kind));
      }
    });
    return out;
  }

  ExprId copied(ExprId id) {
    const kir::ExprKind kind = builder_.kernel().exprs[id].kind;
    if (const auto* ref = std::get_if<kir::VarRef>(&kind)) return builder_.ref(var(ref->var));
    if (const auto* element = std::get_if<kir::ElementRef>(&kind))
      return builder_.element(var(element->tile), copied(element->group), copied(element->lane));
    const auto* call = std::get_if<kir::PointwiseExpr>(&kind);
    if (call != nullptr && has_fast_path(builder_.kernel(), *call)) {
      const VarId state = form_ == CallForm::kFastPath ? exact_ : VarId{};
      return builder_.call(call->fn, {copied(call->arguments[0])}, form_, state);
    }
    return builder_.with_operands(id, [&](ExprId operand) { return copied(operand); });
  }

  kir::KernelBuilder& builder_;
  CallForm form_;
  VarId exact_;
  std::map<VarId, VarId> renamed_;
};

void append_with_fast_path(kir::KernelBuilder& b, const kir::For& loop, const Rerun& rerun) {
  const VarId exact = b.declare("exact", b.boolean(true));
  std::vector<VarId> before;
  for (const VarId var : rerun.changed) {
    const std::string name = "before_" + b.kernel().vars[var].name;
    before.push_back(b.declare(name, b.ref(var)));
  }
  LoopCopy(b, CallForm::kFastPath, exact).append(loop);
  b.when(b.apply(PointwiseFn::kNot, {b.ref(exact)}), [&] {
    for (size_t i = 0; i < before.size(); ++i) b.assign(rerun.changed[i], b.ref(before[i]));
    LoopCopy again(b, rerun.fills_tiles ? CallForm::kGeneral : CallForm::kCareful, exact);
    again.rename(loop.index);
    for (const VarId var : rerun.declared) again.rename(var);
    again.append(loop);
  });
}

}  // namespace

kir::Kernel take_fast_paths(kir::Kernel kernel) {
  kir::KernelBuilder builder(&kernel);
  kir::replace_statements(builder, [&](kir::StmtId, const kir::StmtKind& kind) {
    const auto* loop = std::get_if<kir::For>(&kind);
    if (loop == nullptr) return false;
    const std::optional<Rerun> rerun = LoopWithLogarithms(builder.kernel()).find(*loop);
    if (rerun) append_with_fast_path(builder, *loop, *rerun);
    return rerun.has_value();
  });
  return kernel;
}

}  // namespace sinter
