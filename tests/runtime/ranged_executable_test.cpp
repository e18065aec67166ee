#include "runtime/execute/ranged_executable.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "tests/runtime/allocation_counter.h"
#include "tests/runtime/ranged_executable_fixture.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"
#include "tests/support/uncompiled_plan.h"

namespace sinter::ranged_executable_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST_F(RangedExecutableTest, PlansOnceForEachSizeItIsAskedFor) {
  RangedExecutable ranged = rows_only();
  EXPECT_EQ(compiled_, 1) << "the largest size at once";
  for (const int64_t rows : {512, 7, 0, 7, 512, 0, 1}) {
    const auto ready = ranged.at({{"rows", rows}});
    ASSERT_TRUE(ready) << ready.error().text();
    EXPECT_EQ((*ready)->compiled().plan.binding.symbol_sizes, (Sizes{rows, kColumns}));
  }
  EXPECT_EQ(compiled_, 4);
  EXPECT_EQ(ranged.at({{"rows", 7}}).value(), ranged.at({{"rows", 7}, {"cols", kColumns}}).value());
}

TEST_F(RangedExecutableTest, PlansFirstWhereItIsTold) {
  const RangedExecutable ranged =
      prepare({{"rows", {0, 512}}, {"cols", {8, 1024}}}, {.first = {{"rows", 33}}}).value();
  ASSERT_THAT(ranged.report().kept, SizeIs(1));
  EXPECT_EQ(ranged.report().kept[0].extents, (ExtentValues{{"rows", 33}, {"cols", 1024}}));
  EXPECT_THAT(ranged.ranges(), ElementsAre(ExtentRange{0, 512}, ExtentRange{8, 1024}));
}

TEST_F(RangedExecutableTest, ExecutesAtTheSizesOfTheTensors) {
  RangedExecutable ranged = rows_only();
  for (const int64_t rows : {3, 400, 3}) {
    const Tensors at = tensors(rows);
    const auto ready = ranged.at({{"rows", rows}}).value();
    int64_t seen = -1;
    const KernelSource& source = ready->compiled().kernels.front().source;
    driver_.set_kernel(source.entry, source.buffers.size() + source.params.size(),
                       [&](const LaunchConfig&, std::span<const uint64_t> arguments) {
                         seen = static_cast<int64_t>(arguments[source.buffers.size()]);
                       });
    const auto done = ranged.execute(at.inputs, at.outputs, 0, 0, nullptr);
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(seen, rows);
  }
}

TEST_F(RangedExecutableTest, ExecutesNoRows) {
  RangedExecutable ranged = rows_only();
  const Tensors none = tensors(0);
  ASSERT_TRUE(ranged.execute(none.inputs, none.outputs, 0, 0, nullptr));
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
}

TEST_F(RangedExecutableTest, AllocatesNothingForSizesAtHand) {
  RangedExecutable ranged = rows_only();
  const Tensors at = tensors(40);
  ASSERT_TRUE(ranged.execute(at.inputs, at.outputs, 0, 0, nullptr));
  const int64_t launches = driver_.calls(DriverCall::kLaunch);
  const int64_t allocations = allocation_count();
  for (int i = 0; i < 100; ++i) {
    if (!ranged.execute(at.inputs, at.outputs, 0, 0, nullptr)) FAIL();
  }
  EXPECT_EQ(allocation_count(), allocations);
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), launches + 100);
}

