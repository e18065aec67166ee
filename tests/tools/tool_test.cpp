// Runs the built command line tool as a user would.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "codegen/cuda/emit.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/tuning/tuning_database.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/schedule.h"
#include "tests/support/canned_fusions.h"
#include "tests/tools/shell.h"

namespace sinter {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Tool : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(scratch_); }
  void TearDown() override { std::filesystem::remove_all(scratch_); }

  /// Runs `sinter <arguments>` with its own empty cache; `2>&1` in the arguments adds the errors.
  [[nodiscard]] Outcome run(const std::string& arguments) const {
    const std::string command = fmt::format("SINTER_CACHE_DIR='{}' '{}' {}",
                                            (scratch_ / "cache").string(), SINTER_TOOL, arguments);
    return run_in_shell(command);
  }

  [[nodiscard]] json run_json(const std::string& arguments, int exit_code = 0) const {
    const Outcome out = run(arguments + " --json");
    EXPECT_EQ(out.exit_code, exit_code) << out.output;
    json parsed = json::parse(out.output, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << out.output;
    return parsed;
  }

  [[nodiscard]] std::string write_file(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = scratch_ / name;
    std::ofstream(path) << text;
    return path.string();
  }

  std::filesystem::path scratch_ =
      std::filesystem::path(::testing::TempDir()) /
      fmt::format("sinter_tool_{}_{}", getpid(),
                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

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

TEST_F(Tool, ExplainsDecisionsRefusalsAndResources) {
  const Outcome text = run("explain softmax rows=8192 cols=8192");
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.output,
              AllOf(HasSubstr("which schedule runs the segment"), HasSubstr("* multi_wave"),
                    HasSubstr("refused pointwise"), HasSubstr("registers per thread"),
                    HasSubstr("waves"), HasSubstr("bytes in flight per SM")));
  const json explained = run_json("explain softmax rows=8192 cols=8192");
  ASSERT_GE(explained.at("decisions").size(), 2U);
  for (const json& decision : explained.at("decisions")) {
    EXPECT_TRUE(decision.contains("question") && decision.contains("chosen") &&
                decision.contains("because"));
  }
  EXPECT_EQ(explained.at("rejections").at(0).at("subject"), "pointwise");
}

TEST_F(Tool, ExplainsWhatWouldChangeTheAnswer) {
  const std::string problem = "explain layer_norm_backward rows=256 cols=8192";
  EXPECT_THAT(run(problem).output, HasSubstr("another kind wins: "));
  const json changes = run_json(problem).at("another_kind_wins");
  ASSERT_FALSE(changes.empty());
  const json& change = changes.at(0);
  const bool by_rows = change.at("extent") == "rows";
  const json planned =
      run_json(fmt::format("plan layer_norm_backward {} {}={}", by_rows ? "cols=8192" : "rows=256",
                           change.at("extent").get<std::string>(), change.at("size").dump()));
  EXPECT_EQ(change.at("kind"), planned.at("kind"));
  EXPECT_FALSE(run_json(problem + " --family multi_wave").contains("another_kind_wins"));
}

TEST_F(Tool, MapsTheKindsChosenOverTwoExtents) {
  const std::string arguments =
      "explain layer_norm_backward --sweep cols=1024..8192 --sweep rows=128..1100:300";
  const json swept = run_json(arguments);
  EXPECT_EQ(swept.at("axes").at(0).at("sizes"), json({1024, 2048, 4096, 8192}));
  EXPECT_EQ(swept.at("axes").at(1).at("sizes"), json({128, 428, 728, 1028}));
  ASSERT_EQ(swept.at("cells").size(), 16U);
  const json& cell = swept.at("cells").at(6);
  EXPECT_EQ(cell.at("extents"), json({{"cols", 4096}, {"rows", 428}}));
  const json planned = run_json("plan layer_norm_backward cols=4096 rows=428");
  EXPECT_EQ(cell.at("kind"), planned.at("kind"));
  EXPECT_EQ(cell.at("schedule"), planned.at("kernels").at(0).at("schedule"));
  EXPECT_EQ(cell.at("predicted_us"), planned.at("predicted_us"));
  const Outcome text = run(arguments);
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.output, AllOf(HasSubstr("W warp_specialised"), HasSubstr("rows \\ cols")));
  EXPECT_EQ(text.output, run(arguments).output);
}

TEST_F(Tool, MapsTheOtherExtentToo) {
  // Unless it is given.
  EXPECT_EQ(run_json("explain softmax --sweep cols=64..128").at("axes").size(), 2U);
  EXPECT_EQ(run_json("explain softmax rows=64 --sweep cols=64..128").at("axes").size(), 1U);
  EXPECT_EQ(run_json("explain softmax --sweep cols=64..100:x3 rows=64").at("cells").size(), 1U);
}

