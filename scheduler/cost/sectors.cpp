#include "scheduler/cost/sectors.h"
#include "scheduler/analysis/cuda_units.h"

#include <algorithm>
#include <cstdlib>

#include "scheduler/cost/cost_model.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/schedule/tile_space.h"

namespace sinter {

bool lies_apart(const TensorAccess& access) {
  return !access.strides.empty() && std::abs(access.strides.back()) > 1;
}

SectorWaste sector_waste(const SegmentFacts& facts, const TensorAccess& access,
                         const ElementWalk& walk, const DeviceLimits& limits) {
  constexpr double kLineBytes = 128.0;
  const IterationSpace& space = facts.space;
  const auto bytes = static_cast<double>(bytes_of(facts.fusion.values[access.tensor].type));
  const auto fastest = fastest_dimension(space, access);
  const auto innermost = space.dimensions.size() - 1;
  const double elements = static_cast<double>(space.rows) * static_cast<double>(space.columns);
  SectorWaste out;
  // A warp whose threads all access the same element touches one sector.
  if (!fastest || access.strides[innermost] == 0) {
    out.l1_bytes = elements * kSectorBytes / kWarp;
    return out;
  }
  const double step = static_cast<double>(std::abs(access.strides[innermost])) * bytes;
  const double touched = std::min(kSectorBytes, step);  // Sector bytes per element.
  // With vectors accessed element by element, each access of a warp touches every width-th element.
  const double accessed = std::min(kSectorBytes, step * static_cast<double>(walk.width));
  out.l1_bytes = elements * accessed;
  if (touched <= bytes) return out;

  // Bytes that the walk touches until it reaches the rest of a sector, and how many elements of a
  // sector a block has.
  double inner = 1.0;
  for (size_t i = *fastest + 1; i < space.dimensions.size(); ++i)
    inner *= static_cast<double>(space.dimensions[i].size);
  const double between = inner * touched;
  const double apart = static_cast<double>(std::abs(access.strides[*fastest])) * bytes;
  const double neighbours = *fastest == innermost
                                ? 1.0
                                : std::clamp(kSectorBytes / apart, 1.0,
                                             static_cast<double>(space.dimensions[*fastest].size));
  const double l1_bytes = limits.cost.l1_row_share * static_cast<double>(unified_l1_bytes(limits)) /
                          static_cast<double>(std::max<int64_t>(walk.blocks_per_sm, 1));
  const double in_block =
      between > l1_bytes
          ? 1.0
          : std::clamp(static_cast<double>(walk.block_elements) / inner, 1.0, neighbours);
  const double missed = elements * std::max(touched / in_block - bytes, 0.0);
  out.l2_bytes = walk.stores ? elements * (accessed - bytes) : missed;
  if (neighbours > 1.0 && between <= static_cast<double>(limits.l2_bytes) / 2.0) return out;
  out.memory_bytes = missed;
  if (!walk.stores) return out;
  out.memory_bytes += missed + elements * bytes;
  const double lines =
      elements * std::min(1.0, step * static_cast<double>(walk.width) / kLineBytes);
  out.l2_bytes = std::max(out.l2_bytes, 2.0 * lines * kLineBytes - elements * bytes);
  return out;
}

namespace {

/// Waste of the full tensors for which `counts` is true.
template <class Counts>
StridedWaste waste_of(const SegmentFacts& facts, const Schedule& schedule,
                      const ResourceEstimate& estimate, const DeviceLimits& limits, Counts counts) {
  ElementWalk walk{.width = schedule.vector_width,
                   .block_elements = schedule.rows_per_block * facts.space.columns /
                                     std::max<int64_t>(schedule.cluster_size(), 1),
                   .blocks_per_sm = estimate.blocks_per_sm};
  StridedWaste out;
  const auto count = [&](const TensorAccess& access, double& moved) {
    if (!counts(access)) return;
    const SectorWaste waste = sector_waste(facts, access, walk, limits);
    out.l1_bytes += waste.l1_bytes;
    out.l2_bytes += waste.l2_bytes - waste.memory_bytes;
    moved += waste.memory_bytes;
  };
  for (const TensorAccess& access : facts.space.inputs) {
    if (facts.is_full(access.value)) count(access, out.read_bytes);
  }
  walk.stores = true;
  for (size_t i = 0; i < facts.space.outputs.size(); ++i) {
    if (facts.space.output_coverage[i].columns) count(facts.space.outputs[i], out.written_bytes);
  }
  return out;
}

}  // namespace

StridedWaste strided_waste(const SegmentFacts& facts, const Schedule& schedule,
                           const ResourceEstimate& estimate, const DeviceLimits& limits) {
  return waste_of(facts, schedule, estimate, limits, lies_apart);
}

StridedWaste stepped_waste(const SegmentFacts& facts, const Schedule& schedule,
                           const ResourceEstimate& estimate, const DeviceLimits& limits) {
  return waste_of(facts, schedule, estimate, limits, [&](const TensorAccess& access) {
    return lies_apart(access) &&
           fastest_dimension(facts.space, access) == facts.space.dimensions.size() - 1;
  });
}

}  // namespace sinter
