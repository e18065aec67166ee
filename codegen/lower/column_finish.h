#pragma once

#include <functional>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/outer_accumulators.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// Evaluates and stores the outputs that depend on totals alone, after the totals are defined.
/// `when_first` emits a body that one thread of the kernel executes.
void store_finished_totals(const SegmentFacts& facts, TileLowering& tiles,
                           const std::function<void(const std::function<void()>&)>& when_first);

/// Evaluates and stores the other outputs that depend on outer reductions, for one vector of
/// columns. The vector is inside the row, and its columns are in group 0 of the accumulators.
void store_finished_columns(const SegmentFacts& facts, kir::KernelBuilder& builder,
                            TileLowering& tiles, OuterAccumulators& accumulators,
                            const TilePosition& position);

}  // namespace sinter
