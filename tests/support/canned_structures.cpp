#include "tests/support/canned_groups.h"

namespace sinter {
namespace {

Fusion diamond() {
  MatrixBuilder m("diamond");
  const ValueId top = m.b.exp(m.matrix(DType::kBF16, "x"));
  const ValueId left = relu(m.b, m.b.sub(top, m.b.constant(1.0)));
  const ValueId right = m.b.pointwise(PointwiseFn::kTanh, {top});
  m.b.output(m.b.cast(m.b.add(left, right), DType::kBF16), "y");
  return m.b.build();
}

Fusion two_independent_chains() {
  MatrixBuilder m("two_independent_chains");
  const ValueId a = m.matrix(DType::kBF16, "a");
  const ValueId c = m.matrix(DType::kBF16, "c");
  m.b.output(silu(m.b, a, DType::kBF16), "y");
  m.b.output(rms_norm(m.b, c, {.output = DType::kBF16}).y, "z");
  return m.b.build();
}

Fusion reduction_of_reduction() {
  MatrixBuilder m("reduction_of_reduction");
  const ValueId y = rms_norm(m.b, m.matrix(DType::kBF16, "x")).y;
  m.b.output(m.b.amax(m.b.abs(y), {1}), "amax");
  m.b.output(m.b.cast(y, DType::kBF16), "y");
  return m.b.build();
}

Fusion softmax_of_layer_norm() {
  MatrixBuilder m("softmax_of_layer_norm");
  const ValueId weight = m.row(DType::kBF16, "weight");
  const LayerNorm norm = layer_norm(m.b, m.matrix(DType::kBF16, "x"), {.weight = weight});
  m.b.output(softmax(m.b, norm.y, -1, DType::kBF16), "y");
  return m.b.build();
}

}  // namespace

std::vector<CannedFusion> canned_structures() {
  return {
      {"diamond", diamond, small_matrix(), large_matrix(), "two paths that meet again"},
      {"two_independent_chains", two_independent_chains, small_matrix(), large_matrix(),
       "parts that share nothing but their shape"},
      {"reduction_of_reduction", reduction_of_reduction, small_matrix(), large_matrix(),
       "a reduction that waits for another"},
      {"softmax_of_layer_norm", softmax_of_layer_norm, small_matrix(), large_matrix(),
       "three stages and more"},
  };
}

}  // namespace sinter
