#include "codegen/protocol/async_protocol.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "codegen/protocol/protocol_run.h"
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
/// Limits the time of the proof; pipelines and numbers of groups in use stay far below.
constexpr int64_t kMaxProvedItems = 4096;
/// Limits the time of the proof: each row of an item adds as many runs as there are items.
constexpr int64_t kMaxItemRows = 16;

int64_t items_to_prove(const AsyncProtocol& protocol) {
  int64_t period = 2 * protocol.stages;
  int64_t offset = 0;
  const auto repeats = [&](int64_t step) {
    period = std::min(std::lcm(period, step), kMaxProvedItems + 1);
  };
  if (protocol.turns > 0) repeats(2 * protocol.turns * protocol.turn_items);
  for (const ProtocolRole& role : protocol.roles) {
    repeats(role.takes_turns ? role.step * protocol.turn_items : role.step);
    for (const auto* actions : {&role.actions, &role.short_actions}) {
      for (const ProtocolAction& action : *actions)
        offset = std::max(offset, std::abs(action.item_offset));
    }
  }
  return period + 3 * protocol.stages + offset + protocol.turn_items - 1;
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
  check("the number of rows of an item", protocol.item_rows, 1, kMaxItemRows);
  check("the number of arrivals at full", protocol.full_arrivals, 1, kMbarrierLimit);
  check("the number of arrivals at empty", protocol.empty_arrivals, 1, kMbarrierLimit);
  check("the number of arrivals at split", protocol.split_arrivals, 0, kMbarrierLimit);
  check("the number of roles that take turns", protocol.turns, 0, kMaxWarps);
  check("the number of items of a turn", protocol.turn_items, 1, kMaxProvedItems);
  check("the number of arrivals that pass a turn on", protocol.turn_arrivals, 1, kMbarrierLimit);
  if (!wrong && protocol.turn_items > 1 && protocol.item_rows > 1)
    wrong = "items of turns have several rows";
  int64_t warps = 0;
  for (const ProtocolRole& role : protocol.roles) {
    check("the first item of " + role.name, role.first, 0, kMaxProvedItems);
    check("the step of " + role.name, role.step, 1, kMaxProvedItems);
    check("the number of warps of " + role.name, role.warps, 1, kMaxWarps);
    check("the number of items past the end of " + role.name, role.drain, 0, kMaxProvedItems);
    warps += role.warps;
    for (const auto* actions : {&role.actions, &role.short_actions}) {
      int64_t expected = 0;
      for (const ProtocolAction& action : *actions) {
        if (!wrong && action.barrier == PipelineBarrier::kTurn && protocol.turns == 0)
          wrong = fmt::format("{} waits for a turn, and there are none", role.name);
        if (!wrong && action.barrier == PipelineBarrier::kSplit && protocol.split_arrivals == 0)
          wrong = fmt::format("{} waits for items that nobody rewrites", role.name);
        check("an item offset of " + role.name, action.item_offset, -kMaxProvedItems,
              kMaxProvedItems);
        check("a row of an item of " + role.name, action.row, 0, protocol.item_rows - 1);
        if (action.verb != ProtocolVerb::kExpect && action.verb != ProtocolVerb::kCopy) continue;
        check("a number of bytes of " + role.name, action.bytes, kCopyUnitBytes, kMbarrierLimit);
        if (!wrong && action.bytes % kCopyUnitBytes != 0) {
          wrong = fmt::format("a number of bytes of {} is {}, not a multiple of {}", role.name,
                              action.bytes, kCopyUnitBytes);
        }
        if (action.verb == ProtocolVerb::kExpect)
          expected += action.bytes * (action.of_each_row ? protocol.item_rows : 1);
      }
      check("the number of bytes that a phase waits for", expected, 0, kMbarrierLimit);
    }
  }
  check("the number of warps", warps, 1, kMaxWarps);
  if (!wrong) check("the number of items to prove", items_to_prove(protocol), 1, kMaxProvedItems);
  return wrong;
}

