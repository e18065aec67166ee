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

/// y = (x^T * 2 + bias) in bf16: less passes through shared memory on its way out than in.
Fusion transpose_cast() {
  MatrixBuilder m("transpose_cast");
  const ValueId x = m.matrix(DType::kF32, "x");
  const ValueId bias = m.row(DType::kF32, "bias");
  const ValueId twice = m.b.mul(x, m.b.constant(2.0));
  const ValueId shifted = m.b.add(twice, m.b.broadcast(bias, {m.rows, m.cols}, {1}));
  m.b.output(m.b.cast(m.b.permute(shifted, {1, 0}), DType::kBF16), "y");
  return m.b.build();
}

/// s = x + y^T and p = (x * y^T)^T: both orders are read, and both are written.
Fusion add_transposed() {
  MatrixBuilder m("add_transposed");
  const ValueId x = m.matrix(DType::kBF16, "x");
  const ValueId y = m.b.input(DType::kF32, {m.cols, m.rows}, "y");
  const ValueId wide = m.b.cast(x, DType::kF32);
  const ValueId turned = m.b.permute(y, {1, 0});
  m.b.output(m.b.cast(m.b.add(wide, turned), DType::kBF16), "s");
  m.b.output(m.b.permute(m.b.mul(wide, turned), {1, 0}), "p");
  return m.b.build();
}

/// Channels last to channels first, of bytes.
Fusion permute_inner() {
  FusionBuilder b("permute_inner");
  const Extent batch = b.symbol("batch");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kI8, {batch, rows, cols}, "x");
  b.output(b.permute(x, {0, 2, 1}), "y");
  return b.build();
}

/// All four dimensions in the other order, of 8 bytes an element.
Fusion permute_reversed() {
  FusionBuilder b("permute_reversed");
  const Extent batch = b.symbol("batch");
  const Extent heads = b.symbol("heads");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kF64, {batch, heads, rows, cols}, "x");
  b.output(b.permute(x, {3, 2, 1, 0}), "y");
  return b.build();
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
      {"transpose_cast", transpose_cast, matrix_extents(100, 72), large_matrix(),
       "transpose that stores half of what it reads"},
      {"add_transposed", add_transposed, matrix_extents(40, 100), large_matrix(),
       "both orders read and written"},
      {"permute_inner",
       permute_inner,
       {{"batch", 2}, {"rows", 37}, {"cols", 64}},
       {{"batch", 64}, {"rows", 4096}, {"cols", 512}},
       "transposes in a batch"},
      {"permute_reversed",
       permute_reversed,
       {{"batch", 3}, {"heads", 2}, {"rows", 4}, {"cols", 24}},
       {{"batch", 64}, {"heads", 8}, {"rows", 512}, {"cols", 64}},
       "permute of four axes"},
      {"slice_rows", slice_rows, matrix_extents(6, 100), large_matrix(), "slice with a step"},
  };
}

}  // namespace sinter
