#pragma once

#include "runtime/c_api/sinter_c.h"
#include "runtime/check/host_execution.h"
#include "runtime/execute/external_call.h"
#include "runtime/execute/workspace_allocator.h"

namespace sinter::c_api {

// A caller's C functions as the library's. A status that a function gives comes back as an error
// of that kind.

/// Tensors of a request lie on `device`. Empty for a null function.
ExternalCallback external_callback(sinter_external_function function, void* user_data,
                                   DeviceOrdinal device);
/// For execute_on_host(): an error is thrown. Empty for a null function.
HostCall host_call(sinter_external_function function, void* user_data);
WorkspaceAllocator workspace_allocator(const sinter_execute_args& args);

}  // namespace sinter::c_api
