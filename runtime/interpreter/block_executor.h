#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/kernel_ir.h"
#include "runtime/interpreter/bytecode.h"
#include "runtime/interpreter/global_memory.h"
#include "runtime/interpreter/happens_before.h"
#include "runtime/interpreter/mbarriers.h"
#include "runtime/interpreter/memory_access.h"
#include "runtime/interpreter/report.h"
#include "runtime/interpreter/shared_memory.h"

namespace sinter::interpreter {

/// Runs blocks one after another. The warps of a block are resumable tasks that advance in turns of
/// random length and order, and bulk copies land in between, until all wait at a barrier or have
/// finished.
class BlockExecutor {
 public:
  struct Limits {
    uint64_t seed = 0;
    int64_t max_steps = 0;
    bool check_races = true;
  };

  /// `memory` and `log` outlive the executor.
  BlockExecutor(const kir::Kernel& kernel, const Program& program,
                const std::vector<int64_t>& params, int64_t blocks, const Limits& limits,
                GlobalMemory* memory, FindingLog* log);

  /// Runs one block to its end, or until it deadlocks. False when a warp has exceeded the step
  /// limit: no block should follow.
  [[nodiscard]] bool run_block(int64_t block);

  [[nodiscard]] WorkCounts work() const;

 private:
  enum class State : uint8_t { kReady, kAtBarrier, kAtGroupBarrier, kAtMbarrier, kFinished };

  /// What a control instruction that pushed will restore.
  struct Frame {
    uint32_t outer = 0;  ///< Lanes active before it.
    uint32_t other = 0;  ///< Lanes that take the else branch.
  };
  /// One thread's asynchronous copy under way, with the bytes it read.
  struct PendingCopy {
    uint8_t lane = 0;
    uint8_t bytes = 0;
    int64_t address = 0;  ///< In shared memory.
    std::array<std::byte, 16> data{};
  };
  /// A bulk copy under way.
  struct BulkCopy {
    int64_t mbarrier = 0;  ///< Number in mbarriers_.
    uint32_t phase = 0;
    int64_t bytes = 0;
    int64_t to = 0;  ///< Address in shared memory.
    const std::byte* from = nullptr;
  };
  struct Warp {
    int64_t first_thread = 0;
    std::vector<std::byte> registers;
    std::vector<uint32_t> written;  ///< By tracked element: the lanes that hold a value.
    std::vector<Frame> frames;
    std::vector<PendingCopy> copies;
    uint32_t position = 0;  ///< Of the next instruction.
    uint32_t mask = kAllLanes;
    State state = State::kReady;
    uint32_t passed = 0;  ///< kAtMbarrier: lanes that need not wait any more.
    int64_t waits_for =
        0;                ///< kAtMbarrier: number of the mbarrier; kAtGroupBarrier: of the barrier.
    uint64_t limits = 0;  ///< A hash of the register limits it has set, in their order.
    int64_t steps = 0;    ///< In this block.
    [[nodiscard]] std::byte* at(int32_t offset) { return registers.data() + offset; }
  };

  void prepare_registers(Warp* warp, const std::vector<int64_t>& params, int64_t blocks);
  void start_block();
  /// Runs a warp for at most `turn` instructions.
  void advance(Warp* warp, int64_t turn);
  void assign(Warp* warp, const Instruction& instruction);
  void shuffle(Warp* warp, const Instruction& instruction);
  void load(Warp* warp, const Instruction& instruction);
  void store(Warp* warp, const Instruction& instruction);
  void start_copy(Warp* warp, const Instruction& instruction);
  void finish_copies(Warp* warp);
  void check_written(Warp* warp, const Instruction& instruction);
  void arrive(Warp* warp, const Instruction& instruction);
  void start_bulk_copy(Warp* warp, const Instruction& instruction);
  void land(size_t copy);
  /// False while a lane has to wait.
  bool wait_for_mbarrier(Warp* warp, const Instruction& instruction);
  void wake_waiting();
  void wait_at_group_barrier(Warp* warp, const Instruction& instruction);
  [[nodiscard]] WarpSite site_of(const Warp& warp, const Instruction& instruction,
                                 uint32_t mask) const;

  /// All warps that have not finished wait: lets them pass, or reports why they never will. False
  /// when the block cannot go on.
  bool pass_barrier();
  void end_block();
  void check_limits();
  void report_divergence(FindingKind kind, const Warp& warp, const Instruction& instruction);
  void report_step_limit(const Warp& warp);
  [[nodiscard]] std::string states_of_warps() const;
  [[nodiscard]] Access access_of(Warp* warp, const Instruction& instruction, kir::BufferId buffer,
                                 int32_t index) const;
  [[nodiscard]] kir::StmtId stmt_waited_at(const Warp& warp) const;
  [[nodiscard]] kir::StmtId next_stmt(const Warp& warp) const;

  const kir::Kernel& kernel_;
  const Program& program_;
  Limits limits_;
  GlobalMemory* global_;
  FindingLog* log_;
  HappensBefore order_;
  Mbarriers mbarriers_;
  SharedMemory shared_;
  std::vector<Warp> warps_;
  std::vector<BulkCopy> bulk_copies_;
  bool has_woken_ = false;  ///< A warp has become ready since the ready ones were listed.
  int64_t block_ = 0;
  WorkCounts work_;
};

}  // namespace sinter::interpreter
