#pragma once

#include "codegen/lower/program_scope.h"

namespace sinter {

/// What the lowerings of a contraction of two tiles in shared memory know of it.
class TileProduct {
 protected:
  /// The arguments must outlive the object.
  TileProduct(const ProgramScope& scope, const program::Contract& contract)
      : scope_(scope),
        builder_(scope.builder),
        contract_(contract),
        sum_(scope.tile(contract.accumulator)),
        shape_(program::matrix_shape(scope.program, contract)) {}

  /// The axis of an operand that the result has.
  [[nodiscard]] program::AxisId own_axis(program::TileId operand) const {
    return operand == contract_.left ? sum_.rows.axis : sum_.columns.axis;
  }
  /// True if the rows of an operand's tile are parts of the contracted axis.
  [[nodiscard]] bool is_transposed(program::TileId operand) const {
    return scope_.tile(operand).columns.axis == own_axis(operand);
  }
  /// The part of the contracted axis that a stage has.
  [[nodiscard]] const program::Span& depth() const {
    const program::Tile& left = scope_.tile(contract_.left);
    return is_transposed(contract_.left) ? left.rows : left.columns;
  }

  const ProgramScope& scope_;
  kir::KernelBuilder& builder_;
  const program::Contract& contract_;
  const program::Tile& sum_;
  program::MatrixShape shape_;
};

}  // namespace sinter
