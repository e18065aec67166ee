// Vectors of two accesses are stored by two threads together.

#include <gmock/gmock.h>

#include <string>

#include "codegen/cuda/emit.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/row_schedule.h"
#include "tests/integration/canned_case.h"

namespace sinter::pair_stores_test {

using testing::HasSubstr;
using testing::Not;

/// Shares of a row in f32 of bf16 logits, and a row's sum.
Fusion wide_shares(int64_t rows, int64_t columns) {
  FusionBuilder b;
  const ValueId x = b.cast(b.input(DType::kBF16, {rows, columns}, "x"), DType::kF32);
  const ValueId sum = b.sum(b.exp(x), {1});
  b.output(b.div(b.exp(x), b.broadcast_over(sum, x, {1})), "y");
  b.output(sum, "sum");
  return b.build();
}

std::string text_of_kernel(const SegmentFacts& facts, const Schedule& schedule) {
  return emit(facts, schedule).value().text;
}

TEST(PairStores, ComputeTheOracleWhereverRowsBegin) {
  for (const int64_t columns : {2048, 2056, 2049, 3079}) {
    const Fusion fusion = wide_shares(5, columns);
    const Plan planned = plan(fusion, {}, *find_device("H200")).value();
    ASSERT_EQ(planned.kernels.size(), 1U);
    const SegmentFacts& facts = planned.kernels.front().facts;
    for (const int64_t width : {8, 16}) {
      for (const Residency residency :
           {Residency::kReload, Residency::kRegister, Residency::kShared}) {
        for (const int64_t cluster : {1, 2}) {
          Schedule schedule{.family = "looped",
                            .parameters = LoopedParameters{.cluster_size = cluster},
                            .threads_per_row = 32,
                            .vector_width = width,
                            .row_access = columns % (width * cluster) == 0 ? RowAccess::kAligned
                                                                           : RowAccess::kUnaligned};
          if (residency != Residency::kReload) {
            schedule.family = "multi_wave";
            schedule.parameters = MultiWaveParameters{.cluster_size = cluster};
            schedule.kept = {{facts.fusion.inputs.front(), residency}};
          }
          EXPECT_THAT(text_of_kernel(facts, schedule), HasSubstr("shuffle_xor(is_odd"))
              << columns << " columns in vectors of " << width << ", " << cluster << " blocks, "
              << text_of(residency);
          EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule))
              << columns << " columns in vectors of " << width;
        }
      }
    }
  }
}

TEST(PairStores, AreOfWholeWarpsThatHaveOneRow) {
  const Fusion fusion = wide_shares(8, 2048);
  const Plan planned = plan(fusion, {}, *find_device("H200")).value();
  const SegmentFacts& facts = planned.kernels.front().facts;
  const Schedule pairs{.family = "looped",
                       .parameters = LoopedParameters{},
                       .threads_per_row = 32,
                       .vector_width = 8};
  EXPECT_TRUE(stores_in_pairs(facts, pairs, 0));
  EXPECT_FALSE(stores_in_pairs(facts, pairs, 1)) << "an element of each row";
  const auto with = [&](auto field, auto value) {
    Schedule schedule = pairs;
    schedule.*field = value;
    return schedule;
  };
  EXPECT_FALSE(stores_in_pairs(facts, with(&Schedule::vector_width, 4), 0)) << "one access";
  EXPECT_FALSE(stores_in_pairs(facts, with(&Schedule::rows_per_block, 2), 0));
  EXPECT_FALSE(stores_in_pairs(facts, with(&Schedule::threads_per_row, 16), 0));
  Schedule several = with(&Schedule::rows_per_block, 2);
  EXPECT_THAT(text_of_kernel(facts, several), Not(HasSubstr("is_odd")));
  EXPECT_TRUE(computes_the_oracle(fusion, planned, several));
}

