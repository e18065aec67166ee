// Which plan the sizes of a range get: that of the first sizes, or one of their own.

#include <gmock/gmock.h>

#include "runtime/execute/ranged_executable.h"
#include "scheduler/planning/planner.h"
#include "tests/runtime/ranged_executable_fixture.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"
#include "tests/support/training_layers.h"

namespace sinter::ranged_plans_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(RangedExecutableTest, WorkspaceIsThatOfTheSize) {
  fusion_ = find_canned_fusion("layer_norm_backward")->build();
  RangedExecutable ranged =
      prepare({{"rows", {1, 8192}}}, {.fixed = {{"cols", 4096}}, .kept = 1}).value();
  const auto model =
      std::make_shared<const Plan>(plan(fusion_, {{"rows", 8192}, {"cols", 4096}},
                                        *find_device("H200"), {.families = builtin_families()})
                                       .value());
  for (const int64_t rows : {1, 100, 5000, 8192}) {
    const auto bytes = ranged.workspace_bytes({{"rows", rows}});
    ASSERT_TRUE(bytes) << bytes.error().text();
    EXPECT_EQ(*bytes, plan(fusion_, {{"rows", rows}, {"cols", 4096}}, *find_device("H200"),
                           {.families = builtin_families(), .like = model})
                          .value()
                          .workspace_bytes);
  }
  EXPECT_FALSE(ranged.workspace_bytes({{"rows", 8193}}));
}

TEST_F(RangedExecutableTest, EachSizeMayHaveAPlanOfItsOwn) {
  fusion_ = find_canned_fusion("layer_norm_backward")->build();
  RangedExecutable ranged =
      prepare({{"rows", {1, 8192}}}, {.fixed = {{"cols", 4096}}, .plans = RangePlans::kEach})
          .value();
  for (const int64_t rows : {1, 100, 5000}) {
    EXPECT_EQ(ranged.workspace_bytes({{"rows", rows}}).value(),
              plan(fusion_, {{"rows", rows}, {"cols", 4096}}, *find_device("H200"),
                   {.families = builtin_families()})
                  .value()
                  .workspace_bytes);
  }
  EXPECT_EQ(ranged.report().shared, 0);
}

TEST_F(RangedExecutableTest, SizesThatTheOnePlanSlowsDownGetTheirOwn) {
  fusion_ = find_canned_fusion("layer_norm_backward")->build();
  const RangedOptions options{.fixed = {{"cols", 4096}}, .slower_at_most = 1.02};
  RangedExecutable ranged = prepare({{"rows", {1, 8192}}}, options).value();
  ASSERT_TRUE(ranged.at({{"rows", 4}}));
  EXPECT_EQ(ranged.report().shared, 0);
  EXPECT_THAT(ranged.report().kept[0].own_plan, StartsWith("the one plan is predicted to take "));
  ASSERT_TRUE(ranged.at({{"rows", 8000}}));
  EXPECT_EQ(ranged.report().shared, 1);
  EXPECT_EQ(ranged.report().kept[0].own_plan, "");
}

TEST_F(RangedExecutableTest, SizesThatThePlanDoesNotFitGetTheirOwn) {
  fusion_ = find_canned_fusion("full_sum")->build();
  RangedExecutable ranged = prepare({{"rows", {1, 4096}}}, {.fixed = {{"cols", 4096}}}).value();
  ASSERT_TRUE(ranged.at({{"rows", 4095}}));
  EXPECT_EQ(ranged.report().shared, 0);
  EXPECT_THAT(ranged.report().kept[0].own_plan, HasSubstr("rows do not split into"));
  EXPECT_THAT(ranged.report().text(), HasSubstr("; a plan of its own: the plan to follow"));
}

TEST_F(RangedExecutableTest, SizesOutsideTheRangeMayHavePlansOfTheirOwn) {
  RangedExecutable ranged =
      prepare({{"rows", {8, 512}}}, {.fixed = {{"cols", kColumns}}, .outside = OutsideRange::kPlan})
          .value();
  const Tensors at = tensors(513);
  const auto done = ranged.execute(at.inputs, at.outputs, 0, 0, nullptr);
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(ranged.report().shared, 0);
  EXPECT_EQ(ranged.report().kept[0].own_plan, "rows is 513, outside the served range 8 to 512");
  EXPECT_THAT(ranged.ranges(), ElementsAre(ExtentRange{8, 512}, ExtentRange{kColumns, kColumns}));
  EXPECT_FALSE(ranged.at({{"rows", 512}, {"cols", 65}})) << "has no range";
  EXPECT_FALSE(ranged.at({{"rows", -1}}));
  ASSERT_TRUE(ranged.at({{"rows", 9}}));
  EXPECT_EQ(ranged.report().shared, 1);
}

TEST_F(RangedExecutableTest, PinsHoldForAllSizes) {
  RangedOptions options{.fixed = {{"cols", kColumns}}};
  options.plan.pin.family = "looped";
  RangedExecutable ranged = prepare({{"rows", {1, 512}}}, options).value();
  for (const int64_t rows : {1, 40}) {
    const ExecutablePtr ready = ranged.at({{"rows", rows}}).value();
    EXPECT_EQ(ready->compiled().kernels.front().chosen.schedule.family, "looped");
  }
  EXPECT_EQ(ranged.report().shared, 2);
}

/// With NVRTC: what is compiled again when only the number of rows differs.
/// Asks for these sizes, of which none but the first compiles or loads anything.
void expect_compiled_once(const Fusion& fusion, const std::string& symbol, ExtentRange range,
                          RangedOptions options, const std::vector<int64_t>& sizes) {
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  FakeDriver driver{*find_device("H200")};
  KernelCache cache({});
  options.prepare.external = [](const ExternalRequest&) -> Result<void> { return {}; };
  RangedExecutable ranged =
      RangedExecutable::prepare(fusion, {{symbol, range}}, *find_device("H200"), *compiler, cache,
                                driver, options)
          .value();
  const int64_t compiled = cache.statistics().misses;
  const int64_t loaded = driver.calls(DriverCall::kModuleLoad);
  EXPECT_GT(compiled, 0);
  for (const int64_t size : sizes) {
    ASSERT_TRUE(ranged.at({{symbol, size}}));
    EXPECT_EQ(cache.statistics().misses, compiled) << symbol << " = " << size;
    EXPECT_EQ(driver.calls(DriverCall::kModuleLoad), loaded) << symbol << " = " << size;
    EXPECT_EQ(ranged.report().kept.front().compiled, 0U);
  }
  EXPECT_EQ(ranged.report().shared, static_cast<int64_t>(sizes.size()));
}

TEST(RangedExecutableNvrtc, OnePlanServesARangeOfRows) {
  expect_compiled_once(find_canned_fusion("rms_norm")->build(), "rows", {0, 16384},
                       {.fixed = {{"cols", 4096}}},
                       {16383, 12000, 8192, 4096, 2048, 500, 132, 33, 2, 1, 0});
}

TEST(RangedExecutableNvrtc, OnePlanServesARangeOfTokensOfALayer) {
  expect_compiled_once(bert_layer_backward(), "tokens", {0, 8192}, {},
                       {8191, 4096, 1000, 77, 3, 2, 1, 0});
}

}  // namespace sinter::ranged_plans_test
