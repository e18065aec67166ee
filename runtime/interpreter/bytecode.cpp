#include "runtime/interpreter/bytecode.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codegen/kernel/matrix_limits.h"
#include "fusion_ir/error.h"
#include "runtime/interpreter/expression_compiler.h"
#include "runtime/interpreter/mma_lanes.h"

namespace sinter::interpreter {
namespace {

/// Walks the statements once.
class Compiler {
 public:
  Compiler(const kir::Kernel& kernel, const ElementSet& followed)
      : kernel_(kernel), out_(kernel, followed) {}

  void compile() {
    block(kernel_.body);
    out_.begin({});
    out_.emit({.opcode = Opcode::kEnd});
  }
  Program finish() { return out_.finish(); }
  [[nodiscard]] const ElementSet& unproved() const { return out_.unproved; }

 private:
  void block(const kir::Block& statements) {
    for (const kir::StmtId id : statements) {
      out_.begin(id);
      std::visit([&](const auto& stmt) { statement(id, stmt); }, kernel_.stmts[id].kind);
    }
  }

  void statement(kir::StmtId, const kir::Comment&) {}

  void statement(kir::StmtId, const kir::Declare& stmt) {
    if (stmt.init.valid()) {
      assign_scalar(stmt.var, out_.compile(stmt.init));
    } else {
      out_.note_declared(stmt.var);
    }
  }

  void statement(kir::StmtId, const kir::Assign& stmt) {
    assign_scalar(stmt.var, out_.compile(stmt.value));
  }

  void assign_scalar(kir::VarId id, const Operand& value) {
    const kir::Var& var = kernel_.vars[id];
    if (!var.is_scalar() || var.type != value.type) {
      out_.malformed(fmt::format("{} cannot take a {}", var.name, value.type));
    }
    out_.assign(out_.scalar_register(id), value);
    out_.note_written(out_.first_element(id));
  }

  void statement(kir::StmtId, const kir::SetElement& stmt) {
    size_t element = 0;
    const int32_t target = out_.element_register(stmt.tile, stmt.group, stmt.lane, 1, &element);
    const Operand value = out_.compile(stmt.value);
    if (value.type != kernel_.vars[stmt.tile].type) {
      out_.malformed(fmt::format("{} cannot take a {}", kernel_.vars[stmt.tile].name, value.type));
    }
    out_.assign(target, value);
    out_.note_written(element);
  }

  void statement(kir::StmtId id, const kir::For& stmt) {
    if (stmt.unroll) {
      expand(stmt);
    } else {
      loop(id, stmt);
    }
  }

  void expand(const kir::For& stmt) {
    const int64_t begin = out_.constant_integer(stmt.begin, "begin of an unrolled loop");
    const int64_t end = out_.constant_integer(stmt.end, "end of an unrolled loop");
    const int64_t step = out_.constant_integer(stmt.step, "step of an unrolled loop");
    if (step < 1) out_.malformed(fmt::format("an unrolled loop has step {}", step));
    if (begin < end && (end - 1) / step - begin / step > kMaxInstructions) {
      out_.malformed(fmt::format("an unrolled loop runs from {} to {} by {}", begin, end, step));
    }
    for (int64_t i = begin; i < end; i += step) {
      out_.set_index(stmt.index, i);
      block(stmt.body);
    }
    out_.set_index(stmt.index, std::nullopt);
  }

  void loop(kir::StmtId id, const kir::For& stmt) {
    const DType type = kernel_.vars[stmt.index].type;
    out_.emit({.opcode = Opcode::kLoopEnter});
    assign_scalar(stmt.index, out_.compile(stmt.begin));
    const Operand index{.type = type, .offset = out_.scalar_register(stmt.index)};
    const ElementSet before = out_.written;

    const uint32_t condition = out_.position();
    out_.begin(id);
    const Operand end = out_.compile(stmt.end);
    if (end.type != type) out_.malformed("the end of a loop has another type than its index");
    const Operand inside =
        out_.apply(checked(pointwise_lanes(PointwiseFn::kLt, type)), DType::kBool, {index, end});
    const uint32_t test = out_.position();
    out_.emit({.opcode = Opcode::kLoopTest, .a = out_.register_of(inside)});

    block(stmt.body);
    out_.begin(id);
    const Operand step = out_.compile(stmt.step);
    if (step.type != type) out_.malformed("the step of a loop has another type than its index");
    const Operand next =
        out_.apply(checked(pointwise_lanes(PointwiseFn::kAdd, type)), type, {index, step});
    out_.assign(index.offset, next);
    out_.emit({.opcode = Opcode::kJump, .target = condition});

    set_target(test, out_.position());
    out_.emit({.opcode = Opcode::kLoopLeave});
    out_.written = before;  // The body may not have run at all.
  }