TEST_F(RangedExecutableTest, SizesAtHandMayBeCaptured) {
  RangedExecutable ranged = rows_only();
  const Tensors at = tensors(40);
  const ExecutablePtr held = ranged.at({{"rows", 40}}).value();
  StreamHandle stream = nullptr;
  GraphHandle graph = nullptr;
  ASSERT_EQ(driver_.stream_create(&stream, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.capture_begin(stream, CaptureMode::kGlobal), DriverStatus::kSuccess);
  EXPECT_TRUE(ranged.execute(at.inputs, at.outputs, 0, 0, stream));
  ASSERT_EQ(driver_.capture_end(stream, &graph), DriverStatus::kSuccess);
  EXPECT_EQ(driver_.capture_violations(), 0);
  EXPECT_EQ(driver_.graph_destroy(graph), DriverStatus::kSuccess);
  EXPECT_EQ(driver_.stream_destroy(stream), DriverStatus::kSuccess);
}

TEST_F(RangedExecutableTest, RefusesSizesOutsideTheRange) {
  RangedExecutable ranged = rows_only();
  const auto above = ranged.at({{"rows", 513}});
  ASSERT_FALSE(above);
  EXPECT_EQ(above.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(above.error().text(), AllOf(HasSubstr("'rows' is 513, outside the served range 0 to "
                                                    "512"),
                                          HasSubstr("pass at most 512")));
  EXPECT_EQ(above.error().measured, 513);
  EXPECT_EQ(above.error().limit, 512);
  const auto below = ranged.at({{"rows", -1}});
  ASSERT_FALSE(below);
  EXPECT_THAT(below.error().text(), HasSubstr("pass at least 0"));
  const auto other = ranged.at({{"rows", 1}, {"cols", 65}});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().text(), HasSubstr("'cols' is 65, which was fixed at 64"));
  EXPECT_EQ(compiled_, 1);
  expect_refused(ranged, tensors(513), HasSubstr("'rows' is 513 (axis 0 of %v0 'x')"));
  EXPECT_TRUE(ranged.at({{"rows", 512}})) << "nothing is lost";
  EXPECT_EQ(compiled_, 1);
}

TEST_F(RangedExecutableTest, RefusesUnknownAndMissingSymbols) {
  RangedExecutable ranged = rows_only();
  const auto unknown = ranged.at({{"row", 3}});
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().text(),
              AllOf(HasSubstr("has no symbol 'row'"), HasSubstr("name one of: rows, cols")));
  const auto missing = ranged.at({});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().text(),
              AllOf(HasSubstr("there is no size for symbol 'rows'"), HasSubstr("from 0 to 512")));
}

TEST_F(RangedExecutableTest, RefusesTensorsThatContradictEachOther) {
  RangedExecutable ranged = rows_only();
  Tensors at = tensors(5);
  at.outputs[0].sizes[0] = 6;
  expect_refused(ranged, at,
                 AllOf(HasSubstr("'rows' is 6 along axis 0 of %v"),
                       HasSubstr("but 5 along axis 0 of %v0 'x'")));
  at.outputs[0].sizes[0] = -1;
  expect_refused(ranged, at, HasSubstr("'rows' is -1 along axis 0"));
  at = tensors(5);
  at.inputs[0].sizes[0] = -1;
  expect_refused(ranged, at, HasSubstr("'rows' is -1 (axis 0 of %v0 'x')"));
  at = tensors(5);
  at.inputs[0].sizes.pop_back();
  expect_refused(ranged, at, HasSubstr("the tensor for %v0 'x' has 1 axes, the fusion's 2"));
  at = tensors(5);
  at.inputs.pop_back();
  expect_refused(ranged, at, HasSubstr("1 inputs and 1 outputs were passed, the fusion has 2"));
}

TEST_F(RangedExecutableTest, RefusesTensorsThatContradictConstants) {
  FusionBuilder b("doubled");
  const ValueId x = b.input(DType::kF32, {b.symbol("rows"), 48}, "x");
  b.output(b.add(x, x), "y");
  fusion_ = b.build();
  RangedExecutable ranged = prepare({{"rows", {1, 100}}}).value();
  Tensors at = tensors({{"rows", 9}});
  at.inputs[0].sizes[1] = 47;
  expect_refused(ranged, at, HasSubstr("axis 1 of %v0 'x' is 47, in the fusion it is 48"));
}

TEST_F(RangedExecutableTest, RefusesToReadASymbolThatNoTensorHas) {
  FusionBuilder b("filled");
  const Extent rows = b.symbol("rows");
  const ValueId x = b.input(DType::kF32, {48}, "x");
  b.output(b.sum(b.broadcast(x, {rows, 48}, {1}), {0}), "y");
  fusion_ = b.build();
  RangedExecutable ranged = prepare({{"rows", {1, 100}}}).value();
  expect_refused(ranged, tensors({{"rows", 9}}), HasSubstr("no tensor has the size of symbol"));
  EXPECT_TRUE(ranged.at({{"rows", 9}}));
}

