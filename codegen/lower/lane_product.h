#pragma once

#include <functional>

#include "codegen/lower/tile_product.h"

namespace sinter {

/// Lowers a contraction of two tiles in shared memory into a fragment, by arithmetic of single
/// lanes. A lane has the accumulators that matrix instructions would give it (kir::Mma), so that
/// what follows a contraction does not depend on its unit. It reads a chunk of 16 bytes along the
/// contracted axis of each of its rows and columns at once; of a transposed operand, adjacent
/// elements of one step along that axis.
class LaneProduct : TileProduct {
 public:
  /// The arguments must outlive the object.
  LaneProduct(const ProgramScope& scope, const program::Contract& contract)
      : TileProduct(scope, contract) {}

  /// Combines one stage (i32) of the tiles, which begins at `begin` (i64) of the contracted axis.
  void add(kir::ExprId stage, kir::ExprId begin);

  /// The value of an accumulator before the first element.
  static kir::ExprId identity(kir::KernelBuilder& builder, ContractFn fn, DType type);

 private:
  struct Operand {
    const program::Tile& tile;
    kir::BufferId shared;
    kir::VarId registers;
    kir::ExprId begin;   ///< Of the warp's part along the operand's own axis, i32.
    bool is_transposed;  ///< The rows of the tile are parts of the contracted axis.
    /// Elements along the own axis that a lane has: `instructions` times `of_instruction`.
    int64_t instructions, of_instruction;
    int64_t adjacent;            ///< Of them, those that lie side by side.
    int64_t instruction_extent;  ///< Elements of an instruction along the own axis.
    kir::ExprId first;           ///< The lane's first element of an instruction, i32.
  };
  [[nodiscard]] Operand operand(program::TileId id);
  /// Loads chunk `chunk` (i32) of an operand, or element `k` (i32) of the stage of a transposed
  /// one.
  void load_chunk(const Operand& operand, kir::ExprId stage, kir::ExprId chunk);
  void load_step(const Operand& operand, kir::ExprId stage, kir::ExprId k);
  /// Element `number` (i32) of those that the lane has, at step `k` (i32) of the chunk.
  [[nodiscard]] kir::ExprId value(const Operand& operand, kir::ExprId number, kir::ExprId k) const;
  /// Combines step `k` (i32) of the chunk with all accumulators.
  void combine(const Operand& left, const Operand& right, kir::ExprId k);
};

}  // namespace sinter
