#include "fusion_ir/verifier.h"

#include <algorithm>
#include <set>

#include "fusion_ir/infer_results.h"

namespace sinter {
namespace {

constexpr size_t kPointwiseCount = 0
#define SINTER_POINTWISE(...) +1
#include "fusion_ir/op_list.def"
#undef SINTER_POINTWISE
    ;
constexpr size_t kReduceCount = 0
#define SINTER_REDUCE(...) +1
#include "fusion_ir/op_list.def"
#undef SINTER_REDUCE
    ;

bool is_known(DType type) { return static_cast<size_t>(type) < kAllDTypes.size(); }

bool is_known(const OpKind& kind) {
  if (kind.valueless_by_exception()) return false;
  if (const auto* op = std::get_if<PointwiseOp>(&kind)) {
    return static_cast<size_t>(op->fn) < kPointwiseCount;
  }
  if (const auto* op = std::get_if<ReduceOp>(&kind)) {
    return static_cast<size_t>(op->fn) < kReduceCount;
  }
  if (const auto* op = std::get_if<TupleReduceOp>(&kind)) return op->reduction != nullptr;
  if (const auto* op = std::get_if<ContractOp>(&kind)) {
    return op->fn <= ContractFn::kLogSumExp && op->precision <= ContractPrecision::kTf32;
  }
  return true;
}

bool declares_known_types(const OpKind& kind) {
  const auto* external = std::get_if<ExternalOp>(&kind);
  return external == nullptr ||
         std::ranges::all_of(external->results,
                             [](const ResultType& result) { return is_known(result.type); });
}

class Verifier {
 public:
  explicit Verifier(const Fusion& fusion) : fusion_(fusion) {}

  std::vector<Violation> run() {
    check_symbols();
    for (const OpId op : fusion_.op_ids()) check_op(op);
    for (size_t i = defined_; i < fusion_.values.size(); ++i) {
      report({}, ValueId{static_cast<uint32_t>(i)}, "no op produces this value");
    }
    check_inputs();
    check_outputs();
    return std::move(violations_);
  }

 private:
  void report(OpId op, ValueId value, std::string message) {
    violations_.push_back({.op = op, .value = value, .message = std::move(message)});
  }

  void check_symbols() {
    std::set<std::string_view> names;
    for (const Symbol& symbol : fusion_.symbols) {
      if (!is_identifier(symbol.name)) {
        report({}, {}, fmt::format("symbol name '{}' is not an identifier", symbol.name));
      }
      if (!names.insert(symbol.name).second) {
        report({}, {}, fmt::format("symbol '{}' is declared twice", symbol.name));
      }
      if (symbol.hint < 0 || symbol.divisible_by < 1 || symbol.hint % symbol.divisible_by != 0) {
        report({}, {},
               fmt::format("symbol '{}' has hint {} and divisor {}", symbol.name, symbol.hint,
                           symbol.divisible_by));
      }
    }
  }

  void check_op(OpId id) {
    const Op& op = fusion_.ops[id];
    const bool operands_sound = check_operands(id, op);
    const bool results_sound = check_results(id, op);
    if (!is_known(op.kind)) {
      report(id, {}, "the op's function is none that Sinter knows");
      return;
    }
    if (!declares_known_types(op.kind)) {
      report(id, {}, "an element type that the call declares is none that Sinter knows");
      return;
    }
    if (!operands_sound || !results_sound) return;
    // An op without results cannot state its type; inference then says how many it should have.
    const bool stated = !op.results.empty();
    const DType type = stated ? fusion_.values[op.results[0]].type : DType::kF32;
    const Shape shape = stated ? fusion_.values[op.results[0]].shape : Shape{};
    const auto inferred = infer_results(fusion_, op.kind, op.operands, type, shape);
    if (!inferred) {
      report(id, {}, inferred.error().message);
      return;
    }
    if (inferred->size() != op.results.size()) {
      report(id, {},
             fmt::format("{} has {} results, not {}", text_of(op.kind), inferred->size(),
                         op.results.size()));
      return;
    }
    for (size_t i = 0; i < inferred->size(); ++i) {
      const ResultType& expected = (*inferred)[i];
      const Value& value = fusion_.values[op.results[i]];
      if (value.type == expected.type && value.shape == expected.shape) continue;
      report(id, op.results[i],
             fmt::format("{} gives {}, but the value is {}", text_of(op.kind),
                         text_of(fusion_, expected.type, expected.shape),
                         text_of(fusion_, value.type, value.shape)));
    }
  }

