#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "codegen/lower/row_kernel.h"

namespace sinter {

/// Lowers a two-pass schedule, whose blocks go twice through a tile of rows
/// (Schedule::rows_per_tile), for rows of any width: only a few row values of a row are kept.
///
///     for each tile of rows
///       for each of its rows     reduce it; its row values go to shared memory
///       for each chunk of columns
///         accumulators = identity, or the partial results after the previous tile
///         for each of its rows   load, store outputs, accumulate
///         partial results = accumulators
///     totals, which stay in registers throughout, are combined and stored
///
/// Blocks without rows write the identity as partial results. A block whose rows are all in one
/// tile writes its partial results once and reads none.
LoweredKernel lower_two_pass(RowKernel& k);

}  // namespace sinter
