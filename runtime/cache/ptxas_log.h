#pragma once

#include <cstdint>
#include <string_view>

#include "fusion_ir/result.h"

namespace sinter {

/// What ptxas gave a kernel, as its -v report says.
struct CompiledResources {
  int64_t registers = 0;          ///< Per thread.
  int64_t spill_store_bytes = 0;  ///< Per thread, static count over the code, callees included.
  int64_t spill_load_bytes = 0;   ///< As above.
  int64_t stack_bytes = 0;        ///< Per thread, the deepest chain of calls.
  int64_t shared_bytes = 0;       ///< Static, per block.
  int64_t barriers = 0;           ///< Named barriers, of 16.
  int64_t constant_bytes = 0;     ///< All banks; newer generations do not report bank 0.
  bool wgmma_serialized = false;  ///< ptxas had to serialise wgmma (C7510, C7511 and their like).
  bool launch_bounds_ignored =
      false;  ///< The promised blocks per SM are out of this device's range.
  friend bool operator==(const CompiledResources&, const CompiledResources&) = default;
};

/// Reads the resources of one kernel out of a compile log made with --ptxas-options=-v. The log may
/// hold other kernels, compiler warnings, and functions that were not inlined; the spills of the
/// latter count towards the kernel. Fails with kDeviceError and the log when the report is not
/// there.
Result<CompiledResources> parse_ptxas_log(std::string_view log, std::string_view entry);

}  // namespace sinter
