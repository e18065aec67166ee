#include "runtime/compile/architecture.h"

#include <gmock/gmock.h>

#include "scheduler/budgets/device_limits.h"

namespace sinter::architecture_test {

TEST(Architecture, ReadsBackWhatItPrints) {
  for (const char* name : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"}) {
    const auto architecture = Architecture::parse(name);
    ASSERT_TRUE(architecture) << architecture.error().text();
    EXPECT_EQ(architecture->name(), name);
  }
}

TEST(Architecture, SplitsOffTheLastDigit) {
  const Architecture expected = {.major = 10, .minor = 3, .specific = true};
  EXPECT_EQ(Architecture::parse("sm_103a").value(), expected);
}

TEST(Architecture, ReadsTheNameOfEveryPreset) {
  for (const DeviceLimits& limits : device_presets()) {
    const auto architecture = Architecture::parse(architecture_of(limits));
    ASSERT_TRUE(architecture) << architecture.error().text();
    EXPECT_EQ(architecture->major, limits.compute_major);
    EXPECT_EQ(architecture->minor, limits.compute_minor);
  }
}

TEST(Architecture, RejectsWhatIsNotOne) {
  for (const char* name : {"", "sm_", "sm_a", "compute_80", "sm_90b", "sm_9", "sm_-80", "sm_80 ",
                           "sm_99999999999", "SM_80"}) {
    const auto architecture = Architecture::parse(name);
    ASSERT_FALSE(architecture) << name;
    EXPECT_EQ(architecture.error().kind, ErrorKind::kInvalidArgument) << name;
  }
}

TEST(Architecture, RejectsOldGenerations) {
  const auto architecture = Architecture::parse("sm_75");
  ASSERT_FALSE(architecture);
  EXPECT_EQ(architecture.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(architecture.error().text(), ::testing::HasSubstr("sm_75 is older than sm_80"));
}

}  // namespace sinter::architecture_test
