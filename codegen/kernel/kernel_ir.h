#pragma once

// Kernel IR: what one GPU kernel does, as structured statements over typed registers and buffers.
//
// Execution.    A kernel runs as a grid of blocks of `threads` threads, in warps of 32. Every
//               thread executes the body; `if` and `for` may diverge inside a warp. Inactive lanes
//               do nothing.
// Registers.    A Var is a tile of groups x lanes elements private to a thread; a scalar is 1 x 1.
//               Reading an element never written is an error. Elements of storage types (16- and
//               8-bit floats, 8-bit integers) can only be moved or cast.
// Memory.       Global buffers are kernel arguments; shared buffers belong to a block. A global
//               buffer may be a table of tensors; each access then names one of them. Indices count
//               elements. The byte address of an access of `width` elements must be a multiple of
//               min(16, width * element bytes).
// Barriers.     All threads of a block reach the same barrier; a barrier inside divergent control
//               flow is an error. Group barriers and mbarriers synchronise parts of a block, whose
//               warps may then be in different control flow.
// Device.       Blocks run in any order, and not all at the same time. Only fences and atomics on
//               global memory make the accesses of one block visible to another.
// Clusters.     `cluster` consecutive blocks run at the same time. Each has its own shared memory
//               and can store to that of the others (distributed shared memory).
// Teams.        `team` consecutive blocks send each other messages through global memory. All
//               blocks of the launch run at the same time (a cooperative launch).
// Expressions.  Pointwise functions mean what fusion_ir/op.h says, in the expression's type; casts
//               likewise.
// Text.         kernel_printer.h has the .kir grammar; parse(print(k)) == k.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fusion_ir/dtype.h"
#include "fusion_ir/id.h"
#include "fusion_ir/op.h"
#include "fusion_ir/reduction_traits.h"
#include "scheduler/analysis/cuda_units.h"

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
struct TensorMapTag {
  static constexpr char kPrefix[] = "%t";
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
using TensorMapId = Id<TensorMapTag>;
using ExprId = Id<ExprTag>;
using StmtId = Id<StmtTag>;

// ---- Declarations

enum class Space : uint8_t {
  kGlobal,
  kShared,
  kArgument,  ///< Integers among the kernel's arguments; read-only.
};
enum class Access : uint8_t { kRead, kWrite, kReadWrite };

struct Buffer {
  std::string name;
  DType type = DType::kF32;
  Space space = Space::kGlobal;
  Access access = Access::kRead;
  int64_t alignment = 16;  ///< Promised byte alignment of element 0.
  ValueId value;           ///< The graph value a global buffer holds; a table has `values`.
  int64_t count = 0;    ///< Elements of a shared buffer or of one in argument space; 0 for a global
                        ///< one, whose size is known at launch.
  int64_t tensors = 0;  ///< Places in a global table of tensors; 0 for a single tensor.
  /// The tensors of a table, at most `tensors`; all have the alignment.
  std::vector<ValueId> values{};
  int64_t offset = -1;  ///< Byte offset of a shared buffer; -1 until place_shared_buffers has run.
  /// A global buffer that the previous kernel does not write: it may be read before
  /// WaitForPrevious.
  bool is_constant = false;
  [[nodiscard]] bool is_table() const { return tensors > 0; }
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

/// An array of mbarriers, which live in shared memory (PTX ISA, "mbarrier"). Each goes through
/// phases 0, 1, ... A phase is complete after `arrivals` arrivals, when the bytes that they
/// announced have also arrived; then the next phase begins. Threads wait for the parity of a phase.
struct Mbarrier {
  std::string name;
  int64_t count = 1;
  int64_t arrivals = 1;  ///< Per phase, from 1 to 2^20 - 1.
  int64_t offset = -1;   ///< Byte offset in shared memory; -1 until place_shared_buffers has run.
  friend bool operator==(const Mbarrier&, const Mbarrier&) = default;
};
/// Size and alignment of one mbarrier.
inline constexpr int64_t kMbarrierBytes = 8;

/// One axis of a tensor map.
struct MapAxis {
  int64_t size = 0;    ///< Elements; 0 with `launched`.
  ParamId launched{};  ///< Valid: the size is the launch value of this parameter instead.
  int64_t stride = 1;  ///< Elements between neighbours along the axis; 1 for axis 0.
  int64_t box = 1;     ///< Elements that a copy has along the axis, 1 to 256.
  friend bool operator==(const MapAxis&, const MapAxis&) = default;
};
/// How TensorCopy reads a global tensor: all that the CUDA driver API encodes in a CUtensorMap
/// ("cuTensorMapEncodeTiled") but the address. A kernel takes its maps by value, one argument of
/// 128 bytes each, in the order of the table, behind all other arguments. The buffer is a pointer
/// argument too, whether or not anything else uses it: pointers are those of all single tensors,
/// and a launch takes the address in a map from there.
struct TensorMap {
  std::string name;
  BufferId buffer;              ///< A single tensor, which is read.
  int64_t offset = 0;           ///< Elements from the start of the buffer to index 0 of all axes.
  std::vector<MapAxis> axes{};  ///< 1 to 5, innermost first.
  int64_t swizzle = 0;  ///< Bytes, see swizzled(). If not 0, a box has as many along axis 0.
  /// Of an f32 tensor: elements are rounded to TF32 as they are copied, to the nearest, of two
  /// equally near ones to the even one.
  bool to_tf32 = false;
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};
/// Elements of a box, which one TensorCopy moves.
int64_t box_elements(const TensorMap& map);

/// Address in shared memory of what would be at `address` without a swizzle of 32, 64 or 128 bytes:
/// in each unit of so many bytes, the number of a chunk of 16 bytes changes in the bits that are
/// set in the number of the line of 128 bytes (PTX ISA, "Tensor swizzling modes"). 0: no swizzle.
constexpr int64_t swizzled(int64_t address, int64_t swizzle) {
  if (swizzle == 0) return address;
  const int64_t chunks = swizzle / 16;
  return address ^ (((address / 128) & (chunks - 1)) * 16);
}
/// Bytes after which the pattern of a swizzle repeats; without one, the alignment of a TensorCopy
/// (PTX ISA, "cp.async.bulk.tensor").
constexpr int64_t swizzle_period(int64_t swizzle) { return swizzle == 0 ? 128 : 8 * swizzle; }

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
/// How a device evaluates a call. The function alone defines the value; the form selects the
/// instructions. Passes choose it.
enum class CallForm : uint8_t {
  kGeneral,
  /// A logarithm by one instruction, without a branch. If that instruction is not accurate for the
  /// argument, the value is undefined and the call clears the bool `state`.
  kFastPath,
  /// A logarithm without a branch that is accurate for every argument.
  kCareful,
  /// A reciprocal of 1 or more, or of NaN.
  kOneOrMore,
  /// A random number whose generator keeps the words of its last call in `state`.
  kSharedRounds,
};
std::string_view text_of(CallForm form);
/// Lanes of the i64 tile of one group that holds the state of kSharedRounds. Only these calls read
/// or write the tile.
inline constexpr int64_t kRandomStateLanes = 4;

struct PointwiseExpr {
  PointwiseFn fn = PointwiseFn::kAdd;
  std::vector<ExprId> arguments;
  CallForm form = CallForm::kGeneral;
  VarId state{};  ///< For kFastPath and kSharedRounds.
  friend bool operator==(const PointwiseExpr&, const PointwiseExpr&) = default;
};
/// The argument in the expression's type.
struct CastExpr {
  ExprId argument;
  /// f32 rounded to TF32, which has 13 bits less, and still f32: to the nearest, of two equally
  /// near ones to that of larger magnitude. What is not finite stays as it is.
  bool to_tf32 = false;
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
  kEvictFirst,  ///< Its L2 lines are evicted first; ReadPriority says when to use which.
  kEvictLast,   ///< Its L2 lines are evicted last.
};
std::string_view text_of(CacheHint hint);

struct Comment {
  std::string text;
  friend bool operator==(const Comment&, const Comment&) = default;
};
/// Declares a variable, in scope until the end of the enclosing block. A scalar may have an initial
/// value.
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
/// the loop. An unrolled loop has constant bounds and step. Lanes may leave the loop at different
/// iterations.
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
/// tile[group, lane ... lane + width) = buffer[index ... index + width). Types are equal. If the
/// predicate is false, nothing is read and the tile is unchanged.
struct Load {
  VarId tile;
  ExprId group, lane;
  int64_t width = 1;
  BufferId buffer;
  ExprId index;
  CacheHint hint = CacheHint::kDefault;
  ExprId tensor{};  ///< Which tensor of a table, an i32; invalid for other buffers.
  /// A bool; invalid: the load always happens. Only for loads from a single global tensor into a
  /// tile.
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
/// Starts an asynchronous copy of `width` elements (4, 8 or 16 bytes) from global to shared memory.
/// They are visible to this thread after an AsyncWait that covers the copy, and to the block after
/// a barrier that follows.
struct AsyncCopy {
  BufferId shared;
  ExprId shared_index;
  BufferId global;
  ExprId global_index;
  int64_t width = 1;
  /// A bool. If false, nothing is read, and the destination is filled with zeros. Invalid: the copy
  /// always reads.
  ExprId predicate{};
  friend bool operator==(const AsyncCopy&, const AsyncCopy&) = default;
};
/// Ends the thread's current group of asynchronous copies: those it has started since its last
/// AsyncCommit, which may be none (PTX ISA, "cp.async.commit_group").
struct AsyncCommit {
  friend bool operator==(const AsyncCommit&, const AsyncCommit&) = default;
};
/// Waits for the thread's own asynchronous copies (PTX ISA, "cp.async.wait_group").
struct AsyncWait {
  /// -1: waits for all copies. n >= 0: waits until at most the last n committed groups are
  /// incomplete; copies after the last AsyncCommit are not waited for.
  int64_t pending = -1;
  friend bool operator==(const AsyncWait&, const AsyncWait&) = default;
};
/// Thread 0 of the block initialises all mbarriers. Appears once, outside of control flow; a
/// Barrier precedes their first use.
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
/// both addresses are multiples of 16. Every active thread starts a copy of its own, so the
/// statement is executed by one thread. The bytes count towards the current phase of array[index].
/// A thread that has waited for this phase, or is ordered after such a thread, may read them.
/// Nothing but a ProxyFence orders the copy after plain stores to the same bytes. Some thread must
/// wait for the block's last copy, so that shared memory and its mbarriers outlive the copy.
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
/// Starts copying one box of a tensor to shared memory (PTX ISA, "cp.async.bulk.tensor"), as
/// BulkCopy does and under its rules. The box begins at `coordinates`, i32, one for each axis of
/// the map, innermost first; they may be negative. It is stored without gaps, axis 0 innermost,
/// from shared[shared_index] on, at a multiple of swizzle_period() bytes, and swizzled as the map
/// says. Elements outside of the tensor become 0 there, and count towards the phase like all
/// others.
struct TensorCopy {
  BufferId shared;
  ExprId shared_index;
  TensorMapId map;
  std::vector<ExprId> coordinates;
  MbarrierId array;
  ExprId index;
  CacheHint hint = CacheHint::kDefault;
  friend bool operator==(const TensorCopy&, const TensorCopy&) = default;
};
/// Orders the thread's earlier stores to shared memory before bulk and tensor copies to the same
/// bytes and before what Wgmma reads there. Those take another way to memory than stores do (PTX
/// ISA, "Async proxy"). It orders no threads: a barrier follows, and after it any thread may start
/// them.
struct ProxyFence {
  friend bool operator==(const ProxyFence&, const ProxyFence&) = default;
};
/// One arrival at array[index]. The thread's earlier accesses are ordered before the later accesses
/// of any thread that has waited for the phase, including the bulk copies that the latter starts.
struct MbarrierArrive {
  MbarrierId array;
  ExprId index;
  friend bool operator==(const MbarrierArrive&, const MbarrierArrive&) = default;
};
/// Stores a scalar to element `index` of a shared buffer in block number `block` (i32) of the
/// cluster, and counts its bytes at array[mbarrier] there, towards the current phase. A thread that
/// has waited for that phase may read the element, and is ordered after all earlier accesses of the
/// storing thread. Nothing may be stored to a block that has ended: every block waits for all
/// stores that are sent to it. A tile of one group, of 2 or 4 lanes of 4 bytes, is stored to as
/// many elements, at a multiple of their number.
struct ClusterStore {
  BufferId shared;
  ExprId index;
  ExprId block;
  VarId source;  ///< i32, i64, f32 or f64; a tile: i32 or f32.
  MbarrierId array;
  ExprId mbarrier;
  friend bool operator==(const ClusterStore&, const ClusterStore&) = default;
};
/// Waits until the phase of array[index] with this parity (i32, 0 or 1) is complete. The current
/// phase has the parity of its number, and the phase before it is complete. So on a fresh mbarrier
/// a wait for parity 1 passes at once.
struct MbarrierWait {
  MbarrierId array;
  ExprId index, parity;
  friend bool operator==(const MbarrierWait&, const MbarrierWait&) = default;
};
/// Named barrier `id` (i32, 1 to 15) of `threads` threads of the block, in whole warps. It orders
/// their shared-memory accesses before it with those after it. Warps may be in different control
/// flow.
struct GroupBarrier {
  ExprId id;
  int64_t threads = 32;
  friend bool operator==(const GroupBarrier&, const GroupBarrier&) = default;
};
/// From here on the warp has at most `registers` registers per thread, a multiple of 8 from 24 to
/// 240. A decrease releases registers; an increase waits until other warps have released enough.
/// All four warps of a warp group (128 threads) execute it. The contents of registers beyond the
/// old limit are undefined.
struct SetMaxRegisters {
  int64_t registers = 24;
  bool increase = false;
  friend bool operator==(const SetMaxRegisters&, const SetMaxRegisters&) = default;
};
/// The next kernel on the stream may start its blocks once every block of this kernel has executed
/// this statement or has ended (programmatic dependent launch, from sm_90).
struct LaunchDependents {
  friend bool operator==(const LaunchDependents&, const LaunchDependents&) = default;
};
/// Waits until the previous kernel on the stream has ended and its writes are visible. Appears at
/// most once, and not in a loop or condition. Before it nothing may be written, and nothing read
/// but constant buffers. A kernel with this statement may be launched early.
struct WaitForPrevious {
  friend bool operator==(const WaitForPrevious&, const WaitForPrevious&) = default;
};
/// Barrier of all threads of all blocks of a cluster; orders their shared-memory accesses and the
/// initialisation of mbarriers before it with the accesses of all of them after it.
struct ClusterBarrier {
  friend bool operator==(const ClusterBarrier&, const ClusterBarrier&) = default;
};
/// The first half of a barrier that orders the initialisation of mbarriers and nothing else: the
/// thread arrives and continues. Appears at most once in a kernel, outside of control flow, and
/// ClusterWait follows. Nothing may be stored to other blocks in between.
struct ClusterArrive {
  friend bool operator==(const ClusterArrive&, const ClusterArrive&) = default;
};
/// The second half: waits until all threads of all blocks of the cluster have executed
/// ClusterArrive.
struct ClusterWait {
  friend bool operator==(const ClusterWait&, const ClusterWait&) = default;
};
/// Sends values and a number to another block of the team, or to this one: value i goes to place
/// `place` + i of block `block` (i32), counted from 0. A block has Kernel::message_places places
/// for messages, each of kMessagePlaceBytes, which hold 0 when the kernel starts. A place holds one
/// message, and the next may be sent when some MessageWait has taken it. Several values begin at an
/// even place, and a block then has an even number of places. Number 0 clears the place:
/// the block itself does so when it has taken all its messages, so that the next launch finds 0.
///
/// A value and its number arrive together; different values may not, and nothing else is ordered by
/// a message.
struct MessageStore {
  BufferId mail;  ///< Global, of i32, read and written; nothing else accesses it. It holds the
                  ///< places of all blocks in their order.
  ExprId block, place;
  std::vector<VarId> values;  ///< Scalars of 4 bytes, one to four.
  ExprId number;              ///< An i32 that is not negative.
  friend bool operator==(const MessageStore&, const MessageStore&) = default;
};
/// Waits until the block's own places from `place` on hold messages with this number, and takes
/// them.
struct MessageWait {
  BufferId mail;
  ExprId place;
  std::vector<VarId> values;
  ExprId number;  ///< An i32 of at least 1.
  friend bool operator==(const MessageWait&, const MessageWait&) = default;
};
using sinter::kMessagePlaceBytes;

/// Block-wide barrier; orders shared-memory accesses before it with those after it.
struct Barrier {
  friend bool operator==(const Barrier&, const Barrier&) = default;
};
/// Barrier of a warp's 32 lanes, all of which execute it; orders their memory accesses before it
/// with those after it. Values read from memory before the barrier are read again after it, not
/// kept in registers.
struct WarpBarrier {
  friend bool operator==(const WarpBarrier&, const WarpBarrier&) = default;
};
/// Orders the thread's memory accesses before it with those after it, for the whole device. Two
/// fences and two atomics synchronise two threads: thread A executes a fence and then an atomic;
/// thread B executes an atomic on the same element, which reads the value that A's atomic left, and
/// then a fence. Everything visible to A before its fence is visible to B after its fence.
struct DeviceFence {
  friend bool operator==(const DeviceFence&, const DeviceFence&) = default;
};
/// target = buffer[index]; buffer[index] = target < last ? target + 1 : 0; as one atomic operation
/// that orders no other accesses. All are i32, and the values are not negative. The buffer is
/// global, and nothing else accesses it. last + 1 executions from 0 leave 0.
struct AtomicCount {
  VarId target;
  BufferId buffer;
  ExprId index;
  ExprId last;
  friend bool operator==(const AtomicCount&, const AtomicCount&) = default;
};
/// target = `source` of the lane whose number differs in the bits of `mask`. All lanes of the warp
/// execute it. f32, f64, i32 or i64.
struct ShuffleXor {
  VarId target;
  ExprId source;
  int32_t mask = 1;
  friend bool operator==(const ShuffleXor&, const ShuffleXor&) = default;
};

/// target = the maximum (fn kMax) or minimum (kMin) of itself and all lanes of tile[group], or of
/// their magnitudes. NaN wins. The target is an f32; the tile is bf16 or f16 and has an even number
/// of lanes, two of which are compared by one instruction.
struct LaneExtreme {
  VarId target;
  PointwiseFn fn = PointwiseFn::kMax;
  bool of_magnitudes = false;
  VarId tile;
  ExprId group;
  friend bool operator==(const LaneExtreme&, const LaneExtreme&) = default;
};

/// Bytes of the register that holds a lane's part of a matrix. A tile of such registers has
/// kFragmentBytes / element bytes lanes, so each of its groups is one register.
inline constexpr int64_t kFragmentBytes = 4;

/// Loads `matrices` matrices of 8 rows of 16 bytes from shared memory (PTX ISA, "ldmatrix"). All
/// lanes of the warp execute it.
///
/// The index of lane 8 i + r is the first element of row r of matrix i, at a multiple of 16 bytes.
/// Indices of lanes from 8 matrices on are not used. tile[group + i] of lane l receives bytes
/// 4 (l % 4) to 4 (l % 4) + 3 of row l / 4 of matrix i. The tile is no scalar. It has the type of
/// the buffer and kFragmentBytes / element bytes lanes.
struct LoadMatrix {
  static constexpr int64_t kRows = 8;
  static constexpr int64_t kRowBytes = 16;

