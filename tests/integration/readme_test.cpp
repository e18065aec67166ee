// What README.md shows of its worked example is what comes out today.

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>
#include <string>

#include "codegen/lower.h"
#include "scheduler/plan.h"
#include "scheduler/schedule.h"
#include "tests/integration/canned_case.h"

namespace sinter {
namespace {

using testing::HasSubstr;

TEST(Readme, ShowsTheScheduleAndTheKernelOfItsExample) {
  std::ifstream file(SINTER_TEST_DATA_DIR "/../README.md");
  std::ostringstream readme;
  readme << file.rdbuf();
  const Plan planned = plan(find_canned_fusion("rms_norm")->build(),
                            {{"rows", 8192}, {"cols", 8192}}, *find_device("H200"))
                           .value();
  ASSERT_EQ(planned.segments.size(), 1U);
  const SegmentPlan& segment = planned.segments.front();
  const Schedule& schedule = segment.chosen().schedule;
  EXPECT_THAT(readme.str(), HasSubstr("```\n" + print(schedule)));
  EXPECT_THAT(readme.str(), HasSubstr("```cuda\n" + emit(segment.facts, schedule).value().text));
}

}  // namespace
}  // namespace sinter
