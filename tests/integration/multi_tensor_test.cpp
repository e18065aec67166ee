// Optimizer updates over many tensors of different sizes: how many kernels they are, how long
// planning takes, and that they compute the oracle: in the interpreter, on a fake driver, on a GPU.

#include <gmock/gmock.h>

#include <ctime>
#include <random>
#include <set>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/training_composites.h"
#include "runtime/check/device_run.h"
#include "runtime/driver/event_timer.h"
#include "scheduler/analysis/tensor_list.h"
#include "scheduler/families/multi_tensor.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/integration/live_device.h"
#include "tests/support/fake_driver.h"
#include "tests/support/h200.h"
#include "tests/support/plan_matchers.h"
#include "tests/support/reference_calls.h"
#include "tests/support/training_layers.h"

namespace sinter::multi_tensor_test {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Plan plan_of(const Fusion& fusion) {
  auto planned = plan(fusion, {}, kLimits, {.families = builtin_families()});
  if (!planned) throw_error(planned.error());
  return std::move(*planned);
}

/// Sizes that fit nothing: none, one, primes, one beyond and one below a tile.
std::vector<Sizes> awkward_shapes() {
  return {{7}, {0}, {1}, {31, 33}, {4099}, {2, 3, 5}, {1023}, {1025}, {0, 4}, {8192}, {13}, {64}};
}

/// So many tensors of a transformer's shapes, scaled down by 2^shift along their axes.
std::vector<Sizes> model_shapes(size_t count, int shift) {
  const int64_t hidden = 4096 >> shift;
  const std::vector<Sizes> layer = {{hidden},         {3 * hidden, hidden}, {3 * hidden},
                                    {hidden, hidden}, {hidden + 3},         {4 * hidden, hidden},
                                    {4 * hidden},     {hidden, 7}};
  std::vector<Sizes> out;
  for (size_t i = 0; i < count; ++i) out.push_back(layer[i % layer.size()]);
  return out;
}

/// y = x * rate + decay for tensors of one type, which promise so much alignment.
Fusion scaled(std::span<const Sizes> shapes, DType type, int64_t alignment) {
  FusionBuilder b("scaled");
  const ValueId rate = b.input(DType::kF32, {}, "rate");
  for (size_t i = 0; i < shapes.size(); ++i) {
    const ValueId x = b.input(type, Shape(shapes[i].begin(), shapes[i].end()),
                              fmt::format("x{}", i), {.alignment = alignment});
    b.output(b.cast(b.mul(x, rate), type), fmt::format("y{}", i));
  }
  return b.build();
}

void expect_right(const Fusion& fusion, const Plan& planned, uint64_t seed) {
  const FamilySet families = builtin_families();
  const auto inputs = sample_inputs(fusion, planned.binding, seed);
  const auto check =
      check_on_host(fusion, planned.binding, planned, inputs, families, {.seed = seed},
                    {.run = run_reference_call, .evaluate = reference_call});
  ASSERT_TRUE(check) << check.error().text();
  EXPECT_TRUE(check->passed()) << check->text();
}

// ---- Plans

TEST(MultiTensorPlan, IsOneKernelFor300Tensors) {
  const Plan planned = plan_of(adam_over(model_shapes(300, 0)));
  ASSERT_THAT(planned.kernels, SizeIs(1));
  EXPECT_EQ(planned.kernels.front().chosen().schedule.family, kMultiTensor);
  ASSERT_TRUE(planned.kernels.front().facts.list);
  EXPECT_THAT(planned.kernels.front().facts.list->members, SizeIs(300));
  ASSERT_FALSE(planned.kernels.front().decisions.empty());
  const Decision& decision = planned.kernels.front().decisions.back();
  EXPECT_EQ(decision.question, "do tensors of different sizes share a kernel");
  EXPECT_THAT(decision.because, HasSubstr("in 1 launch(es), "));
  EXPECT_EQ(planned.workspace_bytes, 0);
}

TEST(MultiTensorPlan, IsAsManyKernelsAsArgumentsAllow) {
  const size_t count = 3000;
  const Plan planned = plan_of(adam_over(model_shapes(count, 4)));
  const int64_t most = most_list_members(7, 3);
  EXPECT_EQ(std::ssize(planned.kernels), (static_cast<int64_t>(count) + most - 1) / most);
  size_t members = 0;
  std::set<std::string> texts;
  for (const KernelPlan& kernel : planned.kernels) {
    members += kernel.facts.list->members.size();
    texts.insert(emit(kernel.facts, kernel.chosen().schedule).value().text);
  }
  EXPECT_EQ(members, count);
  EXPECT_THAT(texts, SizeIs(1)) << "they are compiled once";
}

// Time of this process alone, so that others on the machine do not count. Ten times the tensors
// take ten times as long; what looks at pairs of them would take a hundred times as long.
TEST(MultiTensorPlan, TakesTimeInProportionToTheTensors) {
  const auto clocks_of = [](size_t count) {
    const Fusion fusion = adam_over(model_shapes(count, 4));
    const std::clock_t begin = std::clock();
    plan_of(fusion);
    return static_cast<double>(std::clock() - begin);
  };
  const double few = std::min(clocks_of(300), clocks_of(300));
  EXPECT_LT(clocks_of(3000), 30.0 * few);
}

TEST(MultiTensorPlan, LeavesEqualTensorsThatOneKernelTakesAlone) {
  const std::vector<Sizes> shapes(4, Sizes{1 << 16});
  const Plan planned = plan_of(adam_over(shapes));
  ASSERT_THAT(planned.kernels, SizeIs(1));
  EXPECT_EQ(planned.kernels.front().chosen().schedule.family, "pointwise");
}

TEST(MultiTensorPlan, CutsWhatHasMoreTensorsThanArguments) {
  // 130 sums that share their shape and nothing else: no list, and not one launch either.
  FusionBuilder b("sums");
  for (int64_t i = 0; i < 130; ++i)
    b.output(b.reduce(ReduceFn::kSum, b.input(DType::kF32, {64}, fmt::format("x{}", i)), {0}),
             fmt::format("sum{}", i));
  const Plan planned = plan_of(b.build());
  EXPECT_GE(planned.kernels.size(), 3U);
  for (const KernelPlan& kernel : planned.kernels)
    EXPECT_LE(std::ssize(kernel.facts.fusion.inputs) + std::ssize(kernel.facts.fusion.outputs),
              kMostArgumentTensors);
  const KernelSource source =
      emit(planned.kernels.front().facts, planned.kernels.front().chosen().schedule).value();
  EXPECT_LE(source.buffers.size() + source.params.size(), kMaxKernelArguments);
}

TEST(MultiTensorPlan, TakesEqualTensorsThatAreTooManyForArguments) {
  const std::vector<Sizes> shapes(60, Sizes{1 << 12});
  const Plan planned = plan_of(adam_over(shapes));
  ASSERT_THAT(planned.kernels, SizeIs(1));
  EXPECT_EQ(planned.kernels.front().chosen().schedule.family, kMultiTensor);
}

TEST(MultiTensorPlan, MakesAListForEachKindOfTensor) {
  // No weight decay for vectors, say: another constant, another kind.
  FusionBuilder b("two_kinds");
  for (int64_t i = 1; i <= 12; ++i) {
    const ValueId x = b.input(DType::kF32, {i * 100}, fmt::format("x{}", i));
    b.output(b.mul(x, b.constant(i % 2 == 0 ? 0.5 : 0.25)), fmt::format("y{}", i));
  }
  const Fusion fusion = b.build();
  const Plan planned = plan_of(fusion);
  ASSERT_THAT(planned.kernels, SizeIs(2));
  for (const KernelPlan& kernel : planned.kernels)
    EXPECT_THAT(kernel.facts.list->members, SizeIs(6));
  expect_right(fusion, planned, 3);
}

TEST(MultiTensorPlan, RunsListsBehindWhatTheirScalarsNeed) {
  // Gradients clipped by the norm of all of them, in one graph with the update.
  FusionBuilder b("clipped");
  std::vector<ValueId> gradients;
  ValueId sum = b.constant(0.0);
  for (int64_t i = 0; i < 9; ++i) {
    gradients.push_back(b.input(DType::kF32, {50 + 37 * i}, fmt::format("g{}", i)));
    sum = b.add(sum, b.reduce(ReduceFn::kSum, b.mul(gradients.back(), gradients.back()), {0}));
  }
  const ValueId scale = b.rsqrt(sum);
  b.output(scale, "scale");
  for (size_t i = 0; i < gradients.size(); ++i)
    b.output(b.mul(gradients[i], scale), fmt::format("clipped{}", i));
  const Fusion fusion = b.build();
  const Plan planned = plan_of(fusion);
  EXPECT_TRUE(planned.kernels.back().facts.list);
  EXPECT_THAT(planned.kernels.back().facts.list->members, SizeIs(9));
  expect_right(fusion, planned, 5);
}

TEST(MultiTensorPlan, ReadsWhatCallsMake) {
  FusionBuilder b("gradients_of_calls");
  for (int64_t i = 1; i <= 5; ++i) {
    const ValueId x = b.input(DType::kF32, {8, 4 * i}, fmt::format("x{}", i));
    const ValueId y = b.input(DType::kF32, {8, 6}, fmt::format("dy{}", i));
    const Shape shape = {4 * i, 6};
    const ValueId g = b.external("matmul_tn", {x, y}, {{DType::kF32, shape}}).front();
    const ValueId p = b.input(DType::kF32, shape, fmt::format("p{}", i));
    b.output(b.sub(p, b.mul(g, b.constant(0.125))), fmt::format("next_p{}", i));
  }
  const Fusion fusion = b.build();
  const Plan planned = plan_of(fusion);
  ASSERT_THAT(planned.kernels, SizeIs(1));
  EXPECT_THAT(planned.externals, SizeIs(5));
  EXPECT_THAT(planned.kernels.front().facts.list->members, SizeIs(5));
  expect_right(fusion, planned, 7);
}

TEST(MultiTensorPlan, CanBePinned) {
  const Fusion fusion = adam_over(std::vector<Sizes>{{100}, {200}});
  const auto planned = plan(fusion, {}, kLimits,
                            {.families = builtin_families(),
                             .pin = {.family = std::string(kMultiTensor), .vector_width = 4}});
  ASSERT_TRUE(planned) << planned.error().text();
  ASSERT_THAT(planned->kernels, SizeIs(1));
  EXPECT_EQ(planned->kernels.front().chosen().schedule.vector_width, 4);
  expect_right(fusion, *planned, 9);
}

// ---- Kernels

TEST(MultiTensorKernel, ComputesTheOracleForAwkwardSizes) {
  for (const DType type : {DType::kBF16, DType::kF32}) {
    const Fusion fusion = adam_over(awkward_shapes(), {}, type);
    const Plan planned = plan_of(fusion);
    ASSERT_THAT(planned.kernels, SizeIs(1));
    ASSERT_TRUE(planned.kernels.front().facts.list);
    expect_right(fusion, planned, 11);
  }
}

TEST(MultiTensorKernel, ComputesTheOracleForTensorsThatPromiseLess) {
  for (const int64_t alignment : {2, 4, 8, 16}) {
    const Fusion fusion = scaled(awkward_shapes(), DType::kBF16, alignment);
    const Plan planned = plan_of(fusion);
    ASSERT_THAT(planned.kernels, SizeIs(1)) << alignment;
    expect_right(fusion, planned, 13);
  }
}

TEST(MultiTensorKernel, ComputesTheOracleUnderAnySchedule) {
  std::mt19937_64 bits(17);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    std::vector<Sizes> shapes;
    const size_t count = 2 + bits() % 40;
    for (size_t i = 0; i < count; ++i)
      shapes.push_back({static_cast<int64_t>(bits() % (seed % 3 == 0 ? 9 : 3000))});
    const Fusion fusion = seed % 2 == 0 ? adam_over(shapes) : scaled(shapes, DType::kF16, 16);
    const auto planned =
        plan(fusion, {}, kLimits,
             {.families = builtin_families(), .pin = {.family = std::string(kMultiTensor)}});
    ASSERT_TRUE(planned) << planned.error().text();
    const auto drawn = random_schedule(planned->kernels.front().facts, kLimits, builtin_families(),
                                       seed, kMultiTensor);
    ASSERT_TRUE(drawn);
    EXPECT_TRUE(computes_the_oracle(fusion, *planned, drawn->schedule, seed));
  }
}

