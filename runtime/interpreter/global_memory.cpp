#include "runtime/interpreter/global_memory.h"

#include <fmt/format.h>

#include <bit>

namespace sinter::interpreter {
namespace {

/// Position of an address in a shadow that starts at the window's lowest whole element.
size_t cell_of(const Extent& extent, int64_t address, int64_t element_bytes) {
  return static_cast<size_t>(address / element_bytes - extent.low / element_bytes);
}

}  // namespace

GlobalMemory::GlobalMemory(const kir::Kernel& kernel, std::span<const LaunchMemory> memory,
                           bool check_races, FindingLog* log)
    : kernel_(kernel), traffic_(kernel.buffers.size()), log_(log) {
  for (uint32_t i = 0; i < kernel.buffers.size(); ++i) {
    const kir::Buffer& buffer = kernel.buffers[kir::BufferId{i}];
    first_window_[kir::BufferId{i}] = windows_.size();
    if (buffer.space == kir::Space::kShared) continue;
    const int64_t held = tensors(kir::BufferId{i});
    for (int64_t k = 0; k < held; ++k) {
      windows_.push_back(window_on(buffer, memory[windows_.size()], check_races));
    }
  }
}

GlobalMemory::Window GlobalMemory::window_on(const kir::Buffer& buffer, const LaunchMemory& memory,
                                             bool check_races) {
  const auto size = static_cast<int64_t>(memory.bytes.size());
  Window window;
  window.origin = memory.bytes.data() + memory.origin;
  // An odd multiple of the promised alignment is the worst address that keeps the promise.
  window.extent = {-memory.origin, size - memory.origin, buffer.alignment % 16};
  if (!check_races || buffer.access == kir::Access::kRead) return window;
  const auto elements = static_cast<size_t>(size / bytes_of(buffer.type) + 1);
  window.shadow.writer.assign(elements, kNobody);
  window.shadow.written_at.assign(elements, 0);
  if (buffer.access != kir::Access::kReadWrite) return window;
  window.shadow.reader.assign(elements, kNobody);
  window.shadow.read_at.assign(elements, 0);
  return window;
}

int64_t GlobalMemory::tensors(kir::BufferId buffer) const {
  const kir::Buffer& declared = kernel_.buffers[buffer];
  return declared.is_table() ? static_cast<int64_t>(declared.values.size()) : 1;
}

uint32_t GlobalMemory::locate_and_count(const Access& access, LaneAddresses* addresses,
                                        int64_t* sectors, int64_t* bytes) {
  const uint32_t mask = locate(access, windows_[window_of(access)].extent, addresses, log_);
  *sectors += sectors_touched(*addresses, mask, access.bytes);
  *bytes += access.bytes * std::popcount(mask);
  return mask;
}

uint32_t GlobalMemory::read(const Access& access, LaneAddresses* addresses) {
  // Arguments are no traffic.
  if (access.declaration->space == kir::Space::kArgument)
    return locate(access, windows_[window_of(access)].extent, addresses, log_);
  BufferTraffic& traffic = traffic_[access.buffer];
  const uint32_t mask =
      locate_and_count(access, addresses, &traffic.load_sectors, &traffic.bytes_read);
  follow_read(access, *addresses, mask);
  return mask;
}

uint32_t GlobalMemory::copy_from(const Access& access, LaneAddresses* addresses) {
  BufferTraffic& traffic = traffic_[access.buffer];
  const uint32_t mask =
      locate_and_count(access, addresses, &traffic.async_sectors, &traffic.bytes_read);
  // Who overwrites what is copied has waited for the copy, or shared memory tells: it reads there
  // what it makes the new elements of.
  follow_read(access, *addresses, mask, Later::kForget);
  return mask;
}

uint32_t GlobalMemory::write(const Access& access, LaneAddresses* addresses) {
  BufferTraffic& traffic = traffic_[access.buffer];
  const uint32_t mask =
      locate_and_count(access, addresses, &traffic.store_sectors, &traffic.bytes_written);
  follow_write(access, *addresses, mask);
  return mask;
}

uint32_t GlobalMemory::find(const Access& access, LaneAddresses* addresses) {
  int64_t sectors = 0;
  int64_t bytes = 0;
  return locate_and_count(access, addresses, &sectors, &bytes);
}

uint32_t GlobalMemory::count(const Access& access, LaneAddresses* addresses) {
  BufferTraffic& traffic = traffic_[access.buffer];
  const uint32_t mask =
      locate_and_count(access, addresses, &traffic.load_sectors, &traffic.bytes_read);
  traffic.bytes_written += access.bytes * std::popcount(mask);
  traffic.store_sectors += sectors_touched(*addresses, mask, access.bytes);
  return mask;
}

bool GlobalMemory::is_race(ThreadNumber thread, ThreadNumber other, DeviceOrder::Time time) const {
  if (other == kNobody || other == thread) return false;
  if (other == kSeveral || order_ == nullptr) return true;
  const int64_t threads = order_->threads();
  const int64_t number = static_cast<int64_t>(other) - 1;
  const int64_t actor = (static_cast<int64_t>(thread) - 1) % threads;
  return !order_->knows(actor, number / threads, number % threads, time);
}

DeviceOrder::Time GlobalMemory::now(ThreadNumber thread) const {
  if (order_ == nullptr) return 0;
  return order_->now((static_cast<int64_t>(thread) - 1) % order_->threads());
}

void GlobalMemory::follow_read(const Access& access, const LaneAddresses& addresses, uint32_t mask,
                               Later later) {
  Window& window = windows_[window_of(access)];
  if (window.shadow.reader.empty()) return;
  const int64_t first_number = access.site.block * kernel_.threads + access.site.first_thread + 1;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (((mask >> lane) & 1U) == 0) continue;
    const auto thread = static_cast<ThreadNumber>(first_number + static_cast<int64_t>(lane));
    const size_t first = cell_of(window.extent, addresses[lane], access.element_bytes);
    const size_t count = static_cast<size_t>(access.bytes / access.element_bytes);
    for (size_t cell = first; cell < first + count; ++cell) {
      const ThreadNumber writer = window.shadow.writer[cell];
      if (is_race(thread, writer, window.shadow.written_at[cell])) {
        report_race(access.buffer, access.site.stmt,
                    addresses[lane] / access.element_bytes + static_cast<int64_t>(cell - first),
                    {thread, "reads"}, {writer, "writes"});
      }
      if (later == Later::kForget) continue;
      ThreadNumber& reader = window.shadow.reader[cell];
      DeviceOrder::Time& read_at = window.shadow.read_at[cell];
      reader = is_race(thread, reader, read_at) ? kSeveral : thread;
      read_at = now(thread);
    }
  }
}

