#include "scheduler/budgets/row_resources.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/schedule/shared_memory.h"

namespace sinter {
namespace {

/// Bytes in flight of full tensors, per row in its block, in the first stage, which is the one that
/// reads from DRAM. A row that is kept as loaded, or fully unrolled, counts whole; of other rows
/// one chunk counts. Threads without a vector of the row load nothing.
double row_bytes_in_flight(const SegmentFacts& facts, const Stage& first,
                           const Schedule& schedule) {
  const int64_t batches = batch_count(facts, schedule);
  const double columns = static_cast<double>(facts.space.columns) /
                         static_cast<double>(std::max<int64_t>(schedule.cluster_size(), 1));
  const bool unrolls = unrolls_batches(facts, schedule);
  double bytes = 0.0;
  for (const ValueId value : first.loads) {
    if (!facts.is_full(value)) continue;
    const bool whole = unrolls || is_kept(schedule, value);
    const int64_t size = bytes_of(facts.fusion.values[value].type);
    const int64_t at_once = whole ? batches : std::min(schedule.unroll, batches);
    int64_t words = at_once * register_words(schedule.vector_width, size);
    // A row too short for a vector has only peeled elements.
    if (batches == 0) words += peeled_count(facts, schedule) * register_words(1, size);
    bytes += std::min(static_cast<double>(words * kRegisterBytes * schedule.threads_per_row),
                      columns * static_cast<double>(size));
  }
  return bytes;
}

}  // namespace

RowNeeds row_needs(const SegmentFacts& facts, const Schedule& schedule, const StageList& list) {
  const AccessKinds kinds(facts, schedule);
  StageRegisters registers(facts, list, kinds);
  return row_needs(facts, schedule, list, registers);
}

RowNeeds row_needs(const SegmentFacts& facts, const Schedule& schedule, const StageList& list,
                   StageRegisters& registers) {
  const RegisterEstimate estimate = registers.estimate(schedule);
  return {.registers = estimate.registers,
          .tile = estimate.tile,
          .prefetched_registers = estimate.prefetched,
          .shared_bytes = row_shared_bytes(facts, schedule, list)};
}

ResourceEstimate estimate_row_resources(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list, const DeviceLimits& limits) {
  return estimate_row_resources(facts, schedule, list, row_needs(facts, schedule, list), limits);
}

ResourceEstimate estimate_row_resources(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list, const RowNeeds& needs,
                                        const DeviceLimits& limits) {
  ResourceEstimate estimate;
  estimate.threads = schedule.threads_per_block();
  estimate.registers = std::max(
      registers_under_cap(needs.registers, needs.prefetched_registers,
                          register_cap(limits, estimate.threads, schedule.min_blocks_per_sm)),
      last_block_registers(facts, schedule));
  estimate.tile_registers = needs.tile;
  estimate.shared_bytes = needs.shared_bytes;
  estimate.blocks = (facts.space.rows + schedule.rows_per_block - 1) / schedule.rows_per_block *
                    schedule.cluster_size();
  if (schedule.persistent_blocks > 0) estimate.blocks = schedule.persistent_blocks;
  complete(estimate, limits, schedule.min_blocks_per_sm, schedule.cluster_size());
  if (schedule.accumulators() == Residency::kShared) {
    // The estimate already excludes registers that ptxas can do without, so all of the rest spills.
    // Measurement: docs/experiments/constants_cost.md.
    estimate.spilled_registers = std::max<int64_t>(0, estimate.registers - estimate.register_cap);
  }
  if (schedule.persistent_blocks > 0) {
    // Consecutive rows of a persistent grid's blocks count as waves.
    const int64_t reach = rows_at_once(schedule);
    const int64_t waves = (facts.space.rows + reach - 1) / reach;
    estimate.waves *= static_cast<double>(waves);
  }
  if (!list.stages.empty()) {
    estimate.bytes_in_flight_per_sm =
        row_bytes_in_flight(facts, list.stages[0], schedule) *
        static_cast<double>(existing_rows(facts, schedule) * estimate.blocks_per_sm);
  }
  return estimate;
}

Occupancies occupancies(const SegmentFacts& facts, const Schedule& schedule, const RowNeeds& needs,
                        const DeviceLimits& limits) {
  const int64_t registers =
      std::min(needs.registers - needs.prefetched_registers, limits.registers_per_thread);
  const int64_t shared = needs.shared_bytes;
  const int64_t threads = schedule.threads_per_block();
  Occupancies out;
  out.push_back(std::max<int64_t>(1, resident_blocks(limits, threads, registers, shared)));
  if (keeps_in_registers(schedule) &&
      batch_count(facts, schedule) * schedule.vector_width > kPrefetchedElements)
    return out;
  constexpr int64_t kMore = 2;
  for (int64_t blocks = out.front() + 1; blocks <= out.front() + kMore; ++blocks) {
    const int64_t cap = register_cap(limits, threads, blocks);
    if (cap < fewest_registers(registers, needs.tile)) break;
    if (resident_blocks(limits, threads, cap, shared) < blocks) break;
    out.push_back(blocks);
  }
  return out;
}

}  // namespace sinter
