#include "runtime/interpreter/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace sinter::interpreter {
namespace {

/// What memory holds before anything is written: NaN in every float type.
constexpr std::byte kUnwritten{0xff};

/// The largest unit that no access splits.
int64_t granule_of(const kir::Kernel& kernel) {
  int64_t granule = 0;
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.space != kir::Space::kShared) continue;
    granule = std::gcd(granule, std::gcd(buffer.offset, bytes_of(buffer.type)));
  }
  return std::max<int64_t>(granule, 1);
}

template <class Visit>
void for_each_lane(uint32_t mask, Visit visit) {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (((mask >> lane) & 1U) != 0) visit(lane);
  }
}

}  // namespace

SharedMemory::SharedMemory(const kir::Kernel& kernel, bool check_races, const HappensBefore* order,
                           FindingLog* log)
    : block_threads_(kernel.threads),
      order_(order),
      log_(log),
      bytes_(static_cast<size_t>(kir::shared_bytes(kernel)), kUnwritten),
      granule_bytes_(granule_of(kernel)) {
  if (check_races) cells_.resize(bytes_.size() / static_cast<size_t>(granule_bytes_) + 1);
}

void SharedMemory::start_block() {
  std::ranges::fill(bytes_, kUnwritten);
  products_.clear();
  products_of_.clear();
}

uint32_t SharedMemory::locate_in_block(const Access& access, LaneAddresses* addresses) {
  const kir::Buffer& buffer = *access.declaration;
  const Extent extent{0, buffer.count * access.element_bytes, buffer.offset % 16};
  const uint32_t mask = locate(access, extent, addresses, log_);
  for (int64_t& address : *addresses) address += buffer.offset;
  conflicts_ += bank_conflicts(*addresses, mask, access.bytes);
  return mask;
}

uint32_t SharedMemory::read(const Access& access, LaneAddresses* addresses) {
  const uint32_t mask = read_for_others(access, addresses);
  if (cells_.empty()) return mask;
  for_each_lane(mask,
                [&](size_t lane) { read_by(static_cast<int>(lane), access, (*addresses)[lane]); });
  return mask;
}

uint32_t SharedMemory::read_for_others(const Access& access, LaneAddresses* addresses) {
  const uint32_t mask = locate_in_block(access, addresses);
  bytes_read_ += access.bytes * std::popcount(mask);
  return mask;
}

void SharedMemory::read_by(int lane, const Access& access, int64_t address) {
  if (!cells_.empty()) follow_read(access, address, access.site.first_actor + lane);
}

uint32_t SharedMemory::write(const Access& access, LaneAddresses* addresses) {
  const uint32_t mask = locate_in_block(access, addresses);
  bytes_written_ += access.bytes * std::popcount(mask);
  if (cells_.empty()) return mask;
  for_each_lane(mask, [&](size_t lane) {
    follow_write(access, (*addresses)[lane], access.site.first_actor + static_cast<int64_t>(lane));
  });
  return mask;
}

uint32_t SharedMemory::copy_to(const Access& access, LaneAddresses* addresses) {
  const uint32_t mask = write(access, addresses);
  if (cells_.empty()) return mask;
  for_each_lane(mask, [&](size_t lane) {
    const int64_t thread = access.site.first_actor + static_cast<int64_t>(lane);
    for_each_cell((*addresses)[lane], access.bytes, [&](Cell& cell) {
      cell.copying = static_cast<uint32_t>(thread + 1);
      return true;
    });
  });
  return mask;
}

void SharedMemory::finish_copy(int64_t address, int64_t bytes, int64_t thread) {
  if (cells_.empty()) return;
  for_each_cell(address, bytes, [&](Cell& cell) {
    cell.copying = 0;
    note_writer(&cell, thread, order_->now(thread));
    return true;
  });
}

