#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "fusion_ir/parser.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/planning/planner.h"
#include "tests/campaign/case.h"
#include "tests/integration/canned_case.h"

namespace sinter::regressions_test {

using ::testing::HasSubstr;

/// A graph that once went wrong, and how to try it. Directives are comments of the .fir text:
///
///     ; extents: rows=5 cols=1     one line for every size to try; no names if there are none
///     ; device: H200               one line for every device; H200 if there is none
///     ; error: some words          no family takes it, and says so in these words
///     ; case: simplify=0 ...       it is a case of tests/campaign, checked as that checks its own
struct Regression {
  std::filesystem::path path;
  std::string text;
  std::vector<ExtentValues> extents;
  std::vector<std::string> devices;
  std::string error;
  bool is_case = false;

  friend void PrintTo(const Regression& regression, std::ostream* out) {
    *out << regression.path.filename().string();
  }
};

ExtentValues parse_extents(const std::string& text) {
  ExtentValues out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) throw std::invalid_argument("no size in " + word);
    out[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
  }
  return out;
}

Regression read(const std::filesystem::path& path) {
  Regression out;
  out.path = path;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line); out.text += line + "\n") {
    const auto value = [&](const std::string& key) -> std::optional<std::string> {
      const std::string prefix = "; " + key + ":";
      if (!line.starts_with(prefix)) return std::nullopt;
      return line.substr(prefix.size());
    };
    if (const auto extents = value("extents")) out.extents.push_back(parse_extents(*extents));
    if (const auto device = value("device")) out.devices.push_back(device->substr(1));
    if (const auto error = value("error")) out.error = error->substr(1);
    if (value("case")) out.is_case = true;
  }
  if (out.devices.empty()) out.devices.push_back("H200");
  return out;
}

/// Every .fir file of this folder.
std::vector<Regression> regressions() {
  std::vector<Regression> out;
  for (const auto& entry :
       std::filesystem::directory_iterator(SINTER_TEST_DATA_DIR "/regressions")) {
    if (entry.path().extension() == ".fir") out.push_back(read(entry.path()));
  }
  std::ranges::sort(out, {}, &Regression::path);
  return out;
}

class Regressions : public ::testing::TestWithParam<Regression> {};

void expect_no_findings(const std::string& text) {
  const auto parsed = parse_case(text);
  ASSERT_TRUE(parsed) << parsed.error().text();
  const Outcome outcome = check_case(*parsed);
  EXPECT_GT(outcome.runs, 0);
  for (const CaseFinding& finding : outcome.findings)
    ADD_FAILURE() << finding.what << " (" << finding.where << "): " << finding.text << "\n"
                  << finding.schedules;
}

TEST_P(Regressions, StayFixed) {
  const Regression& regression = GetParam();
  if (regression.is_case) return expect_no_findings(regression.text);
  ASSERT_FALSE(regression.extents.empty()) << "the file has no '; extents:' line";
  const auto fusion = parse_fusion(regression.text);
  ASSERT_TRUE(fusion) << fusion.error().text();
  const FamilySet families = builtin_families();
  for (const std::string& device : regression.devices) {
    const auto limits = find_device(device);
    ASSERT_TRUE(limits) << device;
    for (const ExtentValues& extents : regression.extents) {
      const auto planned = plan(*fusion, extents, *limits, {.families = families});
      if (!regression.error.empty()) {
        ASSERT_FALSE(planned);
        EXPECT_EQ(planned.error().kind, ErrorKind::kUnsupported);
        EXPECT_THAT(planned.error().text(), HasSubstr(regression.error));
        continue;
      }
      ASSERT_TRUE(planned) << planned.error().text();
      const KernelPlan& kernel = planned->kernels.front();
      for (const Schedule& schedule : chosen_and_best_of_families(kernel))
        EXPECT_TRUE(computes_the_oracle(*fusion, *planned, schedule));
      constexpr uint64_t kSeeds = 20;
      for (uint64_t seed = 0; seed < kSeeds; ++seed) {
        const auto drawn = random_schedule(kernel.facts, *limits, families, seed);
        ASSERT_TRUE(drawn);
        EXPECT_TRUE(computes_the_oracle(*fusion, *planned, drawn->schedule, seed));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Regressions, ::testing::ValuesIn(regressions()),
                         [](const auto& test) { return test.param.path.stem().string(); });

}  // namespace sinter::regressions_test
