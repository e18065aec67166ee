// Outputs that take over the memory of inputs: what may share a kernel with what, in which order
// the rest runs, and that the caller's tensor then holds what the oracle computes. Tensors have one
// memory in the interpreter too, whose races between threads would be findings.

#include <gmock/gmock.h>

#include <functional>
#include <random>
#include <set>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/infer_results.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "runtime/check/device_run.h"
#include "scheduler/analysis/in_place.h"
#include "scheduler/analysis/tensor_list.h"
#include "scheduler/families/multi_tensor.h"
#include "scheduler/families/overwriting.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/integration/live_device.h"
#include "tests/support/fake_driver.h"
#include "tests/support/h200.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_calls.h"
#include "tests/support/training_layers.h"

namespace sinter::in_place_test {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Result<Plan> planned(const Fusion& fusion) {
  return plan(fusion, {}, kLimits, {.families = builtin_families()});
}
Plan plan_of(const Fusion& fusion) {
  auto out = planned(fusion);
  if (!out) throw_error(out.error());
  return std::move(*out);
}

/// h = residual + x, in the residual's place; y = rms_norm(h), in that of x.
Fusion fused_add_rms_norm(int64_t rows, int64_t columns, DType type = DType::kBF16,
                          const InputOptions& of_inputs = {}) {
  FusionBuilder b("fused_add_rms_norm");
  const ValueId x = b.input(type, {rows, columns}, "x", of_inputs);
  const ValueId residual = b.input(type, {rows, columns}, "residual", of_inputs);
  const ValueId h = b.add(x, residual);
  b.output(b.cast(h, type), "h", {.alias = residual});
  b.output(rms_norm(b, h, {.output = type}).y, "y", {.alias = x});
  return b.build();
}

Fusion softmax_in_place(int64_t rows, int64_t columns, DType type = DType::kBF16) {
  FusionBuilder b("softmax_in_place");
  const ValueId x = b.input(type, {rows, columns}, "x");
  b.output(b.cast(softmax(b, x), type), "y", {.alias = x});
  return b.build();
}

/// The gradient of the input lies in that of the output; the weight's is a column sum of the
/// latter.
Fusion norm_backward_in_place(int64_t rows, int64_t columns) {
  FusionBuilder b("norm_backward_in_place");
  const ValueId dy = b.input(DType::kBF16, {rows, columns}, "dy");
  const ValueId x = b.input(DType::kBF16, {rows, columns}, "x");
  const ValueId weight = b.input(DType::kBF16, {columns}, "weight");
  const ValueId rstd = b.input(DType::kF32, {rows}, "rstd");
  const auto gradients = rms_norm_backward(b, dy, x, rstd, {.weight = weight});
  b.output(b.cast(gradients.dx, DType::kBF16), "dx", {.alias = dy});
  b.output(*gradients.dweight, "dweight");
  return b.build();
}

/// x and y swap their memory, times 2.
Fusion swapped(const Shape& shape) {
  FusionBuilder b("swapped");
  const ValueId x = b.input(DType::kF32, shape, "x");
  const ValueId y = b.input(DType::kF32, shape, "y");
  b.output(b.mul(x, b.constant(2.0)), "x2", {.alias = y});
  b.output(b.mul(y, b.constant(2.0)), "y2", {.alias = x});
  return b.build();
}

void expect_right(const Fusion& fusion, const Plan& plan, uint64_t seed = 1) {
  const auto inputs = sample_inputs(fusion, plan.binding, seed);
  const auto check =
      check_on_host(fusion, plan.binding, plan, inputs, builtin_families(), {.seed = seed},
                    {.run = run_reference_call, .evaluate = reference_call});
  ASSERT_TRUE(check) << check.error().text();
  EXPECT_TRUE(check->passed()) << check->text();
}

// ---- One kernel

TEST(InPlace, OneBufferIsReadAndWritten) {
  const Plan plan = plan_of(fused_add_rms_norm(64, 512));
  ASSERT_THAT(plan.kernels, SizeIs(1));
  const KernelPlan& kernel = plan.kernels.front();
  EXPECT_THAT(kernel.facts.in_place, SizeIs(2));
  const auto source = emit(kernel.facts, kernel.chosen().schedule);
  ASSERT_TRUE(source);
  ASSERT_THAT(source->buffers, SizeIs(2)) << "the outputs have none of their own";
  for (const BufferArgument& buffer : source->buffers) EXPECT_EQ(buffer.use, BufferUse::kReadWrite);
  EXPECT_THAT(source->text, Not(HasSubstr("const bf16*")));
  EXPECT_THAT(source->text, Not(HasSubstr("load_global<")))
      << "not by the path of what nobody writes";
  expect_right(fused_add_rms_norm(64, 512), plan);
}

TEST(InPlace, RowsAreNotReadAgainOnceTheyAreOverwritten) {
  // h is stored before the row is normalised; a loop would read x and the residual again for that.
  const Plan plan = plan_of(fused_add_rms_norm(64, 512));
  const SegmentFacts& facts = plan.kernels.front().facts;
  const Schedule loop{.family = "looped",
                      .parameters = LoopedParameters{},
                      .threads_per_row = 128,
                      .vector_width = 4};
  const FamilySet families = builtin_families();
  const Family& looped = *find_family(families, loop.family);
  const auto refused = check_in_place(facts, loop, looped);
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->rule, HasSubstr("reads an input again"));
  EXPECT_THAT(verify_schedule(facts, loop, kLimits, builtin_families()),
              testing::Contains(testing::Field(&Rejection::rule, refused->rule)));
  // Softmax stores only at the end: it may read the row as often as it likes.
  const Plan softmax = plan_of(softmax_in_place(64, 512));
  EXPECT_FALSE(check_in_place(softmax.kernels.front().facts, loop, looped));
}

