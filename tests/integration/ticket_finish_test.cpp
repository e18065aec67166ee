// Kernels whose last block finishes what all have left: their structure, that any block may be the
// last, and that it makes no difference which.

#include <gmock/gmock.h>

#include <set>

#include "codegen/kernel_traversal.h"
#include "runtime/compile_kernel.h"
#include "runtime/interpreter/interpreter.h"
#include "scheduler/row_schedule.h"
#include "scheduler/ticket.h"
#include "tests/integration/canned_case.h"

namespace sinter {
namespace {

using testing::HasSubstr;

DeviceLimits h200() { return *find_device("H200"); }

Plan plan_of(std::string_view name, int64_t rows, int64_t columns) {
  const CannedFusion& canned = *find_canned_fusion(name);
  return plan(canned.build(), extents_of_width(canned, columns, rows), h200(),
              {.families = builtin_families()})
      .value();
}

Schedule with_ticket(Schedule schedule) {
  schedule.finish = Finish::kTicket;
  return schedule;
}

/// Few and many threads, more blocks than rows and fewer, clusters: 1 to 8 columns for a thread.
std::vector<Schedule> shapes_of_rows(bool whole) {
  const RowAccess access = whole ? RowAccess::kAligned : RowAccess::kScalar;
  const int64_t width = whole ? 8 : 1;
  std::vector<Schedule> shapes = {
      {.threads_per_row = 32, .persistent_blocks = 9},
      {.threads_per_row = 32, .rows_per_block = 3, .persistent_blocks = 5},
      {.threads_per_row = 128, .rows_per_block = 2, .persistent_blocks = 40},
      {.threads_per_row = 64, .persistent_blocks = 1},
  };
  if (whole)
    shapes.push_back({.threads_per_row = 32, .persistent_blocks = 12, .cluster_blocks = 4});
  for (Schedule& shape : shapes) {
    shape.family = "multi_wave";
    shape.vector_width = width;
    shape.row_access = access;
    shape.finish = Finish::kTicket;
  }
  return shapes;
}

class TicketFinishAt : public ::testing::TestWithParam<int64_t> {};

TEST_P(TicketFinishAt, RowsAreTheOracles) {
  const int64_t rows = GetParam();
  for (const char* name : {"layer_norm_backward", "dyt_backward", "softmax_backward_bias",
                           "row_and_total_loss", "marginal_sums"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    for (const int64_t columns : {8, 67, 96, 512}) {
      const Plan plan = plan_of(name, rows, columns);
      const SegmentFacts& facts = plan.segments.front().facts;
      if (!facts.has_outer()) continue;  // One row is no matrix.
      for (Schedule schedule : shapes_of_rows(columns % 32 == 0)) {
        for (const ValueId value : facts.persistent) schedule.persistent.push_back({value});
        EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule));
      }
    }
  }
}

TEST_P(TicketFinishAt, RingsAreTheOracles) {
  const int64_t rows = GetParam();
  for (const char* name : {"layer_norm_backward", "dyt_backward", "marginal_sums"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    const Plan plan = plan_of(name, rows, 512);
    const SegmentFacts& facts = plan.segments.front().facts;
    if (!facts.has_outer()) continue;
    for (Schedule schedule : {
             Schedule{
                 .threads_per_row = 32, .rows_per_block = 4, .persistent_blocks = 7, .stages = 8},
             Schedule{
                 .threads_per_row = 128, .rows_per_block = 3, .persistent_blocks = 3, .stages = 3},
             Schedule{.threads_per_row = 128, .persistent_blocks = 5, .stages = 2},
             Schedule{.threads_per_row = 64,
             .rows_per_block = 2,
             .persistent_blocks = 6,
             .cluster_blocks = 2,
             .stages = 4},
         }) {
      schedule.family = "warp_specialised";
      schedule.vector_width = 8;
      for (const ValueId value : facts.persistent) schedule.persistent.push_back({value});
      EXPECT_TRUE(computes_the_oracle(fusion, plan, with_ticket(schedule)));
    }
  }
}

TEST_P(TicketFinishAt, ColumnsAreTheOracles) {
  const int64_t rows = GetParam();
  for (const char* name : {"bias_gradient", "column_sum", "weighted_column_mean"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    for (const int64_t columns : {4, 68, 512}) {
      const Plan plan = plan_of(name, rows, columns);
      const SegmentFacts& facts = plan.segments.front().facts;
      if (!facts.has_outer()) continue;
      for (Schedule schedule : {
               Schedule{.threads_per_row = 8, .rows_per_block = 4, .persistent_blocks = 3},
               Schedule{
                   .threads_per_row = 16, .rows_per_block = 8, .unroll = 2, .persistent_blocks = 6},
               Schedule{.threads_per_row = 4,
               .rows_per_block = 8,
               .persistent_blocks = 8,
               .cluster_blocks = 2},
               // Strips of 48 columns, for which slots have 16 threads of four.
               Schedule{.threads_per_row = 12, .rows_per_block = 8, .persistent_blocks = 4},
           }) {
        schedule.family = std::string(kColumn);
        schedule.vector_width = 4;
        EXPECT_TRUE(computes_the_oracle(fusion, plan, with_ticket(schedule)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, TicketFinishAt, ::testing::Values(0, 1, 2, 17, 131));

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
      {"dyt_backward", with_ticket({.family = "multi_wave",
                                    .threads_per_row = 32,
                                    .rows_per_block = 2,
                                    .vector_width = 8,
                                    .persistent_blocks = 11})},
      {"layer_norm_backward", with_ticket({.family = "multi_wave",
                                           .threads_per_row = 32,
                                           .vector_width = 8,
                                           .persistent_blocks = 8,
                                           .cluster_blocks = 2})},
      {"dyt_backward", with_ticket({.family = "warp_specialised",
                                    .threads_per_row = 32,
                                    .rows_per_block = 4,
                                    .vector_width = 8,
                                    .persistent_blocks = 10,
                                    .stages = 4})},
      {"bias_gradient", with_ticket({.family = "column",
                                     .threads_per_row = 8,
                                     .rows_per_block = 8,
                                     .vector_width = 8,
                                     .persistent_blocks = 5})},
  };
}

// Sums of random f32 depend on their order, so equal bits are an equal order.
TEST(TicketFinish, BitsDoNotDependOnWhichBlockIsTheLast) {
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
  const SegmentFacts& facts = planned.segments.front().facts;
  RawRun out;
  out.counters.assign(static_cast<size_t>(ticket_bytes(facts, schedule) / 4), 0);
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

TEST(TicketFinish, CountersAreZeroAgainAndOneForEachStrip) {
  for (const auto& [name, schedule] : kinds()) {
    const Plan planned = plan_of(name, 37, 512);
    const SegmentFacts& facts = planned.segments.front().facts;
    const LoweredKernel lowered = lower(facts, schedule, builtin_families()).value();
    const RawRun run = run_raw(planned, schedule, lowered.kernel, lowered.param_values, 1);
    EXPECT_TRUE(run.report.clean());
    EXPECT_THAT(run.counters, testing::Each(0)) << name;
    const TicketGeometry geometry = ticket_geometry(facts, schedule);
    EXPECT_EQ(run.counters.size(), static_cast<size_t>(geometry.strips));
    EXPECT_EQ(geometry.strips, schedule.family == kColumn ? 512 / 64 : schedule.cluster_blocks);
  }
}

// The planted faults: each fence, left out.
TEST(TicketFinish, AMissingFenceIsARace) {
  for (const auto& [name, schedule] : kinds()) {
    const Plan planned = plan_of(name, 37, 512);
    const LoweredKernel lowered =
        lower(planned.segments.front().facts, schedule, builtin_families()).value();
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
TEST(TicketFinish, OneThreadDrawsBetweenTwoFencesAndTwoBarriers) {
  const Plan planned = plan_of("dyt_backward", 37, 512);
  const LoweredKernel lowered =
      lower(planned.segments.front().facts, kinds().front().schedule, builtin_families()).value();
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

TEST(TicketFinish, CompilesWithoutSpillsWithinItsEstimate) {
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
    for (const ProposedSchedule& candidate : planned.segments.front().candidates) {
      if (candidate.schedule.finish != Finish::kTicket) continue;
      const auto source = emit(planned.segments.front().facts, candidate.schedule);
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

}  // namespace
}  // namespace sinter
