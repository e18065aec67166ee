#pragma once

#include <string_view>

#include "fusion_ir/result.h"
#include "scheduler/budgets/resources.h"

namespace sinter {

/// Reads the resources of one kernel out of a compile log made with --ptxas-options=-v. The log may
/// hold other kernels, compiler warnings, and functions that were not inlined; the spills of the
/// latter count towards the kernel. Fails with kDeviceError and the log when the report is not
/// there.
Result<CompiledResources> parse_ptxas_log(std::string_view log, std::string_view entry);

}  // namespace sinter
