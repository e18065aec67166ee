// Messages between the blocks of a team: the members of BlockExecutor that concern them.

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "runtime/interpreter/block_executor.h"

namespace sinter::interpreter {
namespace {

/// What a place holds.
struct Message {
  uint32_t value = 0;
  int32_t number = 0;
};
static_assert(sizeof(Message) == kir::kMessagePlaceBytes);

Message message_at(const std::byte* memory) {
  Message out;
  std::memcpy(&out, memory, sizeof out);
  return out;
}

}  // namespace

BlockExecutor::MessagePlaces BlockExecutor::message_places(Warp* warp,
                                                           const Instruction& instruction,
                                                           bool own) {
  MessagePlaces out;
  std::array<int64_t, kLanes> elements{};
  for (uint32_t lanes = warp->mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    const int64_t rank =
        own ? static_cast<int64_t>(warp->rank) : value_of<int32_t>(warp->at(instruction.a), lane);
    const int64_t place = value_of<int32_t>(warp->at(instruction.b), lane) + instruction.width;
    if (rank < 0 || rank >= kernel_.team || place < 0 || place >= kernel_.message_places) {
      log_->add({.kind = FindingKind::kGlobalOutOfBounds,
                 .stmt = instruction.stmt,
                 .buffer = instruction.buffer,
                 .block = block_of(*warp),
                 .thread = warp->first_thread + lane},
                [&] {
                  return fmt::format("place {} of block {}, where {} blocks have {} places", place,
                                     rank, kernel_.team, kernel_.message_places);
                });
      continue;
    }
    if (instruction.predicated && instruction.width == 0 && place % 2 != 0) {
      log_->add({.kind = FindingKind::kMisaligned,
                 .stmt = instruction.stmt,
                 .buffer = instruction.buffer,
                 .block = block_of(*warp),
                 .thread = warp->first_thread + lane},
                [&] { return fmt::format("several values of a message from place {} on", place); });
    }
    const auto l = static_cast<size_t>(lane);
    out.number[l] = static_cast<size_t>(rank * kernel_.message_places + place);
    const int64_t of_place = kir::kMessagePlaceBytes / bytes_of(DType::kI32);
    elements[l] = ((block_ + rank) * kernel_.message_places + place) * of_place;
    out.lanes |= 1U << lane;
  }
  std::memcpy(warp->at(program_.scratch), elements.data(), sizeof elements);
  Instruction located = instruction;
  located.width = kir::kMessagePlaceBytes / static_cast<int32_t>(bytes_of(DType::kI32));
  Access access = access_of(warp, located, instruction.buffer, program_.scratch);
  access.site.mask = out.lanes;
  LaneAddresses addresses{};
  out.lanes = global_->find(access, &addresses);
  std::byte* memory = global_->origin(instruction.buffer);
  for (size_t lane = 0; lane < kLanes; ++lane) out.memory[lane] = memory + addresses[lane];
  access.site.mask = out.lanes;
  out.access = access;
  return out;
}

void BlockExecutor::count_messages(const MessagePlaces& places) {
  LaneAddresses addresses{};
  global_->count(places.access, &addresses);
}

void BlockExecutor::send_message(Warp* warp, const Instruction& instruction) {
  const MessagePlaces places = message_places(warp, instruction, false);
  count_messages(places);
  mail_ = instruction.buffer;
  for (uint32_t lanes = places.lanes; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    const auto l = static_cast<size_t>(lane);
    Message message;
    std::memcpy(&message.value, warp->at(instruction.d) + l * sizeof message.value,
                sizeof message.value);
    message.number = value_of<int32_t>(warp->at(instruction.c), lane);
    uint8_t& unread = unread_[places.number[l]];
    if (unread != 0) {
      log_->add({.kind = FindingKind::kMessageLost,
                 .stmt = instruction.stmt,
                 .buffer = instruction.buffer,
                 .block = block_of(*warp),
                 .thread = warp->first_thread + lane},
                [&] {
                  return fmt::format("message {} replaces message {}, which nobody has taken",
                                     message.number, message_at(places.memory[l]).number);
                });
    }
    unread = message.number == 0 ? 0 : 1;
    if (message.number == 0) message.value = 0;
    std::memcpy(places.memory[l], &message, sizeof message);
  }
  wake(State::kAtMessage);
}

bool BlockExecutor::take_message(Warp* warp, const Instruction& instruction) {
  const MessagePlaces places = message_places(warp, instruction, true);
  for (uint32_t lanes = places.lanes; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    const auto number = value_of<int32_t>(warp->at(instruction.c), lane);
    if (message_at(places.memory[static_cast<size_t>(lane)]).number != number) return false;
  }
  count_messages(places);
  for (uint32_t lanes = places.lanes; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<size_t>(std::countr_zero(lanes));
    const Message message = message_at(places.memory[l]);
    std::memcpy(warp->at(instruction.result) + l * sizeof message.value, &message.value,
                sizeof message.value);
    unread_[places.number[l]] = 0;
  }
  return true;
}

void BlockExecutor::check_messages() {
  if (!mail_.valid()) return;
  const std::byte* memory =
      global_->origin(mail_) + block_ * kernel_.message_places * kir::kMessagePlaceBytes;
  for (size_t number = 0; number < unread_.size(); ++number) {
    const Message message = message_at(memory + number * sizeof(Message));
    if (message.number == 0) continue;
    const auto place = static_cast<int64_t>(number);
    log_->add({.kind = FindingKind::kMessageLost,
               .buffer = mail_,
               .block = block_ + place / kernel_.message_places},
              [&] {
                return fmt::format("place {} holds message {} when the team has ended",
                                   place % kernel_.message_places, message.number);
              });
  }
  mail_ = {};
}

}  // namespace sinter::interpreter
