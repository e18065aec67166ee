// Tuning and its database on the command line, and plans by what was measured.

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "codegen/cuda/emit.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/tuning/tuning_database.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/schedule.h"
#include "tests/support/canned_fusions.h"
#include "tests/tools/tool_fixture.h"

namespace sinter::tool_tuning_test {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(Tool, TunesOrSaysWhatIsMissing) {
  const std::string database = (scratch_ / "t.db").string();
  const Outcome ran = run("tune rms_norm rows=64 cols=1024 --top 2 --budget 60 --database '" +
                          database + "' --json 2>/dev/null");
  const json tuned = json::parse(ran.output, nullptr, false);
  ASSERT_FALSE(tuned.is_discarded()) << ran.output;
  if (tuned.contains("error")) {
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_EQ(tuned.at("error").at("kind"), "DeviceError");
    EXPECT_FALSE(std::filesystem::exists(database));
    return;
  }
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  EXPECT_EQ(tuned.at("ended"), "finished");
  EXPECT_EQ(tuned.at("wrong_results"), 0);
  EXPECT_LE(tuned.at("tuned_us"), tuned.at("untuned_us"));
  EXPECT_THAT(
      run("explain rms_norm rows=64 cols=1024 --device live --tuned '" + database + "'").output,
      HasSubstr("is a schedule taken that was measured before"));
}

/// A database that has the third candidate of a softmax, measured.
class ToolWithTuning : public Tool {
 protected:
  void SetUp() override {
    Tool::SetUp();
    const auto compiler = NvrtcCompiler::open();
    if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
    const Fusion fusion = find_canned_fusion("softmax")->build();
    const ExtentValues sizes = {{"rows", 64}, {"cols", 1024}};
    const DeviceLimits limits = *find_device("H200");
    const Plan planned = plan(fusion, sizes, limits, {.families = builtin_families()}).value();
    const KernelPlan& kernel = planned.kernels.front();
    record_ = {.key = tuning_key(fusion, sizes, limits, toolkit_identity(*compiler)).value(),
               .tuned = {.segment = structural_hash(kernel.facts.fusion),
                         .schedule = print(kernel.candidates.at(2).schedule),
                         .tuned_us = 4.5,
                         .untuned_us = 5.0,
                         .samples = 15},
               .fusion = "softmax",
               .measured_at = "2026-11-23T20:00:00Z"};
    auto database = TuningDatabase::open(path_, TuningDatabase::Mode::kCreate);
    ASSERT_TRUE(database) << database.error().text();
    ASSERT_TRUE(database->store({record_}));
  }

  const std::string path_ = (scratch_ / "t.db").string();
  const std::string tuned_ = " --tuned '" + path_ + "'";
  TuningRecord record_;
};

TEST_F(ToolWithTuning, PlansByWhatWasMeasured) {
  const std::string softmax = "plan softmax rows=64 cols=1024 --form sched";
  EXPECT_NE(run(softmax).output, record_.tuned.schedule);
  EXPECT_EQ(run(softmax + tuned_).output, record_.tuned.schedule);
  EXPECT_THAT(run("explain softmax rows=64 cols=1024" + tuned_).output,
              HasSubstr("measured 4.50 us, untuned 5.00 us"));
  EXPECT_NE(run("emit softmax rows=64 cols=1024" + tuned_).output,
            run("emit softmax rows=64 cols=1024").output);
  EXPECT_EQ(run("check softmax rows=64 cols=1024" + tuned_).exit_code, 0);
  // Nothing is known about other sizes, and that is said.
  EXPECT_EQ(run("plan softmax rows=65 cols=1024 --form sched" + tuned_).output,
            run("plan softmax rows=65 cols=1024 --form sched").output);
  EXPECT_THAT(run("explain softmax rows=65 cols=1024" + tuned_).output,
              HasSubstr("has nothing about this graph"));
}

TEST_F(ToolWithTuning, LooksAfterTheDatabase) {
  EXPECT_THAT(run("tuning list '" + path_ + "'").output,
              AllOf(HasSubstr("softmax"), HasSubstr("cols=1024 rows=64"),
                    HasSubstr("1 measured schedule(s)")));
  const Outcome exported = run("tuning export '" + path_ + "'");
  const std::string text = write_file("t.json", exported.output);
  const std::string second = (scratch_ / "second.db").string();
  EXPECT_EQ(run_json("tuning import '" + second + "' '" + text + "'").at("added"), 1);
  const std::string damaged = write_file("damaged.json", "{\n  \"format\": ");
  const std::filesystem::path third = scratch_ / "third.db";
  const Outcome refused = run("tuning import '" + third.string() + "' '" + damaged + "' 2>&1");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(third)) << "made for nothing";
  EXPECT_THAT(refused.output, HasSubstr(damaged + ":2:"));
  EXPECT_EQ(run_json("tuning merge '" + second + "' '" + path_ + "'").at("kept"), 1);
  EXPECT_EQ(run("tuning export '" + second + "'").output, exported.output);
  EXPECT_EQ(run_json("tuning forget '" + second + "' gelu").at("forgotten"), 0);
  EXPECT_EQ(run_json("tuning forget '" + second + "' softmax").at("forgotten"), 1);
  EXPECT_EQ(run_json("tuning forget '" + path_ + "' --all").at("forgotten"), 1);
}

TEST_F(Tool, DatabasesThatAreNoneAreRefused) {
  const std::string text = write_file("notes.txt", std::string(4096, 'x'));
  for (const std::string& command :
       {"plan softmax --tuned '" + text + "'", "tuning list '" + text + "'",
        "tuning forget '" + text + "' --all", "tuning merge '" + text + "' '" + text + "'",
        std::string("plan softmax --tuned /nonexistent/t.db"),
        std::string("tuning list /nonexistent/t.db")}) {
    SCOPED_TRACE(command);
    const json error = run_json(command, 1).at("error");
    EXPECT_EQ(error.at("kind"), "InvalidArgument");
    EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("the tuning database"));
  }
}

}  // namespace sinter::tool_tuning_test
