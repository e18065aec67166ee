#include "codegen/kernel/kernel_printer.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <utility>

#include "codegen/kernel/kernel_traversal.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/result.h"

namespace sinter {
namespace {

using namespace kir;  // NOLINT(google-build-using-namespace): this file is about nothing else

std::string name_text(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  bool plain = !name.empty() && is_letter(name[0]);
  for (const char c : name) plain = plain && (is_letter(c) || (c >= '0' && c <= '9') || c == '.');
  return plain ? std::string(name) : fmt::format("\"{}\"", escaped(name));
}

std::string_view text_of(Access access) {
  switch (access) {
    case Access::kRead:
      return "read";
    case Access::kWrite:
      return "write";
    case Access::kReadWrite:
      return "readwrite";
  }
  unreachable();
}

std::string_view text_of(Space space) {
  switch (space) {
    case Space::kGlobal:
      return "global";
    case Space::kShared:
      return "shared";
    case Space::kArgument:
      return "argument";
  }
  unreachable();
}

std::string type_suffix(DType type, DType usual) {
  return type == usual ? "" : fmt::format(":{}", type);
}

std::string float_text(double value) {
  if (std::isinf(value)) return value < 0.0 ? "-inf" : "inf";
  if (!std::isnan(value)) return fmt::format("{:a}", value);
  return fmt::format("nan(0x{:016x})", std::bit_cast<uint64_t>(value));
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {}

  std::string run() {
    std::string cluster;
    if (kernel_.cluster != 1) cluster = fmt::format("cluster {} ", kernel_.cluster);
    if (kernel_.team != 1)
      cluster += fmt::format("team {} places {} ", kernel_.team, kernel_.message_places);
    line(fmt::format("kernel @{} threads {} min_blocks {} {}grid ceil({} / {}) {{",
                     name_text(kernel_.name), kernel_.threads, kernel_.min_blocks_per_sm, cluster,
                     kernel_.grid.work, kernel_.grid.per_block));
    ++depth_;
    for (uint32_t i = 0; i < kernel_.params.size(); ++i) {
      const Param& param = kernel_.params[ParamId{i}];
      line(fmt::format("param {} {} : {}", ParamId{i}, name_text(param.name), param.type));
    }
    for (uint32_t i = 0; i < kernel_.buffers.size(); ++i) print(BufferId{i});
    for (uint32_t i = 0; i < kernel_.mbarriers.size(); ++i) print(MbarrierId{i});
    for (uint32_t i = 0; i < kernel_.tensor_maps.size(); ++i) print(TensorMapId{i});
    print_undeclared();
    print(kernel_.body);
    --depth_;
    line("}");
    return std::move(out_);
  }

 private:
  void line(std::string_view content) {
    out_.append(2 * static_cast<size_t>(depth_), ' ');
    out_ += content;
    out_ += '\n';
  }

  void print(BufferId id) {
    const Buffer& buffer = kernel_.buffers[id];
    std::string text =
        fmt::format("buffer {} {} : {} {} {} align {}", id, name_text(buffer.name), buffer.type,
                    text_of(buffer.space), text_of(buffer.access), buffer.alignment);
    if (buffer.is_constant) text += " constant";
    if (buffer.value.valid()) text += fmt::format(" value {}", buffer.value);
    if (buffer.tensors != 0) text += fmt::format(" tensors {}", buffer.tensors);
    if (!buffer.values.empty()) text += fmt::format(" values {}", fmt::join(buffer.values, " "));
    if (buffer.count != 0) text += fmt::format(" count {}", buffer.count);
    if (buffer.offset != -1) text += fmt::format(" offset {}", buffer.offset);
    line(text);
  }

  void print(MbarrierId id) {
    const Mbarrier& mbarrier = kernel_.mbarriers[id];
    std::string text = fmt::format("mbarrier {} {} count {} arrivals {}", id,
                                   name_text(mbarrier.name), mbarrier.count, mbarrier.arrivals);
    if (mbarrier.offset != -1) text += fmt::format(" offset {}", mbarrier.offset);
    line(text);
  }

  void print(TensorMapId id) {
    const TensorMap& map = kernel_.tensor_maps[id];
    std::string text = fmt::format("tensor_map {} {} of {}", id, name_text(map.name), map.buffer);
    if (map.offset != 0) text += fmt::format(" offset {}", map.offset);
    if (map.swizzle != 0) text += fmt::format(" swizzle {}", map.swizzle);
    if (map.to_tf32) text += " tf32";
    for (const MapAxis& axis : map.axes) {
      const std::string size =
          axis.launched.valid() ? fmt::format("{}", axis.launched) : fmt::format("{}", axis.size);
      text += fmt::format(" axis {} stride {} box {}", size, axis.stride, axis.box);
    }
    line(text);
  }

  /// A register is printed where a statement declares it; only undeclared registers are listed.
  void print_undeclared() {
    IdMap<VarId, uint8_t> declared;
    for_each_stmt(kernel_, kernel_.body, [&](StmtId id) {
      const StmtKind& stmt = kernel_.stmts[id].kind;
      if (const auto* declare = std::get_if<Declare>(&stmt)) declared[declare->var] = true;
      if (const auto* loop = std::get_if<For>(&stmt)) declared[loop->index] = true;
    });
    for (uint32_t i = 0; i < kernel_.vars.size(); ++i) {
      if (!declared[VarId{i}]) line(fmt::format("register {}", declaration(VarId{i})));
    }
  }

  std::string declaration(VarId id) const {
    const Var& var = kernel_.vars[id];
    std::string text = fmt::format("{} {} : {}", id, name_text(var.name), var.type);
    if (!var.is_scalar()) text += fmt::format("[{}][{}]", var.groups, var.lanes);
    return text;
  }

  // ---- Statements

  void print(const Block& block) {
    for (const StmtId id : block) {
      std::visit([this](const auto& stmt) { print(stmt); }, kernel_.stmts[id].kind);
    }
  }

  void print_nested(const Block& block) {
    ++depth_;
    print(block);
    --depth_;
  }

  void print(const Comment& s) { line(s.text.empty() ? "//" : "// " + escaped(s.text)); }
  void print(const Declare& s) {
    if (s.init.valid()) {
      line(fmt::format("let {} = {}", declaration(s.var), text(s.init)));
    } else {
      line(fmt::format("var {}", declaration(s.var)));
    }
  }
  void print(const Assign& s) { line(fmt::format("{} = {}", s.var, text(s.value))); }
  void print(const SetElement& s) {
    line(fmt::format("{} = {}", element(s.tile, s.group, s.lane), text(s.value)));
  }
  void print(const For& s) {
    line(fmt::format("for {} = {} to {} step {}{} {{", declaration(s.index), text(s.begin),
                     text(s.end), text(s.step), s.unroll ? " unroll" : ""));
    print_nested(s.body);
    line("}");
  }
  void print(const If& s) {
    line(fmt::format("if {} {{", text(s.condition)));
    print_nested(s.then_body);
    if (!s.else_body.empty()) {
      line("} else {");
      print_nested(s.else_body);
    }
    line("}");
  }
  void print(const Load& s) {
    line(fmt::format("{} = load {} width {}{}", element(s.tile, s.group, s.lane),
                     place(s.buffer, s.tensor, s.index), s.width,
                     hint(s.hint) + predicate(s.predicate)));
  }
  void print(const Store& s) {
    line(fmt::format("store {} = {} width {}", place(s.buffer, s.tensor, s.index),
                     element(s.tile, s.group, s.lane), s.width));
  }
  void print(const AsyncCopy& s) {
    line(fmt::format("async_copy {} = {} width {}{}", place(s.shared, s.shared_index),
                     place(s.global, s.global_index), s.width, predicate(s.predicate)));
  }
  void print(const AsyncCommit&) { line("async_commit"); }
  void print(const AsyncWait& s) {
    line(s.pending == -1 ? "async_wait" : fmt::format("async_wait pending {}", s.pending));
  }
  void print(const InitMbarriers&) { line("init_mbarriers"); }
  void print(const ExpectBytes& s) {
    line(fmt::format("expect_bytes {} {}", place(s.array, s.index), text(s.bytes)));
  }
  void print(const BulkCopy& s) {
    line(fmt::format("bulk_copy {} = {} elements {} mbarrier {}{}", place(s.shared, s.shared_index),
                     place(s.global, s.global_index), text(s.elements), place(s.array, s.index),
                     hint(s.hint)));
  }
  void print(const TensorCopy& s) {
    std::string coordinates;
    for (const ExprId id : s.coordinates)
      coordinates += (coordinates.empty() ? "" : ", ") + text(id);
    line(fmt::format("tensor_copy {} = {}[{}] mbarrier {}{}", place(s.shared, s.shared_index),
                     s.map, coordinates, place(s.array, s.index), hint(s.hint)));
  }
  void print(const ProxyFence&) { line("proxy_fence"); }
  void print(const MbarrierArrive& s) {
    line(fmt::format("mbarrier_arrive {}", place(s.array, s.index)));
  }
  void print(const ClusterStore& s) {
    line(fmt::format("cluster_store {} of {} = {} mbarrier {}", place(s.shared, s.index),
                     text(s.block), s.source, place(s.array, s.mbarrier)));
  }
  void print(const ClusterBarrier&) { line("cluster_barrier"); }
  void print(const ClusterArrive&) { line("cluster_arrive"); }
  void print(const ClusterWait&) { line("cluster_wait"); }
  void print(const MessageStore& s) {
    line(fmt::format("message_store {} of {} = ({}) number {}", place(s.mail, s.place),
                     text(s.block), fmt::join(s.values, ", "), text(s.number)));
  }
  void print(const MessageWait& s) {
    line(fmt::format("message_wait ({}) = {} number {}", fmt::join(s.values, ", "),
                     place(s.mail, s.place), text(s.number)));
  }
  void print(const MbarrierWait& s) {
    line(fmt::format("mbarrier_wait {} parity {}", place(s.array, s.index), text(s.parity)));
  }
  void print(const Barrier&) { line("barrier"); }
  void print(const GroupBarrier& s) {
    line(fmt::format("group_barrier {} threads {}", text(s.id), s.threads));
  }
  void print(const WarpBarrier&) { line("warp_barrier"); }
  void print(const LaunchDependents&) { line("launch_dependents"); }
  void print(const WaitForPrevious&) { line("wait_for_previous"); }
  void print(const SetMaxRegisters& s) {
    line(fmt::format("set_max_registers {} {}", s.increase ? "increase" : "decrease", s.registers));
  }
  void print(const DeviceFence&) { line("device_fence"); }
  void print(const AtomicCount& s) {
    line(fmt::format("{} = atomic_count {} last {}", s.target, place(s.buffer, s.index),
                     text(s.last)));
  }
  void print(const ShuffleXor& s) {
    line(fmt::format("{} = shuffle_xor {} mask {}", s.target, text(s.source), s.mask));
  }
  void print(const LaneExtreme& s) {
    line(fmt::format("{} = {}_of_{} {}", s.target, info_of(s.fn).text,
                     s.of_magnitudes ? "magnitudes" : "lanes", place(s.tile, s.group)));
  }
  void print(const LoadMatrix& s) {
    line(fmt::format("load_matrix {} = {} matrices {}{}", place(s.tile, s.group),
                     place(s.shared, s.index), s.matrices, s.transpose ? " transpose" : ""));
  }
  void print(const Mma& s) {
    line(fmt::format("mma {} left {} right {}", place(s.accumulator, s.accumulator_group),
                     place(s.left, s.left_group), place(s.right, s.right_group)));
  }
  void print(const Wgmma& s) {
    line(fmt::format(
        "wgmma {} columns {}{} left {} right {}", place(s.accumulator, s.accumulator_group),
        s.columns, s.replaces ? " replaces" : "",
        std::visit([this](const auto& left) { return matrix(left); }, s.left), matrix(s.right)));
  }
  std::string matrix(const RegisterMatrix& m) const { return place(m.tile, m.group); }
  std::string matrix(const SharedMatrix& m) const {
    const std::string blocks = m.transposed ? fmt::format(" transposed {}", m.block_stride) : "";
    return fmt::format("{} swizzle {} groups {}{}", place(m.buffer, m.index), m.swizzle,
                       m.group_stride, blocks);
  }
  void print(const WgmmaFence&) { line("wgmma_fence"); }
  void print(const WgmmaCommit&) { line("wgmma_commit"); }
  void print(const WgmmaWait& s) { line(fmt::format("wgmma_wait pending {}", s.pending)); }
  void print(const AllReduce& s) {
    std::string text = fmt::format("all_reduce {} threads {}", name_text(s.name), s.threads);
    if (s.phase.valid()) text += fmt::format(" phase {}", this->text(s.phase));
    if (s.barrier.valid()) text += fmt::format(" barrier {}", this->text(s.barrier));
    if (s.group.valid()) text += fmt::format(" group {} of {}", this->text(s.group), s.groups);
    if (s.arrived.valid())
      text += fmt::format(" cluster {} parity {}", s.arrived, this->text(s.parity));
    if (s.mail.valid())
      text +=
          fmt::format(" team {} from {} number {}", s.mail, s.first_place, this->text(s.number));
    if (s.half != ReduceHalf::kWhole) text += s.half == ReduceHalf::kSend ? " send" : " receive";
    for (const ReducePart& part : s.parts) {
      text += fmt::format(" {}({})", traits_of(part.combiner).text, fmt::join(part.vars, ", "));
      if (part.elements > 0) text += fmt::format(" elements {}", part.elements);
    }
    line(text);
  }

  static std::string hint(CacheHint hint) {
    return hint == CacheHint::kDefault ? "" : fmt::format(" {}", kir::text_of(hint));
  }

  std::string predicate(ExprId id) const {
    return id.valid() ? fmt::format(" when {}", text(id)) : "";
  }

  // ---- Expressions

  std::string element(VarId tile, ExprId group, ExprId lane) const {
    return fmt::format("{}[{}, {}]", tile, text(group), text(lane));
  }
  std::string place(BufferId buffer, ExprId tensor, ExprId index) const {
    if (!tensor.valid()) return place(buffer, index);
    return fmt::format("{}[{}][{}]", buffer, text(tensor), text(index));
  }
  template <class Id>
  std::string place(Id of, ExprId index) const {
    return fmt::format("{}[{}]", of, text(index));
  }

  std::string text(ExprId id) const {
    const Expr& expr = kernel_.exprs[id];
    return std::visit(
        overloaded{
            [&](const IntegerConstant& x) -> std::string {
              if (expr.type == DType::kBool && (x.value == 0 || x.value == 1)) {
                return x.value != 0 ? "true" : "false";
              }
              return fmt::format("{}{}", x.value, type_suffix(expr.type, DType::kI32));
            },
            [&](const FloatConstant& x) {
              return float_text(x.value) + type_suffix(expr.type, DType::kF32);
            },
            [&](const VarRef& x) { return fmt::format("{}", x.var); },
            [&](const ElementRef& x) { return element(x.tile, x.group, x.lane); },
            [&](const SpecialRef& x) { return std::string(kir::text_of(x.special)); },
            [&](const ParamRef& x) { return fmt::format("{}", x.param); },
            [&](const PointwiseExpr& x) {
              std::string list;
              if (x.state.valid()) list = fmt::format("{}", x.state);
              for (const ExprId argument : x.arguments) {
                if (!list.empty()) list += ", ";
                list += text(argument);
              }
              const std::string form =
                  x.form == CallForm::kGeneral ? "" : fmt::format(".{}", kir::text_of(x.form));
              return fmt::format("{}{}({})", info_of(x.fn).text, form, list);
            },
            [&](const CastExpr& x) {
              return fmt::format("cast<{}>({})",
                                 x.to_tf32 ? std::string_view("tf32") : name_of(expr.type),
                                 text(x.argument));
            },
        },
        expr.kind);
  }

  const Kernel& kernel_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string print(const kir::Kernel& kernel) { return Printer(kernel).run(); }

}  // namespace sinter
