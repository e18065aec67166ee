#pragma once

#include <string>
#include <string_view>

#include "codegen/cuda/cuda_names.h"
#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// CUDA C++ name of an element type: "float", "bf16", "long long".
std::string_view cuda_type(DType type);

/// Names of everything in one kernel.
struct KernelNames {
  explicit KernelNames(const kir::Kernel& kernel);
  std::string entry;
  std::string table;  ///< The argument that holds all tables.
  IdMap<kir::BufferId, std::string> buffers;
  IdMap<kir::MbarrierId, std::string> mbarriers;
  IdMap<kir::TensorMapId, std::string> tensor_maps;
  IdMap<kir::ParamId, std::string> params;
  IdMap<kir::VarId, std::string> vars;
};

/// Precedence of the outermost operator of a printed expression, in the order of C++.
enum class Precedence : uint8_t {
  kConditional,
  kLogicalOr,
  kLogicalAnd,
  kOr,
  kXor,
  kAnd,
  kEquality,
  kRelational,
  kAdditive,
  kMultiplicative,
  kUnary,
  kPrimary,
};

/// True for a quotient or remainder of integers by a constant above 0. It needs no sinter_div or
/// sinter_rem, which handle other divisors.
bool divides_by_positive_constant(const kir::Kernel& kernel, const kir::PointwiseExpr& call);

/// Prints expressions of one kernel with the parentheses that C++ needs.
class CudaExpressions {
 public:
  CudaExpressions(const kir::Kernel& kernel, const KernelNames& names)
      : kernel_(kernel), names_(names) {}

  /// The expression; in parentheses if its operator binds less tightly than `context`.
  [[nodiscard]] std::string text(kir::ExprId expr,
                                 Precedence context = Precedence::kConditional) const;
  /// buffer + index.
  [[nodiscard]] std::string address(kir::BufferId buffer, kir::ExprId index) const;
  /// table.buffer[tensor] + index.
  [[nodiscard]] std::string address(kir::BufferId buffer, kir::ExprId tensor,
                                    kir::ExprId index) const;
  /// mbarriers + index.
  [[nodiscard]] std::string address(kir::MbarrierId array, kir::ExprId index) const;
  /// Address of the Vec of one group: "x + g", or "&x" if there is only one.
  [[nodiscard]] std::string address(kir::VarId tile, kir::ExprId group) const;
  /// The Vec of one group: "x[g]", or "x" if there is only one.
  [[nodiscard]] std::string vec(kir::VarId tile, kir::ExprId group) const;

 private:
  [[nodiscard]] std::string address(const std::string& base, kir::ExprId index) const;
  struct Printed {
    std::string text;
    Precedence precedence = Precedence::kPrimary;
  };
  [[nodiscard]] Printed print(kir::ExprId id) const;
  [[nodiscard]] Printed print(const kir::PointwiseExpr& expr) const;

  const kir::Kernel& kernel_;
  const KernelNames& names_;
};

}  // namespace sinter