class InPlaceSchedules : public ::testing::TestWithParam<Fusion> {};

TEST_P(InPlaceSchedules, AllComputeTheOracle) {
  const Fusion& fusion = GetParam();
  const Plan plan = plan_of(fusion);
  ASSERT_FALSE(plan.kernels.empty());
  const KernelPlan& kernel = plan.kernels.front();
  ASSERT_THAT(kernel.facts.in_place, Not(IsEmpty()));
  for (const Schedule& schedule : chosen_and_best_of_families(kernel))
    EXPECT_TRUE(computes_the_oracle(fusion, plan, schedule));
  int drawn = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const auto draw = random_schedule(kernel.facts, kLimits, builtin_families(), seed);
    if (!draw) continue;
    ++drawn;
    EXPECT_TRUE(computes_the_oracle(fusion, plan, draw->schedule, seed));
  }
  EXPECT_GT(drawn, 6);
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, InPlaceSchedules,
    ::testing::Values(
        fused_add_rms_norm(8, 512), fused_add_rms_norm(7, 257),
        fused_add_rms_norm(5, 1024, DType::kF32), softmax_in_place(6, 768),
        softmax_in_place(3, 1001), norm_backward_in_place(13, 256), norm_backward_in_place(6, 130),
        swapped({5, 67}), swapped({4096}),
        fused_add_rms_norm(5, 96, DType::kBF16, {.strides = {104, 1}, .alignment = 16}),
        fused_add_rms_norm(5, 95, DType::kBF16, {.strides = {97, 1}, .alignment = 2})),
    [](const auto& graph) { return fmt::format("{}_{}", graph.param.name, graph.index); });

TEST(InPlace, ScalarsAreUpdated) {
  FusionBuilder b("counter");
  const ValueId step = b.input(DType::kF32, {}, "step");
  const ValueId flags = b.input(DType::kI32, {1}, "flags");
  b.output(b.add(step, b.constant(1.0)), "next", {.alias = step});
  b.output(b.add(flags, b.constant_integer(1, DType::kI32)), "next_flags", {.alias = flags});
  const Fusion fusion = b.build();
  expect_right(fusion,
               plan_of(fusion));  // Threads that read them would race with the one that writes.
}

