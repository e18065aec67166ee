#include "codegen/kernel/kernel_verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "codegen/kernel/kernel_traversal.h"
#include "codegen/kernel/kernel_uniformity.h"
#include "codegen/kernel/matrix_limits.h"
#include "codegen/kernel/verify_expressions.h"
#include "codegen/kernel/verify_scopes.h"
#include "codegen/kernel/verify_tables.h"
#include "fusion_ir/result.h"

namespace sinter {
namespace {

using namespace kir;  // NOLINT(google-build-using-namespace): this file is about nothing else

/// Unit of a bulk copy (PTX ISA, "cp.async.bulk"), and what one phase of an mbarrier can count
/// (PTX ISA, "mbarrier", tx-count).
constexpr int64_t kBulkUnit = 16;
/// Least that one block of a cluster stores to another (PTX ISA, "st.async").
constexpr int64_t kWordBytes = 4;
constexpr int64_t kMostBulkBytes = (1 << 20) - 1;

bool is_power_of_two(int64_t x) { return x > 0 && std::has_single_bit(static_cast<uint64_t>(x)); }

bool is_index(DType type) { return type == DType::kI32 || type == DType::kI64; }

/// Checks statements of a kernel whose ids are known to be in range.
class StatementVerifier : private ScopeVerifier {
 public:
  StatementVerifier(const Kernel& kernel, KernelStage stage,
                    std::vector<KernelViolation>* violations)
      : ScopeVerifier(kernel, violations), stage_(stage), uniformity_(kernel) {}

  void run() {
    check(kernel_.body, Uniformity::kBlock);
    if (barrier_state_ == BarrierState::kInFlight)
      report("nothing waits for the blocks of the cluster that have arrived");
    for (const auto& [stmt, buffer] : plain_accesses_) {
      current_ = stmt;
      if (is_counter_[buffer])
        report("{} ({}) holds counters or messages, and is accessed otherwise", buffer,
               kernel_.buffers[buffer].name);
    }
  }

 private:
  void check(const Block& block, Uniformity control) {
    std::vector<VarId> declared_outside = enter_block();
    for (const StmtId id : block) {
      current_ = id;
      const StmtKind& stmt = kernel_.stmts[id].kind;
      for_each_expr(stmt, [this](ExprId expr) { check_uses(expr); });
      std::visit([&](const auto& s) { check(s, control); }, stmt);
    }
    leave_block(std::move(declared_outside));
  }

  // ---- Statements

  void check(const Comment&, Uniformity) {}

  void check(const Declare& s, Uniformity) {
    declare(s.var);
    if (!s.init.valid()) return;
    if (!var(s.var).is_scalar()) report("tile {} has an initial value", s.var);
    if (type_of(s.init) != var(s.var).type) {
      report("{} ({}) is {}, its value {}", s.var, var(s.var).name, var(s.var).type,
             type_of(s.init));
    }
  }

  void check(const Assign& s, Uniformity) {
    write_scalar(s.var);
    if (type_of(s.value) != var(s.var).type) {
      report("{} ({}) is {}, the value {}", s.var, var(s.var).name, var(s.var).type,
             type_of(s.value));
    }
  }

  void check(const SetElement& s, Uniformity) {
    write(s.tile);
    check_element(s.tile, s.group, s.lane, 1);
    if (type_of(s.value) != var(s.tile).type) {
      report("{} ({}) is {}, the value {}", s.tile, var(s.tile).name, var(s.tile).type,
             type_of(s.value));
    }
  }

  void check(const For& s, Uniformity control) {
    const Var& index = var(s.index);
    if (!index.is_scalar() || !is_index(index.type)) {
      report("index {} ({}) is no scalar i32 or i64", s.index, index.name);
    }
    for (const ExprId expr : {s.begin, s.end, s.step}) {
      if (type_of(expr) != index.type) {
        report("{} of a loop over {} is {}, not {}", expr, s.index, type_of(expr), index.type);
      }
    }
    const auto* step = std::get_if<IntegerConstant>(&kernel_.exprs[s.step].kind);
    if (step != nullptr && step->value < 1) report("the step is {}", step->value);
    if (s.unroll && !enter_unrolled(s)) report("an unrolled loop has bounds that are not constant");
    const Uniformity inside =
        std::max(control, uniformity_.of_control(kernel_.stmts[current_].kind));
    declare_loop_index(s.index);
    check(s.body, inside);
    end_scope(s.index);
  }