TEST(MultiTensorKernel, ComputesNothingOfNothing) {
  const Fusion fusion = adam_over(std::vector<Sizes>{{0}, {0, 3}});
  const auto planned =
      plan(fusion, {}, kLimits,
           {.families = builtin_families(), .pin = {.family = std::string(kMultiTensor)}});
  ASSERT_TRUE(planned) << planned.error().text();
  expect_right(fusion, *planned, 19);
}

TEST(MultiTensorKernel, SurvivesItsText) {
  const Plan planned = plan_of(adam_over(awkward_shapes()));
  const KernelPlan& kernel = planned.kernels.front();
  const LoweredKernel lowered = lower(kernel.facts, kernel.chosen().schedule).value();
  const std::string text = print(lowered.kernel);
  EXPECT_THAT(text, HasSubstr("tensors 16 values"));
  EXPECT_THAT(text, HasSubstr("i32 argument read"));
  const auto parsed = parse_kernel(text);
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(*parsed, lowered.kernel);
}

TEST(MultiTensorKernel, IsOneForListsOfAboutTheSameLength) {
  const auto source = [](std::vector<Sizes> shapes) {
    const Plan planned = plan_of(adam_over(shapes));
    return emit(planned.kernels.front().facts, planned.kernels.front().chosen().schedule).value();
  };
  const KernelSource one = source(model_shapes(40, 2));
  std::vector<Sizes> others = model_shapes(47, 2);
  others[3] = {12345};
  const KernelSource other = source(others);
  EXPECT_EQ(one.text, other.text);
  EXPECT_NE(one.table, other.table);
  EXPECT_EQ(one.table.size(), other.table.size());
}

