#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "scheduler/report/text_table.h"
#include "tools/command.h"
#include "tools/json.h"

namespace sinter::tool {
namespace {

constexpr double kBytesPerUsInTBps = 1e6;

TextTable make_table() {
  return TextTable({"device", "arch", "SMs", "registers/SM", "shared/SM", "shared/block", "L2",
                    "memory TB/s", "copy TB/s", "clock MHz", "in flight/SM"},
                   {TextTable::Align::kLeft});
}

void add_row(TextTable& table, const DeviceLimits& limits) {
  const auto bytes = [](auto count) { return bytes_text(static_cast<double>(count)); };
  const double memory = limits.memory_bytes_per_us / kBytesPerUsInTBps;
  table.row({limits.name, architecture_of(limits), fmt::format("{}", limits.sm_count),
             fmt::format("{}", limits.registers_per_sm), bytes(limits.shared_bytes_per_sm),
             bytes(limits.shared_bytes_per_block), bytes(limits.l2_bytes),
             fmt::format("{:.2f}", memory), fmt::format("{:.2f}", memory * limits.copy_efficiency),
             fmt::format("{:.0f}", limits.clock_mhz), bytes(limits.bytes_in_flight_per_sm)});
}

/// The constants of the cost model; as JSON, a file of the device that sets all of them.
Report constants_report(const DeviceLimits& limits) {
  TextTable table({"constant", limits.name, "from", "to"}, {TextTable::Align::kLeft});
  for (const CostConstantField& field : cost_constant_fields()) {
    table.row({std::string(field.name), fmt::format("{:.6g}", value_of(field, limits.cost)),
               fmt::format("{:g}", field.least), fmt::format("{:g}", field.most)});
  }
  Json json = to_json(limits);
  json["cost"] = to_json(limits.cost);
  return {.text = table.text(), .json = std::move(json)};
}

}  // namespace

Result<Report> devices_command(const DevicesArguments& arguments) {
  if (!arguments.device.empty()) {
    const auto limits = find_limits(arguments.device);
    if (!limits) return fail(limits.error());
    if (arguments.constants) return constants_report(*limits);
    TextTable table = make_table();
    add_row(table, *limits);
    return Report{.text = table.text(), .json = to_json(*limits)};
  }
  Report report{.json = {{"presets", Json::array()}, {"live", Json::array()}}};
  TextTable presets = make_table();
  for (const DeviceLimits& limits : device_presets()) {
    add_row(presets, limits);
    report.json["presets"].push_back(to_json(limits));
  }
  report.text = "presets\n" + presets.text();
  const auto live =
      cuda_driver().and_then([](DeviceDriver* driver) { return query_devices(*driver); });
  if (!live) {
    report.text += fmt::format("no live device: {}\n", live.error().text());
    report.json["no_live_device"] = Json::parse(live.error().json());
    return report;
  }
  TextTable found = make_table();
  for (const DeviceLimits& limits : *live) {
    add_row(found, limits);
    report.json["live"].push_back(to_json(limits));
  }
  report.text += "live\n" + found.text();
  return report;
}

}  // namespace sinter::tool
