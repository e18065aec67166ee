#include "codegen/cuda/cuda_emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/cuda/cuda_expression.h"
#include "codegen/cuda/fast_path_loop.h"
#include "codegen/cuda/packed_maxima.h"
#include "codegen/kernel/kernel_traversal.h"
#include "fusion_ir/result.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter {
namespace {

using kir::Block;
using kir::ExprId;
using kir::StmtId;
using kir::VarId;

constexpr size_t kLineWidth = 100;

/// Which device headers a kernel needs, besides numeric.cuh.
struct Includes {
  bool types = false, vector = false, warp = false, async_copy = false, mbarrier = false;
  bool dependent_launch = false, cluster = false, device_order = false;

  void visit(const kir::Expr& expr) {
    const bool is_constant = std::holds_alternative<kir::FloatConstant>(expr.kind);
    types |= std::holds_alternative<kir::CastExpr>(expr.kind) ||
             (is_constant && is_storage_only(expr.type));
  }
  void visit(const kir::StmtKind& stmt) {
    vector |= std::holds_alternative<kir::Load>(stmt) || std::holds_alternative<kir::Store>(stmt);
    warp |= std::holds_alternative<kir::ShuffleXor>(stmt);
    async_copy |= std::holds_alternative<kir::AsyncCopy>(stmt) ||
                  std::holds_alternative<kir::AsyncWait>(stmt);
    mbarrier |= std::holds_alternative<kir::GroupBarrier>(stmt) ||
                std::holds_alternative<kir::SetMaxRegisters>(stmt);
    cluster |= std::holds_alternative<kir::ClusterStore>(stmt) ||
               std::holds_alternative<kir::ClusterBarrier>(stmt) ||
               std::holds_alternative<kir::ClusterArrive>(stmt);
    device_order |= std::holds_alternative<kir::DeviceFence>(stmt) ||
                    std::holds_alternative<kir::AtomicCount>(stmt);
    dependent_launch |= std::holds_alternative<kir::LaunchDependents>(stmt) ||
                        std::holds_alternative<kir::WaitForPrevious>(stmt);
  }
};

class CudaEmitter {
 public:
  explicit CudaEmitter(const kir::Kernel& kernel)
      : kernel_(kernel),
        names_(kernel),
        expressions_(kernel, names_),
        waits_(kir::waits_for_previous(kernel)) {
    for (const kir::Stmt& stmt : kernel.stmts) {
      const auto* store = std::get_if<kir::ClusterStore>(&stmt.kind);
      if (store != nullptr) is_sent_to_[store->array] = true;
    }
  }

  std::string emit() {
    // The body comes first because it shows what to include.
    depth_ = 1;
    print_shared();
    print(kernel_.body);
    std::string body = std::exchange(text_, {});
    depth_ = 0;
    print_includes(body);
    print_table();
    print_signature();
    text_ += body;
    text_ += "}\n";
    return std::move(text_);
  }

  [[nodiscard]] const KernelNames& names() const { return names_; }

 private:
  void line(std::string_view content) {
    text_.append(2 * static_cast<size_t>(depth_), ' ');
    text_ += content;
    text_ += '\n';
  }

  /// Everything in numeric.cuh, and nothing else, is called sinter_*.
  void print_includes(std::string_view body) {
    const bool numeric = body.find("sinter_") != std::string_view::npos;
    includes_.vector |=
        std::ranges::any_of(kernel_.vars, [](const kir::Var& var) { return !var.is_scalar(); });
    const auto stored = [](const auto& x) { return compute_type(x.type) != x.type; };
    includes_.types |=
        std::ranges::any_of(kernel_.buffers, stored) || std::ranges::any_of(kernel_.vars, stored);
    if (includes_.async_copy) line("#include \"async_copy.cuh\"");
    if (includes_.dependent_launch) line("#include \"dependent_launch.cuh\"");
    if (includes_.device_order) line("#include \"device_order.cuh\"");
    if (includes_.cluster) line("#include \"cluster.cuh\"");
    if (includes_.mbarrier || !kernel_.mbarriers.empty()) line("#include \"mbarrier.cuh\"");
    if (numeric) line("#include \"numeric.cuh\"");
    if (includes_.types && !includes_.vector) line("#include \"types.cuh\"");
    if (includes_.vector) line("#include \"vector.cuh\"");
    if (includes_.warp) line("#include \"warp.cuh\"");
    if (!text_.empty()) text_ += '\n';
  }

