#include "tests/campaign/campaign_report.h"

#include <algorithm>

namespace sinter {

std::string wording_of(std::string_view text) {
  constexpr size_t kLongest = 160;
  std::string out;
  bool in_number = false;
  char closing = 0;  // Of what is quoted or in brackets.
  for (const char c : text) {
    if (c == '\n' || out.size() == kLongest) break;
    if (closing != 0) {
      if (c == closing) closing = 0;
      continue;
    }
    // 1e-05, 0x1p-3 and -inf are numbers as well as 12.
    const bool is_digit = c >= '0' && c <= '9';
    in_number = is_digit || (in_number && (c == '.' || c == 'e' || c == '-'));
    if (in_number) {
      if (out.empty() || out.back() != '#') out += '#';
      continue;
    }
    // "the fusion's" quotes nothing.
    const bool follows_letter = !out.empty() && out.back() >= 'a' && out.back() <= 'z';
    out += c;
    if (c == '\'' && !follows_letter) closing = '\'';
    if (c == '(') closing = ')';
    if (c == '[') closing = ']';
    if (closing != 0) out += {'.', '.', closing};
  }
  return out;
}

std::map<std::string, FindingGroup> group_findings(const std::map<uint64_t, SeedResult>& results) {
  std::map<std::string, FindingGroup> groups;
  for (const auto& [seed, result] : results) {
    for (const CaseFinding& finding : result.outcome.findings) {
      // What a mismatch says of elements and values differs from graph to graph.
      const bool is_mismatch = finding.what.find("against") != std::string::npos;
      const std::string name = is_mismatch
                                   ? finding.what
                                   : fmt::format("{}: {}", finding.what, wording_of(finding.text));
      FindingGroup& group = groups[name];
      if (group.seeds.empty()) group.example = finding;
      if (group.seeds.empty() || group.seeds.back() != seed) group.seeds.push_back(seed);
    }
  }
  return groups;
}

nlohmann::json report_of(const std::map<uint64_t, SeedResult>& results) {
  Outcome all;
  double seconds = 0.0;
  double longest = 0.0;
  int64_t with_findings = 0;
  for (const auto& [seed, result] : results) {
    all.merge(result.outcome);
    seconds += result.seconds;
    longest = std::max(longest, result.seconds);
    if (!result.outcome.findings.empty()) ++with_findings;
  }
  nlohmann::json findings = nlohmann::json::array();
  for (const auto& [name, group] : group_findings(results)) {
    findings.push_back({{"finding", name},
                        {"cases", group.seeds.size()},
                        {"seeds", group.seeds},
                        {"example",
                         {{"where", group.example.where},
                          {"text", group.example.text},
                          {"schedules", group.example.schedules}}}});
  }
  return {{"seeds", results.size()},
          {"seeds_with_findings", with_findings},
          {"findings", findings},
          {"executions", all.runs},
          {"kernels_by_family", all.families},
          {"features", all.features},
          {"refusals", all.refusals},
          {"elements", all.elements},
          {"elements_left_open_by_bounds", all.open_elements},
          {"cpu_seconds", seconds},
          {"longest_seed_seconds", longest}};
}

}  // namespace sinter
