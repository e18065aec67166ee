// How asynchronous copies, bulk copies and stores to other blocks of the cluster begin and land:
// the members of BlockExecutor that concern data in flight.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/interpreter/block_executor.h"

namespace sinter::interpreter {

void BlockExecutor::start_copy(Warp* warp, const Instruction& instruction) {
  LaneAddresses sources{};
  LaneAddresses targets{};
  Access source = access_of(warp, instruction, instruction.source_buffer, instruction.b);
  if (instruction.predicated) source.site.mask &= lanes_where(warp->at(instruction.c));
  const uint32_t zeroed = warp->mask & ~source.site.mask;
  const uint32_t readable = global_->copy_from(source, &sources);
  Access target = access_of(warp, instruction, instruction.buffer, instruction.a);
  target.site.mask = readable | zeroed;
  const uint32_t active = shared_[warp->rank].copy_to(target, &targets);
  const std::byte* memory = global_->origin(instruction.source_buffer);
  for (uint32_t lanes = active; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(lanes));
    PendingCopy& copy = warp->copies.emplace_back();
    copy.lane = static_cast<uint8_t>(lane);
    copy.bytes = static_cast<uint8_t>(target.bytes);
    copy.address = targets[lane];
    if (((readable >> lane) & 1U) != 0)
      std::memcpy(copy.data.data(), memory + sources[lane], copy.bytes);
  }
}

void BlockExecutor::commit_copies(Warp* warp) {
  for (uint32_t lanes = warp->mask; lanes != 0; lanes &= lanes - 1)
    ++warp->groups[static_cast<size_t>(std::countr_zero(lanes))];
  for (PendingCopy& copy : warp->copies) {
    const bool is_active = ((warp->mask >> copy.lane) & 1U) != 0;
    if (is_active && copy.group == 0) copy.group = warp->groups[copy.lane];
  }
}

void BlockExecutor::finish_copies(Warp* warp, int64_t pending) {
  std::erase_if(warp->copies, [&](const PendingCopy& copy) {
    if (((warp->mask >> copy.lane) & 1U) == 0) return false;
    const bool is_awaited =
        pending < 0 || (copy.group != 0 && copy.group <= warp->groups[copy.lane] - pending);
    if (!is_awaited) return false;
    SharedMemory& shared = shared_[warp->rank];
    std::memcpy(shared.data() + copy.address, copy.data.data(), copy.bytes);
    shared.finish_copy(copy.address, copy.bytes, warp->first_actor + copy.lane);
    return true;
  });
}

void BlockExecutor::start_bulk_copy(Warp* warp, const Instruction& instruction) {
  constexpr int64_t kUnit = 16;  // PTX ISA, "cp.async.bulk".
  for (uint32_t lanes = warp->mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    const int64_t thread = warp->first_thread + lane;
    const WarpSite site = site_of(*warp, instruction, 1U << lane);
    Mbarriers& mbarriers = mbarriers_[warp->rank];
    const int64_t number = mbarriers.find(site, lane, instruction.mbarrier,
                                          value_of<int64_t>(warp->at(instruction.result), lane));
    if (number < 0) continue;
    const int64_t elements = value_of<int64_t>(warp->at(instruction.c), lane);
    const auto most = static_cast<int64_t>(UINT32_MAX) / instruction.element_bytes;
    const int64_t bytes = std::clamp<int64_t>(elements, 0, most) * instruction.element_bytes;
    if (elements < 1 || elements > most || bytes % kUnit != 0) {
      log_->add({.kind = FindingKind::kMisaligned,
                 .stmt = instruction.stmt,
                 .buffer = instruction.buffer,
                 .block = site.block,
                 .thread = thread},
                [&] {
                  return fmt::format(
                      "thread {} of block {} copies {} elements of {} bytes in bulk, "
                      "which goes by multiples of {} bytes",
                      thread, site.block, elements, instruction.element_bytes, kUnit);
                });
      continue;
    }
    Access source = access_of(warp, instruction, instruction.source_buffer, instruction.b);
    Access target = access_of(warp, instruction, instruction.buffer, instruction.a);
    source.site = target.site = site;
    source.bytes = target.bytes = bytes;
    LaneAddresses from{};
    if (global_->copy_from(source, &from) == 0) continue;
    const uint32_t phase = mbarriers.start_copy(site, number);
    const int64_t to = shared_[warp->rank].start_bulk_copy(target, mbarriers.actor_of(number),
                                                           order_.time_of_phase(phase));
    if (to < 0) continue;
    transfers_.push_back(
        {.rank = warp->rank,
         .mbarrier = number,
         .phase = phase,
         .bytes = bytes,
         .to = to,
         .from = global_->origin(instruction.source_buffer) + from[static_cast<size_t>(lane)]});
  }
}

void BlockExecutor::store_in_cluster(Warp* warp, const Instruction& instruction) {
  for (uint32_t lanes = warp->mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    const WarpSite site = site_of(*warp, instruction, 1U << lane);
    const int64_t rank = value_of<int32_t>(warp->at(instruction.b), lane);
    if (rank < 0 || rank >= kernel_.cluster) {
      log_->add({.kind = FindingKind::kSharedOutOfBounds,
                 .stmt = instruction.stmt,
                 .buffer = instruction.buffer,
                 .block = site.block,
                 .thread = site.first_thread + lane},
                [&] {
                  return fmt::format("thread {} of block {} stores to block {} of a cluster of {}",
                                     site.first_thread + lane, site.block, rank, kernel_.cluster);
                });
      continue;
    }
    const auto to_rank = static_cast<size_t>(rank);
    Mbarriers& mbarriers = mbarriers_[to_rank];
    const int64_t number = mbarriers.find(site, lane, instruction.mbarrier,
                                          value_of<int64_t>(warp->at(instruction.result), lane));
    if (number < 0) continue;
    Access target = access_of(warp, instruction, instruction.buffer, instruction.a);
    target.site = site;
    const uint32_t phase = mbarriers.start_copy(site, number);
    const int64_t to = shared_[to_rank].start_cluster_store(target, mbarriers.actor_of(number),
                                                            order_.time_of_phase(phase));
    if (to < 0) continue;
    mbarriers.collect(number, site.first_actor + lane);
    Transfer& transfer = transfers_.emplace_back();
    transfer.rank = to_rank;
    transfer.mbarrier = number;
    transfer.phase = phase;
    transfer.bytes = target.bytes;
    transfer.to = to;
    const auto size = static_cast<size_t>(target.bytes);
    std::memcpy(transfer.value.data(), warp->at(instruction.c) + static_cast<size_t>(lane) * size,
                size);
  }
}

void BlockExecutor::land(size_t transfer) {
  const Transfer landed = transfers_[transfer];
  transfers_[transfer] = transfers_.back();
  transfers_.pop_back();
  const std::byte* from = landed.from != nullptr ? landed.from : landed.value.data();
  std::memcpy(shared_[landed.rank].data() + landed.to, from, static_cast<size_t>(landed.bytes));
  const WarpSite site{.block = block_ + static_cast<int64_t>(landed.rank)};
  if (mbarriers_[landed.rank].land(site, landed.mbarrier, landed.phase, landed.bytes))
    wake(State::kAtMbarrier);
}

}  // namespace sinter::interpreter