void GlobalMemory::follow_write(const Access& access, const LaneAddresses& addresses,
                                uint32_t mask) {
  Window& window = windows_[window_of(access)];
  if (window.shadow.writer.empty()) return;
  const int64_t first_number = access.site.block * kernel_.threads + access.site.first_thread + 1;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (((mask >> lane) & 1U) == 0) continue;
    const auto thread = static_cast<ThreadNumber>(first_number + static_cast<int64_t>(lane));
    const size_t first = cell_of(window.extent, addresses[lane], access.element_bytes);
    const size_t count = static_cast<size_t>(access.bytes / access.element_bytes);
    for (size_t cell = first; cell < first + count; ++cell) {
      const int64_t index =
          addresses[lane] / access.element_bytes + static_cast<int64_t>(cell - first);
      ThreadNumber& writer = window.shadow.writer[cell];
      DeviceOrder::Time& written_at = window.shadow.written_at[cell];
      if (is_race(thread, writer, written_at)) {
        report_race(access.buffer, access.site.stmt, index, {thread, "writes"}, {writer, "writes"});
      }
      writer = thread;
      written_at = now(thread);
      if (window.shadow.reader.empty()) continue;
      const ThreadNumber reader = window.shadow.reader[cell];
      if (is_race(thread, reader, window.shadow.read_at[cell])) {
        report_race(access.buffer, access.site.stmt, index, {thread, "writes"}, {reader, "reads"});
      }
    }
  }
}

std::string GlobalMemory::name_of(ThreadNumber thread) const {
  if (thread == kSeveral) return "another thread";
  const int64_t number = static_cast<int64_t>(thread) - 1;
  return fmt::format("thread {} of block {}", number % kernel_.threads, number / kernel_.threads);
}

void GlobalMemory::report_race(kir::BufferId buffer, kir::StmtId stmt, int64_t index,
                               const Side& one, const Side& other) {
  const int64_t number = static_cast<int64_t>(one.thread) - 1;
  const bool is_known = one.thread != kSeveral;
  log_->add({.kind = FindingKind::kGlobalRace,
             .stmt = stmt,
             .buffer = buffer,
             .index = index,
             .block = is_known ? number / kernel_.threads : -1,
             .thread = is_known ? number % kernel_.threads : -1},
            [&] {
              return fmt::format("{} {} {}[{}], which {} {}; nothing orders them",
                                 name_of(one.thread), one.does, kernel_.buffers[buffer].name, index,
                                 name_of(other.thread), other.does);
            });
}

void GlobalMemory::absorb(const GlobalMemory& other) {
  for (uint32_t i = 0; i < kernel_.buffers.size(); ++i) {
    const kir::BufferId id{i};
    BufferTraffic& sum = traffic_[id];
    const BufferTraffic& more = other.traffic_[id];
    sum.bytes_read += more.bytes_read;
    sum.bytes_written += more.bytes_written;
    sum.load_sectors += more.load_sectors;
    sum.store_sectors += more.store_sectors;
    sum.async_sectors += more.async_sectors;
    const size_t first = first_window_[id];
    const size_t end =
        i + 1 < kernel_.buffers.size() ? first_window_[kir::BufferId{i + 1}] : windows_.size();
    for (size_t window = first; window < end; ++window) absorb(id, window, other);
  }
}

void GlobalMemory::absorb(kir::BufferId id, size_t window, const GlobalMemory& other) {
  // The blocks of the two are different, so any two threads that meet here are too.
  Shadow& mine = windows_[window].shadow;
  const Shadow& theirs = other.windows_[window].shadow;
  const int64_t lowest = windows_[window].extent.low / bytes_of(kernel_.buffers[id].type);
  for (size_t cell = 0; cell < mine.writer.size(); ++cell) {
    const int64_t index = lowest + static_cast<int64_t>(cell);
    const ThreadNumber before = mine.writer[cell];
    const ThreadNumber after = theirs.writer[cell];
    if (before != kNobody && after != kNobody) {
      report_race(id, {}, index, {after, "writes"}, {before, "writes"});
    }
    if (after != kNobody) mine.writer[cell] = after;
    if (mine.reader.empty()) continue;
    ThreadNumber& reader = mine.reader[cell];
    const ThreadNumber later_reader = theirs.reader[cell];
    if (reader != kNobody && after != kNobody) {
      report_race(id, {}, index, {after, "writes"}, {reader, "reads"});
    }
    if (before != kNobody && later_reader != kNobody) {
      report_race(id, {}, index, {later_reader, "reads"}, {before, "writes"});
    }
    if (later_reader != kNobody) reader = reader == kNobody ? later_reader : kSeveral;
  }
}

}  // namespace sinter::interpreter