TEST_F(Tool, WritesTheMapAsAnSvg) {
  const std::string path = write_file("map.svg", "");
  const Outcome out =
      run("explain softmax --sweep cols=64..1024 --sweep rows=1..64:x8 --svg '" + path + "'");
  EXPECT_EQ(out.exit_code, 0);
  EXPECT_THAT(out.output, HasSubstr("written to " + path));
  std::ifstream file(path);
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(svg, AllOf(StartsWith("<svg"), HasSubstr("</svg>")));
  size_t cells = 0;
  for (size_t at = 0; (at = svg.find("class=\"cell\"", at)) != std::string::npos; ++at) ++cells;
  EXPECT_EQ(cells, 5U * 3U);
}

TEST_F(Tool, DrawsAPlan) {
  const std::string problem = "explain layer_norm_backward rows=8192 cols=4096";
  EXPECT_THAT(run(problem + " --svg -").output, AllOf(StartsWith("<svg"), HasSubstr("</svg>")));
  const std::string dot = run(problem + " --dot -").output;
  EXPECT_THAT(dot, AllOf(StartsWith("digraph"), HasSubstr("step0 -> step1")));
  EXPECT_EQ(run_json(problem + " --dot -").at("dot"), dot);
  const std::string path = write_file("plan.dot", "");
  EXPECT_THAT(run(problem + " --dot '" + path + "'").output,
              AllOf(HasSubstr("which schedule"), HasSubstr("written to " + path)));
  std::ifstream file(path);
  EXPECT_EQ((std::string{std::istreambuf_iterator<char>(file), {}}), dot);
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

// ---- Mistakes

struct Mistake {
  const char* arguments;
  int exit_code;
  const char* kind;
  const char* says;
};

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

TEST_F(Tool, ErrorsInTextHaveFileLineAndColumn) {
  const std::string path = write_file("wrong.fir", "fusion @f {\n  %v0 : f32[4] = inptu\n}\n");
  const Outcome text = run("plan '" + path + "' 2>&1");
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.output, HasSubstr(path + ":2:18: unknown op, found 'inptu'"));
  EXPECT_THAT(text.output, HasSubstr("did you mean 'input'?"));
  const json error = run_json("plan '" + path + "'", 1).at("error");
  EXPECT_EQ(error.at("file"), path);
  EXPECT_EQ(error.at("line"), 2);
  EXPECT_EQ(error.at("column"), 18);
  const std::string schedule = write_file("wrong.sched", "schedule looped {\n  unrol 2\n}\n");
  const json pinned = run_json("plan softmax --schedule '" + schedule + "'", 1).at("error");
  EXPECT_EQ(pinned.at("file"), schedule);
  EXPECT_EQ(pinned.at("line"), 2);
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

TEST_F(Tool, MisspeltNamesGetTheNearestOne) {
  const auto error_of = [&](const std::string& arguments) {
    return run(arguments + " 2>&1").output;
  };
  EXPECT_THAT(error_of("pln softmax"),
              AllOf(HasSubstr("there is no command 'pln'"), HasSubstr("did you mean 'plan'?")));
  EXPECT_THAT(error_of("plan softmax --devcie H200"), HasSubstr("did you mean '--device'?"));
  EXPECT_THAT(error_of("plan sofmax"), HasSubstr("did you mean 'softmax'?"));
  EXPECT_THAT(error_of("plan softmax --device H20"), HasSubstr("did you mean 'H200'?"));
  EXPECT_THAT(error_of("plan softmax row=8"), HasSubstr("did you mean 'rows'?"));
  EXPECT_THAT(error_of("plan softmax --family loopd"), HasSubstr("did you mean 'looped'?"));
  EXPECT_THAT(error_of("plan softmax --residency regster"), HasSubstr("did you mean 'register'?"));
  EXPECT_THAT(error_of("emit softmax --form cudda"),
              AllOf(HasSubstr("there is no 'cudda'"), HasSubstr("did you mean 'cuda'?")));
  EXPECT_THAT(error_of("cache lst"), HasSubstr("did you mean 'list'?"));
  EXPECT_THAT(error_of("tuning exprt t.db"), HasSubstr("did you mean 'export'?"));
  EXPECT_THAT(error_of("--verzion"), AllOf(HasSubstr("there is no option '--verzion'"),
                                           HasSubstr("did you mean '--version'?")));
  EXPECT_THAT(error_of("check softmax --data 'infinity in row'"),
              HasSubstr("did you mean 'infinity in rows'?"));
  EXPECT_THAT(error_of("check layer_norm --input wieght=w.npy"),
              HasSubstr("did you mean 'weight'?"));
  const json usage = run_json("exlpain softmax", 2).at("error");
  EXPECT_THAT(usage.at("remedy").get<std::string>(), HasSubstr("did you mean 'explain'?"));
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

TEST_F(Tool, MistakesAreTypedErrorsInBothForms) {
  const std::string bad_fir = write_file("bad.fir", "fusion @x {\n  return %v0\n}\n");
  const std::string bad_sched = write_file("bad.sched", "schedule looped { threads 1 }");
  const std::string file = "plan '" + bad_fir + "'";
  const std::string calls = write_file("calls.fir",
                                       "fusion @calls {\n  %v0 : f32[4] = input\n"
                                       "  %v1 : f32[4] = external f %v0\n  return %v1\n}\n");
  const std::string check_calls = "check '" + calls + "'";
  const std::string long_name = "plan " + std::string(10000, 'x');
  const std::string sched = "plan softmax --schedule '" + bad_sched + "'";
  for (const Mistake& mistake : {
           Mistake{"plan no_such_fusion", 1, "InvalidArgument", "no_such_fusion"},
           Mistake{"plan softmax rows", 1, "InvalidArgument", "'rows' is no extent"},
           Mistake{"plan softmax rows=", 1, "InvalidArgument", "is no extent"},
           Mistake{"plan softmax =3", 1, "InvalidArgument", "is no extent"},
           Mistake{"plan softmax rows=12x", 1, "InvalidArgument", "is no extent"},
           Mistake{"plan softmax rows=99999999999999999999", 1, "InvalidArgument", "is no extent"},
           Mistake{"plan softmax rows=-1", 1, "InvalidArgument", "rows"},
           Mistake{"plan softmax depth=3", 1, "InvalidArgument", "depth"},
           Mistake{"plan softmax --device TPU", 1, "InvalidArgument", "no device 'TPU'"},
           Mistake{"plan softmax --residency disk", 1, "InvalidArgument", "no residency 'disk'"},
           Mistake{"plan softmax rows=4 rows=5", 1, "InvalidArgument", "contradicts rows=4"},
           Mistake{long_name.c_str(), 1, "InvalidArgument", "neither a file nor a canned fusion"},
           Mistake{"check softmax rows=1000000 cols=100000000", 1, "ResourceExhausted", "memory"},
           Mistake{"plan softmax --family fancy", 1, "InvalidArgument", "fancy"},
           Mistake{"plan softmax --schedule /nonexistent.sched", 1, "InvalidArgument",
                   "cannot read"},
           Mistake{"plan /tmp", 1, "InvalidArgument", "cannot read"},
           Mistake{file.c_str(), 1, "InvalidFusion", "2:"},
           Mistake{check_calls.c_str(), 1, "Unsupported", "external calls"},
           Mistake{sched.c_str(), 1, "InvalidArgument", "1:"},
           Mistake{"plan two_independent_chains --unroll 1", 1, "Unsupported",
                   "two_independent_chains"},
           Mistake{"explain softmax --sweep cols", 1, "InvalidArgument", "names no extent"},
           Mistake{"explain softmax --sweep =1..2", 1, "InvalidArgument", "names no extent"},
           Mistake{"explain softmax --sweep cols=64", 1, "InvalidArgument", "no two sizes"},
           Mistake{"explain softmax --sweep cols=64..", 1, "InvalidArgument", "no two sizes"},
           Mistake{"explain softmax --sweep cols=..64", 1, "InvalidArgument", "no two sizes"},
           Mistake{"explain softmax --sweep cols=1..x", 1, "InvalidArgument", "no two sizes"},
           Mistake{"explain softmax --sweep cols=0..8", 1, "InvalidArgument", "begin at 1"},
           Mistake{"explain softmax --sweep cols=8..4", 1, "InvalidArgument", "before it begins"},
           Mistake{"explain softmax --sweep cols=1..4:0", 1, "InvalidArgument", "at least 1"},
           Mistake{"explain softmax --sweep cols=1..4:x1", 1, "InvalidArgument", "at least x2"},
           Mistake{"explain softmax --sweep cols=1..4:", 1, "InvalidArgument", "at least"},
           Mistake{"explain softmax --sweep depth=1..4", 1, "InvalidArgument",
                   "no extent 'depth' to sweep"},
           Mistake{"explain softmax --sweep cols=1..4 --sweep cols=1..4", 1, "InvalidArgument",
                   "swept twice"},
           Mistake{"explain softmax --sweep cols=1..9223372036854775807:1", 1, "ResourceExhausted",
                   "at most 4096 cells"},
           Mistake{"explain softmax rows=1 --sweep cols=8..16 --svg /nonexistent/map.svg", 1,
                   "InvalidArgument", "cannot write '/nonexistent/map.svg'"},
           Mistake{"explain softmax rows=1 --sweep cols=8..16 --svg /dev/full", 1,
                   "InvalidArgument", "cannot write '/dev/full'"},
           Mistake{"explain softmax --svg /nonexistent/plan.svg", 1, "InvalidArgument",
                   "cannot write '/nonexistent/plan.svg'"},
           Mistake{"explain softmax --dot /nonexistent/plan.dot", 1, "InvalidArgument",
                   "cannot write '/nonexistent/plan.dot'"},
           Mistake{"explain softmax --sweep cols=8..16 --dot -", 2, "Usage", "--dot"},
           Mistake{"", 2, "Usage", "subcommand"},
           Mistake{"plan", 2, "Usage", "required"},
           Mistake{"frobnicate", 2, "Usage", ""},
           Mistake{"plan softmax --no-such-option", 2, "Usage", "--no-such-option"},
           Mistake{"plan softmax --unroll many", 2, "Usage", "unroll"},
           Mistake{"emit softmax --form ptx", 2, "Usage", "ptx"},
           Mistake{"plan softmax --cut nowhere", 1, "InvalidArgument", "nowhere"},
           Mistake{"plan softmax --join x,y", 1, "InvalidArgument", "it is an input"},
           Mistake{"check softmax --join y,", 1, "InvalidArgument", "is named ''"},
           Mistake{"diff softmax", 2, "Usage", "required"},
           Mistake{"diff softmax no_such_fusion", 1, "InvalidArgument", "no_such_fusion"},
           Mistake{"diff softmax softmax depth=3", 1, "InvalidArgument", "depth"},
           Mistake{"diff softmax softmax --extent-b rows", 1, "InvalidArgument", "is no extent"},
           Mistake{"diff softmax softmax --device-b TPU", 1, "InvalidArgument", "no device 'TPU'"},
           Mistake{"plan softmax --like row=8", 1, "InvalidArgument", "'row'"},
           Mistake{"plan softmax --like rows", 1, "InvalidArgument", "is no extent"},
           Mistake{"plan softmax --like rows=8 --unroll 1", 1, "InvalidArgument", "follow"},
           Mistake{"explain softmax --svg - --dot -", 1, "InvalidArgument", "two drawings"},
           Mistake{"check softmax --seed -1", 2, "Usage", "negative"},
           Mistake{"check softmax --seed 18446744073709551616", 2, "Usage", "too large"},
           Mistake{"tune softmax --top -1", 2, "Usage", "negative"},
           Mistake{"cache burn", 2, "Usage", "burn"},
           Mistake{"explain softmax --sweep cols=8..16 --tuned t.db", 2, "Usage", "--tuned"},
           Mistake{"tuning burn t.db", 2, "Usage", "burn"},
           Mistake{"tuning merge t.db", 1, "InvalidArgument", "second file"},
       }) {
    SCOPED_TRACE(mistake.arguments);
    const json error = run_json(mistake.arguments, mistake.exit_code).at("error");
    EXPECT_EQ(error.at("kind"), mistake.kind);
    EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr(mistake.says));
    const Outcome text = run(std::string(mistake.arguments) + " 2>&1 >/dev/null");
    EXPECT_EQ(text.exit_code, mistake.exit_code);
    EXPECT_THAT(text.output, AllOf(StartsWith("sinter: "), HasSubstr(mistake.says)));
  }
}

// An empty path or name is none, and is not taken for one that was left out.
TEST_F(Tool, EmptyValuesAreRefused) {
  for (const char* arguments :
       {"plan ''", "plan softmax ''", "plan softmax --schedule ''", "plan softmax --tuned ''",
        "plan softmax --family ''", "plan softmax --device ''", "explain softmax --svg ''",
        "compile softmax --output ''", "cache list --directory ''", "tuning list ''",
        "diff softmax softmax --device-b ''"}) {
    SCOPED_TRACE(arguments);
    const json error = run_json(arguments, 2).at("error");
    EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("it is empty"));
  }
}

TEST_F(Tool, OutputThatIsNotTakenIsAnError) {
  for (const char* arguments : {"list", "plan softmax rows=8 cols=64 --json"}) {
    SCOPED_TRACE(arguments);
    const Outcome full = run(std::string(arguments) + " 2>&1 >/dev/full");
    EXPECT_EQ(full.exit_code, 1);
    EXPECT_THAT(full.output, HasSubstr("standard output takes no more"));
    EXPECT_EQ(run(std::string(arguments) + " 2>/dev/null >&-").exit_code, 1);
  }
}

TEST_F(Tool, ErrorsThatNobodyReadsEndTheCommandAsOthers) {
  for (const std::string away : {" 2>&-", " 2>/dev/full"}) {
    SCOPED_TRACE(away);
    EXPECT_EQ(run("plan softmax rows=x" + away).exit_code, 1);
    EXPECT_EQ(run("frobnicate" + away).exit_code, 2);
    EXPECT_EQ(run("plan softmax rows=8 cols=64 --progress >/dev/null" + away).exit_code, 0);
  }
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

}  // namespace
}  // namespace sinter
