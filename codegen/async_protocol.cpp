#include "codegen/async_protocol.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "codegen/protocol_run.h"
#include "fusion_ir/result.h"

namespace sinter {
namespace {

/// Largest number of arrivals of a phase, and of bytes it may wait for (PTX ISA, "mbarrier": 2^20 -
/// 1).
constexpr int64_t kMbarrierLimit = (int64_t{1} << 20) - 1;
/// Bulk copies move whole units of this many bytes (PTX ISA, "cp.async.bulk").
constexpr int64_t kCopyUnitBytes = 16;
/// 1024 threads of a block.
constexpr int64_t kMaxWarps = 32;
/// Keeps the proof short; rings and numbers of groups in use stay far below.
constexpr int64_t kMaxProvedItems = 4096;

int64_t items_to_prove(const AsyncProtocol& protocol) {
  int64_t period = 2 * protocol.stages;
  int64_t offset = 0;
  for (const ProtocolRole& role : protocol.roles) {
    period = std::min(std::lcm(period, role.step), kMaxProvedItems + 1);
    for (const ProtocolAction& action : role.actions)
      offset = std::max(offset, std::abs(action.item_offset));
  }
  return period + 3 * protocol.stages + offset;
}

/// The first number that is out of range.
std::optional<std::string> malformation(const AsyncProtocol& protocol) {
  const auto outside = [](std::string_view what, int64_t value, int64_t low, int64_t high) {
    return value < low || value > high
               ? std::optional(fmt::format("{} is {}, not from {} to {}", what, value, low, high))
               : std::nullopt;
  };
  std::optional<std::string> wrong;
  const auto check = [&](auto... arguments) {
    if (!wrong) wrong = outside(arguments...);
  };
  check("the number of stages", protocol.stages, 1, kMaxProvedItems);
  check("the number of arrivals at full", protocol.full_arrivals, 1, kMbarrierLimit);
  check("the number of arrivals at empty", protocol.empty_arrivals, 1, kMbarrierLimit);
  int64_t warps = 0;
  for (const ProtocolRole& role : protocol.roles) {
    check("the first item of " + role.name, role.first, 0, kMaxProvedItems);
    check("the step of " + role.name, role.step, 1, kMaxProvedItems);
    check("the number of warps of " + role.name, role.warps, 1, kMaxWarps);
    warps += role.warps;
    int64_t expected = 0;
    for (const ProtocolAction& action : role.actions) {
      check("an item offset of " + role.name, action.item_offset, -kMaxProvedItems,
            kMaxProvedItems);
      if (action.verb != ProtocolVerb::kExpect && action.verb != ProtocolVerb::kCopy) continue;
      check("a number of bytes of " + role.name, action.bytes, kCopyUnitBytes, kMbarrierLimit);
      if (!wrong && action.bytes % kCopyUnitBytes != 0) {
        wrong = fmt::format("a number of bytes of {} is {}, not a multiple of {}", role.name,
                            action.bytes, kCopyUnitBytes);
      }
      if (action.verb == ProtocolVerb::kExpect) expected += action.bytes;
    }
    check("the number of bytes that a phase waits for", expected, 0, kMbarrierLimit);
  }
  check("the number of warps", warps, 1, kMaxWarps);
  if (!wrong) check("the number of items to prove", items_to_prove(protocol), 1, kMaxProvedItems);
  return wrong;
}

}  // namespace

AsyncProtocol ring_protocol(int64_t stages, int groups, int warps_per_group,
                            const std::vector<int64_t>& copies, SlotRelease release) {
  using enum ProtocolVerb;
  using enum RingBarrier;
  AsyncProtocol out{.stages = stages, .empty_arrivals = warps_per_group};
  ProtocolRole producer{.name = "producer"};
  producer.actions = {
      {.verb = kWait, .barrier = kEmpty, .other_parity = true},
      {.verb = kExpect, .bytes = std::accumulate(copies.begin(), copies.end(), int64_t{0})}};
  for (const int64_t bytes : copies) producer.actions.push_back({.verb = kCopy, .bytes = bytes});
  out.roles.push_back(std::move(producer));
  const ProtocolAction wait = {.verb = kWait, .barrier = kFull};
  const ProtocolAction read = {.verb = kRead};
  const ProtocolAction free = {.verb = kArrive, .barrier = kEmpty};
  const ProtocolAction meet = {.verb = kMeet};
  for (int group = 0; group < groups; ++group) {
    ProtocolRole role{.name = fmt::format("group {}", group),
                      .first = group,
                      .step = groups,
                      .warps = warps_per_group};
    switch (release) {
      case SlotRelease::kEarly:
        role.actions = {wait, read, free, meet};
        break;
      case SlotRelease::kLate:
        role.actions = {wait, read, meet, read, free};
        break;
    }
    out.roles.push_back(std::move(role));
  }
  return out;
}

std::string_view name_of(ProtocolFaultKind kind) {
  switch (kind) {
    case ProtocolFaultKind::kMalformed:
      return "malformed table";
    case ProtocolFaultKind::kDeadlock:
      return "deadlock";
    case ProtocolFaultKind::kOverwrite:
      return "overwrite of an unread slot";
    case ProtocolFaultKind::kUnfilledRead:
      return "read of an unfilled slot";
    case ProtocolFaultKind::kHalfFilledRead:
      return "read of a half-filled slot";
    case ProtocolFaultKind::kArrivalOverflow:
      return "arrival overflow";
    case ProtocolFaultKind::kWrongParity:
      return "wrong parity";
    case ProtocolFaultKind::kLeftover:
      return "leftover at exit";
  }
  unreachable();
}

std::string ProtocolFault::text() const {
  std::string out = fmt::format("{} with {} items: {}\n", name_of(kind), items, message);
  for (size_t i = 0; i < interleaving.size(); ++i)
    out += fmt::format("  {:>3}. {}\n", i + 1, interleaving[i]);
  for (const std::string& state : states) out += fmt::format("  {}\n", state);
  return out;
}

Error ProtocolFault::error() const {
  return {.kind = ErrorKind::kInternalError,
          .message = fmt::format("the asynchronous protocol of the kernel is broken: {}: {}",
                                 name_of(kind), message),
          .remedy = "choose a schedule of another kind",
          .measured = items,
          .log = text()};
}

int64_t proved_items(const AsyncProtocol& protocol) {
  return malformation(protocol) ? 0 : items_to_prove(protocol);
}

std::optional<ProtocolFault> prove(const AsyncProtocol& protocol) {
  if (auto wrong = malformation(protocol))
    return ProtocolFault{.kind = ProtocolFaultKind::kMalformed, .message = *wrong};
  const int64_t last = items_to_prove(protocol);
  for (int64_t items = 0; items <= last; ++items) {
    if (run_protocol(protocol, items, /*explain=*/false))
      return run_protocol(protocol, items, /*explain=*/true);
  }
  return std::nullopt;
}

}  // namespace sinter
