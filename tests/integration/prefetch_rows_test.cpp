// Kernels that have the next row on its way while they work on the one before: what they do in
// which order, and that their numbers are right.

#include <gmock/gmock.h>

#include "codegen/kernel/kernel_traversal.h"
#include "codegen/lower/lower_rows.h"
#include "runtime/compile/compile_kernel.h"
#include "scheduler/families/multi_wave.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"

namespace sinter::prefetch_rows_test {

Plan plan_of(std::string_view name, int64_t rows, int64_t columns) {
  const CannedFusion& canned = *find_canned_fusion(name);
  return plan(canned.build(), extents_of_width(canned, columns, rows), *find_device("H200"),
              {.families = builtin_families()})
      .value();
}

/// The schedule with what the segment keeps in registers, and a row ahead. One row alone is a
/// segment of columns, in which none follows.
Schedule ahead_of(const SegmentFacts& facts, Schedule schedule, int64_t cluster_size = 1) {
  schedule.family = "multi_wave";
  schedule.parameters = MultiWaveParameters{
      .cluster_size = cluster_size, .prefetch_rows = facts.space.row_dimensions > 0 ? 1 : 0};
  for (const ValueId value : facts.kept) schedule.kept.push_back({value});
  return schedule;
}

struct Order {
  int loads = 0;         ///< Of the next row, before the first reduction of the row at hand.
  int late_loads = 0;    ///< After it.
  int direct_loads = 0;  ///< Of the row at hand.
};

/// How the loop over rows loads what has `_next` registers.
Order order_of(const kir::Kernel& kernel) {
  Order order;
  for (const kir::StmtId id : kernel.body) {
    const auto* loop = std::get_if<kir::For>(&kernel.stmts[id].kind);
    if (loop == nullptr || kernel.vars[loop->index].name != "first_row") continue;
    bool reduced = false;
    kir::for_each_stmt(kernel, loop->body, [&](kir::StmtId inner) {
      reduced = reduced || std::holds_alternative<kir::AllReduce>(kernel.stmts[inner].kind);
      const auto* load = std::get_if<kir::Load>(&kernel.stmts[inner].kind);
      if (load == nullptr || kernel.vars[load->tile].is_scalar()) return;
      const bool next = kernel.vars[load->tile].name.ends_with("_next");
      if (!next) ++order.direct_loads;
      if (next) ++(reduced ? order.late_loads : order.loads);
    });
  }
  return order;
}

TEST(PrefetchRows, LoadsOfTheNextRowStandBeforeTheFirstReduction) {
  const Plan plan = plan_of("layer_norm_backward", 64, 1024);
  const SegmentFacts& facts = plan.kernels.front().facts;
  Schedule schedule = ahead_of(
      facts, {.threads_per_row = 64, .vector_width = 8, .unroll = 2, .persistent_blocks = 8});
  const Order ahead = order_of(lower_rows(facts, schedule).kernel);
  EXPECT_EQ(ahead.loads, 2) << "x and dy, each in a loop over its two batches";
  EXPECT_EQ(ahead.late_loads, 0);
  std::get<MultiWaveParameters>(schedule.parameters).prefetch_rows = 0;
  const Order at_hand = order_of(lower_rows(facts, schedule).kernel);
  EXPECT_EQ(at_hand.loads, 0);
  EXPECT_EQ(at_hand.direct_loads, ahead.direct_loads + 2) << "weights are loaded by both";
}

class PrefetchRowsAt : public ::testing::TestWithParam<int64_t> {};

/// Odd widths and whole vectors, one and several rows in a block, more blocks than rows and fewer.
TEST_P(PrefetchRowsAt, GradientsAreTheOracles) {
  const int64_t rows = GetParam();
  for (const char* name : {"layer_norm_backward", "rms_norm_backward", "softmax_backward_bias"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    for (const int64_t columns : {67, 257, 1024}) {
      const Plan plan = plan_of(name, rows, columns);
      const SegmentFacts& facts = plan.kernels.front().facts;
      const bool whole = columns % 8 == 0;
      const RowAccess access = whole ? RowAccess::kAligned : RowAccess::kScalar;
      for (const Schedule& shape : {
               Schedule{.threads_per_row = 128, .persistent_blocks = 132},
               Schedule{.threads_per_row = 32, .rows_per_block = 3, .persistent_blocks = 5},
               Schedule{.threads_per_row = 64, .rows_per_block = 2, .persistent_blocks = 2},
           }) {
        Schedule schedule = ahead_of(facts, shape);
        schedule.vector_width = whole ? 8 : 1;
        schedule.row_access = access;
        EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule));
      }
    }
  }
}

TEST_P(PrefetchRowsAt, ClustersAreTheOracles) {
  const int64_t rows = GetParam();
  for (const char* name : {"layer_norm_backward", "softmax_backward_bias"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    const Plan plan = plan_of(name, rows, 1024);
    const Schedule schedule = ahead_of(
        plan.kernels.front().facts,
        {.threads_per_row = 32, .rows_per_block = 2, .vector_width = 8, .persistent_blocks = 8}, 4);
    EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule));
  }
}

/// Rows that start anywhere have their vectors elsewhere from row to row. Of several reductions in
/// a row none needs two halves of its exchange, because the others stand between its turns.
TEST_P(PrefetchRowsAt, BlocksThatAccumulateNothingMayWalkRowsToo) {
  const int64_t rows = GetParam();
  for (const char* name : {"softmax", "softmax_backward", "softmax_of_layer_norm"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    for (const int64_t columns : {67, 257, 1024}) {
      const Plan plan = plan_of(name, rows, columns);
      for (const RowAccess access : {RowAccess::kUnaligned, RowAccess::kAligned}) {
        if (access == RowAccess::kAligned && columns % 8 != 0) continue;
        if (access == RowAccess::kUnaligned && rows == 1)
          continue;  // What it would keep are columns.
        const Schedule schedule = ahead_of(plan.kernels.front().facts, {.threads_per_row = 32,
                                                                        .rows_per_block = 2,
                                                                        .vector_width = 8,
                                                                        .persistent_blocks = 7,
                                                                        .row_access = access});
        EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule));
      }
    }
  }
}

// What is offered leaves registers for both rows.
TEST(PrefetchRows, WhatIsOfferedSpillsNothing) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  KernelCache cache{{}};
  const DeviceLimits& limits = *find_device("H200");
  for (const char* name : {"layer_norm_backward", "rms_norm_backward", "softmax_backward_bias"}) {
    for (const int64_t columns : {1543, 4095, 4096}) {
      const Plan plan = plan_of(name, 8192, columns);
      const SegmentFacts& facts = plan.kernels.front().facts;
      for (const ProposedSchedule& candidate : propose_multi_wave(facts, limits).candidates) {
        if (candidate.schedule.prefetch_rows() == 0) continue;
        const auto source = emit(facts, candidate.schedule);
        ASSERT_TRUE(source) << source.error().text();
        const auto compiled = compile_kernel(*compiler, cache, *source,
                                             Architecture::parse(architecture_of(limits)).value());
        ASSERT_TRUE(compiled) << compiled.error().text();
        EXPECT_EQ(compiled->kernel->resources.spill_store_bytes, 0)
            << name << " of " << columns << " columns\n"
            << print(candidate.schedule);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, PrefetchRowsAt, ::testing::Values(0, 1, 2, 17, 131, 133));

}  // namespace sinter::prefetch_rows_test