int64_t SharedMemory::start_bulk_copy(const Access& access, int64_t actor, Time time) {
  const auto target = locate_one(access);
  if (!target) return -1;
  const auto [address, thread] = *target;
  if (cells_.empty()) return address;
  bool is_reported = false;
  for_each_cell(address, access.bytes, [&](Cell& cell) {
    // A store and a bulk copy take different ways to memory, which barriers order after a fence
    // only (PTX ISA, "Async proxy"). Copies that threads wait for have become theirs.
    if (cell.write_time >= order_->first_time() && order_->is_thread(cell.writer) &&
        cell.copying == 0 && !order_->knows_fenced(thread, cell.writer, cell.write_time)) {
      report(access, address, thread, "copies in bulk to",
             {.kind = FindingKind::kSharedRace,
              .other = cell.writer,
              .problem = "has stored to it, which barriers do not order before a bulk copy "
                         "without a proxy fence"});
      is_reported = true;
    }
    return !is_reported;
  });
  if (!is_reported) follow_write(access, address, thread);
  pass_to(actor, time, address, access.bytes);
  return address;
}

uint32_t SharedMemory::start_product(int64_t first_actor) {
  if (!cells_.empty() && products_of_.empty())
    products_of_.resize(bytes_.size() / static_cast<size_t>(kChunk) + 1);
  products_.push_back({.first_actor = first_actor});
  return static_cast<uint32_t>(products_.size() - 1);
}

void SharedMemory::read_for_product(uint32_t product, const Access& access, int64_t address) {
  bytes_read_ += kChunk;
  if (cells_.empty()) return;
  bool is_reported = false;
  const auto found = [&](FindingKind kind, int64_t thread, int64_t other, const char* problem) {
    if (!is_reported) report(access, address, thread, "multiplies", {kind, other, problem});
    is_reported = true;
  };
  const Cell* known = nullptr;  // To be in order.
  for_each_cell(address, kChunk, [&](Cell& cell) {
    const int64_t first = access.site.first_actor;
    if (cell.copying != 0) {
      found(FindingKind::kAsyncPending, first, cell.copying - 1,
            "has not yet awaited its copy to it");
      return false;
    }
    if (cell.write_time < order_->first_time()) {
      found(FindingKind::kUnwrittenShared, first, -1, "no thread of the block has written it");
      return false;
    }
    if (known != nullptr && known->writer == cell.writer && known->write_time == cell.write_time)
      return true;
    known = &cell;
    const bool is_stored = order_->is_thread(cell.writer);
    for_each_lane(access.site.mask, [&](size_t lane) {
      const int64_t thread = first + static_cast<int64_t>(lane);
      if (!order_->knows(thread, cell.writer, cell.write_time)) {
        if (is_stored) {
          found(FindingKind::kSharedRace, thread, cell.writer,
                "writes it, with no barrier between");
        } else {
          found(FindingKind::kAsyncPending, thread, thread, "has not awaited the bulk copy to it");
        }
      } else if (is_stored && !order_->knows_fenced(thread, cell.writer, cell.write_time)) {
        found(
            FindingKind::kSharedRace, thread, cell.writer,
            "has stored to it, which barriers do not order before a product without a proxy fence");
      }
    });
    return !is_reported;
  });
  std::vector<uint32_t>& others = products_of_[static_cast<size_t>(address / kChunk)];
  const int64_t warp = products_[product].first_actor;
  const auto before = std::ranges::find_if(
      others, [&](uint32_t other) { return products_[other].first_actor == warp; });
  if (before == others.end()) {
    others.push_back(product);
  } else {
    *before = product;  // Products of a warp are awaited in their order.
  }
}

void SharedMemory::finish_product(uint32_t product) {
  Product& finished = products_[product];
  finished.is_awaited = true;
  for (size_t lane = 0; lane < kLanes; ++lane)
    finished.awaited[lane] = order_->now(finished.first_actor + static_cast<int64_t>(lane));
}

