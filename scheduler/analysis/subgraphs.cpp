#include "scheduler/analysis/subgraphs.h"

#include <algorithm>
#include <set>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/infer_results.h"
#include "fusion_ir/operand_walk.h"
#include "fusion_ir/reduction_traits.h"

namespace sinter {
namespace {

class SubgraphBuilder {
 public:
  SubgraphBuilder(const SegmentFacts& facts, std::string_view suffix) : facts_(facts) {
    out_.fusion.name = fmt::format("{}_{}", source().name, suffix);
  }

  /// Adds an input [rows, columns] of partial results of an outer reduction, or [rows] of a total,
  /// and the reduction over its rows.
  void reduce_partials(OpId id, int64_t rows) {
    const Op& op = source().ops[id];
    const ValueId result = op.results.front();
    const Value& value = source().values[result];
    const Shape flat = facts_.is_total(id) ? Shape{} : Shape{Extent(facts_.space.columns)};
    Shape of_partials = {Extent(rows)};
    of_partials.insert(of_partials.end(), flat.begin(), flat.end());
    const ValueId partials = add_input(result, {.type = value.type,
                                                .shape = std::move(of_partials),
                                                .name = name_of(result) + "_partials"});
    const ValueId reduced =
        append(ReduceOp{.fn = reduction_by(traits_of(op.kind).components[0]), .axes = {0}},
               {partials}, {{.type = value.type, .shape = flat, .name = value.name}})
            .front();
    copies_[result] = value.shape == flat
                          ? reduced
                          : append(ReshapeOp{}, {reduced},
                                   {{.type = value.type, .shape = value.shape, .name = value.name}})
                                .front();
  }

  /// Makes a value an input, so that it is not computed.
  void read(ValueId value) {
    const Value& like = source().values[value];
    copies_[value] =
        add_input(value, {.type = like.type, .shape = like.shape, .name = name_of(value)});
  }

  /// Computes a value and makes it an output.
  void write(ValueId value) {
    const ValueId made = copy(value);
    const bool is_output = std::ranges::find(source().outputs, value) != source().outputs.end();
    OutputLayout layout = is_output ? source().layout_of(value) : OutputLayout{};
    layout.alias = {};  // Segments that write in place are not split.
    out_.fusion.add_output(made, layout);
    out_.in_plan[made] = value;
  }

  Subgraph take() { return std::move(out_); }

 private:
  [[nodiscard]] const Fusion& source() const { return facts_.fusion; }

  /// Appends an op whose results have the types and shapes of `results`.
  std::vector<ValueId> append(OpKind kind, std::vector<ValueId> operands,
                              const std::vector<Value>& results) {
    Fusion& fusion = out_.fusion;
    const OpId id =
        fusion.ops.push_back({.kind = std::move(kind), .operands = std::move(operands)});
    std::vector<ValueId> made;
    for (Value value : results) {
      value.def = id;
      made.push_back(fusion.values.push_back(std::move(value)));
    }
    fusion.ops[id].results = made;
    return made;
  }

  ValueId add_input(ValueId stands_for, Value value) {
    const ValueId made = append(InputOp{}, {}, {std::move(value)}).front();
    out_.fusion.inputs.push_back(made);
    out_.in_plan[made] = stands_for;
    return made;
  }

  [[nodiscard]] std::string name_of(ValueId value) const {
    const std::string& name = source().values[value].name;
    return name.empty() ? fmt::format("v{}", value.index) : name;
  }

  ValueId copy(ValueId value) {
    walk_operands(
        source(), value, [&](ValueId needed) { return !copies_.contains(needed); },
        [&](ValueId needed) { copy_one(needed); });
    return copies_.at(value);
  }

  /// Copies a value whose operands are copied.
  void copy_one(ValueId value) {
    const Op& op = source().def_of(value);
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) operands.push_back(copies_.at(operand));
    std::vector<Value> results;
    for (const ValueId result : op.results) results.push_back(source().values[result]);
    const std::vector<ValueId> made = append(op.kind, std::move(operands), results);
    for (size_t i = 0; i < made.size(); ++i) copies_[op.results[i]] = made[i];
    if (std::holds_alternative<InputOp>(op.kind)) {
      out_.fusion.inputs.push_back(made.front());
      out_.in_plan[made.front()] = value;
    }
  }

  const SegmentFacts& facts_;
  Subgraph out_;
  std::map<ValueId, ValueId> copies_;
};

/// Finds the row values that depend on inner reductions and are nearest to `from`, with one element
/// per row: broadcasts along the columns are left to the reader.
void find_passed(const SegmentFacts& facts, ValueId from, std::set<ValueId>& seen,
                 std::set<ValueId>& passed) {
  walk_operands(facts.fusion, from, [&](ValueId value) {
    if (!seen.insert(value).second) return false;
    const int64_t elements = element_count(facts.fusion.values[value].shape);
    const bool is_passed = !facts.space.dependence[value].columns && facts.level[value] > 0 &&
                           elements <= facts.space.rows && (elements > 0 || facts.space.rows == 0);
    if (is_passed) passed.insert(value);
    return !is_passed;
  });
}

}  // namespace

Subgraph finish_of(const SegmentFacts& facts, int64_t rows) {
  SubgraphBuilder builder(facts, "finish");
  // Empty results need no finish.
  for (const OpId id : facts.outer_reductions) {
    if (!facts.is_empty(facts.fusion.ops[id].results.front())) builder.reduce_partials(id, rows);
  }
  for (const ValueId output : facts.fusion.outputs) {
    if (facts.is_after_rows(output) && !facts.is_empty(output)) builder.write(output);
  }
  return builder.take();
}

RowsAndColumns split_rows_and_columns(const SegmentFacts& facts) {
  std::set<ValueId> seen;
  std::set<ValueId> passed;
  for (const OpId id : facts.outer_reductions)
    find_passed(facts, facts.fusion.ops[id].operands[0], seen, passed);
  RowsAndColumns out;
  SubgraphBuilder rows(facts, "rows");
  SubgraphBuilder columns(facts, "columns");
  for (const ValueId value : passed) columns.read(value);
  for (const ValueId output : facts.fusion.outputs)
    facts.is_after_rows(output) ? columns.write(output) : rows.write(output);
  for (const ValueId value : passed) {
    if (std::ranges::find(facts.fusion.outputs, value) != facts.fusion.outputs.end()) continue;
    rows.write(value);
    out.passed.push_back(value);
  }
  out.rows = rows.take();
  out.columns = columns.take();
  return out;
}

}  // namespace sinter
