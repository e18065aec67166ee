#include "tests/support/canned_groups.h"

namespace sinter {
namespace {

/// One reduction of a matrix over `axes`.
CannedFusion reduction(std::string name, ReduceFn fn, DType type, const std::vector<int>& axes,
                       std::string covers) {
  const auto build = [name, fn, type, axes] {
    MatrixBuilder m(name);
    m.b.output(m.b.reduce(fn, m.matrix(type, "x"), axes), "y");
    return m.b.build();
  };
  return {std::move(name), build, small_matrix(), large_matrix(), std::move(covers)};
}

Fusion mean_variance() {
  MatrixBuilder m("mean_variance");
  const MeanVariance moments = variance(m.b, m.matrix(DType::kBF16, "x"), {-1}, 1.0);
  m.b.output(moments.mean, "mean");
  m.b.output(moments.variance, "variance");
  return m.b.build();
}

Fusion multi_output_reduction() {
  MatrixBuilder m("multi_output_reduction");
  const ValueId x = m.b.cast(m.matrix(DType::kBF16, "x"), DType::kF32);
  const ValueId center = mean(m.b, x);
  m.b.output(m.b.sum(x, {1}), "sum");
  m.b.output(m.b.amax(x, {1}), "max");
  m.b.output(m.b.cast(m.b.sub(x, m.per_row(center)), DType::kBF16), "centered");
  return m.b.build();
}

Fusion batch_norm_statistics() {
  MatrixBuilder m("batch_norm_statistics");
  const MeanVariance moments = batch_statistics(m.b, m.matrix(DType::kBF16, "x"));
  m.b.output(moments.mean, "mean");
  m.b.output(moments.variance, "variance");
  return m.b.build();
}

/// What every row, every column and all elements add up to.
Fusion marginal_sums() {
  MatrixBuilder m("marginal_sums");
  const ValueId x = m.b.cast(m.matrix(DType::kBF16, "x"), DType::kF32);
  m.b.output(m.b.sum(x, {1}), "rows");
  m.b.output(m.b.sum(x, {0}), "columns");
  m.b.output(m.b.sum(m.b.mul(x, x), {0, 1}), "squares");
  return m.b.build();
}

/// x * w / sum of w, summed over the rows: the total of w is no column's.
Fusion weighted_column_mean() {
  MatrixBuilder m("weighted_column_mean");
  const ValueId x = m.matrix(DType::kF32, "x");
  const ValueId w = m.column(DType::kF32, "w");
  const ValueId total = m.b.sum(w, {0});
  m.b.output(m.b.div(m.b.sum(m.b.mul(x, m.per_row(w)), {0}), m.b.broadcast(total, {m.cols}, {})),
             "mean");
  m.b.output(m.b.sqrt(m.b.abs(total)), "scale");
  return m.b.build();
}

Fusion zero_extent() {
  MatrixBuilder m("zero_extent");
  const ValueId x = m.matrix(DType::kF32, "x");
  m.b.output(m.b.sum(x, {1}), "sum");
  m.b.output(m.b.amax(x, {1}), "max");
  m.b.output(m.b.exp(x), "y");
  return m.b.build();
}

}  // namespace

std::vector<CannedFusion> canned_reductions() {
  const std::vector<int> inner = {1};
  return {
      reduction("row_sum", ReduceFn::kSum, DType::kBF16, inner, "an inner reduction"),
      reduction("row_sum_f32", ReduceFn::kSum, DType::kF32, inner, "an inner reduction in f32"),
      reduction("row_prod", ReduceFn::kProd, DType::kF32, inner, "products"),
      reduction("row_max_nan", ReduceFn::kMax, DType::kF32, inner, "a maximum that passes NaN on"),
      reduction("row_min", ReduceFn::kMin, DType::kF16, inner, "a minimum of f16"),
      reduction("row_any", ReduceFn::kAny, DType::kBool, inner, "a bool reduction"),
      reduction("row_argmax", ReduceFn::kArgMax, DType::kF32, inner, "an index reduction"),
      reduction("full_sum", ReduceFn::kSum, DType::kF32, {}, "a reduction over all axes"),
      reduction("column_sum", ReduceFn::kSum, DType::kF32, {0}, "an outer reduction"),
      {"mean_variance", mean_variance, small_matrix(), large_matrix(), "Welford"},
      {"multi_output_reduction", multi_output_reduction, small_matrix(), large_matrix(),
       "two statistics and a row that share one read"},
      {"batch_norm_statistics", batch_norm_statistics, small_matrix(), large_matrix(),
       "Welford over the leading axis"},
      {"marginal_sums", marginal_sums, small_matrix(), large_matrix(),
       "sums of rows, of columns and of everything"},
      {"weighted_column_mean", weighted_column_mean, small_matrix(), large_matrix(),
       "a total of row values that every column needs"},
      {"zero_extent", zero_extent, matrix_extents(3, 0), matrix_extents(0, 4096),
       "reductions over nothing, outputs without elements"},
  };
}

}  // namespace sinter
