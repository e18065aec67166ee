// The whole path that ends on a device: plan, kernel, prepared launch, tensors in device memory,
// every output element against the oracle. On a GPU where there is one; everywhere on a fake driver
// whose kernels run in the interpreter, so that only NVRTC's and the GPU's part is left out there.

#include <gtest/gtest.h>

#include <future>

#include "fusion_ir/fusion.h"
#include "runtime/check/device_run.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"
#include "tests/integration/interpreted_plan.h"
#include "tests/integration/live_device.h"
#include "tests/support/fake_driver.h"

namespace sinter::canned_device_test {

constexpr int64_t kRows = 5;

/// Small, and no width suits whole vectors and whole warps at once; nothing at all is among them.
std::vector<ExtentValues> awkward_extents(const CannedFusion& canned, const Fusion& fusion) {
  std::vector<ExtentValues> out;
  if (!has_width(canned)) {
    out.push_back(canned.small);
  } else {
    for (const int64_t columns : {1, 33, 1000, 1023, 4097})
      out.push_back(extents_of_width(canned, columns, kRows));
  }
  for (const ExtentValues& empty :
       {extents_of_width(canned, 100, 0), extents_of_width(canned, 0, kRows)}) {
    if (bind_extents(fusion, empty)) out.push_back(empty);  // A slice may end past its extent.
  }
  return out;
}

/// The chosen schedule, the best of each family, and one random schedule of each: policies and
/// modes that small problems are never given by choice.
std::vector<Schedule> schedules_to_run(const SegmentFacts& facts, const KernelPlan& kernel,
                                       const DeviceLimits& limits, const FamilySet& families,
                                       uint64_t seed) {
  std::vector<Schedule> out = chosen_and_best_of_families(kernel);
  for (const Family& family : families) {
    if (const auto drawn = random_schedule(facts, limits, families, seed, family.name))
      out.push_back(drawn->schedule);
  }
  return out;
}

/// The same plan with one schedule to choose from.
Result<Plan> pinned_to(const Fusion& fusion, const ExtentValues& extents,
                       const DeviceLimits& limits, const Schedule& schedule) {
  return plan(fusion, extents, limits,
              {.families = builtin_families(), .pin = {.schedule = schedule}});
}

testing::AssertionResult computes_the_oracle_on(DeviceDriver& driver, const Fusion& fusion,
                                                CompiledPlan compiled) {
  const std::string schedule = print(compiled.kernels.front().chosen.schedule);
  const auto executable = Executable::prepare(std::move(compiled), driver);
  if (!executable) return testing::AssertionFailure() << schedule << executable.error().text();
  const auto run = run_on_device(fusion, *executable, driver, {.time = false});
  if (!run) return testing::AssertionFailure() << schedule << run.error().text();
  if (!run->check.passed()) return testing::AssertionFailure() << schedule << run->check.text();
  return testing::AssertionSuccess();
}

class CannedGpu : public LiveDeviceTest<CannedFusion> {};

TEST_P(CannedGpu, IsRightAtAwkwardExtents) {
  const Fusion fusion = GetParam().build();
  const FamilySet families = builtin_families();
  KernelCache cache({});
  // Nearly all of the time is NVRTC's, which compiles side by side.
  struct Candidate {
    Schedule schedule;
    std::future<Result<CompiledPlan>> compiled;
  };
  std::vector<Candidate> candidates;
  uint64_t seed = 0;
  for (const ExtentValues& extents : awkward_extents(GetParam(), fusion)) {
    const auto planned = plan(fusion, extents, limits_, {.families = families});
    ASSERT_TRUE(planned) << planned.error().text();
    if (planned->is_segmented) {  // Kernels for outputs with elements and without: none is pinned.
      auto compiled = compile_plan(*planned, *compiler_, cache);
      ASSERT_TRUE(compiled) << compiled.error().text();
      ASSERT_TRUE(computes_the_oracle_on(*driver_, fusion, std::move(*compiled)));
      continue;
    }
    const KernelPlan& kernel = planned->kernels.front();
    for (Schedule& schedule : schedules_to_run(kernel.facts, kernel, limits_, families, ++seed)) {
      auto compiled = std::async(std::launch::async, [&, extents, schedule] {
        return pinned_to(fusion, extents, limits_, schedule).and_then([&](Plan pinned) {
          return compile_plan(std::move(pinned), *compiler_, cache);
        });
      });
      candidates.push_back({std::move(schedule), std::move(compiled)});
    }
  }
  for (Candidate& candidate : candidates) {
    auto compiled = candidate.compiled.get();
    ASSERT_TRUE(compiled) << print(candidate.schedule) << compiled.error().text();
    // A kernel that breaks the context would fail all that follow.
    ASSERT_TRUE(computes_the_oracle_on(*driver_, fusion, std::move(*compiled)));
  }
}

INSTANTIATE_TEST_SUITE_P(Canned, CannedGpu, ::testing::ValuesIn(supported_fusions()), name_of_case);

class CannedFakeDevice : public ::testing::TestWithParam<CannedFusion> {};

TEST_P(CannedFakeDevice, IsRightAtAwkwardExtents) {
  FakeDriver driver;
  const DeviceLimits limits = query_device(driver, 0).value();
  const Fusion fusion = GetParam().build();
  const FamilySet families = builtin_families();
  uint64_t seed = 0;
  for (const ExtentValues& extents : awkward_extents(GetParam(), fusion)) {
    const auto planned = plan(fusion, extents, limits, {.families = families});
    ASSERT_TRUE(planned) << planned.error().text();
    if (planned->is_segmented) {  // Kernels for outputs with elements and without: none is pinned.
      EXPECT_TRUE(computes_the_oracle_on(driver, fusion, interpreted(driver, *planned)));
      continue;
    }
    const KernelPlan& kernel = planned->kernels.front();
    for (const Schedule& schedule :
         schedules_to_run(kernel.facts, kernel, limits, families, ++seed)) {
      auto pinned = pinned_to(fusion, extents, limits, schedule);
      ASSERT_TRUE(pinned) << print(schedule) << pinned.error().text();
      EXPECT_TRUE(computes_the_oracle_on(driver, fusion, interpreted(driver, std::move(*pinned))));
    }
  }
  EXPECT_EQ(driver.allocated_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Canned, CannedFakeDevice, ::testing::ValuesIn(supported_fusions()),
                         name_of_case);

TEST(CannedFakeDeviceChecks, SeeOneWrongByte) {
  FakeDriver driver;
  const CannedFusion& canned = *find_canned_fusion("softmax");
  const Fusion fusion = canned.build();
  Plan planned = plan(fusion, extents_of_width(canned, 33, kRows), *find_device("H200"),
                      {.families = builtin_families()})
                     .value();
  const auto result = computes_the_oracle_on(
      driver, fusion, interpreted(driver, std::move(planned), [](std::span<std::byte> y) {
        y.back() ^= std::byte{4};
      }));
  EXPECT_FALSE(result);
}

}  // namespace sinter::canned_device_test
