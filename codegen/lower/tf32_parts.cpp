#include "codegen/lower/tf32_parts.h"

#include <functional>

namespace sinter {

using kir::ExprId;

void split_to_tf32(const ProgramScope& scope, kir::VarId tile, kir::VarId first,
                   kir::VarId second) {
  kir::KernelBuilder& b = scope.builder;
  const kir::Var shape = b.kernel().vars[tile];
  const ExprId zero = b.real(0.0);
  const auto for_each = [&](const std::function<void(ExprId, ExprId)>& body) {
    b.unrolled("i", shape.groups, [&](ExprId i) {
      b.unrolled("lane", shape.lanes, [&](ExprId lane) { body(i, lane); });
    });
  };
  // 0, or NaN where a second part is infinite or NaN: one instruction for each. That is where an
  // element is, or is rounded to infinity.
  const kir::VarId test = b.declare("test", zero);
  for_each([&](ExprId i, ExprId lane) {
    const ExprId x = b.element(tile, i, lane);
    const ExprId rounded = b.ref(b.declare("rounded", b.round_to_tf32(x)));
    b.set(second, i, lane, b.sub(x, rounded));
    b.set(first, i, lane, rounded);
    b.assign(test, b.apply(PointwiseFn::kFma, {b.element(second, i, lane), zero, b.ref(test)}));
  });
  b.when(b.apply(PointwiseFn::kIsNan, {b.ref(test)}), [&] {
    for_each([&](ExprId i, ExprId lane) {
      const ExprId rounded = b.element(first, i, lane);
      b.when(b.apply(PointwiseFn::kNot, {b.apply(PointwiseFn::kIsFinite, {rounded})}), [&] {
        b.set(second, i, lane, rounded);
        b.set(first, i, lane, b.select(b.less(rounded, zero), b.real(-1.0), b.real(1.0)));
      });
    });
  });
}

}  // namespace sinter
