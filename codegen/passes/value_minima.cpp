#include "codegen/passes/value_minima.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "codegen/kernel/kernel_traversal.h"

namespace sinter {
namespace {

constexpr double kUnknown = -std::numeric_limits<double>::infinity();

}  // namespace

ValueMinima::ValueMinima(const kir::Kernel& kernel)
    : kernel_(kernel), of_vars_(kernel.vars.size(), kUnknown) {
  IdMap<kir::VarId, uint8_t> is_changed(kernel.vars.size(), 0);
  const auto each = [&](const auto& visit) {
    kir::for_each_stmt(kernel, kernel.body, [&](kir::StmtId id) { visit(kernel.stmts[id].kind); });
  };
  each([&](const kir::StmtKind& stmt) {
    if (const auto* assigned = std::get_if<kir::Assign>(&stmt)) {
      is_changed[assigned->var] = 1;
    } else if (const auto* load = std::get_if<kir::Load>(&stmt)) {
      is_changed[load->tile] = 1;
    } else if (const auto* shuffle = std::get_if<kir::ShuffleXor>(&stmt)) {
      is_changed[shuffle->target] = 1;
    } else if (const auto* extreme = std::get_if<kir::LaneExtreme>(&stmt)) {
      is_changed[extreme->target] = 1;
    } else if (const auto* taken = std::get_if<kir::MessageWait>(&stmt)) {
      for (const kir::VarId value : taken->values) is_changed[value] = 1;
    } else if (const auto* reduce = std::get_if<kir::AllReduce>(&stmt)) {
      for (const kir::ReducePart& part : reduce->parts) {
        for (const kir::VarId var : part.vars) is_changed[var] = 1;
      }
    }
  });
  // In statement order, so that operands come first.
  each([&](const kir::StmtKind& stmt) {
    const auto* declared = std::get_if<kir::Declare>(&stmt);
    if (declared == nullptr || !declared->init.valid() || is_changed[declared->var] != 0) return;
    of_vars_[declared->var] = of(declared->init);
  });
}

double ValueMinima::of(kir::ExprId id) const {
  const kir::Expr& expr = kernel_.exprs[id];
  if (expr.type != DType::kF32) return kUnknown;
  if (const auto* constant = std::get_if<kir::FloatConstant>(&expr.kind)) return constant->value;
  if (const auto* var = std::get_if<kir::VarRef>(&expr.kind)) return of_vars_[var->var];
  const auto* call = std::get_if<kir::PointwiseExpr>(&expr.kind);
  if (call == nullptr) return kUnknown;
  const std::vector<kir::ExprId>& x = call->arguments;
  switch (call->fn) {
    case PointwiseFn::kExp:
    case PointwiseFn::kExp2:
    case PointwiseFn::kAbs:
    case PointwiseFn::kSqrt:
      return 0.0;
    case PointwiseFn::kMul:
      return x[0] == x[1] ? 0.0 : kUnknown;
    case PointwiseFn::kAdd:  // Rounding keeps order, and bounds are sums of constants.
      return of(x[0]) + of(x[1]);
    case PointwiseFn::kMax:
      return std::max(of(x[0]), of(x[1]));
    case PointwiseFn::kMin:
      return std::min(of(x[0]), of(x[1]));
    default:
      return kUnknown;
  }
}

}  // namespace sinter
