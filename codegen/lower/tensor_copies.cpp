#include "codegen/lower/tensor_copies.h"

#include "scheduler/program/program_walks.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

using kir::ExprId;
using program::MapLoop;

TensorCopies::TensorCopies(const ProgramScope& scope, const TileLowering& tiles,
                           const program::Copy& copy)
    : scope_(scope), builder_(scope.builder), copy_(copy), tile_(scope.tile(copy.tile)) {
  auto operand = program::operand_map(scope.facts, copy.of_rows, kMatmul);
  SINTER_CHECK(operand.has_value(), "the operand has a tensor map");
  operand_ = std::move(*operand);
  own_ = operand_.contracted_is_inner() ? tile_.rows.axis : tile_.columns.axis;
  const TensorAccess& access =
      copy.of_rows ? scope.contraction().rows : scope.contraction().columns;
  kir::TensorMap map{.name = tile_.name + "_map",
                     .buffer = tiles.buffer_of(access.tensor),
                     .offset = access.offset,
                     .swizzle = tile_.line_columns() * bytes_of(tile_.type),
                     // Matrix instructions of warp groups take f32 from shared memory as TF32.
                     // What is split is rounded then.
                     .to_tf32 = tile_.type == DType::kF32 &&
                                program::step_of<program::Split>(scope.program) == nullptr};
  for (const MapLoop& loop : operand_.axes) {
    kir::MapAxis axis{.size = loop.size, .stride = loop.stride};
    // Along the inner axis a box has one line, along the other all rows of the tile.
    if (map.axes.empty()) {
      axis.box = tile_.line_columns();
    } else if (loop.of != MapLoop::Of::kBatch) {
      axis.box = tile_.rows.extent;
    }
    for (const auto& [id, param] : scope.launched) {
      const bool is_own = loop.of == MapLoop::Of::kOwn && id == own_;
      const bool is_batch =
          loop.of == MapLoop::Of::kBatch && scope.program.axes[id].first_loop == 0;
      if (!is_own && !is_batch) continue;
      axis.size = 0;
      axis.launched = param;
    }
    map.axes.push_back(axis);
  }
  map_ = builder_.add_tensor_map(std::move(map));
}

/// The batch of the block's part: the axis of the first loop.
ExprId TensorCopies::batch() const {
  for (const auto& [axis, begin] : scope_.begins) {
    if (axis != own_ && scope_.program.axes[axis].first_loop == 0) return begin;
  }
  unreachable();
}

int64_t TensorCopies::bytes() const { return elements_of(tile_) * bytes_of(tile_.type); }

void TensorCopies::copy(ExprId begin, ExprId stage, kir::MbarrierId full) const {
  const int64_t line = tile_.line_columns();
  const ExprId first = builder_.mul(stage, scope_.i32(elements_of(tile_)));
  for (int64_t column = 0; column < tile_.columns.extent; column += line) {
    std::vector<ExprId> coordinates;
    for (const MapLoop& loop : operand_.axes) {
      ExprId at;
      switch (loop.of) {
        case MapLoop::Of::kContracted:
          at = begin;
          break;
        case MapLoop::Of::kOwn:
          at = builder_.cast(scope_.begins.at(own_), DType::kI32);
          break;
        case MapLoop::Of::kBatch:
          at = builder_.cast(batch(), DType::kI32);
          break;
      }
      if (coordinates.empty()) at = builder_.add(at, scope_.i32(column));
      coordinates.push_back(at);
    }
    builder_.append(
        kir::TensorCopy{.shared = scope_.shared.at(copy_.tile),
                        .shared_index = builder_.add(first, scope_.i32(column * tile_.rows.extent)),
                        .map = map_,
                        .coordinates = std::move(coordinates),
                        .array = full,
                        .index = stage,
                        .hint = hint_of(copy_)});
  }
}

}  // namespace sinter
