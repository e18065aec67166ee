// Functions that return a Result throw nothing of Sinter's own: what goes wrong deep inside is the
// Result's error. What a function of the caller's throws gets out, and is not taken for an answer.

#include <gmock/gmock.h>

#include <limits>
#include <new>
#include <stdexcept>

#include "codegen/cuda/emit.h"
#include "codegen/lower/interruptible_lowering.h"
#include "fusion_ir/fusion_builder.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/check/host_execution.h"
#include "runtime/check/npy.h"
#include "runtime/execute/ranged_executable.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/sweep.h"
#include "tests/errors/error_expectations.h"
#include "tests/runtime/scratch_directory.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"
#include "tests/support/uncompiled_plan.h"

namespace sinter::no_exceptions_test {

using ::testing::HasSubstr;

const ExtentValues kSizes{{"rows", 8}, {"cols", 64}};
const DeviceLimits kDevice = *find_device("H200");

Fusion softmax() { return find_canned_fusion("softmax")->build(); }
Plan planned() {
  return plan(softmax(), kSizes, kDevice, {.families = builtin_families()}).value();
}

/// The families, each of which throws as soon as it is asked for schedules or to lower.
template <class Thrown>
FamilySet throwing(const Thrown& thrown) {
  FamilySet families = builtin_families();
  for (Family& family : families) {
    family.propose = [thrown](const SegmentFacts&, const DeviceLimits&) -> Proposal {
      throw thrown;
    };
    family.lower = [thrown](const SegmentFacts&, const Schedule&) -> LoweredKernel {
      throw thrown;
    };
  }
  return families;
}

SinterException defect() { return SinterException(Error{.message = "planted"}); }

void expect_defect(const Error& error) {
  EXPECT_EQ(error.kind, ErrorKind::kInternalError);
  EXPECT_THAT(error.message, HasSubstr("planted"));
}

TEST(NoExceptions, ADefectOfAFamilyIsAnErrorAndNoRefusal) {
  const FamilySet families = throwing(defect());
  const auto by_plan = plan(softmax(), kSizes, kDevice, {.families = families});
  ASSERT_FALSE(by_plan);
  expect_defect(by_plan.error());
  const auto by_sweep =
      sweep(softmax(), kSizes, kDevice, {{"cols", {64, 128}}}, {.families = families});
  ASSERT_FALSE(by_sweep);
  expect_defect(by_sweep.error());
  const Plan good = planned();
  const KernelPlan& kernel = good.kernels.front();
  const auto by_lower = lower(kernel.facts, kernel.chosen().schedule, families);
  ASSERT_FALSE(by_lower);
  expect_defect(by_lower.error());
  const auto by_emit = emit(kernel.facts, kernel.chosen().schedule, families);
  ASSERT_FALSE(by_emit);
  expect_defect(by_emit.error());
  const auto by_host = execute_on_host(good, sample_inputs(good.fusion, {}, 1), families);
  ASSERT_FALSE(by_host);
  expect_defect(by_host.error());
}

// A plan of other sizes would only hide it.
TEST(NoExceptions, ADefectAtOtherSizesIsAnErrorThere) {
  FakeDriver driver;
  RangedOptions options{.fixed = {{"cols", 64}}};
  bool throws = false;
  for (Family& family : options.plan.families) {
    family.estimate = [&throws, estimate = family.estimate](const SegmentFacts& facts,
                                                            const Schedule& schedule,
                                                            const DeviceLimits& limits) {
      if (throws) throw defect();
      return estimate(facts, schedule, limits);
    };
  }
  auto ranged = RangedExecutable::prepare(
      softmax(), {{"rows", {1, 64}}}, kDevice,
      [](Plan plan) { return uncompiled(std::move(plan)); }, driver, options);
  ASSERT_TRUE(ranged) << ranged.error().text();
  throws = true;
  const auto at = ranged->at({{"rows", 9}});
  ASSERT_FALSE(at);
  expect_defect(at.error());
}

TEST(NoExceptions, MissingMemoryIsResourceExhausted) {
  for (const auto& failed :
       {plan(softmax(), kSizes, kDevice, {.families = throwing(std::bad_alloc())}),
        plan(softmax(), kSizes, kDevice, {.families = throwing(std::length_error("vector"))})}) {
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::kResourceExhausted);
    EXPECT_NE(failed.error().remedy, "");
  }
}

TEST(NoExceptions, WhatACallersFunctionThrowsGetsOut) {
  const FamilySet families = throwing(std::runtime_error("theirs"));
  EXPECT_THROW((void)plan(softmax(), kSizes, kDevice, {.families = families}), std::runtime_error);
  const Plan good = planned();
  const KernelPlan& kernel = good.kernels.front();
  EXPECT_THROW((void)lower(kernel.facts, kernel.chosen().schedule, families), std::runtime_error);
}

TEST(NoExceptions, AnInterruptedCompilationIsATypedError) {
  const Plan good = planned();
  const KernelPlan& kernel = good.kernels.front();
  const FamilySet late =
      interruptible_lowering(builtin_families(), {.deadline = std::chrono::steady_clock::now()});
  const auto ended = emit(kernel.facts, kernel.chosen().schedule, late);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, ErrorKind::kResourceExhausted);
  const FamilySet stopped = interruptible_lowering(
      builtin_families(), {.progress = [](const Progress&) { return false; }});
  const auto cancelled = emit(kernel.facts, kernel.chosen().schedule, stopped);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::kCancelled);
}

TEST(NoExceptions, SizesBeyondAllNumbersAreErrors) {
  const ScratchDirectory scratch;
  const std::string path = (scratch.path() / "x.npy").string();
  ASSERT_TRUE(write_npy(path, HostTensor::zeros(DType::kF32, {2, 3})));
  const int64_t many = int64_t{1} << 40;
  for (const Sizes& sizes :
       {Sizes{many, many}, Sizes{-1}, Sizes{many, 3}, Sizes{std::numeric_limits<int64_t>::max()}}) {
    const auto read = read_npy(path, DType::kF32, sizes);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(NoExceptions, TensorsThatSuitNoGraphAreErrors) {
  const Plan good = planned();
  for (const std::vector<HostTensor>& inputs :
       {std::vector<HostTensor>{}, std::vector{HostTensor::zeros(DType::kF32, {8, 64})},
        std::vector{HostTensor::zeros(DType::kBF16, {7, 64})}}) {
    const auto check = check_on_host(softmax(), good.binding, good, inputs, builtin_families());
    ASSERT_FALSE(check);
    EXPECT_EQ(check.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(NoExceptions, AnErrorThrownByACallbackIsTheErrorOfTheCall) {
  KernelCache cache({});
  const KernelKey key{};
  const auto lookup = cache.get_or_compile(
      key, []() -> Result<CompiledKernel> { throw_error({.message = "planted"}); });
  ASSERT_FALSE(lookup);
  expect_defect(lookup.error());
  FusionBuilder b("call");
  b.output(b.external("run", {b.input(DType::kF32, {4})}, {{DType::kF32, {4}}})[0]);
  const Plan called = plan(b.build(), {}, kDevice, {.families = builtin_families()}).value();
  const auto run =
      execute_on_host(called, sample_inputs(called.fusion, {}, 1), builtin_families(), {},
                      {.run = [](const ExternalOp&, std::span<const HostTensor>,
                                 std::span<HostTensor>) { throw_error({.message = "planted"}); }});
  ASSERT_FALSE(run);
  expect_defect(run.error());
}

}  // namespace sinter::no_exceptions_test
