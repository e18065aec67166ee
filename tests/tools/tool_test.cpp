// What the commands of the built tool print: planning, emitting, compiling, checking, running.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "scheduler/schedule/schedule.h"
#include "tests/support/canned_fusions.h"
#include "tests/tools/tool_fixture.h"

namespace sinter::tool_test {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(Tool, ListsEveryCannedFusion) {
  const json listed = run_json("list");
  ASSERT_EQ(listed.size(), canned_fusions().size());
  const Outcome text = run("list");
  for (const CannedFusion& fusion : canned_fusions())
    EXPECT_THAT(text.output, HasSubstr(fusion.name));
}

TEST_F(Tool, EmitsASavedPlan) {
  const std::string path = (scratch_ / "norm.plan").string();
  const json planned =
      run_json("plan rms_norm rows=100 cols=512 --device H100 --save '" + path + "'");
  EXPECT_EQ(planned.at("device"), "H100");
  const Outcome emitted = run("emit --plan '" + path + "'");
  EXPECT_THAT(emitted.output, HasSubstr("__global__"));
  EXPECT_EQ(emitted.output, run("emit rms_norm rows=100 cols=512 --device H100").output);
  EXPECT_THAT(run("emit 2>&1").output, HasSubstr("there is nothing to plan"));
  EXPECT_THAT(run("emit rms_norm --plan '" + path + "' 2>&1").output,
              HasSubstr("a fusion is given beside a saved plan"));
  EXPECT_THAT(run("emit --plan '" + write_file("bad.plan", "{}") + "' 2>&1").output,
              HasSubstr("bad.plan: the plan has no field 'plan_version'"));
}

TEST_F(Tool, PlansAtTheGivenExtents) {
  const json planned = run_json("plan rms_norm rows=100 cols=512");
  const json& segment = planned.at("kernels").at(0);
  EXPECT_EQ(segment.at("rows"), 100);
  EXPECT_EQ(segment.at("columns"), 512);
  EXPECT_EQ(segment.at("bytes_written"), 100 * 512 * 2);
  EXPECT_GT(segment.at("predicted").at("total_us"), 0.0);
  EXPECT_GT(segment.at("estimate").at("registers"), 0);
  EXPECT_EQ(planned.at("device"), "H200");
  const auto fusion = parse_fusion(planned.at("fir").get<std::string>());
  EXPECT_TRUE(fusion) << fusion.error().text();
  EXPECT_THAT(
      run("plan rms_norm rows=100 cols=512").output,
      AllOf(HasSubstr("fusion @rms_norm"), HasSubstr("schedule "), HasSubstr("predicted:")));
}

TEST_F(Tool, AFirFileAndItsCannedFusionGetTheSamePlan) {
  const std::string path = write_file("softmax.fir", print(find_canned_fusion("softmax")->build()));
  const std::string extents = " rows=64 cols=1000 --form sched";
  const Outcome from_file = run("plan '" + path + "'" + extents);
  EXPECT_EQ(from_file.exit_code, 0);
  EXPECT_EQ(from_file.output, run("plan softmax" + extents).output);
}

TEST_F(Tool, APrintedScheduleCanBePinned) {
  const Outcome printed = run("plan softmax rows=64 cols=1000 --family looped --form sched");
  ASSERT_EQ(printed.exit_code, 0);
  const auto schedule = parse_schedule(printed.output);
  ASSERT_TRUE(schedule) << schedule.error().text();
  EXPECT_EQ(schedule->family, "looped");
  const std::string path = write_file("pinned.sched", printed.output);
  EXPECT_EQ(run("plan softmax rows=64 cols=1000 --form sched --schedule '" + path + "'").output,
            printed.output);
}

TEST_F(Tool, ListsTheSchedulesItWeighed) {
  const json planned = run_json("plan softmax rows=64 cols=4096 --form candidates");
  const json& segment = planned.at("kernels").at(0);
  const json& candidates = segment.at("candidates");
  ASSERT_GT(candidates.size(), 10U);
  EXPECT_EQ(candidates.at(0).at("schedule"), segment.at("schedule")) << "the chosen one first";
  double last = 0.0;
  for (const json& candidate : candidates) {
    const auto schedule = parse_schedule(candidate.at("schedule").at("text").get<std::string>());
    ASSERT_TRUE(schedule) << schedule.error().text();
    EXPECT_GE(candidate.at("predicted").at("total_us").get<double>(), 0.97 * last);
    last = candidate.at("predicted").at("total_us");
  }
}

TEST_F(Tool, PinsSingleFields) {
  const json planned = run_json(
      "plan softmax rows=64 cols=4096 --family multi_wave --threads-per-row 128 --residency "
      "shared");
  const json& schedule = planned.at("kernels").at(0).at("schedule");
  EXPECT_EQ(schedule.at("family"), "multi_wave");
  EXPECT_EQ(schedule.at("threads_per_row"), 128);
  EXPECT_EQ(schedule.at("kept").at(0).at("residency"), "shared");
}

TEST_F(Tool, DevicesDifferInWhatTheyPlan) {
  EXPECT_EQ(run_json("plan softmax --device rtx-4090").at("device"), "RTX 4090");
}

TEST_F(Tool, ComparesPlans) {
  const json same = run_json("diff softmax softmax rows=64 cols=1000");
  EXPECT_EQ(same.at("equal"), true);
  EXPECT_EQ(same.at("same").size(), 1U);
  EXPECT_EQ(run("diff softmax softmax rows=64 cols=1000").output, "the plans are equal\n");

  const std::string extents = "diff softmax softmax rows=64 cols=1000 --extent-b cols=4096";
  const json narrow = run_json(extents, 1);
  const json& kernel = narrow.at("changed").at(0);
  EXPECT_EQ(kernel.at("columns"), json({{"a", 1000}, {"b", 4096}}));
  EXPECT_EQ(kernel.at("bytes_written").at("b"), 64 * 4096 * 2);
  const Outcome text = run(extents);
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.output, AllOf(HasSubstr("columns: 1000 -> 4096"), HasSubstr("predicted us")));