/// The producer's actions for an item of up to `rows` rows.
std::vector<ProtocolAction> producer_actions(const std::vector<int64_t>& copies, int64_t rows) {
  using enum ProtocolVerb;
  std::vector<ProtocolAction> out = {
      {.verb = kWait, .barrier = PipelineBarrier::kEmpty, .other_parity = true},
      {.verb = kExpect,
       .bytes = std::accumulate(copies.begin(), copies.end(), int64_t{0}),
       .of_each_row = true}};
  for (int64_t row = 0; row < rows; ++row) {
    for (const int64_t bytes : copies)
      out.push_back({.verb = kCopy, .bytes = bytes, .row = row, .where_row_exists = row > 0});
  }
  return out;
}

constexpr ProtocolAction kWaitForItem = {.verb = ProtocolVerb::kWait,
                                         .barrier = PipelineBarrier::kFull};
constexpr ProtocolAction kReleaseItem = {.verb = ProtocolVerb::kArrive,
                                         .barrier = PipelineBarrier::kEmpty};

/// A consumer group's actions for an item of `rows` rows.
std::vector<ProtocolAction> group_actions(SlotRelease release, int64_t rows) {
  std::vector<ProtocolAction> out = {kWaitForItem};
  const auto read_rows = [&] {
    for (int64_t row = 0; row < rows; ++row)
      out.push_back({.verb = ProtocolVerb::kRead, .row = row});
  };
  read_rows();
  if (release == SlotRelease::kEarly) out.push_back(kReleaseItem);
  out.push_back({.verb = ProtocolVerb::kSync});
  if (release == SlotRelease::kEarly) return out;
  read_rows();
  out.push_back(kReleaseItem);
  return out;
}

/// A consumer group's actions for an item of fewer than `rows` rows.
std::vector<ProtocolAction> short_group_actions(int64_t rows) {
  using enum ProtocolVerb;
  std::vector<ProtocolAction> out = {kWaitForItem};
  for (int64_t row = 0; row + 1 < rows; ++row) {
    for (const ProtocolVerb verb : {kRead, kSync, kRead})
      out.push_back({.verb = verb, .row = row, .where_row_exists = row > 0});
  }
  out.push_back(kReleaseItem);
  return out;
}

}  // namespace

AsyncProtocol pipeline_protocol(int64_t stages, int groups, int warps_per_group,
                                const std::vector<int64_t>& copies, SlotRelease release,
                                int64_t item_rows) {
  AsyncProtocol out{.stages = stages, .item_rows = item_rows, .empty_arrivals = warps_per_group};
  out.roles.push_back({.name = "producer", .actions = producer_actions(copies, item_rows)});
  for (int group = 0; group < groups; ++group) {
    ProtocolRole role{.name = fmt::format("group {}", group),
                      .first = group,
                      .step = groups,
                      .warps = warps_per_group,
                      .actions = group_actions(release, item_rows)};
    if (item_rows > 1) role.short_actions = short_group_actions(item_rows);
    out.roles.push_back(std::move(role));
  }
  return out;
}

AsyncProtocol product_protocol(int64_t stages, int warps, const std::vector<int64_t>& copies,
                               int64_t held, int splitting) {
  using enum ProtocolVerb;
  AsyncProtocol out{.stages = stages, .empty_arrivals = warps, .split_arrivals = splitting};
  out.roles.push_back({.name = "producer", .actions = producer_actions(copies, 1)});
  if (splitting > 0) {
    out.roles.push_back({.name = "splitting",
                         .warps = splitting,
                         .actions = {kWaitForItem,
                                     {.verb = kRewrite},
                                     {.verb = kArrive, .barrier = PipelineBarrier::kSplit}}});
  }
  ProtocolRole consumers{.name = "consumers", .warps = warps, .drain = held};
  // A product reads from its start until it is waited for.
  consumers.actions = {kWaitForItem};
  if (splitting > 0)
    consumers.actions.push_back({.verb = kWait, .barrier = PipelineBarrier::kSplit});
  consumers.actions.push_back({.verb = kRead});
  if (held > 0) consumers.actions.push_back({.verb = kRead, .item_offset = -held});
  ProtocolAction release = kReleaseItem;
  release.item_offset = -held;
  consumers.actions.push_back(release);
  out.roles.push_back(std::move(consumers));
  return out;
}