  /// The struct of all tables of tensors and integers among the arguments, in the order of
  /// kir::argument_layout.
  void print_table() {
    const kir::ArgumentLayout layout = kir::argument_layout(kernel_);
    if (layout.bytes == 0) return;
    std::vector<kir::BufferId> members;
    for (uint32_t i = 0; i < kernel_.buffers.size(); ++i) {
      if (layout.offsets[kir::BufferId{i}] >= 0) members.push_back(kir::BufferId{i});
    }
    std::ranges::sort(members, {}, [&](kir::BufferId id) { return layout.offsets[id]; });
    line("struct KernelTable {");
    for (const kir::BufferId id : members) {
      const kir::Buffer& buffer = kernel_.buffers[id];
      const bool reads = buffer.is_table() && buffer.access == kir::Access::kRead;
      line(fmt::format("  {}{}{} {}[{}];", reads ? "const " : "", cuda_type(buffer.type),
                       buffer.is_table() ? "*" : "", names_.buffers[id],
                       buffer.is_table() ? buffer.tensors : buffer.count));
    }
    line("};");
    text_ += '\n';
  }

  void print_signature() {
    const std::string cluster =
        kernel_.cluster == 1 ? "" : fmt::format(" __cluster_dims__({}, 1, 1)", kernel_.cluster);
    line(fmt::format("extern \"C\" __global__ void{} __launch_bounds__({}, {})", cluster,
                     kernel_.threads, kernel_.min_blocks_per_sm));
    std::string row = names_.entry + "(";
    const std::string indent(row.size(), ' ');
    bool first = true;
    const auto add = [&](const std::string& argument) {
      if (!first) {
        row += ",";
        if (row.size() + argument.size() + 4 > kLineWidth) {
          line(row);
          row = indent;
        } else {
          row += " ";
        }
      }
      row += argument;
      first = false;
    };
    for (uint32_t i = 0; i < kernel_.buffers.size(); ++i) {
      const kir::Buffer& buffer = kernel_.buffers[kir::BufferId{i}];
      if (buffer.space != kir::Space::kGlobal || buffer.is_table()) continue;
      add(fmt::format("{}{}* __restrict__ {}", buffer.access == kir::Access::kRead ? "const " : "",
                      cuda_type(buffer.type), names_.buffers[kir::BufferId{i}]));
    }
    for (uint32_t i = 0; i < kernel_.params.size(); ++i) {
      add(fmt::format("{} {}", cuda_type(kernel_.params[kir::ParamId{i}].type),
                      names_.params[kir::ParamId{i}]));
    }
    if (kir::argument_layout(kernel_).bytes > 0)
      add(fmt::format("const __grid_constant__ KernelTable {}", names_.table));
    line(row + ") {");
  }

  /// One array for all shared buffers, so that it has exactly the planned bytes; each buffer is a
  /// pointer into it.
  void print_shared() {
    const int64_t bytes = kir::shared_bytes(kernel_);
    if (bytes == 0) return;
    int64_t alignment = 16;
    for (const kir::Buffer& buffer : kernel_.buffers) {
      if (buffer.space == kir::Space::kShared) alignment = std::max(alignment, buffer.alignment);
    }
    if (kir::uses_dynamic_shared(kernel_)) {
      line(
          fmt::format("extern __shared__ __align__({}) unsigned char shared_memory[];  // {} bytes",
                      alignment, bytes));
    } else {
      line(fmt::format("__shared__ __align__({}) unsigned char shared_memory[{}];", alignment,
                       bytes));
    }
    for (uint32_t i = 0; i < kernel_.buffers.size(); ++i) {
      const kir::Buffer& buffer = kernel_.buffers[kir::BufferId{i}];
      if (buffer.space != kir::Space::kShared) continue;
      line(fmt::format("{0}* const {1} = reinterpret_cast<{0}*>(shared_memory + {2});  // {3}",
                       cuda_type(buffer.type), names_.buffers[kir::BufferId{i}], buffer.offset,
                       buffer.count));
    }
    for (uint32_t i = 0; i < kernel_.mbarriers.size(); ++i) {
      const kir::Mbarrier& mbarrier = kernel_.mbarriers[kir::MbarrierId{i}];
      line(fmt::format(
          "Mbarrier* const {} = reinterpret_cast<Mbarrier*>(shared_memory + {});  // {}",
          names_.mbarriers[kir::MbarrierId{i}], mbarrier.offset, mbarrier.count));
    }
  }

