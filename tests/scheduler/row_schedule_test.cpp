#include "scheduler/schedule/row_schedule.h"

#include <gmock/gmock.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/families/schedule_verifier.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"

namespace sinter::row_schedule_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Geometry depends on the columns alone, so a test over thousands of widths sets just those.
SegmentFacts facts_of_width(int64_t columns) {
  SegmentFacts facts;
  facts.space.columns = columns;
  return facts;
}

SegmentFacts canned_facts(std::string_view name, const ExtentValues& extents) {
  return facts_of(find_canned_fusion(name)->build(), extents);
}

TEST(RowScheduleTest, BatchesCoverEveryColumnOnce) {
  int64_t checked = 0;
  SegmentFacts facts;
  Schedule schedule{.family = "any"};
  for (int64_t columns = 0; columns <= 5000; ++columns) {
    facts.space.columns = columns;
    for (const int64_t threads : {1, 8, 32, 128, 1024}) {
      schedule.threads_per_row = threads;
      for (int64_t width = 1; width <= 16; width *= 2) {
        schedule.vector_width = width;
        for (const RowAccess access :
             {RowAccess::kAligned, RowAccess::kUnaligned, RowAccess::kScalar}) {
          if (access == RowAccess::kAligned && columns % width != 0) continue;
          if (access == RowAccess::kScalar && width != 1) continue;
          schedule.row_access = access;
          const auto spans = batch_spans(facts, schedule);
          const auto rejection = check_batches(facts, schedule, {spans.data(), spans.size()});
          ASSERT_FALSE(rejection.has_value()) << text_of(*rejection) << "\n"
                                              << columns << " columns, " << print(schedule);
          ++checked;
        }
      }
    }
  }
  EXPECT_GT(checked, 150'000);
}

/// Two ways lead to every value but the first: 2^40 ways in all, of which a plan may walk none
/// twice.
TEST(RowScheduleTest, SecondSweepLooksAtEveryValueOnce) {
  FusionBuilder b;
  ValueId y = b.input(DType::kF32, {64, 1000});
  for (int level = 0; level < 40; ++level) y = b.add(b.mul(y, y), y);
  b.output(softmax(b, y));
  const SegmentFacts facts = facts_of(b.build(), {});

  Schedule schedule{.threads_per_row = 256, .vector_width = 4};
  const StageList list = stages_of(facts, schedule);
  ASSERT_FALSE(list.stages.empty());
  EXPECT_FALSE(passes_over_whole_row(facts, schedule, list.stages[0], 0))
      << "it reads the row again";
  schedule.kept = {{.value = facts.fusion.inputs[0], .residency = Residency::kRegister}};
  EXPECT_TRUE(passes_over_whole_row(facts, schedule, list.stages[0], 0));
}

/// check_batches says spans are right; this counts, column by column, wherever rows start.
TEST(RowScheduleTest, CountingColumnsAgrees) {
  for (int64_t columns = 1; columns <= 300; ++columns) {
    const SegmentFacts facts = facts_of_width(columns);
    for (const int64_t width : {1, 2, 8}) {
      const Schedule schedule{
          .threads_per_row = 4, .vector_width = width, .row_access = RowAccess::kUnaligned};
      for (int64_t shift = 0; shift < width; ++shift) {
        const int64_t head = std::min((width - shift) % width, columns);
        std::vector<int> covered(static_cast<size_t>(columns), 0);
        for (const BatchSpan& span : batch_spans(facts, schedule)) {
          for (int64_t vector = span.begin * 4; vector < span.end * 4; ++vector) {
            const int64_t first = head + vector * width;
            const bool whole = first + width <= columns;
            if (span.predication == Predication::kNone) {
              ASSERT_TRUE(whole) << columns << " columns, column " << first << ", shift " << shift;
            }
            for (int64_t lane = 0; lane < width && whole; ++lane)
              ++covered[static_cast<size_t>(first + lane)];
          }
        }
        const int64_t behind = head + (columns - head) / width * width;
        for (int64_t number = 0; number < peeled_count(facts, schedule) * 4; ++number) {
          const int64_t column = number < head ? number : number - head + behind;
          if (column < columns) ++covered[static_cast<size_t>(column)];
        }
        EXPECT_THAT(covered, testing::Each(1)) << columns << " columns, shift " << shift;
      }
    }
  }
}

TEST(RowScheduleTest, SpansOfKnownRows) {
  const auto spans = [](int64_t columns, RowAccess access) {
    return batch_spans(facts_of_width(columns),
                       {.threads_per_row = 32, .vector_width = 8, .row_access = access});
  };
  EXPECT_THAT(spans(0, RowAccess::kAligned), IsEmpty());
  EXPECT_THAT(spans(1024, RowAccess::kAligned), ElementsAre(BatchSpan{0, 4, Predication::kNone}));
  EXPECT_THAT(spans(1032, RowAccess::kAligned), ElementsAre(BatchSpan{0, 4, Predication::kNone},
                                                            BatchSpan{4, 5, Predication::kVector}));
  EXPECT_THAT(
      spans(1024, RowAccess::kUnaligned),
      ElementsAre(BatchSpan{0, 3, Predication::kNone}, BatchSpan{3, 4, Predication::kVector}));
  EXPECT_THAT(spans(1031, RowAccess::kUnaligned), ElementsAre(BatchSpan{0, 4, Predication::kNone}));
  EXPECT_THAT(spans(5, RowAccess::kUnaligned), IsEmpty()) << "edges alone";
}

TEST(RowScheduleTest, EdgesAreDistributedToThreads) {
  const auto edges = [](int64_t columns, int64_t threads, int64_t width) {
    return peeled_count(
        facts_of_width(columns),
        {.threads_per_row = threads, .vector_width = width, .row_access = RowAccess::kUnaligned});
  };
  EXPECT_EQ(edges(1031, 32, 8), 1) << "14 of them at most";
  EXPECT_EQ(edges(1031, 8, 8), 2);
  EXPECT_EQ(edges(1031, 1, 4), 6);
  EXPECT_EQ(edges(3, 1, 8), 3) << "all that there is";
  EXPECT_EQ(edges(0, 32, 8), 0);
  EXPECT_EQ(edges(1031, 32, 1), 0);
  EXPECT_EQ(peeled_count(facts_of_width(1024), {.threads_per_row = 32, .vector_width = 8}), 0);
}

TEST(RowScheduleTest, EdgesComeWithTheLastChunkUnlessThatIsOfALoop) {
  const auto runs = [](int64_t columns) {
    return chunk_runs(
        facts_of_width(columns),
        {.threads_per_row = 32, .vector_width = 8, .row_access = RowAccess::kUnaligned}, 2);
  };
  EXPECT_THAT(runs(1024), ElementsAre(ChunkRun{0, 2, 2, Predication::kNone},
                                      ChunkRun{2, 4, 2, Predication::kVector, true}));
  EXPECT_THAT(runs(1031), ElementsAre(ChunkRun{0, 4, 2, Predication::kNone},
                                      ChunkRun{4, 4, 0, Predication::kVector, true}));
  EXPECT_THAT(runs(519), ElementsAre(ChunkRun{0, 2, 2, Predication::kNone, true}));
  EXPECT_THAT(runs(5), ElementsAre(ChunkRun{0, 0, 0, Predication::kVector, true}));
}

TEST(RowScheduleTest, AccessesAreVectorsWhereAlignmentAllows) {
  const Schedule vector8{.vector_width = 8};
  const auto kind = [&](std::string_view fusion, const ExtentValues& extents,
                        const Schedule& schedule) {
    const SegmentFacts facts = canned_facts(fusion, extents);
    return access_kind(facts, facts.space.inputs.front(), schedule);
  };
  EXPECT_EQ(kind("rms_norm", {{"rows", 4}, {"cols", 64}}, vector8), AccessKind::kVector);
  EXPECT_EQ(kind("rms_norm", {{"rows", 4}, {"cols", 64}}, {}), AccessKind::kElement);
  EXPECT_EQ(kind("misaligned_input", {{"rows", 4}, {"cols", 64}}, vector8), AccessKind::kElement);
  // Rows of 100 elements start at every 4th: not on 16 bytes.
  EXPECT_EQ(kind("rms_norm", {{"rows", 4}, {"cols", 100}}, {.vector_width = 4}),
            AccessKind::kVector);
  EXPECT_EQ(kind("rms_norm", {{"rows", 4}, {"cols", 100}},
                 {.vector_width = 8, .row_access = RowAccess::kUnaligned}),
            AccessKind::kVector);
}

/// Vectors of an output are promised by its own alignment.
TEST(RowScheduleTest, StoresAreVectorsWhereTheOutputsAlignmentAllows) {
  for (const int64_t alignment : {4, 8, 16}) {
    FusionBuilder b("aligned");
    const ValueId x = b.input(DType::kF32, {64, 64}, "x");
    b.output(b.exp(x), "y", {.alignment = alignment});
    const SegmentFacts facts = facts_of(b.build());
    EXPECT_EQ(access_kind(facts, facts.space.outputs.front(), {.vector_width = 4}),
              alignment < 16 ? AccessKind::kElement : AccessKind::kVector)
        << alignment;
    EXPECT_EQ(access_kind(facts, facts.space.outputs.front(), {.vector_width = 2}),
              alignment < 8 ? AccessKind::kElement : AccessKind::kVector)
        << alignment;
  }
}

/// Columns of two dimensions with a gap between: a vector that began in one run would end in the
/// next.
TEST(RowScheduleTest, VectorsDoNotStraddleTheRunsOfAStridedInput) {
  for (const int64_t run : {6, 8}) {
    FusionBuilder b("runs");
    const ValueId x = b.input(DType::kF32, {16, 5, run}, "x", {.strides = {80, 16, 1}});
    b.output(b.sum(x, {1, 2}), "sums");
    const SegmentFacts facts = facts_of(b.build());
    EXPECT_EQ(access_kind(facts, facts.space.inputs.front(), {.vector_width = 4}),
              run == 6 ? AccessKind::kElement : AccessKind::kVector)
        << run;
  }
}

TEST(RowScheduleTest, WeightsDoNotShiftWithTheRows) {
  const SegmentFacts facts = canned_facts("rms_norm", {{"rows", 4}, {"cols", 100}});
  const Schedule shifted{.vector_width = 8, .row_access = RowAccess::kUnaligned};
  for (const TensorAccess& access : facts.space.inputs) {
    const bool is_weight = access.tensor == named_value(facts.fusion, "weight");
    EXPECT_EQ(access_kind(facts, access, shifted),
              is_weight ? AccessKind::kElement : AccessKind::kVector);
  }
}

TEST(RowScheduleTest, ChecksOfRowAccess) {
  const SegmentFacts facts = canned_facts("rms_norm", {{"rows", 4}, {"cols", 100}});
  EXPECT_EQ(check_row_access(facts, {.vector_width = 4}), std::nullopt);
  EXPECT_THAT(text_of(*check_row_access(facts, {.vector_width = 8})),
              HasSubstr("value 4, limit 0 elements left over"));
  EXPECT_EQ(check_row_access(facts, {.vector_width = 8, .row_access = RowAccess::kUnaligned}),
            std::nullopt);
  EXPECT_THAT(
      text_of(*check_row_access(facts, {.vector_width = 2, .row_access = RowAccess::kScalar})),
      HasSubstr("scalar row access takes one element"));
  for (const int64_t width : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{32}}) {
    EXPECT_TRUE(check_row_access(facts, {.vector_width = width}).has_value()) << width;
  }
  const SegmentFacts misaligned = canned_facts("misaligned_input", {{"rows", 4}, {"cols", 96}});
  const SegmentFacts f32 = canned_facts("row_sum_f32", {{"rows", 4}, {"cols", 96}});
  EXPECT_NE(shift_reference(f32), nullptr);
  // Its output is a full tensor on an aligned base, so rows can be shifted against that.
  ASSERT_NE(shift_reference(misaligned), nullptr);
  EXPECT_EQ(shift_reference(misaligned)->value, misaligned.fusion.outputs[0]);
}

