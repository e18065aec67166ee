#pragma once

#include <map>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// Prefetches, one row ahead, the row values that are read from memory, for drivers whose threads
/// take rows one after the other. Their load latency would otherwise dominate a row's critical
/// path.
class PrefetchedRowValues {
 public:
  PrefetchedRowValues(const SegmentFacts& facts, kir::KernelBuilder& builder, TileLowering& tiles)
      : facts_(facts), builder_(builder), tiles_(tiles) {}

  /// Declares a register for each such value.
  void declare();
  [[nodiscard]] bool empty() const { return next_.empty(); }
  /// Starts the loads for a row, which must exist. Afterwards `tiles` has no current row.
  void load(kir::ExprId row);
  /// Enters `row` in `tiles` with the values that were loaded for it, and starts the loads for
  /// `next` if `exists` is true. An invalid `exists` means true.
  void advance(kir::ExprId row, kir::ExprId next, kir::ExprId exists = {});

 private:
  const SegmentFacts& facts_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  std::map<ValueId, kir::VarId> next_;
};

}  // namespace sinter