  VarId tile;
  ExprId group;
  int64_t matrices = 1;  ///< 1, 2 or 4.
  /// Element j of lane l is the one in row 2 (l % 4) + j and column l / 4 instead. Only for types
  /// of 2 bytes.
  bool transpose = false;
  BufferId shared;
  ExprId index;
  friend bool operator==(const LoadMatrix&, const LoadMatrix&) = default;
};

/// accumulator += left * right for matrices of 16 x K, K x 8 and 16 x 8 elements that the lanes of
/// a warp hold together (PTX ISA, "mma.sync.aligned.m16n8kK.row.col"). K elements of an operand
/// have 32 bytes. All lanes execute it.
///
/// An operand is as many groups as the table says, from the given one on. Those of left and right
/// are one register each (kFragmentBytes), those of the accumulator two. Lane l holds:
///
///     operand       groups   group i
///     left          4        of row l / 4 + 8 (i % 2), bytes 4 (l % 4) + 16 (i / 2) + 0 to 3
///     right         2        of column l / 4, bytes 4 (l % 4) + 16 i + 0 to 3
///     accumulator   2 of 2   in lane e, row l / 4 + 8 i, column 2 (l % 4) + e
///
/// mma_accumulator() lists the types. f32 operands are TF32: their low 13 bits are ignored.
/// Products are exact. How often and in which order the device rounds sums to f32 is not defined;
/// i32 wraps around. 8-bit floats need sm_89.
struct Mma {
  static constexpr int64_t kLeftGroups = 4;
  static constexpr int64_t kRightGroups = 2;
  static constexpr int64_t kAccumulatorGroups = 2;
  static constexpr int64_t kAccumulatorLanes = 2;