  // ---- Statements

  void print(const Block& block) {
    for (const StmtId id : block) {
      includes_.visit(kernel_.stmts[id].kind);
      std::visit([this](const auto& stmt) { print(stmt); }, kernel_.stmts[id].kind);
    }
  }

  void print_nested(const Block& block) {
    ++depth_;
    print(block);
    --depth_;
  }

  void print(const kir::Comment& stmt) {
    size_t begin = 0;
    while (begin <= stmt.text.size()) {
      const size_t end = std::min(stmt.text.find('\n', begin), stmt.text.size());
      std::string content = stmt.text.substr(begin, end - begin);
      if (content.ends_with('\\')) content += '.';  // else the next line would join the comment
      line("// " + content);
      begin = end + 1;
    }
  }

  void print(const kir::Declare& stmt) {
    const kir::Var& var = kernel_.vars[stmt.var];
    const std::string& name = names_.vars[stmt.var];
    if (!var.is_scalar()) {
      const std::string groups = var.groups == 1 ? "" : fmt::format("[{}]", var.groups);
      line(fmt::format("Vec<{}, {}> {}{};", cuda_type(var.type), var.lanes, name, groups));
    } else if (stmt.init.valid()) {
      line(fmt::format("{} {} = {};", cuda_type(var.type), name, text(stmt.init)));
    } else {
      line(fmt::format("{} {};", cuda_type(var.type), name));
    }
  }

  void print(const kir::Assign& stmt) {
    line(fmt::format("{} = {};", names_.vars[stmt.var], text(stmt.value)));
  }

  void print(const kir::SetElement& stmt) {
    if (kernel_.vars[stmt.tile].is_scalar()) {
      line(fmt::format("{} = {};", names_.vars[stmt.tile], text(stmt.value)));
      return;
    }
    line(fmt::format("{}.set({}, {});", vec(stmt.tile, stmt.group), text(stmt.lane),
                     text(stmt.value)));
  }

  void print(const kir::For& stmt) {
    const std::vector<PackedMaximum> maxima = find_packed_maxima(kernel_, stmt);
    for (const PackedMaximum& packed : maxima) {
      line(fmt::format("{0} = {1}_of_{2}({0}, {3});", names_.vars[packed.maximum],
                       packed.fn == PointwiseFn::kMax ? "max" : "min",
                       packed.of_magnitudes ? "magnitudes" : "lanes",
                       vec(packed.tile, packed.group)));
    }
    if (!maxima.empty()) return;
    const std::optional<FastPathLoop> hasty = find_fast_path_loop(kernel_, stmt);
    if (!hasty) {
      print_loop(stmt);
      return;
    }
    const int number = ++fast_path_loops_;
    const auto before = [&](VarId var) {
      return fmt::format("sinter_before_{}_{}", number, names_.vars[var]);
    };
    const std::string plain = fmt::format("sinter_plain_{}", number);
    line(fmt::format("bool {} = true;", plain));
    for (const VarId var : hasty->changed) {
      line(fmt::format("const {} {} = {};", cuda_type(kernel_.vars[var].type), before(var),
                       names_.vars[var]));
    }
    expressions_.take_fast_path(plain);
    print_loop(stmt);
    // Taking care without asking shortens the text: Jensen-Shannon divergences take 2 to 7 % less
    // so. Before a vector is stored it takes registers: distillation losses whose rows are kept
    // take 2 to 9 % more, those with a row in registers of few warps up to 80 %
    // (benchmarks/results/h200_2026-11-24_suite_sweep.json and h200_2026-11-25_suite_sweep.json).
    if (hasty->fills_tiles) {
      expressions_.ask_arguments();
    } else {
      expressions_.take_care();
    }
    line(fmt::format("if (!{}) {{", plain));
    ++depth_;
    for (const VarId var : hasty->changed) {
      line(fmt::format("{} = {};", names_.vars[var], before(var)));
    }
    print_loop(stmt);
    --depth_;
    line("}");
    expressions_.ask_arguments();
  }

