#include "scheduler/budgets/device_limits.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

namespace sinter {
namespace {

// Sources that all presets share.
//
// Per-SM and per-block limits, and what a block reserves: CUDA C++ Programming Guide 13.0, table
// "Technical Specifications per Compute Capability". Allocation unit: the occupancy calculator of
// the CUDA Toolkit (cuda_occupancy.h).
//
// Rates per SM and clock: four schedulers issue a warp instruction each. 16 special-function
// results are the value of the Programming Guide's table "Throughput of Native Arithmetic
// Instructions" for 8.0 to 12.0. So are multiply-adds in f32, 64 for 8.0 and 128 for all others,
// and in f64, 32 for 8.0, 64 for 9.0 and 10.0, 2 for 8.9 and 12.0. 128 bytes of shared memory are
// its 32 banks of 4 bytes.
//
// copy_efficiency, read_efficiency and l2_bytes_per_clock were measured on an H200
// (device_limits.h) and are used for every device. An H100 copies at 0.902 of its data sheet's
// rate, and 292 problems are predicted as well for it as for the H200 (docs/performance.md).
//
// Clocks of devices other than the H200 are published boost clocks unless a comment says otherwise.
// None was measured.
//
// Loaded memory latency near saturation, in ns: 32 KiB in flight per SM saturate an H100 of 3.35
// TB/s and 132 SMs (NVIDIA GTC 2025, "CUDA Techniques to Maximize Memory Bandwidth"), that is 1.29
// us. Used for every device that was not measured.
constexpr double kLoadedLatencyNs = 1290.0;

// Multiply-adds of matrix instructions: dense rates of 16-bit elements with f32 sums, from the
// whitepapers and data sheets named below, divided by SMs and clock. 8.0: 312 TFLOPS. 8.9: 165
// TFLOPS of the RTX 4090, which halves the rate, and 121 of the L4. 12.0: 504 TFLOPS of the RTX PRO
// 6000. That of 9.0 is for wgmma. With mma.sync an H100 reaches 910 at the clock given below, 44 %
// of it (docs/cost_model.md). 10.0: that of 8.0, not measured.

DeviceLimits ampere_data_center() {
  DeviceLimits limits;
  limits.compute_major = 8;
  limits.compute_minor = 0;
  limits.shared_bytes_per_sm = 167936;     // 164 KiB
  limits.shared_bytes_per_block = 166912;  // 163 KiB
  limits.fma_per_clock = 64.0;
  limits.fma64_per_clock = 32.0;
  return limits;
}

DeviceLimits hopper() {
  DeviceLimits limits;  // The defaults of DeviceLimits are compute capability 9.0.
  limits.has_bulk_copy = limits.has_dependent_launch = true;
  limits.most_cluster_blocks = kMostClusterBlocks;
  limits.has_setmaxnreg = limits.has_wgmma = true;
  limits.matrix_products_per_clock = 910.0;
  limits.group_products_per_clock = 1820.0;
  return limits;
}

DeviceLimits blackwell_data_center() {
  DeviceLimits limits = hopper();
  limits.compute_major = 10;
  limits.has_wgmma = false;  // tcgen05 replaces it.
  limits.matrix_products_per_clock = 1024.0;
  limits.group_products_per_clock = 0.0;
  return limits;
}

/// Ada and consumer Blackwell share their SM limits.
DeviceLimits graphics(int major, int minor, double matrix_products_per_clock) {
  DeviceLimits limits;
  limits.matrix_products_per_clock = matrix_products_per_clock;
  limits.compute_major = major;
  limits.compute_minor = minor;
  limits.threads_per_sm = 1536;
  limits.fma64_per_clock = 2.0;
  limits.blocks_per_sm = 24;
  limits.shared_bytes_per_sm = 102400;     // 100 KiB
  limits.shared_bytes_per_block = 101376;  // 99 KiB
  limits.has_bulk_copy = limits.has_dependent_launch = major >= 12;
  limits.has_setmaxnreg = major >= 12;
  if (major >= 12) limits.most_cluster_blocks = kPortableClusterBlocks;
  return limits;
}

struct Rates {
  std::string_view name;
  int64_t sm_count;
  int64_t l2_mib;
  double gigabytes_per_second;
  double clock_mhz;
};

DeviceLimits preset(DeviceLimits limits, const Rates& rates) {
  limits.name = rates.name;
  limits.cost = cost_constants_of(rates.name);
  limits.sm_count = rates.sm_count;
  limits.l2_bytes = rates.l2_mib << 20U;
  limits.memory_bytes_per_us = rates.gigabytes_per_second * 1e3;
  limits.clock_mhz = rates.clock_mhz;
  derive_bytes_in_flight(limits);
  return limits;
}

std::array<DeviceLimits, 8> make_presets() {
  return {
      // 2,039 GB/s: A100 80GB SXM data sheet. 108 SMs, 40 MB L2, boost 1410 MHz: "NVIDIA A100
      // Tensor Core GPU Architecture" whitepaper.
      preset(ampere_data_center(), {"A100", 108, 40, 2039.0, 1410.0}),
      // 3.35 TB/s: H100 SXM data sheet. 132 SMs, 50 MB L2: "NVIDIA H100 Tensor Core GPU
      // Architecture" whitepaper. Clock: the H200's, which is the same chip.
      preset(hopper(), {"H100", 132, 50, 3350.0, 1755.0}),
      // 4.8 TB/s: H200 data sheet. 132 SMs, 60 MB L2: the driver's device query. The clock is an
      // assumption below the card's maximum of 1980 MHz, which it does not hold under load; what
      // the cost model counts in clocks was fitted together with it.
      preset(hopper(), {"H200", 132, 60, 4800.0, 1755.0}),
      // 8 TB/s: HGX B200 data sheet. 148 SMs: a device query quoted in pytorch/ao pull request 4002
      // (which derives 7.67 TB/s from bus width and clock). 126 MB L2: NVIDIA Blackwell Tuning
      // Guide. Clock: assumed, 6 % below the maximum of 1965 MHz that ByteDance-Seed/VeOmni pull
      // request 986 gives; not measured.
      preset(blackwell_data_center(), {"B200", 148, 126, 8000.0, 1850.0}),
      // 8 TB/s per GPU: GB200 NVL72 data sheet. 152 SMs: the same pull request, not
      // confirmed by a device query. L2 and clock: those of the B200, the same chip.
      preset(blackwell_data_center(), {"GB200", 152, 126, 8000.0, 1850.0}),
      // 1,792 GB/s: RTX PRO 6000 Blackwell Workstation Edition data sheet. 188 SMs, 128 MB L2 (of
      // the full GB202): RTX Blackwell PRO architecture whitepaper, which gives a boost clock of
      // 2617 MHz. The clock is 8 % below that, because the Server and Max-Q editions share the name
      // and run slower; not measured.
      preset(graphics(12, 0, 512.0), {"RTX PRO 6000", 188, 128, 1792.0, 2400.0}),
      // 128 SMs, 72 MB L2, 1,008 GB/s, boost 2520 MHz: "NVIDIA Ada GPU Architecture" whitepaper,
      // and the same in the device listing of NVIDIA/nvbench pull request 207.
      preset(graphics(8, 9, 256.0), {"RTX 4090", 128, 72, 1008.0, 2520.0}),
      // 300 GB/s: L4 data sheet, whose 30.3 TFLOPS of f32 are 58 SMs of 128 lanes at the boost
      // clock of 2040 MHz (L4 product brief). 48 MB L2: Ada whitepaper, for the AD104.
      preset(graphics(8, 9, 512.0), {"L4", 58, 48, 300.0, 2040.0}),
  };
}

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

}  // namespace

std::span<const DeviceLimits> device_presets() {
  static const std::array<DeviceLimits, 8> kPresets = make_presets();
  return kPresets;
}

std::optional<DeviceLimits> find_device(std::string_view name) {
  for (const DeviceLimits& limits : device_presets()) {
    if (folded(limits.name) == folded(name)) return limits;
  }
  return std::nullopt;
}

std::string architecture_of(const DeviceLimits& limits) {
  const bool has_variant = limits.compute_major >= 9;
  return fmt::format("sm_{}{}{}", limits.compute_major, limits.compute_minor,
                     has_variant ? "a" : "");
}

int64_t unified_l1_bytes(const DeviceLimits& limits) {
  constexpr int64_t kNeverShared = 28 * 1024;
  return limits.shared_bytes_per_sm + kNeverShared;
}

int64_t cluster_capacity(const DeviceLimits& limits, int64_t cluster, int64_t blocks_per_sm) {
  // Share of SMs that clusters of 4 and of 8 can use: 120 of an H200's 132
  // (cuOccupancyMaxActiveClusters with one block per SM). Which GPCs lack SMs differs from card to
  // card.
  constexpr double kWholeShare = 120.0 / 132.0;
  constexpr double kWidestShare = 112.0 / 132.0;  // Clusters of 16: one in each of seven GPCs.
  constexpr int64_t kSmPair = 2;
  double sms = static_cast<double>(limits.sm_count);
  if (cluster > kSmPair) sms *= cluster > kPortableClusterBlocks ? kWidestShare : kWholeShare;
  return static_cast<int64_t>(sms) / cluster * cluster * blocks_per_sm;
}

double little_bytes_per_sm(double bytes_per_us, double latency_ns, int64_t sm_count) {
  return bytes_per_us * (latency_ns * 1e-3) / static_cast<double>(sm_count);
}

void derive_bytes_in_flight(DeviceLimits& limits) {
  limits.bytes_in_flight_per_sm =
      little_bytes_per_sm(limits.memory_bytes_per_us, kLoadedLatencyNs, limits.sm_count);
}

}  // namespace sinter
