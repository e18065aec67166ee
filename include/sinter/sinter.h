#pragma once

// The whole C++ interface.

#include "sinter/check.h"
#include "sinter/compile.h"
#include "sinter/device.h"
#include "sinter/error.h"
#include "sinter/execute.h"
#include "sinter/family.h"
#include "sinter/graph.h"
#include "sinter/kernel.h"
#include "sinter/plan.h"
#include "sinter/report.h"
#include "sinter/schedule.h"
#include "sinter/tuning.h"
