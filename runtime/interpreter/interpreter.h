#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel/kernel_ir.h"
#include "fusion_ir/result.h"
#include "runtime/interpreter/report.h"

namespace sinter {

struct InterpreterOptions {
  /// Draws the order in which the warps of a block advance, and where blocks count in memory also
  /// the order in which clusters run. A kernel without findings gives the same memory and the same
  /// counts for every seed; of blocks that count, only the busiest warp may be another.
  uint64_t seed = 0;
  /// Instructions a warp may execute in one block before the run is given up as endless.
  int64_t max_steps = int64_t{1} << 26;
  /// Follow every byte of shared memory and every element of written global memory, to find races
  /// and reads of unwritten shared memory. Off: faster, and only the other findings are made.
  bool check_races = true;
  /// Host threads that share the blocks; one where blocks count in memory. Memory and counts do not
  /// depend on it.
  int threads = 1;
  /// Different findings kept.
  int64_t max_findings = 64;
};

/// The memory of one global buffer, of one tensor of a table, or of integers among the arguments:
/// all bytes from the lowest to the highest that may be touched.
struct LaunchMemory {
  std::span<std::byte> bytes{};
  int64_t origin = 0;  ///< Byte offset of element 0 in `bytes`.
};

/// Runs a kernel on the CPU: every block, 32 lanes at a time, warps in a seeded order. The kernel
/// must have passed all passes: shared buffers placed, AllReduce lowered.
///
/// `memory` has one entry for each buffer that is not shared, in the order of kernel.buffers, and
/// for a table one for each of its `values`; no element of one is an element of another. `params`
/// has one value for each parameter. Element 0 of a buffer is taken to lie at an address that is a
/// multiple of the buffer's promised alignment and of no larger power of two, so that a vector
/// access the promise does not cover is found.
///
/// Defects the kernel shows while it runs are data in the report. Errors: kInvalidArgument when
/// memory or params do not fit the kernel; kInternalError when the kernel is malformed;
/// kResourceExhausted when it unrolls beyond reason or the launch is too large to follow.
[[nodiscard]] Result<InterpreterReport> interpret(const kir::Kernel& kernel,
                                                  std::span<const LaunchMemory> memory,
                                                  std::span<const int64_t> params,
                                                  const InterpreterOptions& options = {});

}  // namespace sinter
