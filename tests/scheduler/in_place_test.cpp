// Outputs that take over the memory of an input: which segments and schedules may write there.

#include "scheduler/analysis/in_place.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/overwriting.h"
#include "scheduler/families/transpose.h"
#include "scheduler/schedule/family_names.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::in_place_test {

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

TEST(InPlaceTest, RowsThatAreKeptMayBeOverwritten) {
  const SegmentFacts facts = added();
  ASSERT_EQ(facts.in_place.size(), 1U);
  EXPECT_EQ(reason_against(facts, resident(facts)), "");
}

TEST(InPlaceTest, WhatWasOverwrittenIsNotReadAgain) {
  const SegmentFacts facts = added();
  EXPECT_THAT(
      reason_against(
          facts, {.family = "looped", .parameters = LoopedParameters{}, .threads_per_row = 128}),
      HasSubstr("reads an input again whose memory an output took over before"));
}

TEST(InPlaceTest, SlotsWithoutARowOverwriteNone) {
  const SegmentFacts facts = added();
  Schedule schedule = resident(facts);
  schedule.rows_per_block = 4;
  EXPECT_EQ(reason_against(facts, schedule), "");
  schedule.rows_per_block = 8;
  EXPECT_THAT(reason_against(facts, schedule), HasSubstr("reads a row again that it overwrites"));
}

TEST(InPlaceTest, BlocksWithoutARowOverwriteNone) {
  const SegmentFacts facts = added();
  Schedule schedule = resident(facts);
  schedule.persistent_blocks = kRows;
  EXPECT_EQ(reason_against(facts, schedule), "");
  schedule.persistent_blocks = kRows + 1;
  EXPECT_THAT(reason_against(facts, schedule), HasSubstr("a block without a row"));
}

TEST(InPlaceTest, ThreadsThatExchangeElementsOverwriteNone) {
  const SegmentFacts facts = added();
  Schedule schedule = resident(facts);
  schedule.family = std::string(kTranspose);
  schedule.parameters = NoParameters{};
  EXPECT_THAT(reason_against(facts, schedule), HasSubstr("threads store elements"));
}

/// What the elements of an input are needed for elsewhere keeps it from being overwritten here.
TEST(InPlaceTest, ReadsOfOtherElementsAreRefused) {
  const auto refusal_of = [](const std::function<ValueId(FusionBuilder&, ValueId)>& make) {
    FusionBuilder b("other_elements");
    const ValueId x = b.input(DType::kF32, {64, 64}, "x");
    b.output(make(b, x), "y", {.alias = x});
    const auto facts = analyse(simplify(specialize(b.build(), {})));
    return facts ? std::string() : text_of(facts.error());
  };
  EXPECT_EQ(refusal_of([](FusionBuilder& b, ValueId x) { return b.exp(x); }), "");
  EXPECT_THAT(refusal_of([](FusionBuilder& b, ValueId x) {
                return b.exp(b.permute(x, {1, 0}));
              }),
              HasSubstr("at other elements than an output overwrites"));
  EXPECT_THAT(
      refusal_of([](FusionBuilder& b, ValueId x) {
        const ValueId index = b.input(DType::kI64, {64, 64}, "index");
        const ValueId row = b.slice(index, {0, 0}, {-1, 1});
        return b.add(b.exp(x), b.broadcast(b.take(x, b.reshape(row, {64}), 1), {64, 64}, {0}));
      }),
      HasSubstr("in place"));
}

}  // namespace sinter::in_place_test