  void print_loop(const kir::For& stmt) {
    const std::string& index = names_.vars[stmt.index];
    const auto* step = std::get_if<kir::IntegerConstant>(&kernel_.exprs[stmt.step].kind);
    const std::string advance = step != nullptr && step->value == 1
                                    ? "++" + index
                                    : fmt::format("{} += {}", index, text(stmt.step));
    if (stmt.unroll) declare_random_blocks(stmt.body);
    // A loop the schedule did not unroll stays one: unrolling it again would take registers the
    // schedule has not counted.
    line(stmt.unroll ? "#pragma unroll" : "#pragma unroll 1");
    line(fmt::format("for ({} {} = {}; {} < {}; {}) {{", cuda_type(kernel_.vars[stmt.index].type),
                     index, text(stmt.begin), index, expression(stmt.end, Precedence::kAdditive),
                     advance));
    print_nested(stmt.body);
    line("}");
  }

  /// Four numbers in a row have all but the last step of philox in common. Each call in a loop
  /// over elements gets a variable for what it had from the element before; whether that is the
  /// same four is asked as the kernel runs, for indices may be anything.
  void declare_random_blocks(const kir::Block& body) {
    for (const kir::StmtId id : body) {
      const kir::StmtKind& stmt = kernel_.stmts[id].kind;
      kir::for_each_expr(stmt, [&](ExprId expr) { declare_random_blocks(expr); });
      if (std::holds_alternative<kir::For>(stmt)) continue;  // Has variables of its own.
      kir::for_each_block(stmt, [&](const kir::Block& block) { declare_random_blocks(block); });
    }
  }
  void declare_random_blocks(ExprId id) {
    const kir::Expr& expr = kernel_.exprs[id];
    const auto* call = std::get_if<kir::PointwiseExpr>(&expr.kind);
    kir::for_each_operand(expr, [&](ExprId operand) { declare_random_blocks(operand); });
    if (call == nullptr || call->fn != PointwiseFn::kPhiloxUniform) return;
    const std::string name = fmt::format("sinter_random_{}", ++random_blocks_);
    line(fmt::format("SinterRandomBlock {};", name));
    expressions_.use_block(id, name);
  }

  void print(const kir::If& stmt) {
    if (print_as_guarded_loads(stmt)) return;
    line(fmt::format("if ({}) {{", text(stmt.condition)));
    print_nested(stmt.then_body);
    if (!stmt.else_body.empty()) {
      line("} else {");
      print_nested(stmt.else_body);
    }
    line("}");
  }

  /// Loads and nothing else behind a condition become loads under a predicate: a branch would keep
  /// them from being issued together with those before it.
  bool print_as_guarded_loads(const kir::If& stmt) {
    const auto is_load_into_tile = [&](kir::StmtId id) {
      const auto* load = std::get_if<kir::Load>(&kernel_.stmts[id].kind);
      return load != nullptr && kernel_.buffers[load->buffer].space == kir::Space::kGlobal &&
             !load->tensor.valid() && !kernel_.vars[load->tile].is_scalar();
    };
    if (!stmt.else_body.empty() || !std::ranges::all_of(stmt.then_body, is_load_into_tile) ||
        reads_tile(stmt.condition)) {  // The condition is asked again for each load.
      return false;
    }
    for (const kir::StmtId id : stmt.then_body) {
      print_into_tile(std::get<kir::Load>(kernel_.stmts[id].kind), ", " + text(stmt.condition));
    }
    return true;
  }

