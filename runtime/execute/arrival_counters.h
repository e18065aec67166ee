#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/driver/device_buffer.h"

namespace sinter {

/// Counters by which the blocks of a launch find out which of them is the last (`finish
/// last_block`). They hold 0 whenever no launch that uses them runs: they are zeroed once, before
/// create() returns, and the block that counts the last one sets them back.
///
/// So no two launches that may run at once may share counters. An executable's counters therefore
/// belong to workspaces: its executions that may run at once, on two streams, from two threads or
/// by the replay of a captured graph, have workspaces of their own, because each overwrites its own
/// with partial results. Streams would not do: a graph is captured on one and replayed on another,
/// and a handle comes back after its stream is gone. Nor would a number that each launch gets: all
/// replays of a graph have the same one.
///
/// - The same graph replayed: replays of one executable graph follow each other, and others that
///   were captured with the same workspace must, for the workspace's sake.
/// - A launch that the driver refuses has counted nothing. A kernel that faults takes its context
///   with it, and the counters.
/// - Another executable has counters of its own, and takes these with it when it goes; then none of
///   its launches is pending, nor a graph of them to be replayed, as for its modules.
/// - Workspaces are never forgotten, since a graph may be replayed at any time. A caller who brings
///   more of them than there are counters gets none for the rest: those executions zero counters
///   that lie in the workspace before they launch, which is always right, and costs what it saved.
class ArrivalCounters {
 public:
  /// Workspaces that get counters.
  static constexpr size_t kWorkspaces = 64;

  /// `bytes` of counters for each. Waits until they are zero. Errors: DeviceError,
  /// ResourceExhausted.
  static Result<ArrivalCounters> create(DeviceDriver& driver, int64_t bytes);

  /// The counters of a workspace, which is not 0; 0: all belong to others. Locks nothing; for any
  /// number of threads at once.
  [[nodiscard]] DevicePointer of(DevicePointer workspace) const;

 private:
  using Owners = std::unique_ptr<std::atomic<DevicePointer>[]>;
  ArrivalCounters(DeviceBuffer memory, uint64_t stride)
      : memory_(std::move(memory)),
        stride_(stride),
        owners_(std::make_unique<std::atomic<DevicePointer>[]>(kWorkspaces)) {}

  DeviceBuffer memory_;
  uint64_t stride_;  ///< Bytes from one workspace's counters to the next one's.
  Owners owners_;    ///< 0: nobody's yet. Never given back.
};

}  // namespace sinter