  const json devices = run_json("diff softmax softmax --device H200 --device-b A100", 1);
  EXPECT_EQ(devices.at("problem").at("device"), json({{"a", "H200"}, {"b", "A100"}}));

  const std::string calls = write_file("calls.fir",
                                       "fusion @softmax {\n  %v0 x : f32[64, 64] = input\n"
                                       "  %v1 y : f32[64, 64] = external f %v0\n"
                                       "  %v2 : f32[64, 64] = neg %v1\n  return %v2\n}\n");
  const json called = run_json("diff softmax '" + calls + "' rows=64 cols=64", 1);
  EXPECT_EQ(called.at("only_in_b").at("calls").at(0), "f (y)");

  const std::string pinned = write_file(
      "pinned.sched", run("plan softmax rows=64 cols=1000 --family looped --form sched").output);
  const json schedules =
      run_json("diff softmax softmax rows=64 cols=1000 --schedule-b '" + pinned + "'", 1);
  EXPECT_EQ(schedules.at("changed").at(0).at("schedule").at("family").at("b"), "looped");
}

TEST_F(Tool, PinsHowAGraphIsCut) {
  const std::string path = write_file("pinned.fir",
                                      "fusion @pinned {\n  %v0 x : f32[64, 128] = input\n"
                                      "  %v1 e : f32[64, 128] = exp %v0\n"
                                      "  %v2 total : f32[64] = reduce.sum %v1 over(1)\n"
                                      "  %v3 : f32[64, 128] = broadcast %v2 axes(0)\n"
                                      "  %v4 y : f32[64, 128] = div %v1, %v3\n"
                                      "  return %v4, %v2\n}\n");
  EXPECT_EQ(run_json("plan '" + path + "'").at("kernels").size(), 1U);
  const json cut = run_json("plan '" + path + "' --cut e");
  EXPECT_EQ(cut.at("kernels").size(), 2U);
  EXPECT_EQ(cut.at("cuts").at(0).at("name"), "e");
  EXPECT_EQ(cut.at("cuts").at(0).at("because"), "pinned to go through memory");
  EXPECT_THAT(run("explain '" + path + "' --cut e --join total,y").output,
              AllOf(HasSubstr("pinned to go through memory"), HasSubstr("pinned to run together")));
  EXPECT_EQ(run_json("check '" + path + "' --cut e --cut total").at("passed"), true);
  const json refused = run_json("plan '" + path + "' --cut e --join e,y", 1).at("error");
  EXPECT_EQ(refused.at("kind"), "InvalidArgument");
  EXPECT_NE(refused.at("remedy"), "");
}