  bool reads_tile(ExprId id) const {
    const kir::Expr& expr = kernel_.exprs[id];
    bool reads = std::holds_alternative<kir::ElementRef>(expr.kind);
    kir::for_each_operand(expr, [&](ExprId operand) { reads = reads || reads_tile(operand); });
    return reads;
  }

  /// One of the integers among the arguments.
  void print_argument(const kir::Load& stmt) {
    const std::string element =
        fmt::format("{}.{}[{}]", names_.table, names_.buffers[stmt.buffer], text(stmt.index));
    if (kernel_.vars[stmt.tile].is_scalar()) {
      line(fmt::format("{} = {};", names_.vars[stmt.tile], element));
    } else {
      line(fmt::format("{}.set({}, {});", vec(stmt.tile, stmt.group), text(stmt.lane), element));
    }
  }

  void print(const kir::Load& stmt) {
    const kir::Buffer& buffer = kernel_.buffers[stmt.buffer];
    if (buffer.space == kir::Space::kArgument) {
      print_argument(stmt);
      return;
    }
    if (kernel_.vars[stmt.tile].is_scalar()) {
      line(fmt::format("{} = {}({});", names_.vars[stmt.tile], load_function(buffer, stmt.hint),
                       address(stmt.buffer, stmt.tensor, stmt.index)));
      return;
    }
    print_into_tile(stmt, "");
  }

  void print_into_tile(const kir::Load& stmt, std::string_view guard) {
    line(fmt::format("{}<{}>({}, {}, {}{});",
                     load_function(kernel_.buffers[stmt.buffer], stmt.hint), stmt.width,
                     vec(stmt.tile, stmt.group), text(stmt.lane),
                     address(stmt.buffer, stmt.tensor, stmt.index), guard));
  }

  void print(const kir::Store& stmt) {
    const kir::Buffer& buffer = kernel_.buffers[stmt.buffer];
    const std::string_view function =
        buffer.space == kir::Space::kShared ? "store_shared" : "store_global";
    const std::string address = this->address(stmt.buffer, stmt.tensor, stmt.index);
    if (kernel_.vars[stmt.tile].is_scalar()) {
      line(fmt::format("{}({}, {});", function, address, names_.vars[stmt.tile]));
      return;
    }
    line(fmt::format("{}<{}>({}, {}, {});", function, stmt.width, address,
                     vec(stmt.tile, stmt.group), text(stmt.lane)));
  }

  void print(const kir::AsyncCopy& stmt) {
    const int64_t bytes = stmt.width * bytes_of(kernel_.buffers[stmt.shared].type);
    line(fmt::format("async_copy<{}>({}, {});", bytes, address(stmt.shared, stmt.shared_index),
                     address(stmt.global, stmt.global_index)));
  }

  void print(const kir::AsyncWait&) { line("async_wait();"); }

  void print(const kir::InitMbarriers&) {
    if (kernel_.mbarriers.empty()) return;
    line("if (threadIdx.x == 0) {");
    ++depth_;
    for (uint32_t i = 0; i < kernel_.mbarriers.size(); ++i) {
      const kir::Mbarrier& mbarrier = kernel_.mbarriers[kir::MbarrierId{i}];
      for (int64_t k = 0; k < mbarrier.count; ++k) {
        line(fmt::format("mbarrier_init({} + {}, {});", names_.mbarriers[kir::MbarrierId{i}], k,
                         mbarrier.arrivals));
      }
    }
    line("mbarrier_fence_init();");
    --depth_;
    line("}");
  }

  void print(const kir::ExpectBytes& stmt) {
    line(fmt::format("mbarrier_expect_bytes({}, {});", address(stmt.array, stmt.index),
                     text(stmt.bytes)));
  }

  void print(const kir::BulkCopy& stmt) {
    line(fmt::format("{}({}, {}, {}, {});", with_hint("bulk_copy", stmt.hint),
                     address(stmt.shared, stmt.shared_index),
                     address(stmt.global, stmt.global_index), text(stmt.elements),
                     address(stmt.array, stmt.index)));
  }

  void print(const kir::MbarrierArrive& stmt) {
    line(fmt::format("mbarrier_arrive({});", address(stmt.array, stmt.index)));
  }