TEST(InPlace, NothingIsWrittenBetweenTheElements) {
  FusionBuilder b("padded");
  const ValueId x = b.input(DType::kF32, {9, 5}, "x", {.strides = {8, 1}, .alignment = 4});
  b.output(b.exp(x), "y", {.alias = x});
  const Fusion fusion = b.build();
  expect_right(fusion, plan_of(fusion));
}

// ---- Several kernels

TEST(InPlace, TheWriterWaitsForAllThatReadTheInput) {
  // Sums over the columns and the rows of x, which one kernel has no space for beside its update.
  FusionBuilder b("readers");
  const ValueId x = b.input(DType::kF32, {64, 96}, "x");
  b.output(b.add(x, b.constant(1.0)), "next", {.alias = x});
  b.output(b.reduce(ReduceFn::kSum, b.permute(b.exp(x), {1, 0}), {1}), "columns");
  b.output(b.reduce(ReduceFn::kMax, x, {1}), "rows");
  const Fusion fusion = b.build();
  auto cut = plan(fusion, {}, kLimits, {.families = builtin_families(), .cuts = {{"columns"}}});
  for (const Plan& plan : {plan_of(fusion), std::move(*cut)}) expect_right(fusion, plan);
}

/// Plans are whole, compute the oracle, and say why they copy.
void expect_copied(const Fusion& fusion, std::string_view because) {
  const Plan plan = plan_of(fusion);
  expect_right(fusion, plan);
  std::vector<std::string> reasons;
  for (const Decision& decision : plan.decisions) {
    if (decision.chosen == "no, copied there at last") reasons.push_back(decision.because);
  }
  ASSERT_THAT(reasons, SizeIs(1));
  EXPECT_THAT(reasons.front(), HasSubstr(because));
}

TEST(InPlace, WhatReadsTheInputBehindACallGetsItUnharmed) {
  // z waits for a call that reads y, and reads x, whose memory y is to take over.
  FusionBuilder b("waiting");
  const ValueId x = b.input(DType::kBF16, {32, 64}, "x");
  const ValueId w = b.input(DType::kBF16, {32, 64}, "w");
  const ValueId y = b.cast(b.exp(x), DType::kBF16);
  b.output(y, "y", {.alias = x});
  const ValueId called = b.external("matmul_nt", {y, w}, {{DType::kBF16, {32, 32}}})[0];
  const ValueId sums = b.reduce(ReduceFn::kSum, called, {1});
  b.output(b.mul(b.broadcast_over(sums, x, {1}), x), "z");
  expect_copied(b.build(), "a call lies between");
}

TEST(InPlace, AReaderOfWhatOverwritesTheInputSharesTheWritersKernel) {
  FusionBuilder b("bound");
  const ValueId x = b.input(DType::kBF16, {32, 64}, "x");
  const ValueId gate = b.input(DType::kBF16, {32, 64}, "gate");
  const ValueId y = b.cast(b.mul(x, b.exp(gate)), DType::kBF16);
  b.output(y, "y", {.alias = x});
  b.output(b.sub(softmax(b, y), x), "z");
  b.output(b.reduce(ReduceFn::kSum, b.exp(x), {0}), "sums");
  const Fusion fusion = b.build();
  const Plan plan = plan_of(fusion);
  expect_right(fusion, plan);
  EXPECT_THAT(plan.decisions, Each(testing::Field(&Decision::chosen, Not(HasSubstr("copied")))));
}

TEST(InPlace, AnotherOrderOfElementsIsAnotherKernel) {
  FusionBuilder b("turned");
  const ValueId x = b.input(DType::kF32, {48, 48}, "x");
  b.output(b.permute(b.exp(x), {1, 0}), "y", {.alias = x});
  const Fusion fusion = b.build();
  const Plan plan = plan_of(fusion);
  EXPECT_THAT(plan.kernels, SizeIs(2)) << "no thread reads where it would write";
  expect_right(fusion, plan);
}

