#pragma once

#include <string_view>

#include "runtime/c_api/sinter_c.h"
#include "scheduler/families/interruption.h"

namespace sinter::c_api {

/// What a caller's options say about progress and time, from now on. Refuses a budget that is
/// negative or no number.
Interruption interruption_from(sinter_progress_function progress, void* progress_data,
                               double budget_seconds);

/// Refuses a budget for one step of work that has many. `instead` is the remedy.
void refuse_budget(double budget_seconds, std::string_view options, std::string_view instead);

}  // namespace sinter::c_api
