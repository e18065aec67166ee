#include "scheduler/budgets/budget.h"
#include "scheduler/analysis/kept_value.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace sinter {

ValueId largest_tensor(const SegmentFacts& facts, const Schedule& schedule) {
  ValueId largest;
  double most_bytes = -1.0;
  const auto weigh = [&](ValueId id) {
    if (!facts.fusion.values.contains(id)) return;
    const Value& value = facts.fusion.values[id];
    auto bytes = static_cast<double>(bytes_of(value.type));
    for (const Extent& extent : value.shape) bytes *= static_cast<double>(extent.constant());
    if (bytes <= most_bytes) return;
    largest = id;
    most_bytes = bytes;
  };
  for (const KeptValue& kept : schedule.kept)
    if (is_kept(kept)) weigh(kept.value);
  if (largest.valid()) return largest;
  for (const ValueId input : facts.fusion.inputs) weigh(input);
  for (const ValueId output : facts.fusion.outputs) weigh(output);
  return largest;
}

Rejection with_tensor(Rejection rejection, const SegmentFacts& facts, const Schedule& schedule) {
  constexpr std::array<std::string_view, 5> kUnits = {"threads", "blocks", "rows per block",
                                                      "batches", "vectors"};
  const bool is_budget = std::ranges::find(kUnits, rejection.unit) != kUnits.end();
  if (is_budget && rejection.value > rejection.limit && !rejection.at.valid())
    rejection.at = largest_tensor(facts, schedule);
  return rejection;
}

std::optional<Rejection> over_budget(const SegmentFacts& facts, const Schedule& schedule,
                                     const ResourceEstimate& estimate, const DeviceLimits& limits) {
  auto rejection = fits(estimate, limits);
  if (!rejection) return std::nullopt;
  rejection->subject = schedule.family;
  rejection->at = largest_tensor(facts, schedule);
  return rejection;
}

}  // namespace sinter
