#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/campaign/campaign_state.h"

namespace sinter {

/// Findings that differ in numbers only, so that one fault is seen as one.
struct FindingGroup {
  CaseFinding example;
  std::vector<uint64_t> seeds;  ///< Ascending.
};
/// By "what: wording".
std::map<std::string, FindingGroup> group_findings(const std::map<uint64_t, SeedResult>& results);

/// Text without its numbers and without what is quoted or in brackets: what it says of any graph.
std::string wording_of(std::string_view text);

/// Counts of everything, findings by group with their seeds.
nlohmann::json report_of(const std::map<uint64_t, SeedResult>& results);

}  // namespace sinter