TEST_F(RangedExecutableTest, RefusesBadRanges) {
  const RangedOptions columns{.fixed = {{"cols", kColumns}}};
  expect_refused({{"row", {0, 8}}}, columns, HasSubstr("has no symbol 'row'"));
  expect_refused({{"rows", {9, 8}}}, columns,
                 HasSubstr("the range 9 to 8 of symbol 'rows' is empty"));
  expect_refused({{"rows", {-4, 8}}}, columns,
                 HasSubstr("the range of symbol 'rows' starts at -4"));
  expect_refused({{"rows", {0, 8}}}, {},
                 HasSubstr("symbol 'cols' has neither a range, a size nor a hint"));
  expect_refused({{"rows", {0, 8}}}, {.fixed = {{"cols", -1}}},
                 HasSubstr("the fixed size -1 of symbol 'cols' is negative"));
  expect_refused({{"rows", {0, 8}}, {"cols", {1, 8}}}, columns,
                 HasSubstr("symbol 'cols' has a range and a fixed size"));
  expect_refused({{"rows", {0, 8}}}, {.fixed = {{"columns", 1}}},
                 HasSubstr("has no symbol 'columns'"));
  RangedOptions nothing = columns;
  nothing.kept = 0;
  expect_refused({{"rows", {0, 8}}}, nothing, HasSubstr("keep at least one"));
  RangedOptions outside = columns;
  outside.first = {{"rows", 9}};
  expect_refused({{"rows", {0, 8}}}, outside, HasSubstr("'rows' is 9, outside the served range"));
}

TEST_F(RangedExecutableTest, KeepsPromisedDivisibility) {
  FusionBuilder b("doubled");
  const ValueId x = b.input(DType::kF32, {b.symbol("rows", 24), b.symbol("cols", 0, 8)}, "x");
  b.output(b.add(x, x), "y");
  fusion_ = b.build();
  expect_refused({{"cols", {8, 60}}}, {},
                 HasSubstr("the range 8 to 60 of symbol 'cols' ends at 60, which is not divisible "
                           "by 8 as promised"));
  expect_refused({}, {.fixed = {{"cols", 12}}}, HasSubstr("is not divisible by 8 as promised"));
  RangedExecutable ranged = prepare({{"cols", {8, 64}}}).value();
  EXPECT_EQ(ranged.ranges()[0], (ExtentRange{24, 24})) << "the hint";
  EXPECT_TRUE(ranged.at({{"cols", 16}}));
  const auto between = ranged.at({{"cols", 20}});
  ASSERT_FALSE(between);
  EXPECT_EQ(between.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(between.error().message,
              HasSubstr("for rows=24, cols=20: size 20 of symbol 'cols' is not divisible by 8"));
}

TEST_F(RangedExecutableTest, ServesEveryCombinationOfSymbols) {
  RangedExecutable ranged = prepare({{"rows", {1, 64}}, {"cols", {1, 4096}}}).value();
  for (const int64_t rows : {1, 64}) {
    for (const int64_t columns : {1, 1000, 4096}) {
      const Tensors at = tensors({{"rows", rows}, {"cols", columns}});
      const auto done = ranged.execute(at.inputs, at.outputs, 0, 0, nullptr);
      ASSERT_TRUE(done) << done.error().text();
    }
  }
  EXPECT_EQ(ranged.report().plans, 6);
}

TEST_F(RangedExecutableTest, ServesAFusionWithoutSymbols) {
  FusionBuilder b("doubled");
  const ValueId x = b.input(DType::kF32, {6, 48}, "x");
  b.output(b.add(x, x), "y");
  fusion_ = b.build();
  RangedExecutable ranged = prepare({}).value();
  const Tensors at = tensors(ExtentValues{});
  EXPECT_TRUE(ranged.execute(at.inputs, at.outputs, 0, 0, nullptr));
  EXPECT_EQ(compiled_, 1);
}

/// Rows in registers: more columns than all of a cluster's hold have no such plan.
class RowsInRegisters : public RangedExecutableTest {
 protected:
  Result<RangedExecutable> prepare_pinned(const ExtentValues& first) {
    const SchedulePin pin{.family = "multi_wave", .residency = Residency::kRegister};
    return prepare({{"rows", {1, 64}}, {"cols", {8, kTooMany}}},
                   {.first = first, .plan = {.families = builtin_families(), .pin = pin}});
  }
  static constexpr int64_t kTooMany = int64_t{1} << 24;
};

TEST_F(RowsInRegisters, AFailureAtOneSizeHarmsNoOther) {
  RangedExecutable ranged = prepare_pinned({{"cols", 4096}}).value();
  for (int i = 0; i < 2; ++i) {
    const auto wide = ranged.at({{"rows", 5}, {"cols", kTooMany}});
    ASSERT_FALSE(wide);
    EXPECT_EQ(wide.error().kind, ErrorKind::kResourceExhausted);
    EXPECT_THAT(wide.error().message, StartsWith("for rows=5, cols=16777216: "));
  }
  EXPECT_TRUE(ranged.at({{"rows", 5}, {"cols", 1000}}));
  EXPECT_TRUE(ranged.at({{"rows", 64}, {"cols", 4096}}));
  EXPECT_EQ(ranged.report().failures, 2);
}

TEST_F(RowsInRegisters, ErrorsOfTheLargestSizeSurfaceAtOnce) {
  const auto prepared = prepare_pinned({});
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(prepared.error().message, StartsWith("for rows=64, cols=16777216: "));
}

TEST_F(RangedExecutableTest, TroubleWithTheDeviceIsNotRemembered) {
  RangedExecutable ranged = rows_only();
  driver_.fail_next(DriverCall::kModuleLoad, DriverStatus::kOutOfMemory);
  const auto failed = ranged.at({{"rows", 9}});
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, StartsWith("for rows=9, cols=64: "));
  EXPECT_TRUE(ranged.at({{"rows", 9}}));
}

