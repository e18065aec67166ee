#include "codegen/kernel/kernel_parser.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "codegen/kernel/expr_interner.h"
#include "codegen/kernel/kernel_token_reader.h"
#include "fusion_ir/op_names.h"

namespace sinter {
namespace {

using namespace kir;  // NOLINT(google-build-using-namespace): this file is about nothing else

using Token = KernelToken;
using TokenKind = KernelTokenKind;

/// Deeper nesting is refused, because it could exhaust the stack.
constexpr int kDeepestNesting = 200;

class Parser : private KernelTokenReader {
 public:
  explicit Parser(std::string_view text) : KernelTokenReader(text), interner_(&kernel_.exprs) {}

  Kernel run() {
    header();
    expect("{");
    while (declaration()) {
    }
    kernel_.body = statements();
    expect("}");
    if (token().kind != TokenKind::kEnd) fail_here("expected nothing after the kernel");
    if (!vars_.empty() && vars_.rbegin()->first != vars_.size() - 1) {
      fail_here(fmt::format("the last register is {}, but there are {}",
                            VarId{vars_.rbegin()->first}, vars_.size()));
    }
    for (auto& [index, var] : vars_) kernel_.vars.push_back(std::move(var));
    return std::move(kernel_);
  }

 private:
  // ---- Names

  VarId var() {
    const Token at = token();
    const auto id = new_id<VarTag>();
    if (!vars_.contains(id.index)) fail_at(at, "the register is not declared yet");
    return id;
  }
  BufferId buffer() {
    const Token at = token();
    const auto id = new_id<BufferTag>();
    if (!kernel_.buffers.contains(id)) fail_at(at, "there is no such buffer");
    return id;
  }
  MbarrierId mbarrier() {
    const Token at = token();
    const auto id = new_id<MbarrierTag>();
    if (!kernel_.mbarriers.contains(id)) fail_at(at, "there is no such mbarrier");
    return id;
  }
  ParamId param() {
    const Token at = token();
    const auto id = new_id<ParamTag>();
    if (!kernel_.params.contains(id)) fail_at(at, "there is no such parameter");
    return id;
  }

  // ---- Declarations

  void header() {
    expect_word("kernel");
    expect("@");
    kernel_.name = name();
    expect_word("threads");
    kernel_.threads = integer();
    expect_word("min_blocks");
    kernel_.min_blocks_per_sm = integer();
    if (accept_word("cluster")) kernel_.cluster = integer();
    expect_word("grid");
    expect_word("ceil");
    expect("(");
    kernel_.grid.work = new_id<ParamTag>();
    expect("/");
    kernel_.grid.per_block = integer();
    expect(")");
  }

  /// Reads a line that declares a parameter, a buffer or an unused register, if there is one.
  bool declaration() {
    if (accept_word("param")) {
      const Token at = token();
      const auto id = new_id<ParamTag>();
      if (id.index != kernel_.params.size()) fail_at(at, "parameters are numbered in order");
      Param param{.name = name()};
      expect(":");
      param.type = type();
      kernel_.params.push_back(std::move(param));
      return true;
    }
    if (accept_word("buffer")) {
      buffer_declaration();
      return true;
    }
    if (accept_word("mbarrier")) {
      mbarrier_declaration();
      return true;
    }
    if (accept_word("register")) {
      var_declaration();
      return true;
    }
    return false;
  }

  void buffer_declaration() {
    const Token at = token();
    const auto id = new_id<BufferTag>();
    if (id.index != kernel_.buffers.size()) fail_at(at, "buffers are numbered in order");
    Buffer buffer{.name = name(), .value = {}};
    expect(":");
    buffer.type = type();
    if (accept_word("shared")) {
      buffer.space = Space::kShared;
    } else if (accept_word("argument")) {
      buffer.space = Space::kArgument;
    } else {
      expect_word("global");
    }
    if (accept_word("readwrite")) {
      buffer.access = Access::kReadWrite;
    } else if (accept_word("write")) {
      buffer.access = Access::kWrite;
    } else {
      expect_word("read");
    }
    expect_word("align");
    buffer.alignment = integer();
    if (accept_word("value")) buffer.value = new_id<ValueTag>();
    if (accept_word("tensors")) buffer.tensors = integer();
    if (accept_word("values")) {
      do {
        buffer.values.push_back(new_id<ValueTag>());
      } while (at_id(ValueTag::kPrefix));
    }
    if (accept_word("count")) buffer.count = integer();
    if (accept_word("offset")) buffer.offset = integer();
    kernel_.buffers.push_back(std::move(buffer));
  }

