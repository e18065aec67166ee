// Accumulators of columns in shared memory: that kernels are what the schedule says, that their
// numbers are right, and that they take what is estimated of them.

#include <gmock/gmock.h>

#include "codegen/kernel/kernel_traversal.h"
#include "codegen/lower/lower_rows.h"
#include "runtime/compile/compile_kernel.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/multi_wave.h"
#include "scheduler/families/warp_specialised.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/row_schedule.h"
#include "tests/integration/canned_case.h"
#include "tests/support/budget_truth.h"
#include "tests/support/effort.h"

namespace sinter::shared_accumulators_test {

Plan plan_of(std::string_view name, int64_t rows, int64_t columns,
             std::string_view device = "H200") {
  const CannedFusion& canned = *find_canned_fusion(name);
  return plan(canned.build(), extents_of_width(canned, columns, rows), *find_device(device),
              {.families = builtin_families()})
      .value();
}

/// The schedule with accumulators in shared memory, and what the segment keeps in `cut`: inputs
/// alone may be read again. One row alone is a segment of columns, which accumulates none.
Schedule shared_of(const SegmentFacts& facts, Schedule schedule,
                   Residency cut = Residency::kRegister) {
  const Residency accumulators =
      accumulates_columns(facts) ? Residency::kShared : Residency::kRegister;
  if (auto* const ring = std::get_if<WarpSpecialisedParameters>(&schedule.parameters)) {
    ring->accumulators = accumulators;
  } else {
    std::get<MultiWaveParameters>(schedule.parameters).accumulators = accumulators;
  }
  for (const ValueId value : facts.kept) {
    const bool may = cut != Residency::kReload || facts.is_read(value);
    schedule.kept.push_back({value, may ? cut : Residency::kRegister});
  }
  return schedule;
}

/// Loops over batches in a kernel, and those of them that are unrolled.
std::pair<int, int> batch_loops(const kir::Kernel& kernel) {
  std::pair<int, int> out;
  kir::for_each_stmt(kernel, kernel.body, [&](kir::StmtId id) {
    const auto* loop = std::get_if<kir::For>(&kernel.stmts[id].kind);
    if (loop == nullptr || !kernel.vars[loop->index].name.starts_with("batch")) return;
    ++out.first;
    if (loop->unroll) ++out.second;
  });
  return out;
}

TEST(SharedAccumulators, BatchesAreALoopWhereRegistersHoldNothingOfThem) {
  const Plan plan = plan_of("layer_norm_backward", 64, 8192);
  const SegmentFacts& facts = plan.kernels.front().facts;
  const auto loops = [&](Residency cut) {
    return batch_loops(lower_rows(facts, shared_of(facts,
                                                   {.family = "multi_wave",
                                                    .parameters = MultiWaveParameters{},
                                                    .threads_per_row = 128,
                                                    .vector_width = 8,
                                                    .persistent_blocks = 8},
                                                   cut))
                           .kernel);
  };
  const auto [unrolled, of_them] = loops(Residency::kRegister);
  EXPECT_GT(unrolled, 0);
  EXPECT_EQ(unrolled, of_them);
  EXPECT_GT(loops(Residency::kShared).first, 0);
  EXPECT_EQ(loops(Residency::kShared).second, 0);
  EXPECT_EQ(loops(Residency::kReload).second, 0);
}

class SharedAccumulatorsAt : public ::testing::TestWithParam<int64_t> {
 protected:
  void check(const char* name, const Plan& plan, const Schedule& schedule) const {
    EXPECT_TRUE(computes_the_oracle(find_canned_fusion(name)->build(), plan, schedule));
  }
};

constexpr std::array kGradients = {"layer_norm_backward", "rms_norm_backward_f32",
                                   "softmax_backward_bias", "layer_norm_backward_residual"};

/// Odd widths and whole vectors, one and several rows in a block, more blocks than rows and fewer.
TEST_P(SharedAccumulatorsAt, RowsAreTheOracles) {
  Slice slice(4, GetParam());
  for (const char* name : kGradients) {
    for (const int64_t columns : {67, 257, 1024}) {
      const Plan plan = plan_of(name, GetParam(), columns);
      const SegmentFacts& facts = plan.kernels.front().facts;
      const bool whole = columns % 8 == 0;
      for (const Schedule& shape : {
               Schedule{.threads_per_row = 128, .persistent_blocks = 132},
               Schedule{.threads_per_row = 32, .rows_per_block = 3, .persistent_blocks = 5},
               Schedule{.threads_per_row = 64, .rows_per_block = 2, .persistent_blocks = 2},
           }) {
        for (const Residency cut : {Residency::kRegister, Residency::kShared, Residency::kReload}) {
          if (!slice.takes()) continue;
          Schedule schedule = shape;
          schedule.family = "multi_wave";
          schedule.parameters = MultiWaveParameters{};
          schedule = shared_of(facts, schedule, cut);
          schedule.unroll = cut == Residency::kRegister ? 1 : 2;
          schedule.vector_width = whole ? 8 : 1;
          schedule.row_access = whole ? RowAccess::kAligned : RowAccess::kScalar;
          check(name, plan, schedule);
        }
      }
    }
  }
}

TEST_P(SharedAccumulatorsAt, ClustersAndRowsAheadAreTheOracles) {
  for (const char* name : kGradients) {
    const Plan plan = plan_of(name, GetParam(), 1024);
    const SegmentFacts& facts = plan.kernels.front().facts;
    for (const int64_t cluster : {1, 2, 4}) {
      for (const int64_t ahead : {0, 1}) {
        Schedule schedule =
            shared_of(facts, {.family = "multi_wave",
                              .parameters = MultiWaveParameters{.cluster_size = cluster},
                              .threads_per_row = 32,
                              .rows_per_block = 2,
                              .vector_width = 4,
                              .persistent_blocks = 8});
        auto& own = std::get<MultiWaveParameters>(schedule.parameters);
        if (facts.space.row_dimensions > 0) own.prefetch_rows = ahead;
        if (prefetched_inputs(facts, schedule).empty()) own.prefetch_rows = 0;
        check(name, plan, schedule);
      }
    }
  }
}

TEST_P(SharedAccumulatorsAt, PipelinesAreTheOracles) {
  if (GetParam() == 1) GTEST_SKIP() << "the sums of one row are the row";
  Slice slice(5, GetParam());
  for (const char* name : kGradients) {
    for (const int64_t columns : {1008, 1024}) {
      const Plan plan = plan_of(name, GetParam(), columns);
      const SegmentFacts& facts = plan.kernels.front().facts;
      for (const int64_t groups : {1, 2}) {
        for (const int64_t cluster : {1, 2, 4}) {
          if (columns == 1008 && cluster > 1) continue;  // No whole copies.
          for (const Residency cut : {Residency::kRegister, Residency::kReload}) {
            if (!slice.takes()) continue;
            const Schedule schedule =
                shared_of(facts,
                          {.family = "warp_specialised",
                           .parameters = WarpSpecialisedParameters{.cluster_size = cluster,
                                                                   .pipeline_stages = 2 * groups},
                           .threads_per_row = 128,
                           .rows_per_block = groups,
                           .vector_width = columns == 1008 ? 8 : 4,
                           .persistent_blocks = 8},
                          cut);
            check(name, plan, schedule);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, SharedAccumulatorsAt, ::testing::Values(0, 1, 2, 17, 133));

/// Schedules of one plan: rows in registers, in shared memory and read again; pipelines with one
/// group.
std::vector<Schedule> geometries(const Plan& plan) {
  const SegmentFacts& facts = plan.kernels.front().facts;
  std::vector<Schedule> out;
  for (const int64_t threads : {256, 512, 1024}) {
    for (const Residency cut : {Residency::kRegister, Residency::kShared, Residency::kReload}) {
      Schedule schedule{.family = "multi_wave",
                        .parameters = MultiWaveParameters{},
                        .threads_per_row = threads,
                        .vector_width = 16 / facts.narrowest_tile_bytes,
                        .persistent_blocks = 100};
      out.push_back(shared_of(facts, schedule, cut));
      if (!plan.limits.has_bulk_copy || threads == 1024 || cut == Residency::kShared) continue;
      schedule.family = "warp_specialised";
      schedule.parameters = WarpSpecialisedParameters{.pipeline_stages = 2};
      out.push_back(shared_of(facts, schedule, cut));
    }
  }
  return out;
}

/// Compiles the first segment of a plan with another schedule, of this estimate.
BudgetSample compiled_sample(const Plan& plan, const Schedule& schedule,
                             const ResourceEstimate& estimate, const NvrtcCompiler& compiler,
                             KernelCache& cache) {
  const auto source = emit(plan.kernels.front().facts, schedule).value();
  const auto compiled = compile_kernel(compiler, cache, source,
                                       Architecture::parse(architecture_of(plan.limits)).value());
  return {.fusion = plan.fusion.name,
          .device = plan.limits.name,
          .schedule = schedule,
          .predicted = estimate,
          .source = source,
          .kernel = compiled.value().kernel};
}

TEST(SharedAccumulators, KernelsTakeWhatIsEstimated) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  KernelCache cache{{}};
  const FamilySet families = builtin_families();
  std::vector<double> errors;
  Slice slice(5);
  for (const char* name : {"layer_norm_backward", "layer_norm_backward_f32", "rms_norm_backward",
                           "rms_norm_backward_f32"}) {
    for (const char* device : {"A100", "H200", "L4"}) {
      for (const int64_t columns : {8192, 16384}) {
        const Plan plan = plan_of(name, 4096, columns, device);
        for (const Schedule& schedule : geometries(plan)) {
          const auto estimate = find_family(families, schedule.family)
                                    ->estimate(plan.kernels.front().facts, schedule, plan.limits);
          if (!estimate || estimate->spilled_registers > 0 || !slice.takes()) continue;
          const BudgetSample sample = compiled_sample(plan, schedule, *estimate, *compiler, cache);
          EXPECT_EQ(sample.shared_bytes(), estimate->shared_bytes);
          errors.push_back(sample.register_error());
          constexpr double kWorst = 0.25;
          EXPECT_LE(errors.back(), kWorst)
              << name << " on " << device << ": " << sample.predicted_registers()
              << " registers estimated, " << sample.kernel->resources.registers << " taken\n"
              << print(schedule);
        }
      }
    }
  }
  EXPECT_GE(errors.size(), takes_all_cases() ? 80U : 16U);
  constexpr double kMedian = 0.12;
  EXPECT_LE(quantile(errors, 0.5), kMedian);
}

// What is chosen spills nothing, where that is what is predicted.
TEST(SharedAccumulators, WhatIsChosenSpillsAsPredicted) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  KernelCache cache{{}};
  int64_t checked = 0;
  for (const char* device : {"A100", "L4"}) {
    for (const char* name : {"layer_norm_backward", "rms_norm_backward", "rms_norm_backward_f32"}) {
      for (const int64_t columns : {16384, 24576}) {
        const Plan plan = plan_of(name, 4096, columns, device);
        const ProposedSchedule& chosen = plan.kernels.front().chosen();
        if (chosen.schedule.accumulators() != Residency::kShared ||
            chosen.estimate.spilled_registers > 0)
          continue;
        const BudgetSample sample =
            compiled_sample(plan, chosen.schedule, chosen.estimate, *compiler, cache);
        ++checked;
        EXPECT_EQ(sample.kernel->resources.spill_store_bytes, 0)
            << name << " of " << columns << " columns on " << device << "\n"
            << print(chosen.schedule);
      }
    }
  }
  EXPECT_GE(checked, 3);
}

}  // namespace sinter::shared_accumulators_test
