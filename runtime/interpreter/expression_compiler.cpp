#include "runtime/interpreter/expression_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "fusion_ir/error.h"
#include "runtime/interpreter/report.h"

namespace sinter::interpreter {
namespace {

/// Marks the offset of a temporary until finish() knows where temporaries start.
constexpr int32_t kTemporaryBit = int32_t{1} << 30;

bool is_temporary(int32_t offset) { return (offset & kTemporaryBit) != 0; }

uint8_t element_bytes_of(DType type) { return static_cast<uint8_t>(bytes_of(type)); }

uint64_t low_bytes(uint64_t bits, int64_t bytes) {
  return bytes == 8 ? bits : bits & ((uint64_t{1} << (8 * bytes)) - 1);
}

using LaneBuffer = std::array<std::byte, kLanes * 8>;

void broadcast(LaneBuffer* lanes, uint64_t bits, int64_t element_bytes) {
  const auto size = static_cast<size_t>(element_bytes);
  for (size_t i = 0; i < kLanes; ++i) std::memcpy(lanes->data() + i * size, &bits, size);
}

bool types_fit(const PointwiseInfo& info, DType result, const std::vector<DType>& operands) {
  const auto all_are = [&](size_t first, DType type) {
    return std::all_of(operands.begin() + static_cast<std::ptrdiff_t>(first), operands.end(),
                       [&](DType operand) { return operand == type; });
  };
  switch (info.typing) {
    case Typing::kSame:
    case Typing::kFloat:
    case Typing::kLogic:
      return all_are(0, result);
    case Typing::kCompare:
    case Typing::kTest:
      return result == DType::kBool && all_are(0, operands.front());
    case Typing::kSelect:
      return operands.front() == DType::kBool && all_are(1, result);
    case Typing::kRandom:
      return result == DType::kF32 && all_are(0, DType::kI64);
  }
  unreachable();
}

}  // namespace

int64_t Operand::integer() const {
  switch (type) {
    case DType::kI64:
      return static_cast<int64_t>(bits);
    case DType::kI32:
      return static_cast<int32_t>(static_cast<uint32_t>(bits));
    case DType::kBool:
      return bits != 0 ? 1 : 0;
    default:
      break;
  }
  unreachable();
}

ExpressionCompiler::ExpressionCompiler(const kir::Kernel& kernel, const ElementSet& followed)
    : kernel_(kernel), index_values_(kernel.vars.size()), params_(kernel.params.size()) {
  int64_t offset = 0;
  size_t element = 0;
  for (uint32_t i = 0; i < kernel.vars.size(); ++i) {
    const kir::Var& var = kernel.vars[kir::VarId{i}];
    first_register_.push_back(static_cast<int32_t>(offset));
    first_element_.push_back(element);
    if (var.groups < 1 || var.lanes < 1 ||
        var.groups > kMaxRegisterBytes / register_bytes(var.type) / var.lanes) {
      malformed(fmt::format("tile {} has {} x {} elements", var.name, var.groups, var.lanes));
    }
    offset += var.groups * var.lanes * register_bytes(var.type);
    element += static_cast<size_t>(var.groups * var.lanes);
    check_registers(offset);
  }
  program_.variable_bytes = static_cast<int32_t>(offset);
  preset_end_ = program_.variable_bytes;
  written.assign(element, false);
  unproved.assign(element, false);
  tracked_.assign(element, -1);
  for (uint32_t i = 0; i < kernel.vars.size(); ++i) {
    const kir::Var& var = kernel.vars[kir::VarId{i}];
    for (int64_t j = 0; j < var.groups * var.lanes; ++j) {
      const size_t number = first_element_[i] + static_cast<size_t>(j);
      if (number >= followed.size() || !followed[number]) continue;
      tracked_[number] = static_cast<int32_t>(program_.tracked.size());
      program_.tracked.push_back({kir::VarId{i}, j / var.lanes, j % var.lanes});
    }
  }
  product_elements_.assign(element, -1);
  for (const kir::Stmt& stmt : kernel.stmts) {
    const auto* product = std::get_if<kir::Wgmma>(&stmt.kind);
    if (product == nullptr) continue;
    number_product_elements(product->accumulator);
    if (const auto* left = std::get_if<kir::RegisterMatrix>(&product->left))
      number_product_elements(left->tile);
  }
}

void ExpressionCompiler::number_product_elements(kir::VarId tile) {
  if (!kernel_.vars.contains(tile)) return;
  const kir::Var& var = kernel_.vars[tile];
  const size_t first = first_element_[tile.index];
  if (product_elements_[first] >= 0) return;
  for (size_t i = first; i < first + static_cast<size_t>(var.groups * var.lanes); ++i)
    product_elements_[i] = program_.product_elements++;
}

void ExpressionCompiler::begin(kir::StmtId stmt) {
  stmt_ = stmt;
  compiled_.clear();
  temporary_end_ = 0;
}

void ExpressionCompiler::malformed(std::string message) const {
  throw_error({.kind = ErrorKind::kInternalError,
               .message = fmt::format("kernel {}: {} at {}", kernel_.name, message,
                                      describe(kernel_, stmt_)),
               .remedy = "Verify the kernel and run all lowering passes before interpreting it."});
}

void ExpressionCompiler::check_registers(int64_t bytes_of_warp) const {
  const int64_t bytes = bytes_of_warp * (kernel_.threads / kLanes) * kir::blocks_together(kernel_);
  if (bytes <= kMaxRegisterBytes) return;
  throw_error(
      {.kind = ErrorKind::kResourceExhausted,
       .message = fmt::format("the variables of kernel {} take {} bytes in the threads that "
                              "run together",
                              kernel_.name, bytes),
       .remedy = "Use smaller tiles or fewer threads.",
       .measured = bytes,
       .limit = kMaxRegisterBytes});
}

Instruction& ExpressionCompiler::emit(Instruction instruction) {
  if (position() >= kMaxInstructions) {
    throw_error({.kind = ErrorKind::kResourceExhausted,
                 .message = fmt::format("kernel {} expands to more than {} instructions at {}",
                                        kernel_.name, kMaxInstructions, describe(kernel_, stmt_)),
                 .remedy = "Unroll fewer loops.",
                 .limit = kMaxInstructions});
  }
  instruction.stmt = stmt_;
  return program_.code.emplace_back(instruction);
}

int32_t ExpressionCompiler::reserve_preset(DType type) {
  const int32_t offset = preset_end_;
  preset_end_ += static_cast<int32_t>(register_bytes(type));
  return offset;
}

int32_t ExpressionCompiler::temporaries(DType type, int64_t count) {
  const int32_t offset = temporary_end_;
  temporary_end_ += static_cast<int32_t>(count * register_bytes(type));
  temporary_peak_ = std::max(temporary_peak_, temporary_end_);
  return offset | kTemporaryBit;
}

int32_t ExpressionCompiler::register_of(const Operand& operand) {
  if (!operand.constant) return operand.offset;
  const auto [known, is_new] = constants_.try_emplace({operand.type, operand.bits}, 0);
  if (is_new) {
    known->second = reserve_preset(operand.type);
    program_.constants.push_back({known->second, element_bytes_of(operand.type), operand.bits});
  }
  return known->second;
}

Operand ExpressionCompiler::apply(LaneFunction function, DType result,
                                  const std::vector<Operand>& arguments) {
  if (std::ranges::all_of(arguments, &Operand::constant)) {
    std::array<LaneBuffer, 3> lanes{};
    LaneBuffer value{};
    for (size_t i = 0; i < arguments.size(); ++i) {
      broadcast(&lanes[i], arguments[i].bits, bytes_of(arguments[i].type));
    }
    function(value.data(), lanes[0].data(), lanes[1].data(), lanes[2].data());
    uint64_t bits = 0;
    std::memcpy(&bits, value.data(), static_cast<size_t>(bytes_of(result)));
    return constant(result, bits);
  }
  std::array<int32_t, 3> registers{};
  for (size_t i = 0; i < arguments.size(); ++i) registers[i] = register_of(arguments[i]);
  const int32_t offset = temporaries(result, 1);
  emit({.opcode = Opcode::kCompute,
        .element_bytes = element_bytes_of(result),
        .result = offset,
        .a = registers[0],
        .b = registers[1],
        .c = registers[2],
        .function = function});
  return {.type = result, .offset = offset};
}

void ExpressionCompiler::assign(int32_t variable, const Operand& operand) {
  // The instruction that computes the value can write the variable itself: nothing else of this
  // statement reads the temporary any more.
  if (!operand.constant && is_temporary(operand.offset)) {
    Instruction& last = program_.code.back();
    if (last.opcode == Opcode::kCompute && last.stmt == stmt_ && last.result == operand.offset) {
      last.opcode = Opcode::kAssign;
      last.result = variable;
      return;
    }
  }
  emit({.opcode = Opcode::kAssign,
        .element_bytes = element_bytes_of(operand.type),
        .result = variable,
        .a = register_of(operand),
        .function = copy_lanes(bytes_of(operand.type))});
}

void ExpressionCompiler::set_index(kir::VarId index, std::optional<int64_t> value) {
  index_values_[index.index] = value;
}

Operand ExpressionCompiler::reference(kir::VarId id) {
  const kir::Var& var = kernel_.vars[id];
  if (!var.is_scalar()) malformed(fmt::format("tile {} stands for a scalar", var.name));
  if (const auto value = index_values_[id.index]) {
    return constant(var.type, low_bytes(static_cast<uint64_t>(*value), bytes_of(var.type)));
  }
  note_read(first_element_[id.index]);
  return {.type = var.type, .offset = scalar_register(id)};
}

Operand ExpressionCompiler::special(kir::Special special) {
  int32_t* offset = nullptr;
  switch (special) {
    case kir::Special::kThreadIndex:
      offset = &program_.thread_index;
      break;
    case kir::Special::kBlockIndex:
      offset = &program_.block_index;
      break;
    case kir::Special::kGridSize:
      offset = &program_.grid_size;
      break;
  }
  if (*offset == Program::kUnused) *offset = reserve_preset(DType::kI32);
  return {.type = DType::kI32, .offset = *offset};
}

Operand ExpressionCompiler::param(kir::ParamId id) {
  const DType type = kernel_.params[id].type;
  std::optional<int32_t>& offset = params_[id.index];
  if (!offset) {
    offset = reserve_preset(type);
    program_.params.push_back({id, *offset, element_bytes_of(type)});
  }
  return {.type = type, .offset = *offset};
}

Operand ExpressionCompiler::pointwise(const kir::Expr& expr, const kir::PointwiseExpr& node) {
  const PointwiseInfo& info = info_of(node.fn);
  std::vector<Operand> arguments;
  std::vector<DType> types;
  for (const kir::ExprId argument : node.arguments) {
    arguments.push_back(compile(argument));
    types.push_back(arguments.back().type);
  }
  if (types.size() != static_cast<size_t>(info.arity) || !types_fit(info, expr.type, types)) {
    malformed(fmt::format("operands do not fit {} of type {}", info.text, expr.type));
  }
  const LaneFunction function = pointwise_lanes(node.fn, types.back());
  if (function == nullptr) {
    malformed(fmt::format("{} is not defined on {}", info.text, types.back()));
  }
  const Operand value = apply(function, expr.type, arguments);
  switch (node.form) {
    case kir::CallForm::kFastPath:
      return fast_path(node, arguments[0], value);
    case kir::CallForm::kGeneral:
    case kir::CallForm::kCareful:
    case kir::CallForm::kOneOrMore:
    case kir::CallForm::kSharedRounds:  // What the generator keeps changes no value.
      return value;
  }
  unreachable();
}

Operand ExpressionCompiler::call(PointwiseFn fn, DType result,
                                 const std::vector<Operand>& arguments) {
  return apply(pointwise_lanes(fn, arguments.back().type), result, arguments);
}

/// Where the fast path is not right, its value is NaN, so that a kernel which does not run again
/// shows. It is right where numeric.cuh says: the magnitude of the binary logarithm is from 1 to
/// 126.
Operand ExpressionCompiler::fast_path(const kir::PointwiseExpr& node, const Operand& argument,
                                      const Operand& exact_value) {
  if (argument.type != DType::kF32 || !has_fast_path_form(node.fn, argument.type))
    malformed(fmt::format("{} has no fast path", info_of(node.fn).text));
  const auto real = [&](double value) { return constant(DType::kF32, encode(DType::kF32, value)); };
  const Operand magnitude =
      call(PointwiseFn::kAbs, DType::kF32, {call(PointwiseFn::kLog2, DType::kF32, {argument})});
  const Operand is_right = call(PointwiseFn::kAnd, DType::kBool,
                                {call(PointwiseFn::kGe, DType::kBool, {magnitude, real(1.0)}),
                                 call(PointwiseFn::kLe, DType::kBool, {magnitude, real(126.0)})});
  const Operand flag = reference(node.state);
  assign(scalar_register(node.state), call(PointwiseFn::kAnd, DType::kBool, {flag, is_right}));
  return call(PointwiseFn::kSelect, DType::kF32,
              {is_right, exact_value, real(std::numeric_limits<double>::quiet_NaN())});
}

Operand ExpressionCompiler::compile(kir::ExprId id) {
  if (const auto known = compiled_.find(id.index); known != compiled_.end()) return known->second;
  if (!kernel_.exprs.contains(id)) malformed(fmt::format("there is no expression {}", id));
  const kir::Expr& expr = kernel_.exprs[id];
  Operand value;
  if (const auto* integer = std::get_if<kir::IntegerConstant>(&expr.kind)) {
    value = constant(expr.type,
                     is_float(expr.type)
                         ? encode(expr.type, static_cast<double>(integer->value))
                         : low_bytes(static_cast<uint64_t>(integer->value), bytes_of(expr.type)));
  } else if (const auto* real = std::get_if<kir::FloatConstant>(&expr.kind)) {
    value = constant(expr.type, encode(expr.type, real->value));
  } else if (const auto* var = std::get_if<kir::VarRef>(&expr.kind)) {
    value = reference(var->var);
  } else if (const auto* element = std::get_if<kir::ElementRef>(&expr.kind)) {
    size_t number = 0;
    value.offset = element_register(element->tile, element->group, element->lane, 1, &number);
    value.type = kernel_.vars[element->tile].type;
    note_read(number);
  } else if (const auto* which = std::get_if<kir::SpecialRef>(&expr.kind)) {
    value = special(which->special);
  } else if (const auto* argument = std::get_if<kir::ParamRef>(&expr.kind)) {
    value = param(argument->param);
  } else if (const auto* node = std::get_if<kir::PointwiseExpr>(&expr.kind)) {
    value = pointwise(expr, *node);
  } else {
    const auto& cast = std::get<kir::CastExpr>(expr.kind);
    const Operand from = compile(cast.argument);
    if (cast.to_tf32) {
      value = apply(tf32_lanes(), DType::kF32, {from});
    } else {
      value = from.type == expr.type ? from
                                     : apply(cast_lanes(from.type, expr.type), expr.type, {from});
    }
  }
  if (value.type != expr.type) {
    malformed(fmt::format("expression {} says {} but is {}", id, expr.type, value.type));
  }
  compiled_.emplace(id.index, value);
  return value;
}

int32_t ExpressionCompiler::index_register(kir::ExprId id) {
  const Operand index = compile(id);
  if (index.type == DType::kI64) return register_of(index);
  if (index.type != DType::kI32) malformed(fmt::format("an index has type {}", index.type));
  return register_of(apply(cast_lanes(DType::kI32, DType::kI64), DType::kI64, {index}));
}

int64_t ExpressionCompiler::constant_integer(kir::ExprId id, const char* role) {
  const Operand value = compile(id);
  if (!value.constant || (value.type != DType::kI32 && value.type != DType::kI64)) {
    malformed(fmt::format("the {} is not an integer constant", role));
  }
  return value.integer();
}

int32_t ExpressionCompiler::scalar_register(kir::VarId var) const {
  return first_register_[var.index];
}

int32_t ExpressionCompiler::element_register(kir::VarId tile, kir::ExprId group, kir::ExprId lane,
                                             int64_t width, size_t* element) {
  return element_register(tile, group, constant_integer(lane, "lane of a tile element"), width,
                          element);
}

int32_t ExpressionCompiler::element_register(kir::VarId tile, kir::ExprId group, int64_t l,
                                             int64_t width, size_t* element) {
  const kir::Var& var = kernel_.vars[tile];
  const int64_t g = constant_integer(group, "group of a tile element");
  if (g < 0 || g >= var.groups || l < 0 || l + width > var.lanes) {
    malformed(fmt::format("element [{}, {}] with width {} is outside tile {} of {} x {}", g, l,
                          width, var.name, var.groups, var.lanes));
  }
  const int64_t number = g * var.lanes + l;
  *element = first_element_[tile.index] + static_cast<size_t>(number);
  return first_register_[tile.index] + static_cast<int32_t>(number * register_bytes(var.type));
}

int32_t ExpressionCompiler::groups_register(kir::VarId tile, kir::ExprId group, int64_t count,
                                            size_t* element) {
  const kir::Var& var = kernel_.vars[tile];
  const int64_t first = constant_integer(group, "group of a tile element");
  if (first > var.groups - count) {
    malformed(fmt::format("{} groups from {} on are outside tile {} of {} x {}", count, first,
                          var.name, var.groups, var.lanes));
  }
  return element_register(tile, group, 0, var.lanes, element);
}

Operand ExpressionCompiler::element(kir::VarId tile, kir::ExprId group, int64_t lane) {
  size_t number = 0;
  const int32_t offset = element_register(tile, group, lane, 1, &number);
  note_read(number);
  return {.type = kernel_.vars[tile].type, .offset = offset};
}

void ExpressionCompiler::note_read(size_t element) {
  require_written(element);
  if (product_elements_[element] >= 0)
    emit({.opcode = Opcode::kReadOfProduct, .a = product_elements_[element]});
}

void ExpressionCompiler::require_written(size_t element) {
  if (written[element]) return;
  unproved[element] = true;
  if (tracked_[element] >= 0) emit({.opcode = Opcode::kCheckWritten, .a = tracked_[element]});
}

void ExpressionCompiler::note_written(size_t element) {
  if (product_elements_[element] >= 0)
    emit({.opcode = Opcode::kWriteOfProduct, .a = product_elements_[element]});
  note_product(element);
}

void ExpressionCompiler::note_product(size_t element) {
  written[element] = true;
  if (tracked_[element] >= 0) emit({.opcode = Opcode::kMarkWritten, .a = tracked_[element]});
}

void ExpressionCompiler::note_declared(kir::VarId id) {
  const kir::Var& var = kernel_.vars[id];
  const size_t first = first_element_[id.index];
  for (size_t i = first; i < first + static_cast<size_t>(var.groups * var.lanes); ++i) {
    written[i] = false;
    if (tracked_[i] >= 0) emit({.opcode = Opcode::kClearWritten, .a = tracked_[i]});
  }
}

Program ExpressionCompiler::finish() {
  program_.scratch = reserve_preset(DType::kF64);
  const auto place = [&](int32_t* offset) {
    if (is_temporary(*offset)) *offset = (*offset & ~kTemporaryBit) + preset_end_;
  };
  for (Instruction& instruction : program_.code) {
    place(&instruction.result);
    place(&instruction.a);
    place(&instruction.b);
    place(&instruction.c);
  }
  program_.register_bytes = preset_end_ + temporary_peak_;
  return std::move(program_);
}

}  // namespace sinter::interpreter
