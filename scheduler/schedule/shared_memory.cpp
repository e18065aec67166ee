#include "scheduler/schedule/shared_memory.h"

#include <algorithm>
#include <bit>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

int64_t exchange_bytes(const SegmentFacts& facts, const Stage& stage, const Schedule& schedule,
                       int64_t copies, int64_t rows) {
  const bool in_cluster = schedule.cluster_size() > 1;
  if (stage.reductions.empty() || facts.space.columns == 0 ||
      (schedule.threads_per_row <= kWarp && !in_cluster))
    return 0;
  // Rows of fewer threads than a warp share the mbarrier of their warp.
  const int64_t lanes = std::min(schedule.threads_per_row, kWarp);
  const int64_t groups = schedule.rows_per_block * lanes / kWarp;
  const int64_t slots = schedule.threads_per_block() / lanes * schedule.cluster_size();
  int64_t bytes = in_cluster ? copies * groups * kBytesPerMbarrier : 0;
  for (const OpId reduction : stage.reductions) {
    const Op& op = facts.fusion.ops[reduction];
    // If the threads synchronise between the two passes, a Welford pivot takes the place of the
    // count in the tuple.
    const auto types = exchange_types(facts.fusion, op);
    const auto add = [&](int64_t tuple_bytes) {
      bytes += rows * ((copies * slots * tuple_bytes + 15) / 16 * 16);
    };
    const int64_t together = in_cluster ? sent_together({types.data(), types.size()}) : 1;
    if (together > 1) {
      add(together * bytes_of(types.front()));
    } else {
      for (const DType type : types) add(bytes_of(travel_type(type)));
    }
  }
  return bytes;
}

int64_t message_places(const SegmentFacts& facts, const Stage& stage, const Schedule& schedule,
                       int64_t copies, int64_t rows) {
  if (facts.space.columns == 0) return 0;
  const int64_t slots = schedule.rows_per_block * schedule.cluster_size();
  int64_t places = 0;
  for (const OpId reduction : stage.reductions) {
    const auto types = exchange_types(facts.fusion, facts.fusion.ops[reduction]);
    places += rows * copies * slots * places_of_tuple(types.size());
  }
  return places;
}

int64_t kept_shared_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  const int64_t elements = elements_per_thread(facts, schedule) * schedule.threads_per_block();
  int64_t bytes = 0;
  for (const KeptValue& kept : schedule.kept) {
    if (kept.residency == Residency::kShared)
      bytes += (elements * bytes_of(facts.fusion.values[kept.value].type) + 15) / 16 * 16;
  }
  return bytes;
}

int64_t tile_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                          const StageList& list) {
  int64_t bytes = 0;
  for (const ValueId value : list.tile_row_values)
    bytes +=
        (schedule.rows_per_tile() * bytes_of(travel_type(facts.fusion.values[value].type)) + 15) /
        16 * 16;
  return bytes;
}

int64_t row_shared_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  return row_shared_bytes(facts, schedule, stages_of(facts, schedule));
}

int64_t row_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                         const StageList& list) {
  int64_t bytes = kept_shared_bytes(facts, schedule) + tile_shared_bytes(facts, schedule, list);
  // A loop over rows with a single barrier cannot separate a row's exchange from the next one's, so
  // rows alternate between two copies. So do all exchanges of a cluster, which has no barriers.
  const auto reducing = std::ranges::count_if(
      list.stages, [](const Stage& stage) { return !stage.reductions.empty(); });
  const bool alternates = reducing == 1 || schedule.cluster_size() > 1;
  const int64_t copies = schedule.persistent_blocks > 0 && alternates ? 2 : 1;
  for (size_t i = 0; i < list.stages.size(); ++i) {
    const Stage& stage = list.stages[i];
    // The synchronisation between the two passes is a further barrier, which separates the
    // exchanges of rows.
    const bool syncs = syncs_between_passes(facts, schedule, stage, i);
    bytes += exchange_bytes(facts, stage, schedule, syncs ? 1 : copies);
  }
  if (schedule.persistent_blocks > 0) {
    bytes += accumulator_shared_bytes(facts, schedule) + slot_exchange_bytes(facts, schedule) +
             total_exchange_bytes(facts, schedule) + last_block_shared_bytes(facts, schedule);
  }
  constexpr int64_t kUnit = 16;  // The mbarriers of a cluster may fill only half of the last unit.
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace sinter
