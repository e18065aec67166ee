#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/driver/device_buffer.h"

namespace sinter {

/// Memory that holds 0 whenever no launch that uses it runs: counters by which the blocks of a
/// launch find out which of them is the last (`finish last_block`), and places for their messages
/// (`exchange messages`). It is zeroed once, before create() returns. The block that counts the
/// last one sets a counter back, and a block clears its places when it has taken all messages.
///
/// So no two launches that may run at once may share such memory. That of an executable therefore
/// belongs to workspaces: its executions that may run at once, on two streams, from two threads or
/// by the replay of a captured graph, have workspaces of their own, because each overwrites its own
/// with partial results. Streams would not do: a graph is captured on one and replayed on another,
/// and a handle comes back after its stream is gone. Nor would a number that each launch gets: all
/// replays of a graph have the same one.
///
/// - The same graph replayed: replays of one executable graph follow each other, and others that
///   were captured with the same workspace must, for the workspace's sake.
/// - A launch that the driver refuses has counted nothing. A kernel that faults takes its context
///   with it, and this memory.
/// - Another executable has memory of its own, and takes it with it when it goes; then none of
///   its launches is pending, nor a graph of them to be replayed, as for its modules.
/// - Workspaces are never forgotten, since a graph may be replayed at any time. A caller who brings
///   more of them than there is memory for gets none for the rest: those executions zero memory
///   that lies in the workspace before they launch, which is always right, and costs what it saved.
class ZeroedMemory {
 public:
  /// Most workspaces that get memory, and most bytes of all together, but for one workspace: the
  /// messages of four workspaces, where teams of four exchange a float for each row (1 MiB).
  static constexpr size_t kWorkspaces = 64;
  static constexpr uint64_t kMostBytes = uint64_t{4} << 20;

  /// `bytes` for each workspace. Waits until they are zero. Errors: DeviceError,
  /// ResourceExhausted.
  static Result<ZeroedMemory> create(DeviceDriver& driver, int64_t bytes);

  /// The memory of a workspace, which is not 0; 0: all belong to others. Locks nothing; for any
  /// number of threads at once.
  [[nodiscard]] DevicePointer of(DevicePointer workspace) const;

 private:
  using Owners = std::unique_ptr<std::atomic<DevicePointer>[]>;
  ZeroedMemory(DeviceBuffer memory, uint64_t stride)
      : memory_(std::move(memory)),
        stride_(stride),
        workspaces_(memory_.bytes() / stride),
        owners_(std::make_unique<std::atomic<DevicePointer>[]>(workspaces_)) {}

  DeviceBuffer memory_;
  uint64_t stride_;  ///< Bytes from one workspace's part to the next one's.
  size_t workspaces_;
  Owners owners_;  ///< 0: nobody's yet. Never given back.
};

}  // namespace sinter