TEST(InPlace, GathersFromARowThatIsOverwrittenRunBeforeIt) {
  FusionBuilder b("gathered");
  const ValueId x = b.input(DType::kF32, {24, 32}, "x");
  const ValueId label = b.input(DType::kI64, {24}, "label");
  const ValueId largest = b.broadcast_over(b.reduce(ReduceFn::kMax, x, {1}), x, {1});
  const ValueId picked = b.broadcast_over(b.take(x, label, 1), x, {1});
  b.output(b.mul(b.exp(b.sub(x, largest)), picked), "y", {.alias = x});
  const Fusion fusion = b.build();
  const Plan plan = plan_of(fusion);
  EXPECT_THAT(plan.kernels, SizeIs(2)) << "a row's threads pick what another one overwrites";
  expect_right(fusion, plan);
}

TEST(InPlace, PartsOfAnInputThatAreJoinedInItAreCopied) {
  FusionBuilder b("rolled");
  const ValueId x = b.input(DType::kF32, {12, 64}, "x");
  const ValueId head = b.slice(x, {0, 0}, {12, 16}, {1, 1});
  const ValueId tail = b.slice(x, {0, 16}, {12, 64}, {1, 1});
  b.output(b.concatenate({b.exp(tail), b.neg(head)}, 1), "rolled", {.alias = x});
  const Fusion fusion = b.build();
  expect_right(fusion, plan_of(fusion));
}

TEST(InPlace, CallsWriteInPlaceToo) {
  FusionBuilder b("accumulate");
  const ValueId a = b.input(DType::kBF16, {16, 32}, "a");
  const ValueId c = b.input(DType::kBF16, {16, 16}, "c");
  const ValueId norm = b.reduce(ReduceFn::kSum, c, {1});
  b.output(norm, "norm");
  b.output(b.external("matmul_nt", {a, a}, {{DType::kBF16, {16, 16}}})[0], "next", {.alias = c});
  const Fusion fusion = b.build();
  const Plan plan = plan_of(fusion);
  EXPECT_EQ(plan.externals.front().before, KernelId{1}) << "behind the kernel that reads c";
  expect_right(fusion, plan);
}

TEST(InPlace, PartsAreJoinedInTheInput) {
  FusionBuilder b("joined");
  const ValueId x = b.input(DType::kF32, {12, 64}, "x");
  const ValueId y = b.input(DType::kF32, {12, 32}, "y");
  const ValueId z = b.input(DType::kF32, {12, 32}, "z");
  b.output(b.reduce(ReduceFn::kSum, x, {1}), "sums");
  b.output(b.concatenate({b.exp(y), b.neg(z)}, 1), "parts", {.alias = x});
  const Fusion fusion = b.build();
  expect_right(fusion, plan_of(fusion));
}

// ---- Random graphs

/// The graph with outputs in the memory of inputs that suit them, as a coin says.
Fusion with_aliases(Fusion fusion, uint64_t seed) {
  std::mt19937_64 random(seed);
  if (fusion.layouts.empty()) fusion.layouts.resize(fusion.outputs.size());
  std::set<ValueId> taken;
  for (size_t i = 0; i < fusion.outputs.size(); ++i) {
    for (const ValueId input : fusion.inputs) {
      const auto& op = *fusion.def_as<InputOp>(input);
      const OutputLayout lies{.strides = op.strides, .alignment = op.alignment, .alias = input};
      if (taken.contains(input) || !check_layout(fusion, fusion.outputs[i], lies)) continue;
      if (random() % 4 == 0) continue;
      fusion.layouts[i] = lies;
      taken.insert(input);
      break;
    }
  }
  return fusion;
}

class InPlaceRandomGraphs : public ::testing::TestWithParam<uint64_t> {};