  LaneFunction checked(LaneFunction function) {
    if (function == nullptr) out_.malformed("a loop index is not an integer");
    return function;
  }

  void statement(kir::StmtId id, const kir::If& stmt) {
    const Operand condition = out_.compile(stmt.condition);
    if (condition.type != DType::kBool) out_.malformed("a condition is not a bool");
    if (condition.constant) {
      block(condition.bits != 0 ? stmt.then_body : stmt.else_body);
      return;
    }
    const uint32_t branch = out_.position();
    out_.emit({.opcode = Opcode::kIf, .a = condition.offset});
    const ElementSet before = out_.written;
    block(stmt.then_body);
    out_.begin(id);
    if (stmt.else_body.empty()) {
      out_.written = before;
      set_target(branch, out_.position());
    } else {
      const ElementSet after_then = std::exchange(out_.written, before);
      const uint32_t other = out_.position();
      set_target(branch, other);
      out_.emit({.opcode = Opcode::kElse});
      block(stmt.else_body);
      out_.begin(id);
      for (size_t i = 0; i < after_then.size(); ++i) {
        out_.written[i] = out_.written[i] && after_then[i];
      }
      set_target(other, out_.position());
    }
    out_.emit({.opcode = Opcode::kEndIf});
  }

  void statement(kir::StmtId, const kir::Load& stmt) {
    const kir::Buffer& buffer = accessed(stmt.buffer, stmt.width, kir::Access::kRead);
    const kir::Var& tile = kernel_.vars[stmt.tile];
    if (tile.type != buffer.type) {
      out_.malformed(fmt::format("a load of {} fills a tile of {}", buffer.type, tile.type));
    }
    size_t element = 0;
    const int32_t result =
        out_.element_register(stmt.tile, stmt.group, stmt.lane, stmt.width, &element);
    if (stmt.predicate.valid()) {
      const int32_t predicate = predicate_register(stmt.predicate);
      const uint32_t branch = out_.position();
      const ElementSet before = out_.written;
      out_.emit({.opcode = Opcode::kIf, .a = predicate});
      emit_load(stmt, buffer, result, element);
      out_.written = before;
      set_target(branch, out_.position());
      out_.emit({.opcode = Opcode::kEndIf});
      return;
    }
    emit_load(stmt, buffer, result, element);
  }

  void emit_load(const kir::Load& stmt, const kir::Buffer& buffer, int32_t result, size_t element) {
    const int32_t index = out_.index_register(stmt.index);
    const int32_t tensor = tensor_register(buffer, stmt.tensor);
    out_.emit({.opcode = Opcode::kLoad,
               .element_bytes = static_cast<uint8_t>(bytes_of(buffer.type)),
               .shared = buffer.space == kir::Space::kShared,
               .of_table = buffer.is_table(),
               .result = result,
               .a = index,
               .c = tensor,
               .width = static_cast<int32_t>(stmt.width),
               .buffer = stmt.buffer});
    for (size_t i = 0; i < static_cast<size_t>(stmt.width); ++i) out_.note_written(element + i);
  }

