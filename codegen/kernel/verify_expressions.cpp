#include "codegen/kernel/verify_expressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "codegen/kernel/kernel_traversal.h"
#include "fusion_ir/result.h"

namespace sinter {
namespace {

using namespace kir;  // NOLINT(google-build-using-namespace): this file is about nothing else

bool is_arithmetic(DType type) { return type == compute_type(type) && type != DType::kBool; }

bool admits(Typing typing, DType type) {
  switch (typing) {
    case Typing::kSame:
      return is_arithmetic(type);
    case Typing::kFloat:
    case Typing::kTest:
      return type == DType::kF32 || type == DType::kF64;
    case Typing::kCompare:
      return is_arithmetic(type) || type == DType::kBool;
    case Typing::kLogic:
      return type == DType::kBool || type == DType::kI32 || type == DType::kI64;
    case Typing::kSelect:
      return true;
    case Typing::kRandom:
      return type == DType::kI64;
  }
  unreachable();
}

class ExpressionVerifier {
 public:
  ExpressionVerifier(const Kernel& kernel, std::vector<KernelViolation>* violations)
      : kernel_(kernel), violations_(violations) {}

  void run() {
    for (uint32_t i = 0; i < kernel_.exprs.size(); ++i) {
      current_ = ExprId{i};
      const Expr& expr = kernel_.exprs[current_];
      std::visit([&](const auto& x) { check(expr.type, x); }, expr.kind);
    }
  }

 private:
  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) {
    violations_->push_back(
        {fmt::format("{}", current_), fmt::format(format, std::forward<Args>(args)...)});
  }

  void expect(DType type, DType expected) {
    if (type != expected) report("is {}, not {}", type, expected);
  }

  void check(DType type, const IntegerConstant& x) {
    if (!holds_integer(type, x.value)) report("{} is no {}", x.value, type);
  }
  void check(DType type, const FloatConstant& x) {
    if (!is_float(type)) {
      report("{} is no {}", x.value, type);
    } else if (!std::isnan(x.value) && round_to(type, x.value) != x.value) {
      report("{} is rounded to no {}", x.value, type);
    }
  }
  void check(DType type, const VarRef& x) {
    const Var& var = kernel_.vars[x.var];
    if (!var.is_scalar()) report("tile {} ({}) as a scalar", x.var, var.name);
    expect(type, var.type);
  }
  void check(DType type, const ElementRef& x) { expect(type, kernel_.vars[x.tile].type); }
  void check(DType type, const SpecialRef&) { expect(type, DType::kI32); }
  void check(DType type, const ParamRef& x) { expect(type, kernel_.params[x.param].type); }
  void check(DType type, const CastExpr& x) {
    if (!x.to_tf32) return;
    expect(type, DType::kF32);
    expect(kernel_.exprs[x.argument].type, DType::kF32);
  }

  void check(DType type, const PointwiseExpr& x) {
    const PointwiseInfo& info = info_of(x.fn);
    if (static_cast<int>(x.arguments.size()) != info.arity) {
      report("{} of {} operands, not {}", info.text, x.arguments.size(), info.arity);
      return;
    }
    const auto operand = [&](size_t i) { return kernel_.exprs[x.arguments[i]].type; };
    const size_t first = info.typing == Typing::kSelect ? 1 : 0;
    if (first == 1 && operand(0) != DType::kBool) report("select by {}", operand(0));
    if (!admits(info.typing, operand(first))) report("{} of {}", info.text, operand(first));
    for (size_t i = first + 1; i < x.arguments.size(); ++i) {
      if (operand(i) != operand(first)) {
        report("{} of {} and {}", info.text, operand(first), operand(i));
      }
    }
    expect(type, result_type(x.fn, operand(first)));
    check_form(x, operand(first));
  }

  /// Checks that a form fits its function, and that its state has the right type.
  void check_form(const PointwiseExpr& x, DType operand) {
    const auto of = [&](bool may) {
      if (!may) report("{} of {} in the form {}", info_of(x.fn).text, operand, text_of(x.form));
    };
    const auto with_state = [&](DType type, int64_t lanes) {
      if (!x.state.valid() || !kernel_.vars.contains(x.state)) {
        report("{} in the form {} has no state", info_of(x.fn).text, text_of(x.form));
        return;
      }
      const Var& var = kernel_.vars[x.state];
      if (var.type != type || var.groups != 1 || var.lanes != lanes)
        report("{} ({}) is no state of the form {}", x.state, var.name, text_of(x.form));
    };
    switch (x.form) {
      case CallForm::kFastPath:
        of(has_fast_path_form(x.fn, operand));
        return with_state(DType::kBool, 1);
      case CallForm::kSharedRounds:
        of(x.fn == PointwiseFn::kPhiloxUniform);
        return with_state(DType::kI64, kRandomStateLanes);
      case CallForm::kCareful:
        of(has_fast_path_form(x.fn, operand));
        break;
      case CallForm::kOneOrMore:
        of(x.fn == PointwiseFn::kReciprocal && operand == DType::kF32);
        break;
      case CallForm::kGeneral:
        break;
    }
    if (x.state.valid()) report("{} has a state that nothing reads", info_of(x.fn).text);
  }