  VarId accumulator;
  ExprId accumulator_group;
  VarId left;
  ExprId left_group;
  VarId right;
  ExprId right_group;
  friend bool operator==(const Mma&, const Mma&) = default;
};
/// The type of the accumulator for operands of these types: f32 for equal bf16, f16 or f32 and for
/// any two 8-bit floats, i32 for any two 8-bit integers. None if there is no such instruction.
std::optional<DType> mma_accumulator(DType left, DType right);

/// Threads that execute a Wgmma together.
using sinter::kWarpGroup;

/// An operand of Wgmma in shared memory (PTX ISA, "wgmma", "Shared Memory Matrix Layout"). It has
/// lines of `swizzle` bytes. Groups of eight lines lie without gaps and start at multiples of
/// swizzle_period() bytes; everything is stored where swizzled() says.
///
/// The own axis is that of the rows of the left operand, and of the columns of the right one. A
/// line belongs to one index on it and holds elements along k; or transposed, a line belongs to one
/// k and holds elements along the own axis. Then more lines beside it have the rest of the own
/// axis.
struct SharedMatrix {
  BufferId buffer;
  /// The first element, where it would be without the swizzle: in the first line of a group, at a
  /// multiple of 32 bytes; transposed, at its start.
  ExprId index;
  bool transposed = false;   ///< Only for types of 2 bytes.
  int64_t swizzle = 128;     ///< Bytes of a line: 32, 64 or 128.
  int64_t group_stride = 0;  ///< Elements from one group of eight lines to the next.
  int64_t block_stride = 0;  ///< Transposed: elements from a line to the one beside it, which
                             ///< continues the own axis; 0 if there is none.

