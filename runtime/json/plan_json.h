#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compile/compile_plan.h"
#include "scheduler/plan/plan.h"

namespace sinter {

using Json = nlohmann::ordered_json;

// Plans as JSON, for the tool and the C ABI. Field names are those of the structs; times are in
// microseconds, sizes in bytes; ids print as in .fir ("%v3"). Numbers that are not finite become
// null.

/// "not_found", as in the list of cuts.
std::string_view name_of(Cut::Rule rule);

Json to_json(const Schedule& schedule);
Json to_json(const ResourceEstimate& estimate);
Json to_json(const Prediction& prediction);
Json to_json(const Rejection& rejection);
Json to_json(const Decision& decision);
Json to_json(const DeviceLimits& limits);
/// Where a constant stands in the JSON of all: each dot of its name is an object.
Json::json_pointer place_of(const CostConstantField& field);
/// All constants.
Json to_json(const CostConstants& constants);
Json to_json(const CompiledResources& resources);
Json to_json(const CompileAttempt& attempt);
/// What was chosen, with its estimate and prediction.
Json to_json(const ProposedSchedule& proposed);
/// The problem, the chosen schedule of every segment, and all decisions.
Json to_json(const Plan& plan);

/// The plan as compiled; beside it, as "compiled", what the compiler made of every kernel and what
/// else was tried.
Json to_json(const CompiledPlan& compiled);

template <class T>
Json to_json_list(const std::vector<T>& items) {
  Json out = Json::array();
  for (const T& item : items) out.push_back(to_json(item));
  return out;
}

/// As text. Bytes of names that are no UTF-8 become U+FFFD.
std::string text_of(const Json& json);

}  // namespace sinter
