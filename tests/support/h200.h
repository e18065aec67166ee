#pragma once

#include "scheduler/budgets/cost_constants.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// The device that most tests plan for, as Sinter knows it without a GPU, and its cost model.
inline const DeviceLimits kLimits = *find_device("H200");
inline const CostConstants& kConstants = cost_constants_of("H200");

/// The device under other constants.
inline DeviceLimits with(DeviceLimits limits, const CostConstants& constants) {
  limits.cost = constants;
  return limits;
}

}  // namespace sinter