TEST_F(Tool, PlansKernelsThatLeaveIndices) {
  const std::string sizes = "cross_entropy rows=6 cols=64";
  const json plain = run_json("plan " + sizes);
  const json checked = run_json("plan " + sizes + " --check-indices");
  EXPECT_EQ(plain.at("workspace_bytes"), 0);
  EXPECT_EQ(checked.at("workspace_bytes"), 256);
  EXPECT_THAT(run("explain " + sizes + " --check-indices").output,
              HasSubstr("what becomes of an index outside of its axis"));
  EXPECT_EQ(run_json("check " + sizes + " --check-indices").at("passed"), true);
}

TEST_F(Tool, EmitsCudaAndKernelIr) {
  const Outcome cuda = run("emit rms_norm rows=64 cols=1024");
  EXPECT_EQ(cuda.exit_code, 0);
  EXPECT_THAT(cuda.output, AllOf(HasSubstr("__global__"), HasSubstr("__launch_bounds__")));
  const json kir = run_json("emit rms_norm rows=64 cols=1024 --form kir");
  EXPECT_THAT(kir.at("kernels").at(0).at("text").get<std::string>(), StartsWith("kernel"));
  EXPECT_EQ(kir.at("kernels").at(0).at("architecture"), "sm_90a");
}

TEST_F(Tool, ChecksInTheInterpreterAndCountsTraffic) {
  const json checked = run_json("check rms_norm rows=7 cols=1000");
  EXPECT_EQ(checked.at("passed"), true);
  const json& interpreter = checked.at("interpreter");
  EXPECT_TRUE(interpreter.at("findings").empty());
  EXPECT_LE(interpreter.at("worst_error_over_bound"), 1.0);
  // Every row is written once, and read once at least.
  EXPECT_EQ(interpreter.at("traffic").at("y_out").at("bytes_written"), 7 * 1000 * 2);
  EXPECT_GE(interpreter.at("traffic").at("x").at("bytes_read"), 7 * 1000 * 2);
  EXPECT_THAT(run("check rms_norm rows=7 cols=1000").output, HasSubstr("interpreter: passed"));
}

TEST_F(Tool, ListsDevicePresets) {
  const json devices = run_json("devices");
  std::vector<std::string> names;
  for (const json& preset : devices.at("presets")) names.push_back(preset.at("name"));
  EXPECT_THAT(names, AllOf(Contains("A100"), Contains("H200"), Contains("RTX 4090")));
  EXPECT_TRUE(devices.contains("no_live_device") != !devices.at("live").empty());
}

TEST_F(Tool, LooksAfterTheCache) {
  EXPECT_EQ(run_json("cache stats").at("entries"), 0);
  EXPECT_EQ(run_json("cache list").at("entries").size(), 0U);
  std::filesystem::create_directories(scratch_ / "cache");
  EXPECT_EQ(run_json("cache verify").at("damaged").size(), 0U);
  EXPECT_EQ(run_json("cache clear").at("removed"), 0);
  const json elsewhere = run_json("cache stats --directory /nonexistent/cache");
  EXPECT_EQ(elsewhere.at("directory"), "/nonexistent/cache");
}

