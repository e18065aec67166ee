#pragma once

// Kernel IR: what one GPU kernel does, as structured statements over typed registers and buffers.
//
// Execution.    A kernel runs as a grid of blocks of `threads` threads, in warps of 32. Every
// thread executes the body; `if` and
//               `for` may diverge inside a warp. Lanes that are not active do nothing.
// Registers.    A Var is a tile of groups x lanes elements private to a thread; a scalar is 1 x 1.
// Reading an element never
//               written is an error. Elements of storage types (16- and 8-bit floats, 8-bit
//               integers) can only be moved or cast.
// Memory.       Global buffers are kernel arguments; shared buffers belong to a block. A global
// buffer may be a table of tensors, of which each access names one. Indices count elements. An
// access of
//               `width` elements needs its byte address to be a multiple of min(16, width * element
//               bytes).
// Barriers.     All threads of a block reach the same barrier; a barrier inside divergent control
// flow is an error. Group barriers and mbarriers order parts of a block, whose warps may then
// follow paths of their own.
// Device.       Blocks run in any order, and not all at the same time. Only fences and atomics on
// global memory tell one what another has done.
// Clusters.     `cluster` neighbouring blocks run at the same time. Each has its own shared
//               memory, and can store into that of the others.
// Expressions.  Pointwise functions mean what fusion_ir/op.h says, in the expression's type; casts
//               likewise.
// Text.         kernel_printer.h has the .kir grammar; parse(print(k)) == k.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fusion_ir/dtype.h"
#include "fusion_ir/id.h"
#include "fusion_ir/op.h"
#include "fusion_ir/reduction_traits.h"

