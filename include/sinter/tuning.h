#pragma once

// Schedules measured on a GPU, and the database of the fastest.

#include "runtime/tuning/device_measurer.h"
#include "runtime/tuning/tune.h"
#include "runtime/tuning/tune_report.h"
#include "runtime/tuning/tuning_database.h"