TEST_F(RangedExecutableTest, WhatAFamilyThrowsIsThrownOn) {
  RangedOptions options{.fixed = {{"cols", kColumns}}};
  bool throws = false;
  RangedExecutable ranged = RangedExecutable::prepare(
                                fusion_, {{"rows", {0, 512}}}, *find_device("H200"),
                                [&](Plan plan) {
                                  if (throws) throw std::runtime_error("family");
                                  return uncompiled(std::move(plan));
                                },
                                driver_, options)
                                .value();
  throws = true;
  EXPECT_THROW((void)ranged.at({{"rows", 3}}), std::runtime_error);
  throws = false;
  EXPECT_TRUE(ranged.at({{"rows", 3}}));
}

TEST_F(RangedExecutableTest, DropsTheLeastRecentlyUsed) {
  RangedExecutable ranged = rows_only(2);
  ASSERT_TRUE(ranged.at({{"rows", 1}}));
  ASSERT_TRUE(ranged.at({{"rows", 512}}));
  const int64_t waits = driver_.calls(DriverCall::kContextSynchronize);
  ASSERT_TRUE(ranged.at({{"rows", 2}}));
  EXPECT_EQ(driver_.calls(DriverCall::kContextSynchronize), waits + 1)
      << "what goes may still be running";
  const RangedReport report = ranged.report();
  ASSERT_THAT(report.kept, SizeIs(2));
  EXPECT_EQ(report.kept[0].extents.at("rows"), 2);
  EXPECT_EQ(report.kept[1].extents.at("rows"), 512);
  EXPECT_EQ(report.dropped, 1);
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 1);
  EXPECT_TRUE(ranged.at({{"rows", 1}})) << "it is planned again";
  EXPECT_EQ(compiled_, 4);
}

TEST_F(RangedExecutableTest, KeepsWhatIsHeld) {
  RangedExecutable ranged = rows_only(1);
  ExecutablePtr held = ranged.at({{"rows", 7}}).value();
  for (int64_t rows = 20; rows < 24; ++rows) ASSERT_TRUE(ranged.at({{"rows", rows}}));
  EXPECT_EQ(ranged.at({{"rows", 7}}).value(), held);
  const Tensors at = tensors(7);
  EXPECT_TRUE(held->execute(at.inputs, at.outputs, 0, 0, nullptr));
  held.reset();
  // The one just made is held while room is made, so that the others go.
  ASSERT_TRUE(ranged.at({{"rows", 30}}));
  ASSERT_THAT(ranged.report().kept, SizeIs(1));
  EXPECT_EQ(ranged.report().kept[0].extents.at("rows"), 30);
}