void SharedMemory::follow_products(const Access& access, int64_t address, int64_t thread) {
  if (products_of_.empty()) return;
  bool is_reported = false;
  for (int64_t chunk = address / kChunk; chunk * kChunk < address + access.bytes; ++chunk) {
    std::vector<uint32_t>& readers = products_of_[static_cast<size_t>(chunk)];
    for (const uint32_t reader : readers) {
      const Product& product = products_[reader];
      // All lanes of the warp await a product together.
      bool is_ordered = false;
      for (int64_t lane = 0; product.is_awaited && lane < kLanes && !is_ordered; ++lane) {
        is_ordered = order_->knows(thread, product.first_actor + lane,
                                   product.awaited[static_cast<size_t>(lane)]);
      }
      if (is_ordered || is_reported) continue;
      report(access, address, thread, "writes",
             {.kind = FindingKind::kProductPending,
              .other = product.first_actor,
              .problem = "multiplies it, and nothing orders its wait for the product before"});
      is_reported = true;
    }
    readers.clear();
  }
}

int64_t SharedMemory::start_cluster_store(const Access& access, int64_t actor, Time time) {
  const auto target = locate_one(access);
  if (!target) return -1;
  if (cells_.empty()) return target->address;
  follow_write(access, target->address, target->thread);
  pass_to(actor, time, target->address, access.bytes);
  return target->address;
}

std::optional<SharedMemory::Target> SharedMemory::locate_one(const Access& access) {
  const kir::Buffer& buffer = *access.declaration;
  const Extent extent{0, buffer.count * access.element_bytes, buffer.offset % 16};
  LaneAddresses addresses{};
  const uint32_t mask = locate(access, extent, &addresses, log_);
  if (mask == 0) return std::nullopt;
  const auto lane = static_cast<size_t>(std::countr_zero(mask));
  bytes_written_ += access.bytes;
  return Target{addresses[lane] + buffer.offset,
                access.site.first_actor + static_cast<int64_t>(lane)};
}

void SharedMemory::pass_to(int64_t actor, Time time, int64_t address, int64_t bytes) {
  for_each_cell(address, bytes, [&](Cell& cell) {
    note_writer(&cell, actor, time);
    return true;
  });
}

template <class Visit>
void SharedMemory::for_each_cell(int64_t address, int64_t bytes, Visit visit) {
  const int64_t end = (address + bytes) / granule_bytes_;
  for (int64_t i = address / granule_bytes_; i < end; ++i) {
    if (!visit(cells_[static_cast<size_t>(i)])) return;
  }
}

// One finding for each access of a thread is enough: the walk over its cells reports the first.

void SharedMemory::note_writer(Cell* cell, int64_t actor, Time time) {
  cell->write_time = time;
  cell->writer = static_cast<uint32_t>(actor);
  cell->read_time = 0;
}

void SharedMemory::note_reader(Cell* cell, uint32_t thread) {
  const Time now = order_->now(thread);
  const bool has_reader = cell->read_time >= order_->first_time();
  if (!has_reader ||
      (cell->reader != kSeveral && order_->knows(thread, cell->reader, cell->read_time))) {
    cell->reader = thread;
    cell->read_time = now;
    return;
  }
  if (cell->readers == 0) {
    readers_.emplace_back();
    cell->readers = static_cast<uint32_t>(readers_.size());
  }
  Readers& readers = readers_[cell->readers - 1];
  if (cell->reader != kSeveral) {
    const auto threads = static_cast<uint32_t>(block_threads_);
    readers.first = cell->reader / threads * threads;
    readers.times.assign(threads, 0);
    readers.times[cell->reader - readers.first] = cell->read_time;
    cell->reader = kSeveral;
  }
  if (thread < readers.first || thread - readers.first >= readers.times.size()) {
    // Blocks of a cluster read each other's memory: seldom, and then all threads take part.
    std::vector<Time> all(static_cast<size_t>(order_->threads()), 0);
    std::ranges::copy(readers.times, all.begin() + readers.first);
    readers = {.first = 0, .times = std::move(all)};
  }
  readers.times[thread - readers.first] = now;
}

