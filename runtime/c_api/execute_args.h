#pragma once

#include <optional>
#include <string_view>

#include "runtime/device_context.h"
#include "runtime/sinter_c.h"
#include "scheduler/plan.h"

namespace sinter::c_api {

// What the calls that execute share.

/// Checks what a caller says of the workspace. Throws InvalidArgument.
sinter_execute_args execute_args_from(const sinter_execute_args* args);

/// Refuses a null pointer to tensors, and another number of them than the graph has. `what` they
/// are: "inputs".
void require_tensors(const sinter_tensor* given, size_t count, size_t needed,
                     std::string_view what);

/// Makes a context current for a scope. Where it is so already, as in a framework's threads, one
/// question to the driver is all.
std::optional<CurrentContext> enter(DeviceDriver& driver, const DeviceContext& context);

/// The library names a tensor by its value; callers count inputs and outputs.
Error with_tensor(Error error, const Fusion& fusion);

}  // namespace sinter::c_api
