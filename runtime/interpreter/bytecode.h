#pragma once

// A kernel as the interpreter runs it: one flat list of instructions, each for a whole warp.
//
// Registers are byte offsets into one file per warp; a register holds 32 elements side by side.
// Unrolled loops are expanded, constant expressions computed, tile elements resolved. Only what
// depends on the thread, a parameter or memory is left. Divergence is explicit: the structured
// control instructions keep a stack of lane masks.

#include <cstdint>
#include <vector>

#include "codegen/kernel/kernel_ir.h"
#include "fusion_ir/result.h"
#include "runtime/interpreter/lane_functions.h"

namespace sinter::interpreter {

enum class Opcode : uint8_t {
  kCompute,  ///< result = function(a, b, c) in every lane: only into temporaries.
  kAssign,   ///< The same in active lanes, into a variable.

  kMarkWritten,   ///< Active lanes have written tracked element `a`.
  kClearWritten,  ///< Active lanes hold no value in tracked element `a` any more.
  kCheckWritten,  ///< Active lanes read tracked element `a`.

  kIf,         ///< Push; keep lanes where a; none: go to `target`, the kElse or kEndIf.
  kElse,       ///< The other lanes of the kIf; none: go to `target`, the kEndIf.
  kEndIf,      ///< Pop.
  kLoopEnter,  ///< Push.
  kLoopTest,   ///< Keep lanes where a; none: go to `target`, the kLoopLeave.
  kJump,       ///< Go to `target`, the code of a loop's condition.
  kLoopLeave,  ///< Pop.

  kLoad,       ///< `width` registers from `result` on = buffer[a ...], a is i64.
  kStore,      ///< buffer[a ...] = `width` registers from b on.
  kAsyncCopy,  ///< Shared `buffer`[a ...] from global `source_buffer`[b ...].
  kAsyncCommit,
  kAsyncWait,  ///< Until `width` groups are left; -1: for all copies.
  kInitMbarriers,
  kArrive,      ///< At mbarrier[a]; expects as many bytes as the i32 b says, if `width` is not 0.
  kBulkCopy,    ///< Shared `buffer`[a] from global `source_buffer`[b], c elements, all i64;
                ///< `result` holds the index of the mbarrier.
  kTensorCopy,  ///< Shared `buffer`[a] from its map of `source_buffer`, at the coordinates in the
                ///< registers from b on, all i64; `result` holds the index of the mbarrier.
  kProxyFence,
  kClusterStore,  ///< Shared `buffer`[a], i64, in block b, i32, of the cluster = the register c;
                  ///< `result` holds the index of the mbarrier there.
  kMessageStore,  ///< The register d, 4 bytes, with the number c to place b + `width` of block a of
                  ///< the team; a, b and c are i32.
  kMessageWait,   ///< result = the value at the own place b + `width`, when it has the number c.
  kMbarrierWait,  ///< For the parity b, i32, of mbarrier[a].
  kBarrier,
  kClusterBarrier,
  kClusterArrive,
  kClusterWait,
  kWarpBarrier,
  kDeviceFence,
  kAtomicCount,   ///< result = buffer[a]; buffer[a] goes on by one, or from the i32 b on to 0.
  kGroupBarrier,  ///< With the number a, i32, of `width` threads.
  kLimitRegisters,
  kShuffle,     ///< result = a of the lane whose number differs in the bits `width`.
  kLoadMatrix,  ///< Registers from `result` on = `width` matrices whose rows begin at buffer[a].
  kMma,         ///< Registers from `result` on += those from a on times those from b on.
  kWgmma,  ///< Registers from `result` on += the product of matrices in shared memory that begin
           ///< at the indices a and b, both i64. It writes `width` elements of products from number
           ///< c on. If d is not negative, the left operand is in the registers from a on, elements
           ///< of products from number d on.
  kWgmmaFence,
  kWgmmaCommit,
  kWgmmaWait,       ///< Until `width` groups are left.
  kReadOfProduct,   ///< Active lanes read element `a` of products.
  kWriteOfProduct,  ///< Active lanes have written it other than by a kWgmma.
  kEnd,
};

struct Instruction {
  Opcode opcode = Opcode::kEnd;
  uint8_t element_bytes = 0;  ///< Of `result`, or of the memory accessed.
  bool shared = false;        ///< kLoad, kStore: the buffer is shared memory.
  bool of_table = false;      ///< kLoad, kStore: c is the number of the tensor, an i64.
  bool predicated = false;    ///< kAsyncCopy: where c, a bool, is false, zeros arrive. Of
                              ///< messages: it is one of several values, from an even place on.
  bool transpose = false;     ///< kLoadMatrix.
  int32_t result = 0;
  int32_t a = 0, b = 0, c = 0, d = -1;
  int32_t width = 1;
  uint32_t target = 0;
  kir::BufferId buffer{}, source_buffer{};
  kir::MbarrierId mbarrier{};
  kir::StmtId stmt{};  ///< Where it comes from.
  LaneFunction function = nullptr;
};

/// A register every lane of which is filled before the kernel starts: with the low `element_bytes`
/// bytes of `bits`.
struct PresetRegister {
  int32_t offset = 0;
  uint8_t element_bytes = 4;
  uint64_t bits = 0;
};
struct ParamRegister {
  kir::ParamId param{};
  int32_t offset = 0;
  uint8_t element_bytes = 8;
};
/// A tile element whose reads could not be proved to follow a write, so that the run follows it.
struct TrackedElement {
  kir::VarId var{};
  int64_t group = 0, lane = 0;
};

struct Program {
  static constexpr int32_t kUnused = -1;

  std::vector<Instruction> code{};
  std::vector<PresetRegister> constants{};
  std::vector<ParamRegister> params{};
  int32_t thread_index = kUnused, block_index = kUnused, grid_size = kUnused;
  std::vector<TrackedElement> tracked{};
  int32_t product_elements = 0;  ///< Of tiles that are accumulators or operands of a kir::Wgmma.
  /// Registers of variables come first in the file; they hold no value when a block starts.
  int32_t variable_bytes = 0;
  int32_t scratch = 0;  ///< A register for results that only some lanes take.
  int32_t register_bytes = 0;
};

/// Compiles a verified kernel. Errors: kInternalError for what no lowered kernel may hold
/// (AllReduce, unplaced shared buffers, tile indices that are not constant, types that do not fit);
/// kResourceExhausted when unrolled loops expand to more than `kMaxInstructions`, or variables take
/// more than `kMaxRegisterBytes` in the threads of a block, or of the blocks of a cluster.
[[nodiscard]] Result<Program> compile(const kir::Kernel& kernel);
inline constexpr int64_t kMaxInstructions = int64_t{1} << 20;
inline constexpr int64_t kMaxRegisterBytes = int64_t{1} << 30;

}  // namespace sinter::interpreter