TEST_F(Tool, RunsOrSaysWhatIsMissing) {
  const Outcome ran = run("run rms_norm rows=64 cols=128 --json 2>&1");
  const json parsed = json::parse(ran.output, nullptr, false);
  ASSERT_FALSE(parsed.is_discarded()) << ran.output;
  if (ran.exit_code == 0) {
    EXPECT_TRUE(parsed.at("check").at("passed"));
    EXPECT_GT(parsed.at("sol"), 0.0);
    EXPECT_GT(parsed.at("predicted_us"), 0.0);
  } else {
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_EQ(parsed.at("error").at("kind"), "DeviceError");
    EXPECT_NE(parsed.at("error").at("remedy"), "");
  }
}

TEST_F(Tool, ReadsStandardInputOnce) {
  const std::string path = write_file("softmax.fir", print(find_canned_fusion("softmax")->build()));
  const std::string arguments = " rows=64 cols=1000 --form sched";
  EXPECT_EQ(run("plan - " + arguments + " < '" + path + "'").output,
            run("plan softmax" + arguments).output);
  const Outcome twice = run("diff - - rows=64 cols=1000 2>&1 < '" + path + "'");
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_THAT(twice.output, HasSubstr("read already"));
  const Outcome wrong = run("plan - 2>&1 < /dev/null");
  EXPECT_THAT(wrong.output, HasSubstr("<stdin>:1:1: expected 'fusion'"));
}

TEST_F(Tool, TellsItsVersion) {
  const Outcome out = run("--version");
  EXPECT_EQ(out.exit_code, 0);
  EXPECT_THAT(out.output, StartsWith("sinter "));
}

TEST_F(Tool, PlansForADeviceFromAFile) {
  const std::string path = write_file("h100.json", run("devices H100 --json").output);
  const std::string arguments = "plan softmax rows=64 cols=1000 --form sched --device ";
  EXPECT_EQ(run(arguments + "'" + path + "'").output, run(arguments + "H100").output);
  const std::string wrong = write_file("wrong.json", "{\n  \"base\": \"H100\",\n  x\n}\n");
  const json error = run_json(arguments + "'" + wrong + "'", 1).at("error");
  EXPECT_EQ(error.at("file"), wrong);
  EXPECT_EQ(error.at("line"), 3);
}

TEST_F(Tool, SaysThatThereIsNothingToEmit) {
  const std::string path = write_file("call.fir",
                                      "fusion @call {\n  %v0 : f32[4] = input\n"
                                      "  %v1 : f32[4] = external gemm %v0\n  return %v1\n}\n");
  const Outcome out = run("emit '" + path + "'");
  EXPECT_EQ(out.exit_code, 0) << out.output;
  EXPECT_THAT(out.output, HasSubstr("nothing to emit"));
}

TEST_F(Tool, CompilesForADeviceThatIsNotThere) {
  if (const auto compiler = NvrtcCompiler::open(); !compiler)
    GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  const std::string folder = (scratch_ / "cubins").string();
  const json compiled =
      run_json("compile softmax rows=64 cols=1000 --device A100 --output '" + folder + "'");
  const json& kernel = compiled.at("compiled").at(0);
  EXPECT_EQ(kernel.at("architecture"), "sm_80");
  EXPECT_GT(kernel.at("resources").at("registers"), 0);
  EXPECT_EQ(kernel.at("resources").at("spill_store_bytes"), 0);
  std::ifstream cubin(kernel.at("cubin").get<std::string>(), std::ios::binary);
  std::string head(4, ' ');
  cubin.read(head.data(), 4);
  EXPECT_EQ(head,
            "\x7f"
            "ELF");
  EXPECT_THAT(run("compile softmax rows=64 cols=1000 --device A100").output,
              AllOf(HasSubstr("sm_80"), HasSubstr("disk cache")));
}

