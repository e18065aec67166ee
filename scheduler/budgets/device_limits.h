#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sinter {

/// What a device offers: the budgets schedules must fit and the rates the cost model divides by. A
/// plain value: presets come from data sheets, sinter::runtime fills one from a live device, tests
/// make up their own.
struct DeviceLimits {
  std::string name;
  int compute_major = 9;
  int compute_minor = 0;

  int64_t sm_count = 132;
  int64_t registers_per_sm = 65536;
  int64_t registers_per_thread = 255;
  int64_t register_allocation_unit = 256;  ///< Registers are handed to warps in units of this many.
  int64_t threads_per_sm = 2048;
  int64_t threads_per_block = 1024;
  int64_t blocks_per_sm = 32;
  int64_t shared_bytes_per_sm = 233472;
  int64_t shared_bytes_per_block = 232448;  ///< With opt-in.
  int64_t shared_bytes_reserved = 1024;     ///< Taken by the system from every resident block.
  int64_t l2_bytes = 0;

  double memory_bytes_per_us = 0.0;  ///< Data-sheet bandwidth.
  /// Share of it that a kernel reaches with an even mix of reads and writes, once it streams: on an
  /// H200 copies, norms and softmax that move 33, 67, 134, 268 and 537 MB in 13.6, 20.6, 35.8, 67.2
  /// and 128.6 us lie on a line of this slope.
  double copy_efficiency = 0.895;
  /// Share that a read-only kernel reaches: 4.57 TB/s on an H200 once it streams, in 4 GB.
  double read_efficiency = 0.952;
  double clock_mhz = 1755.0;        ///< Sustained SM clock under memory-bound load.
  double issue_per_clock = 4.0;     ///< Warp instructions per clock and SM.
  double special_per_clock = 16.0;  ///< Special-function results per clock and SM.
  double shared_bytes_per_clock = 128.0;
  /// Sustained between one SM and L2, reads plus writes. At least: on an H200 policy losses of 8 x
  /// 4096 x 128256 in f32 read 16.8 GB in 3673 us, 19.8 bytes for each of 132 SMs at 1755 MHz
  /// (benchmarks/results/h200_2026-11-24_suite_f32.json); taken for every device.
  double l2_bytes_per_clock = 20.0;
  /// From an SM under moderate load: a round figure for families that know no better. Those built
  /// in use the fitted CostConstants.
  double memory_latency_ns = 800.0;
  double bytes_in_flight_per_sm = 0.0;  ///< Outstanding load bytes an SM needs to saturate memory.

  bool has_bulk_copy = false;         ///< cp.async.bulk and mbarrier transactions: 9.0 and later.
  bool has_dependent_launch = false;  ///< griddepcontrol: 9.0 and later (PTX ISA).
  int64_t most_cluster_blocks = 1;    ///< Of a thread-block cluster: 9.0 and later have them.
  bool has_setmaxnreg = false;
  bool has_wgmma = false;

  friend bool operator==(const DeviceLimits&, const DeviceLimits&) = default;
};

/// Blocks of a cluster that every device with clusters runs (CUDA programming guide, "Thread Block
/// Clusters"). A kernel of larger ones has to allow them.
inline constexpr int64_t kPortableClusterBlocks = 8;
/// Blocks of a cluster that some devices run: 9.0 (Hopper tuning guide) and 10.0 (Blackwell tuning
/// guide).
inline constexpr int64_t kMostClusterBlocks = 16;

/// Arguments a kernel has at most, pointers and scalars together, a table counting as one. Bounds
/// arrays on the stack of a launch; the driver's own limit is in kMostArgumentBytes.
inline constexpr size_t kMaxKernelArguments = 128;

/// A100, H100, H200, B200, GB200, RTX PRO 6000, RTX 4090, L4, in this order.
std::span<const DeviceLimits> device_presets();
/// A preset by name, ignoring case, spaces, '-' and '_' ("rtx-4090", "RTX4090").
std::optional<DeviceLimits> find_device(std::string_view name);

/// Name of the architecture kernels are compiled for: "sm_90a" where an architecture-specific
/// variant exists, else "sm_80".
std::string architecture_of(const DeviceLimits& limits);

/// L1 and shared memory of an SM, which share one store: 28 KiB more than what can be shared, on
/// 8.0 (192 KiB), 8.9 and 12.0 (128 KiB), 9.0 and 10.0 (256 KiB) alike. CUDA C++ Programming Guide,
/// "Compute Capabilities".
int64_t unified_l1_bytes(const DeviceLimits& limits);

/// Blocks that are resident at once where `blocks_per_sm` fit an SM and `cluster` of them must lie
/// in one graphics processing cluster (GPC). An SM pair is never split; larger clusters leave SMs
/// over in GPCs whose SMs are no multiple.
int64_t cluster_capacity(const DeviceLimits& limits, int64_t cluster, int64_t blocks_per_sm);

/// Bytes that must be in flight per SM for a bandwidth (Little's law): latency times bandwidth over
/// SMs.
double little_bytes_per_sm(double bytes_per_us, double latency_ns, int64_t sm_count);

/// Fills in bytes_in_flight_per_sm from the bandwidth, for devices no figure was measured on.
void derive_bytes_in_flight(DeviceLimits& limits);

}  // namespace sinter
