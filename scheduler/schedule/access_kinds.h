#pragma once

#include <vector>

#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// access_kind() of every tensor of a segment. It is the same for all schedules of one vector width
/// and row access, so whoever tries many computes it once.
class AccessKinds {
 public:
  AccessKinds(const SegmentFacts& facts, const Schedule& schedule);

  /// Of a value that is read from memory.
  [[nodiscard]] AccessKind of_input(const SegmentFacts& facts, ValueId value) const {
    return inputs_[facts.space.input_places[value] - 1];
  }
  /// Of an output, by its index.
  [[nodiscard]] AccessKind of_output(size_t output) const { return outputs_[output]; }

 private:
  std::vector<AccessKind> inputs_;  ///< In the order of IterationSpace::inputs.
  std::vector<AccessKind> outputs_;
};

}  // namespace sinter