  /// target = fn(target, lane) for one lane after the other, in f32.
  void statement(kir::StmtId, const kir::LaneExtreme& stmt) {
    const kir::Var& tile = kernel_.vars[stmt.tile];
    const LaneFunction extreme = pointwise_lanes(stmt.fn, DType::kF32);
    const LaneFunction magnitude = pointwise_lanes(PointwiseFn::kAbs, DType::kF32);
    const LaneFunction converted = cast_lanes(tile.type, DType::kF32);
    if (kernel_.vars[stmt.target].type != DType::kF32 || converted == nullptr || extreme == nullptr)
      out_.malformed(fmt::format("{} holds no lanes to compare", tile.name));
    Operand value = out_.variable(stmt.target);
    for (int64_t lane = 0; lane < tile.lanes; ++lane) {
      Operand x = out_.apply(converted, DType::kF32, {out_.element(stmt.tile, stmt.group, lane)});
      if (stmt.of_magnitudes) x = out_.apply(magnitude, DType::kF32, {x});
      value = out_.apply(extreme, DType::kF32, {value, x});
    }
    assign_scalar(stmt.target, value);
  }

  void statement(kir::StmtId, const kir::Store& stmt) {
    const kir::Buffer& buffer = accessed(stmt.buffer, stmt.width, kir::Access::kWrite);
    const DType type = kernel_.vars[stmt.tile].type;
    size_t element = 0;
    int32_t source = out_.element_register(stmt.tile, stmt.group, stmt.lane, stmt.width, &element);
    const int32_t index = out_.index_register(stmt.index);
    const int32_t tensor = tensor_register(buffer, stmt.tensor);
    for (size_t i = 0; i < static_cast<size_t>(stmt.width); ++i) out_.note_read(element + i);
    if (type != buffer.type) {
      if (type != compute_type(buffer.type)) {
        out_.malformed(fmt::format("a store to {} takes a tile of {}", buffer.type, type));
      }
      source = rounded(source, type, buffer.type, stmt.width);
    }
    out_.emit({.opcode = Opcode::kStore,
               .element_bytes = static_cast<uint8_t>(bytes_of(buffer.type)),
               .shared = buffer.space == kir::Space::kShared,
               .of_table = buffer.is_table(),
               .a = index,
               .b = source,
               .c = tensor,
               .width = static_cast<int32_t>(stmt.width),
               .buffer = stmt.buffer});
  }

  /// The register with the number of a table's tensor; none for other buffers.
  int32_t tensor_register(const kir::Buffer& buffer, kir::ExprId tensor) {
    if (buffer.is_table() != tensor.valid())
      out_.malformed(fmt::format("an access to {} names the wrong number of tensors", buffer.name));
    return tensor.valid() ? out_.index_register(tensor) : 0;
  }

  /// Consecutive temporaries with the elements converted to a storage type.
  int32_t rounded(int32_t source, DType from, DType to, int64_t width) {
    const int32_t result = out_.temporaries(to, width);
    for (int64_t i = 0; i < width; ++i) {
      out_.emit({.opcode = Opcode::kCompute,
                 .element_bytes = static_cast<uint8_t>(bytes_of(to)),
                 .result = result + static_cast<int32_t>(i * register_bytes(to)),
                 .a = source + static_cast<int32_t>(i * register_bytes(from)),
                 .function = cast_lanes(from, to)});
    }
    return result;
  }

  void statement(kir::StmtId, const kir::AsyncCopy& stmt) {
    const kir::Buffer& shared = accessed(stmt.shared, stmt.width, kir::Access::kWrite);
    const kir::Buffer& global = accessed(stmt.global, stmt.width, kir::Access::kRead);
    const int64_t bytes = stmt.width * bytes_of(global.type);
    check_copy(shared, global);
    if (bytes != 4 && bytes != 8 && bytes != 16) {
      out_.malformed(fmt::format("no asynchronous copy of {} bytes from {} to {}", bytes,
                                 global.name, shared.name));
    }
    const int32_t to = out_.index_register(stmt.shared_index);
    const int32_t from = out_.index_register(stmt.global_index);
    const bool is_predicated = stmt.predicate.valid();
    const int32_t predicate = is_predicated ? predicate_register(stmt.predicate) : 0;
    out_.emit({.opcode = Opcode::kAsyncCopy,
               .element_bytes = static_cast<uint8_t>(bytes_of(global.type)),
               .predicated = is_predicated,
               .a = to,
               .b = from,
               .c = predicate,
               .width = static_cast<int32_t>(stmt.width),
               .buffer = stmt.shared,
               .source_buffer = stmt.global});
  }

