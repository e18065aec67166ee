#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel/kernel_ir.h"
#include "runtime/interpreter/bytecode.h"
#include "runtime/interpreter/device_order.h"
#include "runtime/interpreter/global_memory.h"
#include "runtime/interpreter/happens_before.h"
#include "runtime/interpreter/mbarriers.h"
#include "runtime/interpreter/memory_access.h"
#include "runtime/interpreter/report.h"
#include "runtime/interpreter/shared_memory.h"

namespace sinter::interpreter {

/// Runs clusters or teams one after another, of one block or of several that run together. Their
/// warps are resumable tasks that advance by random numbers of instructions, in random order, until
/// all wait at a barrier or have finished. Bulk copies and stores to other blocks land in between.
class BlockExecutor {
 public:
  struct Limits {
    uint64_t seed = 0;
    int64_t max_steps = 0;
    bool check_races = true;
  };

  struct Launch {
    std::span<const int64_t> params;
    int64_t blocks = 0;
  };

  /// `memory` and `log` outlive the executor.
  BlockExecutor(const kir::Kernel& kernel, const Program& program, const Launch& launch,
                const Limits& limits, GlobalMemory* memory, FindingLog* log);

  /// Runs one cluster to its end, or until it deadlocks. False when a warp has exceeded the step
  /// limit: none should follow.
  [[nodiscard]] bool run_cluster(int64_t cluster);

  [[nodiscard]] WorkCounts work() const;

 private:
  enum class State : uint8_t {
    kReady,
    kAtBarrier,
    kAtClusterBarrier,
    kAtClusterWait,
    kAtGroupBarrier,
    kAtMbarrier,
    kAtMessage,
    kFinished
  };

  /// What a control instruction that pushed will restore.
  struct Frame {
    uint32_t outer = 0;  ///< Lanes active before it.
    uint32_t other = 0;  ///< Lanes that take the else branch.
  };
  /// One thread's asynchronous copy in flight, with the bytes it read.
  struct PendingCopy {
    uint8_t lane = 0;
    uint8_t bytes = 0;
    int64_t group = 0;    ///< Number of its group among the lane's, from 1; 0 until committed.
    int64_t address = 0;  ///< In shared memory.
    std::array<std::byte, 16> data{};
  };
  /// A bulk copy, or a store to another block, in flight.
  struct Transfer {
    size_t rank = 0;       ///< Of the block that it goes to.
    int64_t mbarrier = 0;  ///< Number in the block's mbarriers.
    uint32_t phase = 0;
    int64_t bytes = 0;
    int64_t to = 0;                   ///< Address in shared memory.
    const std::byte* from = nullptr;  ///< Global memory; else what `value` holds.
    std::vector<std::byte> box{};     ///< If not empty, what arrives.
    std::array<std::byte, 16> value{};
  };
  /// Elements of products (Program::product_elements).
  struct ElementRange {
    int32_t first = 0;
    int32_t count = 0;
    [[nodiscard]] bool meets(const ElementRange& other) const {
      return first < other.first + other.count && other.first < first + count;
    }
    friend bool operator==(const ElementRange&, const ElementRange&) = default;
  };
  /// A product of a warp group that its warp has not awaited.
  struct PendingProduct {
    int64_t group = 0;        ///< Number of its group among the warp's, from 1; 0 until committed.
    ElementRange sums, left;  ///< What it has in registers.
    uint32_t reads = 0;       ///< What SharedMemory knows it by.
  };
  struct Warp {
    size_t rank = 0;           ///< Of its block in the cluster.
    int64_t first_thread = 0;  ///< Within its block.
    int64_t first_actor = 0;   ///< Within the cluster.
    std::vector<std::byte> registers;
    std::vector<uint32_t> written;  ///< By tracked element: the lanes that hold a value.
    std::vector<Frame> frames;
    std::vector<PendingCopy> copies;
    std::array<int64_t, kLanes> groups{};  ///< Groups of copies that each lane has committed.
    std::vector<PendingProduct> products;
    int64_t product_groups = 0;     ///< That it has committed.
    std::vector<uint8_t> unfenced;  ///< By element of products: written since the last fence.
    uint64_t group_work = 0;        ///< A hash of what the warp group has to do alike.
    uint32_t position = 0;          ///< Of the next instruction.
    uint32_t mask = kAllLanes;
    State state = State::kReady;
    uint32_t passed = 0;  ///< kAtMbarrier: lanes that need not wait any more.
    int64_t waits_for =
        0;                ///< kAtMbarrier: number of the mbarrier; kAtGroupBarrier: of the barrier.
    uint64_t limits = 0;  ///< A hash of the register limits it has set, in their order.
    int64_t steps = 0;    ///< In this block.
    [[nodiscard]] std::byte* at(int32_t offset) { return registers.data() + offset; }
  };