  /// Operands are earlier values of known type, so that inference may look at them.
  bool check_operands(OpId id, const Op& op) {
    bool sound = true;
    for (const ValueId operand : op.operands) {
      if (!fusion_.values.contains(operand)) {
        report(id, operand, "the operand does not exist");
        sound = false;
      } else if (operand.index >= defined_) {
        report(id, operand, "the operand is not the result of an earlier op");
        sound = false;
      } else if (!is_known(fusion_.values[operand].type)) {
        sound = false;  // Reported where the value is defined.
      }
    }
    return sound;
  }

  bool check_results(OpId id, const Op& op) {
    bool sound = true;
    for (uint32_t i = 0; i < op.results.size(); ++i) {
      const ValueId result = op.results[i];
      if (!fusion_.values.contains(result)) {
        report(id, result, "the result does not exist");
        sound = false;
        continue;
      }
      if (result.index != defined_) {
        report(id, result,
               fmt::format("results are not numbered in op order: this one should be {}",
                           ValueId{defined_}));
        sound = false;
      }
      defined_ = std::max(defined_, result.index + 1);
      const Value& value = fusion_.values[result];
      if (value.def != id || value.result != i) {
        report(id, result,
               fmt::format("the value says that it is result {} of {}, but it is result {} of {}",
                           value.result, value.def, i, id));
      }
      if (!is_known(value.type)) {
        report(id, result, "the value's element type is none that Sinter knows");
        sound = false;
      }
    }
    return sound;
  }

  void check_inputs() {
    std::vector<ValueId> expected;
    for (const Op& op : fusion_.ops) {
      if (std::holds_alternative<InputOp>(op.kind)) {
        expected.insert(expected.end(), op.results.begin(), op.results.end());
      }
    }
    if (fusion_.inputs == expected) return;
    report({}, {},
           fmt::format("inputs are ({}), but the input ops make ({})",
                       fmt::join(fusion_.inputs, ", "), fmt::join(expected, ", ")));
  }

  void check_outputs() {
    if (fusion_.outputs.empty()) report({}, {}, "the fusion has no outputs");
    std::set<ValueId> seen;
    for (const ValueId output : fusion_.outputs) {
      if (!seen.insert(output).second) report({}, output, "the value is an output twice");
      if (!fusion_.values.contains(output)) {
        report({}, output, "the output does not exist");
        continue;
      }
      const OpId def = fusion_.values[output].def;
      if (fusion_.ops.contains(def) && std::holds_alternative<InputOp>(fusion_.ops[def].kind)) {
        report(def, output, "an input is an output");
      }
    }
    if (!fusion_.layouts.empty() && violations_.empty()) check_layouts();
  }

  void check_layouts() {
    if (fusion_.layouts.size() != fusion_.outputs.size()) {
      report({}, {},
             fmt::format("{} outputs have {} layouts", fusion_.outputs.size(),
                         fusion_.layouts.size()));
      return;
    }
    std::set<ValueId> taken;
    for (size_t i = 0; i < fusion_.outputs.size(); ++i) {
      const ValueId output = fusion_.outputs[i];
      if (!fusion_.values.contains(output)) continue;
      const ValueId alias = fusion_.layouts[i].alias;
      if (alias.valid() && !taken.insert(alias).second)
        report({}, output, fmt::format("another output lies in {} too", alias));
      if (auto checked = check_layout(fusion_, output, fusion_.layouts[i]); !checked)
        report({}, output, checked.error().message);
    }
  }

  const Fusion& fusion_;
  uint32_t defined_ = 0;  ///< Values below this id are results of the ops checked so far.
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> verify(const Fusion& fusion) { return Verifier(fusion).run(); }

std::string text_of(const std::vector<Violation>& violations) {
  std::string out;
  for (const Violation& violation : violations) {
    std::string where;
    if (violation.op.valid()) where += fmt::format("{}", violation.op);
    if (violation.value.valid()) {
      where += fmt::format("{}{}", where.empty() ? "" : " ", violation.value);
    }
    out += fmt::format("{}{}{}\n", where, where.empty() ? "" : ": ", violation.message);
  }
  return out;
}

}  // namespace sinter
