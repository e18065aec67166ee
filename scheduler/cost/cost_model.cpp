#include "scheduler/cost/cost_model.h"
#include "scheduler/analysis/cuda_units.h"

#include <algorithm>
#include <cmath>

namespace sinter {
namespace {

constexpr double kNsPerUs = 1000.0;

/// Exponent with which the wait for dirty L2 lines falls as the mix of reads and writes gets even:
/// writes evict the lines too.
constexpr double kDirtyLineExponent = 4.0;

/// 0 for reads alone, 1 from an even mix on. Turning the bus between reads and writes costs most at
/// an even mix; a larger share of writes costs no more.
double evenness(double bytes_read, double bytes_written) {
  const double all = bytes_read + bytes_written;
  return all > 0.0 ? std::min(1.0, 2.0 * bytes_written / all) : 0.0;
}

}  // namespace

double mixed_bandwidth(const DeviceLimits& limits, double bytes_read, double bytes_written) {
  const double all = bytes_read + bytes_written;
  if (all <= 0.0) return limits.memory_bytes_per_us * limits.read_efficiency;
  const double efficiency =
      limits.read_efficiency +
      (limits.copy_efficiency - limits.read_efficiency) * evenness(bytes_read, bytes_written);
  return limits.memory_bytes_per_us * efficiency;
}

double start_time(const Schedule& schedule, const CostConstants& constants) {
  double us = schedule.launched_cluster() > 1 ? constants.cluster_start_us : 0.0;
  if (waits(schedule.dependent_launch)) us -= saved_behind_another(constants);
  return us;
}

double saved_behind_another(const CostConstants& constants) {
  return constants.launch_us + constants.ramp_us - constants.second_launch_us;
}

DeviceLimits behind_another(DeviceLimits limits) {
  if (limits.has_dependent_launch) limits.cost.launch_us -= saved_behind_another(limits.cost);
  return limits;
}

double cluster_exchange_time(int64_t cluster_size, const CostConstants& constants) {
  if (cluster_size <= 1) return 0.0;
  return constants.cluster_exchange_ns +
         constants.cluster_doubling_ns * std::log2(static_cast<double>(cluster_size));
}

double memory_time(const DeviceLimits& limits, double bytes_read, double bytes_written,
                   ReadPriority priority) {
  const CostConstants& constants = limits.cost;
  const double bandwidth = mixed_bandwidth(limits, bytes_read, bytes_written);
  const double streamed = (bytes_read + bytes_written) / bandwidth;
  if (priority == ReadPriority::kEvictFirst)
    return streamed * (1.0 + constants.evict_first_penalty);
  // Traffic that would fit into L2 next to the dirty lines still evicts some of them.
  const double l2_share =
      std::min(1.0, (bytes_read + bytes_written) / static_cast<double>(limits.l2_bytes));
  const double pushed_out = l2_share * l2_share * std::min(bytes_read, constants.dirty_line_bytes);
  // At an even mix, the writes evict the dirty lines in any case.
  const double even = evenness(bytes_read, bytes_written);
  const double dirty_lines_us = std::pow(1.0 - even, kDirtyLineExponent) * pushed_out / bandwidth;
  const bool alternates = priority == ReadPriority::kNormal && l2_share > constants.l2_room_share;
  constexpr double kBytesPerGb = 1e9;
  const double alternation_us = alternates ? constants.normal_read_us_per_gb * even *
                                                 (bytes_read + bytes_written) / kBytesPerGb
                                           : 0.0;
  // Lower bound: the reads alone. Writes never make the prediction shorter than that.
  const double reads_alone_us =
      (bytes_read + pushed_out) / mixed_bandwidth(limits, bytes_read, 0.0);
  return std::max(streamed + dirty_lines_us, reads_alone_us) + alternation_us;
}

double issue_time(double issue_slots, const DeviceLimits& limits, double busy_sms) {
  const CostConstants& constants = limits.cost;
  return issue_slots / kWarp /
         (limits.issue_per_clock * constants.issue_efficiency * limits.clock_mhz * busy_sms);
}

double l2_read_time(const DeviceLimits& limits, double bytes, double busy_sms) {
  // 5,120 bytes per clock by all SMs of an A100 ("NVIDIA A100 Tensor Core GPU Architecture"
  // whitepaper), used for every device. One SM: 64 bytes, as much as its L1 takes in.
  constexpr double kBytesOfAll = 5120.0;
  constexpr double kBytesOfSm = 64.0;
  const double per_clock = std::min(kBytesOfAll / static_cast<double>(limits.sm_count), kBytesOfSm);
  return bytes / (per_clock * limits.clock_mhz * busy_sms);
}

double second_kernel_time(double partial_bytes, const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  return constants.second_launch_us +
         2.0 * partial_bytes / (limits.memory_bytes_per_us * limits.read_efficiency);
}

bool columns_come_from_l2(const SegmentFacts& facts, const DeviceLimits& limits) {
  return facts.bytes_read <= limits.l2_bytes / 2;
}

double least_time(const SegmentFacts& facts, const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const auto moved_under = [&](ReadPriority priority) {
    return memory_time(limits, static_cast<double>(facts.bytes_read),
                       static_cast<double>(facts.bytes_written), priority);
  };
  const double fastest_us =
      std::min({moved_under(ReadPriority::kNormal), moved_under(ReadPriority::kEvictFirst),
                moved_under(ReadPriority::kEvictLast)});
  // Only kernels without inner reductions whose input comes from DRAM overlap their ramp with
  // streaming.
  const bool hides_ramp = !facts.has_reduction() && !columns_come_from_l2(facts, limits);
  const bool may_be_pipelined = facts.has_outer();
  return constants.launch_us + (hides_ramp ? 0.0 : constants.ramp_us) +
         (may_be_pipelined ? std::min(1.0, constants.pipeline_memory_share) : 1.0) * fastest_us;
}

Prediction predict(const WorkEstimate& work, const ResourceEstimate& estimate,
                   const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  Prediction out;
  const auto sms = static_cast<double>(limits.sm_count);
  out.launch_us = constants.launch_us + constants.ramp_us + work.start_us;
  out.memory_us = memory_time(limits, work.bytes_read, work.bytes_written, work.read_priority);
  // A grid smaller than the device leaves SMs, and their issue slots, idle.
  const double busy = std::clamp(static_cast<double>(estimate.blocks), 1.0, sms);
  const double clocks_per_us = limits.clock_mhz;
  out.issue_us = issue_time(work.issue_slots, limits, busy);
  out.special_us = work.special / (limits.special_per_clock * clocks_per_us * busy);
  out.shared_us = work.shared_bytes / (limits.shared_bytes_per_clock * clocks_per_us * busy);
  out.l2_us = work.l2_bytes / (limits.l2_bytes_per_clock * clocks_per_us * busy);
  // Spilled registers are written and read through L1 and L2. What leaves L1 moves like global
  // memory.
  const double spilled = static_cast<double>(estimate.spilled_registers * kRegisterBytes) * 2.0 *
                         static_cast<double>(estimate.threads) *
                         static_cast<double>(estimate.blocks) * work.rounds;
  out.spill_us = spilled / (limits.memory_bytes_per_us * limits.read_efficiency);
  const auto add_total = [&](double bound_us) {
    const double rest_us = out.launch_us + bound_us + out.exposed_us + out.second_stage_us;
    // Few spills cause little traffic, but they add waits to a thread's dependent instructions.
    const auto waited_for =
        std::min(static_cast<double>(estimate.spilled_registers), constants.most_spills_waited_for);
    out.spill_us += constants.spill_share * waited_for * rest_us;
    out.total_us = rest_us + out.spill_us;
  };

  double rest = std::max({out.memory_us, out.l2_us, out.special_us, out.shared_us});
  // Latency of idle DRAM, by Little's law.
  const double idle_latency_us = constants.non_persistent.idle_latency_share *
                                 limits.bytes_in_flight_per_sm * sms / limits.memory_bytes_per_us;
  const double throughput = std::max(rest, out.issue_us);
  const double waves = std::max(estimate.waves, estimate.blocks > 0 ? 1.0 : 0.0);
  // A grid that does not fill the device has fewer blocks per SM to hide latency.
  const double blocks =
      std::clamp(static_cast<double>(estimate.blocks) / sms, 1.0,
                 static_cast<double>(std::max<int64_t>(estimate.blocks_per_sm, 1)));
  const double warps = blocks * static_cast<double>(estimate.threads) / kWarp;
  const double free = std::max(blocks, warps / constants.free_warps);
  const double resident = work.has_barriers ? blocks : free;
  const auto exposed = [&](double latency_ns, double beside) {
    return waves * (latency_ns / kNsPerUs) / beside;
  };
  if (work.partial_bytes > 0.0 && work.last_block_us <= 0.0) {
    out.second_stage_us = second_kernel_time(work.partial_bytes, limits);
  } else {
    out.second_stage_us = work.last_block_us;
  }
  if (work.thread_instructions > 0.0) {
    const NonPersistentGrid& non_persistent = constants.non_persistent;
    const double own_us =
        non_persistent.clocks_per_instruction * work.thread_instructions / clocks_per_us;
    out.block_latency_us = work.block_latency_ns / kNsPerUs + own_us;
    // SMs that clusters leave idle compute nothing. The SMs that load still saturate memory.
    const double working = std::min(busy, sms - static_cast<double>(estimate.idle_sms));
    for (double* const computed_us : {&out.issue_us, &out.special_us, &out.shared_us})
      *computed_us *= busy / working;
    if (work.reads_rows_again) {
      out.memory_us *= 1.0 + non_persistent.second_reads_share +
                       non_persistent.missed_reads_share * work.missed_again;
    }
    if (work.loads_late) out.memory_us *= 1.0 + non_persistent.late_loads_share;
    // Terms of reductions that store nothing along the row. They fade as the share of writes grows.
    const double uneven = 1.0 - evenness(work.bytes_read, work.bytes_written);
    const double sum_share = work.walks_rows && !work.reads_rows_again ? uneven * uneven : 0.0;
    const double computing = work.element_slots / (non_persistent.balanced_slots_per_byte *
                                                   std::max(work.bytes_read, 1.0));
    const double idle_share = std::max(0.0, 1.0 - computing);
    out.memory_us *= 1.0 + sum_share * idle_share * idle_share * idle_share *
                               non_persistent.row_doubling_share * std::log2(work.rows_at_once);
    rest = std::max({out.memory_us, out.l2_us, out.special_us, out.shared_us});
    out.issue_us *= std::pow(non_persistent.busy_warps / warps, non_persistent.warps_exponent);
    // Warps that wait for an instruction fetch issue nothing.
    out.issue_us +=
        work.fetched_text_bytes / (constants.text_bytes_per_clock * clocks_per_us * working);
    // Little's law: reads come in rounds of the bytes in flight, and each round takes the latency
    // of idle DRAM. The first round is part of the critical path already.
    const double on_its_way = estimate.bytes_in_flight_per_sm * blocks * busy /
                              static_cast<double>(std::max<int64_t>(estimate.blocks_per_sm, 1));
    // Rows of one element are read by one thread each; their bytes in flight are not known.
    const double rounds = on_its_way > 0.0 ? work.bytes_read / on_its_way : 0.0;
    const double in_rounds_us = std::max(0.0, rounds - 1.0) * idle_latency_us;
    // With few resident blocks, loads and computation alternate.
    const double alternation_us =
        non_persistent.alternation_share * std::min(out.memory_us, out.issue_us) / blocks;
    // A copy of 8 bytes takes the data path of L1 as long as one of 16.
    const double narrow_us =
        work.narrow_copy_bytes / (limits.shared_bytes_per_clock * clocks_per_us * working);
    const double bound_us =
        std::max({rest, out.issue_us, in_rounds_us}) + alternation_us + narrow_us;
    // The data that a wave wrote leaves L2 while the next wave waits.
    const double draining_us =
        non_persistent.draining_ns_per_byte * work.bytes_written / (waves * sms * kNsPerUs);
    const double compute_share = computing / non_persistent.waiting_compute_share;
    const double hidden = sum_share * std::max(0.0, 1.0 - compute_share * compute_share);
    const double lone = work.waits_for_copies ? 0.0 : non_persistent.lone_overlap;
    const double beside = blocks - 1.0 + lone;
    const double exponent =
        1.0 + non_persistent.overlap * std::pow(beside, non_persistent.overlap_growth);
    const double wait_us = (1.0 - hidden) * std::max(0.0, out.block_latency_us - draining_us);
    const double both_us = std::pow(
        std::pow(bound_us, exponent) + std::pow((std::ceil(waves) - 1.0) * wait_us, exponent),
        1.0 / exponent);
    out.exposed_us = both_us - bound_us +
                     non_persistent.last_share *
                         std::min(1.0, static_cast<double>(estimate.blocks) / sms) *
                         out.block_latency_us;
    out.models_latency = true;
    add_total(bound_us);
    return out;
  }
  out.block_latency_us = (work.block_latency_ns + work.free_latency_ns) / kNsPerUs;
  out.exposed_us = exposed(work.block_latency_ns, resident) + exposed(work.free_latency_ns, free) +
                   work.end_ns / kNsPerUs + work.uneven_us;
  const double slots_us =
      work.loads_once ? std::max(0.0, waves - 1.0) * (out.block_latency_us + idle_latency_us) : 0.0;
  add_total(overlapped_time(throughput, slots_us, constants));
  return out;
}

double overlapped_time(double throughput_us, double chain_us, const CostConstants& constants) {
  const double exponent = constants.pipeline_overlap_exponent;
  return std::pow(std::pow(throughput_us, exponent) + std::pow(chain_us, exponent), 1.0 / exponent);
}

}  // namespace sinter