  [[nodiscard]] int64_t period() const { return swizzle_period(swizzle); }
  /// Of an element from the first one, in elements, without the swizzle.
  [[nodiscard]] int64_t offset_of(int64_t own, int64_t k, int64_t element_bytes) const;
  /// Elements from the start of the first group to the end of the last one that a product uses, for
  /// so many indices on the own axis.
  [[nodiscard]] int64_t elements_spanned(int64_t own, int64_t element_bytes) const;
  friend bool operator==(const SharedMatrix&, const SharedMatrix&) = default;
};

/// A left operand of Wgmma in registers: Mma::kLeftGroups groups of a tile, from the given one on.
/// Each warp of the group has 16 rows, and its lanes what they have of a left operand of Mma.
struct RegisterMatrix {
  VarId tile;
  ExprId group;
  friend bool operator==(const RegisterMatrix&, const RegisterMatrix&) = default;
};

/// accumulator += left * right for matrices of 64 x K, K x columns and 64 x columns elements (PTX
/// ISA, "wgmma.mma_async.sync.aligned.m64nNkK"; sm_90a). K elements of an operand have 32 bytes.
/// Types are those of Mma. All threads of a warp group execute it.
///
/// It only starts the product. Until a WgmmaWait that covers it, the accumulator must not be read
/// or written but by further Wgmma of the same columns, nor the operands written, nor those in
/// registers read but by further Wgmma. A WgmmaFence stands between other writes of these registers
/// and the product, and a ProxyFence and a barrier between stores to operands in shared memory and
/// the product.
///
/// The accumulator has two lanes and columns / 4 groups, from the given one on. Lane e of group
/// 2 j + h of thread t of the warp group is the element of row 16 (t / 32) + t % 32 / 4 + 8 h and
/// column 8 j + 2 (t % 4) + e: that of Mma for columns / 8 products side by side.
struct Wgmma {
  static constexpr int64_t kRows = 64;
  static constexpr int64_t kDepthBytes = 32;
  /// Every count for which there are instructions of all types, but for some in between.
  static constexpr std::array<int64_t, 8> kColumns = {8, 16, 32, 64, 96, 128, 192, 256};