  void check(const If& s, Uniformity control) {
    if (type_of(s.condition) != DType::kBool) {
      report("the condition is {}, not bool", type_of(s.condition));
    }
    const Uniformity inside =
        std::max(control, uniformity_.of_control(kernel_.stmts[current_].kind));
    check(s.then_body, inside);
    check(s.else_body, inside);
  }

  void check(const Load& s, Uniformity) {
    write(s.tile);
    check_element(s.tile, s.group, s.lane, s.width);
    check_access(s.buffer, s.index, s.width);
    check_tensor(s.buffer, s.tensor);
    const Buffer& buffer = kernel_.buffers[s.buffer];
    if (buffer.space == Space::kArgument && s.width != 1)
      report("{} elements of argument {} at once", s.width, buffer.name);
    if (buffer.access == Access::kWrite) report("{} ({}) is read", s.buffer, buffer.name);
    if (var(s.tile).type != buffer.type) {
      report("{} is {}, {} is {}", s.tile, var(s.tile).type, s.buffer, buffer.type);
    }
    check_predicate(s.predicate);
    if (!s.predicate.valid()) return;
    if (buffer.space != Space::kGlobal || s.tensor.valid() || var(s.tile).is_scalar())
      report("a load from {} into {} under a predicate", s.buffer, s.tile);
  }

  void check(const LaneExtreme& s, Uniformity) {
    write_scalar(s.target);
    use(s.tile);
    check_tile_index(s.tile, "group", s.group, var(s.tile).groups, 1);
    const Var& tile = var(s.tile);
    if (s.fn != PointwiseFn::kMax && s.fn != PointwiseFn::kMin)
      report("{} of lanes", info_of(s.fn).text);
    if (var(s.target).type != DType::kF32)
      report("{} ({}) is {}, not f32", s.target, var(s.target).name, var(s.target).type);
    if ((tile.type != DType::kBF16 && tile.type != DType::kF16) || tile.lanes % 2 != 0)
      report("{} ({}) holds no pairs of bf16 or f16", s.tile, tile.name);
  }

  void check(const Store& s, Uniformity) {
    has_stored_ = true;
    check_element(s.tile, s.group, s.lane, s.width);
    check_access(s.buffer, s.index, s.width);
    check_tensor(s.buffer, s.tensor);
    const Buffer& buffer = kernel_.buffers[s.buffer];
    if (buffer.access == Access::kRead) report("{} ({}) is written", s.buffer, buffer.name);
    if (var(s.tile).type != buffer.type && var(s.tile).type != compute_type(buffer.type)) {
      report("{} is {}, {} is {}", s.tile, var(s.tile).type, s.buffer, buffer.type);
    }
  }

  /// Checks the tensor index of an access: present, as i32, exactly for tables.
  void check_tensor(BufferId id, ExprId tensor) {
    const Buffer& buffer = kernel_.buffers[id];
    if (buffer.is_table() != tensor.valid()) {
      report("an access to {} ({}), which is {} table, {} a tensor", id, buffer.name,
             buffer.is_table() ? "a" : "no", tensor.valid() ? "names" : "does not name");
    }
    if (!tensor.valid()) return;
    check_i32(tensor, "number of a tensor", 0, buffer.tensors - 1);
  }

  /// Checks that an access without a tensor index is not to a table.
  void check_single(BufferId id) {
    const Buffer& buffer = kernel_.buffers[id];
    if (buffer.is_table()) report("a copy from or count in the table {} ({})", id, buffer.name);
  }

  void check_access(BufferId id, ExprId index, int64_t width) {
    constexpr int64_t kWidestAccess = 16;
    const Buffer& buffer = kernel_.buffers[id];
    plain_accesses_.emplace_back(current_, id);
    if (!is_index(type_of(index))) report("index into {} is {}", id, type_of(index));
    if (!is_width(width)) {
      report("width {} is not a power of two up to {}", width, kMostElements);
      return;
    }
    const int64_t bytes = width * bytes_of(buffer.type);
    if (stage_ == KernelStage::kLowered && bytes > kWidestAccess) {
      report("an access of {} bytes; the hardware has {}", bytes, kWidestAccess);
    }
    const int64_t needed = std::min(bytes, kWidestAccess);
    if (buffer.space == Space::kGlobal && buffer.alignment < needed) {
      report("an access of {} bytes to {} ({}), which is aligned to {}", bytes, id, buffer.name,
             buffer.alignment);
    }
  }

  void check(const AsyncCopy& s, Uniformity) {
    check_access(s.shared, s.shared_index, s.width);
    check_access(s.global, s.global_index, s.width);
    check_copy(s.shared, s.global);
    check_predicate(s.predicate);
    const Buffer& shared = kernel_.buffers[s.shared];
    if (!is_width(s.width)) return;
    const int64_t bytes = s.width * bytes_of(shared.type);
    if (bytes != 4 && bytes != 8 && bytes != 16) {
      report("an asynchronous copy of {} bytes; there are 4, 8 and 16", bytes);
    }
  }

