#include "codegen/lower/prefetched_row_values.h"

namespace sinter {

using kir::ExprId;
using kir::VarId;

void PrefetchedRowValues::declare() {
  for (const TensorAccess& access : facts_.space.inputs) {
    const Dependence dependence = facts_.space.dependence[access.value];
    if (dependence.columns || !dependence.rows) continue;
    next_[access.value] = builder_.declare_scalar(tiles_.name_of_value(access.value) + "_next",
                                                  facts_.fusion.values[access.value].type);
  }
}

void PrefetchedRowValues::load(ExprId row) {
  tiles_.enter_row(builder_.ref(builder_.declare("next_row", row)));
  for (const auto& [value, next] : next_) builder_.assign(next, tiles_.row_value(value));
  tiles_.enter_row(ExprId{});
}

void PrefetchedRowValues::advance(ExprId row, ExprId next, ExprId exists) {
  tiles_.enter_row(row);
  if (next_.empty()) return;
  std::map<ValueId, VarId> current;
  for (const auto& [value, var] : next_)
    current[value] = builder_.declare(tiles_.name_of_value(value), builder_.ref(var));
  if (exists.valid()) {
    builder_.when(exists, [&] { load(next); });
  } else {
    load(next);
  }
  tiles_.enter_row(row);
  for (const auto& [value, var] : current) tiles_.define_row_value(value, builder_.ref(var));
}

}  // namespace sinter