  void mbarrier_declaration() {
    const Token at = token();
    const auto id = new_id<MbarrierTag>();
    if (id.index != kernel_.mbarriers.size()) fail_at(at, "mbarriers are numbered in order");
    Mbarrier mbarrier{.name = name()};
    expect_word("count");
    mbarrier.count = integer();
    expect_word("arrivals");
    mbarrier.arrivals = integer();
    if (accept_word("offset")) mbarrier.offset = integer();
    kernel_.mbarriers.push_back(std::move(mbarrier));
  }

  VarId var_declaration() {
    const Token at = token();
    const auto id = new_id<VarTag>();
    Var var{.name = name()};
    expect(":");
    var.type = type();
    if (accept("[")) {
      var.groups = integer();
      expect("]");
      expect("[");
      var.lanes = integer();
      expect("]");
    }
    const auto [entry, is_new] = vars_.emplace(id.index, var);
    if (!is_new && !(entry->second == var)) {
      fail_at(at, "the register is declared in another way before");
    }
    return id;
  }

  // ---- Statements

  Block statements() {
    enter();
    Block block;
    while (starts_statement()) {
      // The number is taken first, so that outer statements come before inner ones.
      const StmtId id = kernel_.stmts.push_back({});
      block.push_back(id);
      StmtKind kind = statement();
      kernel_.stmts[id].kind = std::move(kind);
    }
    leave();
    return block;
  }

  [[nodiscard]] bool starts_statement() const {
    return token().kind == TokenKind::kComment || token().kind == TokenKind::kWord ||
           token().kind == TokenKind::kId;
  }

  StmtKind statement() {
    if (token().kind == TokenKind::kComment) {
      std::string_view text = take().text.substr(2);
      if (text.starts_with(' ')) text.remove_prefix(1);
      return Comment{unescaped(text)};
    }
    if (token().kind == TokenKind::kId) return write_to_register();
    if (accept_word("let")) {
      const VarId id = var_declaration();
      expect("=");
      return Declare{id, expr()};
    }
    if (accept_word("var")) return Declare{var_declaration(), {}};
    if (accept_word("for")) return for_statement();
    if (accept_word("if")) return if_statement();
    if (accept_word("store")) return store_statement();
    if (accept_word("async_copy")) return async_copy_statement();
    if (accept_word("async_wait")) return AsyncWait{};
    if (accept_word("init_mbarriers")) return InitMbarriers{};
    if (accept_word("expect_bytes")) return expect_bytes_statement();
    if (accept_word("bulk_copy")) return bulk_copy_statement();
    if (accept_word("mbarrier_arrive")) {
      const MbarrierId array = mbarrier();
      return MbarrierArrive{array, buffer_index()};
    }
    if (accept_word("cluster_store")) return cluster_store_statement();
    if (accept_word("mbarrier_wait")) return mbarrier_wait_statement();
    if (accept_word("cluster_barrier")) return ClusterBarrier{};
    if (accept_word("cluster_arrive")) return ClusterArrive{};
    if (accept_word("cluster_wait")) return ClusterWait{};
    if (accept_word("barrier")) return Barrier{};
    if (accept_word("group_barrier")) return group_barrier_statement();
    if (accept_word("set_max_registers")) return set_max_registers_statement();
    if (accept_word("warp_barrier")) return WarpBarrier{};
    if (accept_word("launch_dependents")) return LaunchDependents{};
    if (accept_word("wait_for_previous")) return WaitForPrevious{};
    if (accept_word("device_fence")) return DeviceFence{};
    if (accept_word("all_reduce")) return all_reduce_statement();
    fail_here("expected a statement");
  }

