#pragma once

#include <map>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// Loads row values that are read from memory a row ahead, for drivers whose threads take one row
/// after the other: nothing else in a row's chain of waits is as long as their way from memory.
class PrefetchedRowValues {
 public:
  PrefetchedRowValues(const SegmentFacts& facts, kir::KernelBuilder& builder, TileLowering& tiles)
      : facts_(facts), builder_(builder), tiles_(tiles) {}

  /// Declares a register for each.
  void declare();
  [[nodiscard]] bool empty() const { return next_.empty(); }
  /// Starts loading those of a row, which must exist. Leaves the tiles in no row.
  void load(kir::ExprId row);
  /// Makes what was loaded that of `row`, which the tiles then have entered, and starts loading for
  /// `next`, if that `exists`; invalid: it does.
  void advance(kir::ExprId row, kir::ExprId next, kir::ExprId exists = {});

 private:
  const SegmentFacts& facts_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  std::map<ValueId, kir::VarId> next_;
};

}  // namespace sinter