int64_t SharedMemory::unordered_reader(const Cell& cell, int64_t thread) const {
  if (cell.read_time < order_->first_time()) return -1;
  if (cell.reader != kSeveral) {
    return order_->knows(thread, cell.reader, cell.read_time) ? int64_t{-1} : cell.reader;
  }
  const Readers& readers = readers_[cell.readers - 1];
  for (size_t i = 0; i < readers.times.size(); ++i) {
    const auto reader = static_cast<int64_t>(readers.first + i);
    if (!order_->knows(thread, reader, readers.times[i])) return reader;
  }
  return -1;
}

void SharedMemory::follow_read(const Access& access, int64_t address, int64_t thread) {
  bool is_reported = false;
  const auto found = [&](FindingKind kind, int64_t other, const char* problem) {
    if (!is_reported) report(access, address, thread, "reads", {kind, other, problem});
    is_reported = true;
  };
  for_each_cell(address, access.bytes, [&](Cell& cell) {
    if (cell.copying != 0) {
      found(FindingKind::kAsyncPending, cell.copying - 1, "has not yet awaited its copy to it");
    } else if (cell.write_time < order_->first_time()) {
      found(FindingKind::kUnwrittenShared, -1, "no thread of the block has written it");
    } else if (!order_->knows(thread, cell.writer, cell.write_time)) {
      if (order_->is_thread(cell.writer)) {
        found(FindingKind::kSharedRace, cell.writer, "writes it, with no barrier between");
      } else {
        found(FindingKind::kAsyncPending, thread, "has not awaited the bulk copy to it");
      }
    }
    note_reader(&cell, static_cast<uint32_t>(thread));
    return true;
  });
}

void SharedMemory::follow_write(const Access& access, int64_t address, int64_t thread) {
  follow_products(access, address, thread);
  bool is_reported = false;
  const auto found = [&](FindingKind kind, int64_t other, const char* problem) {
    if (!is_reported) report(access, address, thread, "writes", {kind, other, problem});
    is_reported = true;
  };
  for_each_cell(address, access.bytes, [&](Cell& cell) {
    const bool is_written = cell.write_time >= order_->first_time();
    if (cell.copying != 0) {
      found(FindingKind::kAsyncPending, cell.copying - 1, "has not yet awaited its copy to it");
    } else if (is_written && !order_->knows(thread, cell.writer, cell.write_time)) {
      if (order_->is_thread(cell.writer)) {
        found(FindingKind::kSharedRace, cell.writer, "writes it, with no barrier between");
      } else {
        found(FindingKind::kAsyncPending, thread, "has not awaited the bulk copy to it");
      }
    } else if (const int64_t reader = unordered_reader(cell, thread); reader >= 0) {
      found(FindingKind::kSharedRace, reader, "reads it, with no barrier between");
    }
    note_writer(&cell, thread, order_->now(thread));
    return true;
  });
}

std::string SharedMemory::name_of(int64_t actor, int64_t block) const {
  if (actor < 0) return "another thread";
  const int64_t other =
      block / (order_->threads() / block_threads_) * (order_->threads() / block_threads_) +
      actor / block_threads_;
  std::string name = fmt::format("thread {}", actor % block_threads_);
  return other == block ? name : name + fmt::format(" of block {}", other);
}

void SharedMemory::report(const Access& access, int64_t address, int64_t thread, const char* does,
                          const Conflict& conflict) {
  const kir::Buffer& buffer = *access.declaration;
  const int64_t index = (address - buffer.offset) / access.element_bytes;
  log_->add({.kind = conflict.kind,
             .stmt = access.site.stmt,
             .buffer = access.buffer,
             .index = index,
             .block = access.site.block,
             .thread = thread % block_threads_},
            [&] {
              std::string who;
              if (conflict.kind != FindingKind::kUnwrittenShared)
                who = name_of(conflict.other, access.site.block) + " ";
              return fmt::format("thread {} of block {} {} {}[{}], {}{}", thread % block_threads_,
                                 access.site.block, does, buffer.name, index, who,
                                 conflict.problem);
            });
}

}  // namespace sinter::interpreter