TEST_F(Tool, CutsHaveTheirRuleAndTimes) {
  const json planned = run_json("plan softmax rows=64 cols=1000");
  EXPECT_TRUE(planned.at("contractions").empty());
  EXPECT_TRUE(planned.at("cuts").empty());
  const std::string path = write_file(
      "matmul.fir",
      "fusion @matmul {\n  %v0 a : f32[256, 64] = input\n  %v1 b : f32[64, 192] = input\n"
      "  %v2 : f32[256, 64, 192] = broadcast %v0 axes(0, 1)\n"
      "  %v3 : f32[256, 64, 192] = broadcast %v1 axes(1, 2)\n"
      "  %v4 : f32[256, 64, 192] = mul %v2, %v3\n"
      "  %v5 c : f32[256, 192] = reduce.sum %v4 over(1)\n  return %v5\n}\n");
  const json product = run_json("plan '" + path + "'").at("contractions").at(0);
  EXPECT_EQ(product.at("m"), 256);
  EXPECT_EQ(product.at("n"), 192);
  EXPECT_EQ(product.at("k"), 64);
  EXPECT_GT(product.at("predicted_us"), 0.0);
  EXPECT_THAT(run("explain '" + path + "'").output, HasSubstr("matrix product"));
}

TEST_F(Tool, FollowsThePlanOfOtherSizes) {
  const std::string small = "plan softmax rows=7 cols=4096 --form sched";
  const std::string large = "plan softmax rows=8192 cols=4096 --form sched";
  EXPECT_EQ(run(small + " --like rows=8192").output, run(large).output);
  EXPECT_NE(run(small).output, run(large).output);
  EXPECT_TRUE(run_json("check softmax rows=7 cols=33 --like rows=64").at("passed").get<bool>());
  EXPECT_EQ(run("explain softmax rows=7 --like rows=8192").exit_code, 0);
}

TEST_F(Tool, ABudgetEndsPlanningAndCompiling) {
  for (const char* command : {"plan", "explain", "emit", "compile", "check"}) {
    SCOPED_TRACE(command);
    const json error =
        run_json(fmt::format("{} softmax rows=8 cols=64 --budget 1e-9", command), 1).at("error");
    EXPECT_EQ(error.at("kind"), "ResourceExhausted");
    EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("time budget ended"));
  }
  EXPECT_EQ(run("plan softmax rows=8 cols=64 --budget 3600").output,
            run("plan softmax rows=8 cols=64").output);
  for (const char* budget : {"-1", "nan", "1e300"})
    EXPECT_EQ(run_json(fmt::format("plan softmax --budget {}", budget), 1).at("error").at("kind"),
              "InvalidArgument");
}

TEST_F(Tool, ShowsProgressOnStandardError) {
  const Outcome out = run("emit softmax rows=8 cols=64 --progress 2>&1 >/dev/null");
  EXPECT_THAT(out.output, AllOf(StartsWith("plan 1: "), HasSubstr("multi_wave of softmax\n"),
                                HasSubstr("compile 1: ")));
}

TEST_F(Tool, TellsWhyTheCacheIsNotUsed) {
  if (!NvrtcCompiler::open()) GTEST_SKIP() << "no NVRTC";
  std::ofstream(scratch_ / "cache") << "a file";
  const Outcome out = run("compile softmax rows=8 cols=64 2>&1");
  EXPECT_EQ(out.exit_code, 0) << out.output;
  EXPECT_THAT(out.output, AllOf(HasSubstr("sinter: "), HasSubstr("cache"), HasSubstr("Remedy: ")));
}

TEST_F(Tool, HelpIsNoMistake) {
  for (const char* arguments : {"--help", "plan --help", "check --help"})
    EXPECT_EQ(run(arguments).exit_code, 0) << arguments;
}

}  // namespace sinter::tool_test
