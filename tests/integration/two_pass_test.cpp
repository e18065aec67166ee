// Kernels whose blocks take rows in tiles: their numbers are right at any width and number of rows.

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/two_pass.h"
#include "tests/integration/canned_case.h"

namespace sinter::two_pass_test {

Plan plan_of(const Fusion& fusion, int64_t rows, int64_t columns) {
  return plan(fusion, {{"rows", rows}, {"cols", columns}}, *find_device("H200"),
              {.families = builtin_families(), .pin = {.family = "looped"}})
      .value();
}

Schedule shape_of(int64_t rows_per_tile) {
  return {.family = "looped",
          .parameters = LoopedParameters{.rows_per_tile = rows_per_tile},
          .threads_per_row = 64,
          .vector_width = 8,
          .persistent_blocks = 4};
}

/// Row values that no reduction gives: threads share the rows of a tile.
Fusion scaled_rows() {
  FusionBuilder b("scaled_rows");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kBF16, {rows, cols}, "x");
  const ValueId s = b.input(DType::kBF16, {rows}, "s");
  const ValueId scale = b.exp(b.cast(s, DType::kF32));
  const ValueId y = b.mul(b.cast(x, DType::kF32), b.broadcast(scale, {rows, cols}, {0}));
  b.output(scale, "scale");
  b.output(b.cast(y, DType::kBF16), "y");
  b.output(b.sum(y, {0}), "columns");
  b.output(b.sum(scale, {0}), "scales");
  b.output(b.sum(y, {0, 1}), "all");
  return b.build();
}

/// A bool for each row, and a value that all rows have in common.
Fusion masked_rows() {
  FusionBuilder b("masked_rows");
  const Extent rows = b.symbol("rows");
  const Extent cols = b.symbol("cols");
  const ValueId x = b.input(DType::kF32, {rows, cols}, "x");
  const ValueId w = b.input(DType::kF32, {}, "w");
  const ValueId weight = b.exp(w);
  const ValueId sum = b.sum(x, {1});
  const ValueId keep = b.pointwise(PointwiseFn::kGt, {sum, b.constant(0.0)});
  const ValueId keeps = b.broadcast(keep, {rows, cols}, {0});
  const ValueId scaled = b.mul(x, b.broadcast(weight, {rows, cols}, {}));
  const ValueId y = b.select(keeps, scaled, x);
  b.output(keep, "keep");
  b.output(y, "y");
  b.output(b.sum(y, {0}), "columns");
  return b.build();
}

/// Few and many rows a tile, one and several batches at once, more blocks than rows and fewer.
std::vector<Schedule> shapes(const SegmentFacts& facts) {
  const bool whole = facts.space.columns % 8 == 0;
  std::vector<Schedule> out = {
      {.parameters = LoopedParameters{.rows_per_tile = 1},
       .threads_per_row = 32,
       .unroll = 1,
       .persistent_blocks = 132},
      {.parameters = LoopedParameters{.rows_per_tile = 3},
       .threads_per_row = 128,
       .unroll = 2,
       .persistent_blocks = 5},
      {.parameters = LoopedParameters{.rows_per_tile = 200},
       .threads_per_row = 64,
       .unroll = 3,
       .persistent_blocks = 2},
      {.parameters = LoopedParameters{.prefetch_rows = 1, .rows_per_tile = 2},
       .threads_per_row = 32,
       .unroll = 2,
       .persistent_blocks = 4},
  };
  for (Schedule& schedule : out) {
    schedule.family = "looped";
    schedule.vector_width = whole ? 8 : 1;
    schedule.row_access = whole ? RowAccess::kAligned : RowAccess::kScalar;
    auto& own = std::get<LoopedParameters>(schedule.parameters);
    own.rows_per_tile = std::min(own.rows_per_tile, std::max<int64_t>(facts.space.rows, 1));
    if (prefetched_inputs(facts, schedule).empty()) own.prefetch_rows = 0;
  }
  return out;
}

class TwoPassAt : public ::testing::TestWithParam<int64_t> {
 protected:
  static void check(const Fusion& fusion, int64_t columns) {
    const Plan plan = plan_of(fusion, GetParam(), columns);
    const SegmentFacts& facts = plan.kernels.front().facts;
    if (!facts.has_outer()) return;  // The sums of one row are the row.
    for (const Schedule& schedule : shapes(facts))
      EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule)) << columns << print(schedule);
  }
};

TEST_P(TwoPassAt, GradientsAreTheOracles) {
  for (const char* name : {"layer_norm_backward", "rms_norm_backward_f32", "softmax_backward_bias",
                           "dyt_backward", "marginal_sums", "row_and_total_loss"}) {
    for (const int64_t columns : {1, 7, 96, 1000})
      check(find_canned_fusion(name)->build(), columns);
  }
  check(find_canned_fusion("layer_norm_backward")->build(), 1543);
}

TEST_P(TwoPassAt, RowValuesOfEveryKindAreTheOracles) {
  for (const int64_t columns : {1, 7, 96, 257}) {
    check(scaled_rows(), columns);
    check(masked_rows(), columns);
  }
}

TEST_P(TwoPassAt, ShiftedRowsOfTotalsAreTheOracles) {
  const Fusion fusion = find_canned_fusion("row_and_total_loss")->build();
  for (const int64_t columns : {7, 131, 1543}) {
    const Plan plan = plan_of(fusion, GetParam(), columns);
    const SegmentFacts& facts = plan.kernels.front().facts;
    if (!facts.has_outer()) continue;
    for (Schedule schedule : shapes(facts)) {
      schedule.vector_width = 8;
      schedule.row_access = RowAccess::kUnaligned;
      EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule)) << columns << print(schedule);
    }
  }
}

TEST_P(TwoPassAt, ABlockForEveryRowIsTheOracle) {
  const int64_t rows = GetParam();
  for (const char* name : {"row_and_total_loss", "marginal_sums"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    for (const int64_t columns : {96, 1000}) {
      const Plan plan = plan_of(fusion, rows, columns);
      if (!plan.kernels.front().facts.has_outer()) continue;
      Schedule schedule = shape_of(1);
      schedule.unroll = 4;
      schedule.persistent_blocks = std::max<int64_t>(rows, 1);
      EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule)) << name << print(schedule);
    }
  }
}

TEST_P(TwoPassAt, ClustersAreTheOracles) {
  for (const char* name : {"layer_norm_backward", "dyt_backward", "marginal_sums"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    const Plan plan = plan_of(fusion, GetParam(), 1024);
    if (!plan.kernels.front().facts.has_outer()) continue;
    for (const int64_t rows : {1, 2}) {
      Schedule schedule = shape_of(rows);
      schedule.parameters = LoopedParameters{
          .cluster_size = 4, .rows_per_tile = std::min(rows, std::max<int64_t>(GetParam(), 1))};
      schedule.threads_per_row = 32;
      schedule.persistent_blocks = 12;
      EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule)) << name << print(schedule);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, TwoPassAt, ::testing::Values(0, 1, 2, 17, 133));

}  // namespace sinter::two_pass_test
