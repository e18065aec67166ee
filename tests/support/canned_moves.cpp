#include "tests/support/canned_groups.h"

namespace sinter {
namespace {

Fusion copy() {
  MatrixBuilder m("copy");
  const ValueId x = m.matrix(DType::kBF16, "x");
  m.b.output(m.b.broadcast(x, {m.rows, m.cols}, {0, 1}), "y");
  return m.b.build();
}

Fusion transpose_2d() {
  MatrixBuilder m("transpose_2d");
  m.b.output(m.b.permute(m.matrix(DType::kBF16, "x"), {1, 0}), "y");
  return m.b.build();
}

Fusion permute_4d() {
  FusionBuilder b("permute_4d");
  const Extent batch = b.symbol("batch");
  const Extent heads = b.symbol("heads");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kBF16, {batch, heads, rows, cols}, "x");
  b.output(b.permute(x, {0, 2, 1, 3}), "y");
  return b.build();
}

Fusion slice_rows() {
  MatrixBuilder m("slice_rows");
  const ValueId x = m.matrix(DType::kBF16, "x");
  m.b.output(relu(m.b, m.b.slice(x, {1, 0}, {5, -1}, {2, 1}), DType::kBF16), "y");
  return m.b.build();
}

}  // namespace

std::vector<CannedFusion> canned_moves() {
  return {
      {"copy", copy, small_matrix(), large_matrix(), "the copy floor"},
      {"transpose_2d", transpose_2d, small_matrix(), large_matrix(), "permute of the inner axis"},
      {"permute_4d",
       permute_4d,
       {{"batch", 2}, {"heads", 3}, {"rows", 5}, {"cols", 24}},
       {{"batch", 8}, {"heads", 32}, {"rows", 2048}, {"cols", 128}},
       "permute that keeps the inner axis"},
      {"slice_rows", slice_rows, matrix_extents(6, 100), large_matrix(), "slice with a step"},
  };
}

}  // namespace sinter
