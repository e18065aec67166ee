#pragma once

#include <cstdint>
#include <optional>

#include "scheduler/analysis/decision.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// What one schedule needs of the device, per thread and per block.
struct ResourceEstimate {
  int64_t registers = 0;       ///< Per thread, as ptxas is expected to allocate without a cap.
  int64_t tile_registers = 0;  ///< Of them, those that hold loaded elements.
  int64_t register_cap =
      255;                    ///< Per thread, from the launch bounds; above it the compiler spills.
  int64_t shared_bytes = 0;   ///< Per block, exact.
  int64_t threads = 0;        ///< Per block.
  int64_t blocks_per_sm = 0;  ///< Resident at once.
  int64_t blocks = 0;         ///< In the grid.
  int64_t idle_sms = 0;       ///< For which clusters of this size leave no block.
  double waves = 0.0;         ///< blocks over what the device holds at once.
  double bytes_in_flight_per_sm = 0.0;  ///< Load bytes outstanding at once.
  int64_t spilled_registers = 0;        ///< Per thread, predicted.
  friend bool operator==(const ResourceEstimate&, const ResourceEstimate&) = default;
};

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

/// Share of its uncapped registers, but for those that hold loaded elements, that a kernel needs at
/// least: below it ptxas spills, above it it reorders and recomputes instead. Measured over the
/// canned fusions (tests/integration/nvrtc_sweep_test.cpp).
inline constexpr double kSqueeze = 0.8;

/// The fewest registers ptxas can do with, of so many without a cap, of which `tile` hold loaded
/// elements.
int64_t squeezed(int64_t registers, int64_t tile);

/// Largest register count per thread with which `blocks` blocks of `threads` threads share one SM,
/// at most 255.
int64_t register_cap(const DeviceLimits& limits, int64_t threads, int64_t blocks);

/// Blocks of these resources that are resident on one SM at once: the least of the limits on
/// threads, blocks, registers and shared memory. Zero if not even one fits.
int64_t resident_blocks(const DeviceLimits& limits, int64_t threads, int64_t registers,
                        int64_t shared_bytes);

/// Completes blocks_per_sm, waves, register_cap and spills from the other fields.
void complete(ResourceEstimate& estimate, const DeviceLimits& limits, int64_t min_blocks_per_sm,
              int64_t cluster_size = 1);

/// Registers that ptxas takes under a cap, of so many without one, the last `elastic` of which it
/// takes only where the cap leaves them.
int64_t registers_under_cap(int64_t registers, int64_t elastic, int64_t cap);

/// True if the compiler must do with fewer registers than are estimated.
inline bool is_register_limited(const ResourceEstimate& estimate) {
  return estimate.registers > estimate.register_cap;
}

/// The one test of a budget. Nothing: it fits. Otherwise which limit breaks and by how much.
/// Spilling is a cost, not a misfit.
std::optional<Rejection> fits(const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
