// How asynchronous copies, bulk copies and stores to other blocks of the cluster begin and land:
// the members of BlockExecutor that concern data in flight.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "runtime/interpreter/block_executor.h"

namespace sinter::interpreter {
namespace {

/// Rounds f32 elements to TF32 as a tensor map does: to the nearest, of two equally near ones to
/// the even one.
void round_to_tf32(std::span<std::byte> elements) {
  constexpr uint32_t kLast = 0x2000U;  // The last bit that TF32 has.
  for (size_t at = 0; at < elements.size(); at += sizeof(float)) {
    uint32_t bits = 0;
    std::memcpy(&bits, elements.data() + at, sizeof bits);
    if (!std::isfinite(std::bit_cast<float>(bits))) continue;
    const uint32_t is_odd = (bits & kLast) != 0 ? 1 : 0;
    bits = (bits + kLast / 2 - 1 + is_odd) & ~(kLast - 1);
    std::memcpy(elements.data() + at, &bits, sizeof bits);
  }
}

}  // namespace

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

void BlockExecutor::start_tensor_copy(Warp* warp, const Instruction& instruction) {
  const auto& copy = std::get<kir::TensorCopy>(kernel_.stmts[instruction.stmt].kind);
  const kir::TensorMap& map = kernel_.tensor_maps[copy.map];
  const int64_t period = kir::swizzle_period(map.swizzle);
  for (uint32_t lanes = warp->mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    const int64_t thread = warp->first_thread + lane;
    const WarpSite site = site_of(*warp, instruction, 1U << lane);
    Mbarriers& mbarriers = mbarriers_[warp->rank];
    const int64_t number = mbarriers.find(site, lane, instruction.mbarrier,
                                          value_of<int64_t>(warp->at(instruction.result), lane));
    if (number < 0) continue;
    Access source = access_of(warp, instruction, instruction.source_buffer, instruction.b);
    Access target = access_of(warp, instruction, instruction.buffer, instruction.a);
    source.site = target.site = site;
    target.bytes = kir::box_elements(map) * instruction.element_bytes;
    const int64_t index = value_of<int64_t>(warp->at(instruction.a), lane);
    const int64_t behind = index % (period / instruction.element_bytes);
    if (behind != 0 || target.declaration->offset % period != 0) {
      log_->add({.kind = FindingKind::kMisaligned,
                 .stmt = instruction.stmt,
                 .buffer = instruction.buffer,
                 .index = index,
                 .block = site.block,
                 .thread = thread},
                [&] {
                  return fmt::format(
                      "thread {} of block {} copies a box of {} to {}[{}], which is not at a "
                      "multiple of {} bytes",
                      thread, site.block, map.name, target.declaration->name, index, period);
                });
      continue;
    }
    std::vector<int64_t> coordinates;
    for (size_t i = 0; i < map.axes.size(); ++i) {
      const std::byte* registers = warp->at(instruction.b) + i * kLanes * sizeof(int64_t);
      coordinates.push_back(value_of<int64_t>(registers, lane));
    }
    const uint32_t phase = mbarriers.start_copy(site, number);
    const int64_t to = shared_[warp->rank].start_bulk_copy(target, mbarriers.actor_of(number),
                                                           order_.time_of_phase(phase));
    if (to < 0) continue;
    Transfer& transfer = transfers_.emplace_back();
    transfer.rank = warp->rank;
    transfer.mbarrier = number;
    transfer.phase = phase;
    transfer.bytes = target.bytes;
    transfer.to = to;
    transfer.box = read_box(source, copy, coordinates);
  }
}

std::vector<std::byte> BlockExecutor::read_box(const Access& source, const kir::TensorCopy& copy,
                                               const std::vector<int64_t>& coordinates) {
  const kir::TensorMap& map = kernel_.tensor_maps[copy.map];
  const std::vector<int64_t>& sizes = map_sizes_[copy.map.index];
  const int64_t inner = map.axes[0].box;
  const int64_t first = std::max<int64_t>(coordinates[0], 0);
  const int64_t end = std::min(coordinates[0] + inner, sizes[0]);
  const auto lane = static_cast<size_t>(std::countr_zero(source.site.mask));
  Access row = source;
  row.any_alignment = true;
  row.bytes = (end - first) * source.element_bytes;
  std::vector<std::byte> box(static_cast<size_t>(kir::box_elements(map) * source.element_bytes));
  for (int64_t number = 0; number < kir::box_elements(map) / inner; ++number) {
    bool is_inside = first < end;
    // Sizes and strides that no memory holds must not overflow.
    auto from = static_cast<uint64_t>(map.offset + first);
    for (size_t axis = 1, left = static_cast<size_t>(number); axis < map.axes.size(); ++axis) {
      const auto width = static_cast<size_t>(map.axes[axis].box);
      const int64_t at = coordinates[axis] + static_cast<int64_t>(left % width);
      left /= width;
      is_inside = is_inside && at >= 0 && at < sizes[axis];
      from += static_cast<uint64_t>(at) * static_cast<uint64_t>(map.axes[axis].stride);
    }
    if (!is_inside) continue;
    std::array<int64_t, kLanes> indices{};
    indices[lane] = static_cast<int64_t>(from);
    row.index = reinterpret_cast<const std::byte*>(indices.data());
    LaneAddresses addresses{};
    if (global_->copy_from(row, &addresses) == 0) continue;
    const int64_t to = (number * inner + first - coordinates[0]) * source.element_bytes;
    std::memcpy(box.data() + to, global_->origin(row.buffer) + addresses[lane],
                static_cast<size_t>(row.bytes));
  }
  if (map.to_tf32) round_to_tf32(box);
  constexpr int64_t kChunk = 16;
  std::vector<std::byte> stored(box.size());
  for (int64_t at = 0; at < std::ssize(box); at += kChunk)
    std::memcpy(stored.data() + kir::swizzled(at, map.swizzle), box.data() + at, kChunk);
  return stored;
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
    const auto size = static_cast<size_t>(target.element_bytes);
    const std::byte* from = warp->at(instruction.c) + static_cast<size_t>(lane) * size;
    for (size_t i = 0; i < static_cast<size_t>(instruction.width); ++i)
      std::memcpy(transfer.value.data() + i * size, from + i * size * kLanes, size);
  }
}

void BlockExecutor::land(size_t transfer) {
  const Transfer landed = std::move(transfers_[transfer]);
  if (transfer + 1 < transfers_.size()) transfers_[transfer] = std::move(transfers_.back());
  transfers_.pop_back();
  const std::byte* from = landed.from != nullptr ? landed.from : landed.value.data();
  if (!landed.box.empty()) from = landed.box.data();
  std::memcpy(shared_[landed.rank].data() + landed.to, from, static_cast<size_t>(landed.bytes));
  const WarpSite site{.block = block_ + static_cast<int64_t>(landed.rank)};
  if (mbarriers_[landed.rank].land(site, landed.mbarrier, landed.phase, landed.bytes))
    wake(State::kAtMbarrier);
}

}  // namespace sinter::interpreter
