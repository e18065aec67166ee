#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel/kernel_ir.h"
#include "runtime/interpreter/device_order.h"
#include "runtime/interpreter/interpreter.h"
#include "runtime/interpreter/memory_access.h"
#include "runtime/interpreter/report.h"

namespace sinter::interpreter {

/// The global buffers, and integers among the arguments, as the blocks of one host thread see them:
/// bounds, alignment, traffic, and
/// for buffers that are written, which thread of the launch wrote and read each element, and when.
/// Two that touch the same element race if one of them writes and the later one does not know of
/// it.
class GlobalMemory {
 public:
  GlobalMemory(const kir::Kernel& kernel, std::span<const LaunchMemory> memory, bool check_races,
               FindingLog* log);

  /// Whom accesses are ordered by; outlives this. Without one nothing is ordered.
  void ordered_by(const DeviceOrder* order) { order_ = order; }

  /// Each returns the lanes that may touch memory, with their addresses from element 0.
  uint32_t read(const Access& access, LaneAddresses* addresses);
  uint32_t copy_from(const Access& access, LaneAddresses* addresses);  ///< An asynchronous copy.
  uint32_t write(const Access& access, LaneAddresses* addresses);
  /// Lanes whose elements exist, without any traffic.
  uint32_t find(const Access& access, LaneAddresses* addresses);
  /// Lanes whose counters may be touched. Atomics race with nothing: nothing else touches them.
  uint32_t count(const Access& access, LaneAddresses* addresses);
  /// Element 0 of a buffer, of a table's first tensor.
  [[nodiscard]] std::byte* origin(kir::BufferId buffer) const {
    return windows_[first_window_[buffer]].origin;
  }
  /// Element 0 of the tensor that an access is to.
  [[nodiscard]] std::byte* origin(const Access& access) const {
    return windows_[window_of(access)].origin;
  }
  /// Tensors that a table holds; 1 for other buffers.
  [[nodiscard]] int64_t tensors(kir::BufferId buffer) const;

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
    std::vector<DeviceOrder::Time> written_at;
    std::vector<ThreadNumber> reader;  ///< Empty when the kernel never reads the buffer.
    std::vector<DeviceOrder::Time> read_at;
  };
  struct Window {
    std::byte* origin = nullptr;
    Extent extent{};
    Shadow shadow{};
  };

  static Window window_on(const kir::Buffer& buffer, const LaunchMemory& memory, bool check_races);
  /// Finds the races of one tensor's elements.
  void absorb(kir::BufferId id, size_t window, const GlobalMemory& other);
  [[nodiscard]] size_t window_of(const Access& access) const {
    return first_window_[access.buffer] + static_cast<size_t>(access.tensor);
  }
  uint32_t locate_and_count(const Access& access, LaneAddresses* addresses, int64_t* sectors,
                            int64_t* bytes);
  /// Whether `thread`, of the cluster at hand, does not know what `other` did at `time`.
  [[nodiscard]] bool is_race(ThreadNumber thread, ThreadNumber other, DeviceOrder::Time time) const;
  [[nodiscard]] DeviceOrder::Time now(ThreadNumber thread) const;
  /// Whether later writes race with a read.
  enum class Later : uint8_t { kRemember, kForget };
  void follow_read(const Access& access, const LaneAddresses& addresses, uint32_t mask,
                   Later later = Later::kRemember);
  void follow_write(const Access& access, const LaneAddresses& addresses, uint32_t mask);
  /// A side of a race: who, and what it does.
  struct Side {
    ThreadNumber thread{};
    const char* does = "";
  };
  void report_race(kir::BufferId buffer, kir::StmtId stmt, int64_t index, const Side& one,
                   const Side& other);
  [[nodiscard]] std::string name_of(ThreadNumber thread) const;

  const kir::Kernel& kernel_;
  std::vector<Window> windows_;  ///< One for each tensor of each buffer that is not shared.
  IdMap<kir::BufferId, size_t> first_window_;
  IdMap<kir::BufferId, BufferTraffic> traffic_;
  FindingLog* log_;
  const DeviceOrder* order_ = nullptr;
};

/// Threads a launch may have for races to be followed.
inline constexpr int64_t kMaxFollowedThreads = 0xffff'fffdLL;

}  // namespace sinter::interpreter
