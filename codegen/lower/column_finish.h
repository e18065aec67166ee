#pragma once

#include <functional>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/outer_accumulators.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// Evaluates and stores the outputs that follow from totals alone, once they are defined;
/// `when_first` emits what one thread of the kernel does.
void store_finished_totals(const SegmentFacts& facts, TileLowering& tiles,
                           const std::function<void(const std::function<void()>&)>& when_first);

/// Evaluates and stores the other outputs that follow from outer reductions at one vector of
/// columns, which is inside the row, from group 0 of the accumulators.
void store_finished_columns(const SegmentFacts& facts, kir::KernelBuilder& builder,
                            TileLowering& tiles, OuterAccumulators& accumulators,
                            const TilePosition& position);

}  // namespace sinter
