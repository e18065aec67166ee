#include "codegen/kernel/kernel_expression_reader.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <limits>
#include <utility>

#include "fusion_ir/op_names.h"

namespace sinter {

namespace {

using namespace kir;  // NOLINT(google-build-using-namespace): this file is about nothing else

using Token = KernelToken;
using TokenKind = KernelTokenKind;

/// Deeper nesting is refused, because it could exhaust the stack.
constexpr int kDeepestNesting = 200;

}  // namespace

VarId KernelExpressionReader::var() {
  const Token at = token();
  const auto id = new_id<VarTag>();
  if (!vars_.contains(id.index)) fail_at(at, "the register is not declared yet");
  return id;
}

BufferId KernelExpressionReader::buffer() {
  const Token at = token();
  const auto id = new_id<BufferTag>();
  if (!kernel_.buffers.contains(id)) fail_at(at, "there is no such buffer");
  return id;
}

MbarrierId KernelExpressionReader::mbarrier() {
  const Token at = token();
  const auto id = new_id<MbarrierTag>();
  if (!kernel_.mbarriers.contains(id)) fail_at(at, "there is no such mbarrier");
  return id;
}

TensorMapId KernelExpressionReader::tensor_map() {
  const Token at = token();
  const auto id = new_id<TensorMapTag>();
  if (!kernel_.tensor_maps.contains(id)) fail_at(at, "there is no such tensor map");
  return id;
}

ParamId KernelExpressionReader::param() {
  const Token at = token();
  const auto id = new_id<ParamTag>();
  if (!kernel_.params.contains(id)) fail_at(at, "there is no such parameter");
  return id;
}

ExprId KernelExpressionReader::expr() {
  enter();
  const ExprId id = interner_.intern(read_expr());
  leave();
  return id;
}

std::pair<ExprId, ExprId> KernelExpressionReader::element_indices() {
  const ExprId group = expr();
  expect(",");
  const ExprId lane = expr();
  expect("]");
  return {group, lane};
}

Expr KernelExpressionReader::read_expr() {
  if (at_id(ParamTag::kPrefix)) {
    const ParamId id = param();
    return {.type = kernel_.params[id].type, .kind = ParamRef{id}};
  }
  if (token().kind == TokenKind::kId) {
    const VarId id = var();
    const DType type = vars_.at(id.index).type;
    if (!accept("[")) return {.type = type, .kind = VarRef{id}};
    const auto [group, lane] = element_indices();
    return {.type = type, .kind = ElementRef{id, group, lane}};
  }
  if (token().kind != TokenKind::kWord) fail_here("expected an expression", pointwise_names());
  for (const Special special : {Special::kThreadIndex, Special::kBlockIndex, Special::kGridSize}) {
    if (accept_word(text_of(special))) {
      return {.type = DType::kI32, .kind = SpecialRef{special}};
    }
  }
  if (accept_word("cast")) {
    expect("<");
    const bool to_tf32 = accept_word("tf32");
    const DType to = to_tf32 ? DType::kF32 : type();
    expect(">");
    expect("(");
    const ExprId argument = expr();
    expect(")");
    return {.type = to, .kind = CastExpr{.argument = argument, .to_tf32 = to_tf32}};
  }
  const std::string_view word = token().text;
  const size_t dot = word.find('.');
  for (const CallForm form :
       {CallForm::kFastPath, CallForm::kCareful, CallForm::kOneOrMore, CallForm::kSharedRounds}) {
    if (dot == std::string_view::npos || word.substr(dot + 1) != kir::text_of(form)) continue;
    if (const auto fn = pointwise_from_text(word.substr(0, dot))) return call(*fn, form);
  }
  if (const auto fn = pointwise_from_text(word)) return call(*fn, CallForm::kGeneral);
  return constant();
}

Expr KernelExpressionReader::call(PointwiseFn fn, CallForm form) {
  const PointwiseInfo& info = info_of(fn);
  take();
  expect("(");
  PointwiseExpr result{.fn = fn, .arguments = {}, .form = form};
  if (form == CallForm::kFastPath || form == CallForm::kSharedRounds) {
    result.state = var();
    expect(",");
  }
  for (int i = 0; i < info.arity; ++i) {
    if (i > 0) expect(",");
    result.arguments.push_back(expr());
  }
  expect(")");
  const ExprId alike = result.arguments[info.typing == Typing::kSelect ? 1 : 0];
  return {.type = result_type(fn, kernel_.exprs[alike].type), .kind = std::move(result)};
}

Expr KernelExpressionReader::constant() {
  if (accept_word("true")) return {.type = DType::kBool, .kind = IntegerConstant{1}};
  if (accept_word("false")) return {.type = DType::kBool, .kind = IntegerConstant{0}};
  int64_t whole = 0;
  if (read_integer(token().text, &whole)) {
    take();
    return {.type = constant_type(DType::kI32), .kind = IntegerConstant{whole}};
  }
  if (token().text.find_first_not_of("-0123456789") == std::string_view::npos) {
    fail_here("the number is out of range");
  }
  const Token at = token();
  const double value = real();
  const DType type = constant_type(DType::kF32);
  if (!is_float(type)) fail_at(at, fmt::format("{} is no {}", at.text, type));
  const bool is_nan = value != value;  // whose bits are kept as they are
  return {.type = type, .kind = FloatConstant{is_nan ? value : round_to(type, value)}};
}

double KernelExpressionReader::real() {
  std::string_view text = token().text;
  if (accept_word("nan")) {
    expect("(");
    uint64_t bits = 0;
    const bool is_hex = token().kind == TokenKind::kWord && token().text.starts_with("0x") &&
                        read_integer(token().text.substr(2), &bits, 16);
    const auto value = std::bit_cast<double>(bits);
    if (!is_hex || value == value) fail_here("expected the bits of a NaN");
    take();
    expect(")");
    return value;
  }
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  double value = 0.0;
  if (text == "inf") {
    value = std::numeric_limits<double>::infinity();
  } else {
    const bool is_hex = text.starts_with("0x");
    if (is_hex) text.remove_prefix(2);
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value,
                        is_hex ? std::chars_format::hex : std::chars_format::general);
    const bool is_number = !text.empty() && text[0] != '-' && error == std::errc{} &&
                           end == text.data() + text.size() && value - value == 0.0;
    if (!is_number) fail_here("expected an expression", pointwise_names());
  }
  take();
  return is_negative ? -value : value;
}

void KernelExpressionReader::enter() {
  if (++depth_ > kDeepestNesting) {
    fail_here(fmt::format("more than {} levels of nesting", kDeepestNesting));
  }
}

}  // namespace sinter
