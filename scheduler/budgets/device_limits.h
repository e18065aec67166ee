#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "scheduler/budgets/cost_constants.h"

namespace sinter {

/// The limits and rates of a device: the budgets that schedules must fit and the rates the cost
/// model divides by. A plain value: presets come from data sheets, sinter::runtime fills one from a
/// live device, and tests make up their own.
struct DeviceLimits {
  std::string name;
  int compute_major = 9;
  int compute_minor = 0;

  int64_t sm_count = 132;
  int64_t registers_per_sm = 65536;
  int64_t registers_per_thread = 255;
  int64_t register_allocation_unit = 256;  ///< A warp's registers are a multiple of this.
  int64_t threads_per_sm = 2048;
  int64_t threads_per_block = 1024;
  int64_t blocks_per_sm = 32;
  int64_t shared_bytes_per_sm = 233472;
  int64_t shared_bytes_per_block = 232448;  ///< With opt-in.
  int64_t shared_bytes_reserved = 1024;     ///< Reserved by the system in every resident block.
  int64_t l2_bytes = 0;

  double memory_bytes_per_us = 0.0;  ///< Data-sheet bandwidth.
  /// Fraction of it that a kernel reaches with an even mix of reads and writes while it streams:
  /// the slope of a line through times of copies, norms and softmax of 33 to 537 MB on an H200
  /// (docs/experiments/constants_cost.md).
  double copy_efficiency = 0.895;
  /// Fraction that a read-only kernel reaches: 4.57 TB/s on an H200 while it streams, in 4 GB.
  double read_efficiency = 0.952;
  double clock_mhz = 1755.0;        ///< Sustained SM clock under memory-bound load.
  double issue_per_clock = 4.0;     ///< Warp instructions per clock and SM.
  double special_per_clock = 16.0;  ///< Special-function results per clock and SM.
  double shared_bytes_per_clock = 128.0;
  /// Multiply-adds of single lanes per clock and SM, in f32 and in f64.
  double fma_per_clock = 128.0;
  double fma64_per_clock = 64.0;
  /// Multiply-adds of 16-bit elements with 32-bit sums per clock and SM by mma.sync; twice as many
  /// of 8-bit elements.
  double matrix_products_per_clock = 1024.0;
  /// The same by wgmma, where has_wgmma.
  double group_products_per_clock = 0.0;
  /// Bytes per clock between one SM and L2, reads plus writes; a lower bound. Policy losses on an
  /// H200 read 19.8 for each of 132 SMs at 1755 MHz
  /// (benchmarks/results/h200_2026-11-24_suite_f32.json, docs/experiments/constants_cost.md); used
  /// for every device.
  double l2_bytes_per_clock = 20.0;
  /// DRAM latency from an SM under moderate load: a round figure for families without measurements.
  /// Built-in families use those of `cost`.
  double memory_latency_ns = 800.0;
  double bytes_in_flight_per_sm = 0.0;  ///< Outstanding load bytes that saturate memory.

  bool has_bulk_copy = false;         ///< cp.async.bulk and mbarrier transactions: 9.0 and later.
  bool has_dependent_launch = false;  ///< griddepcontrol: 9.0 and later (PTX ISA).
  int64_t most_cluster_blocks = 1;    ///< Largest thread-block cluster; above 1 from 9.0 on.
  bool has_setmaxnreg = false;
  bool has_wgmma = false;

  /// What the cost model multiplies by.
  CostConstants cost = cost_constants_of(kReferenceDevice);

  friend bool operator==(const DeviceLimits&, const DeviceLimits&) = default;
};

/// Largest cluster, in blocks, that every device with clusters runs (CUDA programming guide,
/// "Thread Block Clusters"). A kernel must opt in to larger ones.
inline constexpr int64_t kPortableClusterBlocks = 8;
/// Largest cluster, in blocks, that some devices run: 9.0 (Hopper tuning guide) and 10.0 (Blackwell
/// tuning guide).
inline constexpr int64_t kMostClusterBlocks = 16;

/// Most arguments of a kernel, pointers and scalars together; a table counts as one. Bounds arrays
/// on the stack of a launch; the driver's own limit is kMostArgumentBytes.
inline constexpr size_t kMaxKernelArguments = 128;

/// A100, H100, H200, B200, GB200, RTX PRO 6000, RTX 4090, L4, in this order.
std::span<const DeviceLimits> device_presets();
/// A preset by name, ignoring case, spaces, '-' and '_' ("rtx-4090", "RTX4090").
std::optional<DeviceLimits> find_device(std::string_view name);

/// Name of the architecture kernels are compiled for: "sm_90a" where an architecture-specific
/// variant exists, else "sm_80".
std::string architecture_of(const DeviceLimits& limits);

/// Bytes of the store that L1 and shared memory of an SM share: 28 KiB more than the largest shared
/// memory, on 8.0 (192 KiB), 8.9 and 12.0 (128 KiB), 9.0 and 10.0 (256 KiB). CUDA C++ Programming
/// Guide, "Compute Capabilities".
int64_t unified_l1_bytes(const DeviceLimits& limits);

/// Resident blocks of the device if `blocks_per_sm` fit an SM and the `cluster` blocks of a cluster
/// must lie in one graphics processing cluster (GPC). An SM pair is never split. Larger clusters
/// leave SMs idle in GPCs whose number of SMs is no multiple.
int64_t cluster_capacity(const DeviceLimits& limits, int64_t cluster, int64_t blocks_per_sm);

/// Bytes that must be in flight per SM to reach a bandwidth (Little's law): latency times
/// bandwidth, divided by the number of SMs.
double little_bytes_per_sm(double bytes_per_us, double latency_ns, int64_t sm_count);

/// Derives bytes_in_flight_per_sm from the bandwidth, for devices without a measured value.
void derive_bytes_in_flight(DeviceLimits& limits);

}  // namespace sinter
