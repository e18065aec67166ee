#pragma once

// Schedules as values and as .sched text, and why one is not legal.

#include "scheduler/families/schedule_verifier.h"
#include "scheduler/schedule/schedule.h"
