#include "codegen/kernel/kernel_traversal.h"

#include <utility>

#include "fusion_ir/result.h"

namespace sinter::kir {
namespace {

using Replace = std::function<bool(StmtId, const StmtKind&)>;

Block rebuild(KernelBuilder& builder, const Block& block, const Replace& replace) {
  Block result;
  builder.into(&result, [&] {
    for (const StmtId id : block) {
      // The table may grow meanwhile, so nothing may point into it.
      StmtKind kind = builder.kernel().stmts[id].kind;
      if (replace(id, kind)) continue;
      if (auto* loop = std::get_if<For>(&kind)) {
        loop->body = rebuild(builder, loop->body, replace);
      } else if (auto* branch = std::get_if<If>(&kind)) {
        branch->then_body = rebuild(builder, branch->then_body, replace);
        branch->else_body = rebuild(builder, branch->else_body, replace);
      }
      builder.kernel().stmts[id].kind = std::move(kind);
      result.push_back(id);
    }
  });
  return result;
}

}  // namespace

void for_each_operand(const Expr& expr, const std::function<void(ExprId)>& visit) {
  std::visit(overloaded{
                 [](const IntegerConstant&) {},
                 [](const FloatConstant&) {},
                 [](const VarRef&) {},
                 [&](const ElementRef& x) {
                   visit(x.group);
                   visit(x.lane);
                 },
                 [](const SpecialRef&) {},
                 [](const ParamRef&) {},
                 [&](const PointwiseExpr& x) {
                   for (const ExprId argument : x.arguments) visit(argument);
                 },
                 [&](const CastExpr& x) { visit(x.argument); },
             },
             expr.kind);
}

void for_each_expr(const StmtKind& stmt, const std::function<void(ExprId)>& visit) {
  std::visit(overloaded{
                 [](const Comment&) {},
                 [&](const Declare& s) {
                   if (s.init.valid()) visit(s.init);
                 },
                 [&](const Assign& s) { visit(s.value); },
                 [&](const SetElement& s) {
                   visit(s.group);
                   visit(s.lane);
                   visit(s.value);
                 },
                 [&](const For& s) {
                   visit(s.begin);
                   visit(s.end);
                   visit(s.step);
                 },
                 [&](const If& s) { visit(s.condition); },
                 [&](const Load& s) {
                   visit(s.group);
                   visit(s.lane);
                   if (s.tensor.valid()) visit(s.tensor);
                   visit(s.index);
                 },
                 [&](const Store& s) {
                   if (s.tensor.valid()) visit(s.tensor);
                   visit(s.index);
                   visit(s.group);
                   visit(s.lane);
                 },
                 [&](const AsyncCopy& s) {
                   visit(s.shared_index);
                   visit(s.global_index);
                 },
                 [](const AsyncWait&) {},
                 [](const InitMbarriers&) {},
                 [&](const ExpectBytes& s) {
                   visit(s.index);
                   visit(s.bytes);
                 },
                 [&](const BulkCopy& s) {
                   visit(s.shared_index);
                   visit(s.global_index);
                   visit(s.elements);
                   visit(s.index);
                 },
                 [&](const MbarrierArrive& s) { visit(s.index); },
                 [&](const ClusterStore& s) {
                   visit(s.index);
                   visit(s.block);
                   visit(s.mbarrier);
                 },
                 [&](const MbarrierWait& s) {
                   visit(s.index);
                   visit(s.parity);
                 },
                 [](const ClusterBarrier&) {},
                 [](const ClusterArrive&) {},
                 [](const ClusterWait&) {},
                 [](const Barrier&) {},
                 [&](const GroupBarrier& s) { visit(s.id); },
                 [](const SetMaxRegisters&) {},
                 [](const LaunchDependents&) {},
                 [](const WarpBarrier&) {},
                 [](const WaitForPrevious&) {},
                 [](const DeviceFence&) {},
                 [&](const AtomicCount& s) {
                   visit(s.index);
                   visit(s.last);
                 },
                 [&](const ShuffleXor& s) { visit(s.source); },
                 [&](const AllReduce& s) {
                   for (const ExprId expr : {s.phase, s.barrier, s.group, s.parity}) {
                     if (expr.valid()) visit(expr);
                   }
                 },
             },
             stmt);
}

void for_each_block(const StmtKind& stmt, const std::function<void(const Block&)>& visit) {
  if (const auto* loop = std::get_if<For>(&stmt)) {
    visit(loop->body);
  } else if (const auto* branch = std::get_if<If>(&stmt)) {
    visit(branch->then_body);
    visit(branch->else_body);
  }
}

void for_each_stmt(const Kernel& kernel, const Block& block,
                   const std::function<void(StmtId)>& visit) {
  for (const StmtId id : block) {
    visit(id);
    for_each_block(kernel.stmts[id].kind,
                   [&](const Block& inner) { for_each_stmt(kernel, inner, visit); });
  }
}

void replace_statements(KernelBuilder& builder, const Replace& replace) {
  const Block body = builder.kernel().body;
  builder.kernel().body = rebuild(builder, body, replace);
}

}  // namespace sinter::kir
