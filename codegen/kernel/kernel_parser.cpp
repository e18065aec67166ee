#include "codegen/kernel/kernel_parser.h"

#include <fmt/format.h>

#include <optional>
#include <tuple>
#include <utility>

#include "codegen/kernel/kernel_expression_reader.h"

namespace sinter {
namespace {

using namespace kir;  // NOLINT(google-build-using-namespace): this file is about nothing else

using Token = KernelToken;
using TokenKind = KernelTokenKind;

/// Reads declarations and statements.
class Parser : private KernelExpressionReader {
 public:
  Parser(std::string_view text, std::span<const ReductionTraits> reductions)
      : KernelExpressionReader(text), reductions_(reductions) {}

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
    if (accept_word("team")) {
      kernel_.team = integer();
      expect_word("places");
      kernel_.message_places = integer();
    }
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
    if (accept_word("tensor_map")) {
      tensor_map_declaration();
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
    buffer.is_constant = accept_word("constant");
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

  void tensor_map_declaration() {
    const Token at = token();
    const auto id = new_id<TensorMapTag>();
    if (id.index != kernel_.tensor_maps.size()) fail_at(at, "tensor maps are numbered in order");
    TensorMap map{.name = name(), .buffer = {}};
    expect_word("of");
    map.buffer = buffer();
    if (accept_word("offset")) map.offset = integer();
    if (accept_word("swizzle")) map.swizzle = integer();
    map.to_tf32 = accept_word("tf32");
    while (accept_word("axis")) {
      MapAxis axis;
      if (at_id(ParamTag::kPrefix)) {
        axis.launched = param();
      } else {
        axis.size = integer();
      }
      expect_word("stride");
      axis.stride = integer();
      expect_word("box");
      axis.box = integer();
      map.axes.push_back(axis);
    }
    kernel_.tensor_maps.push_back(std::move(map));
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
    if (accept_word("async_commit")) return AsyncCommit{};
    if (accept_word("async_wait")) {
      AsyncWait wait;
      if (accept_word("pending")) wait.pending = integer();
      return wait;
    }
    if (accept_word("init_mbarriers")) return InitMbarriers{};
    if (accept_word("expect_bytes")) return expect_bytes_statement();
    if (accept_word("bulk_copy")) return bulk_copy_statement();
    if (accept_word("tensor_copy")) return tensor_copy_statement();
    if (accept_word("proxy_fence")) return ProxyFence{};
    if (accept_word("mbarrier_arrive")) {
      const MbarrierId array = mbarrier();
      return MbarrierArrive{array, buffer_index()};
    }
    if (accept_word("cluster_store")) return cluster_store_statement();
    if (accept_word("mbarrier_wait")) return mbarrier_wait_statement();
    if (accept_word("cluster_barrier")) return ClusterBarrier{};
    if (accept_word("cluster_arrive")) return ClusterArrive{};
    if (accept_word("cluster_wait")) return ClusterWait{};
    if (accept_word("message_store")) return message_store_statement();
    if (accept_word("message_wait")) return message_wait_statement();
    if (accept_word("barrier")) return Barrier{};
    if (accept_word("group_barrier")) return group_barrier_statement();
    if (accept_word("set_max_registers")) return set_max_registers_statement();
    if (accept_word("warp_barrier")) return WarpBarrier{};
    if (accept_word("launch_dependents")) return LaunchDependents{};
    if (accept_word("wait_for_previous")) return WaitForPrevious{};
    if (accept_word("device_fence")) return DeviceFence{};
    if (accept_word("load_matrix")) return load_matrix_statement();
    if (accept_word("mma")) return mma_statement();
    if (accept_word("wgmma")) return wgmma_statement();
    if (accept_word("wgmma_fence")) return WgmmaFence{};
    if (accept_word("wgmma_commit")) return WgmmaCommit{};
    if (accept_word("wgmma_wait")) {
      expect_word("pending");
      return WgmmaWait{integer()};
    }
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
    if (accept_word("when")) copy.predicate = expr();
    return copy;
  }

  StmtKind load_matrix_statement() {
    LoadMatrix load{.tile = var(), .group = {}, .shared = {}, .index = {}};
    load.group = buffer_index();
    expect("=");
    load.shared = buffer();
    load.index = buffer_index();
    expect_word("matrices");
    load.matrices = integer();
    load.transpose = accept_word("transpose");
    return load;
  }

  StmtKind mma_statement() {
    Mma mma{.accumulator = var(),
            .accumulator_group = {},
            .left = {},
            .left_group = {},
            .right = {},
            .right_group = {}};
    mma.accumulator_group = buffer_index();
    expect_word("left");
    mma.left = var();
    mma.left_group = buffer_index();
    expect_word("right");
    mma.right = var();
    mma.right_group = buffer_index();
    return mma;
  }

  StmtKind wgmma_statement() {
    Wgmma product{.accumulator = var(), .accumulator_group = {}, .left = {}, .right = {}};
    product.accumulator_group = buffer_index();
    expect_word("columns");
    product.columns = integer();
    product.replaces = accept_word("replaces");
    expect_word("left");
    if (at_id(VarTag::kPrefix)) {
      const VarId tile = var();
      product.left = RegisterMatrix{.tile = tile, .group = buffer_index()};
    } else {
      product.left = shared_matrix();
    }
    expect_word("right");
    product.right = shared_matrix();
    return product;
  }

  SharedMatrix shared_matrix() {
    SharedMatrix matrix{.buffer = buffer(), .index = {}};
    matrix.index = buffer_index();
    expect_word("swizzle");
    matrix.swizzle = integer();
    expect_word("groups");
    matrix.group_stride = integer();
    matrix.transposed = accept_word("transposed");
    if (matrix.transposed) matrix.block_stride = integer();
    return matrix;
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

  StmtKind tensor_copy_statement() {
    TensorCopy copy{.shared = buffer(),
                    .shared_index = {},
                    .map = {},
                    .coordinates = {},
                    .array = {},
                    .index = {}};
    copy.shared_index = buffer_index();
    expect("=");
    copy.map = tensor_map();
    expect("[");
    do {
      copy.coordinates.push_back(expr());
    } while (accept(","));
    expect("]");
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

  std::vector<VarId> vars_in_parentheses() {
    std::vector<VarId> vars;
    expect("(");
    do {
      vars.push_back(var());
    } while (accept(","));
    expect(")");
    return vars;
  }

  StmtKind message_store_statement() {
    MessageStore store{.mail = buffer(), .block = {}, .place = {}, .values = {}, .number = {}};
    store.place = buffer_index();
    expect_word("of");
    store.block = expr();
    expect("=");
    store.values = vars_in_parentheses();
    expect_word("number");
    store.number = expr();
    return store;
  }

  StmtKind message_wait_statement() {
    MessageWait wait{.mail = {}, .place = {}, .values = vars_in_parentheses(), .number = {}};
    expect("=");
    wait.mail = buffer();
    wait.place = buffer_index();
    expect_word("number");
    wait.number = expr();
    return wait;
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
    if (accept_word("team")) {
      reduce.mail = buffer();
      expect_word("from");
      reduce.first_place = integer();
      expect_word("number");
      reduce.number = expr();
    }
    if (accept_word("send")) reduce.half = ReduceHalf::kSend;
    if (accept_word("receive")) reduce.half = ReduceHalf::kReceive;
    while (const auto combiner = combiner_here()) {
      take();
      ReducePart part{.combiner = *combiner, .vars = vars_in_parentheses()};
      if (accept_word("elements")) part.elements = integer();
      reduce.parts.push_back(std::move(part));
    }
    return reduce;
  }

  [[nodiscard]] std::optional<Combiner> combiner_here() const {
    for (const auto rows : {all_reductions(), reductions_}) {
      for (const ReductionTraits& traits : rows) {
        if (at_word(traits.text)) return traits.reduction();
      }
    }
    return std::nullopt;
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

  std::span<const ReductionTraits> reductions_;  ///< That the text may name, beside Sinter's own.
};

}  // namespace

Result<Kernel> parse_kernel(std::string_view text, std::span<const ReductionTraits> reductions) {
  return as_result([&]() -> Result<Kernel> { return Parser(text, reductions).run(); });
}

}  // namespace sinter