  void statement(kir::StmtId, const kir::AsyncCommit&) {
    out_.emit({.opcode = Opcode::kAsyncCommit});
  }
  void statement(kir::StmtId, const kir::AsyncWait& stmt) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    out_.emit({.opcode = Opcode::kAsyncWait,
               .width = static_cast<int32_t>(std::clamp<int64_t>(stmt.pending, -1, kMost))});
  }

  int32_t predicate_register(kir::ExprId id) {
    const Operand predicate = out_.compile(id);
    if (predicate.type != DType::kBool) out_.malformed("a predicate is not a bool");
    return out_.register_of(predicate);
  }

  // ---- Mbarriers

  void statement(kir::StmtId, const kir::InitMbarriers&) {
    out_.emit({.opcode = Opcode::kInitMbarriers});
  }

  void statement(kir::StmtId, const kir::ExpectBytes& stmt) {
    const int32_t index = out_.index_register(stmt.index);
    const int32_t bytes = i32_register(stmt.bytes, "the bytes");
    out_.emit({.opcode = Opcode::kArrive, .a = index, .b = bytes, .mbarrier = checked(stmt.array)});
  }

  void statement(kir::StmtId, const kir::MbarrierArrive& stmt) {
    const int32_t index = out_.index_register(stmt.index);
    out_.emit({.opcode = Opcode::kArrive, .a = index, .width = 0, .mbarrier = checked(stmt.array)});
  }

  void statement(kir::StmtId, const kir::MbarrierWait& stmt) {
    const int32_t index = out_.index_register(stmt.index);
    const int32_t parity = i32_register(stmt.parity, "the parity");
    out_.emit({.opcode = Opcode::kMbarrierWait,
               .a = index,
               .b = parity,
               .mbarrier = checked(stmt.array)});
  }

  void statement(kir::StmtId, const kir::BulkCopy& stmt) {
    const kir::Buffer& shared = accessed(stmt.shared, 1, kir::Access::kWrite);
    const kir::Buffer& global = accessed(stmt.global, 1, kir::Access::kRead);
    check_copy(shared, global);
    const int32_t to = out_.index_register(stmt.shared_index);
    const int32_t from = out_.index_register(stmt.global_index);
    const int32_t elements = out_.index_register(stmt.elements);
    const int32_t index = out_.index_register(stmt.index);
    out_.emit({.opcode = Opcode::kBulkCopy,
               .element_bytes = static_cast<uint8_t>(bytes_of(global.type)),
               .result = index,
               .a = to,
               .b = from,
               .c = elements,
               .buffer = stmt.shared,
               .source_buffer = stmt.global,
               .mbarrier = checked(stmt.array)});
  }

  void statement(kir::StmtId, const kir::TensorCopy& stmt) {
    if (!kernel_.tensor_maps.contains(stmt.map))
      out_.malformed(fmt::format("there is no {}", stmt.map));
    const kir::TensorMap& map = kernel_.tensor_maps[stmt.map];
    if (const auto problems = problems_of(kernel_, map); !problems.empty())
      out_.malformed(problems.front());
    if (stmt.coordinates.size() != map.axes.size()) {
      out_.malformed(
          fmt::format("{} coordinates of {} axes", stmt.coordinates.size(), map.axes.size()));
    }
    const kir::Buffer& shared = accessed(stmt.shared, 1, kir::Access::kWrite);
    check_copy(shared, accessed(map.buffer, 1, kir::Access::kRead));
    const int32_t to = out_.index_register(stmt.shared_index);
    const int32_t index = out_.index_register(stmt.index);
    const int32_t coordinates =
        out_.temporaries(DType::kI64, static_cast<int64_t>(stmt.coordinates.size()));
    for (size_t i = 0; i < stmt.coordinates.size(); ++i) {
      const int32_t coordinate = i32_register(stmt.coordinates[i], "coordinates");
      out_.emit({.opcode = Opcode::kCompute,
                 .element_bytes = static_cast<uint8_t>(bytes_of(DType::kI64)),
                 .result = coordinates + static_cast<int32_t>(i * kLanes * sizeof(int64_t)),
                 .a = coordinate,
                 .function = cast_lanes(DType::kI32, DType::kI64)});
    }
    out_.emit({.opcode = Opcode::kTensorCopy,
               .element_bytes = static_cast<uint8_t>(bytes_of(shared.type)),
               .result = index,
               .a = to,
               .b = coordinates,
               .buffer = stmt.shared,
               .source_buffer = map.buffer,
               .mbarrier = checked(stmt.array)});
  }