TEST(MultiTensorKernel, HasTheArgumentsThatWerePlanned) {
  for (const size_t count : {2U, 17U, 300U, 464U}) {
    const auto planned =
        plan(adam_over(model_shapes(count, 5)), {}, kLimits,
             {.families = builtin_families(), .pin = {.family = std::string(kMultiTensor)}});
    ASSERT_TRUE(planned) << planned.error().text();
    const KernelPlan& kernel = planned->kernels.front();
    const KernelSource source = emit(kernel.facts, kernel.chosen().schedule).value();
    EXPECT_EQ(static_cast<int64_t>(source.table.size() +
                                   8 * (source.buffers.size() + source.params.size())),
              list_argument_bytes(static_cast<int64_t>(count), 7, 3));
    EXPECT_THAT(source.table_entries, SizeIs(7 * count));
    EXPECT_THAT(source.text, HasSubstr("__grid_constant__"));
  }
}

// ---- Through an executable

TEST(MultiTensorExecutable, ComputesTheOracleOnAFakeDriver) {
  for (const size_t count : {12U, 300U}) {
    const Fusion fusion = adam_over(count == 12 ? awkward_shapes() : model_shapes(count, 9));
    FakeDriver driver;
    auto executable = Executable::prepare(interpreted(driver, plan_of(fusion)), driver);
    ASSERT_TRUE(executable) << executable.error().text();
    const int64_t before = driver.calls(DriverCall::kLaunch);
    const auto run = run_on_device(fusion, *executable, driver, {.time = false});
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->check.passed()) << run->check.text();
    EXPECT_EQ(driver.calls(DriverCall::kLaunch), before + 1);
  }
}