  void check_predicate(ExprId id) {
    if (id.valid() && type_of(id) != DType::kBool)
      report("the predicate is {}, not bool", type_of(id));
  }

  /// Checks source and destination of a copy from global to shared memory.
  void check_copy(BufferId to, BufferId from) {
    const Buffer& shared = kernel_.buffers[to];
    const Buffer& global = kernel_.buffers[from];
    if (shared.space != Space::kShared) report("{} ({}) is not shared", to, shared.name);
    if (global.space != Space::kGlobal) report("{} ({}) is not global", from, global.name);
    check_single(from);
    if (shared.type != global.type) report("copies {} to {}", global.type, shared.type);
    if (global.access == Access::kWrite) report("{} ({}) is read", from, global.name);
  }

  void check(const AsyncCommit&, Uniformity) {}

  void check(const AsyncWait& s, Uniformity) {
    if (s.pending < -1) report("waits for all but the last {} groups of copies", s.pending);
  }

  // ---- Matrices

  void check(const LoadMatrix& s, Uniformity control) {
    require(control, Uniformity::kWarp, "load of matrices");
    write(s.tile);
    const Buffer& buffer = kernel_.buffers[s.shared];
    const int64_t element_bytes = bytes_of(buffer.type);
    check_access(s.shared, s.index, LoadMatrix::kRowBytes / element_bytes);
    if (buffer.space != Space::kShared) report("{} ({}) is not shared", s.shared, buffer.name);
    if (buffer.alignment < LoadMatrix::kRowBytes) {
      report("matrices from {} ({}), which is aligned to {}, not {}", s.shared, buffer.name,
             buffer.alignment, LoadMatrix::kRowBytes);
    }
    if (var(s.tile).type != buffer.type)
      report("{} is {}, {} is {}", s.tile, var(s.tile).type, s.shared, buffer.type);
    if (var(s.tile).is_scalar())
      report("{} ({}) is a scalar, not a tile", s.tile, var(s.tile).name);
    check_fragment(s.tile);
    if (s.transpose && element_bytes != 2)
      report("transposes {} of {} bytes, not 2", buffer.type, element_bytes);
    if (s.matrices != 1 && s.matrices != 2 && s.matrices != 4) {
      report("{} matrices; there are 1, 2 and 4", s.matrices);
      return;
    }
    check_tile_index(s.tile, "group", s.group, var(s.tile).groups, s.matrices);
  }

  void check(const Mma& s, Uniformity control) {
    require(control, Uniformity::kWarp, "matrix product");
    write(s.accumulator);
    use(s.left);
    use(s.right);
    check_fragment(s.left);
    check_fragment(s.right);
    check_tile_index(s.accumulator, "group", s.accumulator_group, var(s.accumulator).groups,
                     Mma::kAccumulatorGroups);
    check_tile_index(s.left, "group", s.left_group, var(s.left).groups, Mma::kLeftGroups);
    check_tile_index(s.right, "group", s.right_group, var(s.right).groups, Mma::kRightGroups);
    const Var& accumulator = var(s.accumulator);
    if (accumulator.lanes != Mma::kAccumulatorLanes) {
      report("{} ({}) has {} lanes; an accumulator has {}", s.accumulator, accumulator.name,
             accumulator.lanes, Mma::kAccumulatorLanes);
    }
    const DType left = var(s.left).type;
    const DType right = var(s.right).type;
    const std::optional<DType> needed = mma_accumulator(left, right);
    if (!needed) {
      report("no product of matrices of {} and {}", left, right);
    } else if (accumulator.type != *needed) {
      report("{} ({}) is {}; products of {} and {} are {}", s.accumulator, accumulator.name,
             accumulator.type, left, right, *needed);
    }
  }

  /// Reports a tile whose groups are not one register each.
  void check_fragment(VarId id) {
    const Var& tile = var(id);
    const int64_t bytes = tile.lanes * bytes_of(tile.type);
    if (bytes == kFragmentBytes) return;
    report("{} ({}) has {} bytes in a group; a lane has {} of a matrix", id, tile.name, bytes,
           kFragmentBytes);
  }

  // ---- Matrices of a warp group