  void prepare_registers(Warp* warp, const Launch& launch);
  void start_cluster();
  /// Runs a warp for at most `steps` instructions.
  void advance(Warp* warp, int64_t steps);
  void assign(Warp* warp, const Instruction& instruction) const;
  void shuffle(Warp* warp, const Instruction& instruction);
  void load(Warp* warp, const Instruction& instruction);
  void load(Warp* warp, const Instruction& instruction, const Access& access);
  void store(Warp* warp, const Instruction& instruction);
  void store(Warp* warp, const Instruction& instruction, const Access& access);
  /// Runs an access to a table for each of its tensors, with the lanes that name it. What names
  /// none is reported.
  void for_each_tensor(Warp* warp, const Instruction& instruction,
                       const std::function<void(const Access&)>& run);
  void report_tensor(const Access& access);
  /// Puts zeros where lanes would have loaded.
  static void clear(Warp* warp, const Instruction& instruction, uint32_t lanes);
  void count(Warp* warp, const Instruction& instruction);
  void start_copy(Warp* warp, const Instruction& instruction);
  void commit_copies(Warp* warp);
  /// Of all groups but the last `pending`; -1: of all copies.
  void finish_copies(Warp* warp, int64_t pending);
  void load_matrices(Warp* warp, const Instruction& instruction);
  void multiply_matrices(Warp* warp, const Instruction& instruction);
  void start_product(Warp* warp, const Instruction& instruction);
  /// So many indices of the own axis of an operand from `first` on, 32 bytes along k each.
  std::vector<std::byte> read_matrix(const Warp& warp, const Instruction& instruction,
                                     const kir::SharedMatrix& matrix, const std::byte* index,
                                     std::array<int64_t, 2> first_and_count, uint32_t reads);
  /// Reports registers of a product that have been written since the last fence.
  void check_fenced(const Warp& warp, const Instruction& instruction, const ElementRange& range,
                    kir::VarId tile);
  /// Notes what all warps of a warp group have to execute, with all their lanes.
  void join_group(Warp* warp, const Instruction& instruction);
  void commit_products(Warp* warp);
  void finish_products(Warp* warp, int64_t pending);
  void touch_product(Warp* warp, const Instruction& instruction);
  /// Reports registers of a product that goes on. `in_product`: another product has some of
  /// its sums.
  void report_pending(const Warp& warp, const Instruction& instruction, bool in_product);
  void check_products(const Warp& warp);
  void check_written(Warp* warp, const Instruction& instruction);
  void arrive(Warp* warp, const Instruction& instruction);
  void start_bulk_copy(Warp* warp, const Instruction& instruction);
  void start_tensor_copy(Warp* warp, const Instruction& instruction);
  /// What a tensor copy of one thread brings, in the order of shared memory from the start of the
  /// box on.
  std::vector<std::byte> read_box(const Access& source, const kir::TensorCopy& copy,
                                  const std::vector<int64_t>& coordinates);
  void store_in_cluster(Warp* warp, const Instruction& instruction);
  void land(size_t transfer);
  void send_message(Warp* warp, const Instruction& instruction);
  /// False while a lane has to wait.
  bool take_message(Warp* warp, const Instruction& instruction);
  /// By lane, where in the mail of the launch a place of a block of the team lies, and its number
  /// in unread_. Lanes without one are reported and left out.
  struct MessagePlaces {
    uint32_t lanes = 0;
    std::array<std::byte*, kLanes> memory{};
    std::array<size_t, kLanes> number{};
    Access access{};
  };
  /// Their traffic; a wait that goes on has none.
  void count_messages(const MessagePlaces& places);
  MessagePlaces message_places(Warp* warp, const Instruction& instruction, bool own);
  void check_messages();
  /// All lanes come to the cluster's barrier in two halves, and the last ones wake who waits.
  void arrive_in_cluster(Warp* warp);
  /// False while others have to arrive.
  bool wait_for_cluster(Warp* warp);
  /// False while a lane has to wait.
  bool wait_for_mbarrier(Warp* warp, const Instruction& instruction);
  /// Lets all warps that wait for this look again.
  void wake(State waiting);
  void wait_at_group_barrier(Warp* warp, const Instruction& instruction);
  [[nodiscard]] int64_t block_of(const Warp& warp) const {
    return block_ + static_cast<int64_t>(warp.rank);
  }
  /// The warps of one block.
  [[nodiscard]] std::span<Warp> warps_of(size_t rank) {
    const size_t count = warps_.size() / shared_.size();
    return std::span(warps_).subspan(rank * count, count);
  }
  [[nodiscard]] WarpSite site_of(const Warp& warp, const Instruction& instruction,
                                 uint32_t mask) const;

  /// All warps that have not finished wait: lets blocks of which all warps are at a barrier pass,
  /// or the cluster, or reports why they never will. False when nothing can go on.
  bool pass_barrier();
  void pass(std::span<Warp> warps);
  void end_cluster();
  void check_limits();
  /// Reports a warp of which not all lanes are here.
  void check_converged(FindingKind kind, const Warp& warp, const Instruction& instruction);
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
  DeviceOrder device_order_;
  std::vector<std::vector<int64_t>> map_sizes_;  ///< By tensor map and axis.
  std::vector<Mbarriers> mbarriers_;             ///< By rank.
  std::vector<SharedMemory> shared_;
  std::vector<Warp> warps_;  ///< Block by block.
  std::vector<Transfer> transfers_;
  /// Of the team's places, block by block: messages that nobody has taken.
  std::vector<uint8_t> unread_;
  kir::BufferId mail_{};                   ///< Where they lie, when one has been sent.
  int64_t arrived_in_cluster_ = 0;         ///< Warps, at the cluster's barrier in two halves.
  HappensBefore::Clock known_in_cluster_;  ///< What they had done before.
  bool has_woken_ = false;  ///< A warp has become ready since the ready ones were listed.
  int64_t block_ = 0;       ///< The cluster's first.
  WorkCounts work_;
};

}  // namespace sinter::interpreter
