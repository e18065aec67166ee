#pragma once

#include <functional>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/kernel/kernel_ir.h"

namespace sinter::kir {

/// Calls `visit` for each operand of an expression, in the order of the .kir text.
void for_each_operand(const Expr& expr, const std::function<void(ExprId)>& visit);

/// Calls `visit` for each expression of a statement itself (not of its blocks), in the order of the
/// .kir text. Invalid ids of optional expressions are skipped.
void for_each_expr(const StmtKind& stmt, const std::function<void(ExprId)>& visit);

/// Replaces each operand of an expression.
void replace_operands(Expr& expr, const std::function<ExprId(ExprId)>& replace);

/// Replaces each expression of a statement itself, in the same order.
void replace_exprs(StmtKind& stmt, const std::function<ExprId(ExprId)>& replace);

/// Replaces each block of a statement: the body of a loop, the sides of an If.
void replace_blocks(StmtKind& stmt, const std::function<Block(const Block&)>& replace);

/// Calls `visit` for each block of a statement: the body of a loop, the sides of an If.
void for_each_block(const StmtKind& stmt, const std::function<void(const Block&)>& visit);

/// Calls `visit` for every statement below a block, outer statements before their blocks.
void for_each_stmt(const Kernel& kernel, const Block& block,
                   const std::function<void(StmtId)>& visit);

/// Rebuilds the body of the builder's kernel. `replace` is called for each statement, inner ones
/// included; if it returns true, the statements that it has built replace the statement; otherwise
/// the statement stays. The argument is a copy, so building is safe.
void replace_statements(KernelBuilder& builder,
                        const std::function<bool(StmtId, const StmtKind&)>& replace);

}  // namespace sinter::kir