  void check(const Wgmma& s, Uniformity control) {
    check_in_warp_group(control, "product of a warp group");
    write(s.accumulator);
    const auto* in_registers = std::get_if<RegisterMatrix>(&s.left);
    if (in_registers != nullptr) {
      use(in_registers->tile);
      check_fragment(in_registers->tile);
    }
    const auto problems = problems_of(kernel_, s);
    for (const std::string& problem : problems) report("{}", problem);
    if (!problems.empty()) return;
    check_tile_index(s.accumulator, "group", s.accumulator_group, var(s.accumulator).groups,
                     s.groups());
    if (in_registers != nullptr) {
      check_tile_index(in_registers->tile, "group", in_registers->group,
                       var(in_registers->tile).groups, Mma::kLeftGroups);
    } else {
      check_matrix(std::get<SharedMatrix>(s.left), Wgmma::kRows);
    }
    check_matrix(s.right, s.columns);
  }

  void check_matrix(const SharedMatrix& matrix, int64_t own) {
    const Buffer& buffer = kernel_.buffers[matrix.buffer];
    const int64_t size = bytes_of(buffer.type);
    const int64_t room = matrix.transposed ? 0 : matrix.swizzle - Wgmma::kDepthBytes;
    check_uniform(matrix.index, "index of a matrix", Uniformity::kWarp);
    check_whole_index(matrix.buffer, matrix.index, matrix.period(), room);
    check_whole_index(matrix.buffer, matrix.index, Wgmma::kDepthBytes, 0);
    check_constant(matrix.index, "index of a matrix", 0,
                   buffer.count - matrix.elements_spanned(own, size) + room / size);
  }

  void check(const WgmmaFence&, Uniformity control) {
    check_in_warp_group(control, "fence of a warp group");
  }
  void check(const WgmmaCommit&, Uniformity control) {
    check_in_warp_group(control, "commit of a warp group");
  }
  void check(const WgmmaWait& s, Uniformity control) {
    constexpr int64_t kMostPending = 7;  // PTX ISA, "wgmma.wait_group".
    check_in_warp_group(control, "wait of a warp group");
    if (s.pending < 0 || s.pending > kMostPending)
      report("waits for all but {} groups of products, not 0 to {}", s.pending, kMostPending);
  }

  void check_in_warp_group(Uniformity control, std::string_view what) {
    require(control, Uniformity::kWarp, what);
    if (kernel_.threads % kWarpGroup != 0) {
      report("a {}, which has {} threads, in a block of {}", what, kWarpGroup, kernel_.threads);
    }
  }

  // ---- Mbarriers

  void check(const InitMbarriers&, Uniformity) {
    if (depth() != 1) report("mbarriers are initialised inside of control flow");
    if (std::exchange(are_mbarriers_init_, true)) report("mbarriers are initialised again");
  }

  void check_initialised(MbarrierId id) {
    if (are_mbarriers_init_) return;
    report("{} ({}) is not initialised yet", id, kernel_.mbarriers[id].name);
  }

  void check_mbarrier(MbarrierId id, ExprId index) {
    const Mbarrier& mbarrier = kernel_.mbarriers[id];
    check_initialised(id);
    if (!is_index(type_of(index))) report("index into {} is {}", id, type_of(index));
    check_constant(index, "index into the mbarriers", 0, mbarrier.count - 1);
  }

  /// Reports an i32 or a constant beyond its limits.
  void check_constant(ExprId id, std::string_view what, int64_t low, int64_t high) {
    const auto* constant = std::get_if<IntegerConstant>(&kernel_.exprs[id].kind);
    if (constant == nullptr || (constant->value >= low && constant->value <= high)) return;
    report("the {} is {}, not from {} to {}", what, constant->value, low, high);
  }
  void check_i32(ExprId id, std::string_view what, int64_t low, int64_t high) {
    if (type_of(id) != DType::kI32) report("the {} is {}, not i32", what, type_of(id));
    check_constant(id, what, low, high);
  }
  void check_uniform(ExprId id, std::string_view what, Uniformity needed) {
    if (uniformity_.of(id) <= needed) return;
    report("the {} may differ within the {}", what, text_of(needed));
  }

  /// Checks the bytes that a phase expects: of bulk copies, and in a cluster of words from other
  /// blocks.
  void check_expected_bytes(ExprId id) {
    if (kernel_.cluster == 1) {
      check_bulk_bytes(id, 1);
      return;
    }
    const auto* constant = std::get_if<IntegerConstant>(&kernel_.exprs[id].kind);
    if (constant == nullptr) return;
    const bool fits = constant->value >= kWordBytes && constant->value <= kMostBulkBytes;
    if (fits && constant->value % kWordBytes == 0) return;
    report("{} bytes; a phase in a cluster expects multiples of {} up to {}", constant->value,
           kWordBytes, kMostBulkBytes);
  }

