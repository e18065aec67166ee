#include "codegen/lower/row_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fusion_ir/fusion_builder.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::row_statistics_test {

using Tensors = ScheduledKernel::Tensors;

constexpr int64_t kRows = 9;

/// Rows in chunks, in registers, and in registers of the blocks of a cluster, for any width.
std::vector<Schedule> schedules(int64_t columns) {
  std::vector<Schedule> out = {
      {.family = "looped",
       .parameters = LoopedParameters{},
       .threads_per_row = 32,
       .vector_width = 4},
      {.family = "looped",
       .parameters = LoopedParameters{},
       .threads_per_row = 64,
       .vector_width = 4,
       .unroll = 2},
      {.family = "multi_wave",
       .parameters = MultiWaveParameters{},
       .threads_per_row = 64,
       .vector_width = 4,
       .kept = {{ValueId{0}}}},
  };
  for (Schedule& schedule : out)
    schedule.row_access = columns % 4 == 0 ? RowAccess::kAligned : RowAccess::kUnaligned;
  return out;
}

/// Of a row's elements, times 1000, that are not left out before a column: the sum of
/// exp(x - maximum), which is the number of maxima because exp(-1000) is 0. Rows are scaled by it.
Fusion masked_pair(int64_t columns, int64_t first) {
  FusionBuilder b("masked_pair");
  const ValueId x = b.input(DType::kF32, {kRows, columns}, "x");
  const ValueId place = b.iota({kRows, columns}, 1, DType::kI32);
  const ValueId is_left_out =
      b.pointwise(PointwiseFn::kLt, {place, b.constant_integer(first, DType::kI32)});
  const ValueId nothing = b.constant(-std::numeric_limits<double>::infinity());
  const ValueId kept = b.select(is_left_out, nothing, b.mul(x, b.constant(1000.0)));
  const ValueId max = b.amax(kept, {1});
  const ValueId maxima = b.sum(b.exp(b.sub(kept, b.broadcast_over(max, kept, {1}))), {1});
  b.output(maxima, "maxima");
  b.output(b.mul(x, b.broadcast_over(maxima, x, {1})), "y");
  return b.build();
}

/// A thread that has seen nothing but -inf, and one whose maximum grows from chunk to chunk.
TEST(RowStatistics, ExponentialsAreOfTheMaximumSoFar) {
  for (const int64_t columns : {int64_t{512}, int64_t{259}}) {
    for (const int64_t first : {int64_t{0}, columns / 3, columns - 1}) {
      for (const Schedule& schedule : schedules(columns)) {
        ScheduledKernel(masked_pair(columns, first), schedule)
            .expect_outputs(
                [=](const Tensors& in) -> Tensors {
                  std::vector<float> maxima;
                  std::vector<float> y;
                  for (auto row = in[0].begin(); row != in[0].end(); row += columns) {
                    const float largest = *std::max_element(row + first, row + columns);
                    maxima.push_back(
                        static_cast<float>(std::count(row + first, row + columns, largest)));
                    for (int64_t i = 0; i < columns; ++i) y.push_back(row[i] * maxima.back());
                  }
                  return {maxima, y};
                },
                1);
      }
    }
  }
}

/// The sum of the squares of what deviates from the mean, and the mean, times the number of
/// elements: whole numbers, to which rounding takes them back. Rows are scaled by the latter.
Fusion deviations(int64_t columns) {
  FusionBuilder b("deviations");
  const ValueId x = b.input(DType::kF32, {kRows, columns}, "x");
  const auto count = static_cast<double>(columns);
  const ValueId mean = b.div(b.sum(x, {1}), b.constant(count));
  const ValueId deviation = b.sub(x, b.broadcast_over(mean, x, {1}));
  const ValueId m2 = b.sum(b.mul(deviation, deviation), {1});
  const ValueId sum = b.pointwise(PointwiseFn::kRound, {b.mul(mean, b.constant(count))});
  b.output(b.pointwise(PointwiseFn::kRound, {b.mul(m2, b.constant(count))}), "m2");
  b.output(sum, "sums");
  b.output(b.mul(x, b.broadcast_over(sum, x, {1})), "y");
  return b.build();
}

/// Chunks of whole vectors, of vectors and edges, and of edges alone.
TEST(RowStatistics, MomentsCountEveryElementOnce) {
  for (const int64_t columns : {64, 259, 131, 7}) {
    for (const Schedule& schedule : schedules(columns)) {
      ScheduledKernel(deviations(columns), schedule)
          .expect_outputs(
              [=](const Tensors& in) {
                Tensors out(3);
                for (auto row = in[0].begin(); row != in[0].end(); row += columns) {
                  const float sum = std::accumulate(row, row + columns, 0.0F);
                  const float squares = std::inner_product(row, row + columns, row, 0.0F);
                  out[0].push_back(static_cast<float>(columns) * squares - sum * sum);
                  out[1].push_back(sum);
                  for (int64_t i = 0; i < columns; ++i) out[2].push_back(row[i] * sum);
                }
                return out;
              },
              1);
    }
  }
}

}  // namespace sinter::row_statistics_test
