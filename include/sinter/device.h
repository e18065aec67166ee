#pragma once

// Devices to plan for: presets, limits from JSON, the machine's own.

#include "runtime/driver/device_query.h"
#include "runtime/json/device_limits_json.h"
#include "scheduler/budgets/device_limits.h"
