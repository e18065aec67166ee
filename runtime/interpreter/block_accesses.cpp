// How the lanes of a warp load, store and count: the members of BlockExecutor that concern
// accesses. Bounds, alignment and races are checked where the memory is.

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "runtime/interpreter/block_executor.h"

namespace sinter::interpreter {

Access BlockExecutor::access_of(Warp* warp, const Instruction& instruction, kir::BufferId buffer,
                                int32_t index) const {
  return {.site = site_of(*warp, instruction, warp->mask),
          .buffer = buffer,
          .declaration = &kernel_.buffers[buffer],
          .index = warp->at(index),
          .element_bytes = instruction.element_bytes,
          .bytes = instruction.element_bytes * instruction.width};
}

void BlockExecutor::for_each_tensor(Warp* warp, const Instruction& instruction,
                                    const std::function<void(const Access&)>& run) {
  Access access = access_of(warp, instruction, instruction.buffer, instruction.a);
  const auto tensor_of = [&](int lane) { return value_of<int64_t>(warp->at(instruction.c), lane); };
  uint32_t left = access.site.mask;
  while (left != 0) {
    access.tensor = tensor_of(std::countr_zero(left));
    access.site.mask = 0;
    for (uint32_t lanes = left; lanes != 0; lanes &= lanes - 1) {
      const int lane = std::countr_zero(lanes);
      if (tensor_of(lane) == access.tensor) access.site.mask |= 1U << lane;
    }
    left &= ~access.site.mask;
    if (access.tensor >= 0 && access.tensor < global_->tensors(access.buffer)) {
      run(access);
    } else {
      report_tensor(access);
    }
  }
}

void BlockExecutor::report_tensor(const Access& access) {
  const int64_t thread = access.site.first_thread + std::countr_zero(access.site.mask);
  log_->add({.kind = FindingKind::kGlobalOutOfBounds,
             .stmt = access.site.stmt,
             .buffer = access.buffer,
             .index = access.tensor,
             .block = access.site.block,
             .thread = thread},
            [&] {
              return fmt::format("thread {} of block {} accesses tensor {} of {}, which has {}",
                                 thread, access.site.block, access.tensor, access.declaration->name,
                                 global_->tensors(access.buffer));
            });
}

void BlockExecutor::load(Warp* warp, const Instruction& instruction) {
  if (!instruction.of_table) {
    load(warp, instruction, access_of(warp, instruction, instruction.buffer, instruction.a));
    return;
  }
  clear(warp, instruction, warp->mask);  // For lanes that name no tensor.
  for_each_tensor(warp, instruction,
                  [&](const Access& access) { load(warp, instruction, access); });
}

void BlockExecutor::clear(Warp* warp, const Instruction& instruction, uint32_t lanes) {
  std::byte* registers = warp->at(instruction.result);
  for (; lanes != 0; lanes &= lanes - 1) {
    const size_t lane = static_cast<size_t>(std::countr_zero(lanes));
    for (size_t k = 0; k < static_cast<size_t>(instruction.width); ++k) {
      std::memset(registers + (k * kLanes + lane) * instruction.element_bytes, 0,
                  instruction.element_bytes);
    }
  }
}

void BlockExecutor::load(Warp* warp, const Instruction& instruction, const Access& access) {
  LaneAddresses addresses{};
  const bool shared = instruction.shared;
  const uint32_t inside =
      shared ? shared_[warp->rank].read(access, &addresses) : global_->read(access, &addresses);
  const std::byte* memory = shared ? shared_[warp->rank].data() : global_->origin(access);
  gather(warp->at(instruction.result), memory, addresses, inside, instruction.element_bytes,
         instruction.width);
  clear(warp, instruction, access.site.mask & ~inside);
}

void BlockExecutor::store(Warp* warp, const Instruction& instruction) {
  if (!instruction.of_table) {
    store(warp, instruction, access_of(warp, instruction, instruction.buffer, instruction.a));
    return;
  }
  for_each_tensor(warp, instruction,
                  [&](const Access& access) { store(warp, instruction, access); });
}

void BlockExecutor::store(Warp* warp, const Instruction& instruction, const Access& access) {
  LaneAddresses addresses{};
  const bool shared = instruction.shared;
  const uint32_t inside =
      shared ? shared_[warp->rank].write(access, &addresses) : global_->write(access, &addresses);
  std::byte* memory = shared ? shared_[warp->rank].data() : global_->origin(access);
  scatter(memory, warp->at(instruction.b), addresses, inside, instruction.element_bytes,
          instruction.width);
}

void BlockExecutor::count(Warp* warp, const Instruction& instruction) {
  const Access access = access_of(warp, instruction, instruction.buffer, instruction.a);
  LaneAddresses addresses{};
  const uint32_t inside = global_->count(access, &addresses);
  std::byte* memory = global_->origin(instruction.buffer);
  // Lanes come one after the other.
  for (uint32_t lanes = inside; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(lanes));
    std::byte* counter = memory + addresses[lane];
    int32_t before = 0;
    std::memcpy(&before, counter, sizeof before);
    const auto last = value_of<int32_t>(warp->at(instruction.b), static_cast<int>(lane));
    const int32_t after = before < last ? before + 1 : 0;
    std::memcpy(counter, &after, sizeof after);
    std::memcpy(warp->at(instruction.result) + lane * sizeof before, &before, sizeof before);
    if (limits_.check_races) {
      device_order_.count(warp->first_actor + static_cast<int64_t>(lane), instruction.buffer,
                          addresses[lane]);
    }
  }
}

}  // namespace sinter::interpreter
