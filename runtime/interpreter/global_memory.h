#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel_ir.h"
#include "runtime/interpreter/interpreter.h"
#include "runtime/interpreter/memory_access.h"
#include "runtime/interpreter/report.h"

namespace sinter::interpreter {

/// The global buffers as the blocks of one host thread see them: bounds, alignment, traffic, and
/// for buffers that are written, which thread of the launch wrote and read each element.
class GlobalMemory {
 public:
  GlobalMemory(const kir::Kernel& kernel, std::span<const LaunchMemory> memory, bool check_races,
               FindingLog* log);

  /// Each returns the lanes that may touch memory, with their addresses from element 0.
  uint32_t read(const Access& access, LaneAddresses* addresses);
  uint32_t copy_from(const Access& access, LaneAddresses* addresses);  ///< An asynchronous copy.
  uint32_t write(const Access& access, LaneAddresses* addresses);
  /// Element 0 of a buffer.
  [[nodiscard]] std::byte* origin(kir::BufferId buffer) const {
    return windows_[buffer.index].origin;
  }

  /// Adds the traffic of another host thread's blocks, and finds the races between its blocks and
  /// those of this one.
  void absorb(const GlobalMemory& other);
  [[nodiscard]] const IdMap<kir::BufferId, BufferTraffic>& traffic() const { return traffic_; }

 private:
  /// Numbers the threads of a launch from 1.
  using ThreadNumber = uint32_t;
  static constexpr ThreadNumber kNobody = 0;
  static constexpr ThreadNumber kSeveral = 0xffff'ffffU;

  /// What is known about each element of a written buffer, counted from the lowest valid byte.
  struct Shadow {
    std::vector<ThreadNumber> writer;
    std::vector<ThreadNumber> reader;  ///< Empty when the kernel never reads the buffer.
  };
  struct Window {
    std::byte* origin = nullptr;
    Extent extent{};
    Shadow shadow{};
  };

  uint32_t locate_and_count(const Access& access, LaneAddresses* addresses, int64_t* sectors,
                            int64_t* bytes);
  void follow_read(const Access& access, const LaneAddresses& addresses, uint32_t mask);
  void follow_write(const Access& access, const LaneAddresses& addresses, uint32_t mask);
  void report_race(kir::BufferId buffer, kir::StmtId stmt, int64_t index, ThreadNumber one,
                   const char* one_does, ThreadNumber other, const char* other_does);
  [[nodiscard]] std::string name_of(ThreadNumber thread) const;

  const kir::Kernel& kernel_;
  std::vector<Window> windows_;  ///< By buffer id; shared buffers have empty ones.
  IdMap<kir::BufferId, BufferTraffic> traffic_;
  FindingLog* log_;
};

/// Threads a launch may have for races to be followed.
inline constexpr int64_t kMaxFollowedThreads = 0xffff'fffdLL;

}  // namespace sinter::interpreter
