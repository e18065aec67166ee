// Kernels whose groups work on several rows of a pipeline side by side: what they wait for and in
// which order, and that their numbers are right for every number of rows that is left over.

#include <gmock/gmock.h>

#include <algorithm>

#include "codegen/kernel/kernel_traversal.h"
#include "codegen/lower/lower_pipeline.h"
#include "runtime/compile/compile_kernel.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/warp_specialised.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"
#include "tests/support/canned_groups.h"
#include "tests/support/effort.h"

namespace sinter::rows_per_iteration_test {

using ::testing::ElementsAre;

Plan plan_of(const Fusion& fusion, int64_t rows, int64_t columns) {
  return plan(fusion, {{"rows", rows}, {"cols", columns}}, *find_device("H200"),
              {.families = builtin_families()})
      .value();
}

Plan plan_of(std::string_view name, int64_t rows, int64_t columns) {
  return plan_of(find_canned_fusion(name)->build(), rows, columns);
}

/// Where the values that are kept lie: those of a row, and weights.
struct Keeps {
  Residency rows = Residency::kReload;
  Residency weights = Residency::kReload;
};

/// The shape as a pipeline of that many rows side by side, with up to `slots` slots for each group.
Schedule pipeline_of(const SegmentFacts& facts, Schedule shape, int64_t rows, Keeps keeps,
                     int64_t slots = 2) {
  shape.family = "warp_specialised";
  constexpr int64_t kMostStages = 32;
  const int64_t turn = rows * shape.rows_per_block;
  shape.parameters = WarpSpecialisedParameters{
      .cluster_size = shape.cluster_size(),
      .pipeline_stages = std::max<int64_t>(std::min(slots, kMostStages / turn) * turn, 2),
      .rows_per_iteration = rows};
  for (const ValueId value : facts.kept)
    shape.kept.push_back({value, facts.is_read(value) ? keeps.rows : Residency::kRegister});
  if (keeps.weights != Residency::kReload) {
    for (const TensorAccess& access : facts.space.inputs) {
      if (facts.is_tile(access.value) && !facts.is_full(access.value))
        shape.kept.push_back({access.value, keeps.weights});
    }
  }
  std::ranges::sort(shape.kept);
  return shape;
}

/// What the compute groups and the producer of a pipeline do, in the order of their statements.
struct Steps {
  int64_t waits = 0;
  int64_t releases = 0;
  int64_t copies = 0;
  std::vector<size_t> exchanged{};  ///< Parts of each exchange.
};

Steps steps_of(const kir::Kernel& kernel, const kir::Block& block) {
  Steps steps;
  kir::for_each_stmt(kernel, block, [&](kir::StmtId id) {
    const kir::StmtKind& kind = kernel.stmts[id].kind;
    steps.waits += int64_t{std::holds_alternative<kir::MbarrierWait>(kind)};
    steps.releases += int64_t{std::holds_alternative<kir::MbarrierArrive>(kind)};
    steps.copies += int64_t{std::holds_alternative<kir::BulkCopy>(kind)};
    if (const auto* all = std::get_if<kir::AllReduce>(&kind))
      steps.exchanged.push_back(all->parts.size());
  });
  return steps;
}

/// The steps of the loops of that name, in the order in which they stand.
std::vector<Steps> loops_named(const kir::Kernel& kernel, std::string_view name) {
  std::vector<Steps> out;
  kir::for_each_stmt(kernel, kernel.body, [&](kir::StmtId id) {
    const auto* loop = std::get_if<kir::For>(&kernel.stmts[id].kind);
    if (loop != nullptr && kernel.vars[loop->index].name.starts_with(name))
      out.push_back(steps_of(kernel, loop->body));
  });
  return out;
}

TEST(RowsPerIteration, OneWaitOneExchangeAndOneReleaseServeAllRows) {
  const Plan plan = plan_of("layer_norm_backward", 64, 512);
  const SegmentFacts& facts = plan.kernels.front().facts;
  const Schedule shape{
      .threads_per_row = 64, .rows_per_block = 2, .vector_width = 8, .persistent_blocks = 8};
  for (const int64_t rows : {1, 2, 4}) {
    for (const Residency kept : {Residency::kRegister, Residency::kReload}) {
      const Schedule schedule = pipeline_of(facts, shape, rows, {.rows = kept});
      const kir::Kernel kernel = lower_pipeline(facts, schedule).kernel;
      for (const kir::Mbarrier& mbarrier : kernel.mbarriers) EXPECT_EQ(mbarrier.count, 4);
      const std::vector<Steps> loops = loops_named(kernel, "item");
      ASSERT_EQ(loops.size(), 2U);
      EXPECT_EQ(loops[0].waits, 1);
      EXPECT_EQ(loops[0].releases, 1);
      EXPECT_THAT(loops[0].exchanged, ElementsAre(2 * rows)) << "two sums of each row";
      EXPECT_EQ(loops[1].waits, 1) << "of the producer";
      EXPECT_EQ(loops[1].copies, 2 * rows) << "x and dy of each row";
      // Rows that are left over come one by one, and need no wait of their own.
      const std::vector<Steps> rest = loops_named(kernel, "row_of_item");
      ASSERT_EQ(rest.size(), rows == 1 ? 0U : 1U);
      if (rows == 1) continue;
      EXPECT_THAT(rest[0].exchanged, ElementsAre(2));
      EXPECT_EQ(rest[0].waits + rest[0].releases, 0);
    }
  }
}

TEST(RowsPerIteration, BlocksOfAClusterSynchroniseOnceForAllRows) {
  const Plan plan = plan_of("layer_norm_backward", 64, 512);
  const SegmentFacts& facts = plan.kernels.front().facts;
  const Schedule shape{.parameters = WarpSpecialisedParameters{.cluster_size = 2},
                       .threads_per_row = 32,
                       .rows_per_block = 4,
                       .vector_width = 8,
                       .persistent_blocks = 8};
  const kir::Kernel kernel = lower_pipeline(facts, pipeline_of(facts, shape, 2, {})).kernel;
  const std::vector<Steps> loops = loops_named(kernel, "item");
  ASSERT_EQ(loops.size(), 2U);
  EXPECT_THAT(loops[0].exchanged, ElementsAre(4));
}

class RowsPerIterationAt : public ::testing::TestWithParam<int64_t> {};

/// One to four groups, one and several batches, everything in registers, shared memory and read
/// again.
TEST_P(RowsPerIterationAt, GradientsAreTheOracles) {
  const int64_t rows = GetParam();
  const Keeps keeps[] = {
      {},
      {.weights = Residency::kShared},
      {.rows = Residency::kRegister, .weights = Residency::kRegister},
      {.rows = Residency::kRegister, .weights = Residency::kShared},
      {.weights = Residency::kRegister},
  };
  const Schedule shapes[] = {
      {.threads_per_row = 128, .rows_per_block = 1, .persistent_blocks = 9},
      {.threads_per_row = 64, .rows_per_block = 2, .persistent_blocks = 5},
      {.threads_per_row = 128, .rows_per_block = 3, .persistent_blocks = 2},
      {.threads_per_row = 32, .rows_per_block = 4, .persistent_blocks = 3},
  };
  uint64_t next = 0;
  Slice slice(3, rows);
  for (const char* name :
       {"layer_norm_backward", "rms_norm_backward_f32", "layer_norm_backward_residual",
        "softmax_backward_bias", "dyt_backward"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    for (const int64_t columns : {128, 528}) {
      const Plan plan = plan_of(fusion, rows, columns);
      const SegmentFacts& facts = plan.kernels.front().facts;
      for (Schedule shape : shapes) {
        shape.vector_width = facts.widest_tile_bytes == 4 ? 4 : 8;
        for (const int64_t unrolled_rows : {2, 4}) {
          const auto slots = static_cast<int64_t>(1 + next % 3);
          const Schedule schedule =
              pipeline_of(facts, shape, unrolled_rows, keeps[next % std::size(keeps)], slots);
          ++next;
          if (!slice.takes()) continue;
          if (rows == 1) {
            // One row alone is a segment of columns.
            EXPECT_FALSE(estimate_warp_specialised(facts, schedule, *find_device("H200")));
            continue;
          }
          EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule, next));
        }
      }
    }
  }
}

