// sinter_campaign: random graphs against the oracle and a second evaluator. README.md says how.

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "tests/campaign/campaign.h"
#include "tests/campaign/case.h"

namespace {

constexpr std::string_view kUsage =
    "sinter_campaign [--seeds FIRST:LAST] [--state FILE] [--jobs N] [--report FILE.json]\n"
    "                [--findings FOLDER] [--minimise N] [--commit NAME] [--seconds N] [--quiet]\n"
    "    checks the seeds FIRST ... LAST - 1 (0:200) that the state does not have yet\n"
    "sinter_campaign --print SEED\n"
    "    prints the case of a seed as .fir text\n"
    "sinter_campaign --replay FILE.fir\n"
    "    checks the case in a file\n"
    "\n"
    "exit status: 0 no findings, 1 findings, 2 no such option, or a file that is none\n";

template <class T>
T number_of(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument(fmt::format("'{}' is not a number", text));
  return number;
}

int show_outcome(const sinter::Outcome& outcome) {
  for (const auto& [refusal, times] : outcome.refusals) fmt::print("refused: {}\n", refusal);
  for (const auto& [family, kernels] : outcome.families) fmt::print("{}: {}\n", family, kernels);
  fmt::print("{} executions, {} elements, {} of them left open by their bounds\n", outcome.runs,
             outcome.elements, outcome.open_elements);
  for (const sinter::CaseFinding& finding : outcome.findings)
    fmt::print("{} ({}): {}\n{}", finding.what, finding.where, finding.text, finding.schedules);
  return outcome.findings.empty() ? 0 : 1;
}

int replay(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument(path + " cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  const auto parsed = sinter::parse_case(text.str());
  if (!parsed) throw std::invalid_argument(parsed.error().text());
  return show_outcome(sinter::check_case(*parsed));
}

int run(int count, char** words) {
  sinter::CampaignOptions options;
  for (int i = 1; i < count; ++i) {
    const std::string_view option = words[i];
    if (option == "--help") {
      fmt::print("{}", kUsage);
      return 0;
    }
    if (option == "--quiet") {
      options.is_quiet = true;
      continue;
    }
    if (++i == count) throw std::invalid_argument(fmt::format("{} wants a value", option));
    const std::string_view value = words[i];
    if (option == "--seeds") {
      const size_t colon = value.find(':');
      if (colon == std::string_view::npos) throw std::invalid_argument("--seeds wants FIRST:LAST");
      options.first = number_of<uint64_t>(value.substr(0, colon));
      options.last = number_of<uint64_t>(value.substr(colon + 1));
    } else if (option == "--state") {
      options.state = value;
    } else if (option == "--jobs") {
      options.jobs = number_of<int>(value);
    } else if (option == "--report") {
      options.report = value;
    } else if (option == "--findings") {
      options.findings = value;
    } else if (option == "--commit") {
      options.commit = value;
    } else if (option == "--seconds") {
      options.limits.cpu_seconds = number_of<int>(value);
    } else if (option == "--minimise") {
      options.minimised_of_group = number_of<size_t>(value);
    } else if (option == "--print") {
      fmt::print("{}", sinter::print_case(sinter::draw_case(number_of<uint64_t>(value))));
      return 0;
    } else if (option == "--replay") {
      return replay(std::string(value));
    } else {
      throw std::invalid_argument(fmt::format("there is no option {}", option));
    }
  }
  return sinter::run_campaign(options) == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(count, words);
  } catch (const std::exception& error) {
    fmt::print(stderr, "sinter_campaign: {}\n{}", error.what(), kUsage);
    return 2;
  }
}