  VarId accumulator;
  ExprId accumulator_group;
  int64_t columns = 8;  ///< One of kColumns.
  std::variant<SharedMatrix, RegisterMatrix> left;
  SharedMatrix right;
  /// The product replaces what the accumulator held, which need not have been written.
  bool replaces = false;
  [[nodiscard]] int64_t groups() const { return columns / 4; }
  friend bool operator==(const Wgmma&, const Wgmma&) = default;
};
/// Orders what the warp has written to accumulators and operands in registers before the products
/// that follow (PTX ISA, "wgmma.fence"). Like the next two, all threads of a warp group execute it.
struct WgmmaFence {
  friend bool operator==(const WgmmaFence&, const WgmmaFence&) = default;
};
/// Ends the current group of products: those started since the last WgmmaCommit, which may be none.
struct WgmmaCommit {
  friend bool operator==(const WgmmaCommit&, const WgmmaCommit&) = default;
};
/// Waits until at most the last `pending` groups of products are incomplete. Products after the
/// last WgmmaCommit are not waited for.
struct WgmmaWait {
  int64_t pending = 0;  ///< From 0 to 7.
  friend bool operator==(const WgmmaWait&, const WgmmaWait&) = default;
};

/// Associative combinations of tuples. Each component is one scalar variable; traits_of() says how
/// many there are.
using Combiner = Reduction;

/// One reduction of a tuple held by every thread.
struct ReducePart {
  Combiner combiner = Combiner::kSum;
  std::vector<VarId> vars;
  /// Of Welford tuples: the elements of each thread's, where all have as many. 0: not known.
  int64_t elements = 0;
  friend bool operator==(const ReducePart&, const ReducePart&) = default;
};
/// Which half of a reduction over the blocks of a team a statement is.
enum class ReduceHalf : uint8_t {
  kWhole,
  kSend,     ///< Combines the tuples of a group in the block, and sends the result to all blocks.
  kReceive,  ///< Waits for the tuples of all blocks, and combines them.
};
/// Combines the tuples of each aligned group of `threads` consecutive threads (a power of two);
/// afterwards every thread of the group holds the result. All parts share one exchange. The pass
/// lower_reductions replaces it by shuffles, shared memory and one barrier; it does not reach the
/// emitter.
struct AllReduce {
  std::vector<ReducePart> parts;
  int64_t threads = 32;
  std::string name;  ///< Names the shared scratch.
  /// An i32, 0 or 1, that selects one of two copies of the scratch memory. Invalid: one copy, or
  /// two if lower_reductions finds that the reduction may follow itself. Consecutive executions
  /// with different phases need no barrier in between: when a thread has passed the barrier of one
  /// execution, all others have completed the previous one.
  ExprId phase{};
  /// An i32, uniform in a warp: the GroupBarrier of `threads` threads at which a group of more than
  /// 32 synchronises, so that the other threads of the block need not take part. Groups that may
  /// execute the reduction at the same time have different barriers. Invalid: the barrier of the
  /// block, and all groups take part. Groups are aligned either way.
  ExprId barrier{};
  /// An i32 from 0 to groups - 1, uniform in a warp: which of `groups` scratch buffers the group
  /// uses. Only with `barrier`. Invalid: there is scratch for all warps of the block.
  ExprId group{};
  int64_t groups = 1;
  /// Only in a cluster: combines the groups of equal number in all its blocks, in one step. Every
  /// warp sends its tuple to every block, and each block waits for all tuples at this array, which
  /// has one mbarrier of one arrival for each group and phase. Groups of fewer than 32 threads
  /// share that of their warp, whose number `group` is then. Invalid: each block combines its own
  /// groups.
  MbarrierId arrived{};
  /// With `arrived`: the parity of the mbarrier's phase, an i32, uniform in a group.
  ExprId parity{};
  /// Only in a team: combines the groups of equal number in all its blocks, as with `arrived`, but
  /// by messages with the number `number` (i32, at least 1, uniform in a group), which lie from
  /// `first_place` on. A group has at most 32 threads.
  BufferId mail{};
  ExprId number{};
  int64_t first_place = 0;
  /// With `mail`: other statements may stand between the halves. After kSend the variables hold no
  /// result; before kReceive they need no value. Both have the same `first_place`, parts, threads
  /// and groups, and are executed by the same threads with the same group, phase and number.
  ReduceHalf half = ReduceHalf::kWhole;

