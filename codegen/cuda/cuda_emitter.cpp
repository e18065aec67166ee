#include "codegen/cuda/cuda_emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/cuda/cuda_expression.h"
#include "codegen/cuda/required_headers.h"
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
      const auto* product = std::get_if<kir::Wgmma>(&stmt.kind);
      if (product == nullptr) continue;
      is_of_product_[product->accumulator] = true;
      if (const auto* left = std::get_if<kir::RegisterMatrix>(&product->left))
        is_of_product_[left->tile] = true;
    }
    for (const kir::Expr& expr : kernel.exprs) {
      const auto* call = std::get_if<kir::PointwiseExpr>(&expr.kind);
      if (call != nullptr && call->form == kir::CallForm::kSharedRounds)
        is_random_state_[call->state] = true;
    }
  }

  std::string emit() {
    for (const std::string_view header : required_headers(kernel_))
      line(fmt::format("#include \"{}\"", header));
    if (!text_.empty()) text_ += '\n';
    print_table();
    print_signature();
    ++depth_;
    print_shared();
    print(kernel_.body);
    --depth_;
    line("}");
    return std::move(text_);
  }

  [[nodiscard]] const KernelNames& names() const { return names_; }

 private:
  void line(std::string_view content) {
    text_.append(2 * static_cast<size_t>(depth_), ' ');
    text_ += content;
    text_ += '\n';
  }

  /// Prints the struct of all tables of tensors and integers among the arguments, in the order of
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
    for (uint32_t i = 0; i < kernel_.tensor_maps.size(); ++i) {
      add(fmt::format("const __grid_constant__ TensorMap {}",
                      names_.tensor_maps[kir::TensorMapId{i}]));
    }
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
    const size_t outside = of_products_.size();
    for (const StmtId id : block) {
      std::visit([this](const auto& stmt) { print(stmt); }, kernel_.stmts[id].kind);
    }
    of_products_.resize(outside);
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
    if (is_of_product_[stmt.var]) of_products_.push_back(stmt.var);
    if (is_random_state_[stmt.var]) {
      line(fmt::format("SinterRandomBlock {};", name));
    } else if (!var.is_scalar()) {
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
    const std::string& index = names_.vars[stmt.index];
    const auto* step = std::get_if<kir::IntegerConstant>(&kernel_.exprs[stmt.step].kind);
    const std::string advance = step != nullptr && step->value == 1
                                    ? "++" + index
                                    : fmt::format("{} += {}", index, text(stmt.step));
    // A loop that the schedule did not unroll stays a loop: unrolling it would take registers that
    // the schedule has not counted.
    line(stmt.unroll ? "#pragma unroll" : "#pragma unroll 1");
    line(fmt::format("for ({} {} = {}; {} < {}; {}) {{", cuda_type(kernel_.vars[stmt.index].type),
                     index, text(stmt.begin), index,
                     expressions_.text(stmt.end, Precedence::kAdditive), advance));
    print_nested(stmt.body);
    line("}");
  }

  void print(const kir::If& stmt) {
    line(fmt::format("if ({}) {{", text(stmt.condition)));
    print_nested(stmt.then_body);
    if (!stmt.else_body.empty()) {
      line("} else {");
      print_nested(stmt.else_body);
    }
    line("}");
  }

  /// Prints a load of one of the integers among the arguments.
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
    line(fmt::format("{}<{}>({}, {}, {}{});", load_function(buffer, stmt.hint), stmt.width,
                     vec(stmt.tile, stmt.group), text(stmt.lane),
                     address(stmt.buffer, stmt.tensor, stmt.index), predicate(stmt.predicate)));
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
    line(fmt::format("async_copy<{}>({}, {}{});", bytes, address(stmt.shared, stmt.shared_index),
                     address(stmt.global, stmt.global_index), predicate(stmt.predicate)));
  }

  void print(const kir::AsyncCommit&) { line("async_commit();"); }

  void print(const kir::AsyncWait& stmt) {
    line(stmt.pending == -1 ? "async_wait();"
                            : fmt::format("async_wait_groups<{}>();", stmt.pending));
  }

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

  void print(const kir::TensorCopy& stmt) {
    std::string coordinates;
    for (const ExprId id : stmt.coordinates) coordinates += ", " + text(id);
    line(fmt::format("{}({}, {}, {}{});", with_hint("tensor_copy", stmt.hint),
                     address(stmt.shared, stmt.shared_index), names_.tensor_maps[stmt.map],
                     address(stmt.array, stmt.index), coordinates));
  }

  void print(const kir::ProxyFence&) { line("proxy_fence();"); }

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

  void print(const kir::MessageStore& stmt) {
    print_message("message_store", stmt, text(stmt.block));
  }
  void print(const kir::MessageWait& stmt) {
    print_message("message_wait", stmt, fmt::format("(int)blockIdx.x % {}", kernel_.team));
  }
  /// `block`: whose places it concerns, in the team.
  template <class Message>
  void print_message(std::string_view function, const Message& stmt, const std::string& block) {
    std::string values;
    for (const kir::VarId value : stmt.values) values += fmt::format(", {}", names_.vars[value]);
    line(fmt::format("{}(message_place<{}, {}>({}, {}, {}), {}{});", function, kernel_.team,
                     kernel_.message_places, names_.buffers[stmt.mail], block, text(stmt.place),
                     text(stmt.number), values));
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

  void print(const kir::LaneExtreme& stmt) {
    line(fmt::format("{0} = {1}_of_{2}({0}, {3});", names_.vars[stmt.target], info_of(stmt.fn).text,
                     stmt.of_magnitudes ? "magnitudes" : "lanes", vec(stmt.tile, stmt.group)));
  }

  void print(const kir::LoadMatrix& stmt) {
    line(fmt::format("load_matrix{}<{}>({}, {});", stmt.transpose ? "_transposed" : "",
                     stmt.matrices, address(stmt.tile, stmt.group),
                     address(stmt.shared, stmt.index)));
  }

  void print(const kir::Mma& stmt) {
    line(fmt::format("mma({}, {}, {});", address(stmt.accumulator, stmt.accumulator_group),
                     address(stmt.left, stmt.left_group), address(stmt.right, stmt.right_group)));
  }

  void print(const kir::Wgmma& stmt) {
    line(fmt::format("wgmma<{}{}>({}, {},", stmt.columns, stmt.replaces ? ", false" : "",
                     address(stmt.accumulator, stmt.accumulator_group),
                     std::visit([this](const auto& left) { return operand(left); }, stmt.left)));
    ++depth_;
    line(fmt::format("{});", operand(stmt.right)));
    --depth_;
  }

  std::string operand(const kir::RegisterMatrix& matrix) const {
    return address(matrix.tile, matrix.group);
  }
  std::string operand(const kir::SharedMatrix& matrix) const {
    const int64_t size = bytes_of(kernel_.buffers[matrix.buffer].type);
    return fmt::format("matrix_descriptor<{}, {}>({}, {}, {})", matrix.transposed, matrix.swizzle,
                       address(matrix.buffer, matrix.index), matrix.group_stride * size,
                       matrix.block_stride * size);
  }

  void print(const kir::WgmmaFence&) {
    hold_registers();
    line("wgmma_fence();");
  }
  void print(const kir::WgmmaCommit&) { line("wgmma_commit();"); }
  void print(const kir::WgmmaWait& stmt) {
    line(fmt::format("wgmma_wait<{}>();", stmt.pending));
    hold_registers();
  }

  /// The compiler knows neither that products go on behind a Wgmma nor what a fence or a wait does
  /// to registers. So that it moves no access across them, all that a Wgmma has in registers passes
  /// through an empty statement there.
  void hold_registers() {
    for (const VarId id : of_products_) {
      const kir::Var& var = kernel_.vars[id];
      const bool is_sum = var.lanes * bytes_of(var.type) > kir::kFragmentBytes;
      line(fmt::format("hold_{}<{}>({});", is_sum ? "sums" : "operands", var.groups,
                       names_.vars[id]));
    }
  }

  void print(const kir::AllReduce& stmt) {
    SINTER_CHECK(false, "{} has not been lowered", stmt.name);
  }

  // ---- Parts of statements

  /// Name of the load function with this L2 eviction hint.
  static std::string with_hint(std::string_view function, kir::CacheHint hint) {
    return hint == kir::CacheHint::kDefault ? std::string(function)
                                            : fmt::format("{}_{}", function, text_of(hint));
  }

  /// The read-only path is for buffers that nobody writes while the kernel runs. A kernel that
  /// starts before the previous one has ended may read what that kernel still writes. Constant
  /// buffers keep their priority; ptxas 13.0 moves loads of the read-only path behind the wait.
  std::string load_function(const kir::Buffer& buffer, kir::CacheHint hint) const {
    if (buffer.space == kir::Space::kShared) return "load_shared";
    if (waits_ && !buffer.is_constant) return "load_written";
    if (waits_ || buffer.access != kir::Access::kRead) return with_hint("load_written", hint);
    return with_hint("load_global", hint);
  }

  /// The last argument of what happens under a predicate; nothing without one.
  std::string predicate(ExprId id) const { return id.valid() ? ", " + text(id) : ""; }

  std::string text(ExprId id) const { return expressions_.text(id); }
  template <class Id>
  std::string address(Id of, ExprId index) const {
    return expressions_.address(of, index);
  }
  std::string address(kir::BufferId buffer, ExprId tensor, ExprId index) const {
    return tensor.valid() ? expressions_.address(buffer, tensor, index)
                          : expressions_.address(buffer, index);
  }
  std::string vec(kir::VarId tile, ExprId group) const { return expressions_.vec(tile, group); }

  const kir::Kernel& kernel_;
  KernelNames names_;
  CudaExpressions expressions_;
  const bool waits_;  ///< For the previous kernel, before whose end it may start.
  IdMap<kir::MbarrierId, uint8_t> is_sent_to_;  ///< Stored to by other blocks of the cluster.
  /// State of a random generator (CallForm::kSharedRounds).
  IdMap<VarId, uint8_t> is_random_state_;
  IdMap<VarId, uint8_t> is_of_product_;  ///< Accumulator or operand of a Wgmma.
  std::vector<VarId> of_products_;       ///< Those in scope.
  std::string text_;
  int depth_ = 0;
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

/// Records the offsets of the addresses in the argument table.
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

/// Describes the tensor maps in bytes, by the places that buffers and parameters have among the
/// arguments.
void add_tensor_maps(const kir::Kernel& kernel, KernelSource& source) {
  const auto is_argument = [](const kir::Buffer& buffer) {
    return buffer.space == kir::Space::kGlobal && !buffer.is_table();
  };
  for (const kir::TensorMap& map : kernel.tensor_maps) {
    const kir::Buffer& tensor = kernel.buffers[map.buffer];
    SINTER_CHECK(is_argument(tensor), "{} of {}", map.name, map.buffer);
    const int64_t element_bytes = bytes_of(tensor.type);
    TensorMapArgument argument{.name = map.name,
                               .type = tensor.type,
                               .offset_bytes = map.offset * element_bytes,
                               .swizzle = map.swizzle,
                               .to_tf32 = map.to_tf32};
    for (uint32_t i = 0; i < map.buffer.index; ++i)
      argument.buffer += is_argument(kernel.buffers[kir::BufferId{i}]) ? 1U : 0U;
    for (const kir::MapAxis& axis : map.axes) {
      TensorMapAxis& added = argument.axes.emplace_back();
      added.size = axis.size;
      if (axis.launched.valid()) added.launched = axis.launched.index;
      added.stride_bytes = axis.stride * element_bytes;
      added.box = axis.box;
    }
    source.tensor_maps.push_back(std::move(argument));
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
      .team_size = kernel.team,
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
  add_tensor_maps(kernel, source);
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
