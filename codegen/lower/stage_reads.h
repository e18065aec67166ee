#pragma once

#include <set>
#include <vector>

#include "codegen/lower/row_residents.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/stages.h"

namespace sinter {

/// The values that are read into registers for a chunk before its elements are evaluated.
struct ChunkReads {
  std::vector<ValueId> inputs;  ///< Read from where the row's inputs are.
  std::vector<ValueId> shared;  ///< Read from shared memory, where they are kept.
  [[nodiscard]] bool empty() const { return inputs.empty() && shared.empty(); }
};

/// Finds the values that the stages of a row read: the leaves of their computation, except those
/// that registers already hold.
class StageReads {
 public:
  StageReads(const SegmentFacts& facts, const TileLowering& tiles, const RowResidents& residents)
      : facts_(facts), tiles_(tiles), residents_(residents) {}

  /// Reads of the whole work of stage s on an element.
  [[nodiscard]] ChunkReads of_stage(size_t s, const Stage& stage) const;
  /// Reads of another evaluation of `values` in stage s.
  [[nodiscard]] ChunkReads of_values(size_t s, const std::vector<ValueId>& values) const;

 private:
  void touch(ValueId value, size_t s, std::set<ValueId>& needed) const;
  [[nodiscard]] ChunkReads reads_of(size_t s, const std::set<ValueId>& needed) const;

  const SegmentFacts& facts_;
  const TileLowering& tiles_;
  const RowResidents& residents_;
};

}  // namespace sinter