TEST_P(RowsPerIterationAt, ClustersAreTheOracles) {
  const int64_t rows = GetParam();
  for (const char* name : {"layer_norm_backward", "layer_norm_backward_residual"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    const Plan plan = plan_of(fusion, rows, 512);
    const SegmentFacts& facts = plan.kernels.front().facts;
    for (const int64_t unrolled_rows : {2, 4}) {
      for (const Residency kept : {Residency::kRegister, Residency::kReload}) {
        const Schedule schedule =
            pipeline_of(facts,
                        {.parameters = WarpSpecialisedParameters{.cluster_size = 2},
                         .threads_per_row = 32,
                         .rows_per_block = 4,
                         .vector_width = 8,
                         .persistent_blocks = 6},
                        unrolled_rows, {.rows = kept, .weights = Residency::kShared});
        if (rows == 1) continue;  // A segment of columns.
        EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule, static_cast<uint64_t>(rows)));
      }
    }
  }
}

/// Types that travel and accumulate otherwise.
TEST_P(RowsPerIterationAt, HalvesAreTheOracles) {
  const int64_t rows = GetParam();
  MatrixBuilder m("rms_norm_backward_f16");
  const ValueId x = m.matrix(DType::kF16, "x");
  const ValueId dy = m.matrix(DType::kF16, "dy");
  const NormBackward norm = rms_norm_backward(m.b, dy, x, m.column(DType::kF32, "rstd"),
                                              {.output = DType::kF16,
                                               .parameter_output = DType::kF16,
                                               .weight = m.row(DType::kF16, "weight")});
  m.b.output(norm.dx, "dx");
  m.b.output(norm.dweight.value(), "dweight");
  const Fusion fusion = m.b.build();
  const Plan plan = plan_of(fusion, rows, 256);
  const SegmentFacts& facts = plan.kernels.front().facts;
  for (const int64_t unrolled_rows : {2, 4}) {
    const Schedule schedule = pipeline_of(
        facts,
        {.threads_per_row = 32, .rows_per_block = 4, .vector_width = 8, .persistent_blocks = 3},
        unrolled_rows, {.rows = Residency::kRegister});
    if (rows == 1) continue;  // A segment of columns.
    EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule));
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, RowsPerIterationAt, ::testing::Values(0, 1, 2, 3, 5, 17, 131, 133));

