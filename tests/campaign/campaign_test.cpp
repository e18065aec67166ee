#include "tests/campaign/campaign.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/campaign/campaign_report.h"
#include "tests/campaign/campaign_state.h"

namespace sinter::campaign_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class InFolder : public ::testing::Test {
 protected:
  InFolder() {
    std::string name = ::testing::TempDir() + "/campaign_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~InFolder() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] static std::string text_of_file(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
};

// ---- Work in processes of their own

WorkResult result_of(Worker& worker) {
  while (true) {
    if (auto result = worker.poll()) return *result;
    usleep(1000);
  }
}

TEST(Workers, ReturnWhatTheWorkReturns) {
  Worker worker([](uint64_t piece) { return std::string(piece * 100000, 'x'); }, {});
  for (const uint64_t piece : {uint64_t{0}, uint64_t{7}}) {
    worker.start(piece);
    const WorkResult result = result_of(worker);
    EXPECT_EQ(result.text.size(), piece * 100000);
    EXPECT_THAT(result.failure, IsEmpty());
    EXPECT_FALSE(worker.is_busy());
  }
}

TEST(Workers, OutliveWorkThatCrashesOrHangs) {
  Worker worker(
      [](uint64_t piece) -> std::string {
        if (piece == 1) raise(SIGSEGV);
        if (piece == 2) _exit(3);
        while (piece == 3) usleep(1000);
        for (volatile int i = 0; piece == 4;) i = 1 - i;
        return "done";
      },
      {.cpu_seconds = 0.2, .wall_seconds = 2.0});
  const auto failure_of = [&](uint64_t piece) {
    worker.start(piece);
    return result_of(worker).failure;
  };
  EXPECT_THAT(failure_of(0), IsEmpty());
  EXPECT_THAT(failure_of(1), HasSubstr("signal 11"));
  EXPECT_THAT(failure_of(2), HasSubstr("status 3"));
  EXPECT_EQ(failure_of(3), "took more than 2 s");
  EXPECT_EQ(failure_of(4), "took more than 0.2 s of CPU time");
  EXPECT_THAT(failure_of(5), IsEmpty());
}

// ---- State

TEST_F(InFolder, StateIsReadAgainWithoutWhatWasCutOff) {
  const std::filesystem::path path = folder_ / "state";
  {
    CampaignState state(path, "abc");
    state.add(3, {.outcome = {.refusals = {{"rule", 2}}, .runs = 5}, .seconds = 0.5});
    state.add(1, {.outcome = {.findings = {{.what = "a", .where = "b", .text = "c\n\"d\""}}}});
  }
  const std::string whole = text_of_file(path);
  std::ofstream(path, std::ios::app) << R"({"seed":4,"sec)";
  {
    const CampaignState state(path, "abc");
    ASSERT_THAT(state.results(), SizeIs(2));
    EXPECT_EQ(state.results().at(3).outcome.runs, 5);
    EXPECT_EQ(state.results().at(3).outcome.refusals.at("rule"), 2);
    EXPECT_EQ(state.results().at(1).outcome.findings[0].text, "c\n\"d\"");
  }
  EXPECT_EQ(text_of_file(path), whole) << "half a line is cut off";
}

TEST_F(InFolder, StateOfAnotherCommitOrOfNoneIsRefused) {
  const std::filesystem::path path = folder_ / "state";
  { CampaignState state(path, "abc"); }
  EXPECT_THROW(CampaignState(path, "abd"), std::runtime_error);
  std::ofstream(folder_ / "other") << "hello\n";
  EXPECT_THROW(CampaignState(folder_ / "other", "abc"), std::runtime_error);
}

// ---- Reports

TEST(Reports, GroupFindingsByTheirWording) {
  EXPECT_EQ(wording_of("12 of 4096 elements, 1e-05"), "# of # elements, #");
  EXPECT_EQ(wording_of("take of 'g_12' (axis 3) [%v4, %op2]: no"), "take of '..' (..) [..]: no");
  const auto with = [](const std::string& text) {
    return SeedResult{.outcome = {.findings = {{.what = "plan", .where = "", .text = text}}}};
  };
  const auto groups =
      group_findings({{1, with("value 7")}, {2, with("graph")}, {9, with("value 81")}});
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_THAT(groups.at("plan: value #").seeds, ElementsAre(1, 9));
}

// ---- Campaigns

TEST_F(InFolder, CampaignGoesOnWhereItEnded) {
  CampaignOptions options{.first = 10,
                          .last = 14,
                          .jobs = 2,
                          .state = folder_ / "state",
                          .report = folder_ / "report.json",
                          .commit = "abc",
                          .is_quiet = true};
  run_campaign(options);
  const std::string first = text_of_file(options.state);
  options.last = 20;
  run_campaign(options);
  const std::string both = text_of_file(options.state);
  EXPECT_TRUE(both.starts_with(first)) << "what is done is not done again";
  EXPECT_EQ(std::ranges::count(both, '\n'), 1 + 10);
  const nlohmann::json report = nlohmann::json::parse(text_of_file(options.report));
  EXPECT_EQ(report.at("seeds"), 10);
  EXPECT_EQ(report.at("first_seed"), 10);
  EXPECT_EQ(report.at("last_seed"), 19);
  EXPECT_EQ(report.at("commit"), "abc");
  EXPECT_GE(report.at("executions").get<int>(), 10);
}

}  // namespace sinter::campaign_test
