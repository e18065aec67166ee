#pragma once

#include <vector>

#include "fusion_ir/composites.h"
#include "tests/support/canned_fusions.h"

namespace sinter {

std::vector<CannedFusion> canned_pointwise();
std::vector<CannedFusion> canned_moves();
std::vector<CannedFusion> canned_reductions();
std::vector<CannedFusion> canned_norms();
std::vector<CannedFusion> canned_losses();
std::vector<CannedFusion> canned_gradients();
std::vector<CannedFusion> canned_structures();
std::vector<CannedFusion> canned_contractions();

/// A builder with the two extents that most canned fusions have.
struct MatrixBuilder {
  explicit MatrixBuilder(std::string name)
      : b(std::move(name)), rows(b.symbol("rows")), cols(b.symbol("cols")) {}

  ValueId matrix(DType type, std::string name) {
    return b.input(type, {rows, cols}, std::move(name));
  }
  ValueId column(DType type, std::string name) { return b.input(type, {rows}, std::move(name)); }
  ValueId row(DType type, std::string name) { return b.input(type, {cols}, std::move(name)); }
  /// One number per row, repeated along it.
  ValueId per_row(ValueId x) { return b.broadcast(x, {rows, cols}, {0}); }

  FusionBuilder b;
  Extent rows, cols;
};

/// Sizes of `rows` and `cols`.
inline ExtentValues matrix_extents(int64_t rows, int64_t cols) {
  return {{"rows", rows}, {"cols", cols}};
}
inline ExtentValues small_matrix() { return matrix_extents(5, 100); }
inline ExtentValues large_matrix() { return matrix_extents(8192, 8192); }

}  // namespace sinter