TEST_F(RangedExecutableTest, AHeldExecutableOutlivesTheRange) {
  ExecutablePtr held;
  {
    RangedExecutable ranged = rows_only();
    held = ranged.at({{"rows", 7}}).value();
  }
  const Tensors at = tensors(7);
  EXPECT_TRUE(held->execute(at.inputs, at.outputs, 0, 0, nullptr));
  held.reset();
  EXPECT_EQ(driver_.live_objects(), 1) << "the context share of this fixture";
}

TEST_F(RangedExecutableTest, UnloadsNothingWhileTheDeviceCannotBeWaitedFor) {
  RangedExecutable ranged = rows_only(1);
  driver_.fail_next(DriverCall::kContextSynchronize, DriverStatus::kInvalidValue);
  ASSERT_TRUE(ranged.at({{"rows", 1}}));
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 0);
  ASSERT_TRUE(ranged.at({{"rows", 2}}));
  EXPECT_EQ(driver_.calls(DriverCall::kModuleUnload), 2);
}

TEST_F(RangedExecutableTest, RefusesOptionsThatMakeNoSense) {
  expect_refused({{"rows", {0, 8}}}, {.fixed = {{"cols", kColumns}}, .slower_at_most = 0.5},
                 HasSubstr("cannot be held to 0.5 times"));
  RangedOptions follows{.fixed = {{"cols", kColumns}}};
  follows.plan.like = std::make_shared<const Plan>();
  expect_refused({{"rows", {0, 8}}}, follows, HasSubstr("name the sizes to plan first"));
  const auto nothing =
      RangedExecutable::prepare(fusion_, {{"rows", {0, 8}}}, *find_device("H200"), PlanCompiler{},
                                driver_, {.fixed = {{"cols", kColumns}}});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::kInvalidArgument);
}

TEST_F(RangedExecutableTest, ReportsWhatItPrepared) {
  RangedExecutable ranged = rows_only();
  ASSERT_TRUE(ranged.at({{"rows", 8}}));
  ASSERT_TRUE(ranged.at({{"rows", 8}}));
  const RangedReport report = ranged.report();
  EXPECT_EQ(report.uses, 3);
  EXPECT_EQ(report.plans, 2);
  ASSERT_THAT(report.kept, SizeIs(2));
  EXPECT_EQ(report.kept[0].uses, 2);
  EXPECT_EQ(report.kept[0].kernels, 1U);
  EXPECT_THAT(report.text(),
              AllOf(StartsWith("3 uses, 2 plans, 1 of them like the first, 0 failures, 0 dropped\n"
                               "cols=64 rows=8: 1 kernels"),
                    HasSubstr("\ncols=64 rows=512: ")));
}

TEST_F(RangedExecutableTest, ThreadsShareOnePreparation) {
  constexpr int kThreads = 16;
  constexpr int64_t kSizes = 8;
  RangedExecutable ranged = rows_only();
  std::vector<std::vector<ExecutablePtr>> got(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int64_t i = 0; i < kSizes; ++i) {
          const auto ready = ranged.at({{"rows", 1 + (i + thread) % kSizes}});
          ASSERT_TRUE(ready) << ready.error().text();
          got[static_cast<size_t>(thread)].push_back(*ready);
        }
      });
    }
  }
  EXPECT_EQ(compiled_, 1 + kSizes);
  std::set<ExecutablePtr> distinct;
  for (const auto& list : got) distinct.insert(list.begin(), list.end());
  EXPECT_THAT(distinct, SizeIs(kSizes));
}

TEST_F(RangedExecutableTest, ThreadsMayExecuteWhileOthersMakeRoom) {
  constexpr int kThreads = 16;
  RangedExecutable ranged = rows_only(2);
  std::vector<Tensors> at;
  for (int64_t rows = 1; rows <= 6; ++rows) at.push_back(tensors(rows));
  {
    std::vector<std::jthread> threads;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        const auto current = CurrentContext::enter(driver_, context_);
        for (size_t i = 0; i < 24; ++i) {
          const Tensors& mine = at[(i * (thread + 1)) % at.size()];
          const auto done = ranged.execute(mine.inputs, mine.outputs, 0, 0, nullptr);
          ASSERT_TRUE(done) << done.error().text();
        }
      });
    }
  }
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), kThreads * 24);
  ASSERT_TRUE(ranged.at({{"rows", 100}}));
  EXPECT_LE(ranged.report().kept.size(), 2U);
}

}  // namespace sinter::ranged_executable_test
