#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// What floats of a kernel are known to be at least, or NaN.
class ValueMinima {
 public:
  explicit ValueMinima(const kir::Kernel& kernel);

  /// Minus infinity if nothing is known.
  [[nodiscard]] double of(kir::ExprId expr) const;

 private:
  const kir::Kernel& kernel_;
  IdMap<kir::VarId, double> of_vars_;  ///< Of those that are given a value once.
};

}  // namespace sinter
