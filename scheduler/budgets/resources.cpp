#include "scheduler/budgets/resources.h"

#include <algorithm>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"

namespace sinter {
namespace {

// ptxas allocates registers per thread in steps of 8 (CUDA occupancy calculator, all compute
// capabilities since 3.0).
constexpr int64_t kRegisterStep = 8;
// The SM consists of four partitions with a quarter of the registers each; a warp's registers lie
// in one of them (CUDA occupancy calculator, all compute capabilities since 7.0).
constexpr int64_t kPartitions = 4;
// Shared memory is allocated to blocks in units of 128 bytes (CUDA occupancy calculator, since
// 8.0).
constexpr int64_t kSharedUnit = 128;

// Most blocks of a grid along x (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability", all since 3.0).
constexpr int64_t kMostGridBlocks = (int64_t{1} << 31) - 1;

int64_t warps_of(int64_t threads) { return (threads + kWarp - 1) / kWarp; }

/// Warps of `registers` registers per thread that fit the register file of an SM.
int64_t warps_by_registers(const DeviceLimits& limits, int64_t registers) {
  const int64_t unit = limits.register_allocation_unit;
  const int64_t per_warp = (std::max<int64_t>(registers, 1) * kWarp + unit - 1) / unit * unit;
  return limits.registers_per_sm / kPartitions / per_warp * kPartitions;
}

}  // namespace

int64_t register_cap(const DeviceLimits& limits, int64_t threads, int64_t blocks) {
  const int64_t warps = warps_of(threads) * std::max<int64_t>(blocks, 1);
  const int64_t warps_per_partition = (warps + kPartitions - 1) / kPartitions;
  const int64_t share = limits.registers_per_sm / kPartitions / (warps_per_partition * kWarp);
  return std::min(limits.registers_per_thread, share / kRegisterStep * kRegisterStep);
}

int64_t raised_register_cap(const DeviceLimits& limits, int64_t consumer_threads,
                            int64_t producer_threads, int64_t kept, int64_t blocks) {
  constexpr int64_t kMost = 240;
  const int64_t threads = consumer_threads + producer_threads;
  const int64_t launch =
      register_cap(limits, threads, blocks) / kPassedRegisters * kPassedRegisters;
  const int64_t left = launch * threads - kept * producer_threads;
  return std::min(left / consumer_threads / kPassedRegisters * kPassedRegisters, kMost);
}

int64_t resident_blocks(const DeviceLimits& limits, int64_t threads, int64_t registers,
                        int64_t shared_bytes) {
  if (threads > limits.threads_per_block || registers > limits.registers_per_thread ||
      shared_bytes > limits.shared_bytes_per_block) {
    return 0;
  }
  const int64_t by_threads = limits.threads_per_sm / (warps_of(threads) * kWarp);
  const int64_t by_registers = warps_by_registers(limits, registers) / warps_of(threads);
  const int64_t taken =
      (shared_bytes + limits.shared_bytes_reserved + kSharedUnit - 1) / kSharedUnit * kSharedUnit;
  const int64_t by_shared = limits.shared_bytes_per_sm / std::max<int64_t>(taken, 1);
  return std::min({by_threads, by_registers, by_shared, limits.blocks_per_sm});
}

int64_t registers_under_cap(int64_t registers, int64_t elastic, int64_t cap) {
  return std::max(registers - elastic, std::min(registers, cap));
}

int64_t fewest_registers(int64_t registers, int64_t tile) {
  const int64_t rigid = std::min(tile, registers);
  return rigid +
         static_cast<int64_t>(static_cast<double>(registers - rigid) * kFewestRegistersShare);
}

void complete(ResourceEstimate& estimate, const DeviceLimits& limits, int64_t min_blocks_per_sm,
              int64_t cluster_size) {
  estimate.register_cap = register_cap(limits, estimate.threads, min_blocks_per_sm);
  const int64_t needed = fewest_registers(estimate.registers, estimate.tile_registers);
  estimate.spilled_registers = std::max<int64_t>(needed - estimate.register_cap, 0);
  const int64_t allocated = std::min(estimate.registers, estimate.register_cap);
  estimate.blocks_per_sm =
      resident_blocks(limits, estimate.threads, allocated, estimate.shared_bytes);
  const int64_t at_once = cluster_size == 1
                              ? estimate.blocks_per_sm * limits.sm_count
                              : cluster_capacity(limits, cluster_size, estimate.blocks_per_sm);
  estimate.idle_sms =
      at_once == 0 ? 0 : limits.sm_count - divided_up(at_once, estimate.blocks_per_sm);
  estimate.waves =
      at_once == 0 ? 0.0 : static_cast<double>(estimate.blocks) / static_cast<double>(at_once);
}

std::optional<Rejection> fits(const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const auto broken = [](const char* rule, int64_t value, int64_t limit, const char* unit,
                         const char* remedy) {
    return Rejection{.rule = rule,
                     .value = static_cast<double>(value),
                     .limit = static_cast<double>(limit),
                     .unit = unit,
                     .remedy = remedy};
  };
  if (estimate.threads > limits.threads_per_block) {
    return broken("the block has more threads than the device runs", estimate.threads,
                  limits.threads_per_block, "threads",
                  "use fewer threads per row or rows per block");
  }
  if (estimate.shared_bytes > limits.shared_bytes_per_block) {
    return broken("the block needs more shared memory than the device offers",
                  estimate.shared_bytes, limits.shared_bytes_per_block, "bytes",
                  "keep fewer values resident, or let the row be read again");
  }
  if (estimate.blocks_per_sm < 1) {
    return broken("not one block fits on a multiprocessor", estimate.threads, limits.threads_per_sm,
                  "threads", "use fewer threads or registers");
  }
  if (estimate.blocks > kMostGridBlocks) {
    return broken("the grid has more blocks than a launch takes", estimate.blocks, kMostGridBlocks,
                  "blocks", "let blocks take more rows each, or use smaller extents");
  }
  return std::nullopt;
}

}  // namespace sinter
