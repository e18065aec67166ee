#include "scheduler/budgets/cost_constants.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "fusion_ir/error.h"

namespace sinter {
namespace {

using enum ConstantOrigin;

// The name of a constant is the path to it.
#define SINTER_CONSTANT(path, least, most, origin)                                                 \
  CostConstantField {                                                                              \
    #path, [](CostConstants& constants) -> double& { return constants.path; }, least, most, origin \
  }

constexpr std::array kConstants{
    SINTER_CONSTANT(spill_share, 0.0, 10.0, kMeasured),
    SINTER_CONSTANT(most_spills_waited_for, 0.001, 1000.0, kCounted),
    SINTER_CONSTANT(launch_us, 0.0, 1e+06, kMeasured),
    SINTER_CONSTANT(ramp_us, 0.0, 1e+06, kMeasured),
    SINTER_CONSTANT(row.block_start_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(row.first_load_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(row.chunk_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(row.l1_chunk_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(row.shared_chunk_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(row.cache_latency_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(row.warp_exchange_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(row.block_exchange_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(row.prologue_instructions, 0.0, 1e+06, kCounted),
    SINTER_CONSTANT(row.exchange_instructions, 0.0, 1e+06, kCounted),
    SINTER_CONSTANT(non_persistent.warps_doubling_ns, 1.0, 400.0, kFitted),
    SINTER_CONSTANT(non_persistent.clocks_per_instruction, 0.5, 8.0, kFitted),
    SINTER_CONSTANT(non_persistent.overlap, 0.02, 4.0, kFitted),
    SINTER_CONSTANT(non_persistent.overlap_growth, 0.05, 2.0, kFitted),
    SINTER_CONSTANT(non_persistent.lone_overlap, 0.01, 2.0, kFitted),
    SINTER_CONSTANT(non_persistent.balanced_slots_per_byte, 0.001, 1000.0, kMeasured),
    SINTER_CONSTANT(non_persistent.row_doubling_share, 0.001, 0.1, kFitted),
    SINTER_CONSTANT(non_persistent.waiting_compute_share, 0.01, 4.0, kFitted),
    SINTER_CONSTANT(non_persistent.last_share, 0.02, 3.0, kFitted),
    SINTER_CONSTANT(non_persistent.busy_warps, 2.0, 80.0, kFitted),
    SINTER_CONSTANT(non_persistent.warps_exponent, 0.05, 1.5, kFitted),
    SINTER_CONSTANT(non_persistent.alternation_share, 0.01, 1.0, kFitted),
    SINTER_CONSTANT(non_persistent.draining_ns_per_byte, 0.0001, 0.05, kFitted),
    SINTER_CONSTANT(non_persistent.cluster_gather_ns, 20.0, 2000.0, kFitted),
    SINTER_CONSTANT(non_persistent.second_reads_share, 0.0, 10.0, kMeasured),
    SINTER_CONSTANT(non_persistent.missed_reads_share, 0.001, 0.5, kFitted),
    SINTER_CONSTANT(non_persistent.idle_latency_share, 0.05, 2.0, kFitted),
    SINTER_CONSTANT(non_persistent.late_loads_share, 0.0, 10.0, kMeasured),
    SINTER_CONSTANT(matmul.step_clocks, 1.0, 10000.0, kFitted),
    SINTER_CONSTANT(matmul.fragment_issue, 0.1, 10.0, kFitted),
    SINTER_CONSTANT(matmul.fragment_function_clocks, 0.001, 10.0, kFitted),
    SINTER_CONSTANT(matmul.fragment_input_clocks, 0.001, 10.0, kFitted),
    SINTER_CONSTANT(matmul.philox_clocks, 0.0, 1000.0, kMeasured),
    SINTER_CONSTANT(matmul.turn_clocks, 1.0, 100000.0, kFitted),
    SINTER_CONSTANT(matmul.turned_step_clocks, 1.0, 100000.0, kFitted),
    SINTER_CONSTANT(matmul.beside_products, 0.1, 10.0, kFitted),
    SINTER_CONSTANT(matmul.epilogue_issue_per_clock, 0.1, 4.0, kFitted),
    SINTER_CONSTANT(matmul.row_iteration_clocks, 1.0, 10000.0, kFitted),
    SINTER_CONSTANT(matmul.row_issue_per_clock, 0.1, 4.0, kFitted),
    SINTER_CONSTANT(matmul.reduction_step_clocks, 1.0, 10000.0, kFitted),
    SINTER_CONSTANT(matmul.remote_store_clocks, 0.01, 100.0, kFitted),
    SINTER_CONSTANT(matmul.message_clocks, 1.0, 10000.0, kFitted),
    SINTER_CONSTANT(matmul.input_wait_clocks, 1.0, 100000.0, kFitted),
    SINTER_CONSTANT(matmul.idle_sms_exponent, 0.0, 2.0, kFitted),
    SINTER_CONSTANT(matmul.narrow_instructions, 1.0, 4.0, kMeasured),
    SINTER_CONSTANT(matmul.handover_elements_per_clock, 0.1, 1000.0, kFitted),
    SINTER_CONSTANT(matmul.copy_bytes_per_clock, 1.0, 1000.0, kMeasured),
    SINTER_CONSTANT(matmul.copy_latency_clocks, 1.0, 100000.0, kMeasured),
    SINTER_CONSTANT(matmul.split_step_clocks, 1.0, 100000.0, kMeasured),
    SINTER_CONSTANT(matmul.lane_efficiency, 0.01, 1.0, kMeasured),
    SINTER_CONSTANT(matmul.f8_rate, 0.01, 1.0, kMeasured),
    SINTER_CONSTANT(second_launch_us, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(last_block_ns, 0.0, 1e+06, kMeasured),
    SINTER_CONSTANT(last_block_bytes_per_clock, 0.001, 1e+06, kMeasured),
    SINTER_CONSTANT(pipeline_row_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(pipeline_instruction_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(pipeline_warp_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(pipeline_weight_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(pipeline_register_limit, 0.001, 1000.0, kFitted),
    SINTER_CONSTANT(pipeline_wanted_registers, 0.001, 1000.0, kFitted),
    SINTER_CONSTANT(pipeline_overlap_exponent, 0.01, 10.0, kFitted),
    SINTER_CONSTANT(pipeline_memory_share, 0.0, 10.0, kFitted),
    SINTER_CONSTANT(pipeline_fill_share, 0.0, 10.0, kFitted),
    SINTER_CONSTANT(pipeline_bytes_in_flight, 0.1, 100.0, kFitted),
    SINTER_CONSTANT(pipeline_starved_penalty, 0.0, 10.0, kFitted),
    SINTER_CONSTANT(pipeline_refill_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(pipeline_full_bytes, 1024.0, 1e+09, kFitted),
    SINTER_CONSTANT(pipeline_overfull_penalty, 0.0, 10.0, kFitted),
    SINTER_CONSTANT(pipeline_busy_warps, 0.001, 1000.0, kFitted),
    SINTER_CONSTANT(pipeline_warps_exponent, 0.01, 10.0, kFitted),
    SINTER_CONSTANT(l1_row_share, 0.0, 10.0, kMeasured),
    SINTER_CONSTANT(normal_read_us_per_gb, 0.0, 1000.0, kMeasured),
    SINTER_CONSTANT(l2_room_share, 0.0, 10.0, kMeasured),
    SINTER_CONSTANT(dirty_line_bytes, 1.0, 1e+12, kMeasured),
    SINTER_CONSTANT(evict_first_penalty, 0.0, 10.0, kMeasured),
    SINTER_CONSTANT(memory_wait_ns, 0.0, 1e+06, kMeasured),
    SINTER_CONSTANT(short_run_penalty, 0.0, 10.0, kMeasured),
    SINTER_CONSTANT(tile_vector_ns, 0.0, 1e+06, kMeasured),
    SINTER_CONSTANT(cluster_exchange_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(cluster_doubling_ns, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(cluster_start_us, 0.0, 1e+06, kFitted),
    SINTER_CONSTANT(free_warps, 0.001, 1000.0, kMeasured),
    SINTER_CONSTANT(issue_efficiency, 0.01, 1.0, kFitted),
    SINTER_CONSTANT(instructions_per_access, 0.0, 1e+06, kCounted),
    SINTER_CONSTANT(column_split_instructions, 0.0, 1e+06, kCounted),
    SINTER_CONSTANT(instruction_bytes, 1.0, 1e+12, kCounted),
    SINTER_CONSTANT(careful_logarithm_instructions, 0.0, 1e+06, kCounted),
    SINTER_CONSTANT(asked_logarithm_instructions, 0.0, 1e+06, kCounted),
    SINTER_CONSTANT(text_beside_elements, 0.001, 1000.0, kCounted),
    SINTER_CONSTANT(kept_text_bytes, 1.0, 1e+12, kCounted),
    SINTER_CONSTANT(text_bytes_per_clock, 0.001, 1e+06, kMeasured),
    SINTER_CONSTANT(tile_prologue_instructions, 0.0, 1e+06, kCounted),
    SINTER_CONSTANT(search_step_ns, 0.0, 1e+06, kCounted),
    SINTER_CONSTANT(search_step_instructions, 0.0, 1e+06, kCounted),
};

#undef SINTER_CONSTANT

static_assert(sizeof(CostConstants) == kConstants.size() * sizeof(double),
              "every constant is in the table, and is a number");

const DeviceConstants& embedded_for(std::string_view device) {
  const auto all = embedded_cost_constants();
  const auto found = std::ranges::find(all, device, &DeviceConstants::device);
  SINTER_CHECK(found != all.end(), "no file of devices/ names {}", device);
  return *found;
}

/// The values of a file in the order of the table, those of the device it refers to first.
std::vector<double> values_of(const DeviceConstants& device) {
  std::vector<double> values;
  if (device.same_as.empty()) {
    SINTER_CHECK(device.constants.size() == kConstants.size(), "the constants of {} are {} of {}",
                 device.device, device.constants.size(), kConstants.size());
    values.resize(kConstants.size());
  } else {
    values = values_of(embedded_for(device.same_as));
  }
  for (const NamedConstant& constant : device.constants) {
    const CostConstantField* field = find_cost_constant(constant.name);
    SINTER_CHECK(field != nullptr, "{} has a constant {}, which is none", device.device,
                 constant.name);
    values[static_cast<size_t>(field - kConstants.data())] = constant.value;
  }
  return values;
}

}  // namespace

CostConstants::CostConstants(std::span<const double> values) {
  SINTER_CHECK(values.size() == kConstants.size(), "{} values for {} constants", values.size(),
               kConstants.size());
  for (size_t i = 0; i < values.size(); ++i) kConstants[i].of(*this) = values[i];
}

std::span<const CostConstantField> cost_constant_fields() { return kConstants; }

double value_of(const CostConstantField& field, const CostConstants& constants) {
  CostConstants copy = constants;  // A field gives access to what may be changed.
  return field.of(copy);
}

const CostConstantField* find_cost_constant(std::string_view name) {
  const auto found = std::ranges::find(kConstants, name, &CostConstantField::name);
  return found == kConstants.end() ? nullptr : &*found;
}

const CostConstants& cost_constants_of(std::string_view device) {
  static const std::map<std::string_view, CostConstants> kAll = [] {
    std::map<std::string_view, CostConstants> all;
    for (const DeviceConstants& embedded : embedded_cost_constants())
      all.emplace(embedded.device, CostConstants(values_of(embedded)));
    return all;
  }();
  const auto found = kAll.find(device);
  return found == kAll.end() ? kAll.at(kReferenceDevice) : found->second;
}

}  // namespace sinter
