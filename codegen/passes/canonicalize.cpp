#include "codegen/passes/canonicalize.h"

#include <utility>

#include "codegen/kernel/expr_interner.h"
#include "codegen/kernel/kernel_traversal.h"

namespace sinter {
namespace {

using kir::Block;
using kir::ExprId;
using kir::StmtId;

class Renumbering {
 public:
  explicit Renumbering(const kir::Kernel& from, kir::Kernel* to)
      : from_(from), to_(to), interner_(&to->exprs) {}

  Block renumber(const Block& block) {
    Block result;
    for (const StmtId id : block) {
      const StmtId renumbered = to_->stmts.push_back({});
      result.push_back(renumbered);
      kir::StmtKind kind = from_.stmts[id].kind;
      kir::replace_exprs(kind, [this](ExprId expr) { return renumber(expr); });
      kir::replace_blocks(kind, [this](const Block& inner) { return renumber(inner); });
      to_->stmts[renumbered].kind = std::move(kind);
    }
    return result;
  }

 private:
  ExprId renumber(ExprId id) {
    if (ids_[id].valid()) return ids_[id];
    kir::Expr expr = from_.exprs[id];
    kir::replace_operands(expr, [this](ExprId operand) { return renumber(operand); });
    ids_[id] = interner_.intern(std::move(expr));
    return ids_[id];
  }

  const kir::Kernel& from_;
  kir::Kernel* to_;
  kir::ExprInterner interner_;
  IdMap<ExprId, ExprId> ids_;
};

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the list of passes has this signature.
kir::Kernel canonicalize(kir::Kernel kernel) {
  kir::Kernel result = kernel;
  result.exprs = {};
  result.stmts = {};
  Renumbering renumbering(kernel, &result);
  result.body = renumbering.renumber(kernel.body);
  return result;
}

}  // namespace sinter
