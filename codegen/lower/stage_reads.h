#pragma once

#include <set>
#include <vector>

#include "codegen/lower/row_residents.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/stages.h"

namespace sinter {

/// What a chunk reads into registers before its elements are evaluated.
struct ChunkReads {
  std::vector<ValueId> inputs;  ///< From where the row's inputs are.
  std::vector<ValueId> shared;  ///< Kept in shared memory.
  [[nodiscard]] bool empty() const { return inputs.empty() && shared.empty(); }
};

/// Finds what the stages of a row read: the values that their work comes down to, once what
/// registers hold already is left out.
class StageReads {
 public:
  StageReads(const SegmentFacts& facts, const TileLowering& tiles, const RowResidents& residents)
      : facts_(facts), tiles_(tiles), residents_(residents) {}

  /// Of everything that stage s does with an element.
  [[nodiscard]] ChunkReads of_stage(size_t s, const Stage& stage) const;
  /// Of another look at some values in stage s.
  [[nodiscard]] ChunkReads of_values(size_t s, const std::vector<ValueId>& values) const;

 private:
  void touch(ValueId value, size_t s, std::set<ValueId>& needed) const;
  [[nodiscard]] ChunkReads reads_of(size_t s, const std::set<ValueId>& needed) const;

  const SegmentFacts& facts_;
  const TileLowering& tiles_;
  const RowResidents& residents_;
};

}  // namespace sinter
