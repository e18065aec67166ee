#pragma once

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Memory moves in sectors: an access to one element brings all of its sector (CUDA programming
/// guide, "Device Memory Accesses"). L1 looks up four lines in a clock, of which such accesses use
/// one sector each, and so no more than its 128 bytes a clock.
inline constexpr double kSectorBytes = 32.0;

/// Bytes that one tensor moves beyond its elements where neighbouring threads do not have
/// neighbouring elements, in sectors of which an access uses a part.
struct SectorWaste {
  double l1_bytes = 0.0;      ///< Sectors that accesses touch in L1, in all; counted in full.
  double l2_bytes = 0.0;      ///< Between L1 and L2, beyond the elements.
  double memory_bytes = 0.0;  ///< Between L2 and memory, beyond the elements.
  friend bool operator==(const SectorWaste&, const SectorWaste&) = default;
};

/// True of a tensor whose elements lie apart in memory though they are side by side in a row.
bool lies_apart(const TensorAccess& access);

/// How blocks walk the elements of a segment, in the order of the space's dimensions.
struct ElementWalk {
  int64_t width = 1;           ///< Elements in a row that a thread has.
  int64_t block_elements = 1;  ///< Elements in a row that a block has.
  int64_t blocks_per_sm = 1;   ///< That share L1.
  bool stores = false;         ///< L1 writes through: nothing gathers there.
};

/// Waste of a tensor whose elements are accessed one by one. The rest of a sector is used when the
/// walk comes to the next coordinate of the dimension that the tensor is fastest along. Until then
/// it waits in L1, where that is in the same block and the sectors in between fit its share of half
/// of it; for other blocks in L2, where they fit half of that; else it comes from memory again.
///
/// What is stored of a sector that leaves L2 before the rest of it is stored too is put into what
/// comes from memory for it: such sectors move twice, and L2 has a line of 128 bytes that a warp
/// stores to twice, to read it and to write it. 8192 x 4096 negations in f32, stored 2, 3, 4 and 8
/// (of half as many columns) elements apart, take 229, 319, 409 and 388 us on an H100 where a
/// warp's elements are neighbours, for which this says 228, 318, 407 and 385; in vectors of four
/// 317, 544, 710 and 822 (benchmarks/results/h100_2026-11-26_strided_stores.json).
SectorWaste sector_waste(const SegmentFacts& facts, const TensorAccess& access,
                         const ElementWalk& walk, const DeviceLimits& limits);

/// Waste of all tensors that a row kernel accesses element by element because elements side by side
/// in a row lie apart in memory: transposed and strided inputs and outputs.
struct StridedWaste {
  double l1_bytes = 0.0;
  double l2_bytes = 0.0;       ///< Without what comes from memory or goes to it.
  double read_bytes = 0.0;     ///< From memory.
  double written_bytes = 0.0;  ///< To memory.
};
StridedWaste strided_waste(const SegmentFacts& facts, const Schedule& schedule,
                           const ResourceEstimate& estimate, const DeviceLimits& limits);
/// The same of those tensors alone whose elements lie apart along every dimension: what walks down
/// columns comes to the rest of the sectors of all others in the next rows.
StridedWaste stepped_waste(const SegmentFacts& facts, const Schedule& schedule,
                           const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
