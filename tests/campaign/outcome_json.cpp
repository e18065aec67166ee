#include "tests/campaign/outcome_json.h"

namespace sinter {

nlohmann::json to_json(const Outcome& outcome) {
  nlohmann::json findings = nlohmann::json::array();
  for (const CaseFinding& finding : outcome.findings) {
    findings.push_back({{"what", finding.what},
                        {"where", finding.where},
                        {"text", finding.text},
                        {"schedules", finding.schedules}});
  }
  return {{"findings", findings},
          {"refusals", outcome.refusals},
          {"families", outcome.families},
          {"features", outcome.features},
          {"runs", outcome.runs},
          {"elements", outcome.elements},
          {"open_elements", outcome.open_elements}};
}

Outcome outcome_from(const nlohmann::json& json) {
  Outcome out;
  for (const nlohmann::json& finding : json.at("findings")) {
    out.findings.push_back({.what = finding.at("what"),
                            .where = finding.at("where"),
                            .text = finding.at("text"),
                            .schedules = finding.at("schedules")});
  }
  json.at("refusals").get_to(out.refusals);
  json.at("families").get_to(out.families);
  json.at("features").get_to(out.features);
  json.at("runs").get_to(out.runs);
  json.at("elements").get_to(out.elements);
  json.at("open_elements").get_to(out.open_elements);
  return out;
}

}  // namespace sinter
