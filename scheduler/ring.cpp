#include "scheduler/ring.h"

#include <algorithm>

#include "scheduler/row_schedule.h"

namespace sinter {
namespace {

constexpr int64_t kUnit = 16;

int64_t rounded(int64_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

int64_t parameter(const Schedule& schedule, std::string_view name) {
  const auto found = schedule.parameters.find(name);
  return found == schedule.parameters.end() ? 0 : found->second;
}

}  // namespace

int64_t ring_stages(const Schedule& schedule) { return parameter(schedule, "stages"); }
int64_t compute_registers(const Schedule& schedule) {
  return parameter(schedule, "compute_registers");
}

int64_t specialised_threads(const Schedule& schedule) {
  return schedule.threads_per_block() + kProducerThreads;
}

std::vector<ValueId> ring_inputs(const SegmentFacts& facts) {
  std::vector<ValueId> out;
  for (const TensorAccess& access : facts.space.inputs) {
    if (facts.is_full(access.value)) out.push_back(access.value);
  }
  return out;
}

int64_t ring_row_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  int64_t bytes = 0;
  for (const ValueId value : ring_inputs(facts))
    bytes += columns_per_block(facts, schedule) * bytes_of(facts.fusion.values[value].type);
  return bytes;
}

int64_t ring_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                          const StageList& list) {
  const int64_t stages = ring_stages(schedule);
  int64_t bytes = 0;
  for (const ValueId value : ring_inputs(facts))
    bytes += rounded(stages * columns_per_block(facts, schedule) *
                     bytes_of(facts.fusion.values[value].type));
  bytes += kept_shared_bytes(facts, schedule);
  // Rows of one group take turns with two copies of the exchange.
  for (const Stage& stage : list.stages) bytes += exchange_bytes(facts, stage, schedule, 2);
  bytes += slot_exchange_bytes(facts, schedule) + total_exchange_bytes(facts, schedule);
  return rounded(bytes + 2 * stages * kBytesPerMbarrier);
}

bool releases_early(const SegmentFacts& facts, const Schedule& schedule) {
  return std::ranges::all_of(ring_inputs(facts), [&](ValueId input) {
    return std::ranges::any_of(schedule.persistent, [&](const PersistentValue& kept) {
      return kept.value == input && kept.residency == Residency::kRegister;
    });
  });
}

}  // namespace sinter
