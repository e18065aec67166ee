#pragma once

#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/program/program.h"

namespace sinter::program {

/// One axis of an operand as a tensor map sees it.
struct MapLoop {
  enum class Of : uint8_t { kContracted, kOwn, kBatch };
  Of of = Of::kContracted;
  int64_t size = 1;
  int64_t stride = 1;  ///< Elements from one index to the next.
  friend bool operator==(const MapLoop&, const MapLoop&) = default;
};

/// The axes of a tensor map over an operand of a contraction, innermost first: the contracted axis
/// and the operand's own, then the batches where it has any.
struct OperandMap {
  std::vector<MapLoop> axes;
  [[nodiscard]] bool contracted_is_inner() const {
    return axes.front().of == MapLoop::Of::kContracted;
  }
  friend bool operator==(const OperandMap&, const OperandMap&) = default;
};

/// The map of an operand of the segment's contraction: of the operand of the rows, or of the
/// columns. The failing side says what a tensor map cannot address (CUDA driver API,
/// "cuTensorMapEncodeTiled"): loops that do not join to one axis each, addresses and strides that
/// are no multiples of 16 bytes, no axis of adjacent elements.
tl::expected<OperandMap, Rejection> operand_map(const SegmentFacts& facts, bool of_rows,
                                                std::string_view family);

}  // namespace sinter::program