TEST_P(InPlaceRandomGraphs, ComputeTheOracle) {
  constexpr uint64_t kGraphs = 60;
  int aliases = 0;
  int refused = 0;
  for (uint64_t seed = GetParam() * kGraphs; seed < (GetParam() + 1) * kGraphs; ++seed) {
    const RandomGraphOptions options{.ops = static_cast<int>(5 + seed % 30),
                                     .rows = static_cast<int64_t>(1 + seed % 9),
                                     .columns = static_cast<int64_t>(8 + seed % 41),
                                     .joins = seed % 3 == 0,
                                     .calls = seed % 4 == 1};
    const Fusion fusion = with_aliases(random_graph(seed, options), seed);
    ASSERT_THAT(verify(fusion), IsEmpty());
    const auto plan = planned(fusion);
    if (!plan) {
      EXPECT_EQ(plan.error().kind, ErrorKind::kUnsupported) << plan.error().text();
      ++refused;
      continue;
    }
    for (const OutputLayout& layout : fusion.layouts) aliases += layout.alias.valid() ? 1 : 0;
    const auto inputs = sample_inputs(fusion, plan->binding, seed);
    const auto check = check_on_host(fusion, plan->binding, *plan, inputs, builtin_families(),
                                     {.seed = seed}, random_graph_calls());
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << "seed " << seed << "\n" << check->text() << print(fusion);
  }
  EXPECT_GT(aliases, 15);
  EXPECT_EQ(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, InPlaceRandomGraphs, ::testing::Range(uint64_t{0}, uint64_t{4}));

// ---- Lists of tensors

std::vector<Sizes> shapes_of(size_t count) {
  const std::vector<Sizes> some = {{7}, {64, 33}, {4099}, {2, 3, 5}, {1024}, {0, 4}, {1}, {96, 8}};
  std::vector<Sizes> out;
  for (size_t i = 0; i < count; ++i) out.push_back(some[i % some.size()]);
  return out;
}

TEST(InPlaceList, AdamUpdatesItsParametersWhereTheyLie) {
  const Fusion fusion = adam_over(shapes_of(40), {}, DType::kBF16, Updates::kInPlace);
  const Plan plan = plan_of(fusion);
  ASSERT_THAT(plan.kernels, SizeIs(1));
  EXPECT_EQ(plan.kernels.front().chosen().schedule.family, kMultiTensor);
  EXPECT_THAT(plan.kernels.front().facts.list->slots, SizeIs(4)) << "p, g, m, v";
  expect_right(fusion, plan);
  EXPECT_GT(most_list_members(4, 3), most_list_members(7, 3));
}

TEST(InPlaceList, OfManyTensorsRunsThroughAnExecutable) {
  const Fusion fusion = adam_over(shapes_of(300), {}, DType::kF32, Updates::kInPlace);
  FakeDriver driver;
  auto executable = Executable::prepare(interpreted(driver, plan_of(fusion)), driver);
  ASSERT_TRUE(executable) << executable.error().text();
  const auto run = run_on_device(fusion, *executable, driver, {.time = false});
  ASSERT_TRUE(run) << run.error().text();
  EXPECT_TRUE(run->check.passed()) << run->check.text();
}

TEST(InPlaceList, AStepCountIsUpdatedBehindTheListThatReadsIt) {
  FusionBuilder b("counted");
  const ValueId step = b.input(DType::kF32, {}, "step");
  const ValueId next = b.add(step, b.constant(1.0));
  for (int i = 0; i < 20; ++i) {
    const ValueId p = b.input(DType::kF32, {40 + i}, fmt::format("p{}", i));
    b.output(b.div(p, next), fmt::format("q{}", i), {.alias = p});
  }
  b.output(next, "next_step", {.alias = step});
  const Fusion fusion = b.build();
  const Plan plan = plan_of(fusion);
  EXPECT_THAT(plan.kernels, SizeIs(3)) << "the list, the step in the workspace, and its copy";
  expect_right(fusion, plan);
}

TEST(InPlaceList, TensorsThatSomethingElseReadsAreOverwrittenLast) {
  FusionBuilder b("watched");
  const ValueId rate = b.input(DType::kF32, {}, "rate");
  for (int i = 0; i < 20; ++i) {
    const ValueId p = b.input(DType::kF32, {40 + i, 8}, fmt::format("p{}", i));
    b.output(b.mul(p, rate), fmt::format("q{}", i), {.alias = p});
    if (i % 5 == 0) b.output(b.reduce(ReduceFn::kSum, p, {1}), fmt::format("sum{}", i));
  }
  const Fusion fusion = b.build();
  expect_right(fusion, plan_of(fusion));
}

// ---- Through an executable

TEST(InPlaceExecutable, TakesOneTensorAsBoth) {
  const Fusion fusion = fused_add_rms_norm(16, 256);
  FakeDriver driver;
  auto executable = Executable::prepare(interpreted(driver, plan_of(fusion)), driver);
  ASSERT_TRUE(executable) << executable.error().text();
  const auto run = run_on_device(fusion, *executable, driver, {.time = false});
  ASSERT_TRUE(run) << run.error().text();
  EXPECT_TRUE(run->check.passed()) << run->check.text();

  const Sizes sizes = {16, 256};
  const auto tensor = [&](DevicePointer address) {
    return Tensor{.address = address, .type = DType::kBF16, .sizes = sizes, .strides = {}};
  };
  constexpr DevicePointer kX = 0x10000;
  constexpr DevicePointer kResidual = 0x20000;
  constexpr DevicePointer kElsewhere = 0x30000;
  const std::vector<Tensor> inputs = {tensor(kX), tensor(kResidual)};
  const auto refused = [&](const std::vector<Tensor>& in, const std::vector<Tensor>& out) {
    const int64_t before = driver.calls(DriverCall::kLaunch);
    const auto done = executable->execute(in, out, 0, 0, nullptr);
    EXPECT_EQ(driver.calls(DriverCall::kLaunch), before);
    return done ? Error{} : done.error();
  };
  const Error apart = refused(inputs, {tensor(kElsewhere), tensor(kX)});
  EXPECT_EQ(apart.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(apart.message, HasSubstr("at 0x20000, and lies at 0x30000"));
  EXPECT_THAT(apart.values, SizeIs(2));
  EXPECT_THAT(refused(inputs, {tensor(kX), tensor(kResidual)}).message,
              HasSubstr("takes over the memory of the input"))
      << "the wrong way round";
  // What is overwritten shares memory with nothing else.
  EXPECT_THAT(refused({tensor(kX), tensor(kX)}, {tensor(kX), tensor(kX)}).message,
              HasSubstr("overlaps the memory of"));
}

// ---- On a GPU

/// Made when its test runs: the list has thousands of ops, and every process of the tests would
/// wait for it.
struct LargeGraph {
  std::string name;
  std::function<Fusion()> make;
};

class InPlaceGpu : public LiveDeviceTest<LargeGraph> {};

TEST_P(InPlaceGpu, ComputesTheOracle) { expect_right_on_device(GetParam().make()); }

INSTANTIATE_TEST_SUITE_P(
    Graphs, InPlaceGpu,
    ::testing::Values(
        LargeGraph{"fused_add_rms_norm", [] { return fused_add_rms_norm(8192, 4096); }},
        LargeGraph{"fused_add_rms_norm_odd", [] { return fused_add_rms_norm(1023, 5001); }},
        LargeGraph{"softmax", [] { return softmax_in_place(4096, 8192); }},
        LargeGraph{"softmax_of_long_rows", [] { return softmax_in_place(64, 151936); }},
        LargeGraph{"norm_backward", [] { return norm_backward_in_place(8192, 4096); }},
        LargeGraph{"swapped", [] { return swapped({1 << 22}); }},
        LargeGraph{"list",
                   [] { return adam_over(shapes_of(300), {}, DType::kBF16, Updates::kInPlace); }}),
    [](const auto& graph) { return graph.param.name; });

}  // namespace sinter::in_place_test
