#include "codegen/passes/choose_reciprocals.h"

#include "codegen/passes/value_minima.h"

namespace sinter {

kir::Kernel choose_reciprocals(kir::Kernel kernel) {
  const ValueMinima minima(kernel);
  std::vector<kir::ExprId> chosen;
  for (uint32_t i = 0; i < kernel.exprs.size(); ++i) {
    const kir::ExprId id{i};
    const auto* call = std::get_if<kir::PointwiseExpr>(&kernel.exprs[id].kind);
    if (call != nullptr && call->fn == PointwiseFn::kReciprocal &&
        minima.of(call->arguments[0]) >= 1.0) {
      chosen.push_back(id);
    }
  }
  for (const kir::ExprId id : chosen)
    std::get<kir::PointwiseExpr>(kernel.exprs[id].kind).form = kir::CallForm::kOneOrMore;
  return kernel;
}

}  // namespace sinter
