#pragma once

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/program/program.h"

namespace sinter::program {

/// How a kernel brings an operand of a contraction into shared memory.
struct OperandCopy {
  bool contracted_is_inner = true;  ///< Rows of the tile are parts of the contracted axis.
  CopyKind kind = CopyKind::kAsync;
  int64_t width = 1;  ///< Elements of one access along the inner axis.
  friend bool operator==(const OperandCopy&, const OperandCopy&) = default;
};

/// The copy with the widest accesses of an operand of the segment's contraction: of the operand of
/// the rows, or of the columns. Of equals, the one along the contracted axis.
OperandCopy operand_copy(const SegmentFacts& facts, bool of_rows);

}  // namespace sinter::program