namespace sinter::kir {

struct BufferTag {
  static constexpr char kPrefix[] = "%b";
};
struct VarTag {
  static constexpr char kPrefix[] = "%r";
};
struct ParamTag {
  static constexpr char kPrefix[] = "%p";
};
struct MbarrierTag {
  static constexpr char kPrefix[] = "%m";
};
struct ExprTag {
  static constexpr char kPrefix[] = "%e";
};
struct StmtTag {
  static constexpr char kPrefix[] = "%s";
};
using BufferId = Id<BufferTag>;
using VarId = Id<VarTag>;
using ParamId = Id<ParamTag>;
using MbarrierId = Id<MbarrierTag>;
using ExprId = Id<ExprTag>;
using StmtId = Id<StmtTag>;

// ---- Declarations

enum class Space : uint8_t {
  kGlobal,
  kShared,
  kArgument,  ///< Integers among the kernel's arguments, which its blocks only read.
};
enum class Access : uint8_t { kRead, kWrite, kReadWrite };

struct Buffer {
  std::string name;
  DType type = DType::kF32;
  Space space = Space::kGlobal;
  Access access = Access::kRead;
  int64_t alignment = 16;  ///< Promised byte alignment of element 0.
  ValueId value;           ///< The graph value a global buffer holds; a table has `values`.
  int64_t count = 0;  ///< Elements of a shared buffer, or of one among the arguments; 0 for global
                      ///< ones, whose size arrives at launch.
  int64_t tensors = 0;            ///< Places in a global table of tensors; 0 for a single tensor.
  std::vector<ValueId> values{};  ///< What a table holds, at most as many: all have the alignment.
  int64_t offset = -1;  ///< Byte offset of a shared buffer; -1 until place_shared_buffers has run.
  [[nodiscard]] bool is_table() const { return tensors > 0; }
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

/// An array of mbarriers, which live in shared memory (PTX ISA, "mbarrier"). Each goes through
/// phases 0, 1, ...: one is complete when `arrivals` arrivals have been made in it and the bytes
/// that they announced have come; then the next begins. Threads wait for the parity of a phase.
struct Mbarrier {
  std::string name;
  int64_t count = 1;
  int64_t arrivals = 1;  ///< Per phase, from 1 to 2^20 - 1.
  int64_t offset = -1;   ///< Byte offset in shared memory; -1 until place_shared_buffers has run.
  friend bool operator==(const Mbarrier&, const Mbarrier&) = default;
};
/// Size and alignment of one mbarrier.
inline constexpr int64_t kMbarrierBytes = 8;

/// Registers of one thread: groups x lanes elements. `lanes` is the vector width of loads and
/// stores on the tile.
struct Var {
  std::string name;
  DType type = DType::kF32;
  int64_t groups = 1;
  int64_t lanes = 1;
  [[nodiscard]] bool is_scalar() const { return groups == 1 && lanes == 1; }
  friend bool operator==(const Var&, const Var&) = default;
};

/// A scalar kernel argument: i32 or i64.
struct Param {
  std::string name;
  DType type = DType::kI64;
  friend bool operator==(const Param&, const Param&) = default;
};

// ---- Expressions

enum class Special : uint8_t { kThreadIndex, kBlockIndex, kGridSize };  ///< All i32.
std::string_view text_of(Special special);

struct IntegerConstant {
  int64_t value = 0;
  friend bool operator==(const IntegerConstant&, const IntegerConstant&) = default;
};
struct FloatConstant {
  double value = 0.0;
  friend bool operator==(const FloatConstant& a, const FloatConstant& b);  // bitwise
};
/// A scalar variable.
struct VarRef {
  VarId var;
  friend bool operator==(const VarRef&, const VarRef&) = default;
};
/// One element of a tile. Both indices are i32 and constant once enclosing unrolled loops are
/// expanded.
struct ElementRef {
  VarId tile;
  ExprId group, lane;
  friend bool operator==(const ElementRef&, const ElementRef&) = default;
};
struct SpecialRef {
  Special special = Special::kThreadIndex;
  friend bool operator==(const SpecialRef&, const SpecialRef&) = default;
};
struct ParamRef {
  ParamId param;
  friend bool operator==(const ParamRef&, const ParamRef&) = default;
};
/// How a device evaluates a call. The function alone says what its value is; a form says by which
/// instructions, chosen by passes.
enum class CallForm : uint8_t {
  kGeneral,
  /// A logarithm by one instruction, without a branch. Where that is not right for the argument,
  /// the value is undefined and the call clears the bool `state`.
  kFastPath,
  /// A logarithm that takes no branch either and is right for every argument.
  kCareful,
  /// A reciprocal of 1 or more, or of NaN.
  kOneOrMore,
  /// A random number whose generator keeps the words of its last call in `state`.
  kSharedRounds,
};
std::string_view text_of(CallForm form);
/// Lanes of the i64 tile, of one group, that is the state of kSharedRounds. Nothing else reads or
/// writes it.
inline constexpr int64_t kRandomStateLanes = 4;

struct PointwiseExpr {
  PointwiseFn fn = PointwiseFn::kAdd;
  std::vector<ExprId> arguments;
  CallForm form = CallForm::kGeneral;
  VarId state{};  ///< Of kFastPath and kSharedRounds.
  friend bool operator==(const PointwiseExpr&, const PointwiseExpr&) = default;
};
struct CastExpr {
  ExprId argument;
  friend bool operator==(const CastExpr&, const CastExpr&) = default;
};
using ExprKind = std::variant<IntegerConstant, FloatConstant, VarRef, ElementRef, SpecialRef,
                              ParamRef, PointwiseExpr, CastExpr>;
struct Expr {
  DType type = DType::kI32;
  ExprKind kind;
  friend bool operator==(const Expr&, const Expr&) = default;
};

// ---- Statements

using Block = std::vector<StmtId>;

/// How a global read should treat the caches.
enum class CacheHint : uint8_t {
  kDefault,
  kEvictFirst,  ///< What it brings to L2 leaves L2 first; ReadPriority says when which is right.
  kEvictLast,   ///< What it brings to L2 leaves L2 last.
};
std::string_view text_of(CacheHint hint);

struct Comment {
  std::string text;
  friend bool operator==(const Comment&, const Comment&) = default;
};
/// Brings a variable into scope until the end of the enclosing block; a scalar may be given its
/// value at once.
struct Declare {
  VarId var;
  ExprId init;  ///< Invalid: no value yet. Tiles never have one.
  friend bool operator==(const Declare&, const Declare&) = default;
};
struct Assign {
  VarId var;  ///< A scalar.
  ExprId value;
  friend bool operator==(const Assign&, const Assign&) = default;
};
struct SetElement {
  VarId tile;
  ExprId group, lane, value;
  friend bool operator==(const SetElement&, const SetElement&) = default;
};
/// for (index = begin; index < end; index += step). The index is a scalar i32 or i64 declared by
/// the loop. An unrolled loop has constant bounds and step. Lanes leave the loop one by one.
struct For {
  VarId index;
  ExprId begin, end, step;
  bool unroll = false;
  Block body;
  friend bool operator==(const For&, const For&) = default;
};
struct If {
  ExprId condition;
  Block then_body, else_body;
  friend bool operator==(const If&, const If&) = default;
};
/// tile[group, lane ... lane + width) = buffer[index ... index + width). Types are equal. Where the
/// predicate is false, the tile stays as it is and nothing is read.
struct Load {
  VarId tile;
  ExprId group, lane;
  int64_t width = 1;
  BufferId buffer;
  ExprId index;
  CacheHint hint = CacheHint::kDefault;
  ExprId tensor{};  ///< Which tensor of a table, an i32; invalid for other buffers.
  /// A bool; invalid: always. Only from a single global tensor into a tile.
  ExprId predicate{};
  friend bool operator==(const Load&, const Load&) = default;
};
/// buffer[index ... index + width) = tile[group, lane ... lane + width), rounded to the buffer's
/// type when the tile holds its compute type.
struct Store {
  BufferId buffer;
  ExprId index;
  int64_t width = 1;
  VarId tile;
  ExprId group, lane;
  ExprId tensor{};  ///< Which tensor of a table, an i32; invalid for other buffers.
  friend bool operator==(const Store&, const Store&) = default;
};
/// Starts copying `width` elements (4, 8 or 16 bytes) from global to shared memory; they are there
/// after the thread's next AsyncWait, for this thread, and after a following barrier for the block.
struct AsyncCopy {
  BufferId shared;
  ExprId shared_index;
  BufferId global;
  ExprId global_index;
  int64_t width = 1;
  friend bool operator==(const AsyncCopy&, const AsyncCopy&) = default;
};
/// Waits for all of the thread's own asynchronous copies.
struct AsyncWait {
  friend bool operator==(const AsyncWait&, const AsyncWait&) = default;
};
/// Thread 0 of the block initialises all mbarriers. Stands once, outside of control flow; a Barrier
/// comes before their first use.
struct InitMbarriers {
  friend bool operator==(const InitMbarriers&, const InitMbarriers&) = default;
};
/// One arrival at array[index] that also makes its phase wait for `bytes` (i32) of bulk copies, a
/// multiple of 16.
struct ExpectBytes {
  MbarrierId array;
  ExprId index, bytes;
  friend bool operator==(const ExpectBytes&, const ExpectBytes&) = default;
};
/// Starts copying `elements` (i32 or i64) elements from global to shared memory; their bytes and
/// both addresses are multiples of 16. Every active thread starts a copy of its own, so it stands
/// where one thread is. The bytes count towards the phase of array[index] that is under way; who
/// has waited for it, or comes behind such a thread, may read them. Nothing orders the copy after
/// plain stores to the same bytes: what it fills is not stored to. Shared memory and its mbarriers
/// outlive the block's last copy only if some thread has waited for it.
struct BulkCopy {
  BufferId shared;
  ExprId shared_index;
  BufferId global;
  ExprId global_index;
  ExprId elements;
  MbarrierId array;
  ExprId index;
  CacheHint hint = CacheHint::kDefault;
  friend bool operator==(const BulkCopy&, const BulkCopy&) = default;
};
/// One arrival at array[index]; what the thread did before it comes before what a thread does that
/// has waited for the phase, bulk copies that it starts among them.
struct MbarrierArrive {
  MbarrierId array;
  ExprId index;
  friend bool operator==(const MbarrierArrive&, const MbarrierArrive&) = default;
};
/// Stores a scalar to element `index` of a shared buffer in block number `block` (i32) of the
/// cluster, and counts its bytes at array[mbarrier] there, towards the phase that is under way. Who
/// has waited for that phase may read it, and comes behind everything that the storing thread did
/// before. Nothing is stored to a block that has ended: every block waits for all that is sent to
/// it.
struct ClusterStore {
  BufferId shared;
  ExprId index;
  ExprId block;
  VarId source;  ///< i32, i64, f32 or f64.
  MbarrierId array;
  ExprId mbarrier;
  friend bool operator==(const ClusterStore&, const ClusterStore&) = default;
};
/// Waits until the phase of array[index] with this parity (i32, 0 or 1) is complete. The phase
/// under way has the parity of its number, and the one before it is complete: so before anything
/// has arrived, parity 1 does not wait.
struct MbarrierWait {
  MbarrierId array;
  ExprId index, parity;
  friend bool operator==(const MbarrierWait&, const MbarrierWait&) = default;
};
/// Barrier `id` (i32, 1 to 15) of `threads` threads of the block, in whole warps: orders their
/// shared-memory accesses before it with those after it. Warps may be in different control flow.
struct GroupBarrier {
  ExprId id;
  int64_t threads = 32;
  friend bool operator==(const GroupBarrier&, const GroupBarrier&) = default;
};
/// From here on the warp has at most `registers` registers per thread, a multiple of 8 from 24 to
/// 240. A decrease gives some up; an increase waits until other warps have given up enough. All
/// four warps of a group of 128 threads do it. What registers beyond the old limit hold is
/// undefined.
struct SetMaxRegisters {
  int64_t registers = 24;
  bool increase = false;
  friend bool operator==(const SetMaxRegisters&, const SetMaxRegisters&) = default;
};
/// The kernel that follows on the stream may start its blocks once every block of this one has come
/// here or has ended (programmatic dependent launch, from sm_90).
struct LaunchDependents {
  friend bool operator==(const LaunchDependents&, const LaunchDependents&) = default;
};
/// Waits until the kernel before this one on the stream has ended and its writes can be read.
/// Stands once, as the kernel's first statement: nothing may be read or written before. A kernel
/// that has one is launched so that it may start early.
struct WaitForPrevious {
  friend bool operator==(const WaitForPrevious&, const WaitForPrevious&) = default;
};
/// Barrier of all threads of all blocks of a cluster; orders their shared-memory accesses and the
/// initialisation of mbarriers before it with what any of them does after it.
struct ClusterBarrier {
  friend bool operator==(const ClusterBarrier&, const ClusterBarrier&) = default;
};
/// The first half of a barrier that orders the initialisation of mbarriers and nothing else: the
/// thread has come to it, and goes on. Stands once at most in a kernel, outside of control flow,
/// and ClusterWait behind it: nothing is stored to other blocks in between.
struct ClusterArrive {
  friend bool operator==(const ClusterArrive&, const ClusterArrive&) = default;
};
/// The second half: waits until all threads of all blocks of the cluster have come to
/// ClusterArrive.
struct ClusterWait {
  friend bool operator==(const ClusterWait&, const ClusterWait&) = default;
};
/// Block-wide barrier; orders shared-memory accesses before it with those after it.
struct Barrier {
  friend bool operator==(const Barrier&, const Barrier&) = default;
};
/// Barrier of a warp's 32 lanes, all of which come to it; orders their memory accesses before it
/// with those after it. What one of them has read from memory before it is read anew after it, not
/// kept in registers.
struct WarpBarrier {
  friend bool operator==(const WarpBarrier&, const WarpBarrier&) = default;
};
/// Orders the thread's memory accesses before it with those after it, for the whole device: what it
/// knows before a fence and an atomic of its own, a thread knows behind a fence that it comes to
/// after an atomic of its own on the same element, which found what the first one left.
struct DeviceFence {
  friend bool operator==(const DeviceFence&, const DeviceFence&) = default;
};
/// target = buffer[index]; buffer[index] = target < last ? target + 1 : 0; without another thread's
/// access in between, but ordering no other accesses. All are i32, the values not negative. The
/// buffer is global, and nothing else accesses it. Who counts from 0 to `last` leaves 0.
struct AtomicCount {
  VarId target;
  BufferId buffer;
  ExprId index;
  ExprId last;
  friend bool operator==(const AtomicCount&, const AtomicCount&) = default;
};
/// target = `source` of the lane whose number differs in the bits of `mask`. The whole warp takes
/// part. f32, f64, i32 or i64.
struct ShuffleXor {
  VarId target;
  ExprId source;
  int32_t mask = 1;
  friend bool operator==(const ShuffleXor&, const ShuffleXor&) = default;
};

/// target = the maximum (fn kMax) or minimum (kMin) of itself and all lanes of tile[group], or of
/// their magnitudes. NaN wins. The target is an f32; the tile is bf16 or f16 and has an even number
/// of lanes, of which two are compared at once.
struct LaneExtreme {
  VarId target;
  PointwiseFn fn = PointwiseFn::kMax;
  bool of_magnitudes = false;
  VarId tile;
  ExprId group;
  friend bool operator==(const LaneExtreme&, const LaneExtreme&) = default;
};

/// Associative combinations of tuples. Each component is one scalar variable; traits_of() says how
/// many there are.
using Combiner = Reduction;

/// One reduction of a tuple held by every thread.
struct ReducePart {
  Combiner combiner = Combiner::kSum;
  std::vector<VarId> vars;
  friend bool operator==(const ReducePart&, const ReducePart&) = default;
};
/// Combines the tuples of each aligned group of `threads` consecutive threads (a power of two);
/// afterwards every thread of the group holds the result. All parts travel in one exchange. The
/// pass lower_reductions turns it into shuffles, shared memory and one barrier; it does not reach
/// the emitter.
struct AllReduce {
  std::vector<ReducePart> parts;
  int64_t threads = 32;
  std::string name;  ///< Names the shared scratch.
  /// An i32 that is 0 or 1 and picks one of two copies of the scratch; invalid: one copy, or two if
  /// lower_reductions sees that the reduction may follow itself. Executions one after the other
  /// with different phases need no barrier in between, because a thread that has passed the barrier
  /// of one knows that all others have left the one before.
  ExprId phase{};
  /// An i32, the same in a warp: the GroupBarrier over `threads` threads that a group of more than
  /// 32 waits at, so that the other threads of the block need not take part; every group that may
  /// be there at the same time has one of its own. Invalid: the barrier of the block, where all
  /// groups take part. Groups are aligned either way.
  ExprId barrier{};
  /// An i32 from 0 to groups - 1, the same in a warp: which of `groups` scratches belongs to the
  /// group. Only with `barrier`. Invalid: there is scratch for all warps of the block.
  ExprId group{};
  int64_t groups = 1;
  /// Only in a cluster: combines the groups of equal number in all its blocks, in one hop. Every
  /// warp sends its tuple to every block, which waits for all of them here: an array of one
  /// mbarrier for each group and phase, of one arrival. Invalid: each block combines its own.
  MbarrierId arrived{};
  /// With `arrived`: the parity of the mbarrier's phase, an i32, the same in a group.
  ExprId parity{};
  friend bool operator==(const AllReduce&, const AllReduce&) = default;
};

using StmtKind =
    std::variant<Comment, Declare, Assign, SetElement, For, If, Load, Store, AsyncCopy, AsyncWait,
                 InitMbarriers, ExpectBytes, BulkCopy, MbarrierArrive, ClusterStore, MbarrierWait,
                 ClusterBarrier, ClusterArrive, ClusterWait, Barrier, GroupBarrier, SetMaxRegisters,
                 LaunchDependents, WaitForPrevious, WarpBarrier, DeviceFence, AtomicCount,
                 ShuffleXor, LaneExtreme, AllReduce>;
struct Stmt {
  StmtKind kind;
  friend bool operator==(const Stmt&, const Stmt&) = default;
};

/// Clusters to launch: ceil(work / per_block), where `work` is the launch value of a parameter. No
/// work, no launch.
struct Grid {
  ParamId work;
  int64_t per_block = 1;
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// One kernel as a value.
struct Kernel {
  std::string name = "kernel";
  int64_t threads = 128;          ///< Per block, a multiple of 32, at most 1024.
  int64_t min_blocks_per_sm = 1;  ///< For __launch_bounds__.
  int64_t cluster = 1;  ///< Blocks of a cluster, a power of two up to sinter::kMostClusterBlocks.
  Grid grid;
  IdVector<ParamId, Param> params;
  IdVector<BufferId, Buffer> buffers;
  IdVector<MbarrierId, Mbarrier> mbarriers;
  IdVector<VarId, Var> vars;
  IdVector<ExprId, Expr> exprs;
  IdVector<StmtId, Stmt> stmts;
  Block body;

