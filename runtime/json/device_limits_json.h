#pragma once

#include <string_view>

#include "fusion_ir/result.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// Reads the JSON object that to_json(const DeviceLimits&) writes (runtime/json/plan_json.h), so
/// that limits may come from a file. A field "base" names the preset whose values stand for fields
/// that are left out; without it all fields are needed. "architecture" follows from the compute
/// capability: where it stands, it must agree. "cost" has constants of the cost model that differ
/// from those of the base or, without one, from those embedded for the name.
///
/// Errors (InvalidArgument): text that is no JSON object, with line and column; a field that does
/// not exist, with the nearest name; one that is missing, of another type or out of its range; a
/// block that takes more than its SM has.
Result<DeviceLimits> device_limits_from_json(std::string_view text);

}  // namespace sinter
