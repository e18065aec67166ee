// A test as those who build on Sinter write it, with the test kit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinter/sinter.h>
#include <sinter/testing.h>

namespace sinter {
namespace {

const ExtentValues kSizes{{"rows", 64}, {"cols", 1024}};

TEST(TestingKit, SaysWhatAPlanShouldBe) {
  EXPECT_THAT(plan_canned("softmax", kSizes, "H200"), PlansAs("multi_wave", Keeps("x"), NoSpill()));
}

TEST(TestingKit, PreparesWithoutADevice) {
  FakeDriver driver;
  auto planned = plan_canned("softmax", kSizes, "H200", {.families = builtin_families()});
  ASSERT_TRUE(planned) << planned.error().text();
  auto compiled = uncompiled(std::move(*planned));
  ASSERT_TRUE(compiled) << compiled.error().text();
  const auto executable = Executable::prepare(std::move(*compiled), driver);
  ASSERT_TRUE(executable) << executable.error().text();
  EXPECT_EQ(driver.calls(DriverCall::kModuleLoad), 1);
}

}  // namespace
}  // namespace sinter