  void statement(kir::StmtId, const kir::ProxyFence&) {
    out_.emit({.opcode = Opcode::kProxyFence});
  }

  void statement(kir::StmtId, const kir::ClusterStore& stmt) {
    const kir::Var& source = kernel_.vars[stmt.source];
    const kir::Buffer& shared = accessed(stmt.shared, source.lanes, kir::Access::kWrite);
    if (shared.space != kir::Space::kShared || shared.type != source.type || source.groups != 1) {
      out_.malformed(fmt::format("no store of {} to {}", source.name, shared.name));
    }
    const int32_t to = out_.index_register(stmt.index);
    const int32_t block = i32_register(stmt.block, "blocks of a cluster");
    const int32_t index = out_.index_register(stmt.mbarrier);
    for (size_t i = 0; i < static_cast<size_t>(source.lanes); ++i)
      out_.note_read(out_.first_element(stmt.source) + i);
    out_.emit({.opcode = Opcode::kClusterStore,
               .element_bytes = static_cast<uint8_t>(bytes_of(shared.type)),
               .result = index,
               .a = to,
               .b = block,
               .c = out_.scalar_register(stmt.source),
               .width = static_cast<int32_t>(source.lanes),
               .buffer = stmt.shared,
               .mbarrier = checked(stmt.array)});
  }

  void statement(kir::StmtId, const kir::MessageStore& stmt) {
    accessed(stmt.mail, 1, kir::Access::kReadWrite);
    const int32_t block = i32_register(stmt.block, "blocks of a team");
    const int32_t place = i32_register(stmt.place, "places of messages");
    const int32_t number = i32_register(stmt.number, "numbers of messages");
    for (size_t i = 0; i < stmt.values.size(); ++i) {
      check_message(stmt.mail, stmt.values[i]);
      out_.note_read(out_.first_element(stmt.values[i]));
      out_.emit({.opcode = Opcode::kMessageStore,
                 .element_bytes = static_cast<uint8_t>(bytes_of(DType::kI32)),
                 .predicated = stmt.values.size() > 1,
                 .a = block,
                 .b = place,
                 .c = number,
                 .d = out_.scalar_register(stmt.values[i]),
                 .width = static_cast<int32_t>(i),
                 .buffer = stmt.mail});
    }
  }

  void statement(kir::StmtId, const kir::MessageWait& stmt) {
    accessed(stmt.mail, 1, kir::Access::kReadWrite);
    const int32_t place = i32_register(stmt.place, "places of messages");
    const int32_t number = i32_register(stmt.number, "numbers of messages");
    for (size_t i = 0; i < stmt.values.size(); ++i) {
      check_message(stmt.mail, stmt.values[i]);
      out_.emit({.opcode = Opcode::kMessageWait,
                 .element_bytes = static_cast<uint8_t>(bytes_of(DType::kI32)),
                 .predicated = stmt.values.size() > 1,
                 .result = out_.scalar_register(stmt.values[i]),
                 .b = place,
                 .c = number,
                 .width = static_cast<int32_t>(i),
                 .buffer = stmt.mail});
      out_.note_written(out_.first_element(stmt.values[i]));
    }
  }

  void check_message(kir::BufferId mail, kir::VarId value) {
    const kir::Buffer& buffer = kernel_.buffers[mail];
    const kir::Var& var = kernel_.vars[value];
    if (buffer.space != kir::Space::kGlobal || buffer.type != DType::kI32 || !var.is_scalar() ||
        bytes_of(var.type) != bytes_of(DType::kI32)) {
      out_.malformed(fmt::format("no message of {} by {}", var.name, buffer.name));
    }
  }

