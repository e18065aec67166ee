#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "codegen/kernel/expr_interner.h"
#include "codegen/kernel/kernel_ir.h"
#include "codegen/kernel/kernel_token_reader.h"

namespace sinter {

/// Reads the names and expressions of .kir text into a kernel: the part of the parser that knows
/// declarations, but neither how they are written nor any statement. A name that is not declared
/// throws kInvalidArgument with its position.
class KernelExpressionReader : protected KernelTokenReader {
 protected:
  explicit KernelExpressionReader(std::string_view text)
      : KernelTokenReader(text), interner_(&kernel_.exprs) {}

  kir::VarId var();
  kir::BufferId buffer();
  kir::MbarrierId mbarrier();
  kir::TensorMapId tensor_map();
  kir::ParamId param();

  kir::ExprId expr();
  /// "group, lane]" behind the name of a tile and its "[".
  std::pair<kir::ExprId, kir::ExprId> element_indices();

  /// Surround whatever nests. Too many levels throw kInvalidArgument.
  void enter();
  void leave() { --depth_; }

  kir::Kernel kernel_;                 ///< What has been read, but for its registers.
  std::map<uint32_t, kir::Var> vars_;  ///< By number; they may be declared in any order.

 private:
  kir::Expr read_expr();
  kir::Expr call(PointwiseFn fn, kir::CallForm form);
  DType constant_type(DType usual) { return accept(":") ? type() : usual; }
  kir::Expr constant();
  /// 0x1.8p+1, 1.5, inf, nan(bits). Decimals are rounded to the type.
  double real();

  kir::ExprInterner interner_;
  int depth_ = 0;
};

}  // namespace sinter
