#include "codegen/passes/canonicalize.h"

#include <utility>

#include "codegen/kernel/expr_interner.h"
#include "codegen/kernel/kernel_traversal.h"
#include "fusion_ir/result.h"

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
      kir::for_each_expr(kind, [this](ExprId expr) { renumber(expr); });
      std::visit(overloaded{
                     [](kir::Comment&) {},
                     [this](kir::Declare& s) {
                       if (s.init.valid()) s.init = ids_[s.init];
                     },
                     [this](kir::Assign& s) { s.value = ids_[s.value]; },
                     [this](kir::SetElement& s) {
                       s.group = ids_[s.group];
                       s.lane = ids_[s.lane];
                       s.value = ids_[s.value];
                     },
                     [this](kir::For& s) {
                       s.begin = ids_[s.begin];
                       s.end = ids_[s.end];
                       s.step = ids_[s.step];
                       s.body = renumber(s.body);
                     },
                     [this](kir::If& s) {
                       s.condition = ids_[s.condition];
                       s.then_body = renumber(s.then_body);
                       s.else_body = renumber(s.else_body);
                     },
                     [this](kir::Load& s) {
                       s.group = ids_[s.group];
                       s.lane = ids_[s.lane];
                       if (s.tensor.valid()) s.tensor = ids_[s.tensor];
                       s.index = ids_[s.index];
                     },
                     [this](kir::Store& s) {
                       if (s.tensor.valid()) s.tensor = ids_[s.tensor];
                       s.index = ids_[s.index];
                       s.group = ids_[s.group];
                       s.lane = ids_[s.lane];
                     },
                     [this](kir::AsyncCopy& s) {
                       s.shared_index = ids_[s.shared_index];
                       s.global_index = ids_[s.global_index];
                     },
                     [](kir::AsyncWait&) {},
                     [](kir::InitMbarriers&) {},
                     [this](kir::ExpectBytes& s) {
                       s.index = ids_[s.index];
                       s.bytes = ids_[s.bytes];
                     },
                     [this](kir::BulkCopy& s) {
                       s.shared_index = ids_[s.shared_index];
                       s.global_index = ids_[s.global_index];
                       s.elements = ids_[s.elements];
                       s.index = ids_[s.index];
                     },
                     [this](kir::MbarrierArrive& s) { s.index = ids_[s.index]; },
                     [this](kir::ClusterStore& s) {
                       s.index = ids_[s.index];
                       s.block = ids_[s.block];
                       s.mbarrier = ids_[s.mbarrier];
                     },
                     [this](kir::MbarrierWait& s) {
                       s.index = ids_[s.index];
                       s.parity = ids_[s.parity];
                     },
                     [](kir::ClusterBarrier&) {},
                     [](kir::ClusterArrive&) {},
                     [](kir::ClusterWait&) {},
                     [](kir::Barrier&) {},
                     [this](kir::GroupBarrier& s) { s.id = ids_[s.id]; },
                     [](kir::SetMaxRegisters&) {},
                     [](kir::LaunchDependents&) {},
                     [](kir::WarpBarrier&) {},
                     [](kir::WaitForPrevious&) {},
                     [](kir::DeviceFence&) {},
                     [this](kir::AtomicCount& s) {
                       s.index = ids_[s.index];
                       s.last = ids_[s.last];
                     },
                     [this](kir::ShuffleXor& s) { s.source = ids_[s.source]; },
                     [this](kir::AllReduce& s) {
                       for (ExprId* expr : {&s.phase, &s.barrier, &s.group, &s.parity}) {
                         if (expr->valid()) *expr = ids_[*expr];
                       }
                     },
                 },
                 kind);
      to_->stmts[renumbered].kind = std::move(kind);
    }
    return result;
  }

 private:
  void renumber(ExprId id) {
    if (ids_[id].valid()) return;
    kir::Expr expr = from_.exprs[id];
    kir::for_each_operand(expr, [this](ExprId operand) { renumber(operand); });
    if (auto* element = std::get_if<kir::ElementRef>(&expr.kind)) {
      element->group = ids_[element->group];
      element->lane = ids_[element->lane];
    } else if (auto* pointwise = std::get_if<kir::PointwiseExpr>(&expr.kind)) {
      for (ExprId& argument : pointwise->arguments) argument = ids_[argument];
    } else if (auto* cast = std::get_if<kir::CastExpr>(&expr.kind)) {
      cast->argument = ids_[cast->argument];
    }
    ids_[id] = interner_.intern(std::move(expr));
  }

  const kir::Kernel& from_;
  kir::Kernel* to_;
  kir::ExprInterner interner_;
  IdMap<ExprId, ExprId> ids_;
};

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the list of passes asks for it.
kir::Kernel canonicalize(kir::Kernel kernel) {
  kir::Kernel result = kernel;
  result.exprs = {};
  result.stmts = {};
  Renumbering renumbering(kernel, &result);
  result.body = renumbering.renumber(kernel.body);
  return result;
}

}  // namespace sinter