  void check_copy(const kir::Buffer& shared, const kir::Buffer& global) {
    if (shared.space == kir::Space::kShared && global.space == kir::Space::kGlobal &&
        shared.type == global.type) {
      return;
    }
    out_.malformed(fmt::format("no asynchronous copy from {} to {}", global.name, shared.name));
  }

  kir::MbarrierId checked(kir::MbarrierId id) {
    if (!kernel_.mbarriers.contains(id)) out_.malformed(fmt::format("there is no {}", id));
    return id;
  }

  int32_t i32_register(kir::ExprId id, std::string_view what) {
    const Operand operand = out_.compile(id);
    if (operand.type != DType::kI32) {
      out_.malformed(fmt::format("{} are {}, not i32", what, operand.type));
    }
    return out_.register_of(operand);
  }

  // ---- Barriers and exchange

  void statement(kir::StmtId, const kir::Barrier&) { out_.emit({.opcode = Opcode::kBarrier}); }
  void statement(kir::StmtId, const kir::ClusterArrive&) {
    out_.emit({.opcode = Opcode::kClusterArrive});
  }
  void statement(kir::StmtId, const kir::ClusterWait&) {
    out_.emit({.opcode = Opcode::kClusterWait});
  }
  void statement(kir::StmtId, const kir::ClusterBarrier&) {
    out_.emit({.opcode = Opcode::kClusterBarrier});
  }

  void statement(kir::StmtId, const kir::GroupBarrier& stmt) {
    if (stmt.threads < kLanes || stmt.threads > kernel_.threads || stmt.threads % kLanes != 0) {
      out_.malformed(fmt::format("a group barrier of {} threads", stmt.threads));
    }
    const int32_t number = i32_register(stmt.id, "the numbers of barriers");
    out_.emit({.opcode = Opcode::kGroupBarrier,
               .a = number,
               .width = static_cast<int32_t>(stmt.threads)});
  }

  void statement(kir::StmtId, const kir::SetMaxRegisters&) {
    out_.emit({.opcode = Opcode::kLimitRegisters});
  }

  void statement(kir::StmtId, const kir::WarpBarrier&) {
    out_.emit({.opcode = Opcode::kWarpBarrier});
  }
  void statement(kir::StmtId, const kir::DeviceFence&) {
    out_.emit({.opcode = Opcode::kDeviceFence});
  }
  void statement(kir::StmtId, const kir::AtomicCount& stmt) {
    const kir::Buffer& counters = accessed(stmt.buffer, 1, kir::Access::kReadWrite);
    const kir::Var& target = kernel_.vars[stmt.target];
    if (counters.space != kir::Space::kGlobal || counters.type != DType::kI32 ||
        target.type != DType::kI32 || !target.is_scalar()) {
      out_.malformed(fmt::format("{} does not count into {}", counters.name, target.name));
    }
    const int32_t index = out_.index_register(stmt.index);
    const int32_t last = i32_register(stmt.last, "counts");
    out_.emit({.opcode = Opcode::kAtomicCount,
               .element_bytes = static_cast<uint8_t>(bytes_of(DType::kI32)),
               .result = out_.scalar_register(stmt.target),
               .a = index,
               .b = last,
               .buffer = stmt.buffer});
    out_.note_written(out_.first_element(stmt.target));
  }

  // Kernels are interpreted one after the other.
  void statement(kir::StmtId, const kir::LaunchDependents&) {}
  void statement(kir::StmtId, const kir::WaitForPrevious&) {}

  void statement(kir::StmtId, const kir::ShuffleXor& stmt) {
    const Operand source = out_.compile(stmt.source);
    const kir::Var& target = kernel_.vars[stmt.target];
    const bool has_width = bytes_of(source.type) >= 4;
    if (!has_width || target.type != source.type || !target.is_scalar() || stmt.mask < 1 ||
        stmt.mask >= kLanes) {
      out_.malformed(fmt::format("no shuffle of {} into {} with mask {}", source.type, target.name,
                                 stmt.mask));
    }
    out_.emit({.opcode = Opcode::kShuffle,
               .element_bytes = static_cast<uint8_t>(bytes_of(source.type)),
               .result = out_.scalar_register(stmt.target),
               .a = out_.register_of(source),
               .width = stmt.mask});
    out_.note_written(out_.first_element(stmt.target));
  }

