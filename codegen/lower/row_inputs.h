#pragma once

#include <map>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// Where the inputs of the current row are: in global memory, except for those that the driver has
/// staged whole in shared memory. The driver also waits for these copies and releases their place.
struct RowInputs {
  std::map<ValueId, kir::BufferId> staged{};
  kir::ExprId start{};  ///< Index of column 0 in each of these buffers, i32; it may lie outside of
                        ///< the block's part.
};

/// Loads one vector of an input into its bound tile, from shared or global memory.
void load_input(kir::KernelBuilder& builder, TileLowering& tiles, const RowInputs& inputs,
                ValueId value, const TilePosition& at);

}  // namespace sinter
