#pragma once

#include "codegen/lower/program_scope.h"

namespace sinter {

/// Puts the fragment of a warp group into its part of a tile in shared memory, for the warps of the
/// epilogue. Waits until they have read what was there.
class FragmentHandover {
 public:
  /// The arguments must outlive the object.
  FragmentHandover(const ProgramScope& scope, const program::Handover& handover);

  void put();

 private:
  /// Puts the pairs of columns that the lane holds of every `period`-th instruction along a row,
  /// from `first` on.
  void put_columns(int64_t first, int64_t period);

  const ProgramScope& scope_;
  kir::KernelBuilder& builder_;
  const program::Handover& handover_;
  const program::Tile& fragment_;
  const program::Tile& tile_;
};

}  // namespace sinter