  // ---- Matrices

  void statement(kir::StmtId, const kir::LoadMatrix& stmt) {
    const kir::Buffer& buffer = accessed(stmt.shared, 1, kir::Access::kRead);
    const kir::Var& tile = kernel_.vars[stmt.tile];
    const bool has_number = stmt.matrices == 1 || stmt.matrices == 2 || stmt.matrices == 4;
    if (buffer.space != kir::Space::kShared || buffer.type != tile.type || !has_number ||
        (stmt.transpose && bytes_of(buffer.type) != 2)) {
      out_.malformed(fmt::format("no load of {} matrices from {} into {}", stmt.matrices,
                                 buffer.name, tile.name));
    }
    const Fragment result = fragment(stmt.tile, stmt.group, stmt.matrices);
    const int32_t index = out_.index_register(stmt.index);
    out_.emit({.opcode = Opcode::kLoadMatrix,
               .element_bytes = static_cast<uint8_t>(bytes_of(buffer.type)),
               .transpose = stmt.transpose,
               .result = result.offset,
               .a = index,
               .width = static_cast<int32_t>(stmt.matrices),
               .buffer = stmt.shared});
    note_written(result);
  }

  void statement(kir::StmtId, const kir::Mma& stmt) {
    const kir::Var& sum = kernel_.vars[stmt.accumulator];
    const DType left_type = kernel_.vars[stmt.left].type;
    const DType right_type = kernel_.vars[stmt.right].type;
    const LaneFunction product = mma_lanes(left_type, right_type);
    if (product == nullptr || sum.type != kir::mma_accumulator(left_type, right_type) ||
        sum.lanes != kir::Mma::kAccumulatorLanes) {
      out_.malformed(fmt::format("no product of matrices of {} and {} into {}", left_type,
                                 right_type, sum.name));
    }
    const Fragment left = fragment(stmt.left, stmt.left_group, kir::Mma::kLeftGroups);
    const Fragment right = fragment(stmt.right, stmt.right_group, kir::Mma::kRightGroups);
    const Fragment result =
        groups_of(stmt.accumulator, stmt.accumulator_group, kir::Mma::kAccumulatorGroups);
    for (const Fragment& read : {result, left, right}) {
      for (size_t i = 0; i < read.elements; ++i) out_.note_read(read.first_element + i);
    }
    out_.emit({.opcode = Opcode::kMma,
               .element_bytes = static_cast<uint8_t>(bytes_of(sum.type)),
               .result = result.offset,
               .a = left.offset,
               .b = right.offset,
               .width = static_cast<int32_t>(result.elements),
               .function = product});
    note_written(result);
  }

  void statement(kir::StmtId, const kir::Wgmma& stmt) {
    const auto* in_registers = std::get_if<kir::RegisterMatrix>(&stmt.left);
    const auto* in_shared = std::get_if<kir::SharedMatrix>(&stmt.left);
    if (in_shared != nullptr) accessed(in_shared->buffer, 1, kir::Access::kRead);
    accessed(stmt.right.buffer, 1, kir::Access::kRead);
    if (const auto problems = problems_of(kernel_, stmt); !problems.empty())
      out_.malformed(problems.front());
    if (kernel_.threads % kir::kWarpGroup != 0)
      out_.malformed(fmt::format("products of warp groups in {} threads", kernel_.threads));
    const Fragment result = groups_of(stmt.accumulator, stmt.accumulator_group, stmt.groups());
    Fragment left;
    if (in_registers != nullptr) {
      left = fragment(in_registers->tile, in_registers->group, kir::Mma::kLeftGroups);
    } else {
      left.offset = out_.index_register(in_shared->index);
    }
    for (size_t i = 0; !stmt.replaces && i < result.elements; ++i)
      out_.require_written(result.first_element + i);
    for (size_t i = 0; i < left.elements; ++i) out_.require_written(left.first_element + i);
    const int32_t right = out_.index_register(stmt.right.index);
    out_.emit(
        {.opcode = Opcode::kWgmma,
         .element_bytes = static_cast<uint8_t>(bytes_of(kernel_.vars[stmt.accumulator].type)),
         .result = result.offset,
         .a = left.offset,
         .b = right,
         .c = out_.product_element(result.first_element),
         .d = in_registers != nullptr ? out_.product_element(left.first_element) : -1,
         .width = static_cast<int32_t>(result.elements),
         .function = mma_lanes(left_type(kernel_, stmt), kernel_.buffers[stmt.right.buffer].type)});
    for (size_t i = 0; stmt.replaces && i < result.elements; ++i)
      out_.note_product(result.first_element + i);
  }
  void statement(kir::StmtId, const kir::WgmmaFence&) {
    out_.emit({.opcode = Opcode::kWgmmaFence});
  }
  void statement(kir::StmtId, const kir::WgmmaCommit&) {
    out_.emit({.opcode = Opcode::kWgmmaCommit});
  }
  void statement(kir::StmtId, const kir::WgmmaWait& stmt) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    out_.emit({.opcode = Opcode::kWgmmaWait,
               .width = static_cast<int32_t>(std::clamp<int64_t>(stmt.pending, 0, kMost))});
  }

