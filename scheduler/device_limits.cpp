#include "scheduler/device_limits.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

namespace sinter {
namespace {

// Per-SM and per-block limits: CUDA C++ Programming Guide 13.0, table "Technical Specifications per
// Compute Capability". Loaded memory latency near saturation: 32 KiB in flight per SM saturate an
// H100 of 3.35 TB/s and 132 SMs (NVIDIA GTC 2025, "CUDA Techniques to Maximize Memory Bandwidth"),
// that is 1.29 us; used for every device that was not measured.
constexpr double kLoadedLatencyNs = 1290.0;

DeviceLimits ampere_data_center() {
  DeviceLimits limits;
  limits.compute_major = 8;
  limits.compute_minor = 0;
  limits.shared_bytes_per_sm = 167936;     // 164 KiB
  limits.shared_bytes_per_block = 166912;  // 163 KiB
  return limits;
}

DeviceLimits hopper() {
  DeviceLimits limits;  // The defaults of DeviceLimits are compute capability 9.0.
  limits.has_bulk_copy = limits.has_clusters = limits.has_setmaxnreg = limits.has_wgmma = true;
  return limits;
}

DeviceLimits blackwell_data_center() {
  DeviceLimits limits = hopper();
  limits.compute_major = 10;
  limits.has_wgmma = false;  // tcgen05 replaces it.
  return limits;
}

/// Ada and consumer Blackwell share their SM limits.
DeviceLimits graphics(int major, int minor) {
  DeviceLimits limits;
  limits.compute_major = major;
  limits.compute_minor = minor;
  limits.threads_per_sm = 1536;
  limits.blocks_per_sm = 24;
  limits.shared_bytes_per_sm = 102400;     // 100 KiB
  limits.shared_bytes_per_block = 101376;  // 99 KiB
  limits.has_bulk_copy = limits.has_clusters = limits.has_setmaxnreg = major >= 12;
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
  limits.sm_count = rates.sm_count;
  limits.l2_bytes = rates.l2_mib << 20U;
  limits.memory_bytes_per_us = rates.gigabytes_per_second * 1e3;
  limits.clock_mhz = rates.clock_mhz;
  derive_bytes_in_flight(limits);
  return limits;
}

std::array<DeviceLimits, 8> make_presets() {
  return {
      // NVIDIA A100 80GB SXM data sheet (2,039 GB/s); A100 whitepaper (108 SMs, 40 MB L2, boost
      // 1410 MHz).
      preset(ampere_data_center(), {"A100", 108, 40, 2039.0, 1410.0}),
      // NVIDIA H100 SXM data sheet (3.35 TB/s); H100 whitepaper (132 SMs, 50 MB L2). Clock:
      // sustained value of H200 below.
      preset(hopper(), {"H100", 132, 50, 3350.0, 1755.0}),
      // NVIDIA H200 data sheet (4.8 TB/s). 132 SMs and 60 MB L2 as the driver reports; long copies
      // reach 4.29 TB/s (0.89), reads
      // 4.57 TB/s (0.95), as benchmarks/README.md describes.
      preset(hopper(), {"H200", 132, 60, 4800.0, 1755.0}),
      // NVIDIA HGX B200 data sheet (8 TB/s per GPU); 148 SMs and 126 MB L2 as reported by the
      // driver's device query.
      preset(blackwell_data_center(), {"B200", 148, 126, 8000.0, 1850.0}),
      // NVIDIA GB200 NVL72 data sheet (8 TB/s per GPU); 152 SMs and 126 MB L2 as reported by the
      // driver's device query.
      preset(blackwell_data_center(), {"GB200", 152, 126, 8000.0, 1850.0}),
      // NVIDIA RTX PRO 6000 Blackwell data sheet (1,792 GB/s); RTX Blackwell PRO whitepaper (188
      // SMs, 128 MB L2, boost 2617 MHz).
      preset(graphics(12, 0), {"RTX PRO 6000", 188, 128, 1792.0, 2400.0}),
      // NVIDIA Ada whitepaper: RTX 4090 (128 SMs, 72 MB L2, 1,008 GB/s, boost 2520 MHz).
      preset(graphics(8, 9), {"RTX 4090", 128, 72, 1008.0, 2520.0}),
      // NVIDIA L4 data sheet (300 GB/s); Ada whitepaper for AD104 (58 SMs enabled, 48 MB L2, boost
      // 2040 MHz).
      preset(graphics(8, 9), {"L4", 58, 48, 300.0, 2040.0}),
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

double little_bytes_per_sm(double bytes_per_us, double latency_ns, int64_t sm_count) {
  return bytes_per_us * (latency_ns * 1e-3) / static_cast<double>(sm_count);
}

void derive_bytes_in_flight(DeviceLimits& limits) {
  limits.bytes_in_flight_per_sm =
      little_bytes_per_sm(limits.memory_bytes_per_us, kLoadedLatencyNs, limits.sm_count);
}

}  // namespace sinter
