#pragma once

#include <optional>
#include <vector>

#include "scheduler/plan/plan.h"

namespace sinter {

/// Gives the value of an output that takes over the memory of an input a tensor of its own, and
/// makes a copy of it the output. Appends an op and a value to the plan's graph; returns the value.
ValueId copy_output(Plan& plan, ValueId output);

/// What was copied, in order, behind the first `ops` of a plan's graph; nothing if there is an op
/// that copies no output.
std::optional<std::vector<ValueId>> copied_outputs(const Plan& plan, size_t ops);

}  // namespace sinter
