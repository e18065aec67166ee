#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/analysis/decision.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// Resources that a schedule needs, per thread and per block.
struct ResourceEstimate {
  int64_t registers = 0;       ///< Per thread, as ptxas is expected to allocate without a cap.
  int64_t tile_registers = 0;  ///< Part of them that holds loaded elements.
  int64_t register_cap =
      255;                    ///< Per thread, from the launch bounds; above it the compiler spills.
  int64_t shared_bytes = 0;   ///< Per block, exact.
  int64_t threads = 0;        ///< Per block.
  int64_t blocks_per_sm = 0;  ///< Resident at once.
  int64_t blocks = 0;         ///< In the grid.
  int64_t idle_sms = 0;       ///< SMs on which no cluster of this size fits.
  double waves = 0.0;         ///< Blocks divided by the device's resident blocks.
  double bytes_in_flight_per_sm = 0.0;  ///< Bytes of outstanding loads.
  int64_t spilled_registers = 0;        ///< Per thread, predicted.
  friend bool operator==(const ResourceEstimate&, const ResourceEstimate&) = default;
};

/// Resources of a compiled kernel, from the -v report of ptxas.
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

/// Fraction of a kernel's uncapped registers, without those that hold loaded elements, that it
/// needs at least. Below it ptxas spills; above it ptxas reorders and recomputes instead. Measured
/// over the canned fusions (tests/integration/nvrtc_sweep_test.cpp).
inline constexpr double kFewestRegistersShare = 0.8;

/// The fewest registers that ptxas can do with, for a kernel that takes `registers` without a cap,
/// `tile` of which hold loaded elements.
int64_t fewest_registers(int64_t registers, int64_t tile);

/// Largest register count per thread with which `blocks` blocks of `threads` threads share an SM,
/// at most 255.
int64_t register_cap(const DeviceLimits& limits, int64_t threads, int64_t blocks);

/// Registers per thread are passed on in steps of so many, up to 240 (PTX ISA, setmaxnreg).
inline constexpr int64_t kPassedRegisters = 8;
/// Most registers of a consumer thread after producer threads have kept `kept` of theirs and passed
/// the rest on. All threads start with register_cap() registers.
int64_t raised_register_cap(const DeviceLimits& limits, int64_t consumer_threads,
                            int64_t producer_threads, int64_t kept, int64_t blocks);

/// Resident blocks per SM with these resources: the least of the limits on threads, blocks,
/// registers and shared memory. Zero if not even one fits.
int64_t resident_blocks(const DeviceLimits& limits, int64_t threads, int64_t registers,
                        int64_t shared_bytes);

/// Completes blocks_per_sm, waves, register_cap and spills from the other fields.
void complete(ResourceEstimate& estimate, const DeviceLimits& limits, int64_t min_blocks_per_sm,
              int64_t cluster_size = 1);

/// Registers that ptxas takes under a cap, for a kernel that takes `registers` without one. It
/// takes the last `elastic` of them only if the cap leaves room.
int64_t registers_under_cap(int64_t registers, int64_t elastic, int64_t cap);

/// True if the kernel is register-limited: the cap is below the estimate.
inline bool is_register_limited(const ResourceEstimate& estimate) {
  return estimate.registers > estimate.register_cap;
}

/// The one budget check. Empty if the schedule fits; otherwise the limit that is exceeded, and by
/// how much. Spilling is a cost, not a violation.
std::optional<Rejection> fits(const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
