#include "codegen/cuda/cuda_expression.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "fusion_ir/result.h"

namespace sinter {
namespace {

using kir::ExprId;

struct Infix {
  std::string_view symbol;
  Precedence precedence;
};

/// Functions that are operators of C++ for operands of `type`. Bitwise operators on bool would give
/// int, and so select the wrong overload in the enclosing expression.
std::optional<Infix> infix_of(PointwiseFn fn, DType type) {
  const bool logic = type == DType::kBool;
  switch (fn) {
    case PointwiseFn::kAdd:
      return Infix{"+", Precedence::kAdditive};
    case PointwiseFn::kSub:
      return Infix{"-", Precedence::kAdditive};
    case PointwiseFn::kMul:
      return Infix{"*", Precedence::kMultiplicative};
    case PointwiseFn::kAnd:
      return logic ? Infix{"&&", Precedence::kLogicalAnd} : Infix{"&", Precedence::kAnd};
    case PointwiseFn::kOr:
      return logic ? Infix{"||", Precedence::kLogicalOr} : Infix{"|", Precedence::kOr};
    case PointwiseFn::kXor:
      return logic ? Infix{"!=", Precedence::kEquality} : Infix{"^", Precedence::kXor};
    case PointwiseFn::kEq:
      return Infix{"==", Precedence::kEquality};
    case PointwiseFn::kNe:
      return Infix{"!=", Precedence::kEquality};
    case PointwiseFn::kLt:
      return Infix{"<", Precedence::kRelational};
    case PointwiseFn::kLe:
      return Infix{"<=", Precedence::kRelational};
    case PointwiseFn::kGt:
      return Infix{">", Precedence::kRelational};
    case PointwiseFn::kGe:
      return Infix{">=", Precedence::kRelational};
    default:
      return std::nullopt;
  }
}

Precedence tighter(Precedence precedence) {
  return static_cast<Precedence>(static_cast<int>(precedence) + 1);
}

std::string with_point(std::string digits) {
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

/// Decimal that reads back as the same number; the most negative integers have no literal in C++.
std::string integer_literal(int64_t value, DType type) {
  switch (type) {
    case DType::kBool:
      return value != 0 ? "true" : "false";
    case DType::kI64:
      if (value == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807LL - 1)";
      return fmt::format("{}LL", value);
    case DType::kI32:
      if (value == std::numeric_limits<int32_t>::min()) return "(-2147483647 - 1)";
      return fmt::format("{}", value);
    default:
      return fmt::format("({}){}", cuda_type(type), value);
  }
}

std::string float_literal(double value, DType type) {
  if (is_storage_only(type)) {
    return fmt::format("to_{}({})", name_of(type), float_literal(value, DType::kF32));
  }
  const bool single = type == DType::kF32;
  if (std::isnan(value)) return single ? "sinter_nan_f32()" : "sinter_nan_f64()";
  if (std::isinf(value)) {
    return fmt::format("{}sinter_inf_{}()", value < 0.0 ? "-" : "", single ? "f32" : "f64");
  }
  if (single) return with_point(fmt::format("{}", static_cast<float>(value))) + "f";
  return with_point(fmt::format("{}", value));
}

}  // namespace

std::string_view cuda_type(DType type) {
  switch (type) {
    case DType::kF64:
      return "double";
    case DType::kF32:
      return "float";
    case DType::kI64:
      return "long long";
    case DType::kI32:
      return "int";
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return name_of(type);
  }
  unreachable();
}

KernelNames::KernelNames(const kir::Kernel& kernel) {
  CudaNames names;
  entry = names.take(kernel.name);
  table = kir::argument_layout(kernel).bytes > 0 ? names.take("table") : "";
  for (uint32_t i = 0; i < kernel.buffers.size(); ++i) {
    buffers[kir::BufferId{i}] = names.take(kernel.buffers[kir::BufferId{i}].name);
  }
  for (uint32_t i = 0; i < kernel.mbarriers.size(); ++i) {
    mbarriers[kir::MbarrierId{i}] = names.take(kernel.mbarriers[kir::MbarrierId{i}].name);
  }
  for (uint32_t i = 0; i < kernel.tensor_maps.size(); ++i) {
    tensor_maps[kir::TensorMapId{i}] = names.take(kernel.tensor_maps[kir::TensorMapId{i}].name);
  }
  for (uint32_t i = 0; i < kernel.params.size(); ++i) {
    params[kir::ParamId{i}] = names.take(kernel.params[kir::ParamId{i}].name);
  }
  for (uint32_t i = 0; i < kernel.vars.size(); ++i) {
    vars[kir::VarId{i}] = names.take(kernel.vars[kir::VarId{i}].name);
  }
}

bool divides_by_positive_constant(const kir::Kernel& kernel, const kir::PointwiseExpr& call) {
  if (call.fn != PointwiseFn::kDiv && call.fn != PointwiseFn::kRem) return false;
  const auto* divisor = std::get_if<kir::IntegerConstant>(&kernel.exprs[call.arguments[1]].kind);
  return divisor != nullptr && divisor->value > 0 &&
         is_integer(kernel.exprs[call.arguments[0]].type);
}

std::string CudaExpressions::text(ExprId expr, Precedence context) const {
  Printed printed = print(expr);
  if (printed.precedence < context) return fmt::format("({})", printed.text);
  return std::move(printed.text);
}

std::string CudaExpressions::address(kir::BufferId buffer, ExprId index) const {
  return address(names_.buffers[buffer], index);
}

std::string CudaExpressions::address(kir::BufferId buffer, ExprId tensor, ExprId index) const {
  return address(fmt::format("{}.{}[{}]", names_.table, names_.buffers[buffer], text(tensor)),
                 index);
}

std::string CudaExpressions::address(kir::MbarrierId array, ExprId index) const {
  return address(names_.mbarriers[array], index);
}

std::string CudaExpressions::address(kir::VarId tile, ExprId group) const {
  if (kernel_.vars[tile].groups == 1) return "&" + names_.vars[tile];
  return address(names_.vars[tile], group);
}

std::string CudaExpressions::address(const std::string& base, ExprId index) const {
  const auto* constant = std::get_if<kir::IntegerConstant>(&kernel_.exprs[index].kind);
  if (constant != nullptr && constant->value == 0) return base;
  return fmt::format("{} + {}", base, text(index, Precedence::kAdditive));
}

std::string CudaExpressions::vec(kir::VarId tile, ExprId group) const {
  if (kernel_.vars[tile].groups == 1) return names_.vars[tile];
  return fmt::format("{}[{}]", names_.vars[tile], text(group));
}

CudaExpressions::Printed CudaExpressions::print(ExprId id) const {
  const kir::Expr& expr = kernel_.exprs[id];
  const auto signed_literal = [](std::string literal) {
    const Precedence precedence =
        literal.starts_with('-') ? Precedence::kUnary : Precedence::kPrimary;
    return Printed{std::move(literal), precedence};
  };
  return std::visit(
      overloaded{
          [&](const kir::IntegerConstant& x) {
            return signed_literal(integer_literal(x.value, expr.type));
          },
          [&](const kir::FloatConstant& x) {
            return signed_literal(float_literal(x.value, expr.type));
          },
          [&](const kir::VarRef& x) { return Printed{names_.vars[x.var]}; },
          [&](const kir::ElementRef& x) {
            return Printed{fmt::format("{}.get({})", vec(x.tile, x.group), text(x.lane))};
          },
          [&](const kir::SpecialRef& x) {
            switch (x.special) {
              case kir::Special::kThreadIndex:
                return Printed{"(int)threadIdx.x", Precedence::kUnary};
              case kir::Special::kBlockIndex:
                return Printed{"(int)blockIdx.x", Precedence::kUnary};
              case kir::Special::kGridSize:
                return Printed{"(int)gridDim.x", Precedence::kUnary};
            }
            unreachable();
          },
          [&](const kir::ParamRef& x) { return Printed{names_.params[x.param]}; },
          [&](const kir::PointwiseExpr& x) { return print(x); },
          [&](const kir::CastExpr& x) {
            return Printed{fmt::format("to_{}({})",
                                       x.to_tf32 ? std::string_view("tf32") : name_of(expr.type),
                                       text(x.argument))};
          },
      },
      expr.kind);
}

CudaExpressions::Printed CudaExpressions::print(const kir::PointwiseExpr& expr) const {
  const std::vector<ExprId>& arguments = expr.arguments;
  const DType type = kernel_.exprs[arguments[0]].type;
  const auto constant_of = [&](ExprId id) -> std::optional<int64_t> {
    const auto* constant = std::get_if<kir::IntegerConstant>(&kernel_.exprs[id].kind);
    return constant == nullptr ? std::nullopt : std::optional(constant->value);
  };
  const auto binary = [&](std::string_view symbol, Precedence precedence) {
    return Printed{fmt::format("{} {} {}", text(arguments[0], precedence), symbol,
                               text(arguments[1], tighter(precedence))),
                   precedence};
  };

  if (expr.fn == PointwiseFn::kSelect) {
    return {fmt::format("{} ? {} : {}", text(arguments[0], Precedence::kLogicalOr),
                        text(arguments[1], Precedence::kLogicalOr), text(arguments[2])),
            Precedence::kConditional};
  }
  if (expr.fn == PointwiseFn::kNeg) {
    const std::string operand = text(arguments[0], Precedence::kUnary);
    const bool two_signs = operand.starts_with('-');
    return {two_signs ? fmt::format("-({})", operand) : "-" + operand, Precedence::kUnary};
  }
  if (divides_by_positive_constant(kernel_, expr))
    return binary(expr.fn == PointwiseFn::kDiv ? "/" : "%", Precedence::kMultiplicative);
  if (expr.fn == PointwiseFn::kAdd) {
    const auto addend = constant_of(arguments[1]);
    if (addend && *addend < 0 && *addend > std::numeric_limits<int32_t>::min()) {
      return {fmt::format("{} - {}", text(arguments[0], Precedence::kAdditive),
                          integer_literal(-*addend, type)),
              Precedence::kAdditive};
    }
  }
  const std::string_view name = info_of(expr.fn).text;
  switch (expr.form) {
    case kir::CallForm::kFastPath:
      return {fmt::format("sinter_{}_fast_path({}, {})", name, text(arguments[0]),
                          names_.vars[expr.state])};
    case kir::CallForm::kCareful:
      return {fmt::format("sinter_{}_careful({})", name, text(arguments[0]))};
    case kir::CallForm::kOneOrMore:
      return {fmt::format("sinter_{}_of_one_or_more({})", name, text(arguments[0]))};
    case kir::CallForm::kSharedRounds:
      return {fmt::format("sinter_{}({}, {}, {})", name, names_.vars[expr.state],
                          text(arguments[0]), text(arguments[1]))};
    case kir::CallForm::kGeneral:
      break;
  }
  if (const auto infix = infix_of(expr.fn, type)) return binary(infix->symbol, infix->precedence);

  std::array<std::string, 3> texts;
  for (size_t i = 0; i < arguments.size(); ++i) texts[i] = text(arguments[i]);
  return {fmt::format(fmt::runtime(info_of(expr.fn).cuda), texts[0], texts[1], texts[2])};
}

}  // namespace sinter