  /// True for reductions over several blocks.
  [[nodiscard]] bool is_shared() const { return arrived.valid() || mail.valid(); }
  friend bool operator==(const AllReduce&, const AllReduce&) = default;
};

using StmtKind =
    std::variant<Comment, Declare, Assign, SetElement, For, If, Load, Store, AsyncCopy, AsyncCommit,
                 AsyncWait, InitMbarriers, ExpectBytes, BulkCopy, TensorCopy, ProxyFence,
                 MbarrierArrive, ClusterStore, MbarrierWait, ClusterBarrier, ClusterArrive,
                 ClusterWait, MessageStore, MessageWait, Barrier, GroupBarrier, SetMaxRegisters,
                 LaunchDependents, WaitForPrevious, WarpBarrier, DeviceFence, AtomicCount,
                 ShuffleXor, LaneExtreme, LoadMatrix, Mma, Wgmma, WgmmaFence, WgmmaCommit,
                 WgmmaWait, AllReduce>;
struct Stmt {
  StmtKind kind;
  friend bool operator==(const Stmt&, const Stmt&) = default;
};

/// Clusters or teams to launch: ceil(work / per_block), where `work` is the launch value of a
/// parameter. Without work there is no launch.
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
  int64_t team = 1;     ///< Blocks of a team, likewise; not beside clusters.
  int64_t message_places = 0;  ///< Of each block of a team.
  Grid grid;
  IdVector<ParamId, Param> params;
  IdVector<BufferId, Buffer> buffers;
  IdVector<MbarrierId, Mbarrier> mbarriers;
  IdVector<TensorMapId, TensorMap> tensor_maps;
  IdVector<VarId, Var> vars;
  IdVector<ExprId, Expr> exprs;
  IdVector<StmtId, Stmt> stmts;
  Block body;

