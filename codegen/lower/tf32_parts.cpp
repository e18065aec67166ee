#include "codegen/lower/tf32_parts.h"

namespace sinter {

using kir::ExprId;

Tf32Parts tf32_parts(const ProgramScope& scope, ExprId x) {
  kir::KernelBuilder& b = scope.builder;
  const ExprId rounded = scope.named("rounded", b.round_to_tf32(x));
  const ExprId is_finite = scope.named("is_finite", b.apply(PointwiseFn::kIsFinite, {rounded}));
  const ExprId sign = b.select(b.less(rounded, b.real(0.0)), b.real(-1.0), b.real(1.0));
  return {.first = b.select(is_finite, rounded, sign),
          .second = b.select(is_finite, b.round_to_tf32(b.sub(x, rounded)), rounded)};
}

}  // namespace sinter
