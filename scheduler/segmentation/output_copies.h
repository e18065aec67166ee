#pragma once

#include <optional>
#include <vector>

#include "scheduler/plan/plan.h"

namespace sinter {

/// Gives an output that lies in the memory of an input a tensor of its own, and makes a copy of it
/// the output. Appends an op and a value to the plan's graph; returns the value.
ValueId copy_output(Plan& plan, ValueId output);

/// The outputs that were copied, in order, by the ops after the first `ops` of a plan's graph. No
/// value if one of these ops is not such a copy.
std::optional<std::vector<ValueId>> copied_outputs(const Plan& plan, size_t ops);

}  // namespace sinter