TEST(RowScheduleTest, ExchangesCarryTuples) {
  const auto types = [](std::string_view name) -> decltype(exchange_types({}, {})) {
    const SegmentFacts facts = canned_facts(name, {{"rows", 4}, {"cols", 64}});
    for (const Op& op : facts.fusion.ops) {
      if (is_reduction(op.kind)) return exchange_types(facts.fusion, op);
    }
    return {};
  };
  EXPECT_THAT(types("row_sum"), ElementsAre(DType::kF32));
  EXPECT_THAT(types("layer_norm"), ElementsAre(DType::kF32, DType::kF32, DType::kF32));
  EXPECT_THAT(types("softmax"), ElementsAre(DType::kF32, DType::kF32));
  EXPECT_THAT(types("row_argmax"), ElementsAre(DType::kF32, DType::kI32));
  EXPECT_THAT(types("row_any"), ElementsAre(DType::kBool));
}

TEST(RowScheduleTest, TuplesOfWordsAreSentTogether) {
  using enum DType;
  const auto together = [](std::vector<DType> types) { return sent_together(types); };
  EXPECT_EQ(together({kF32}), 1);
  EXPECT_EQ(together({kF32, kF32}), 2);
  EXPECT_EQ(together({kF32, kF32, kF32}), 4) << "no store has three elements";
  EXPECT_EQ(together({kF32, kI32}), 1) << "a buffer has one type";
  EXPECT_EQ(together({kF64, kF64}), 1);
  EXPECT_EQ(together({kBool, kBool}), 1) << "they travel as i32, one by one";
  EXPECT_EQ(together({}), 1);
}

