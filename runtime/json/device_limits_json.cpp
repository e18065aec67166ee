#include "runtime/json/device_limits_json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fusion_ir/nearest_name.h"
#include "runtime/json/json_text.h"

namespace sinter {
namespace {

/// A field as it stands in JSON, and what it may be.
template <class T>
struct Field {
  std::string_view name;
  T DeviceLimits::*member;
  T least;
  T most;
};

// The bounds keep arithmetic on the limits from overflowing: they are far beyond any device.
constexpr int64_t kMostCount = int64_t{1} << 24;
constexpr int64_t kMostBytes = int64_t{1} << 40;
constexpr double kMostRate = 1e12;
constexpr double kLeastRate = 1e-9;

constexpr std::array kIntegers = {
    Field<int64_t>{"sm_count", &DeviceLimits::sm_count, 1, kMostCount},
    Field<int64_t>{"registers_per_sm", &DeviceLimits::registers_per_sm, 1, kMostCount},
    // 255 is what an instruction can name.
    Field<int64_t>{"registers_per_thread", &DeviceLimits::registers_per_thread, 16, 255},
    Field<int64_t>{"register_allocation_unit", &DeviceLimits::register_allocation_unit, 1,
                   kMostCount},
    Field<int64_t>{"threads_per_sm", &DeviceLimits::threads_per_sm, 32, kMostCount},
    // 1024 is what CUDA allows on every device.
    Field<int64_t>{"threads_per_block", &DeviceLimits::threads_per_block, 32, 1024},
    Field<int64_t>{"blocks_per_sm", &DeviceLimits::blocks_per_sm, 1, kMostCount},
    Field<int64_t>{"shared_bytes_per_sm", &DeviceLimits::shared_bytes_per_sm, 1, kMostBytes},
    Field<int64_t>{"shared_bytes_per_block", &DeviceLimits::shared_bytes_per_block, 1, kMostBytes},
    Field<int64_t>{"shared_bytes_reserved", &DeviceLimits::shared_bytes_reserved, 0, kMostBytes},
    Field<int64_t>{"l2_bytes", &DeviceLimits::l2_bytes, 0, kMostBytes},
    Field<int64_t>{"most_cluster_blocks", &DeviceLimits::most_cluster_blocks, 1,
                   kMostClusterBlocks},
};
constexpr std::array kSmallIntegers = {
    // Kernels need bf16 arithmetic and asynchronous copies: 8.0 and later
    // (runtime/compile/architecture.h).
    Field<int>{"compute_major", &DeviceLimits::compute_major, 8, 99},
    Field<int>{"compute_minor", &DeviceLimits::compute_minor, 0, 9},
};
constexpr std::array kReals = {
    Field<double>{"memory_bytes_per_us", &DeviceLimits::memory_bytes_per_us, kLeastRate, kMostRate},
    Field<double>{"copy_efficiency", &DeviceLimits::copy_efficiency, kLeastRate, 1.0},
    Field<double>{"read_efficiency", &DeviceLimits::read_efficiency, kLeastRate, 1.0},
    Field<double>{"clock_mhz", &DeviceLimits::clock_mhz, kLeastRate, kMostRate},
    Field<double>{"issue_per_clock", &DeviceLimits::issue_per_clock, kLeastRate, kMostRate},
    Field<double>{"special_per_clock", &DeviceLimits::special_per_clock, kLeastRate, kMostRate},
    Field<double>{"shared_bytes_per_clock", &DeviceLimits::shared_bytes_per_clock, kLeastRate,
                  kMostRate},
    Field<double>{"fma_per_clock", &DeviceLimits::fma_per_clock, kLeastRate, kMostRate},
    Field<double>{"fma64_per_clock", &DeviceLimits::fma64_per_clock, kLeastRate, kMostRate},
    Field<double>{"matrix_products_per_clock", &DeviceLimits::matrix_products_per_clock, kLeastRate,
                  kMostRate},
    Field<double>{"group_products_per_clock", &DeviceLimits::group_products_per_clock, 0.0,
                  kMostRate},
    Field<double>{"l2_bytes_per_clock", &DeviceLimits::l2_bytes_per_clock, kLeastRate, kMostRate},
    Field<double>{"memory_latency_ns", &DeviceLimits::memory_latency_ns, 0.0, kMostRate},
    Field<double>{"bytes_in_flight_per_sm", &DeviceLimits::bytes_in_flight_per_sm, 0.0, kMostRate},
};
constexpr std::array kFlags = {
    Field<bool>{"has_bulk_copy", &DeviceLimits::has_bulk_copy, false, true},
    Field<bool>{"has_dependent_launch", &DeviceLimits::has_dependent_launch, false, true},
    Field<bool>{"has_setmaxnreg", &DeviceLimits::has_setmaxnreg, false, true},
    Field<bool>{"has_wgmma", &DeviceLimits::has_wgmma, false, true},
};

/// Calls `visit` with every field.
template <class Visit>
void for_each_field(Visit visit) {
  for (const auto& field : kSmallIntegers) visit(field);
  for (const auto& field : kIntegers) visit(field);
  for (const auto& field : kReals) visit(field);
  for (const auto& field : kFlags) visit(field);
}

[[noreturn]] void refuse(std::string message, std::string remedy) {
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = std::move(message),
               .remedy = std::move(remedy)});
}