  void check_bulk_bytes(ExprId id, int64_t element_bytes) {
    const auto* constant = std::get_if<IntegerConstant>(&kernel_.exprs[id].kind);
    if (constant == nullptr) return;
    const bool is_small = constant->value >= 1 && constant->value <= kMostBulkBytes / element_bytes;
    if (is_small && constant->value * element_bytes % kBulkUnit == 0) return;
    report("{} elements of {} bytes; bulk copies move multiples of {} bytes up to {}",
           constant->value, element_bytes, kBulkUnit, kMostBulkBytes);
  }

  void check(const ExpectBytes& s, Uniformity) {
    check_mbarrier(s.array, s.index);
    if (type_of(s.bytes) != DType::kI32) report("the bytes are {}, not i32", type_of(s.bytes));
    check_expected_bytes(s.bytes);
  }

  void check(const BulkCopy& s, Uniformity) {
    check_mbarrier(s.array, s.index);
    check_copy(s.shared, s.global);
    for (const ExprId index : {s.shared_index, s.global_index, s.elements}) {
      if (!is_index(type_of(index))) report("{} of a bulk copy is {}", index, type_of(index));
    }
    const Buffer& global = kernel_.buffers[s.global];
    if (global.alignment < kBulkUnit) {
      report("a bulk copy from {} ({}), which is aligned to {}, not {}", s.global, global.name,
             global.alignment, kBulkUnit);
    }
    check_bulk_bytes(s.elements, bytes_of(global.type));
  }

  void check(const TensorCopy& s, Uniformity) {
    check_mbarrier(s.array, s.index);
    const TensorMap& map = kernel_.tensor_maps[s.map];
    check_copy(s.shared, map.buffer);
    if (s.coordinates.size() != map.axes.size()) {
      report("{} coordinates of {} ({}), which has {} axes", s.coordinates.size(), s.map, map.name,
             map.axes.size());
    }
    for (const ExprId coordinate : s.coordinates) {
      if (type_of(coordinate) != DType::kI32)
        report("a coordinate is {}, not i32", type_of(coordinate));
    }
    check_swizzled(s.shared, swizzle_period(map.swizzle));
    check_whole_index(s.shared, s.shared_index, swizzle_period(map.swizzle), 0);
    check_constant(s.shared_index, "index of a box", 0,
                   kernel_.buffers[s.shared].count - box_elements(map));
  }

  /// Reports a shared buffer that does not start where a pattern of `period` bytes does.
  void check_swizzled(BufferId id, int64_t period) {
    const Buffer& buffer = kernel_.buffers[id];
    if (buffer.alignment < period) {
      report("{} ({}) is aligned to {}, not {}", id, buffer.name, buffer.alignment, period);
    } else if (stage_ == KernelStage::kLowered && buffer.offset % period != 0) {
      report("{} ({}) is at offset {}, not at a multiple of {}", id, buffer.name, buffer.offset,
             period);
    }
  }

  /// Checks the type of an index, and that it begins at most `room` bytes behind a multiple of
  /// `period`.
  void check_whole_index(BufferId id, ExprId index, int64_t period, int64_t room) {
    if (!is_index(type_of(index))) report("index into {} is {}", id, type_of(index));
    const auto* constant = std::get_if<IntegerConstant>(&kernel_.exprs[index].kind);
    const int64_t size = bytes_of(kernel_.buffers[id].type);
    if (constant == nullptr || constant->value % (period / size) * size <= room) return;
    report("element {} of {} is at no multiple of {} bytes", constant->value, id, period);
  }

  void check(const ProxyFence&, Uniformity) {}

  void check(const MbarrierArrive& s, Uniformity) { check_mbarrier(s.array, s.index); }

  void check(const ClusterStore& s, Uniformity) {
    check_in_cluster("store to another block");
    check_have_met("a store to another block");
    check_mbarrier(s.array, s.mbarrier);
    const Buffer& shared = kernel_.buffers[s.shared];
    if (shared.space != Space::kShared) report("{} ({}) is not shared", s.shared, shared.name);
    if (!is_index(type_of(s.index))) report("index into {} is {}", s.shared, type_of(s.index));
    check_i32(s.block, "block of the cluster", 0, kernel_.cluster - 1);
    use(s.source);
    const Var& source = var(s.source);
    if (source.type != shared.type) report("stores {} to {}", source.type, shared.type);
    if (bytes_of(shared.type) < kWordBytes) report("sends a {} to another block", shared.type);
    if (source.is_scalar()) return;
    if (source.groups != 1 || (source.lanes != 2 && source.lanes != 4) ||
        bytes_of(source.type) != kWordBytes)
      report("sends {} ({}) of {} x {} {} to another block, not 2 or 4 words", s.source,
             source.name, source.groups, source.lanes, source.type);
    const int64_t bytes = source.lanes * bytes_of(source.type);
    check_whole_index(s.shared, s.index, bytes, 0);
  }

