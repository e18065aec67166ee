#include "codegen/lower/tile_lowering.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "codegen/lower/lower_rows.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/planning/planner.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::tile_lowering_test {

using testing::ElementsAre;

// ---- Guards

/// y = x * the sum of the row.
Fusion summed_rows(int64_t rows, int64_t columns) {
  FusionBuilder b("summed_rows");
  const ValueId x = b.input(DType::kF32, {rows, columns}, "x");
  b.output(b.mul(x, b.broadcast_over(b.sum(x, {1}), x, {1})), "y");
  return b.build();
}

void expect_summed_rows(int64_t rows, int64_t columns, const Schedule& schedule) {
  using Tensors = ScheduledKernel::Tensors;
  ScheduledKernel(summed_rows(rows, columns), schedule)
      .expect_outputs(
          [=](const Tensors& in) -> Tensors {
            std::vector<float> y = in[0];
            for (auto row = y.begin(); row != y.end(); row += columns) {
              const float sum = std::accumulate(row, row + columns, 0.0F);
              std::for_each(row, row + columns, [&](float& value) { value *= sum; });
            }
            return {y};
          },
          1);
}

constexpr int64_t kThreads = 32;
constexpr int64_t kReach = 4 * kThreads;

/// Rows of whole vectors that end within the reach of a block, at it, and one vector to either
/// side.
TEST(TileLowering, VectorsOutsideOfARowAreNeitherReadNorWritten) {
  for (const int64_t columns :
       {int64_t{4}, int64_t{64}, kReach - 4, kReach, kReach + 4, 2 * kReach - 4}) {
    for (const int64_t unroll : {1, 2}) {
      const Schedule schedule{.family = "looped",
                              .parameters = LoopedParameters{},
                              .threads_per_row = kThreads,
                              .vector_width = 4,
                              .unroll = unroll};
      expect_summed_rows(3, columns, schedule);
    }
  }
}

/// Rows that start and end within a vector: their first and last elements are guarded one by one.
TEST(TileLowering, ElementsOutsideOfAShiftedRowAreNeitherReadNorWritten) {
  for (const int64_t columns : {int64_t{5}, int64_t{63}, kReach - 1, kReach + 1, kReach + 3}) {
    expect_summed_rows(5, columns,
                       {.family = "looped",
                        .parameters = LoopedParameters{},
                        .threads_per_row = kThreads,
                        .vector_width = 4,
                        .row_access = RowAccess::kUnaligned});
  }
}

TEST(TileLowering, SingleElementsOutsideOfARowAreNeitherReadNorWritten) {
  for (const int64_t columns : {int64_t{1}, kThreads - 1, kThreads, kThreads + 1}) {
    expect_summed_rows(5, columns,
                       {.family = "looped",
                        .parameters = LoopedParameters{},
                        .threads_per_row = kThreads,
                        .row_access = RowAccess::kScalar});
  }
}

// ---- Cache hints

/// RMS norm of x times a gate, which only the second stage reads.
Fusion gated() {
  FusionBuilder b;
  const ValueId x = b.input(DType::kBF16, {64, 1024}, "x");
  const ValueId gate = b.input(DType::kBF16, {64, 1024}, "gate");
  const ValueId wide = b.cast(x, DType::kF32);
  const ValueId sum = b.sum(b.mul(wide, wide), {1});
  const ValueId scaled = b.mul(wide, b.broadcast_over(b.rsqrt(sum), wide, {1}));
  b.output(b.cast(b.mul(scaled, b.cast(gate, DType::kF32)), DType::kBF16), "y");
  return b.build();
}

/// Buffer and hint of every load of a tile, in the order of the text.
std::vector<std::string> hints_of(const kir::Kernel& kernel) {
  std::vector<std::string> out;
  for_each<kir::Load>(kernel, kernel.body, [&](const kir::Load& load) {
    if (!kernel.vars[load.tile].is_scalar())
      out.push_back(kernel.buffers[load.buffer].name + " " + std::string(text_of(load.hint)));
  });
  return out;
}

TEST(TileLowering, RowsAreKeptInL2UntilTheyAreReadForTheLastTime) {
  const Plan planned = plan(gated(), {}, *find_device("H200")).value();
  const SegmentFacts& facts = planned.kernels.front().facts;
  Schedule schedule{.family = "looped",
                    .parameters = LoopedParameters{},
                    .threads_per_row = 64,
                    .vector_width = 8,
                    .unroll = 2,
                    .read_priority = ReadPriority::kLastUse};
  EXPECT_THAT(hints_of(lower_rows(facts, schedule).kernel),
              ElementsAre("x evict_last", "x evict_first", "gate evict_first"));
  schedule.read_priority = ReadPriority::kEvictLast;
  EXPECT_THAT(hints_of(lower_rows(facts, schedule).kernel),
              ElementsAre("x evict_last", "x evict_last", "gate evict_last"));
  schedule.family = "multi_wave";
  schedule.parameters = MultiWaveParameters{};
  schedule.read_priority = ReadPriority::kLastUse;
  schedule.kept = {{facts.fusion.inputs.front()}};
  EXPECT_THAT(hints_of(lower_rows(facts, schedule).kernel),
              ElementsAre("x evict_first", "gate evict_first"))
      << "what is kept is read once";
}

}  // namespace sinter::tile_lowering_test
