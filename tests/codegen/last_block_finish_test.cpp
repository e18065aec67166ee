// Kernels whose last block finishes what all have left: their structure, that any block may be the
// last, and that it makes no difference which.

#include "codegen/lower/last_block_finish.h"

#include <gmock/gmock.h>

#include "scheduler/planning/planner.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/row_schedule.h"
#include "tests/codegen/scheduled_kernel.h"
#include "tests/support/canned_fusions.h"

namespace sinter::last_block_finish_test {

using testing::HasSubstr;

Plan plan_of(std::string_view name, int64_t rows, int64_t columns) {
  return plan(find_canned_fusion(name)->build(), {{"rows", rows}, {"cols", columns}},
              *find_device("H200"), {.families = builtin_families()})
      .value();
}

Schedule with_last_block_finish(Schedule schedule) {
  schedule.finish = Finish::kLastBlock;
  return schedule;
}

std::vector<std::byte> bytes_of(const HostRun& run) {
  std::vector<std::byte> out;
  for (const HostTensor& output : run.outputs) {
    const auto storage = output.storage();
    out.insert(out.end(), storage.begin(), storage.end());
  }
  return out;
}

struct Case {
  std::string fusion;
  Schedule schedule;
};

/// One schedule of each kind.
std::vector<Case> kinds() {
  return {
      {"dyt_backward", with_last_block_finish({.family = "multi_wave",
                                               .parameters = MultiWaveParameters{},
                                               .threads_per_row = 32,
                                               .rows_per_block = 2,
                                               .vector_width = 8,
                                               .persistent_blocks = 11})},
      {"layer_norm_backward",
       with_last_block_finish({.family = "multi_wave",
                               .parameters = MultiWaveParameters{.cluster_size = 2},
                               .threads_per_row = 32,
                               .vector_width = 8,
                               .persistent_blocks = 8})},
      {"dyt_backward",
       with_last_block_finish({.family = "warp_specialised",
                               .parameters = WarpSpecialisedParameters{.pipeline_stages = 4},
                               .threads_per_row = 32,
                               .rows_per_block = 4,
                               .vector_width = 8,
                               .persistent_blocks = 10})},
      {"bias_gradient", with_last_block_finish({.family = "column",
                                                .parameters = ColumnParameters{},
                                                .threads_per_row = 8,
                                                .rows_per_block = 8,
                                                .vector_width = 8,
                                                .persistent_blocks = 5})},
  };
}

// Sums of random f32 depend on their order, so equal bits are an equal order.
TEST(LastBlockFinish, BitsDoNotDependOnWhichBlockIsTheLast) {
  for (const auto& [name, schedule] : kinds()) {
    const Plan planned = plan_of(name, 133, 512);
    const std::vector<HostTensor> inputs = sample_inputs(planned.fusion, Binding{}, 3);
    std::optional<std::vector<std::byte>> first;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const auto run =
          execute_on_host(planned, schedule, inputs, builtin_families(), {.seed = seed});
      ASSERT_TRUE(run) << run.error().text();
      EXPECT_TRUE(run->report.clean()) << run->report.findings.front().message;
      if (!first) first = bytes_of(*run);
      EXPECT_EQ(bytes_of(*run), *first) << name << " with seed " << seed;
    }
  }
}

/// Runs a kernel on memory of its own, with counters of 0, and returns these and the findings.
struct RawRun {
  std::vector<int32_t> counters;
  InterpreterReport report;
};
RawRun run_raw(const Plan& planned, const Schedule& schedule, const kir::Kernel& kernel,
               const std::vector<int64_t>& params, uint64_t seed) {
  const SegmentFacts& facts = planned.kernels.front().facts;
  RawRun out;
  out.counters.assign(static_cast<size_t>(last_block_bytes(facts, schedule) / 4), 0);
  std::vector<HostTensor> inputs = sample_inputs(planned.fusion, Binding{}, 5);
  std::vector<HostTensor> others;
  others.reserve(kernel.buffers.size());
  std::vector<LaunchMemory> memory;
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.space != kir::Space::kGlobal) continue;
    if (!buffer.value.valid()) {
      memory.push_back({.bytes = std::as_writable_bytes(std::span(out.counters)), .origin = 0});
      continue;
    }
    const auto input = std::ranges::find(facts.fusion.inputs, buffer.value);
    const int64_t most =
        partial_rows(schedule) * facts.space.columns + facts.space.rows * facts.space.columns;
    HostTensor* tensor = input != facts.fusion.inputs.end()
                             ? &inputs[static_cast<size_t>(input - facts.fusion.inputs.begin())]
                             : &others.emplace_back(HostTensor::poisoned(buffer.type, {most}));
    memory.push_back(
        {.bytes = tensor->storage(), .origin = tensor->data() - tensor->storage().data()});
  }
  out.report = interpret(kernel, memory, params, {.seed = seed}).value();
  return out;
}