TEST(RowScheduleTest, BalancedBlocksTakeNoMoreRounds) {
  EXPECT_EQ(balanced_blocks(8192, 132), 131);  // 63 rounds either way.
  EXPECT_EQ(balanced_blocks(2048, 264), 256);
  EXPECT_EQ(balanced_blocks(5, 132), 5);
  EXPECT_EQ(balanced_blocks(0, 132), 1);
  EXPECT_EQ(balanced_blocks(7, 0), 1);
}

TEST(RowScheduleTest, WhatFillsNoChunkIsOneMore) {
  const auto chunks = [](int64_t columns, RowAccess access) {
    return chunk_count(
        canned_facts("rms_norm", {{"rows", 4}, {"cols", columns}}),
        {.threads_per_row = 32, .vector_width = 8, .unroll = 4, .row_access = access});
  };
  EXPECT_EQ(chunks(0, RowAccess::kAligned), 0);
  EXPECT_EQ(chunks(1024, RowAccess::kAligned), 1);
  EXPECT_EQ(chunks(1032, RowAccess::kAligned), 2);
  EXPECT_EQ(chunks(1031, RowAccess::kUnaligned), 1) << "four batches, and edges beside them";
  EXPECT_EQ(chunks(1063, RowAccess::kUnaligned), 2);
  EXPECT_EQ(chunks(2055, RowAccess::kUnaligned), 3) << "two chunks of a loop, and edges alone";
}

TEST(RowScheduleTest, RunsOfChunksAreTheSpansInOrder) {
  for (const int64_t columns : {1024, 1031, 1032, 2055, 8200, 50257}) {
    const SegmentFacts facts = canned_facts("rms_norm", {{"rows", 4}, {"cols", columns}});
    for (const int64_t unroll : {1, 2, 4}) {
      const Schedule schedule{
          .threads_per_row = 32,
          .vector_width = 8,
          .unroll = unroll,
          .row_access = columns % 8 == 0 ? RowAccess::kAligned : RowAccess::kUnaligned};
      int64_t next = 0;
      int64_t chunks = 0;
      for (const ChunkRun& run : chunk_runs(facts, schedule, unroll)) {
        EXPECT_EQ(run.begin, next);
        if (run.batches > 0) {
          EXPECT_EQ((run.end - run.begin) % run.batches, 0);
        }
        chunks += run.is_one() ? 1 : (run.end - run.begin) / run.batches;
        next = run.end;
      }
      EXPECT_EQ(next, batch_count(facts, schedule));
      EXPECT_EQ(chunks, chunk_count(facts, schedule)) << columns << " columns, unroll " << unroll;
    }
  }
}

}  // namespace sinter::row_schedule_test
