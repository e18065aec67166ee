#pragma once

#include <nlohmann/json.hpp>

#include "runtime/compile_plan.h"
#include "runtime/device_run.h"
#include "runtime/host_execution.h"
#include "scheduler/plan_diff.h"
#include "scheduler/sweep.h"

namespace sinter::tool {

using Json = nlohmann::ordered_json;

// The library's values as JSON. Field names are those of the structs; times are in microseconds,
// sizes in bytes; ids print as in .fir ("%v3"). Numbers that are not finite become null.

Json to_json(const Schedule& schedule);
Json to_json(const ResourceEstimate& estimate);
Json to_json(const Prediction& prediction);
Json to_json(const Rejection& rejection);
Json to_json(const Decision& decision);
Json to_json(const DeviceLimits& limits);
Json to_json(const CompiledResources& resources);
Json to_json(const CompileAttempt& attempt);
Json to_json(const Mismatch& mismatch);
Json to_json(const Finding& finding);
Json to_json(const BufferTraffic& traffic);
Json to_json(const WorkCounts& work);
/// `kind` is null where no family takes the fusion.
Json to_json(const NearestChange& change);
/// All cells, line by line, with a schedule or an error each.
Json to_json(const Sweep& sweep);
/// What was chosen, with its estimate and prediction.
Json to_json(const ProposedSchedule& proposed);
/// The problem, the chosen schedule of every segment, and all decisions.
Json to_json(const Plan& plan);
/// Numbers as {"a": ..., "b": ...}; kernels that are the same in both by their numbers alone.
Json to_json(const PlanDiff& diff, const Plan& a, const Plan& b);

template <class T>
Json to_json_list(const std::vector<T>& items) {
  Json out = Json::array();
  for (const T& item : items) out.push_back(to_json(item));
  return out;
}

}  // namespace sinter::tool