  StmtKind write_to_register() {
    const VarId target = var();
    if (accept("[")) {
      const auto [group, lane] = element_indices();
      expect("=");
      if (!accept_word("load")) return SetElement{target, group, lane, expr()};
      Load load{.tile = target, .group = group, .lane = lane, .buffer = buffer(), .index = {}};
      std::tie(load.tensor, load.index) = tensor_and_index();
      load.width = width();
      load.hint = hint();
      if (accept_word("when")) load.predicate = expr();
      return load;
    }
    expect("=");
    if (accept_word("atomic_count")) {
      AtomicCount count{.target = target, .buffer = buffer(), .index = {}, .last = {}};
      count.index = buffer_index();
      expect_word("last");
      count.last = expr();
      return count;
    }
    if (const auto extreme = lane_extreme_of(target)) return *extreme;
    if (!accept_word("shuffle_xor")) return Assign{target, expr()};
    ShuffleXor shuffle{.target = target, .source = expr()};
    expect_word("mask");
    shuffle.mask = integer<int32_t>();
    return shuffle;
  }

  std::optional<LaneExtreme> lane_extreme_of(VarId target) {
    for (const PointwiseFn fn : {PointwiseFn::kMax, PointwiseFn::kMin}) {
      for (const bool of_magnitudes : {false, true}) {
        const std::string word =
            fmt::format("{}_of_{}", info_of(fn).text, of_magnitudes ? "magnitudes" : "lanes");
        if (!accept_word(word)) continue;
        LaneExtreme extreme{
            .target = target, .fn = fn, .of_magnitudes = of_magnitudes, .tile = var(), .group = {}};
        extreme.group = buffer_index();
        return extreme;
      }
    }
    return std::nullopt;
  }

  StmtKind for_statement() {
    For loop{.index = var_declaration(), .begin = {}, .end = {}, .step = {}, .body = {}};
    expect("=");
    loop.begin = expr();
    expect_word("to");
    loop.end = expr();
    expect_word("step");
    loop.step = expr();
    loop.unroll = accept_word("unroll");
    expect("{");
    loop.body = statements();
    expect("}");
    return loop;
  }

  StmtKind if_statement() {
    If branch{.condition = expr(), .then_body = {}, .else_body = {}};
    expect("{");
    branch.then_body = statements();
    expect("}");
    if (accept_word("else")) {
      expect("{");
      branch.else_body = statements();
      expect("}");
    }
    return branch;
  }

  StmtKind store_statement() {
    Store store{.buffer = buffer(), .index = {}, .tile = {}, .group = {}, .lane = {}};
    std::tie(store.tensor, store.index) = tensor_and_index();
    expect("=");
    store.tile = var();
    expect("[");
    std::tie(store.group, store.lane) = element_indices();
    store.width = width();
    return store;
  }

  StmtKind async_copy_statement() {
    AsyncCopy copy{.shared = buffer(), .shared_index = {}, .global = {}, .global_index = {}};
    copy.shared_index = buffer_index();
    expect("=");
    copy.global = buffer();
    copy.global_index = buffer_index();
    copy.width = width();
    return copy;
  }

  StmtKind expect_bytes_statement() {
    ExpectBytes expect{.array = mbarrier(), .index = {}, .bytes = {}};
    expect.index = buffer_index();
    expect.bytes = expr();
    return expect;
  }

  StmtKind bulk_copy_statement() {
    BulkCopy copy{.shared = buffer(),
                  .shared_index = {},
                  .global = {},
                  .global_index = {},
                  .elements = {},
                  .array = {},
                  .index = {}};
    copy.shared_index = buffer_index();
    expect("=");
    copy.global = buffer();
    copy.global_index = buffer_index();
    expect_word("elements");
    copy.elements = expr();
    expect_word("mbarrier");
    copy.array = mbarrier();
    copy.index = buffer_index();
    copy.hint = hint();
    return copy;
  }

  StmtKind cluster_store_statement() {
    ClusterStore store{
        .shared = buffer(), .index = {}, .block = {}, .source = {}, .array = {}, .mbarrier = {}};
    store.index = buffer_index();
    expect_word("of");
    store.block = expr();
    expect("=");
    store.source = var();
    expect_word("mbarrier");
    store.array = mbarrier();
    store.mbarrier = buffer_index();
    return store;
  }

