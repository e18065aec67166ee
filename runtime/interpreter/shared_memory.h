#pragma once

#include <cstdint>
#include <vector>

#include "codegen/kernel_ir.h"
#include "runtime/interpreter/memory_access.h"
#include "runtime/interpreter/report.h"

namespace sinter::interpreter {

/// The shared memory of one block at a time, with bounds, alignment, bank conflicts, and for every
/// byte who touched it last. Barriers cut the block's time into epochs; two threads that touch the
/// same byte within one epoch race if one of them writes.
class SharedMemory {
 public:
  SharedMemory(const kir::Kernel& kernel, bool check_races, FindingLog* log);

  /// Forgets what the last block wrote.
  void start_block();
  /// All threads of the block have arrived at a barrier.
  void pass_barrier() { ++epoch_; }

  /// Each returns the lanes that may touch memory, with their addresses from `data()`.
  uint32_t read(const Access& access, LaneAddresses* addresses);
  uint32_t write(const Access& access, LaneAddresses* addresses);
  uint32_t copy_to(const Access& access, LaneAddresses* addresses);  ///< An asynchronous copy.

  /// The bytes an asynchronous copy of `thread` wrote have arrived, or will never.
  void finish_copy(int64_t address, int64_t bytes, int64_t thread);

  [[nodiscard]] std::byte* data() { return bytes_.data(); }
  [[nodiscard]] int64_t bytes_read() const { return bytes_read_; }
  [[nodiscard]] int64_t bytes_written() const { return bytes_written_; }
  [[nodiscard]] int64_t conflicts() const { return conflicts_; }

 private:
  static constexpr uint16_t kSeveral = 0xffff;
  /// What is known about one granule. Thread numbers count within the block.
  struct Cell {
    uint32_t write_epoch = 0;
    uint32_t read_epoch = 0;
    uint16_t writer = 0;
    uint16_t reader = 0;
    uint16_t copying = 0;  ///< 1 + the thread whose asynchronous copy is under way; 0 for none.
  };

  uint32_t locate_in_block(const Access& access, LaneAddresses* addresses);
  void follow_read(const Access& access, int64_t address, int64_t thread);
  void follow_write(const Access& access, int64_t address, int64_t thread);
  /// The cells of an access of one thread.
  template <class Visit>
  void for_each_cell(int64_t address, int64_t bytes, Visit visit);
  void report(FindingKind kind, const Access& access, int64_t address, int64_t thread,
              const char* does, int64_t other, const char* problem);

  FindingLog* log_;
  std::vector<std::byte> bytes_;
  int64_t granule_bytes_ = 1;
  std::vector<Cell> cells_;  ///< Empty when nothing is followed.
  uint32_t epoch_ = 1;
  uint32_t first_epoch_ = 1;  ///< Of the current block.
  int64_t bytes_read_ = 0, bytes_written_ = 0, conflicts_ = 0;
};

}  // namespace sinter::interpreter
