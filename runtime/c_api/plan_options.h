#pragma once

#include "runtime/c_api/sinter_c.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter::c_api {

// What a caller says about a plan, in the library's terms. Both throw InvalidArgument.

ExtentValues extents_from(const sinter_extent* extents, size_t count);
/// With families that can lower; null gives the defaults.
PlanOptions plan_options_from(const sinter_plan_options* options);

}  // namespace sinter::c_api
