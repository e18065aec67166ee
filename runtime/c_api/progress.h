#pragma once

#include "runtime/sinter_c.h"
#include "scheduler/interruption.h"

namespace sinter::c_api {

/// What a caller's options say about progress and time, from now on. Refuses a budget that is
/// negative or no number.
Interruption interruption_from(sinter_progress_function progress, void* progress_data,
                               double budget_seconds);

}  // namespace sinter::c_api