TEST(LastBlockFinish, CountersAreZeroAgainAndOneForEachStrip) {
  for (const auto& [name, schedule] : kinds()) {
    const Plan planned = plan_of(name, 37, 512);
    const SegmentFacts& facts = planned.kernels.front().facts;
    const LoweredKernel lowered = lower(facts, schedule, builtin_families()).value();
    const RawRun run = run_raw(planned, schedule, lowered.kernel, lowered.param_values, 1);
    EXPECT_TRUE(run.report.clean());
    EXPECT_THAT(run.counters, testing::Each(0)) << name;
    const LastBlockGeometry geometry = last_block_geometry(facts, schedule);
    EXPECT_EQ(run.counters.size(), static_cast<size_t>(geometry.strips));
    EXPECT_EQ(geometry.strips, schedule.family == kColumn ? 512 / 64 : schedule.cluster_size());
  }
}

// The planted faults: each fence, left out.
TEST(LastBlockFinish, AMissingFenceIsARace) {
  for (const auto& [name, schedule] : kinds()) {
    const Plan planned = plan_of(name, 37, 512);
    const LoweredKernel lowered =
        lower(planned.kernels.front().facts, schedule, builtin_families()).value();
    std::vector<kir::StmtId> fences;
    kir::for_each_stmt(lowered.kernel, lowered.kernel.body, [&](kir::StmtId id) {
      if (std::holds_alternative<kir::DeviceFence>(lowered.kernel.stmts[id].kind))
        fences.push_back(id);
    });
    ASSERT_EQ(fences.size(), 2U);
    for (const kir::StmtId fence : fences) {
      kir::Kernel broken = lowered.kernel;
      broken.stmts[fence].kind = kir::Comment{"nothing"};
      const RawRun run = run_raw(planned, schedule, broken, lowered.param_values, 1);
      const auto race =
          std::ranges::find(run.report.findings, FindingKind::kGlobalRace, &Finding::kind);
      ASSERT_NE(race, run.report.findings.end()) << name;
      EXPECT_THAT(race->message, HasSubstr("_partials"));
    }
  }
}

/// The statements before and behind the draw, in their order.
TEST(LastBlockFinish, OneThreadDrawsBetweenTwoFencesAndTwoBarriers) {
  const Plan planned = plan_of("dyt_backward", 37, 512);
  const LoweredKernel lowered =
      lower(planned.kernels.front().facts, kinds().front().schedule, builtin_families()).value();
  const kir::Kernel& kernel = lowered.kernel;
  std::string order;
  kir::for_each_stmt(kernel, kernel.body, [&](kir::StmtId id) {
    const kir::StmtKind& stmt = kernel.stmts[id].kind;
    if (std::holds_alternative<kir::Barrier>(stmt)) order += 'b';
    if (std::holds_alternative<kir::DeviceFence>(stmt)) order += 'f';
    if (std::holds_alternative<kir::AtomicCount>(stmt)) order += 'c';
    const auto* store = std::get_if<kir::Store>(&stmt);
    if (store != nullptr && kernel.buffers[store->buffer].name.ends_with("_partials")) order += 'p';
    const auto* load = std::get_if<kir::Load>(&stmt);
    if (load != nullptr && kernel.buffers[load->buffer].name.ends_with("_partials")) order += 'l';
  });
  const size_t draw = order.find("bfcfb");
  ASSERT_NE(draw, std::string::npos) << order;
  EXPECT_LT(order.rfind('p'), draw);
  EXPECT_GT(order.find('l'), draw);
}

}  // namespace sinter::last_block_finish_test
