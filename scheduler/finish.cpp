#include "scheduler/finish.h"

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/infer_results.h"

namespace sinter {
namespace {

class FinishBuilder {
 public:
  FinishBuilder(const SegmentFacts& facts, int64_t rows) : facts_(facts), rows_(rows) {}

  Finish run() {
    finish_.fusion.name = source().name + "_finish";
    for (const OpId id : facts_.outer_reductions) reduce_partials(source().ops[id]);
    for (const ValueId output : source().outputs) {
      if (!facts_.is_after_rows(output)) continue;
      const ValueId made = copy(output);
      finish_.fusion.outputs.push_back(made);
      finish_.in_plan[made] = output;
    }
    return std::move(finish_);
  }

 private:
  const Fusion& source() const { return facts_.fusion; }

  /// Appends an op whose results have the types and shapes of `like`, or those given.
  std::vector<ValueId> append(OpKind kind, std::vector<ValueId> operands,
                              const std::vector<Value>& results) {
    const OpId id = finish_.fusion.ops.push_back({.kind = std::move(kind), .operands = operands});
    std::vector<ValueId> out;
    for (Value value : results) {
      value.def = id;
      out.push_back(finish_.fusion.values.push_back(std::move(value)));
    }
    finish_.fusion.ops[id].results = out;
    return out;
  }

  void reduce_partials(const Op& op) {
    const ValueId result = op.results.front();
    const Value& value = source().values[result];
    const Shape flat = {Extent(facts_.space.columns)};
    const ValueId partials = append(InputOp{}, {},
                                    {{.type = value.type,
                                      .shape = {Extent(rows_), Extent(facts_.space.columns)},
                                      .name = name_of(result) + "_partials"}})
                                 .front();
    finish_.fusion.inputs.push_back(partials);
    finish_.in_plan[partials] = result;
    const ValueId reduced =
        append(ReduceOp{.fn = std::get<ReduceOp>(op.kind).fn, .axes = {0}}, {partials},
               {{.type = value.type, .shape = flat, .name = value.name}})
            .front();
    copies_[result] = value.shape == flat
                          ? reduced
                          : append(ReshapeOp{}, {reduced},
                                   {{.type = value.type, .shape = value.shape, .name = value.name}})
                                .front();
  }

  std::string name_of(ValueId value) const {
    const std::string& name = source().values[value].name;
    return name.empty() ? fmt::format("v{}", value.index) : name;
  }

  ValueId copy(ValueId value) {
    if (const auto found = copies_.find(value); found != copies_.end()) return found->second;
    const Op& op = source().def_of(value);
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) operands.push_back(copy(operand));
    std::vector<Value> results;
    for (const ValueId result : op.results) results.push_back(source().values[result]);
    const std::vector<ValueId> made = append(op.kind, std::move(operands), results);
    for (size_t i = 0; i < made.size(); ++i) copies_[op.results[i]] = made[i];
    if (std::holds_alternative<InputOp>(op.kind)) {
      finish_.fusion.inputs.push_back(made.front());
      finish_.in_plan[made.front()] = value;
    }
    return copies_.at(value);
  }

  const SegmentFacts& facts_;
  const int64_t rows_;
  Finish finish_;
  std::map<ValueId, ValueId> copies_;
};

}  // namespace

Finish finish_of(const SegmentFacts& facts, int64_t rows) {
  return FinishBuilder(facts, rows).run();
}

}  // namespace sinter
