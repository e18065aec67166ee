#include "runtime/execute/zeroed_memory.h"

#include <algorithm>

#include "runtime/driver/captured_launch.h"

namespace sinter {
namespace {

/// A line of L2, so that blocks of different launches do not queue for one.
constexpr uint64_t kLineBytes = 128;
constexpr std::string_view kDoing = "zeroing what blocks count and exchange";

}  // namespace

Result<ZeroedMemory> ZeroedMemory::create(DeviceDriver& driver, int64_t bytes) {
  const uint64_t stride = (static_cast<uint64_t>(bytes) + kLineBytes - 1) / kLineBytes * kLineBytes;
  const uint64_t workspaces = std::clamp<uint64_t>(kMostBytes / stride, 1, kWorkspaces);
  auto memory = DeviceBuffer::allocate(driver, stride * workspaces);
  if (!memory) return fail(memory.error());
  // A stream of its own: the legacy one orders nothing for streams that do not wait for it, and to
  // wait for the whole context would fail while another thread captures.
  auto stream = OwnStream::create(driver, kDoing);
  if (!stream) return fail(stream.error());
  auto filled =
      check(driver, DriverCall::kFillAsync,
            driver.fill_async(memory->pointer(), 0, memory->bytes(), stream->handle()), kDoing);
  if (!filled) return fail(filled.error());
  auto done = check(driver, DriverCall::kStreamSynchronize,
                    driver.stream_synchronize(stream->handle()), kDoing);
  if (!done) return fail(done.error());
  return ZeroedMemory(std::move(*memory), stride);
}

DevicePointer ZeroedMemory::of(DevicePointer workspace) const {
  // Workspaces are multiples of 256; consecutive ones should not meet.
  constexpr int kUnitBits = 8;
  const auto start = static_cast<size_t>(workspace >> kUnitBits);
  for (size_t probe = 0; probe < workspaces_; ++probe) {
    const size_t i = (start + probe) % workspaces_;
    // Whose memory this is is all that is told: it was zeroed before there was a table.
    DevicePointer owner = owners_[i].load(std::memory_order_relaxed);
    if (owner == 0 &&
        owners_[i].compare_exchange_strong(owner, workspace, std::memory_order_relaxed))
      owner = workspace;
    if (owner == workspace) return memory_.pointer() + i * stride_;
  }
  return 0;
}

}  // namespace sinter
