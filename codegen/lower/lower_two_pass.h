#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "codegen/lower/row_kernel.h"

namespace sinter {

/// Lowers a schedule whose blocks take rows in turns (Schedule::rows_per_tile), for rows of any
/// width: none of a row is kept but a few row values.
///
///     for each turn
///       for each of its rows     reduce it; its row values go to shared memory
///       for each chunk of columns
///         accumulators = nothing yet, or what the turn before left
///         for each of its rows   load, store outputs, accumulate
///         partial results = accumulators
///     totals, which stay in registers all the time, are combined and stored
///
/// Blocks that have no row leave partial results of none. A block that takes all of its rows in one
/// turn writes its partial results once and reads none.
LoweredKernel lower_two_pass(RowKernel& k);

}  // namespace sinter