  void check(const ClusterBarrier&, Uniformity) {
    check_in_cluster("barrier of a cluster");
    if (depth() != 1) report("blocks of a cluster wait for each other inside of control flow");
    check_have_met("a barrier of the cluster");
  }

  void check(const ClusterArrive&, Uniformity) {
    check_in_cluster("barrier of a cluster");
    if (depth() != 1) report("blocks of a cluster arrive at their barrier inside of control flow");
    if (barrier_state_ != BarrierState::kNone)
      report("blocks of a cluster arrive at a second barrier");
    if (has_stored_) report("a store comes before an arrival that orders mbarriers alone");
    barrier_state_ = BarrierState::kInFlight;
  }

  void check(const ClusterWait&, Uniformity) {
    if (depth() != 1) report("blocks of a cluster wait for each other inside of control flow");
    if (barrier_state_ != BarrierState::kInFlight)
      report("waits for blocks of a cluster to arrive at no barrier");
    barrier_state_ = BarrierState::kOver;
  }

  /// Before ClusterWait other blocks may not have initialised their mbarriers, and may not even
  /// have started.
  void check_have_met(std::string_view what) {
    if (barrier_state_ == BarrierState::kInFlight)
      report("{} before the blocks of the cluster have met", what);
  }

  void check_in_cluster(std::string_view what) {
    if (kernel_.cluster == 1) report("a {} in a kernel without clusters", what);
  }

  void check(const MessageStore& s, Uniformity) {
    check_i32(s.block, "block of the team", 0, kernel_.team - 1);
    check_message(s.mail, s.place, s.values, s.number, 0);
    for (const VarId value : s.values) use(value);
  }

  void check(const MessageWait& s, Uniformity) {
    check_message(s.mail, s.place, s.values, s.number, 1);
    for (const VarId value : s.values) write_scalar(value);
  }

  void check_message(BufferId mail, ExprId place, const std::vector<VarId>& values, ExprId number,
                     int64_t least_number) {
    if (kernel_.team == 1) report("a message in a kernel without teams");
    constexpr size_t kMostValues = 4;
    if (values.empty() || values.size() > kMostValues)
      report("a message of {} values, not 1 to {}", values.size(), kMostValues);
    for (const VarId value : values) {
      if (!var(value).is_scalar() || bytes_of(var(value).type) != kWordBytes)
        report("{} ({}) of a message is no scalar of 4 bytes", value, var(value).name);
    }
    // Two values are one access of 16 bytes.
    if (values.size() > 1) {
      const auto* constant = std::get_if<IntegerConstant>(&kernel_.exprs[place].kind);
      if (kernel_.message_places % 2 != 0 || (constant != nullptr && constant->value % 2 != 0))
        report("a message of {} values at an odd place, or in an odd number of them",
               values.size());
    }
    const int64_t last = kernel_.message_places - std::ssize(values);
    check_i32(place, "place of a message", 0, last);
    check_i32(number, "number of a message", least_number, std::numeric_limits<int32_t>::max());
    check_mail(mail);
  }

  void check_mail(BufferId mail) {
    const Buffer& buffer = kernel_.buffers[mail];
    if (buffer.space != Space::kGlobal || buffer.type != DType::kI32 ||
        buffer.access != Access::kReadWrite)
      report("{} ({}) is no global buffer of i32 for messages", mail, buffer.name);
    check_single(mail);
    is_counter_[mail] = true;  // Nothing else accesses it.
  }

  void check(const MbarrierWait& s, Uniformity) {
    check_mbarrier(s.array, s.index);
    check_i32(s.parity, "parity", 0, 1);
  }

  // ---- Barriers and exchange

  void check(const Barrier&, Uniformity control) {
    require(control, Uniformity::kBlock, "barrier");
  }

  void check(const GroupBarrier& s, Uniformity control) {
    require(control, Uniformity::kWarp, "group barrier");
    check_barrier_id(s.id);
    if (s.threads < 32 || s.threads > kernel_.threads || s.threads % 32 != 0) {
      report("a group barrier of {} threads in a block of {}", s.threads, kernel_.threads);
    }
  }

  void check_barrier_id(ExprId id) {
    constexpr int64_t kLastBarrier = 15;  // PTX ISA, "bar"; 0 is the block's.
    check_i32(id, "barrier", 1, kLastBarrier);
    check_uniform(id, "barrier", Uniformity::kWarp);
  }

