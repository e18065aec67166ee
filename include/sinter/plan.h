#pragma once

// plan(): from a fusion, extents and a device to kernels with their schedules and reasons; and
// plans as text.

#include "runtime/json/plan_file.h"
#include "scheduler/families/interruption.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
