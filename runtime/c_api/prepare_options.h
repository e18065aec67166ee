#pragma once

#include "runtime/c_api/sinter_c.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/execute/executable.h"

namespace sinter::c_api {

// What a caller's options say about compiling and about loading. Throw InvalidArgument.
CompilePlanOptions compile_options_from(const sinter_prepare_options& options);
PrepareOptions prepare_options_from(const sinter_prepare_options& options);

}  // namespace sinter::c_api
