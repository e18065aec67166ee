// Kernels whose last block finishes what all have left: their numbers are right at any size, and
// they compile within their estimates.

#include <gmock/gmock.h>

#include "runtime/compile/compile_kernel.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/row_schedule.h"
#include "tests/integration/canned_case.h"

namespace sinter::last_block_finish_test {

DeviceLimits h200() { return *find_device("H200"); }

Plan plan_of(std::string_view name, int64_t rows, int64_t columns) {
  const CannedFusion& canned = *find_canned_fusion(name);
  return plan(canned.build(), extents_of_width(canned, columns, rows), h200(),
              {.families = builtin_families()})
      .value();
}

Schedule with_last_block_finish(Schedule schedule) {
  schedule.finish = Finish::kLastBlock;
  return schedule;
}

/// Few and many threads, more blocks than rows and fewer, clusters: 1 to 8 columns for a thread.
std::vector<Schedule> shapes_of_rows(bool whole) {
  const RowAccess access = whole ? RowAccess::kAligned : RowAccess::kScalar;
  const int64_t width = whole ? 8 : 1;
  const MultiWaveParameters alone;
  std::vector<Schedule> shapes = {
      {.parameters = alone, .threads_per_row = 32, .persistent_blocks = 9},
      {.parameters = alone, .threads_per_row = 32, .rows_per_block = 3, .persistent_blocks = 5},
      {.parameters = alone, .threads_per_row = 128, .rows_per_block = 2, .persistent_blocks = 40},
      {.parameters = alone, .threads_per_row = 64, .persistent_blocks = 1},
  };
  if (whole) {
    shapes.push_back({.parameters = MultiWaveParameters{.cluster_size = 4},
                      .threads_per_row = 32,
                      .persistent_blocks = 12});
  }
  for (Schedule& shape : shapes) {
    shape.family = "multi_wave";
    shape.vector_width = width;
    shape.row_access = access;
    shape.finish = Finish::kLastBlock;
  }
  return shapes;
}

class LastBlockFinishAt : public ::testing::TestWithParam<int64_t> {};

TEST_P(LastBlockFinishAt, RowsAreTheOracles) {
  const int64_t rows = GetParam();
  for (const char* name : {"layer_norm_backward", "dyt_backward", "softmax_backward_bias",
                           "row_and_total_loss", "marginal_sums"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    for (const int64_t columns : {8, 67, 96, 512}) {
      const Plan plan = plan_of(name, rows, columns);
      const SegmentFacts& facts = plan.kernels.front().facts;
      if (!facts.has_outer()) continue;  // One row is no matrix.
      for (Schedule schedule : shapes_of_rows(columns % 32 == 0)) {
        for (const ValueId value : facts.kept) schedule.kept.push_back({value});
        EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule));
      }
    }
  }
}

TEST_P(LastBlockFinishAt, PipelinesAreTheOracles) {
  const int64_t rows = GetParam();
  for (const char* name : {"layer_norm_backward", "dyt_backward", "marginal_sums"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    const Plan plan = plan_of(name, rows, 512);
    const SegmentFacts& facts = plan.kernels.front().facts;
    if (!facts.has_outer()) continue;
    for (Schedule schedule : {
             Schedule{.parameters = WarpSpecialisedParameters{.pipeline_stages = 8},
            .threads_per_row = 32,
            .rows_per_block = 4,
            .persistent_blocks = 7},
             Schedule{.parameters = WarpSpecialisedParameters{.pipeline_stages = 3},
             .threads_per_row = 128,
             .rows_per_block = 3,
             .persistent_blocks = 3},
             Schedule{.parameters = WarpSpecialisedParameters{.pipeline_stages = 2},
             .threads_per_row = 128,
             .persistent_blocks = 5},
             Schedule{
                 .parameters = WarpSpecialisedParameters{.cluster_size = 2, .pipeline_stages = 4},
        .threads_per_row = 64,
        .rows_per_block = 2,
        .persistent_blocks = 6},
         }) {
      schedule.family = "warp_specialised";
      schedule.vector_width = 8;
      for (const ValueId value : facts.kept) schedule.kept.push_back({value});
      EXPECT_TRUE(computes_the_oracle(fusion, plan, with_last_block_finish(schedule)));
    }
  }
}

TEST_P(LastBlockFinishAt, ColumnsAreTheOracles) {
  const int64_t rows = GetParam();
  for (const char* name : {"bias_gradient", "column_sum", "weighted_column_mean"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    for (const int64_t columns : {4, 68, 512}) {
      const Plan plan = plan_of(name, rows, columns);
      const SegmentFacts& facts = plan.kernels.front().facts;
      if (!facts.has_outer()) continue;
      for (Schedule schedule : {
               Schedule{.parameters = ColumnParameters{},
              .threads_per_row = 8,
              .rows_per_block = 4,
              .persistent_blocks = 3},
               Schedule{.parameters = ColumnParameters{},
               .threads_per_row = 16,
               .rows_per_block = 8,
               .unroll = 2,
               .persistent_blocks = 6},
               Schedule{.parameters = ColumnParameters{.cluster_size = 2},
               .threads_per_row = 4,
               .rows_per_block = 8,
               .persistent_blocks = 8},
               // Strips of 48 columns, for which slots have 16 threads of four.
               Schedule{.parameters = ColumnParameters{},
               .threads_per_row = 12,
               .rows_per_block = 8,
               .persistent_blocks = 4},
           }) {
        schedule.family = std::string(kColumn);
        schedule.vector_width = 4;
        EXPECT_TRUE(computes_the_oracle(fusion, plan, with_last_block_finish(schedule)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, LastBlockFinishAt, ::testing::Values(0, 1, 2, 17, 131));

TEST(LastBlockFinish, CompilesWithoutSpillsWithinItsEstimate) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  KernelCache cache{{}};
  for (const auto& [name, rows, columns] :
       std::vector<std::tuple<const char*, int64_t, int64_t>>{{"dyt_backward", 2048, 64},
                                                              {"marginal_sums", 4096, 256},
                                                              {"row_and_total_loss", 2048, 4096},
                                                              {"layer_norm_backward", 512, 64},
                                                              {"bias_gradient", 65536, 64}}) {
    const Plan planned = plan_of(name, rows, columns);
    for (const ProposedSchedule& candidate : planned.kernels.front().candidates) {
      if (candidate.schedule.finish != Finish::kLastBlock) continue;
      const auto source = emit(planned.kernels.front().facts, candidate.schedule);
      ASSERT_TRUE(source) << source.error().text();
      const auto compiled = compile_kernel(*compiler, cache, *source,
                                           Architecture::parse(architecture_of(h200())).value());
      ASSERT_TRUE(compiled) << compiled.error().text();
      EXPECT_EQ(compiled->kernel->resources.spill_store_bytes, 0) << name << "\n"
                                                                  << print(candidate.schedule);
      EXPECT_LE(compiled->kernel->resources.registers, candidate.estimate.registers * 5 / 4)
          << name << "\n"
          << print(candidate.schedule);
      EXPECT_EQ(source->shared_bytes, candidate.estimate.shared_bytes);
    }
  }
}

}  // namespace sinter::last_block_finish_test