/// A residual in f32 that bf16 is added to and that a norm follows: the sum may take its memory.
TEST(PairStores, LeaveInputsAloneThatTheThreadBesideStillReads) {
  for (const bool in_place : {false, true}) {
    FusionBuilder b;
    const ValueId x = b.input(DType::kBF16, {6, 2048}, "x");
    const ValueId residual = b.input(DType::kF32, {6, 2048}, "residual");
    const ValueId h = b.add(b.cast(x, DType::kF32), residual);
    b.output(h, "h", in_place ? OutputOptions{.alias = residual} : OutputOptions{});
    b.output(b.sum(b.mul(h, h), {1}), "squares");
    const Fusion fusion = b.build();
    const Plan planned = plan(fusion, {}, *find_device("H200")).value();
    ASSERT_EQ(planned.kernels.size(), 1U);
    const SegmentFacts& facts = planned.kernels.front().facts;
    const Schedule schedule{.family = "looped",
                            .parameters = LoopedParameters{},
                            .threads_per_row = 32,
                            .vector_width = 8};
    EXPECT_EQ(stores_in_pairs(facts, schedule, 0), !in_place);
    EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule));
  }
}

/// Without rows there are tiles of elements, of which the last may be a part, and lists of tensors.
TEST(PairStores, TakeTilesThatNoThreadLeavesBefore) {
  for (const int64_t elements : {2048, 2056, 4099}) {
    FusionBuilder b;
    b.output(b.cast(b.input(DType::kBF16, {elements}, "x"), DType::kF32), "y");
    const Fusion fusion = b.build();
    const Plan planned = plan(fusion, {}, *find_device("H200")).value();
    const SegmentFacts& facts = planned.kernels.front().facts;
    for (const int64_t unroll : {1, 2}) {
      const Schedule schedule{
          .family = "pointwise", .threads_per_row = 128, .vector_width = 8, .unroll = unroll};
      EXPECT_THAT(text_of_kernel(facts, schedule), HasSubstr("shuffle_xor(is_odd"));
      EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule)) << elements << " elements";
    }
  }
}

TEST(PairStores, TakeTilesOfTensorsThatStayAsTheyAre) {
  for (const bool in_place : {false, true}) {
    FusionBuilder b;
    const ValueId x = b.input(DType::kBF16, {4099}, "x");
    const ValueId own = b.input(DType::kF32, {4099}, "own");
    const ValueId sum = b.add(b.cast(x, DType::kF32), own);
    b.output(sum, "y", in_place ? OutputOptions{.alias = own} : OutputOptions{});
    b.output(b.cast(b.exp(sum), DType::kI32), "z");
    const Fusion fusion = b.build();
    const Plan planned = plan(fusion, {}, *find_device("H200")).value();
    ASSERT_EQ(planned.kernels.size(), 1U);
    const SegmentFacts& facts = planned.kernels.front().facts;
    for (const int64_t width : {8, 16}) {
      const Schedule schedule{
          .family = "pointwise", .threads_per_row = 64, .vector_width = width, .unroll = 4};
      EXPECT_EQ(stores_in_pairs(facts, schedule, 0), !in_place);
      EXPECT_TRUE(stores_in_pairs(facts, schedule, 1));
      EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule)) << "vectors of " << width;
    }
  }
}

TEST(PairStores, TakeListsOfTensorsThatStayAsTheyAre) {
  for (const bool in_place : {false, true}) {
    FusionBuilder b;
    for (const int64_t elements : {4096, 1024, 2051, 8}) {
      const ValueId x = b.input(DType::kBF16, {elements});
      const ValueId own = b.input(DType::kF32, {elements});
      b.output(b.add(b.cast(x, DType::kF32), own), "",
               in_place ? OutputOptions{.alias = own} : OutputOptions{});
    }
    const Fusion fusion = b.build();
    const Plan planned = plan(fusion, {}, *find_device("H200")).value();
    ASSERT_EQ(planned.kernels.size(), 1U);
    ASSERT_TRUE(planned.kernels.front().facts.list);
    const Schedule schedule{.family = "multi_tensor", .threads_per_row = 128, .vector_width = 8};
    const std::string text = text_of_kernel(planned.kernels.front().facts, schedule);
    EXPECT_EQ(text.find("shuffle_xor(is_odd") == std::string::npos, in_place) << text;
    EXPECT_TRUE(computes_the_oracle(fusion, planned, schedule));
  }
}

}  // namespace sinter::pair_stores_test
