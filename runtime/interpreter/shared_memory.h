#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel/kernel_ir.h"
#include "runtime/interpreter/happens_before.h"
#include "runtime/interpreter/memory_access.h"
#include "runtime/interpreter/report.h"

namespace sinter::interpreter {

/// The shared memory of one block of a cluster at a time, which the others can store into, with
/// bounds, alignment, bank conflicts, and for every byte who wrote it last and who has read it
/// since. Two that touch the same byte race if one of them writes and neither knows of the other's
/// access. What is kept of readers follows Flanagan and Freund, "FastTrack", 2009: one while each
/// reader knows of the one before, else all. Threads are actors here (happens_before.h).
class SharedMemory {
 public:
  /// `order` and `log` outlive this.
  SharedMemory(const kir::Kernel& kernel, bool check_races, const HappensBefore* order,
               FindingLog* log);

  /// Forgets what the last block wrote; `order` has started its cluster.
  void start_block();

  /// Each returns the lanes that may touch memory, with their addresses from `data()`.
  uint32_t read(const Access& access, LaneAddresses* addresses);
  uint32_t write(const Access& access, LaneAddresses* addresses);
  uint32_t copy_to(const Access& access, LaneAddresses* addresses);  ///< An asynchronous copy.
  /// What the lanes name is read by others, for which read_by() follows.
  uint32_t read_for_others(const Access& access, LaneAddresses* addresses);
  /// One lane reads `access.bytes` bytes at an address from `data()`.
  void read_by(int lane, const Access& access, int64_t address);

  /// A product of a warp group begins, for the warp whose first lane is this actor; the answer
  /// names it below.
  uint32_t start_product(int64_t first_actor);
  /// It reads 16 bytes until it is finished.
  void read_for_product(uint32_t product, const Access& access, int64_t address);
  /// Its warp has awaited it.
  void finish_product(uint32_t product);

  /// Where a bulk copy of the only active thread goes: an address from `data()`, or -1 after
  /// reporting that it leaves the buffer. It is the mbarrier `actor` that writes, at `time`.
  int64_t start_bulk_copy(const Access& access, int64_t actor, HappensBefore::Time time);

  /// Where a store of one lane of another block goes, which the mbarrier `actor` makes at `time`:
  /// an address, or -1 after reporting.
  int64_t start_cluster_store(const Access& access, int64_t actor, HappensBefore::Time time);

  /// The bytes an asynchronous copy of `thread` wrote have arrived, or will never.
  void finish_copy(int64_t address, int64_t bytes, int64_t thread);

  [[nodiscard]] std::byte* data() { return bytes_.data(); }
  [[nodiscard]] int64_t bytes_read() const { return bytes_read_; }
  [[nodiscard]] int64_t bytes_written() const { return bytes_written_; }
  [[nodiscard]] int64_t conflicts() const { return conflicts_; }

 private:
  using Time = HappensBefore::Time;
  static constexpr uint32_t kSeveral = UINT32_MAX;
  /// What is known about one granule. Times before the block's first one are none.
  struct Cell {
    Time write_time = 0;
    Time read_time = 0;    ///< Of the only reader since the last write.
    uint32_t writer = 0;   ///< An actor.
    uint32_t reader = 0;   ///< A thread, or kSeveral.
    uint32_t readers = 0;  ///< 1 + the place in readers_ that it has been given; 0 for none.
    uint32_t copying = 0;  ///< 1 + the thread whose asynchronous copy is in flight; 0 for none.
  };
  /// Times of the last reads of a granule by the threads from `first` on: those of one block, or
  /// all of the cluster.
  struct Readers {
    uint32_t first = 0;
    std::vector<Time> times{};
  };

  /// A product of a warp group, which reads through the async proxy.
  struct Product {
    int64_t first_actor = 0;
    bool is_awaited = false;
    std::array<Time, kLanes> awaited{};  ///< By lane, when it was.
  };
  static constexpr int64_t kChunk = 16;

  uint32_t locate_in_block(const Access& access, LaneAddresses* addresses);
  void follow_read(const Access& access, int64_t address, int64_t thread);
  void follow_write(const Access& access, int64_t address, int64_t thread);
  /// Reports products that read what a thread writes, and forgets them.
  void follow_products(const Access& access, int64_t address, int64_t thread);
  void note_reader(Cell* cell, uint32_t thread);
  /// A thread whose read since the last write the given one does not come after; -1 for none.
  [[nodiscard]] int64_t unordered_reader(const Cell& cell, int64_t thread) const;
  void note_writer(Cell* cell, int64_t actor, Time time);
  /// The cells of an access of one thread.
  template <class Visit>
  void for_each_cell(int64_t address, int64_t bytes, Visit visit);
  /// Where the only active lane goes, and as whom; nothing after reporting that it leaves the
  /// buffer.
  struct Target {
    int64_t address = 0;
    int64_t thread = 0;
  };
  std::optional<Target> locate_one(const Access& access);
  /// What an access writes is the mbarrier's from now on.
  void pass_to(int64_t actor, Time time, int64_t address, int64_t bytes);
  [[nodiscard]] std::string name_of(int64_t actor, int64_t block) const;
  /// What is wrong about an access, with the thread it concerns besides; -1 for none in particular.
  struct Conflict {
    FindingKind kind{};
    int64_t other = -1;
    const char* problem = "";
  };
  /// Reports that `thread` in doing what `does` says meets a conflict at `address`.
  void report(const Access& access, int64_t address, int64_t thread, const char* does,
              const Conflict& conflict);

  int64_t block_threads_;
  const HappensBefore* order_;
  FindingLog* log_;
  std::vector<std::byte> bytes_;
  int64_t granule_bytes_ = 1;
  std::vector<Cell> cells_;  ///< Empty when nothing is followed.
  std::vector<Readers> readers_;
  std::vector<Product> products_;
  /// By chunk of 16 bytes: products that have read it since it was written, the last of each warp.
  /// Empty until there is a product.
  std::vector<std::vector<uint32_t>> products_of_;
  int64_t bytes_read_ = 0, bytes_written_ = 0, conflicts_ = 0;
};

}  // namespace sinter::interpreter
