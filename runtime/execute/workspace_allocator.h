#pragma once

#include <cstdint>
#include <functional>

#include "runtime/driver/device_driver.h"

namespace sinter {

/// Where one execution gets its workspace from: an embedder's stream-ordered pool, say. Both are
/// called by the thread that executes, possibly by several at once, and are needed.
///
/// Of an execution that is captured, the memory must stay out of other hands for as long as the
/// graph may be replayed: release() must not hand it on then.
struct WorkspaceAllocator {
  /// Gives `bytes` > 0 of device memory for work that is enqueued on `stream` from here on; the
  /// address is a multiple of 256. An error, ResourceExhausted where there is not as much, ends the
  /// execution before anything is enqueued.
  std::function<Result<DevicePointer>(int64_t bytes, StreamHandle stream)> allocate;
  /// Takes back what allocate() gave. Work that was enqueued on `stream` may still use it: it is
  /// free for others behind that work. Must not throw.
  std::function<void(DevicePointer address, StreamHandle stream)> release;
};

}  // namespace sinter
