#include "codegen/lower/column_finish.h"

#include <map>
#include <vector>

namespace sinter {
namespace {

/// Outputs that are known only after all rows: those along the columns, or the others. Outputs
/// without elements are left out: if their empty axis is not an axis of the segment, they cover the
/// columns all the same.
std::vector<size_t> finished_outputs(const SegmentFacts& facts, bool along_columns) {
  std::vector<size_t> out;
  for (size_t i = 0; i < facts.fusion.outputs.size(); ++i) {
    const ValueId output = facts.fusion.outputs[i];
    if (facts.is_after_rows(output) && !facts.is_empty(output) &&
        facts.space.output_coverage[i].columns == along_columns)
      out.push_back(i);
  }
  return out;
}

}  // namespace

void store_finished_totals(const SegmentFacts& facts, TileLowering& tiles,
                           const std::function<void(const std::function<void()>&)>& when_first) {
  const std::vector<size_t> outputs = finished_outputs(facts, false);
  if (outputs.empty()) return;
  // Outputs along the columns may also depend on totals.
  for (const size_t output : outputs) tiles.row_value(facts.fusion.outputs[output]);
  when_first([&] {
    for (const size_t output : outputs) tiles.store_row_output(output);
  });
}

void store_finished_columns(const SegmentFacts& facts, kir::KernelBuilder& builder,
                            TileLowering& tiles, OuterAccumulators& accumulators,
                            const TilePosition& position) {
  for (const ValueId value : finish_loads(facts)) {
    tiles.bind_tile(value, tiles.declare_tile(value, 1), false);
    tiles.load(value, position);
  }
  std::map<size_t, kir::VarId> output_tiles;
  for (const size_t output : finished_outputs(facts, true))
    output_tiles[output] = tiles.declare_output_tile(output);
  const kir::ExprId zero = builder.integer(0);
  builder.unrolled("v", tiles.width(), [&](kir::ExprId lane) {
    tiles.begin_element(position, lane);
    accumulators.define_results(zero, lane);
    for (const auto& [output, tile] : output_tiles)
      builder.set(tile, zero, lane, tiles.output_element(output));
  });
  for (const auto& [output, tile] : output_tiles) tiles.store(output, tile, position);
}

}  // namespace sinter
