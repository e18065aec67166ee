#include "codegen/lower/row_inputs.h"

namespace sinter {

void load_input(kir::KernelBuilder& builder, TileLowering& tiles, const RowInputs& inputs,
                ValueId value, const TilePosition& at) {
  const auto staged = inputs.staged.find(value);
  if (staged == inputs.staged.end()) {
    tiles.load(value, at);
    return;
  }
  const kir::ExprId column = builder.cast(at.first_column, DType::kI32);
  tiles.load_shared(value, at, staged->second, builder.add(inputs.start, column));
}

}  // namespace sinter
