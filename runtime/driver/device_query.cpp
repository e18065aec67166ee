#include "runtime/driver/device_query.h"

#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <tuple>

namespace sinter {
namespace {

// Reads attributes of one device; remembers the first failure and gives zeros after it.
class AttributeReader {
 public:
  AttributeReader(DeviceDriver& driver, DeviceOrdinal device) : driver_(driver), device_(device) {}

  int64_t get(DeviceProperty property) {
    int value = 0;
    const DriverStatus status = driver_.device_attribute(&value, property, device_);
    if (status != DriverStatus::kSuccess && first_failure_ == DriverStatus::kSuccess) {
      first_failure_ = status;
    }
    return status == DriverStatus::kSuccess ? value : 0;
  }

  // For what newer drivers may stop reporting: no failure, just nothing.
  std::optional<int64_t> get_if_known(DeviceProperty property) {
    int value = 0;
    const DriverStatus status = driver_.device_attribute(&value, property, device_);
    if (status != DriverStatus::kSuccess || value <= 0) return std::nullopt;
    return value;
  }

  [[nodiscard]] DriverStatus first_failure() const { return first_failure_; }

 private:
  DeviceDriver& driver_;
  DeviceOrdinal device_;
  DriverStatus first_failure_ = DriverStatus::kSuccess;
};

// True if `words` stands in `text` between characters that are neither letters nor digits: "L4" is
// no part of "L40S", "B200" none of "GB200".
bool has_words(std::string_view text, std::string_view words) {
  const auto is_word = [&](size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  for (size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
    const bool starts = at == 0 || !is_word(at - 1);
    if (starts && !is_word(at + words.size())) return true;
  }
  return false;
}

// Bytes per microsecond of the memory bus, from its clock and width; two transfers a clock.
std::optional<double> bus_bandwidth(AttributeReader& read) {
  const auto khz = read.get_if_known(DeviceProperty::kMemoryClockRateKhz);
  const auto bits = read.get_if_known(DeviceProperty::kMemoryBusWidthBits);
  if (!khz || !bits) return std::nullopt;
  return 2.0 * static_cast<double>(*khz) * 1e-3 * static_cast<double>(*bits) / 8.0;
}

// The preset of this very product. A name alone does not settle it: the H100 PCIe has fewer SMs
// than the H100 SXM, the A100 40GB less bandwidth than the 80GB.
std::optional<DeviceLimits> preset_of(std::string_view name, int64_t sm_count,
                                      std::optional<double> bandwidth) {
  constexpr double kBandwidthMatch = 0.1;  // Bus figures and data sheets differ by a few percent.
  for (const DeviceLimits& preset : device_presets()) {
    if (!has_words(name, preset.name) || preset.sm_count != sm_count) continue;
    const double expected = preset.memory_bytes_per_us;
    if (bandwidth && std::abs(*bandwidth - expected) > kBandwidthMatch * expected) continue;
    return preset;
  }
  return std::nullopt;
}

// The preset whose compute capability is nearest, the first of equals.
DeviceLimits nearest_generation(int major, int minor) {
  const auto distance = [&](const DeviceLimits& preset) {
    return std::tuple(std::abs(preset.compute_major - major),
                      std::abs(preset.compute_minor - minor));
  };
  const DeviceLimits* nearest = &device_presets().front();
  for (const DeviceLimits& preset : device_presets()) {
    if (distance(preset) < distance(*nearest)) nearest = &preset;
  }
  return *nearest;
}

}  // namespace

Result<DeviceLimits> query_device(DeviceDriver& driver, DeviceOrdinal ordinal) {
  const std::string doing = fmt::format("describing device {}", ordinal);
  DeviceOrdinal device = 0;
  std::array<char, 256> name{};
  auto named =
      check(driver, DriverCall::kDeviceGet, driver.device_get(&device, ordinal), doing)
          .and_then([&] {
            return check(driver, DriverCall::kDeviceName,
                         driver.device_name(name.data(), static_cast<int>(name.size() - 1), device),
                         doing);
          });
  if (!named) return fail(std::move(named.error()));

  AttributeReader read(driver, device);
  const int64_t sm_count = read.get(DeviceProperty::kSmCount);
  const int major = static_cast<int>(read.get(DeviceProperty::kComputeMajor));
  const int minor = static_cast<int>(read.get(DeviceProperty::kComputeMinor));
  const auto bandwidth = bus_bandwidth(read);

  const auto preset = preset_of(name.data(), sm_count, bandwidth);
  DeviceLimits limits = preset ? *preset : nearest_generation(major, minor);
  if (!preset) {
    if (bandwidth) limits.memory_bytes_per_us = *bandwidth;
    if (const auto khz = read.get_if_known(DeviceProperty::kClockRateKhz)) {
      limits.clock_mhz = static_cast<double>(*khz) * 1e-3;
    }
  }
  limits.name = name.data();
  limits.compute_major = major;
  limits.compute_minor = minor;
  limits.sm_count = sm_count;
  limits.registers_per_sm = read.get(DeviceProperty::kRegistersPerSm);
  limits.threads_per_sm = read.get(DeviceProperty::kMaxThreadsPerSm);
  limits.threads_per_block = read.get(DeviceProperty::kMaxThreadsPerBlock);
  limits.blocks_per_sm = read.get(DeviceProperty::kMaxBlocksPerSm);
  limits.shared_bytes_per_sm = read.get(DeviceProperty::kSharedBytesPerSm);
  limits.shared_bytes_per_block = read.get(DeviceProperty::kSharedBytesPerBlockOptIn);
  limits.shared_bytes_reserved = read.get(DeviceProperty::kSharedBytesReserved);
  limits.l2_bytes = read.get(DeviceProperty::kL2Bytes);
  limits.most_cluster_blocks = read.get(DeviceProperty::kClusterLaunch) != 0
                                   ? std::max(limits.most_cluster_blocks, kPortableClusterBlocks)
                                   : 1;
  limits.has_bulk_copy = major >= 9;
  limits.has_dependent_launch = major >= 9;
  limits.has_setmaxnreg = major >= 9;
  limits.has_wgmma = major == 9;
  if (!preset) derive_bytes_in_flight(limits);

  if (auto complete = check(driver, DriverCall::kDeviceAttribute, read.first_failure(), doing);
      !complete) {
    return fail(std::move(complete.error()));
  }
  return limits;
}

Result<std::vector<DeviceLimits>> query_devices(DeviceDriver& driver) {
  int count = 0;
  auto counted =
      check(driver, DriverCall::kDeviceCount, driver.device_count(&count), "counting devices");
  if (!counted) return fail(std::move(counted.error()));
  std::vector<DeviceLimits> out;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    auto limits = query_device(driver, ordinal);
    if (!limits) return fail(std::move(limits.error()));
    out.push_back(std::move(*limits));
  }
  return out;
}

Result<DeviceOrdinal> device_of(DeviceDriver& driver, DevicePointer pointer,
                                std::string_view what) {
  constexpr unsigned int kHostMemory = 1;
  unsigned int memory_type = 0;
  DeviceOrdinal device = 0;
  const bool known = driver.pointer_attribute(&memory_type, PointerProperty::kMemoryType,
                                              pointer) == DriverStatus::kSuccess &&
                     memory_type != kHostMemory &&
                     driver.pointer_attribute(&device, PointerProperty::kDeviceOrdinal, pointer) ==
                         DriverStatus::kSuccess;
  if (known) return device;
  return fail({.kind = ErrorKind::kInvalidArgument,
               .message = fmt::format("{} at {:#x} is not memory of a device", what, pointer),
               .remedy = "pass an address from cuMemAlloc, cudaMalloc or a framework's tensor on "
                         "the device"});
}

}  // namespace sinter
