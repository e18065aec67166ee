#include "codegen/lower/element_tile.h"
#include "scheduler/analysis/stages.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

void ElementTile::describe() {
  builder_.comment(fmt::format("{} elements per block: {} threads x {} elements x {} vectors",
                               size(), threads_, elements_.width, elements_.vectors));
}

void ElementTile::begin(ExprId tile) {
  const DType index = tiles_.column_type();
  const ExprId thread = builder_.cast(builder_.special(kir::Special::kThreadIndex), index);
  begin_ = builder_.ref(
      builder_.declare("tile_begin", builder_.mul(tile, builder_.integer(size(), index))));
  const ExprId width = builder_.integer(elements_.width, index);
  first_ =
      builder_.ref(builder_.declare("first", builder_.add(begin_, builder_.mul(thread, width))));
}

void ElementTile::evaluate(ExprId count, Predication tail) {
  const ExprId end = builder_.add(begin_, builder_.integer(size(), tiles_.column_type()));
  builder_.when(
      builder_.less_equal(end, count), [&] { body(Predication::kNone); },
      [&] {
        builder_.comment("the last tile reaches past the end");
        body(tail);
      });
}

TilePosition ElementTile::position(ExprId group, Predication predication) {
  const DType index = tiles_.column_type();
  const ExprId offset = builder_.mul(builder_.cast(group, index), builder_.integer(reach(), index));
  return {.group = group,
          .batch = group,
          .first_column = builder_.add(first_, offset),
          .predication = predication};
}

void ElementTile::body(Predication predication) {
  const Stage& stage = list_.stages[0];
  for (const ValueId value : stage.loads) {
    tiles_.bind_tile(value, tiles_.declare_tile(value, elements_.vectors), false);
  }
  builder_.unrolled("u", stage.loads.empty() ? 0 : elements_.vectors, [&](ExprId group) {
    for (const ValueId value : stage.loads) tiles_.load(value, position(group, predication));
  });
  builder_.unrolled("u", elements_.vectors, [&](ExprId group) {
    tiles_.evaluate_vector(stage.outputs, position(group, predication));
  });
  for (const ValueId value : stage.loads) tiles_.unbind_tile(value);
}

}  // namespace sinter
