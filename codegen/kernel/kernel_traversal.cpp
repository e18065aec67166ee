#include "codegen/kernel/kernel_traversal.h"

#include <type_traits>
#include <utility>

#include "fusion_ir/result.h"

namespace sinter::kir {
namespace {

template <class T, class... Ts>
constexpr bool is_one_of = (std::is_same_v<T, Ts> || ...);

using Replace = std::function<bool(StmtId, const StmtKind&)>;

Block rebuild(KernelBuilder& builder, const Block& block, const Replace& replace) {
  Block result;
  builder.into(&result, [&] {
    for (const StmtId id : block) {
      // Copied, because the statement table may grow during the replacement.
      StmtKind kind = builder.kernel().stmts[id].kind;
      if (replace(id, kind)) continue;
      replace_blocks(kind, [&](const Block& inner) { return rebuild(builder, inner, replace); });
      builder.kernel().stmts[id].kind = std::move(kind);
      result.push_back(id);
    }
  });
  return result;
}

}  // namespace

namespace {

/// Visits the operands of an expression by reference; the visit may change them if the expression
/// is not const.
template <class E, class Visit>
void visit_operands(E& expr, const Visit& visit) {
  std::visit(
      [&]<class X>(X& x) {
        using T = std::remove_const_t<X>;
        if constexpr (is_one_of<T, ElementRef>) {
          visit(x.group);
          visit(x.lane);
        } else if constexpr (is_one_of<T, PointwiseExpr>) {
          for (auto& argument : x.arguments) visit(argument);
        } else if constexpr (is_one_of<T, CastExpr>) {
          visit(x.argument);
        } else {
          static_assert(is_one_of<T, IntegerConstant, FloatConstant, VarRef, SpecialRef, ParamRef>);
        }
      },
      expr.kind);
}

/// The same for the expressions of a statement itself, in the order of the .kir text.
template <class S, class Visit>
void visit_exprs(S& stmt, const Visit& visit_valid) {
  const auto visit = [&](auto& id) {
    if (id.valid()) visit_valid(id);
  };
  std::visit(
      [&]<class X>(X& s) {
        using T = std::remove_const_t<X>;
        if constexpr (is_one_of<T, Declare>) {
          visit(s.init);
        } else if constexpr (is_one_of<T, Assign>) {
          visit(s.value);
        } else if constexpr (is_one_of<T, SetElement>) {
          visit(s.group);
          visit(s.lane);
          visit(s.value);
        } else if constexpr (is_one_of<T, For>) {
          visit(s.begin);
          visit(s.end);
          visit(s.step);
        } else if constexpr (is_one_of<T, If>) {
          visit(s.condition);
        } else if constexpr (is_one_of<T, Load>) {
          visit(s.group);
          visit(s.lane);
          visit(s.tensor);
          visit(s.index);
          visit(s.predicate);
        } else if constexpr (is_one_of<T, Store>) {
          visit(s.tensor);
          visit(s.index);
          visit(s.group);
          visit(s.lane);
        } else if constexpr (is_one_of<T, AsyncCopy>) {
          visit(s.shared_index);
          visit(s.global_index);
          visit(s.predicate);
        } else if constexpr (is_one_of<T, ExpectBytes>) {
          visit(s.index);
          visit(s.bytes);
        } else if constexpr (is_one_of<T, BulkCopy>) {
          visit(s.shared_index);
          visit(s.global_index);
          visit(s.elements);
          visit(s.index);
        } else if constexpr (is_one_of<T, TensorCopy>) {
          visit(s.shared_index);
          for (auto& coordinate : s.coordinates) visit(coordinate);
          visit(s.index);
        } else if constexpr (is_one_of<T, MbarrierArrive>) {
          visit(s.index);
        } else if constexpr (is_one_of<T, ClusterStore>) {
          visit(s.index);
          visit(s.block);
          visit(s.mbarrier);
        } else if constexpr (is_one_of<T, MessageStore>) {
          visit(s.place);
          visit(s.block);
          visit(s.number);
        } else if constexpr (is_one_of<T, MessageWait>) {
          visit(s.place);
          visit(s.number);
        } else if constexpr (is_one_of<T, MbarrierWait>) {
          visit(s.index);
          visit(s.parity);
        } else if constexpr (is_one_of<T, GroupBarrier>) {
          visit(s.id);
        } else if constexpr (is_one_of<T, AtomicCount>) {
          visit(s.index);
          visit(s.last);
        } else if constexpr (is_one_of<T, ShuffleXor>) {
          visit(s.source);
        } else if constexpr (is_one_of<T, LaneExtreme>) {
          visit(s.group);
        } else if constexpr (is_one_of<T, LoadMatrix>) {
          visit(s.group);
          visit(s.index);
        } else if constexpr (is_one_of<T, Mma>) {
          visit(s.accumulator_group);
          visit(s.left_group);
          visit(s.right_group);
        } else if constexpr (is_one_of<T, Wgmma>) {
          visit(s.accumulator_group);
          if (auto* in_registers = std::get_if<RegisterMatrix>(&s.left)) {
            visit(in_registers->group);
          } else {
            visit(std::get<SharedMatrix>(s.left).index);
          }
          visit(s.right.index);
        } else if constexpr (is_one_of<T, AllReduce>) {
          visit(s.phase);
          visit(s.barrier);
          visit(s.group);
          visit(s.parity);
          visit(s.number);
        } else {
          static_assert(is_one_of<T, Comment, AsyncCommit, AsyncWait, InitMbarriers, ProxyFence,
                                  ClusterBarrier, ClusterArrive, ClusterWait, Barrier,
                                  SetMaxRegisters, LaunchDependents, WaitForPrevious, WarpBarrier,
                                  DeviceFence, WgmmaFence, WgmmaCommit, WgmmaWait>);
        }
      },
      stmt);
}

}  // namespace

void for_each_operand(const Expr& expr, const std::function<void(ExprId)>& visit) {
  visit_operands(expr, visit);
}

void replace_operands(Expr& expr, const std::function<ExprId(ExprId)>& replace) {
  visit_operands(expr, [&](ExprId& operand) { operand = replace(operand); });
}

void for_each_expr(const StmtKind& stmt, const std::function<void(ExprId)>& visit) {
  visit_exprs(stmt, visit);
}

void replace_exprs(StmtKind& stmt, const std::function<ExprId(ExprId)>& replace) {
  visit_exprs(stmt, [&](ExprId& expr) { expr = replace(expr); });
}

void for_each_block(const StmtKind& stmt, const std::function<void(const Block&)>& visit) {
  if (const auto* loop = std::get_if<For>(&stmt)) {
    visit(loop->body);
  } else if (const auto* branch = std::get_if<If>(&stmt)) {
    visit(branch->then_body);
    visit(branch->else_body);
  }
}

void replace_blocks(StmtKind& stmt, const std::function<Block(const Block&)>& replace) {
  if (auto* loop = std::get_if<For>(&stmt)) {
    loop->body = replace(loop->body);
  } else if (auto* branch = std::get_if<If>(&stmt)) {
    branch->then_body = replace(branch->then_body);
    branch->else_body = replace(branch->else_body);
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
