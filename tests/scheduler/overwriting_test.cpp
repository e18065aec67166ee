// Which schedules may write an output into the memory of an input: those that have read all that
// they still need.

#include "scheduler/families/overwriting.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/schedule/family_names.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::overwriting_test {

using testing::HasSubstr;

constexpr int64_t kRows = 12;

/// s = x + r in the place of r, and s over the root of the sum of its squares.
SegmentFacts added() {
  FusionBuilder b("added");
  const ValueId x = b.input(DType::kF32, {kRows, 512}, "x");
  const ValueId r = b.input(DType::kF32, {kRows, 512}, "r");
  const ValueId s = b.add(x, r);
  b.output(s, "s", {.alias = r});
  b.output(b.mul(s, b.broadcast_over(b.rsqrt(b.sum(b.mul(s, s), {1})), s, {1})), "y");
  return facts_of(b.build());
}

std::string reason_against(const SegmentFacts& facts, const Schedule& schedule) {
  const FamilySet families = scheduling_families();
  const auto rejection = check_in_place(facts, schedule, *find_family(families, schedule.family));
  return rejection ? text_of(*rejection) : "";
}

Schedule resident(const SegmentFacts& facts) {
  return {.family = "multi_wave",
          .parameters = MultiWaveParameters{},
          .threads_per_row = 128,
          .vector_width = 4,
          .kept = {{named_value(facts.fusion, "s"), Residency::kRegister}}};
}

TEST(OverwritingTest, RowsThatAreKeptMayBeOverwritten) {
  const SegmentFacts facts = added();
  ASSERT_EQ(facts.in_place.size(), 1U);
  EXPECT_EQ(reason_against(facts, resident(facts)), "");
}

TEST(OverwritingTest, WhatWasOverwrittenIsNotReadAgain) {
  const SegmentFacts facts = added();
  EXPECT_THAT(
      reason_against(
          facts, {.family = "looped", .parameters = LoopedParameters{}, .threads_per_row = 128}),
      HasSubstr("reads an input again whose memory an output took over before"));
}

TEST(OverwritingTest, SlotsWithoutARowOverwriteNone) {
  const SegmentFacts facts = added();
  Schedule schedule = resident(facts);
  schedule.rows_per_block = 4;
  EXPECT_EQ(reason_against(facts, schedule), "");
  schedule.rows_per_block = 8;
  EXPECT_THAT(reason_against(facts, schedule), HasSubstr("reads a row again that it overwrites"));
}

TEST(OverwritingTest, BlocksWithoutARowOverwriteNone) {
  const SegmentFacts facts = added();
  Schedule schedule = resident(facts);
  schedule.persistent_blocks = kRows;
  EXPECT_EQ(reason_against(facts, schedule), "");
  schedule.persistent_blocks = kRows + 1;
  EXPECT_THAT(reason_against(facts, schedule), HasSubstr("a block without a row"));
}

// Lanes of the last tile of a batch repeat its last row where rows are reduced; otherwise they read
// none.
TEST(OverwritingTest, TilesBeyondTheRowsOverwriteNone) {
  const auto product = [](int64_t rows, bool reduces) {
    FusionBuilder b("product");
    const ValueId x = b.input(DType::kBF16, {2, rows, 64}, "x");
    const ValueId w = b.input(DType::kBF16, {2, 64, 64}, "w");
    const ValueId r = b.input(DType::kF32, {2, rows, 64}, "r");
    const ValueId y = b.contract("bmk,bnk->bmn", x, w);
    const ValueId z = reduces ? b.sub(y, b.broadcast_over(b.amax(y, {2}), y, {2})) : y;
    b.output(b.add(z, r), "y", {.alias = r});
    return facts_of(b.build());
  };
  const Schedule schedule{.family = std::string(kMatmul),
                          .parameters = MatmulParameters{.tile_rows = 64,
                                                         .tile_columns = 64,
                                                         .tile_depth = 32,
                                                         .row_warps = 4,
                                                         .pipeline_stages = 2},
                          .threads_per_row = 128,
                          .vector_width = 2};
  EXPECT_EQ(reason_against(product(128, true), schedule), "");
  EXPECT_EQ(reason_against(product(96, false), schedule), "");
  Schedule in_turns = schedule;
  in_turns.rows_per_block = 2;
  EXPECT_EQ(reason_against(product(33, false), in_turns), "");
  EXPECT_THAT(reason_against(product(96, true), schedule),
              HasSubstr("reads a row again that it overwrites"))
      << "of the 192 rows of both batches, three tiles would have all";
}

TEST(OverwritingTest, ThreadsThatExchangeElementsOverwriteNone) {
  const SegmentFacts facts = added();
  Schedule schedule = resident(facts);
  schedule.family = std::string(kTranspose);
  schedule.parameters = NoParameters{};
  EXPECT_THAT(reason_against(facts, schedule), HasSubstr("threads store elements"));
}

TEST(OverwritingTest, WithoutSuchOutputsEverythingMay) {
  const SegmentFacts facts = canned_facts("rms_norm", 13, 512);
  EXPECT_EQ(reason_against(facts, {.family = "looped",
                                   .parameters = LoopedParameters{},
                                   .threads_per_row = 32,
                                   .rows_per_block = 8}),
            "");
}

/// A row slot of the column family takes `unroll` rows at a time, one of a pipeline its
/// iteration's.
TEST(OverwritingTest, RowsOfSlotsAreThoseThatABlockTakesTogether) {
  const FamilySet families = scheduling_families();
  const auto rows = [&](const Schedule& schedule) {
    return rows_of_slots(schedule, *find_family(families, schedule.family));
  };
  EXPECT_EQ(
      rows(
          {.family = "column", .parameters = ColumnParameters{}, .rows_per_block = 8, .unroll = 4}),
      32);
  EXPECT_EQ(
      rows(
          {.family = "looped", .parameters = LoopedParameters{}, .rows_per_block = 8, .unroll = 4}),
      8)
      << "it unrolls batches of one row";
  EXPECT_EQ(rows({.family = "warp_specialised",
                  .parameters = WarpSpecialisedParameters{.rows_per_iteration = 2},
                  .rows_per_block = 3}),
            6);
}

}  // namespace sinter::overwriting_test
