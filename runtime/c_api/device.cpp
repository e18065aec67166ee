#include <fmt/ranges.h>

#include "fusion_ir/nearest_name.h"
#include "runtime/c_api/errors.h"
#include "runtime/c_api/objects.h"
#include "runtime/c_api/runtime_object.h"
#include "runtime/c_api/structs.h"
#include "runtime/c_api/text.h"
#include "runtime/driver/device_query.h"
#include "runtime/json/device_limits_json.h"
#include "runtime/json/plan_json.h"

namespace sinter::c_api {
namespace {

KernelCacheOptions cache_options(const sinter_runtime_options& options) {
  auto out = KernelCacheOptions::from_environment();
  if (options.cache_directory != nullptr) out.directory = options.cache_directory;
  if (options.max_disk_bytes < 0 || options.max_memory_bytes < 0)
    bad_argument("a cache of negative size", "give bytes, or 0 for the default");
  if (options.max_disk_bytes > 0) out.max_disk_bytes = options.max_disk_bytes;
  if (options.max_memory_bytes > 0) out.max_memory_bytes = options.max_memory_bytes;
  if (options.log != nullptr) {
    out.on_trouble = [log = options.log, data = options.log_data](const Error& trouble) {
      log(data, trouble.text().c_str());
    };
  }
  return out;
}

std::string library(const char* name) { return name == nullptr ? "" : name; }

}  // namespace

extern "C" {

sinter_status sinter_runtime_create(const sinter_runtime_options* options, sinter_runtime** runtime,
                                    sinter_error** error) {
  return guarded(error, [&] {
    require(runtime, "runtime");
    *runtime = nullptr;
    const auto given = read_struct(options, "options");
    *runtime = handle_of(std::make_shared<RuntimeObject>(
        library(given.driver_library), library(given.nvrtc_library), cache_options(given)));
  });
}

sinter_status sinter_runtime_device_count(sinter_runtime* runtime, int32_t* count,
                                          sinter_error** error) {
  return guarded(error, [&] {
    require(count, "count");
    *count = 0;
    const auto object = object_of<RuntimeObject>(runtime);
    DeviceDriver& driver = *taken(object->driver());
    int devices = 0;
    taken(
        check(driver, DriverCall::kDeviceCount, driver.device_count(&devices), "counting devices"));
    *count = devices;
  });
}

sinter_status sinter_runtime_cache_info(sinter_runtime* runtime, sinter_cache_info* info,
                                        sinter_error** error) {
  return guarded(error, [&] {
    const KernelCacheStatistics counts = object_of<RuntimeObject>(runtime)->cache().statistics();
    fill_struct(info, "info",
                {.struct_size = sizeof(sinter_cache_info),
                 .memory_hits = counts.memory_hits,
                 .disk_hits = counts.disk_hits,
                 .misses = counts.misses,
                 .damaged = counts.damaged,
                 .evicted = counts.evicted,
                 .write_failures = counts.write_failures});
  });
}

sinter_status sinter_runtime_release(sinter_runtime* runtime, sinter_error** error) {
  return guarded(error, [&] { release<RuntimeObject>(runtime); });
}

sinter_status sinter_device_preset(const char* name, sinter_device** device, sinter_error** error) {
  return guarded(error, [&] {
    require(device, "device");
    *device = nullptr;
    require(name, "name");
    auto limits = find_device(name);
    if (!limits) {
      std::vector<std::string_view> known;
      for (const DeviceLimits& preset : device_presets()) known.push_back(preset.name);
      bad_argument(fmt::format("there is no device '{}'", name),
                   suggestion(name, known, fmt::format("use one of {}", fmt::join(known, ", "))));
    }
    *device = make_handle(DeviceObject{std::move(*limits)});
  });
}

sinter_status sinter_device_parse(const char* json, size_t size, sinter_device** device,
                                  sinter_error** error) {
  return guarded(error, [&] {
    require(device, "device");
    *device = nullptr;
    require(json, size, "json");
    *device = make_handle(DeviceObject{taken(device_limits_from_json({json, size}))});
  });
}

sinter_status sinter_device_query(sinter_runtime* runtime, int32_t ordinal, sinter_device** device,
                                  sinter_error** error) {
  return guarded(error, [&] {
    require(device, "device");
    *device = nullptr;
    const auto object = object_of<RuntimeObject>(runtime);
    DeviceDriver& driver = *taken(object->driver());
    *device = make_handle(DeviceObject{taken(query_device(driver, ordinal))});
  });
}

sinter_status sinter_device_json(const sinter_device* device, sinter_text** json,
                                 sinter_error** error) {
  return guarded(error, [&] {
    require(json, "json");
    *json = nullptr;
    *json = text_handle(sinter::text_of(to_json(object_of<DeviceObject>(device)->limits)));
  });
}

sinter_status sinter_device_release(sinter_device* device, sinter_error** error) {
  return guarded(error, [&] { release<DeviceObject>(device); });
}

}  // extern "C"

}  // namespace sinter::c_api
