// What `sinter explain` says and draws: decisions, maps over sizes, plans.

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/tool_fixture.h"

namespace sinter::tool_explain_test {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

}  // namespace sinter::tool_explain_test
