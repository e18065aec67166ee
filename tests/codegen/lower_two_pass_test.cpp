#include "codegen/lower/lower_two_pass.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "codegen/lower/lower_rows.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/planning/planner.h"
#include "tests/codegen/scheduled_kernel.h"
#include "tests/support/canned_fusions.h"

namespace sinter::lower_two_pass_test {

SegmentFacts facts_of(std::string_view name, int64_t rows, int64_t columns) {
  return plan(find_canned_fusion(name)->build(), {{"rows", rows}, {"cols", columns}},
              *find_device("H200"), {.families = builtin_families(), .pin = {.family = "looped"}})
      .value()
      .kernels.front()
      .facts;
}

Schedule shape_of(int64_t rows_per_tile) {
  return {.family = "looped",
          .parameters = LoopedParameters{.rows_per_tile = rows_per_tile},
          .threads_per_row = 64,
          .vector_width = 8,
          .persistent_blocks = 4};
}

bool is_over_tiles(const kir::Kernel& kernel, const kir::For& loop) {
  return kernel.vars[loop.index].name == "row_tile";
}

/// Loops over rows of a tile, outermost ones of the kernel or of its loop over tiles.
std::vector<const kir::For*> row_loops(const kir::Kernel& kernel) {
  std::vector<const kir::For*> loops;
  kir::for_each_stmt(kernel, kernel.body, [&](kir::StmtId id) {
    const auto* loop = std::get_if<kir::For>(&kernel.stmts[id].kind);
    if (loop == nullptr || is_over_tiles(kernel, *loop)) return;
    if (kernel.vars[loop->index].name.starts_with("r")) loops.push_back(loop);
  });
  return loops;
}

bool loops_over_tiles(const kir::Kernel& kernel) {
  return count_of<kir::For>(kernel, kernel.body,
                            [&](const kir::For& loop) { return is_over_tiles(kernel, loop); }) > 0;
}

bool is_partials(const kir::Kernel& kernel, kir::BufferId buffer) {
  return kernel.buffers[buffer].name.ends_with("_partials");
}

TEST(LowerTwoPass, RowsAreReducedBeforeAnyIsStored) {
  const kir::Kernel kernel =
      lower_rows(facts_of("layer_norm_backward", 64, 1024), shape_of(4)).kernel;
  const std::vector<const kir::For*> loops = row_loops(kernel);
  ASSERT_EQ(loops.size(), 2U) << "the rows, and the rows for each of two chunks";
  const auto stores_global = [&](const kir::Store& store) {
    return kernel.buffers[store.buffer].space == kir::Space::kGlobal;
  };
  EXPECT_EQ(count_of<kir::AllReduce>(kernel, loops[0]->body), 1);
  EXPECT_EQ(count_of<kir::Store>(kernel, loops[0]->body, stores_global), 0);
  EXPECT_EQ(count_of<kir::Store>(kernel, loops[0]->body), 4) << "row values for later";
  EXPECT_EQ(count_of<kir::AllReduce>(kernel, loops[1]->body), 0);
  EXPECT_EQ(count_of<kir::Store>(kernel, loops[1]->body, stores_global), 1) << "dx";
}

TEST(LowerTwoPass, WeightsAreReadOnceAChunk) {
  const kir::Kernel kernel =
      lower_rows(facts_of("layer_norm_backward", 64, 1024), shape_of(4)).kernel;
  const kir::For& again = *row_loops(kernel)[1];
  EXPECT_EQ(count_of<kir::Load>(kernel, again.body,
                                [&](const kir::Load& load) {
                                  return kernel.buffers[load.buffer].name == "weight";
                                }),
            0);
}

// 64 rows over 4 blocks are 16 each.
TEST(LowerTwoPass, PartialResultsAreReadWhereThereAreSeveral) {
  const SegmentFacts facts = facts_of("layer_norm_backward", 64, 1024);
  for (const int64_t rows : {4, 15, 16, 64}) {
    const kir::Kernel kernel = lower_rows(facts, shape_of(rows)).kernel;
    const bool several = rows < 16;
    EXPECT_EQ(loops_over_tiles(kernel), several) << rows;
    EXPECT_EQ(count_of<kir::Barrier>(kernel, kernel.body), several ? 2 : 1);
    EXPECT_EQ(count_of<kir::Load>(
                  kernel, kernel.body,
                  [&](const kir::Load& load) { return is_partials(kernel, load.buffer); }),
              several ? 2 : 0);
    EXPECT_EQ(count_of<kir::Store>(
                  kernel, kernel.body,
                  [&](const kir::Store& store) { return is_partials(kernel, store.buffer); }),
              2);
    for (const kir::Buffer& buffer : kernel.buffers) {
      if (!buffer.name.ends_with("_partials")) continue;
      EXPECT_EQ(buffer.access, several ? kir::Access::kReadWrite : kir::Access::kWrite);
    }
  }
}

TEST(LowerTwoPass, WithoutStatisticsThereIsOnePart) {
  const kir::Kernel kernel = lower_rows(facts_of("dyt_backward", 64, 1024), shape_of(16)).kernel;
  EXPECT_EQ(row_loops(kernel).size(), 1U);
  EXPECT_EQ(count_of<kir::Barrier>(kernel, kernel.body), 0);
  for (const kir::Buffer& buffer : kernel.buffers) EXPECT_EQ(buffer.space, kir::Space::kGlobal);
}

TEST(LowerTwoPass, TheNextRowIsOnItsWayBeforeOneIsStored) {
  Schedule schedule = shape_of(4);
  std::get<LoopedParameters>(schedule.parameters).prefetch_rows = 1;
  const kir::Kernel kernel = lower_rows(facts_of("layer_norm_backward", 64, 1024), schedule).kernel;
  int64_t ahead = 0;
  bool stored = false;
  kir::for_each_stmt(kernel, row_loops(kernel).at(1)->body, [&](kir::StmtId id) {
    const kir::StmtKind& kind = kernel.stmts[id].kind;
    stored = stored || std::holds_alternative<kir::Store>(kind);
    const auto* load = std::get_if<kir::Load>(&kind);
    if (load == nullptr || kernel.buffers[load->buffer].space != kir::Space::kGlobal) return;
    EXPECT_TRUE(kernel.vars[load->tile].name.ends_with("_next"));
    EXPECT_FALSE(stored);
    ++ahead;
  });
  EXPECT_EQ(ahead, 2) << "x and dy";
}

using Tensors = ScheduledKernel::Tensors;

constexpr int64_t kColumns = 1024;

/// y = s * s * x and the sums of its columns. No reduction gives s * s: threads share the rows of a
/// turn, and no exchange of statistics keeps one turn from the next.
Fusion squared_rows(int64_t rows) {
  FusionBuilder b("squared_rows");
  const ValueId x = b.input(DType::kF32, {rows, kColumns}, "x");
  const ValueId s = b.input(DType::kF32, {rows}, "s");
  const ValueId y = b.mul(x, b.broadcast(b.mul(s, s), {rows, kColumns}, {0}));
  b.output(y, "y");
  b.output(b.sum(y, {0}), "columns");
  return b.build();
}

/// y = x - the row's maximum, and the sums of its columns.
Fusion lowered_rows(int64_t rows) {
  FusionBuilder b("lowered_rows");
  const ValueId x = b.input(DType::kF32, {rows, kColumns}, "x");
  const ValueId y = b.sub(x, b.broadcast_over(b.amax(x, {1}), x, {1}));
  b.output(y, "y");
  b.output(b.sum(y, {0}), "columns");
  return b.build();
}

Tensors squared(const Tensors& in) {
  std::vector<float> y = in[0];
  for (size_t i = 0; i < y.size(); ++i) {
    const float s = in[1][i / static_cast<size_t>(kColumns)];
    y[i] *= s * s;
  }
  return {y, column_sums(y, kColumns)};
}

Tensors below_maximum(const Tensors& in) {
  std::vector<float> y = in[0];
  for (auto row = y.begin(); row != y.end(); row += kColumns) {
    const float largest = *std::max_element(row, row + kColumns);
    std::for_each(row, row + kColumns, [&](float& value) { value -= largest; });
  }
  return {y, column_sums(y, kColumns)};
}

/// Several turns of several rows, warps that run apart.
Schedule tiles_of(int64_t rows) {
  return {.family = "looped",
          .parameters = LoopedParameters{.rows_per_tile = rows},
          .threads_per_row = 128,
          .vector_width = 4,
          .persistent_blocks = 2};
}

TEST(LowerTwoPass, RowValuesAreReadBeforeTheNextTileOverwritesThem) {
  for (const int64_t rows : {1, 3}) {
    const ScheduledKernel kernel(squared_rows(23), tiles_of(rows));
    kernel.expect_outputs(squared);
  }
}

TEST(LowerTwoPass, RowValuesAreWrittenBeforeTheSecondPartReadsThem) {
  for (const int64_t rows : {1, 3, 12}) {
    const ScheduledKernel kernel(lowered_rows(23), tiles_of(rows));
    kernel.expect_outputs(below_maximum);
  }
  Schedule ahead = tiles_of(4);
  std::get<LoopedParameters>(ahead.parameters).prefetch_rows = 1;
  ScheduledKernel(lowered_rows(23), ahead).expect_outputs(below_maximum);
}

TEST(LowerTwoPass, BlocksOfAClusterKeepTheirTilesApart) {
  Schedule schedule = tiles_of(2);
  schedule.threads_per_row = 64;
  std::get<LoopedParameters>(schedule.parameters).cluster_size = 2;
  schedule.persistent_blocks = 4;
  ScheduledKernel(squared_rows(21), schedule).expect_outputs(squared);
  ScheduledKernel(lowered_rows(21), schedule).expect_outputs(below_maximum);
}

}  // namespace sinter::lower_two_pass_test
