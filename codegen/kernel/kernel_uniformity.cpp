#include "codegen/kernel/kernel_uniformity.h"

#include <algorithm>

#include "codegen/kernel/kernel_traversal.h"
#include "fusion_ir/result.h"
#include "scheduler/analysis/cuda_units.h"

namespace sinter::kir {
std::string_view text_of(Uniformity uniformity) {
  switch (uniformity) {
    case Uniformity::kBlock:
      return "block";
    case Uniformity::kWarp:
      return "warp";
    case Uniformity::kThread:
      return "thread";
  }
  unreachable();
}

UniformityAnalysis::UniformityAnalysis(const Kernel& kernel)
    : kernel_(kernel), memo_(kernel.exprs.size()) {
  do {
    grown_ = false;
    visit(kernel.body, Uniformity::kBlock);
  } while (grown_);
}

Uniformity UniformityAnalysis::of(ExprId id) const {
  if (memo_[id].grown == times_grown_) return memo_[id].uniformity;
  const Expr& expr = kernel_.exprs[id];
  Uniformity result = Uniformity::kBlock;
  for_each_operand(expr, [&](ExprId operand) { result = std::max(result, of(operand)); });
  if (const auto* ref = std::get_if<VarRef>(&expr.kind)) {
    result = vars_[ref->var];
  } else if (const auto* element = std::get_if<ElementRef>(&expr.kind)) {
    result = std::max(result, vars_[element->tile]);
  } else if (const auto* special = std::get_if<SpecialRef>(&expr.kind)) {
    if (special->special == Special::kThreadIndex) result = Uniformity::kThread;
  } else if (const auto* pointwise = std::get_if<PointwiseExpr>(&expr.kind)) {
    result = std::min(result, of_thread_index(*pointwise));
  }
  memo_[id] = {times_grown_, result};
  return result;
}

/// thread_index / 32 is the number of the warp, and thread_index < 32 n a bound that no warp
/// straddles; kThread for anything else.
Uniformity UniformityAnalysis::of_thread_index(const PointwiseExpr& pointwise) const {
  if (pointwise.arguments.size() != 2) return Uniformity::kThread;
  const auto* thread = std::get_if<SpecialRef>(&kernel_.exprs[pointwise.arguments[0]].kind);
  const auto* constant = std::get_if<IntegerConstant>(&kernel_.exprs[pointwise.arguments[1]].kind);
  const bool fits = thread != nullptr && thread->special == Special::kThreadIndex &&
                    constant != nullptr && constant->value > 0 && constant->value % kWarp == 0;
  const bool of_warp = pointwise.fn == PointwiseFn::kDiv || pointwise.fn == PointwiseFn::kLt ||
                       pointwise.fn == PointwiseFn::kGe;
  if (!fits || !of_warp) return Uniformity::kThread;
  return constant->value >= kernel_.threads ? Uniformity::kBlock : Uniformity::kWarp;
}

Uniformity UniformityAnalysis::of_control(const StmtKind& stmt) const {
  Uniformity result = Uniformity::kBlock;
  for_each_expr(stmt, [&](ExprId expr) { result = std::max(result, of(expr)); });
  return result;
}

void UniformityAnalysis::write(VarId var, Uniformity uniformity) {
  if (uniformity <= vars_[var]) return;
  vars_[var] = uniformity;
  grown_ = true;
  ++times_grown_;
}

/// A call writes its state; the uniformity is that of its arguments and of the control flow.
void UniformityAnalysis::write_states(ExprId id, Uniformity control) {
  const Expr& expr = kernel_.exprs[id];
  for_each_operand(expr, [&](ExprId operand) { write_states(operand, control); });
  const auto* call = std::get_if<PointwiseExpr>(&expr.kind);
  if (call == nullptr || !call->state.valid()) return;
  for (const ExprId argument : call->arguments) write(call->state, std::max(control, of(argument)));
}

void UniformityAnalysis::visit(const Block& block, Uniformity control) {
  for (const StmtId id : block) {
    const StmtKind& stmt = kernel_.stmts[id].kind;
    for_each_expr(stmt, [&](ExprId expr) { write_states(expr, control); });
    const auto assign = [&](VarId var, ExprId value) { write(var, std::max(control, of(value))); };
    std::visit(overloaded{
                   [](const Comment&) {},
                   [&](const Declare& s) {
                     if (s.init.valid()) assign(s.var, s.init);
                   },
                   [&](const Assign& s) { assign(s.var, s.value); },
                   [&](const SetElement& s) { assign(s.tile, s.value); },
                   [&](const For& s) {
                     const Uniformity inside = std::max(control, of_control(stmt));
                     write(s.index, inside);
                     visit(s.body, inside);
                   },
                   [&](const If& s) {
                     const Uniformity inside = std::max(control, of_control(stmt));
                     visit(s.then_body, inside);
                     visit(s.else_body, inside);
                   },
                   [&](const Load& s) {
                     assign(s.tile, s.index);
                     if (s.tensor.valid()) assign(s.tile, s.tensor);
                     if (s.predicate.valid()) assign(s.tile, s.predicate);
                   },
                   [](const Store&) {},
                   [](const AsyncCopy&) {},
                   [](const AsyncCommit&) {},
                   [](const AsyncWait&) {},
                   [](const InitMbarriers&) {},
                   [](const ExpectBytes&) {},
                   [](const BulkCopy&) {},
                   [](const TensorCopy&) {},
                   [](const ProxyFence&) {},
                   [](const MbarrierArrive&) {},
                   [](const ClusterStore&) {},
                   [](const MbarrierWait&) {},
                   [](const ClusterBarrier&) {},
                   [](const ClusterArrive&) {},
                   [](const ClusterWait&) {},
                   [](const MessageStore&) {},
                   [&](const MessageWait& s) {
                     for (const VarId value : s.values) write(value, Uniformity::kThread);
                   },
                   [](const Barrier&) {},
                   [](const GroupBarrier&) {},
                   [](const SetMaxRegisters&) {},
                   [](const LaunchDependents&) {},
                   [](const WarpBarrier&) {},
                   [](const WaitForPrevious&) {},
                   [](const DeviceFence&) {},
                   [&](const AtomicCount& s) { write(s.target, Uniformity::kThread); },
                   [&](const ShuffleXor& s) { assign(s.target, s.source); },
                   [&](const LaneExtreme& s) { write(s.target, std::max(control, vars_[s.tile])); },
                   [&](const LoadMatrix& s) { write(s.tile, Uniformity::kThread); },
                   [&](const Mma& s) { write(s.accumulator, Uniformity::kThread); },
                   [&](const Wgmma& s) { write(s.accumulator, Uniformity::kThread); },
                   [](const WgmmaFence&) {},
                   [](const WgmmaCommit&) {},
                   [](const WgmmaWait&) {},
                   // The result is uniform in the group, but before it the variable held a
                   // per-thread value.
                   [](const AllReduce&) {},
               },
               stmt);
  }
}

}  // namespace sinter::kir
