#pragma once

#include "runtime/check/device_run.h"
#include "runtime/check/host_execution.h"
#include "runtime/json/plan_json.h"
#include "scheduler/report/plan_diff.h"
#include "scheduler/report/sweep.h"

// In the namespace of what they take, where to_json_list() finds them.
namespace sinter {

// What the tool reports besides plans as JSON, in the way of runtime/json/plan_json.h.

Json to_json(const Mismatch& mismatch);
Json to_json(const Finding& finding);
Json to_json(const BufferTraffic& traffic);
Json to_json(const WorkCounts& work);
/// `kind` is null where no family takes the fusion.
Json to_json(const NearestChange& change);
/// All cells, line by line, with a schedule or an error each.
Json to_json(const Sweep& sweep);
/// Numbers as {"a": ..., "b": ...}; kernels that are the same in both by their numbers alone.
Json to_json(const PlanDiff& diff, const Plan& a, const Plan& b);

}  // namespace sinter
