#include "scheduler/families/pipeline_time.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/budgets/row_resources.h"
#include "scheduler/cost/sectors.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/pipeline.h"

namespace sinter {
namespace {

/// Bytes that a block must have in flight, in addition to the rows that its groups work on: `times`
/// the bytes that arrive at the block within the memory latency, by Little's law for its share of
/// the bandwidth.
double bytes_needed_in_flight(const Schedule& schedule, const DeviceLimits& limits, double times) {
  const double per_block = limits.cost.memory_wait_ns / 1000.0 * limits.memory_bytes_per_us /
                           static_cast<double>(limits.sm_count * schedule.min_blocks_per_sm);
  return times * per_block;
}

/// Factor on the memory time of pipelines with too few or too many bytes in flight.
double depth_penalty(int64_t row_bytes, const Schedule& schedule, const ResourceEstimate& estimate,
                     const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const int64_t held_rows = schedule.rows_per_block * schedule.rows_per_iteration();
  const auto in_flight = static_cast<double>(row_bytes * (schedule.pipeline_stages() - held_rows));
  const double needed =
      bytes_needed_in_flight(schedule, limits, constants.pipeline_bytes_in_flight);
  const double starved = std::max(0.0, 1.0 - in_flight / needed);
  const double overfull =
      std::max(0.0, estimate.bytes_in_flight_per_sm / constants.pipeline_full_bytes - 1.0);
  return 1.0 + constants.pipeline_starved_penalty * starved +
         constants.pipeline_overfull_penalty * overfull;
}

/// Microseconds that a group waits for its first row.
double fill_time(int64_t row_bytes, const Schedule& schedule, double bytes_read,
                 double bytes_written, const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const auto pipeline_bytes =
      static_cast<double>(row_bytes * schedule.pipeline_stages() * schedule.persistent_blocks);
  return constants.pipeline_fill_share * std::min(bytes_read, pipeline_bytes) /
         mixed_bandwidth(limits, bytes_read, bytes_written);
}

/// Microseconds until the groups of a block have done its rows. `iteration_ns`: time of a group for
/// the rows of one iteration; `row_ns`: for a single row.
double chain_time(const Schedule& schedule, double rows, double iteration_ns, double row_ns,
                  const CostConstants& constants) {
  const auto groups = static_cast<double>(schedule.rows_per_block);
  const auto unrolled_rows = static_cast<double>(schedule.rows_per_iteration());
  // Groups take a block's rows in turn.
  const double group_ns = iteration_ns / (groups * unrolled_rows);
  // A pipeline stage is occupied while its rows are worked on, and then while its next rows are
  // loaded from memory.
  const double slot_ns = (iteration_ns + constants.pipeline_refill_ns) /
                         static_cast<double>(schedule.pipeline_stages());
  const double steady_us = rows * std::max(group_ns, slot_ns) / 1000.0;
  if (schedule.rows_per_iteration() == 1) return steady_us;
  // The last iterations use only some of the groups, and rows that do not fill an iteration are
  // worked on one by one.
  const double items = std::floor(rows / unrolled_rows);
  const double left = rows - items * unrolled_rows;
  const double longest_ns = std::max(std::ceil(items / groups) * iteration_ns,
                                     std::floor(items / groups) * iteration_ns + left * row_ns);
  return std::max(steady_us, longest_ns / 1000.0);
}

/// Weights that every row reads from cache, once for each stage that needs them.
std::vector<ValueId> cached_weights(const SegmentFacts& facts, const Schedule& schedule,
                                    const StageList& list) {
  std::vector<ValueId> out;
  for (const Stage& stage : list.stages) {
    std::ranges::copy_if(stage.loads, std::back_inserter(out), [&](ValueId value) {
      return !facts.is_full(value) && facts.space.dependence[value].columns &&
             !is_kept(schedule, value);
    });
  }
  return out;
}

/// Bytes of the weights that come from L2, because the pipeline leaves L1 too small.
double weight_bytes(const SegmentFacts& facts, const Schedule& schedule,
                    const std::vector<ValueId>& weights, const ResourceEstimate& estimate,
                    const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  double bytes = 0.0;
  for (const ValueId value : weights) {
    bytes += static_cast<double>(columns_per_block(facts, schedule) *
                                 bytes_of(facts.fusion.values[value].type));
  }
  if (bytes == 0.0) return 0.0;
  const auto shared = static_cast<double>(estimate.blocks_per_sm *
                                          (estimate.shared_bytes + limits.shared_bytes_reserved));
  const double l1 = std::max(0.0, static_cast<double>(unified_l1_bytes(limits)) - shared);
  const double overflow = 1.0 - constants.l1_row_share * l1 / bytes;
  return bytes * std::max(0.0, overflow);
}

}  // namespace

double bytes_in_flight(const SegmentFacts& facts, const Schedule& schedule,
                       const ResourceEstimate& estimate) {
  return static_cast<double>(pipeline_row_bytes(facts, schedule) * schedule.pipeline_stages() *
                             estimate.blocks_per_sm);
}

double exchange_time(const SegmentFacts& facts, const Schedule& schedule,
                     const CostConstants& constants) {
  if (!facts.has_reduction()) return 0.0;
  // In a cluster all warps wait at one mbarrier; there is no separate synchronisation of the block.
  if (schedule.cluster_size() > 1)
    return constants.pipeline_row_ns + cluster_exchange_time(schedule.cluster_size(), constants);
  return constants.pipeline_row_ns +
         constants.pipeline_warp_ns * static_cast<double>(schedule.threads_per_row) / kWarp;
}

PipelineWork pipeline_work(const SegmentFacts& facts, const Schedule& schedule,
                           const StageCosts& costs, const PipelineRegisters& registers,
                           const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const StageList& list = *costs.list;
  Schedule held = schedule;  // Consumers do not wait for memory: the producer does.
  held.unroll = 1;
  PipelineWork out{.work = estimate_row_work(facts, held, costs, estimate, limits),
                   .weights = cached_weights(facts, schedule, list)};
  WorkEstimate& work = out.work;
  // Repeated reads come from the pipeline.
  work.read_priority = schedule.read_priority;
  const StridedWaste strided = strided_waste(facts, schedule, estimate, limits);
  work.bytes_read = static_cast<double>(facts.bytes_read) + strided.read_bytes;
  work.l2_bytes = work.bytes_read + work.bytes_written + strided.l2_bytes;
  work.block_latency_ns = 0.0;
  double pipeline_reads = 0.0;
  double accumulated = 0.0;
  double accumulator_waits_ns = 0.0;
  for (const Stage& stage : list.stages) {
    const AccumulatorTraffic traffic = accumulator_traffic(facts, stage, schedule);
    accumulated += static_cast<double>(traffic.column_bytes);
    if (traffic.vector_accesses > 0) {
      accumulator_waits_ns +=
          constants.row.shared_chunk_ns * static_cast<double>(batch_count(facts, schedule));
    }
    for (const ValueId value : stage.loads) {
      if (facts.is_full(value))
        pipeline_reads += static_cast<double>(bytes_of(facts.fusion.values[value].type));
    }
  }
  const double elements =
      static_cast<double>(facts.space.rows) * static_cast<double>(facts.space.columns);
  const auto blocks = static_cast<double>(schedule.cluster_size());
  work.shared_bytes =
      strided.l1_bytes + elements * (pipeline_reads + accumulated) +
      static_cast<double>(facts.space.rows * pipeline_row_bytes(facts, schedule)) * blocks;
  const auto rows = static_cast<double>(std::max<int64_t>(facts.space.rows, 1));
  const auto threads = static_cast<double>(schedule.threads_per_row);
  out.exchange_ns = exchange_time(facts, schedule, constants);
  out.own_ns = constants.pipeline_instruction_ns * work.issue_slots / (rows * threads * blocks) +
               constants.pipeline_weight_ns *
                   static_cast<double>(std::ssize(out.weights) * batch_count(facts, schedule)) +
               accumulator_waits_ns;
  const double wanted = constants.pipeline_wanted_registers *
                        static_cast<double>(registers.needed) /
                        static_cast<double>(registers.launch);
  out.register_limit = 1.0 + constants.pipeline_register_limit * std::max(0.0, wanted - 1.0);
  return out;
}

Prediction predict_pipeline(const SegmentFacts& facts, const Schedule& schedule,
                            const PipelineWork& pipeline, const ResourceEstimate& estimate,
                            const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  WorkEstimate work = pipeline.work;
  work.l2_bytes += static_cast<double>(facts.space.rows * schedule.cluster_size()) *
                   weight_bytes(facts, schedule, pipeline.weights, estimate, limits);
  Prediction out = predict(work, estimate, limits);
  // Pipelines of losses, which accumulate only totals, stream at the same bandwidth as other reads;
  // with the memory share of gradients they are predicted too fast
  // (docs/experiments/constants_choices.md).
  const double share = accumulates_columns(facts) ? constants.pipeline_memory_share : 1.0;
  const int64_t row_bytes = pipeline_row_bytes(facts, schedule);
  out.memory_us *= share * depth_penalty(row_bytes, schedule, estimate, limits);
  out.l2_us *= share;
  const double warps = static_cast<double>(estimate.threads * estimate.blocks_per_sm) / kWarp;
  out.issue_us *=
      std::pow(constants.pipeline_busy_warps / warps, constants.pipeline_warps_exponent);
  const double throughput =
      std::max({out.memory_us, out.l2_us, out.issue_us, out.special_us, out.shared_us});
  // All rows of an iteration share one exchange.
  const double iteration_ns =
      pipeline.exchange_ns + static_cast<double>(schedule.rows_per_iteration()) * pipeline.own_ns;
  const double block_rows = std::ceil(static_cast<double>(facts.space.rows) /
                                      static_cast<double>(partial_rows(schedule)));
  const double chain_us =
      chain_time(schedule, block_rows, iteration_ns * pipeline.register_limit,
                 (pipeline.exchange_ns + pipeline.own_ns) * pipeline.register_limit, constants);
  const double together = overlapped_time(throughput, chain_us, constants);
  out.block_latency_us = iteration_ns * pipeline.register_limit / 1000.0;
  const double fill = fill_time(row_bytes, schedule, work.bytes_read, work.bytes_written, limits);
  out.exposed_us = fill + together - throughput;
  out.total_us = out.launch_us + throughput + out.exposed_us + out.spill_us + out.second_stage_us;
  return out;
}

double least_with_row_unroll(const SegmentFacts& facts, const ProposedSchedule& pipeline,
                             int64_t rows, std::span<const int64_t> slot_counts,
                             const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const Prediction& alone = pipeline.predicted;
  const int64_t row_bytes = pipeline_row_bytes(facts, pipeline.schedule);
  const double memory_us =
      alone.memory_us / depth_penalty(row_bytes, pipeline.schedule, pipeline.estimate, limits);
  Schedule schedule = pipeline.schedule;
  auto& own = std::get<WarpSpecialisedParameters>(schedule.parameters);
  own.rows_per_iteration = rows;
  const int64_t side = schedule.rows_per_block * rows;
  const int64_t least_rows = facts.space.rows / partial_rows(schedule);
  const auto block_rows = static_cast<double>(least_rows);
  const double chain_us = block_rows * alone.block_latency_us / static_cast<double>(side);
  double least_us = std::numeric_limits<double>::infinity();
  for (const int64_t slots : slot_counts) {
    own.pipeline_stages = slots * side;
    ResourceEstimate estimate = pipeline.estimate;
    estimate.bytes_in_flight_per_sm = bytes_in_flight(facts, schedule, estimate);
    const double throughput_us =
        std::max({memory_us * depth_penalty(row_bytes, schedule, estimate, limits), alone.issue_us,
                  alone.special_us, alone.shared_us});
    const double fill_us = fill_time(row_bytes, schedule, static_cast<double>(facts.bytes_read),
                                     static_cast<double>(facts.bytes_written), limits);
    least_us = std::min(least_us, overlapped_time(throughput_us, chain_us, constants) + fill_us);
  }
  return alone.launch_us + least_us + alone.second_stage_us;
}

}  // namespace sinter