  const Kernel& kernel_;
  std::vector<KernelViolation>* violations_;
  ExprId current_;
};

}  // namespace

void verify_expressions(const Kernel& kernel, std::vector<KernelViolation>* violations) {
  ExpressionVerifier(kernel, violations).run();
}

bool TileIndexRanges::enter(const For& loop) {
  const auto constant = [&](ExprId id) {
    return std::get_if<IntegerConstant>(&kernel_.exprs[id].kind);
  };
  const IntegerConstant* begin = constant(loop.begin);
  const IntegerConstant* end = constant(loop.end);
  const IntegerConstant* step = constant(loop.step);
  if (begin == nullptr || end == nullptr || step == nullptr || step->value < 1) return false;
  loops_[loop.index] = {.begin = begin->value, .end = end->value, .step = step->value};
  return true;
}

/// Lists the loops that an index depends on; false if it depends on anything else.
bool TileIndexRanges::collect(ExprId id, std::vector<LoopValue>* loops) const {
  const Expr& expr = kernel_.exprs[id];
  if (const auto* ref = std::get_if<VarRef>(&expr.kind)) {
    if (loops_[ref->var].step == 0) return false;
    if (std::ranges::find(*loops, ref->var, &LoopValue::variable) == loops->end())
      loops->push_back({.variable = ref->var, .value = loops_[ref->var].begin});
    return true;
  }
  if (std::holds_alternative<IntegerConstant>(expr.kind)) return true;
  if (!std::holds_alternative<PointwiseExpr>(expr.kind) &&
      !std::holds_alternative<CastExpr>(expr.kind)) {
    return false;
  }
  bool known = !is_float(expr.type);
  for_each_operand(expr, [&](ExprId operand) { known = known && collect(operand, loops); });
  return known;
}

int64_t TileIndexRanges::value(ExprId id, std::span<const LoopValue> loops) const {
  const Expr& expr = kernel_.exprs[id];
  if (const auto* constant = std::get_if<IntegerConstant>(&expr.kind)) return constant->value;
  if (const auto* ref = std::get_if<VarRef>(&expr.kind))
    return std::ranges::find(loops, ref->var, &LoopValue::variable)->value;
  if (const auto* cast = std::get_if<CastExpr>(&expr.kind)) {
    const int64_t x = value(cast->argument, loops);
    if (expr.type != DType::kI32) return x;
    return std::clamp<int64_t>(x, std::numeric_limits<int32_t>::min(),
                               std::numeric_limits<int32_t>::max());
  }
  const auto& pointwise = std::get<PointwiseExpr>(expr.kind);
  std::vector<int64_t> operands;
  for (const ExprId argument : pointwise.arguments) operands.push_back(value(argument, loops));
  operands.resize(3);
  return evaluate_integer(pointwise.fn, expr.type, operands[0], operands[1], operands[2]);
}

TileIndexRange TileIndexRanges::of(ExprId index) const {
  constexpr int64_t kMostIterations = 65536;
  std::vector<LoopValue> loops;
  if (!collect(index, &loops)) return {.constant = false};
  for (const LoopValue& loop : loops) {
    const Iterations& it = loops_[loop.variable];
    if (it.begin >= it.end) return {};  // never runs
  }
  TileIndexRange range{.low = std::numeric_limits<int64_t>::max(),
                       .high = std::numeric_limits<int64_t>::min()};
  for (int64_t tried = 0; tried < kMostIterations; ++tried) {
    const int64_t x = value(index, loops);
    range.low = std::min(range.low, x);
    range.high = std::max(range.high, x);
    // Unsigned, because the most negative i64 has no positive counterpart.
    const uint64_t magnitude = x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
    range.common_divisor = std::gcd(range.common_divisor, magnitude);
    // Advance like an odometer.
    size_t digit = 0;
    for (; digit < loops.size(); ++digit) {
      const Iterations& it = loops_[loops[digit].variable];
      int64_t& x_at = loops[digit].value;
      // Unsigned, because the distance of two i64 can exceed i64.
      const uint64_t left = static_cast<uint64_t>(it.end) - static_cast<uint64_t>(x_at);
      if (left > static_cast<uint64_t>(it.step)) {
        x_at += it.step;
        break;
      }
      x_at = it.begin;
    }
    if (digit == loops.size()) break;
  }
  return range;
}

}  // namespace sinter
