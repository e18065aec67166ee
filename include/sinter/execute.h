#pragma once

// Compiled plans on a GPU: for fixed extents and for ranges of them.

#include "runtime/driver/device_context.h"
#include "runtime/driver/driver_api.h"
#include "runtime/execute/executable.h"
#include "runtime/execute/ranged_executable.h"
#include "runtime/execute/tensor.h"