// ---- Compiled

class MultiTensorNvrtc : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!compiler_) GTEST_SKIP() << "no NVRTC: " << compiler_.error().message;
  }
  Result<NvrtcCompiler> compiler_ = NvrtcCompiler::open();
  KernelCache cache_{{}};
};

TEST_P(MultiTensorNvrtc, Compiles) {
  auto planned = plan(adam_over(model_shapes(300, 0)), {}, *find_device(GetParam()),
                      {.families = builtin_families()});
  ASSERT_TRUE(planned) << planned.error().text();
  const auto compiled = compile_plan(std::move(*planned), *compiler_, cache_);
  ASSERT_TRUE(compiled) << compiled.error().text();
  const KernelBuild& kernel = compiled->kernels.front();
  EXPECT_THAT(kernel.kernel->log, testing::Not(HasSubstr("warning")));
  EXPECT_EQ(kernel.kernel->resources.spill_store_bytes, 0);
  // The estimate counts no more blocks than the compiler makes room for.
  EXPECT_LE(kernel.kernel->resources.registers, kernel.chosen.estimate.registers);
}

INSTANTIATE_TEST_SUITE_P(Devices, MultiTensorNvrtc,
                         ::testing::Values("A100", "H200", "B200", "RTX PRO 6000"),
                         [](const auto& device) {
                           std::string name = device.param;
                           std::erase(name, ' ');
                           return name;
                         });

// ---- On a GPU

class MultiTensorGpu : public LiveDeviceTest<int> {};

TEST_P(MultiTensorGpu, ComputesTheOracle) {
  expect_right_on_device(adam_over(awkward_shapes()));
  expect_right_on_device(scaled(awkward_shapes(), DType::kBF16, 2));
  expect_right_on_device(adam_over(model_shapes(300, 4)));
  expect_right_on_device(adam_over(model_shapes(1000, 6)));
}

INSTANTIATE_TEST_SUITE_P(One, MultiTensorGpu, ::testing::Values(0));

}  // namespace sinter::multi_tensor_test
