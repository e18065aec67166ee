#pragma once

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Bytes of a memory sector: an access to one element transfers its whole sector (CUDA programming
/// guide, "Device Memory Accesses"). L1 looks up four cache lines per clock. Scattered accesses use
/// one sector of each line, so they also get at most 128 bytes per clock.
inline constexpr double kSectorBytes = 32.0;

/// Bytes that a tensor moves beyond its elements if neighbouring threads do not access neighbouring
/// elements, so that an access uses only a part of each sector.
struct SectorWaste {
  double l1_bytes = 0.0;      ///< All sectors that accesses touch in L1, with the elements.
  double l2_bytes = 0.0;      ///< Between L1 and L2, beyond the elements.
  double memory_bytes = 0.0;  ///< Between L2 and DRAM, beyond the elements.
  friend bool operator==(const SectorWaste&, const SectorWaste&) = default;
};

/// True if elements that are adjacent in a row are not adjacent in the tensor's memory.
bool lies_apart(const TensorAccess& access);

/// How blocks walk the elements of a segment, in the order of the space's dimensions.
struct ElementWalk {
  int64_t width = 1;           ///< Consecutive elements of a thread.
  int64_t block_elements = 1;  ///< Consecutive elements of a block.
  int64_t blocks_per_sm = 1;   ///< Resident blocks, which share L1.
  bool stores = false;         ///< A store: L1 writes through and merges no partial sectors.
};

/// Waste of a tensor whose elements are accessed one by one. The rest of a sector is used when the
/// walk reaches the next coordinate of the dimension that is fastest in the tensor. Until then the
/// sector stays in L1, if that coordinate is in the same block and the sectors in between fit the
/// block's share of half of L1. For another block it stays in L2, if they fit half of L2. Otherwise
/// DRAM transfers it again.
///
/// A sector that leaves L2 partially written is merged with its content in DRAM, so it moves twice.
/// L2 reads and writes a whole line of 128 bytes if one warp stores to that line twice.
/// Measurements and predictions: docs/experiments/constants_cost.md.
SectorWaste sector_waste(const SegmentFacts& facts, const TensorAccess& access,
                         const ElementWalk& walk, const DeviceLimits& limits);

/// Waste of all tensors that a row kernel accesses element by element because adjacent elements of
/// a row are not adjacent in memory: transposed and strided inputs and outputs.
struct StridedWaste {
  double l1_bytes = 0.0;
  double l2_bytes = 0.0;       ///< Without DRAM traffic.
  double read_bytes = 0.0;     ///< From DRAM.
  double written_bytes = 0.0;  ///< To DRAM.
};
StridedWaste strided_waste(const SegmentFacts& facts, const Schedule& schedule,
                           const ResourceEstimate& estimate, const DeviceLimits& limits);
/// The same, only for tensors whose fastest dimension is the innermost one but has a stride: they
/// are contiguous along no dimension. For all other tensors, a walk down columns reaches the rest
/// of a sector in the next rows.
StridedWaste stepped_waste(const SegmentFacts& facts, const Schedule& schedule,
                           const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
