#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// Lower bounds of the f32 expressions of a kernel: each value is at least its bound, or NaN.
class ValueMinima {
 public:
  explicit ValueMinima(const kir::Kernel& kernel);

  /// The bound; minus infinity if nothing is known.
  [[nodiscard]] double of(kir::ExprId expr) const;

 private:
  const kir::Kernel& kernel_;
  IdMap<kir::VarId, double> of_vars_;  ///< Of variables that are assigned once.
};

}  // namespace sinter