  void check(const SetMaxRegisters& s, Uniformity control) {
    require(control, Uniformity::kWarp, "register limit");
    if (s.registers < 24 || s.registers > 240 || s.registers % 8 != 0) {
      report("{} registers; a limit is a multiple of 8 from 24 to 240", s.registers);
    }
    if (kernel_.threads % kWarpGroup != 0) {
      report("register limits are of {} threads each, the block has {}", kWarpGroup,
             kernel_.threads);
    }
  }

  void check(const LaunchDependents&, Uniformity) {}

  void check(const WarpBarrier&, Uniformity control) {
    require(control, Uniformity::kWarp, "warp barrier");
  }

  void check(const WaitForPrevious&, Uniformity) {
    const auto own = std::ranges::find(kernel_.body, current_);
    if (own == kernel_.body.end() || waits_++ > 0)
      report("the wait for the previous kernel stands once, and not in a loop or condition");
    const Block before(kernel_.body.begin(), own);
    for_each_stmt(kernel_, before, [&](StmtId id) { check_before_wait(kernel_.stmts[id].kind); });
  }

  /// What runs before the wait for the previous kernel may read what that does not write.
  void check_before_wait(const StmtKind& stmt) {
    const auto* load = std::get_if<Load>(&stmt);
    const bool computes =
        std::holds_alternative<Comment>(stmt) || std::holds_alternative<Declare>(stmt) ||
        std::holds_alternative<Assign>(stmt) || std::holds_alternative<SetElement>(stmt) ||
        std::holds_alternative<For>(stmt) || std::holds_alternative<If>(stmt);
    if (load == nullptr && !computes)
      report("before the wait for the previous kernel there are only loads and computations");
    if (load != nullptr && !kernel_.buffers[load->buffer].is_constant)
      report("{} ({}), which the previous kernel may write, is read before it has ended",
             load->buffer, kernel_.buffers[load->buffer].name);
  }

  void check(const DeviceFence&, Uniformity) {}

  void check(const AtomicCount& s, Uniformity) {
    write_scalar(s.target);
    if (var(s.target).type != DType::kI32)
      report("{} is {}, not i32", s.target, var(s.target).type);
    if (type_of(s.last) != DType::kI32) report("the last count is {}, not i32", type_of(s.last));
    check_constant(s.last, "last count", 0, std::numeric_limits<int32_t>::max());
    if (!is_index(type_of(s.index))) report("index into {} is {}", s.buffer, type_of(s.index));
    const Buffer& buffer = kernel_.buffers[s.buffer];
    if (buffer.space != Space::kGlobal || buffer.type != DType::kI32 ||
        buffer.access != Access::kReadWrite)
      report("{} ({}) is no global buffer of i32 counters", s.buffer, buffer.name);
    check_single(s.buffer);
    is_counter_[s.buffer] = true;
  }

  void check(const ShuffleXor& s, Uniformity control) {
    require(control, Uniformity::kWarp, "shuffle");
    write_scalar(s.target);
    const DType type = var(s.target).type;
    if (type_of(s.source) != type)
      report("{} is {}, the source {}", s.target, type, type_of(s.source));
    if (type != DType::kF32 && type != DType::kF64 && !is_index(type)) report("shuffles {}", type);
    if (s.mask < 1 || s.mask > 31) report("mask {} is not from 1 to 31", s.mask);
  }