  /// Consecutive groups of a tile.
  struct Fragment {
    int32_t offset = 0;  ///< Of the first register.
    size_t first_element = 0;
    size_t elements = 0;
  };
  Fragment groups_of(kir::VarId tile, kir::ExprId group, int64_t count) {
    Fragment groups;
    groups.offset = out_.groups_register(tile, group, count, &groups.first_element);
    groups.elements = static_cast<size_t>(count * kernel_.vars[tile].lanes);
    return groups;
  }
  /// The same of a tile each of whose groups is a lane's part of a matrix.
  Fragment fragment(kir::VarId tile, kir::ExprId group, int64_t count) {
    const kir::Var& var = kernel_.vars[tile];
    if (var.lanes * bytes_of(var.type) != kir::kFragmentBytes)
      out_.malformed(fmt::format("{} of {} lanes holds no matrices", var.name, var.lanes));
    return groups_of(tile, group, count);
  }
  void note_written(const Fragment& fragment) {
    for (size_t i = 0; i < fragment.elements; ++i) out_.note_written(fragment.first_element + i);
  }

  void statement(kir::StmtId, const kir::AllReduce& stmt) {
    out_.malformed(fmt::format("all-reduce {} has not been lowered", stmt.name));
  }

  /// The buffer of an access, once it is known to be placed and to allow it.
  const kir::Buffer& accessed(kir::BufferId id, int64_t width, kir::Access access) {
    if (!kernel_.buffers.contains(id)) out_.malformed(fmt::format("there is no buffer {}", id));
    const kir::Buffer& buffer = kernel_.buffers[id];
    const bool is_shared = buffer.space == kir::Space::kShared;
    if (is_shared && buffer.offset < 0) {
      out_.malformed(fmt::format("shared buffer {} has not been placed", buffer.name));
    }
    if (!is_shared && buffer.access != access && buffer.access != kir::Access::kReadWrite) {
      out_.malformed(fmt::format("buffer {} may not be {}", buffer.name,
                                 access == kir::Access::kRead ? "read" : "written"));
    }
    if (width < 1 || (width & (width - 1)) != 0) {
      out_.malformed(fmt::format("an access has width {}", width));
    }
    return buffer;
  }

  void set_target(uint32_t instruction, uint32_t target) {
    out_.program().code[instruction].target = target;
  }

  const kir::Kernel& kernel_;
  ExpressionCompiler out_;
};

}  // namespace

Result<Program> compile(const kir::Kernel& kernel) {
  try {
    // The first attempt finds the elements whose reads need checking; few kernels have any. The
    // second adds the checks, and the marks they need, for these alone.
    const ElementSet nothing;
    Compiler plain(kernel, nothing);
    plain.compile();
    if (std::ranges::none_of(plain.unproved(), [](bool unproved) { return unproved; })) {
      return plain.finish();
    }
    const ElementSet followed = plain.unproved();
    Compiler checking(kernel, followed);
    checking.compile();
    return checking.finish();
  } catch (const SinterException& exception) {
    return fail(exception.error());
  }
}

}  // namespace sinter::interpreter