  StmtKind mbarrier_wait_statement() {
    MbarrierWait wait{.array = mbarrier(), .index = {}, .parity = {}};
    wait.index = buffer_index();
    expect_word("parity");
    wait.parity = expr();
    return wait;
  }

  StmtKind group_barrier_statement() {
    GroupBarrier barrier{.id = expr()};
    expect_word("threads");
    barrier.threads = integer();
    return barrier;
  }

  StmtKind set_max_registers_statement() {
    SetMaxRegisters set;
    set.increase = accept_word("increase");
    if (!set.increase) expect_word("decrease");
    set.registers = integer();
    return set;
  }

  StmtKind all_reduce_statement() {
    AllReduce reduce{.parts = {}, .threads = 0, .name = name()};
    expect_word("threads");
    reduce.threads = integer();
    if (accept_word("phase")) reduce.phase = expr();
    if (accept_word("barrier")) reduce.barrier = expr();
    if (accept_word("group")) {
      reduce.group = expr();
      expect_word("of");
      reduce.groups = integer();
    }
    if (accept_word("cluster")) {
      reduce.arrived = mbarrier();
      expect_word("parity");
      reduce.parity = expr();
    }
    while (const auto combiner = combiner_here()) {
      take();
      ReducePart part{.combiner = *combiner, .vars = {}};
      expect("(");
      do {
        part.vars.push_back(var());
      } while (accept(","));
      expect(")");
      reduce.parts.push_back(std::move(part));
    }
    return reduce;
  }

  [[nodiscard]] std::optional<Combiner> combiner_here() const {
    for (const ReductionTraits& traits : all_reductions()) {
      if (at_word(traits.text)) return traits.reduction;
    }
    return std::nullopt;
  }

  std::pair<ExprId, ExprId> element_indices() {
    const ExprId group = expr();
    expect(",");
    const ExprId lane = expr();
    expect("]");
    return {group, lane};
  }

  /// [index], or [tensor][index] into a table.
  std::pair<ExprId, ExprId> tensor_and_index() {
    const ExprId first = buffer_index();
    if (!accept("[")) return {ExprId{}, first};
    const ExprId index = expr();
    expect("]");
    return {first, index};
  }

  ExprId buffer_index() {
    expect("[");
    const ExprId index = expr();
    expect("]");
    return index;
  }

  int64_t width() {
    expect_word("width");
    return integer();
  }

  CacheHint hint() {
    for (const CacheHint hint : {CacheHint::kEvictFirst, CacheHint::kEvictLast}) {
      if (accept_word(text_of(hint))) return hint;
    }
    return CacheHint::kDefault;
  }

  // ---- Expressions

  ExprId expr() {
    enter();
    const ExprId id = interner_.intern(read_expr());
    leave();
    return id;
  }

  Expr read_expr() {
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
    for (const Special special :
         {Special::kThreadIndex, Special::kBlockIndex, Special::kGridSize}) {
      if (accept_word(text_of(special))) {
        return {.type = DType::kI32, .kind = SpecialRef{special}};
      }
    }
    if (accept_word("cast")) {
      expect("<");
      const DType to = type();
      expect(">");
      expect("(");
      const ExprId argument = expr();
      expect(")");
      return {.type = to, .kind = CastExpr{argument}};
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

  Expr call(PointwiseFn fn, CallForm form) {
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

  DType constant_type(DType usual) { return accept(":") ? type() : usual; }

  Expr constant() {
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

  /// 0x1.8p+1, 1.5, inf, nan(bits). Decimals are rounded to the type.
  double real() {
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

  void enter() {
    if (++depth_ > kDeepestNesting) {
      fail_here(fmt::format("more than {} levels of nesting", kDeepestNesting));
    }
  }
  void leave() { --depth_; }

  Kernel kernel_;
  ExprInterner interner_;
  std::map<uint32_t, Var> vars_;  ///< By number; they may be declared in any order.
  int depth_ = 0;
};

}  // namespace

Result<Kernel> parse_kernel(std::string_view text) {
  return as_result([&]() -> Result<Kernel> { return Parser(text).run(); });
}

}  // namespace sinter
