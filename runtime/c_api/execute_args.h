#pragma once

#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include "fusion_ir/error.h"
#include "runtime/c_api/callbacks.h"
#include "runtime/c_api/sinter_c.h"
#include "runtime/driver/device_context.h"
#include "scheduler/plan/plan.h"

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

/// Executes a graph, of one size or of ranges of them, with the workspace that the arguments give
/// or the one that they allocate. Throws the error.
template <class Executable, class Tensors>
void execute_as_given(Executable& executable, const Tensors& inputs, const Tensors& outputs,
                      const sinter_execute_args& given, const Fusion& fusion) {
  auto* const stream = static_cast<StreamHandle>(given.stream);
  auto done =
      given.allocate != nullptr
          ? executable.execute(inputs, outputs, workspace_allocator(given), stream)
          : executable.execute(inputs, outputs, std::bit_cast<DevicePointer>(given.workspace),
                               given.workspace_bytes, stream);
  if (!done) throw_error(with_tensor(std::move(done).error(), fusion));
}

}  // namespace sinter::c_api
