#pragma once

#include <map>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// Where the inputs of the row at hand are: in global memory, but for those that somebody has
/// brought to shared memory whole. Whoever brings them also waits for them and says when their
/// place is free again; a reader need not know who it was.
struct RowInputs {
  std::map<ValueId, kir::BufferId> staged{};
  kir::ExprId start{};  ///< Element of each of these buffers at which column 0 is or would be, i32.
};

/// Loads one vector of an input into its bound tile, from where it is.
void load_input(kir::KernelBuilder& builder, TileLowering& tiles, const RowInputs& inputs,
                ValueId value, const TilePosition& at);

}  // namespace sinter
