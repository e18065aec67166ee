#pragma once

#include <cstdint>
#include <unordered_map>

#include "codegen/kernel/kernel_ir.h"

namespace sinter::kir {

/// Gives equal expressions of one table the same id. Operands must be interned before their users,
/// so every operand's id is below its user's.
class ExprInterner {
 public:
  /// The table may already hold expressions. From now on they are added only through this object.
  explicit ExprInterner(IdVector<ExprId, Expr>* table);
  ExprId intern(Expr expr);

 private:
  IdVector<ExprId, Expr>* table_;
  std::unordered_multimap<uint64_t, ExprId> by_hash_;
};

}  // namespace sinter::kir