constexpr std::string_view kSeePreset = "compare with what `sinter devices H200 --json` prints";

std::string quoted(const Json& value) {
  constexpr size_t kShownBytes = 40;
  return text_of(value).substr(0, kShownBytes);
}

template <class T>
T number_of(const Field<T>& field, const Json& value) {
  bool fits = false;
  T out{};
  if constexpr (std::is_same_v<T, bool>) {
    fits = value.is_boolean();
    if (fits) out = value.get<bool>();
  } else if constexpr (std::is_floating_point_v<T>) {
    fits = value.is_number();
    if (fits) out = value.get<double>();
    fits = fits && std::isfinite(out) && out >= field.least && out <= field.most;
  } else {
    // Beyond 2^63 JSON numbers are unsigned, or of another type.
    const bool is_signed = value.is_number_integer() &&
                           (!value.is_number_unsigned() ||
                            value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
    const int64_t whole = is_signed ? value.get<int64_t>() : 0;
    fits = is_signed && whole >= field.least && whole <= field.most;
    if (fits) out = static_cast<T>(whole);
  }
  if (fits) return out;
  if constexpr (std::is_same_v<T, bool>) {
    refuse(fmt::format("the device's {} is {}", field.name, quoted(value)), "give true or false");
  } else {
    refuse(fmt::format("the device's {} is {}", field.name, quoted(value)),
           fmt::format("give {} from {} to {}",
                       std::is_floating_point_v<T> ? "a number" : "an integer", field.least,
                       field.most));
  }
}

Json parsed(std::string_view text) {
  auto json = parse_json(text, "the device's limits", kSeePreset);
  if (!json) throw_error(json.error());
  return std::move(*json);
}

/// The preset that stands for what is left out, and the fields given besides.
DeviceLimits base_of(const Json& json, bool& has_base) {
  const auto base = json.find("base");
  has_base = base != json.end();
  if (!has_base) return {};
  std::vector<std::string_view> names;
  for (const DeviceLimits& preset : device_presets()) names.push_back(preset.name);
  const std::string name = base->is_string() ? base->get<std::string>() : quoted(*base);
  const auto limits = find_device(name);
  if (!limits)
    refuse(fmt::format("there is no device '{}' to be the base", name),
           suggestion(name, names, fmt::format("use one of {}", fmt::join(names, ", "))));
  return *limits;
}

void check_names(const Json& json) {
  std::vector<std::string_view> names{"name", "base", "architecture", "cost"};
  for_each_field([&](const auto& field) { names.push_back(field.name); });
  for (const auto& item : json.items()) {
    if (std::ranges::find(names, item.key()) != names.end()) continue;
    refuse(fmt::format("a device has no field '{}'", item.key()),
           suggestion(item.key(), names, kSeePreset));
  }
}

/// Reads constants of the cost model: {"launch_us": 2.1, "row": {"chunk_ns": 450}}. Those that are
/// not named stay as they are.
void read_constants(const Json& json, const std::string& prefix, CostConstants& constants) {
  if (!json.is_object())
    refuse(fmt::format("the device's cost is {}", quoted(json)), "give an object of constants");
  for (const auto& item : json.items()) {
    const std::string name = prefix + item.key();
    const bool is_group = std::ranges::any_of(
        cost_constant_fields(),
        [&](const CostConstantField& field) { return field.name.starts_with(name + "."); });
    if (is_group && item.value().is_object()) {
      read_constants(item.value(), name + ".", constants);
      continue;
    }
    const CostConstantField* field = find_cost_constant(name);
    if (field == nullptr || item.key().find('.') != std::string::npos) {
      std::vector<std::string_view> names;
      for (const CostConstantField& known : cost_constant_fields()) names.push_back(known.name);
      refuse(fmt::format("the cost model has no constant '{}'", name),
             suggestion(name, names, "`sinter devices H200 --constants` lists them"));
    }
    const double value = item.value().is_number() ? item.value().get<double>()
                                                  : std::numeric_limits<double>::quiet_NaN();
    if (!std::isfinite(value) || value < field->least || value > field->most) {
      refuse(fmt::format("the device's {} is {}", name, quoted(item.value())),
             fmt::format("give a number from {} to {}", field->least, field->most));
    }
    field->of(constants) = value;
  }
}

void check_consistency(const DeviceLimits& limits) {
  if (limits.shared_bytes_per_block > limits.shared_bytes_per_sm)
    refuse(fmt::format("a block has {} bytes of shared memory, its SM {}",
                       limits.shared_bytes_per_block, limits.shared_bytes_per_sm),
           "give a block no more than an SM");
  if (limits.threads_per_block > limits.threads_per_sm)
    refuse(fmt::format("a block has {} threads, its SM {}", limits.threads_per_block,
                       limits.threads_per_sm),
           "give a block no more than an SM");
}

DeviceLimits limits_of(std::string_view text) {
  const Json json = parsed(text);
  if (!json.is_object()) refuse("the device's limits are no JSON object", std::string(kSeePreset));
  check_names(json);
  bool has_base = false;
  DeviceLimits out = base_of(json, has_base);
  for_each_field([&](const auto& field) {
    const auto found = json.find(field.name);
    if (found != json.end()) {
      out.*field.member = number_of(field, *found);
    } else if (!has_base) {
      refuse(fmt::format("the device has no {}", field.name),
             "give every field, or a preset as \"base\"");
    }
  });
  const auto name = json.find("name");
  const bool is_named =
      name != json.end() && name->is_string() && !name->get<std::string>().empty();
  if (name != json.end() && !is_named)
    refuse(fmt::format("the device's name is {}", quoted(*name)), "give a string");
  if (name == json.end() && !has_base)
    refuse("the device has no name", "give a string as \"name\"");
  if (is_named) out.name = name->get<std::string>();
  if (!has_base) out.cost = cost_constants_of(out.name);
  if (const auto cost = json.find("cost"); cost != json.end()) read_constants(*cost, "", out.cost);
  const auto architecture = json.find("architecture");
  if (architecture != json.end() && *architecture != architecture_of(out))
    refuse(fmt::format("the device's architecture is {}, its compute capability that of {}",
                       quoted(*architecture), architecture_of(out)),
           "leave \"architecture\" out, or make them agree");
  check_consistency(out);
  return out;
}

}  // namespace

Json to_json(const DeviceLimits& limits) {
  Json out = {{"name", limits.name}, {"architecture", architecture_of(limits)}};
  for_each_field([&](const auto& field) { out[std::string(field.name)] = limits.*field.member; });
  // A reader takes the constants of the name for those that are left out.
  const CostConstants& known = cost_constants_of(limits.name);
  for (const CostConstantField& field : cost_constant_fields()) {
    const double value = value_of(field, limits.cost);
    if (value != value_of(field, known)) out["cost"][place_of(field)] = value;
  }
  return out;
}

Json::json_pointer place_of(const CostConstantField& field) {
  std::string path = "/" + std::string(field.name);
  std::ranges::replace(path, '.', '/');
  return Json::json_pointer(path);
}

Json to_json(const CostConstants& constants) {
  Json out = Json::object();
  for (const CostConstantField& field : cost_constant_fields())
    out[place_of(field)] = value_of(field, constants);
  return out;
}

Result<DeviceLimits> device_limits_from_json(std::string_view text) {
  return as_result([&]() -> Result<DeviceLimits> { return limits_of(text); });
}

}  // namespace sinter
