#include "runtime/oracle/contracted_blocks.h"

#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "fusion_ir/integers.h"
#include "runtime/compile/parallel.h"
#include "runtime/oracle/element_runs.h"
#include "runtime/oracle/error_model.h"

namespace sinter {
namespace {

/// Rows and columns of a block of the result: its part of both operands fits in a cache.
constexpr int64_t kBlock = 128;
/// Most elements of an operand: 4 GiB of doubles.
constexpr int64_t kMostElements = int64_t{1} << 29;
/// Magnitudes and bounds are added up in f32. Elements below the first may have products that are
/// subnormal there; bounds below the second would be, and count as none.
constexpr double kTiny = 0x1p-60;
constexpr double kLeastBound = 0x1p-120;

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows `first` to `first + count` of an operand.
Eigen::Map<const Matrix<double>> rows_of(const std::vector<double>& values, int64_t first,
                                         int64_t count, int64_t contracted) {
  return {values.data() + first * contracted, count, contracted};
}

/// The largest power of two that divides a finite number, as its exponent; large for 0.
int exponent_of(double x) {
  if (x == 0.0) return std::numeric_limits<int>::max() / 2;
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  constexpr int kDigits = std::numeric_limits<double>::digits;
  const auto digits = static_cast<int64_t>(std::ldexp(fraction, kDigits));
  return exponent - kDigits + std::countr_zero(static_cast<uint64_t>(digits));
}

}  // namespace

std::optional<ContractedBlocks::Operand> ContractedBlocks::pack(
    const TensorView& view, const std::vector<int>& axes, const Sizes& space,
    const std::vector<size_t>& order, int64_t kept, int64_t contracted, int threads) {
  TensorView ordered{.type = view.type, .offset = view.offset, .elements = view.elements};
  for (const size_t axis : order) {
    const auto at = std::ranges::find(axes, static_cast<int>(axis));
    ordered.sizes.push_back(space[axis]);
    ordered.strides.push_back(
        at == axes.end() ? 0 : view.strides[static_cast<size_t>(at - axes.begin())]);
  }
  const ElementRuns<1> runs(ordered.sizes, {&ordered});
  Operand out{.kept = kept, .exact = view.exact(), .values = {}, .bounds = {}, .exponents = {}};
  if (runs.count() > kMostElements) return std::nullopt;
  const auto count = static_cast<size_t>(runs.count());
  out.values.resize(count);
  if (!out.exact) out.bounds.resize(count);
  const int64_t rows = contracted > 0 ? runs.count() / contracted : 0;
  out.exponents.resize(static_cast<size_t>(rows));
  std::atomic<bool> is_known = true;
  for_each_range(
      rows, std::max<int64_t>(kElementsPerRange / std::max<int64_t>(contracted, 1), 1), threads,
      [&](int64_t begin, int64_t end) {
        bool known = true;
        std::fill(out.exponents.begin() + begin, out.exponents.begin() + end,
                  std::numeric_limits<int>::max() / 2);
        runs.for_each(begin * contracted, end * contracted, [&](const ElementRun<1>& run) {
          for (int64_t i = 0; i < run.count; ++i) {
            const auto to = static_cast<size_t>(run.first + i);
            const BoundedReal x = view.real(run.position[0] + i * run.step[0]);
            known &= std::isfinite(x.value) && std::isfinite(x.bound) &&
                     (x.value == 0.0 || std::fabs(x.value) >= kTiny);
            out.values[to] = x.value;
            if (!out.exact)
              out.bounds[to] = x.bound < kLeastBound ? 0.0F : static_cast<float>(x.bound);
            int& exponent = out.exponents[to / static_cast<size_t>(contracted)];
            if (known) exponent = std::min(exponent, exponent_of(x.value));
          }
        });
        if (!known) is_known = false;
      });
  if (!is_known) return std::nullopt;
  return out;
}

std::optional<ContractedBlocks> ContractedBlocks::make(const ContractOp& op, const TensorView& left,
                                                       const TensorView& right, const Sizes& space,
                                                       int threads) {
  if (op.fn != ContractFn::kSum || !is_float(left.type)) return std::nullopt;
  const size_t results = space.size() - op.reduced.size();
  const auto has = [](const std::vector<int>& axes, size_t axis) {
    return std::ranges::find(axes, static_cast<int>(axis)) != axes.end();
  };
  // Batches first, then the axes of one operand, then those of the other.
  std::vector<size_t> batch, rows, columns, reduced;
  bool rows_are_left = true;
  for (size_t axis = 0; axis < results; ++axis) {
    const bool in_left = has(op.left, axis);
    if (in_left && has(op.right, axis)) {
      if (!rows.empty() || !columns.empty()) return std::nullopt;
      batch.push_back(axis);
      continue;
    }
    if (rows.empty()) rows_are_left = in_left;
    if (in_left == rows_are_left && !columns.empty()) return std::nullopt;
    (in_left == rows_are_left ? rows : columns).push_back(axis);
  }
  for (size_t axis = results; axis < space.size(); ++axis) reduced.push_back(axis);
  const auto extent = [&](const std::vector<size_t>& axes) {
    int64_t out = 1;
    for (const size_t axis : axes) out *= space[axis];
    return out;
  };
  const auto order = [&](const std::vector<size_t>& kept) {
    std::vector<size_t> out = batch;
    out.insert(out.end(), kept.begin(), kept.end());
    out.insert(out.end(), reduced.begin(), reduced.end());
    return out;
  };
  ContractedBlocks out;
  out.batches_ = extent(batch);
  out.contracted_ = extent(reduced);
  out.of_products_ = contracted_product_error(op.precision);
  out.threads_ = threads;
  if (out.contracted_ == 0) return std::nullopt;
  const TensorView& of_rows = rows_are_left ? left : right;
  const TensorView& of_columns = rows_are_left ? right : left;
  auto first = pack(of_rows, rows_are_left ? op.left : op.right, space, order(rows), extent(rows),
                    out.contracted_, threads);
  if (!first) return std::nullopt;
  auto second = pack(of_columns, rows_are_left ? op.right : op.left, space, order(columns),
                     extent(columns), out.contracted_, threads);
  if (!second) return std::nullopt;
  out.rows_ = std::move(*first);
  out.columns_ = std::move(*second);
  const auto reach = [](const Operand& x) {
    double most = 0.0;
    for (const double value : x.values) most = std::max(most, std::fabs(value));
    float bound = 0.0F;
    for (const float b : x.bounds) bound = std::max(bound, b);
    return most + static_cast<double>(bound);
  };
  const double most = reach(out.rows_) * reach(out.columns_) * static_cast<double>(out.contracted_);
  constexpr double kShareOfRange = 0.25;
  if (!(most < kShareOfRange * overflow_threshold(DType::kF32))) return std::nullopt;
  return out;
}

void ContractedBlocks::put_block(ElementWriter::Sink& sink, int64_t batch, int64_t row,
                                 int64_t column) const {
  const int64_t height = std::min(kBlock, rows_.kept - row);
  const int64_t width = std::min(kBlock, columns_.kept - column);
  const int64_t first_row = batch * rows_.kept + row;
  const int64_t first_column = batch * columns_.kept + column;
  const auto a = rows_of(rows_.values, first_row, height, contracted_);
  const auto b = rows_of(columns_.values, first_column, width, contracted_);
  Matrix<double> sums = a * b.transpose();
  const Matrix<float> a_size = a.cwiseAbs().cast<float>();
  const Matrix<float> b_size = b.cwiseAbs().cast<float>();
  // Sums of |x|, and of what operands' errors add to the products.
  Matrix<float> magnitudes = a_size * b_size.transpose();
  Matrix<float> propagated = Matrix<float>::Zero(height, width);
  const auto bounds_of = [&](const Operand& x, int64_t first, int64_t count) {
    return Eigen::Map<const Matrix<float>>(x.bounds.data() + first * contracted_, count,
                                           contracted_);
  };
  if (!rows_.exact)
    propagated.noalias() += bounds_of(rows_, first_row, height) * b_size.transpose();
  if (!columns_.exact) {
    const auto errors = bounds_of(columns_, first_column, width);
    propagated.noalias() += a_size * errors.transpose();
    if (!rows_.exact)
      propagated.noalias() += bounds_of(rows_, first_row, height) * errors.transpose();
  }
  // The magnitudes are sums in f32, of errors that are a small share of what remains.
  constexpr double kCertain = 1.0 - 0x1p-8;
  const double growth =
      kCertain * (accumulation_error(DType::kF32, contracted_, contracted_) + of_products_);
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const double of_operands = kCertain * static_cast<double>(propagated(i, j));
      const double magnitude = static_cast<double>(magnitudes(i, j)) + of_operands;
      const bool is_integer = rows_.exponents[static_cast<size_t>(first_row + i)] +
                                  columns_.exponents[static_cast<size_t>(first_column + j)] >=
                              0;
      const bool is_exact = is_integer && of_operands == 0.0 && of_products_ == 0.0 &&
                            magnitude * unit_roundoff(DType::kF32) <= 1.0;
      sink.put(((batch * rows_.kept + row + i) * columns_.kept) + column + j,
               BoundedReal{sums(i, j), is_exact ? 0.0 : of_operands + growth * magnitude});
    }
  }
}

void ContractedBlocks::fill(ElementWriter& out) const {
  const int64_t high = divided_up(rows_.kept, kBlock);
  const int64_t wide = divided_up(columns_.kept, kBlock);
  for_each_range(batches_ * high * wide, 1, threads_, [&](int64_t begin, int64_t end) {
    ElementWriter::Sink sink(out);
    for (int64_t block = begin; block < end; ++block) {
      put_block(sink, block / (high * wide), block / wide % high * kBlock, block % wide * kBlock);
    }
  });
}

}  // namespace sinter
