#include "codegen/kernel/kernel_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "codegen/kernel/kernel_traversal.h"
#include "fusion_ir/result.h"

namespace sinter::kir {
namespace {

bool commutes(PointwiseFn fn) {
  return fn == PointwiseFn::kAdd || fn == PointwiseFn::kMul || fn == PointwiseFn::kMin ||
         fn == PointwiseFn::kMax || fn == PointwiseFn::kAnd || fn == PointwiseFn::kOr ||
         fn == PointwiseFn::kXor || fn == PointwiseFn::kEq || fn == PointwiseFn::kNe;
}

/// Functions whose double result rounded to f32 equals the f32 result: exact ones, and the basic
/// operations, because 53 bits are more than 2 * 24 + 2 (Figueroa 1995).
bool folds_exactly(PointwiseFn fn) {
  switch (fn) {
    case PointwiseFn::kNeg:
    case PointwiseFn::kAbs:
    case PointwiseFn::kFloor:
    case PointwiseFn::kCeil:
    case PointwiseFn::kTrunc:
    case PointwiseFn::kRound:
    case PointwiseFn::kAdd:
    case PointwiseFn::kSub:
    case PointwiseFn::kMul:
    case PointwiseFn::kDiv:
    case PointwiseFn::kMax:
    case PointwiseFn::kMin:
    case PointwiseFn::kClamp:
      return true;
    default:
      return false;
  }
}

bool is_integral(DType type) { return is_integer(type) || type == DType::kBool; }

int64_t lowest_of(DType type) {
  if (type == DType::kI64) return std::numeric_limits<int64_t>::min();
  if (type == DType::kI32) return std::numeric_limits<int32_t>::min();
  return type == DType::kI8 ? -128 : 0;
}

int64_t highest_of(DType type) {
  if (type == DType::kI64) return std::numeric_limits<int64_t>::max();
  if (type == DType::kI32) return std::numeric_limits<int32_t>::max();
  if (type == DType::kBool) return 1;
  return type == DType::kI8 ? 127 : 255;
}

}  // namespace

KernelBuilder::KernelBuilder(Kernel* kernel) : kernel_(kernel), interner_(&kernel->exprs) {
  open_.push_back(&kernel->body);
  for (const Param& param : kernel->params) names_.emplace(param.name, 2);
  for (const Buffer& buffer : kernel->buffers) names_.emplace(buffer.name, 2);
  for (const Mbarrier& mbarrier : kernel->mbarriers) names_.emplace(mbarrier.name, 2);
  for (const Var& var : kernel->vars) names_.emplace(var.name, 2);
}

// ---- Expressions

ExprId KernelBuilder::intern(Expr expr) { return interner_.intern(std::move(expr)); }

ExprId KernelBuilder::integer(int64_t value, DType type) {
  SINTER_CHECK(is_integral(type), "{} constant for an integer", type);
  SINTER_CHECK(value >= lowest_of(type) && value <= highest_of(type), "{} does not fit {}", value,
               type);
  return intern({.type = type, .kind = IntegerConstant{value}});
}

ExprId KernelBuilder::real(double value, DType type) {
  SINTER_CHECK(is_float(type), "{} constant for a real number", type);
  return intern({.type = type, .kind = FloatConstant{round_to(type, value)}});
}

ExprId KernelBuilder::ref(VarId var) {
  SINTER_CHECK(kernel_->vars.contains(var), "{}", var);
  SINTER_CHECK(kernel_->vars[var].is_scalar(), "{} is a tile; name its element", var);
  return intern({.type = kernel_->vars[var].type, .kind = VarRef{var}});
}

ExprId KernelBuilder::param(ParamId param) {
  SINTER_CHECK(kernel_->params.contains(param), "{}", param);
  return intern({.type = kernel_->params[param].type, .kind = ParamRef{param}});
}

ExprId KernelBuilder::special(Special special) {
  return intern({.type = DType::kI32, .kind = SpecialRef{special}});
}

ExprId KernelBuilder::element(VarId tile, ExprId group, ExprId lane) {
  SINTER_CHECK(kernel_->vars.contains(tile), "{}", tile);
  if (kernel_->vars[tile].is_scalar()) return ref(tile);
  return intern({.type = kernel_->vars[tile].type, .kind = ElementRef{tile, group, lane}});
}

ExprId KernelBuilder::call(PointwiseFn fn, std::vector<ExprId> arguments, CallForm form,
                           VarId state) {
  SINTER_CHECK(!arguments.empty(), "a form of {} without operands", info_of(fn).text);
  return intern({.type = result_type(fn, type_of(arguments.back())),
                 .kind = PointwiseExpr{fn, std::move(arguments), form, state}});
}

ExprId KernelBuilder::with_operands(ExprId id, const std::function<ExprId(ExprId)>& replace) {
  Expr expr = kernel_->exprs[id];
  replace_operands(expr, replace);
  return intern(std::move(expr));
}

const IntegerConstant* KernelBuilder::as_integer(ExprId expr) const {
  return std::get_if<IntegerConstant>(&kernel_->exprs[expr].kind);
}

const FloatConstant* KernelBuilder::as_real(ExprId expr) const {
  return std::get_if<FloatConstant>(&kernel_->exprs[expr].kind);
}

ExprId KernelBuilder::apply(PointwiseFn fn, std::vector<ExprId> arguments) {
  const PointwiseInfo& info = info_of(fn);
  SINTER_CHECK_OP(static_cast<int>(arguments.size()), ==, info.arity);
  std::vector<DType> types;
  for (const ExprId argument : arguments) {
    SINTER_CHECK(kernel_->exprs.contains(argument), "{} of {}", argument, info.text);
    types.push_back(type_of(argument));
  }
  const size_t first_alike = info.typing == Typing::kSelect ? 1 : 0;
  SINTER_CHECK(first_alike == 0 || types[0] == DType::kBool, "select by {}", types[0]);
  for (size_t i = first_alike + 1; i < types.size(); ++i) {
    SINTER_CHECK(types[i] == types[first_alike], "{} of {} and {}", info.text, types[first_alike],
                 types[i]);
  }
  ExprId folded;
  if (info.typing == Typing::kRandom) {
    folded = fold_random(fn, arguments);
  } else if (is_float(types[first_alike])) {
    folded = fold_floats(fn, arguments);
  } else {
    folded = fold_integers(fn, arguments);
  }
  if (!folded.valid()) folded = fold_identity(fn, arguments);
  if (folded.valid()) return folded;
  return intern({.type = result_type(fn, types[first_alike]),
                 .kind = PointwiseExpr{fn, std::move(arguments)}});
}

/// Folds constants, moves a constant operand of a commutative function to the right, and applies
/// integer identities. Returns an invalid id when the expression stays.
ExprId KernelBuilder::fold_integers(PointwiseFn fn, std::vector<ExprId>& arguments) {
  const bool all_constant =
      std::ranges::all_of(arguments, [&](ExprId x) { return as_integer(x) != nullptr; });
  const DType type = type_of(arguments.back());
  const DType result = result_type(fn, type);
  if (all_constant) {
    const auto value = [&](size_t i) {
      return i < arguments.size() ? as_integer(arguments[i])->value : 0;
    };
    return integer(evaluate_integer(fn, type, value(0), value(1), value(2)), result);
  }
  if (arguments.size() != 2) return {};
  if (commutes(fn) && as_integer(arguments[0]) != nullptr) std::swap(arguments[0], arguments[1]);
  const ExprId a = arguments[0];
  const ExprId b = arguments[1];
  const bool logic = type == DType::kBool;

  if (a == b) {
    if (fn == PointwiseFn::kSub || fn == PointwiseFn::kXor) return integer(0, type);
    if (fn == PointwiseFn::kMin || fn == PointwiseFn::kMax || fn == PointwiseFn::kAnd ||
        fn == PointwiseFn::kOr) {
      return a;
    }
    if (fn == PointwiseFn::kEq || fn == PointwiseFn::kLe || fn == PointwiseFn::kGe) {
      return boolean(true);
    }
    if (fn == PointwiseFn::kNe || fn == PointwiseFn::kLt || fn == PointwiseFn::kGt) {
      return boolean(false);
    }
  }
  if (const IntegerConstant* left = as_integer(a); left != nullptr && left->value == 0) {
    if (fn == PointwiseFn::kDiv || fn == PointwiseFn::kRem) return integer(0, type);
  }
  const IntegerConstant* right = as_integer(b);
  if (right == nullptr) return {};
  const int64_t c = right->value;

  if (c == 0) {
    if (fn == PointwiseFn::kAdd || fn == PointwiseFn::kSub || fn == PointwiseFn::kOr ||
        fn == PointwiseFn::kXor) {
      return a;
    }
    if (fn == PointwiseFn::kMul || fn == PointwiseFn::kAnd || fn == PointwiseFn::kDiv ||
        fn == PointwiseFn::kRem) {
      return integer(0, type);
    }
  }
  if (c == 1) {
    if (fn == PointwiseFn::kMul || fn == PointwiseFn::kDiv) return a;
    if (fn == PointwiseFn::kRem) return integer(0, type);
    if (logic && (fn == PointwiseFn::kAnd || fn == PointwiseFn::kEq)) return a;
    if (logic && fn == PointwiseFn::kOr) return boolean(true);
  }

  // (x + d) + c, (x + d) - c and (x * d) * c have one constant: wrap-around arithmetic associates.
  const auto* inner = std::get_if<PointwiseExpr>(&kernel_->exprs[a].kind);
  if (inner == nullptr || inner->arguments.size() != 2) return {};
  const IntegerConstant* inner_right = as_integer(inner->arguments[1]);
  if (inner_right == nullptr) return {};
  const int64_t d = inner_right->value;
  const ExprId x = inner->arguments[0];
  if (inner->fn == PointwiseFn::kAdd && (fn == PointwiseFn::kAdd || fn == PointwiseFn::kSub)) {
    return add(x, integer(evaluate_integer(fn, type, d, c), type));
  }
  if (inner->fn == PointwiseFn::kMul && fn == PointwiseFn::kMul) {
    return mul(x, integer(evaluate_integer(fn, type, d, c), type));
  }
  return {};
}

/// The random number, if seed and counter are constants.
ExprId KernelBuilder::fold_random(PointwiseFn fn, const std::vector<ExprId>& arguments) {
  const IntegerConstant* a = as_integer(arguments[0]);
  const IntegerConstant* b = as_integer(arguments[1]);
  if (a == nullptr || b == nullptr) return {};
  return real(evaluate_random(fn, a->value, b->value), DType::kF32);
}

/// Folds only if every bit of the value stays the same; a NaN may lose its payload.
ExprId KernelBuilder::fold_floats(PointwiseFn fn, const std::vector<ExprId>& arguments) {
  const size_t first = info_of(fn).typing == Typing::kSelect ? 1 : 0;
  if (first == 1) return {};
  const DType type = type_of(arguments[0]);
  const bool all_constant =
      std::ranges::all_of(arguments, [&](ExprId x) { return as_real(x) != nullptr; });
  if (all_constant) {
    const auto value = [&](size_t i) {
      return i < arguments.size() ? as_real(arguments[i])->value : 0.0;
    };
    const double exact = evaluate(fn, value(0), value(1), value(2));
    if (result_type(fn, type) == DType::kBool) return boolean(exact != 0.0);
    if (folds_exactly(fn)) return real(exact, type);
    return {};
  }
  if (arguments.size() != 2) return {};
  const auto is = [&](ExprId x, double constant) {
    const FloatConstant* real_constant = as_real(x);
    return real_constant != nullptr && *real_constant == FloatConstant{constant};
  };
  const ExprId a = arguments[0];
  const ExprId b = arguments[1];
  switch (fn) {
    case PointwiseFn::kAdd:  // x + 0.0 turns -0.0 into 0.0; x + -0.0 is x.
      if (is(b, -0.0)) return a;
      if (is(a, -0.0)) return b;
      break;
    case PointwiseFn::kSub:
      if (is(b, 0.0)) return a;
      break;
    case PointwiseFn::kMul:
      if (is(b, 1.0)) return a;
      if (is(a, 1.0)) return b;
      break;
    case PointwiseFn::kDiv:
      if (is(b, 1.0)) return a;
      break;
    default:
      break;
  }
  return {};
}

/// Identities that hold for every type.
ExprId KernelBuilder::fold_identity(PointwiseFn fn, const std::vector<ExprId>& arguments) {
  if (fn == PointwiseFn::kSelect) {
    if (const IntegerConstant* condition = as_integer(arguments[0]); condition != nullptr) {
      return condition->value != 0 ? arguments[1] : arguments[2];
    }
    if (arguments[1] == arguments[2]) return arguments[1];
  }
  if (fn == PointwiseFn::kNeg || fn == PointwiseFn::kNot) {
    const auto* inner = std::get_if<PointwiseExpr>(&kernel_->exprs[arguments[0]].kind);
    if (inner != nullptr && inner->fn == fn) return inner->arguments[0];
  }
  return {};
}

ExprId KernelBuilder::cast(ExprId x, DType type) {
  SINTER_CHECK(kernel_->exprs.contains(x), "{}", x);
  const DType from = type_of(x);
  if (from == type) return x;
  if (const IntegerConstant* constant = as_integer(x); constant != nullptr) {
    const int64_t value = constant->value;
    if (type == DType::kBool) return boolean(value != 0);
    if (is_integer(type))
      return integer(std::clamp(value, lowest_of(type), highest_of(type)), type);
    if (type == DType::kF64) return real(static_cast<double>(value), type);
    // An i64 beyond 2^53 would be rounded twice by a conversion through double.
    return real(static_cast<double>(static_cast<float>(value)), type);
  }
  if (const FloatConstant* constant = as_real(x); constant != nullptr) {
    const double value = constant->value;
    if (type == DType::kBool) return boolean(value != 0.0);
    if (is_float(type)) return real(value, type);
    // Doubles reach 2^63 but not 2^63 - 1.
    if (std::isnan(value)) return integer(0, type);
    if (value >= -static_cast<double>(lowest_of(DType::kI64))) {
      return integer(highest_of(type), type);
    }
    if (value <= static_cast<double>(lowest_of(DType::kI64))) return integer(lowest_of(type), type);
    const auto truncated = static_cast<int64_t>(value);
    return integer(std::clamp(truncated, lowest_of(type), highest_of(type)), type);
  }
  // A cast to i64 and back to i32 changes nothing.
  const auto* inner = std::get_if<CastExpr>(&kernel_->exprs[x].kind);
  if (inner != nullptr && from == DType::kI64 && type == DType::kI32 &&
      type_of(inner->argument) == DType::kI32) {
    return inner->argument;
  }
  return intern({.type = type, .kind = CastExpr{x}});
}

ExprId KernelBuilder::round_to_tf32(ExprId x) {
  SINTER_CHECK(type_of(x) == DType::kF32, "{} rounded to TF32", type_of(x));
  return intern({.type = DType::kF32, .kind = CastExpr{.argument = x, .to_tf32 = true}});
}

// ---- Declarations

std::string KernelBuilder::unique_name(std::string_view wish) {
  std::string name(wish.empty() ? "v" : wish);
  const auto [entry, is_new] = names_.emplace(name, 2);
  if (is_new) return name;
  std::string numbered;
  do {
    numbered = fmt::format("{}_{}", name, entry->second++);
  } while (names_.contains(numbered));
  names_.emplace(numbered, 2);
  return numbered;
}

ParamId KernelBuilder::add_param(std::string name, DType type) {
  SINTER_CHECK(type == DType::kI32 || type == DType::kI64, "parameter {} of type {}", name, type);
  return kernel_->params.push_back({.name = unique_name(name), .type = type});
}

BufferId KernelBuilder::add_buffer(Buffer buffer) {
  buffer.name = unique_name(buffer.name);
  return kernel_->buffers.push_back(std::move(buffer));
}

MbarrierId KernelBuilder::add_mbarriers(std::string name, int64_t count, int64_t arrivals) {
  SINTER_CHECK(count >= 1 && arrivals >= 1, "{}[{}] of {} arrivals", name, count, arrivals);
  return kernel_->mbarriers.push_back(
      {.name = unique_name(name), .count = count, .arrivals = arrivals});
}

TensorMapId KernelBuilder::add_tensor_map(TensorMap map) {
  SINTER_CHECK(kernel_->buffers.contains(map.buffer), "{} of {}", map.name, map.buffer);
  map.name = unique_name(map.name);
  return kernel_->tensor_maps.push_back(std::move(map));
}

VarId KernelBuilder::add_var(std::string name, DType type, int64_t groups, int64_t lanes) {
  SINTER_CHECK(groups >= 1 && lanes >= 1, "{}[{}][{}]", name, groups, lanes);
  return kernel_->vars.push_back(
      {.name = unique_name(name), .type = type, .groups = groups, .lanes = lanes});
}

// ---- Statements

void KernelBuilder::init_mbarriers() {
  append(InitMbarriers{});
  if (kernel_->cluster > 1) {
    append(ClusterBarrier{});
  } else {
    append(Barrier{});
  }
}

void KernelBuilder::start_mbarriers() {
  SINTER_CHECK(kernel_->cluster > 1, "a cluster of {}", kernel_->cluster);
  append(InitMbarriers{});
  append(ClusterArrive{});
  has_to_sync_ = true;
}

void KernelBuilder::sync_cluster() {
  if (!has_to_sync_) return;
  SINTER_CHECK(open_.size() == 1, "{} statements deep", open_.size());
  append(ClusterWait{});
  has_to_sync_ = false;
}

void KernelBuilder::append(StmtKind kind) {
  open_.back()->push_back(kernel_->stmts.push_back({std::move(kind)}));
}

void KernelBuilder::comment(std::string text) { append(Comment{std::move(text)}); }

VarId KernelBuilder::declare(std::string name, ExprId init) {
  const VarId var = add_var(std::move(name), type_of(init));
  append(Declare{var, init});
  return var;
}

VarId KernelBuilder::declare_scalar(std::string name, DType type) {
  return declare_tile(std::move(name), type, 1, 1);
}

VarId KernelBuilder::declare_tile(std::string name, DType type, int64_t groups, int64_t lanes) {
  const VarId var = add_var(std::move(name), type, groups, lanes);
  append(Declare{var, {}});
  return var;
}

void KernelBuilder::assign(VarId var, ExprId value) {
  SINTER_CHECK(kernel_->vars[var].is_scalar(), "{} is a tile", var);
  SINTER_CHECK(kernel_->vars[var].type == type_of(value), "{} is {}, the value {}", var,
               kernel_->vars[var].type, type_of(value));
  append(Assign{var, value});
}

void KernelBuilder::set(VarId tile, ExprId group, ExprId lane, ExprId value) {
  if (kernel_->vars[tile].is_scalar()) {
    assign(tile, value);
    return;
  }
  SINTER_CHECK(kernel_->vars[tile].type == type_of(value), "{} is {}, the value {}", tile,
               kernel_->vars[tile].type, type_of(value));
  append(SetElement{tile, group, lane, value});
}

void KernelBuilder::loop(std::string index, ExprId begin, ExprId end, ExprId step, bool unroll,
                         const std::function<void(ExprId)>& body) {
  SINTER_CHECK(type_of(begin) == type_of(end) && type_of(begin) == type_of(step),
               "loop bounds {}, {}, step {}", type_of(begin), type_of(end), type_of(step));
  For loop{.index = add_var(std::move(index), type_of(begin)),
           .begin = begin,
           .end = end,
           .step = step,
           .unroll = unroll,
           .body = {}};
  into(&loop.body, [&] { body(ref(loop.index)); });
  append(std::move(loop));
}

void KernelBuilder::unrolled(std::string index, int64_t count,
                             const std::function<void(ExprId)>& body) {
  if (count == 1) {
    body(integer(0));
  } else if (count > 1) {
    loop(std::move(index), integer(0), integer(count), integer(1), /*unroll=*/true, body);
  }
}

void KernelBuilder::when(ExprId condition, const std::function<void()>& then_body,
                         const std::function<void()>& else_body) {
  if (const IntegerConstant* constant = as_integer(condition); constant != nullptr) {
    if (constant->value != 0) {
      then_body();
    } else if (else_body) {
      else_body();
    }
    return;
  }
  If branch{.condition = condition, .then_body = {}, .else_body = {}};
  into(&branch.then_body, then_body);
  if (else_body) into(&branch.else_body, else_body);
  append(std::move(branch));
}

void KernelBuilder::into(Block* block, const std::function<void()>& body) {
  open_.push_back(block);
  body();
  open_.pop_back();
}

}  // namespace sinter::kir