  friend bool operator==(const Kernel&, const Kernel&) = default;
};

/// Shared buffers are placed in units of this many bytes, the widest access.
inline constexpr int64_t kSharedUnit = 16;
/// Shared bytes of a kernel whose shared buffers and mbarriers are placed: end of the last one, in
/// whole units.
int64_t shared_bytes(const Kernel& kernel);
/// One argument that holds all tables of tensors and all integers in argument space, as a struct:
/// the addresses first, then integers of 8 bytes, then of 4, each in the order of the buffers, so
/// that nothing lies between them. Byte offsets by buffer; -1 for those that are not in it.
struct ArgumentLayout {
  IdMap<BufferId, int64_t> offsets;
  int64_t bytes = 0;  ///< 0: the kernel has no such argument.
};
ArgumentLayout argument_layout(const Kernel& kernel);
/// True if the kernel may be launched before the one ahead of it has ended: it waits by itself.
bool waits_for_previous(const Kernel& kernel);
/// Static shared memory is limited to 48 KiB (CUDA programming guide, "Shared Memory"); a kernel
/// that needs more uses dynamic shared memory for all of it.
inline constexpr int64_t kStaticSharedLimit = 48 * 1024;
inline bool uses_dynamic_shared(const Kernel& kernel) {
  return shared_bytes(kernel) > kStaticSharedLimit;
}

}  // namespace sinter::kir