  void print(const kir::ClusterStore& stmt) {
    line(fmt::format("cluster_store({}, {}, {}, {});", address(stmt.shared, stmt.index),
                     text(stmt.block), names_.vars[stmt.source],
                     address(stmt.array, stmt.mbarrier)));
  }

  void print(const kir::MbarrierWait& stmt) {
    line(fmt::format("mbarrier_wait{}({}, {});", is_sent_to_[stmt.array] ? "_cluster" : "",
                     address(stmt.array, stmt.index), text(stmt.parity)));
  }

  void print(const kir::ClusterBarrier&) { line("cluster_barrier();"); }
  void print(const kir::ClusterArrive&) { line("cluster_arrive();"); }
  void print(const kir::ClusterWait&) { line("cluster_wait();"); }

  void print(const kir::Barrier&) { line("__syncthreads();"); }

  void print(const kir::GroupBarrier& stmt) {
    line(fmt::format("group_barrier({}, {});", text(stmt.id), stmt.threads));
  }

  void print(const kir::SetMaxRegisters& stmt) {
    line(fmt::format("{}_max_registers<{}>();", stmt.increase ? "increase" : "decrease",
                     stmt.registers));
  }

  void print(const kir::WarpBarrier&) { line("__syncwarp();"); }

  void print(const kir::DeviceFence&) { line("device_fence();"); }

  void print(const kir::AtomicCount& stmt) {
    line(fmt::format("{} = atomic_count({}, {});", names_.vars[stmt.target],
                     address(stmt.buffer, stmt.index), text(stmt.last)));
  }

  void print(const kir::LaunchDependents&) { line("launch_dependents();"); }
  void print(const kir::WaitForPrevious&) { line("wait_for_previous();"); }

  void print(const kir::ShuffleXor& stmt) {
    line(fmt::format("{} = shuffle_xor({}, {});", names_.vars[stmt.target], text(stmt.source),
                     stmt.mask));
  }

  void print(const kir::AllReduce& stmt) {
    SINTER_CHECK(false, "{} has not been lowered", stmt.name);
  }

  // ---- Parts of statements

  /// The function's form that asks this of L2.
  static std::string with_hint(std::string_view function, kir::CacheHint hint) {
    return hint == kir::CacheHint::kDefault ? std::string(function)
                                            : fmt::format("{}_{}", function, text_of(hint));
  }

  /// The read-only path is for what nobody writes while the kernel lives, and one that starts
  /// before the previous one has ended reads what that one writes.
  std::string load_function(const kir::Buffer& buffer, kir::CacheHint hint) const {
    if (buffer.space == kir::Space::kShared) return "load_shared";
    if (waits_) return "load_written";
    if (buffer.access != kir::Access::kRead) return with_hint("load_written", hint);
    return with_hint("load_global", hint);
  }

  /// Prints an expression and notes what it needs.
  std::string expression(ExprId id, Precedence context) {
    note(id);
    return expressions_.text(id, context);
  }
  std::string text(ExprId id) { return expression(id, Precedence::kConditional); }
  template <class Id>
  std::string address(Id of, ExprId index) {
    note(index);
    return expressions_.address(of, index);
  }
  std::string address(kir::BufferId buffer, ExprId tensor, ExprId index) {
    if (!tensor.valid()) return address(buffer, index);
    note(tensor);
    note(index);
    return expressions_.address(buffer, tensor, index);
  }
  std::string vec(kir::VarId tile, ExprId group) {
    note(group);
    return expressions_.vec(tile, group);
  }

  void note(ExprId id) {
    if (noted_[id]) return;
    noted_[id] = true;
    const kir::Expr& expr = kernel_.exprs[id];
    includes_.visit(expr);
    if (const auto* pointwise = std::get_if<kir::PointwiseExpr>(&expr.kind)) {
      for (const ExprId argument : pointwise->arguments) note(argument);
    } else if (const auto* cast = std::get_if<kir::CastExpr>(&expr.kind)) {
      note(cast->argument);
    } else if (const auto* element = std::get_if<kir::ElementRef>(&expr.kind)) {
      note(element->group);
      note(element->lane);
    }
  }

