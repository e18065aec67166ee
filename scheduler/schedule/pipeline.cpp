#include "scheduler/schedule/pipeline.h"

#include <algorithm>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/schedule/shared_memory.h"

namespace sinter {
namespace {

constexpr int64_t kUnit = 16;

int64_t rounded(int64_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

/// Calls body(bytes) with the element size of every row-wide input.
void for_pipeline_inputs(const SegmentFacts& facts, const auto& body) {
  for (const TensorAccess& access : facts.space.inputs) {
    if (facts.is_full(access.value)) body(bytes_of(facts.fusion.values[access.value].type));
  }
}

}  // namespace

int64_t specialised_threads(const Schedule& schedule) {
  return schedule.threads_per_block() + kProducerThreads;
}

std::vector<ValueId> pipeline_inputs(const SegmentFacts& facts) {
  std::vector<ValueId> out;
  for (const TensorAccess& access : facts.space.inputs) {
    if (facts.is_full(access.value)) out.push_back(access.value);
  }
  return out;
}

int64_t pipeline_slots(const Schedule& schedule) {
  return schedule.pipeline_stages() / schedule.rows_per_iteration();
}

int64_t pipeline_row_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  int64_t column_bytes = 0;
  for_pipeline_inputs(facts, [&](int64_t element_bytes) { column_bytes += element_bytes; });
  return columns_per_block(facts, schedule) * column_bytes;
}

int64_t bytes_beside_pipeline(const SegmentFacts& facts, const Schedule& schedule,
                              const StageList& list) {
  int64_t bytes = kept_shared_bytes(facts, schedule);
  // Consecutive iterations of a consumer group alternate between two copies of the exchange. Rows
  // left over at the end are processed one by one, with exchanges of their own.
  for (const Stage& stage : list.stages) {
    bytes += exchange_bytes(facts, stage, schedule, 2);
    if (schedule.rows_per_iteration() > 1)
      bytes += exchange_bytes(facts, stage, schedule, 2, schedule.rows_per_iteration());
  }
  return bytes + accumulator_shared_bytes(facts, schedule) + slot_exchange_bytes(facts, schedule) +
         total_exchange_bytes(facts, schedule) + last_block_shared_bytes(facts, schedule);
}

int64_t pipeline_shared_bytes(const SegmentFacts& facts, const Schedule& schedule, int64_t beside) {
  const int64_t elements = schedule.pipeline_stages() * columns_per_block(facts, schedule);
  int64_t bytes = beside;
  for_pipeline_inputs(facts,
                      [&](int64_t element_bytes) { bytes += rounded(elements * element_bytes); });
  return rounded(bytes + 2 * pipeline_slots(schedule) * kBytesPerMbarrier);
}

bool releases_early(const SegmentFacts& facts, const Schedule& schedule) {
  return std::ranges::all_of(pipeline_inputs(facts), [&](ValueId input) {
    return std::ranges::any_of(schedule.kept, [&](const KeptValue& kept) {
      return kept.value == input && kept.residency == Residency::kRegister;
    });
  });
}

}  // namespace sinter