// In other orders of the same warps, and where groups wait for each other in other places.
TEST(RowsPerIteration, EveryOrderOfWarpsGivesTheSame) {
  const Fusion fusion = find_canned_fusion("layer_norm_backward")->build();
  const Plan plan = plan_of(fusion, 29, 256);
  const SegmentFacts& facts = plan.kernels.front().facts;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    for (const int64_t unrolled_rows : {1, 2, 4}) {
      for (const Residency kept : {Residency::kRegister, Residency::kReload}) {
        const Schedule schedule = pipeline_of(
            facts,
            {.threads_per_row = 64, .rows_per_block = 2, .vector_width = 8, .persistent_blocks = 2},
            unrolled_rows, {.rows = kept}, 1);
        EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule, seed));
      }
    }
  }
}

// Narrow rows, for which several side by side are meant, take the registers that are estimated.
TEST(RowsPerIteration, NarrowRowsSpillNothing) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  KernelCache cache{{}};
  const DeviceLimits& limits = *find_device("H200");
  const Schedule shape{
      .threads_per_row = 128, .rows_per_block = 2, .vector_width = 8, .persistent_blocks = 132};
  std::vector<double> errors;
  const auto compile = [&](const SegmentFacts& facts, const Schedule& schedule) {
    const auto estimate = estimate_warp_specialised(facts, schedule, limits);
    if (!estimate || estimate->spilled_registers > 0) return;
    const auto source = emit(facts, schedule);
    ASSERT_TRUE(source) << source.error().text();
    const auto compiled = compile_kernel(*compiler, cache, *source,
                                         Architecture::parse(architecture_of(limits)).value());
    ASSERT_TRUE(compiled) << compiled.error().text();
    const CompiledResources& used = compiled->kernel->resources;
    EXPECT_EQ(used.spill_store_bytes, 0) << facts.fusion.name << "\n" << print(schedule);
    EXPECT_EQ(source->shared_bytes, estimate->shared_bytes);
    const int64_t expected = std::min(estimate->registers, estimate->register_cap);
    errors.push_back(std::abs(static_cast<double>(expected - used.registers)) /
                     static_cast<double>(used.registers));
  };
  for (const char* name : {"layer_norm_backward", "rms_norm_backward"}) {
    for (const int64_t columns : {1024, 2048}) {
      const Plan plan = plan_of(name, 8192, columns);
      for (const int64_t unrolled_rows : {2, 4}) {
        for (const Residency kept : {Residency::kRegister, Residency::kReload}) {
          const SegmentFacts& facts = plan.kernels.front().facts;
          ASSERT_NO_FATAL_FAILURE(
              compile(facts, pipeline_of(facts, shape, unrolled_rows, {.rows = kept})));
        }
      }
    }
  }
  ASSERT_GT(errors.size(), 12U);
  std::ranges::sort(errors);
  EXPECT_LE(errors[errors.size() / 2], 0.12);
  EXPECT_LE(errors.back(), 0.25);
}

}  // namespace sinter::rows_per_iteration_test
