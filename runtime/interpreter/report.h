#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// What a run can find wrong with a kernel. Memory is never touched out of bounds.
enum class FindingKind : uint8_t {
  kGlobalOutOfBounds,  ///< Loads give 0, stores do nothing.
  kSharedOutOfBounds,  ///< The same for shared memory.
  kMisaligned,         ///< The device would fault; the interpreter does the access.
  kUnwrittenShared,    ///< A read of shared memory no thread of the block has written.
  kUnwrittenRegister,  ///< A read of a register element the thread has not written.
  kSharedRace,    ///< Two threads, the same bytes, nothing that orders them, at least one writes.
  kGlobalRace,    ///< The same for global memory, where nothing orders two threads.
  kAsyncPending,  ///< An access to shared memory a copy is still on its way to.
  kAsyncNeverAwaited,      ///< A thread ended with copies in flight; they never arrive.
  kDivergentBarrier,       ///< Part of a warp, or warps at different barriers.
  kMbarrierUninitialised,  ///< Used with no barrier after thread 0 has initialised it.
  kMbarrierArrivals,       ///< More arrivals than a phase expects, or ones that may fall into two.
  kMbarrierBytes,          ///< A phase was complete before the bulk copies that began in it.
  kDivergentLimit,         ///< The warps of a group of four set different register limits.
  kDivergentShuffle,       ///< A shuffle in which part of the warp does not take part.
  kDivergentMatrix,        ///< The same for a load or a product of matrices.
  kProductPending,   ///< An access to an accumulator, or a write to an operand, of a product of a
                     ///< warp group that has not been awaited.
  kProductUnfenced,  ///< Such a product, after writes to its registers and no WgmmaFence.
  kMessageLost,      ///< A message that is overwritten or cleared before it is taken, or left.
  kDeadlock,         ///< Warps wait for what never happens; the block is given up.
  kStepLimit,        ///< A warp ran past InterpreterOptions::max_steps; the run is given up.
};
std::string_view text_of(FindingKind kind);

/// One defect: where it was seen first, and how often. Findings that share kind, statement and
/// buffer are counted, not repeated.
struct Finding {
  FindingKind kind = FindingKind::kDeadlock;
  kir::StmtId stmt{};      ///< Invalid when no single statement is to blame.
  kir::BufferId buffer{};  ///< Invalid when no buffer is concerned.
  int64_t index = -1;      ///< Element of the buffer.
  int64_t block = -1;
  int64_t thread = -1;  ///< Within the block; -1 when no single thread is to blame.
  int64_t count = 1;    ///< Lanes that showed it.
  std::string message{};
};

/// Memory traffic of one global buffer. A sector is 32 bytes, the unit the memory system moves
/// (CUDA C++ programming guide, "Device Memory Accesses"); each warp-wide access counts the sectors
/// it touches. Sectors are counted as if element 0 started one.
struct BufferTraffic {
  int64_t bytes_read = 0;  ///< By loads and asynchronous copies; overlapping lanes count each.
  int64_t bytes_written = 0;
  int64_t load_sectors = 0;
  int64_t store_sectors = 0;
  int64_t async_sectors = 0;  ///< Read by asynchronous copies.
  friend bool operator==(const BufferTraffic&, const BufferTraffic&) = default;
};

/// What the kernel asked of the machine. Warp-wide operations count once per warp.
struct WorkCounts {
  int64_t instructions = 0;  ///< Interpreter instructions of all warps; not those of the device.
  int64_t max_warp_instructions = 0;  ///< Of the busiest warp.
  int64_t shared_bytes_read = 0;
  int64_t shared_bytes_written = 0;
  /// Passes over shared memory beyond the fewest that the access width needs (bank conflicts).
  int64_t bank_conflicts = 0;
  int64_t barriers = 0;  ///< Arrivals of warps.
  int64_t shuffles = 0;
  friend bool operator==(const WorkCounts&, const WorkCounts&) = default;
};

/// Everything one run showed. Equal for every seed when the kernel has no findings, but for the
/// busiest warp where one block is the last.
struct InterpreterReport {
  int64_t blocks = 0;
  int64_t warps = 0;
  WorkCounts work{};
  IdMap<kir::BufferId, BufferTraffic> buffers{};  ///< Global buffers only.
  std::vector<Finding> findings{};
  int64_t findings_left_out = 0;  ///< Different ones, beyond the cap.

  [[nodiscard]] bool clean() const { return findings.empty(); }
  [[nodiscard]] BufferTraffic total_traffic() const;
  /// For people: counts, one line per buffer, one paragraph per finding.
  [[nodiscard]] std::string text(const kir::Kernel& kernel) const;
};

/// One line for a statement as messages quote it: "%s7 store y[%e12], width 4".
[[nodiscard]] std::string describe(const kir::Kernel& kernel, kir::StmtId stmt);

/// Collects findings: merges repetitions, keeps at most `capacity` different ones.
class FindingLog {
 public:
  explicit FindingLog(size_t capacity) : capacity_(capacity) {}

  /// Counts a finding; `message` is called the first time only.
  template <class Message>
  void add(Finding finding, Message message) {
    if (Finding* known = admit(finding)) known->message = message();
  }
  /// Appends what another log holds, in its order.
  void absorb(const FindingLog& other);

  [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }
  [[nodiscard]] int64_t left_out() const { return left_out_; }

 private:
  /// The stored finding if it is new and fits, else null.
  Finding* admit(Finding& finding);

  using Key = std::tuple<FindingKind, kir::StmtId, kir::BufferId>;
  static constexpr size_t kLeftOut = SIZE_MAX;

  size_t capacity_;
  std::vector<Finding> findings_;
  std::map<Key, size_t> position_;  ///< In findings_, or kLeftOut.
  int64_t left_out_ = 0;
};

}  // namespace sinter