  void check(const AllReduce& s, Uniformity control) {
    if (stage_ == KernelStage::kLowered) report("reduction {} is not lowered", s.name);
    const bool has_barrier = s.barrier.valid();
    // With a barrier of its own, threads beyond the last whole group may execute other code.
    const bool fits = has_barrier ? s.threads <= kernel_.threads
                                  : s.threads > 0 && kernel_.threads % s.threads == 0;
    if (!is_power_of_two(s.threads) || !fits) {
      report("groups of {} threads in a block of {}", s.threads, kernel_.threads);
    }
    const bool in_cluster = s.is_shared();
    const bool by_block = s.threads > 32 && !has_barrier && !in_cluster;
    const Uniformity needed = by_block ? Uniformity::kBlock : Uniformity::kWarp;
    require(control, needed, "reduction");
    if (s.phase.valid()) {
      check_i32(s.phase, "phase", 0, 1);
      check_uniform(s.phase, "phase", needed);
    }
    if (has_barrier) check_barrier_id(s.barrier);
    if (s.group.valid()) {
      if (!has_barrier && !in_cluster)
        report("the group of a reduction that the whole block waits in");
      check_i32(s.group, "group", 0, s.groups - 1);
      check_uniform(s.group, "group", Uniformity::kWarp);
    }
    // Between blocks, groups that a warp works on one after the other have places of their own.
    if (s.groups < 1 || (!in_cluster && s.groups * s.threads > kernel_.threads)) {
      report("{} groups of {} threads in a block of {}", s.groups, s.threads, kernel_.threads);
    }
    if (s.half != ReduceHalf::kWhole && !s.mail.valid())
      report("half a reduction that is not by messages");
    if (s.mail.valid() != s.number.valid() || (s.mail.valid() && s.arrived.valid()))
      report("{} has messages without a number, a number alone, or mbarriers too", s.name);
    if (s.mail.valid() && s.number.valid()) {
      if (kernel_.team == 1) report("a reduction over a team in a kernel without teams");
      if (s.threads > 32) report("messages between groups of {} threads", s.threads);
      check_i32(s.number, "number of a message", 1, std::numeric_limits<int32_t>::max());
      check_mail(s.mail);
    }
    if (s.arrived.valid() != s.parity.valid())
      report("{} has its arrivals without a parity, or a parity alone", s.name);
    if (s.arrived.valid()) {
      check_in_cluster("reduction over its blocks");
      check_have_met("a reduction over the blocks");
      check_initialised(s.arrived);
      check_i32(s.parity, "parity", 0, 1);
      const int64_t copies = s.groups * (s.phase.valid() ? 2 : 1);
      const Mbarrier& arrived = kernel_.mbarriers[s.arrived];
      if (arrived.count != copies || arrived.arrivals != 1) {
        report("{} ({}) has {} mbarriers of {} arrivals, not {} of 1", s.arrived, arrived.name,
               arrived.count, arrived.arrivals, copies);
      }
    }
    for (const ReducePart& part : s.parts) check(part);
  }

  static bool admits(ReducedTypes types, DType type) {
    switch (types) {
      case ReducedTypes::kNumeric:
        return type == compute_type(type) && type != DType::kBool;
      case ReducedTypes::kLogic:
        return type == DType::kBool;
      case ReducedTypes::kReal:
        return type == DType::kF32 || type == DType::kF64;
    }
    unreachable();
  }

  void check(const ReducePart& part) {
    const auto count = static_cast<int64_t>(part.vars.size());
    const std::string_view name = text_of(part.combiner);
    if (count != std::ssize(traits_of(part.combiner).components)) {
      report("{} of {} variables, not {}", name, count,
             std::ssize(traits_of(part.combiner).components));
      return;
    }
    for (const VarId id : part.vars) write_scalar(id);
    const DType type = var(part.vars[0]).type;
    const ReductionTraits& traits = traits_of(part.combiner);
    if (part.elements < 0 || (part.elements > 0 && traits.tuple != TupleKind::kMoments))
      report("{} elements of each tuple of {}, which has no count", part.elements, name);
    if (!admits(traits.types, type)) report("{} of {}", name, type);
    for (size_t i = 1; i < part.vars.size(); ++i) {
      const DType found = var(part.vars[i]).type;
      const bool is_index = traits.components[i].is_index;
      if (is_index && found != DType::kI32 && found != DType::kI64)
        report("component {} of {} is {}, not i32 or i64", i, name, found);
      if (!is_index && found != type)
        report("component {} of {} is {}, not {}", i, name, found, type);
    }
  }

  void require(Uniformity control, Uniformity needed, std::string_view what) {
    if (control <= needed) return;
    report("a {} where control may differ within the {}", what, text_of(needed));
  }

  KernelStage stage_;
  UniformityAnalysis uniformity_;
  IdMap<BufferId, uint8_t> is_counter_;
  std::vector<std::pair<StmtId, BufferId>> plain_accesses_;
  int waits_ = 0;  ///< For the previous kernel.
  /// State of the barrier of ClusterArrive and ClusterWait.
  enum class BarrierState : uint8_t { kNone, kInFlight, kOver };
  BarrierState barrier_state_ = BarrierState::kNone;
  bool are_mbarriers_init_ = false;
  bool has_stored_ = false;
};

}  // namespace

std::vector<KernelViolation> verify_kernel(const Kernel& kernel, KernelStage stage) {
  std::vector<KernelViolation> violations;
  verify_tables(kernel, stage, &violations);
  // The checks below look ids up.
  if (!violations.empty()) return violations;
  verify_expressions(kernel, &violations);
  if (!violations.empty()) return violations;
  StatementVerifier(kernel, stage, &violations).run();
  return violations;
}

}  // namespace sinter