AsyncProtocol turns_protocol(int64_t stages, int64_t turns, int warps_per_group,
                             const std::vector<int64_t>& copies, int64_t turn_items) {
  using enum ProtocolVerb;
  AsyncProtocol out{.stages = stages,
                    .empty_arrivals = warps_per_group,
                    .turns = turns,
                    .turn_items = turn_items,
                    .turn_arrivals = warps_per_group};
  out.roles.push_back({.name = "producer", .actions = producer_actions(copies, 1)});
  ProtocolAction before = kReleaseItem;
  before.item_offset = -1;
  before.place = TurnPlace::kAfterFirst;
  ProtocolAction last = kReleaseItem;
  last.place = TurnPlace::kLast;
  for (int64_t group = 0; group < turns; ++group) {
    out.roles.push_back(
        {.name = fmt::format("group {}", group),
         .first = group,
         .step = turns,
         .warps = warps_per_group,
         .actions = {{.verb = kWait, .barrier = PipelineBarrier::kTurn, .place = TurnPlace::kFirst},
                     kWaitForItem,
                     {.verb = kRead},
                     {.verb = kRead, .item_offset = -1, .place = TurnPlace::kAfterFirst},
                     before,
                     {.verb = kArrive,
                      .barrier = PipelineBarrier::kTurn,
                      .place = TurnPlace::kLast},
                     {.verb = kRead, .place = TurnPlace::kLast},
                     last},
         .takes_turns = true});
  }
  return out;
}

AsyncProtocol handover_protocol(int64_t stages, int writers, int readers) {
  using enum ProtocolVerb;
  AsyncProtocol out{.stages = stages, .full_arrivals = writers, .empty_arrivals = readers};
  out.roles.push_back(
      {.name = "multiplying",
       .warps = writers,
       .actions = {{.verb = kWait, .barrier = PipelineBarrier::kEmpty, .other_parity = true},
                   {.verb = kWrite},
                   {.verb = kArrive, .barrier = PipelineBarrier::kFull}}});
  out.roles.push_back({.name = "epilogue",
                       .warps = readers,
                       .actions = {kWaitForItem, {.verb = kRead}, kReleaseItem}});
  return out;
}

AsyncProtocol exchange_protocol(int blocks, int64_t stages) {
  using enum ProtocolVerb;
  AsyncProtocol out{.stages = stages, .full_arrivals = blocks};
  out.roles.push_back({.name = "blocks",
                       .warps = blocks,
                       .actions = {{.verb = kWrite},
                                   {.verb = kArrive, .barrier = PipelineBarrier::kFull},
                                   kWaitForItem,
                                   {.verb = kRead}}});
  return out;
}

int64_t equivalent_turn(int64_t turn_items, int64_t stages) {
  const int64_t period = 2 * stages;
  return turn_items < 2 * period ? turn_items : period + turn_items % period;
}

std::string_view name_of(ProtocolFaultKind kind) {
  switch (kind) {
    case ProtocolFaultKind::kMalformed:
      return "malformed table";
    case ProtocolFaultKind::kDeadlock:
      return "deadlock";
    case ProtocolFaultKind::kOverwrite:
      return "overwrite of an unread stage";
    case ProtocolFaultKind::kUnfilledRead:
      return "read of an unfilled stage";
    case ProtocolFaultKind::kHalfFilledRead:
      return "read of a half-filled stage";
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
  const std::string of_rows = rows == items ? "" : fmt::format(" of {} rows", rows);
  std::string out = fmt::format("{} with {} items{}: {}\n", name_of(kind), items, of_rows, message);
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
  const int64_t last = items_to_prove(protocol) * protocol.item_rows;
  // Items of turns have one row each.
  for (int64_t rows = 0; rows <= last; rows += protocol.turn_items) {
    if (run_protocol(protocol, rows, /*explain=*/false))
      return run_protocol(protocol, rows, /*explain=*/true);
  }
  return std::nullopt;
}

}  // namespace sinter