  const kir::Kernel& kernel_;
  KernelNames names_;
  CudaExpressions expressions_;
  const bool waits_;  ///< For the previous kernel, beside which it starts.
  IdMap<kir::MbarrierId, uint8_t> is_sent_to_;  ///< By other blocks of the cluster.
  Includes includes_;
  IdMap<ExprId, uint8_t> noted_;
  std::string text_;
  int depth_ = 0;
  int random_blocks_ = 0;    ///< Declared so far.
  int fast_path_loops_ = 0;  ///< Printed so far.
};

}  // namespace

std::string emit_cuda(const kir::Kernel& kernel) { return CudaEmitter(kernel).emit(); }

BufferUse use_of(const kir::Buffer& buffer) {
  switch (buffer.access) {
    case kir::Access::kRead:
      return BufferUse::kRead;
    case kir::Access::kWrite:
      return BufferUse::kWrite;
    case kir::Access::kReadWrite:
      return BufferUse::kReadWrite;
  }
  unreachable();
}

namespace {

/// Says where the addresses of tables lie.
void add_table_entries(const kir::Kernel& kernel, KernelSource& source) {
  constexpr int64_t kAddressBytes = 8;
  const kir::ArgumentLayout layout = kir::argument_layout(kernel);
  for (uint32_t i = 0; i < kernel.buffers.size(); ++i) {
    const kir::Buffer& buffer = kernel.buffers[kir::BufferId{i}];
    for (size_t k = 0; k < buffer.values.size(); ++k) {
      source.table_entries.push_back(
          {.tensor = {.value = buffer.values[k],
                      .type = buffer.type,
                      .use = use_of(buffer),
                      .alignment = buffer.alignment},
           .offset = layout.offsets[kir::BufferId{i}] + static_cast<int64_t>(k) * kAddressBytes});
    }
  }
}

}  // namespace

KernelSource make_kernel_source(const kir::Kernel& kernel, std::vector<int64_t> param_values) {
  SINTER_CHECK_OP(param_values.size(), ==, kernel.params.size());
  SINTER_CHECK(kernel.params.contains(kernel.grid.work), "{}", kernel.grid.work);
  CudaEmitter emitter(kernel);
  KernelSource source{
      .entry = emitter.names().entry,
      .text = emitter.emit(),
      .buffers = {},
      .params = {},
      .param_values = std::move(param_values),
      .table = std::vector<std::byte>(static_cast<size_t>(kir::argument_layout(kernel).bytes)),
      .work_param = kernel.grid.work.index,
      .work_per_block = kernel.grid.per_block,
      .cluster_size = kernel.cluster,
      .threads = kernel.threads,
      .min_blocks_per_sm = kernel.min_blocks_per_sm,
      .shared_bytes = kir::shared_bytes(kernel),
      .dynamic_shared = kir::uses_dynamic_shared(kernel),
      .starts_early = kir::waits_for_previous(kernel),
  };
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.space != kir::Space::kGlobal || buffer.is_table()) continue;
    source.buffers.push_back({.value = buffer.value,
                              .type = buffer.type,
                              .use = use_of(buffer),
                              .alignment = buffer.alignment});
  }
  for (const kir::Param& param : kernel.params) source.params.push_back(param.type);
  add_table_entries(kernel, source);
  return source;
}

KernelSource make_kernel_source(const LoweredKernel& lowered) {
  const kir::Kernel& kernel = lowered.kernel;
  KernelSource source = make_kernel_source(kernel, lowered.param_values);
  const kir::ArgumentLayout layout = kir::argument_layout(kernel);
  size_t next = 0;
  for (uint32_t i = 0; i < kernel.buffers.size(); ++i) {
    const kir::Buffer& buffer = kernel.buffers[kir::BufferId{i}];
    if (buffer.space != kir::Space::kArgument) continue;
    SINTER_CHECK_OP(next, <, lowered.argument_values.size());
    const std::vector<std::byte> bytes = argument_bytes(buffer, lowered.argument_values[next++]);
    std::ranges::copy(bytes, source.table.begin() + layout.offsets[kir::BufferId{i}]);
  }
  return source;
}

}  // namespace sinter