  friend bool operator==(const Kernel&, const Kernel&) = default;
};

/// Places for the messages of a reduction over a team: for each part and phase, and for each group
/// and block of the team, as many as places_of_tuple() says.
int64_t message_places(const AllReduce& reduce, int64_t team);

/// Blocks that run at the same time and share work: those of a cluster or of a team.
int64_t blocks_together(const Kernel& kernel);

/// The type of a product's left operand.
DType left_type(const Kernel& kernel, const Wgmma& product);

/// Shared buffers are placed in units of this many bytes, the widest access.
inline constexpr int64_t kSharedUnit = 16;
/// Shared bytes of a kernel whose shared buffers and mbarriers are placed: the end of the last one,
/// rounded up to whole units.
int64_t shared_bytes(const Kernel& kernel);
/// One struct argument that holds all tables of tensors and all integers in argument space: first
/// the addresses, then integers of 8 bytes, then of 4, each in the order of the buffers, so that
/// there is no padding between them. `offsets` has byte offsets by buffer; -1 for buffers that are
/// not in it.
struct ArgumentLayout {
  IdMap<BufferId, int64_t> offsets;
  int64_t bytes = 0;  ///< 0: the kernel has no such argument.
};
ArgumentLayout argument_layout(const Kernel& kernel);
/// True if the kernel may be launched before the previous one has ended, because it waits itself.
bool waits_for_previous(const Kernel& kernel);
/// Static shared memory is limited to 48 KiB (CUDA programming guide, "Shared Memory"); a kernel
/// that needs more uses dynamic shared memory for all of it.
inline constexpr int64_t kStaticSharedLimit = 48 * 1024;
inline bool uses_dynamic_shared(const Kernel& kernel) {
  return shared_bytes(kernel) > kStaticSharedLimit;
}

}  // namespace sinter::kir
