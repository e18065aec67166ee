#pragma once

#include <optional>
#include <vector>

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// An unrolled loop that can be run again from its start, and takes logarithms for which most
/// arguments need one instruction and few need twenty. Run in haste, it takes the instruction for
/// all and notes whether that was right for all; if it was not, it runs again with care. So a
/// branch stands after the loop and not around every element, whose work then overlaps.
struct FastPathLoop {
  /// Scalars from outside that it changes: to be as they were before it runs again.
  std::vector<kir::VarId> changed;
  /// Whether it leaves elements in tiles from outside.
  bool fills_tiles = false;
};

/// None for a loop of one turn, for one without logarithms of f32, and for one that cannot run
/// again: it touches memory or other threads, or reads a tile that it writes.
std::optional<FastPathLoop> find_fast_path_loop(const kir::Kernel& kernel, const kir::For& loop);

/// True for a call that a hasty loop makes in haste.
bool has_fast_path_form(const kir::Kernel& kernel, const kir::PointwiseExpr& call);

}  // namespace sinter
