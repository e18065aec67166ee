#pragma once

// Plans for people: explanations, drawings, differences, sweeps over sizes.

#include "scheduler/report/drawing.h"
#include "scheduler/report/explain.h"
#include "scheduler/report/plan_diff.h"
#include "scheduler/report/sweep.h"
#include "scheduler/report/sweep_map.h"
