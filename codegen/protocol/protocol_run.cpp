#include "codegen/protocol/protocol_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <span>
#include <utility>

#include "codegen/protocol/vector_clocks.h"

namespace sinter {
namespace {

using Row = VectorClocks::Row;

/// True for actions that bring a part of an item into its pipeline stage, the first time.
bool fills(ProtocolVerb verb) {
  return verb == ProtocolVerb::kCopy || verb == ProtocolVerb::kWrite;
}

/// Processes are the warps, in the order of their roles, then one process for each copy of an item
/// that a pipeline stage may hold; its steps are the landings of that copy.
class ProtocolRun {
 public:
  ProtocolRun(const AsyncProtocol& protocol, int64_t rows, bool explain);
  std::optional<ProtocolFault> run();

 private:
  struct Warp {
    size_t role;
    int number;
    int64_t item;
    size_t action = 0;
    Row clock = 0;
  };
  struct Wait {
    size_t warp;
    uint32_t step;
    int64_t phase;
    Row before;  ///< The process's clock before the step; only for explanations.
  };
  struct Barrier {
    std::string_view name;
    int64_t slot, arrivals;
    int64_t pending;
    int64_t bytes = 0;             ///< Announced and not landed.
    Row arrived = 0;               ///< Clock of the arrivals of this phase.
    std::vector<Row> completed{};  ///< Clock at which each phase was complete.
    std::vector<Wait> waits{};     ///< Waits that passed for the last complete phase.
    [[nodiscard]] int64_t phase() const { return std::ssize(completed); }
  };
  struct Slot {
    int64_t item = -1;
    int64_t started = 0, landed = 0, reads = 0;
    Row read = 0;      ///< Clock of the item's reads and of what they come after.
    Row previous = 0;  ///< The same for the previous item.
  };
  struct Flight {
    int64_t item, bytes;
    size_t process;
    Row clock;
  };
  /// What a process does to a barrier for an item.
  struct Contribution {
    int64_t phase;
    size_t process;
    Row clock;  ///< Of the process.
    bool arrives;
    int64_t bytes;  ///< Announced; negative: landed.
  };
  struct Step {
    size_t process;
    uint32_t number;
    std::string text;
  };

  [[nodiscard]] const ProtocolAction* next(Warp& warp) const;
  [[nodiscard]] const std::vector<ProtocolAction>& actions_of(const Warp& warp) const;
  [[nodiscard]] int64_t rows_of(int64_t item) const {
    return std::min(protocol_.item_rows, rows_ - item * protocol_.item_rows);
  }
  /// Bytes that a kExpect action announces for an item.
  [[nodiscard]] int64_t announced(const ProtocolAction& action, int64_t item) const {
    return action.bytes * (action.of_each_row ? rows_of(item) : 1);
  }
  [[nodiscard]] Slot& slot_of(int64_t item) { return slots_[slot_number(item)]; }
  [[nodiscard]] Barrier& barrier_of(PipelineBarrier barrier, int64_t item) {
    return (barrier == PipelineBarrier::kFull    ? full_
            : barrier == PipelineBarrier::kSplit ? split_
                                                 : empty_)[slot_number(item)];
  }
  /// What a warp waits for, or arrives at.
  struct Phase {
    Barrier& barrier;
    int64_t number;  ///< -1: before the first phase.
    int64_t parity;  ///< That a wait for it gives.
  };
  [[nodiscard]] Phase phase_of(const ProtocolAction& action, int64_t item);
  /// The phase that begins a turn.
  [[nodiscard]] Phase turn_phase(int64_t turn) {
    const int64_t number = turn / protocol_.turns - int64_t{turn % protocol_.turns == 0};
    return {turn_[static_cast<size_t>(turn % protocol_.turns)], number, number & 1};
  }
  [[nodiscard]] int64_t first_item(size_t role) const {
    const ProtocolRole& of = protocol_.roles[role];
    return of.takes_turns ? of.first * protocol_.turn_items : of.first;
  }
  [[nodiscard]] int64_t next_item(const ProtocolRole& role, int64_t item) const {
    if (!role.takes_turns) return item + role.step;
    const bool is_last = (item + 1) % protocol_.turn_items == 0;
    return item + 1 + (is_last ? (role.step - 1) * protocol_.turn_items : 0);
  }
  [[nodiscard]] bool is_at(TurnPlace place, int64_t item) const {
    const int64_t in_turn = item % protocol_.turn_items;
    switch (place) {
      case TurnPlace::kAnywhere:
        return true;
      case TurnPlace::kFirst:
        return in_turn == 0;
      case TurnPlace::kAfterFirst:
        return in_turn > 0;
      case TurnPlace::kLast:
        return in_turn + 1 == protocol_.turn_items;
    }
    unreachable();
  }
  [[nodiscard]] size_t slot_number(int64_t item) const {
    return static_cast<size_t>(item % protocol_.stages);
  }
  [[nodiscard]] size_t landing_process(int64_t item, int64_t piece) const {
    return warps_.size() + slot_number(item) * copies_per_slot_ + static_cast<size_t>(piece);
  }

  /// Executes one action of a warp. Returns false if the warp has to wait or there is a fault.
  bool step(size_t index);
  bool wait(size_t index, const ProtocolAction& action, int64_t item);
  /// Counts an arrival or landed bytes towards the item's phase.
  bool contribute(Barrier& barrier, const Contribution& made, const std::string& text);
  bool complete_phase(Barrier& barrier);
  /// Starts a copy, or stores at once.
  bool fill(size_t index, const ProtocolAction& action, int64_t item);
  bool read(size_t index, const ProtocolAction& action, int64_t item);
  bool synchronise(size_t index);
  bool land();
  void check_end();

  /// Counts a step of a process whose clock is `clock`, and records its text for explanations.
  void tick(size_t process, Row clock, const std::string& text);
  [[nodiscard]] std::string who(const Warp& warp) const;
  [[nodiscard]] std::string row_text(const ProtocolAction& action) const;
  [[nodiscard]] std::string what(const Warp& warp, const ProtocolAction& action) const;
  /// The next action of a warp in words; only for explanations.
  [[nodiscard]] std::string line(const Warp& warp, const ProtocolAction& action) const;
  /// Records a fault: the clock before it, and the faulty step, if the fault is a step.
  bool fail(ProtocolFaultKind kind, std::string message, Row before, std::string last = "");
  [[nodiscard]] std::vector<std::string> states(Row at);

  const AsyncProtocol& protocol_;
  int64_t rows_, items_;
  bool explain_;
  size_t copies_per_slot_ = 0;
  std::vector<int64_t> copies_, rewrites_, reads_;  ///< Of each item, summed over all warps.
  std::vector<Warp> warps_;
  std::vector<Barrier> full_, empty_, split_, turn_;
  std::vector<Slot> slots_;
  std::deque<Flight> flights_;
  std::vector<uint32_t> counts_;  ///< Steps of each process.
  VectorClocks clocks_{1};
  std::vector<Step> steps_;
  std::optional<ProtocolFault> fault_;
};

ProtocolRun::ProtocolRun(const AsyncProtocol& protocol, int64_t rows, bool explain)
    : protocol_(protocol),
      rows_(rows),
      items_((rows + protocol.item_rows - 1) / protocol.item_rows),
      explain_(explain) {
  copies_.resize(static_cast<size_t>(items_));
  rewrites_.resize(static_cast<size_t>(items_));
  reads_.resize(static_cast<size_t>(items_));
  for (size_t role = 0; role < protocol.roles.size(); ++role) {
    for (int number = 0; number < protocol.roles[role].warps; ++number) {
      Warp warp{.role = role, .number = number, .item = first_item(role)};
      warps_.push_back(warp);
      for (; const ProtocolAction* action = next(warp); ++warp.action) {
        const auto item = static_cast<size_t>(warp.item + action->item_offset);
        copies_[item] += int64_t{fills(action->verb)};
        rewrites_[item] += int64_t{action->verb == ProtocolVerb::kRewrite};
        reads_[item] += int64_t{action->verb == ProtocolVerb::kRead};
      }
    }
  }
  if (items_ > 0) {
    copies_per_slot_ = static_cast<size_t>(std::ranges::max(copies_) + std::ranges::max(rewrites_));
  }
  counts_.resize(warps_.size() + static_cast<size_t>(protocol.stages) * copies_per_slot_);
  clocks_ = VectorClocks(counts_.size());
  for (Warp& warp : warps_) warp.clock = clocks_.add();
  for (int64_t slot = 0; slot < protocol.stages; ++slot) {
    const auto barrier = [&](std::string_view name, int64_t arrivals) {
      return Barrier{.name = name,
                     .slot = slot,
                     .arrivals = arrivals,
                     .pending = arrivals,
                     .arrived = clocks_.add()};
    };
    full_.push_back(barrier("full", protocol.full_arrivals));
    empty_.push_back(barrier("empty", protocol.empty_arrivals));
    if (protocol.split_arrivals > 0) split_.push_back(barrier("split", protocol.split_arrivals));
    slots_.push_back({.read = clocks_.add(), .previous = clocks_.add()});
  }
  for (int64_t turn = 0; turn < protocol.turns; ++turn) {
    turn_.push_back({.name = "turn",
                     .slot = turn,
                     .arrivals = protocol.turn_arrivals,
                     .pending = protocol.turn_arrivals,
                     .arrived = clocks_.add()});
  }
}

ProtocolRun::Phase ProtocolRun::phase_of(const ProtocolAction& action, int64_t item) {
  const bool waits = action.verb == ProtocolVerb::kWait;
  if (action.barrier == PipelineBarrier::kTurn && action.verb != ProtocolVerb::kExpect) {
    const int64_t turn = item / protocol_.turn_items;
    Phase out = turn_phase(waits ? turn : turn + 1);
    out.parity ^= int64_t{action.other_parity};
    return out;
  }
  const int64_t round = item / protocol_.stages;
  const PipelineBarrier barrier =
      action.verb == ProtocolVerb::kExpect ? PipelineBarrier::kFull : action.barrier;
  const bool is_before = waits && barrier == PipelineBarrier::kEmpty;
  return {barrier_of(barrier, item), is_before ? round - 1 : round,
          (round & 1) ^ int64_t{action.other_parity}};
}

/// The next action of a warp, after those that it skips; null at its end.
const ProtocolAction* ProtocolRun::next(Warp& warp) const {
  const ProtocolRole& role = protocol_.roles[warp.role];
  for (; warp.item < items_ + role.drain; warp.item = next_item(role, warp.item), warp.action = 0) {
    const std::vector<ProtocolAction>& actions = actions_of(warp);
    for (; warp.action < actions.size(); ++warp.action) {
      const ProtocolAction& action = actions[warp.action];
      const int64_t item = warp.item + action.item_offset;
      if (item < 0 || item >= items_ || !is_at(action.place, warp.item)) continue;
      if (action.first_warp_only && warp.number > 0) continue;
      if (action.where_row_exists && action.row >= rows_of(item)) continue;
      return &action;
    }
  }
  return nullptr;
}

/// The actions of a warp for its current item.
const std::vector<ProtocolAction>& ProtocolRun::actions_of(const Warp& warp) const {
  const ProtocolRole& role = protocol_.roles[warp.role];
  const bool is_short =
      warp.item < items_ && rows_of(warp.item) < protocol_.item_rows && !role.short_actions.empty();
  return is_short ? role.short_actions : role.actions;
}

std::string ProtocolRun::who(const Warp& warp) const {
  const ProtocolRole& role = protocol_.roles[warp.role];
  return role.warps == 1 ? role.name : fmt::format("{}, warp {}", role.name, warp.number);
}

/// Names the row of an item where items have several rows.
std::string ProtocolRun::row_text(const ProtocolAction& action) const {
  return protocol_.item_rows == 1 ? "" : fmt::format("row {} of ", action.row);
}

std::string ProtocolRun::what(const Warp& warp, const ProtocolAction& action) const {
  const int64_t item = warp.item + action.item_offset;
  const size_t slot = slot_number(item);
  if (action.barrier == PipelineBarrier::kTurn) {
    const int64_t turn = item / protocol_.turn_items;
    return action.verb == ProtocolVerb::kWait ? fmt::format("waits for turn {}", turn)
                                              : fmt::format("passes the turn to turn {}", turn + 1);
  }
  const std::string_view barrier = action.barrier == PipelineBarrier::kFull    ? "full"
                                   : action.barrier == PipelineBarrier::kSplit ? "split"
                                                                               : "empty";
  const int64_t parity = ((item / protocol_.stages) & 1) ^ int64_t { action.other_parity };
  switch (action.verb) {
    case ProtocolVerb::kWait:
      return fmt::format("waits for parity {} of {}[{}] (item {})", parity, barrier, slot, item);
    case ProtocolVerb::kArrive:
      return fmt::format("arrives at {}[{}] (item {})", barrier, slot, item);
    case ProtocolVerb::kExpect:
      return fmt::format("announces {} bytes at full[{}] (item {})", announced(action, item), slot,
                         item);
    case ProtocolVerb::kCopy:
      return fmt::format("starts a copy of {} bytes of {}item {} into stage {}", action.bytes,
                         row_text(action), item, slot);
    case ProtocolVerb::kWrite:
      return fmt::format("stores its part of item {} into stage {}", item, slot);
    case ProtocolVerb::kRewrite:
      return fmt::format("rewrites its part of item {} in stage {}", item, slot);
    case ProtocolVerb::kRead:
      return fmt::format("reads {}item {} in stage {}", row_text(action), item, slot);
    case ProtocolVerb::kSync:
      return fmt::format("meets the others (item {})", warp.item);
  }
  unreachable();
}

std::string ProtocolRun::line(const Warp& warp, const ProtocolAction& action) const {
  return explain_ ? fmt::format("{}: {}", who(warp), what(warp, action)) : std::string();
}

void ProtocolRun::tick(size_t process, Row clock, const std::string& text) {
  clocks_[clock][process] = ++counts_[process];
  if (explain_) steps_.push_back({.process = process, .number = counts_[process], .text = text});
}

bool ProtocolRun::fail(ProtocolFaultKind kind, std::string message, Row before, std::string last) {
  fault_ = {.kind = kind, .message = std::move(message), .items = items_, .rows = rows_};
  if (!explain_) return false;
  const auto clock = clocks_[before];
  for (const Step& step : steps_) {
    if (!step.text.empty() && step.number <= clock[step.process])
      fault_->interleaving.push_back(step.text);
  }
  if (!last.empty()) fault_->interleaving.push_back(std::move(last));
  fault_->states = states(before);
  return false;
}

/// The state of the warps of each role after the steps that the clock `at` covers.
std::vector<std::string> ProtocolRun::states(Row at) {
  std::vector<std::string> out;
  for (size_t role = 0; role < protocol_.roles.size(); ++role) {
    std::vector<std::pair<std::string, int>> places;
    for (size_t i = 0; i < warps_.size(); ++i) {
      if (warps_[i].role != role) continue;
      const uint32_t done = clocks_[at][i];
      Warp warp = warps_[i];
      if (done < counts_[i]) {
        // The warp ran further in this run: replay it up to that clock.
        warp.item = first_item(role);
        warp.action = 0;
        for (uint32_t step = 0; step < done && next(warp) != nullptr; ++step) ++warp.action;
      }
      const ProtocolAction* action = next(warp);
      const std::string place = action == nullptr ? "finished" : what(warp, *action);
      const auto known = std::ranges::find(places, place, &std::pair<std::string, int>::first);
      if (known == places.end()) {
        places.emplace_back(place, 1);
      } else {
        ++known->second;
      }
    }
    std::string text = protocol_.roles[role].name + ":";
    for (const auto& [place, warps] : places) {
      text +=
          fmt::format("{} {} of {} warps {}{}", &place == &places.front().first ? "" : ";", warps,
                      protocol_.roles[role].warps, place == "finished" ? "" : "next ", place);
    }
    out.push_back(std::move(text));
  }
  return out;
}

bool ProtocolRun::wait(size_t index, const ProtocolAction& action, int64_t item) {
  Warp& warp = warps_[index];
  const auto& [barrier, wanted, parity] = phase_of(action, item);
  const int64_t complete = barrier.phase();  // Phases 0 to complete - 1 are complete.
  const bool passes = (complete & 1) != parity;
  const auto wrong = [&](std::string_view how, int64_t phases) {
    const Row before = clocks_.copy(warp.clock);
    if (phases > 0) clocks_.join(before, barrier.completed[static_cast<size_t>(phases - 1)]);
    const std::string past =
        phases > 0 ? fmt::format("phase {}", phases - 1) : std::string("no phase at all");
    return fail(ProtocolFaultKind::kWrongParity,
                fmt::format("the wait for phase {} of {}[{}] {} {}", wanted, barrier.name,
                            barrier.slot, how, past),
                before, line(warp, action));
  };
  if (complete == wanted + 1) {
    if (!passes) return wrong("does not pass after", complete);
  } else if (passes) {
    return wrong("passes after", complete);
  } else if (complete > wanted + 1) {
    return wrong("comes only after", complete);
  } else {
    return false;
  }
  // No interleaving may bring the warp here two phases early, where the parity also matches.
  if (wanted >= 1 &&
      !clocks_.covers(warp.clock, barrier.completed[static_cast<size_t>(wanted - 1)]))
    return wrong("passes after", wanted - 1);
  const Row before = explain_ ? clocks_.copy(warp.clock) : Row{0};
  if (wanted >= 0) clocks_.join(warp.clock, barrier.completed[static_cast<size_t>(wanted)]);
  tick(index, warp.clock, line(warp, action));
  barrier.waits.push_back(
      {.warp = index, .step = counts_[index], .phase = wanted, .before = before});
  return true;
}

bool ProtocolRun::contribute(Barrier& barrier, const Contribution& made, const std::string& text) {
  const int64_t phase = made.phase;
  const int64_t complete = barrier.phase();
  const auto overflow = [&](int64_t counted, Row before) {
    return fail(
        ProtocolFaultKind::kArrivalOverflow,
        fmt::format("what is for phase {} of {}[{}] counts towards phase {}{}", phase, barrier.name,
                    barrier.slot, counted, counted == phase ? ", which has all its arrivals" : ""),
        before, text);
  };
  if (complete != phase) {
    const Row before = clocks_.copy(made.clock);
    if (complete > phase) clocks_.join(before, barrier.completed.back());
    return overflow(complete, before);
  }
  // In another interleaving the previous phase may still be incomplete.
  if (phase >= 1 && !clocks_.covers(made.clock, barrier.completed.back()))
    return overflow(phase - 1, made.clock);
  if (made.arrives && barrier.pending == 0) {
    const Row before = clocks_.copy(made.clock);
    clocks_.join(before, barrier.arrived);
    return overflow(phase, before);
  }
  tick(made.process, made.clock, text);
  clocks_.join(barrier.arrived, made.clock);
  barrier.pending -= int64_t{made.arrives};
  barrier.bytes += made.bytes;
  return barrier.pending != 0 || barrier.bytes != 0 || complete_phase(barrier);
}

bool ProtocolRun::complete_phase(Barrier& barrier) {
  const Row now = clocks_.copy(barrier.arrived);
  barrier.completed.push_back(now);
  clocks_.clear(barrier.arrived);
  barrier.pending = barrier.arrivals;
  // A wait for the previous phase can miss it if no contribution to this phase happened after the
  // wait.
  const int64_t gone = barrier.phase() - 2;
  for (const Wait& wait : barrier.waits) {
    if (wait.phase != gone || clocks_[now][wait.warp] >= wait.step) continue;
    const Row before = clocks_.copy(now);
    if (explain_) clocks_.join(before, wait.before);
    return fail(ProtocolFaultKind::kWrongParity,
                fmt::format("phase {} of {}[{}] can go by before the wait of {}", gone + 1,
                            barrier.name, barrier.slot, who(warps_[wait.warp])),
                before,
                fmt::format("{}: waits for phase {} of {}[{}], which is past",
                            who(warps_[wait.warp]), gone, barrier.name, barrier.slot));
  }
  std::erase_if(barrier.waits, [&](const Wait& wait) { return wait.phase <= gone; });
  return true;
}

bool ProtocolRun::fill(size_t index, const ProtocolAction& action, int64_t item) {
  Warp& warp = warps_[index];
  Slot& slot = slot_of(item);
  if (slot.item != item) {
    bool left = slot.item < item;
    if (slot.item >= 0) {
      const auto held = static_cast<size_t>(slot.item);
      for (int64_t piece = 0; piece < slot.landed; ++piece) {
        const size_t process = landing_process(item, piece);
        clocks_[slot.read][process] = counts_[process];
      }
      left = left && slot.reads == reads_[held] && slot.landed == copies_[held] + rewrites_[held] &&
             clocks_.covers(warp.clock, slot.read);
    }
    if (!left) {
      return fail(ProtocolFaultKind::kOverwrite,
                  fmt::format("item {} is put into stage {} before all is done with item {}", item,
                              slot_number(item), slot.item),
                  warp.clock, line(warp, action));
    }
    std::swap(slot.previous, slot.read);
    clocks_.clear(slot.read);
    slot = {.item = item, .read = slot.read, .previous = slot.previous};
  } else if (!clocks_.covers(warp.clock, slot.previous)) {
    return fail(ProtocolFaultKind::kOverwrite,
                fmt::format("item {} is put into stage {} before the item there is read", item,
                            slot_number(item)),
                warp.clock, line(warp, action));
  }
  tick(index, warp.clock, line(warp, action));
  const size_t process = landing_process(item, slot.started++);
  if (action.verb == ProtocolVerb::kWrite) {
    ++slot.landed;
    tick(process, warp.clock, "");
    return true;
  }
  flights_.push_back(
      {.item = item, .bytes = action.bytes, .process = process, .clock = clocks_.copy(warp.clock)});
  return true;
}

bool ProtocolRun::read(size_t index, const ProtocolAction& action, int64_t item) {
  Warp& warp = warps_[index];
  Slot& slot = slot_of(item);
  const bool rewrites = action.verb == ProtocolVerb::kRewrite;
  const auto of_item = static_cast<size_t>(item);
  // Warps rewrite parts of their own.
  const int64_t parts = copies_[of_item] + (rewrites ? 0 : rewrites_[of_item]);
  int64_t seen = 0;
  if (slot.item == item) {
    for (int64_t piece = 0; piece < std::min(slot.landed, parts); ++piece) {
      const size_t process = landing_process(item, piece);
      seen += int64_t{clocks_[warp.clock][process] == counts_[process]};
    }
  }
  const std::string text = line(warp, action);
  if (action.row >= rows_of(item)) {
    return fail(
        ProtocolFaultKind::kUnfilledRead,
        fmt::format("item {} has {} rows, and row {} is read", item, rows_of(item), action.row),
        warp.clock, text);
  }
  if (seen == 0 || seen < parts) {
    return fail(seen == 0 ? ProtocolFaultKind::kUnfilledRead : ProtocolFaultKind::kHalfFilledRead,
                fmt::format("{} of {} parts of item {} are in stage {} for certain when it is read",
                            seen, parts, item, slot_number(item)),
                warp.clock, text);
  }
  tick(index, warp.clock, text);
  clocks_.join(slot.read, warp.clock);
  if (rewrites) {
    tick(landing_process(item, slot.started++), warp.clock, "");
    ++slot.landed;
  } else {
    ++slot.reads;
  }
  return true;
}

bool ProtocolRun::synchronise(size_t index) {
  const Warp& first = warps_[index];
  const auto in_role = [&](const Warp& warp) { return warp.role == first.role; };
  const int64_t item = first.item;
  const size_t action = first.action;
  for (Warp& warp : warps_) {
    if (in_role(warp) && (next(warp) == nullptr || warp.item != item || warp.action != action))
      return false;
  }
  // The synchronisation is one step of all warps and is recorded once.
  const Row all = clocks_.add();
  const std::string& role = protocol_.roles[first.role].name;
  std::string text = explain_ ? fmt::format("{}: all warps synchronise (item {})", role, item) : "";
  for (size_t i = 0; i < warps_.size(); ++i) {
    if (!in_role(warps_[i])) continue;
    tick(i, warps_[i].clock, std::exchange(text, ""));
    clocks_.join(all, warps_[i].clock);
  }
  for (size_t i = 0; i < warps_.size(); ++i) {
    if (!in_role(warps_[i])) continue;
    clocks_.join(warps_[i].clock, all);
    // The caller advances the warp at `index`.
    if (i != index) ++warps_[i].action;
  }
  return true;
}

bool ProtocolRun::step(size_t index) {
  Warp& warp = warps_[index];
  const ProtocolAction* action = next(warp);
  if (action == nullptr) return false;
  const int64_t item = warp.item + action->item_offset;
  const auto arrive = [&](int64_t bytes) {
    const Phase at = phase_of(*action, item);
    return contribute(at.barrier,
                      {.phase = at.number,
                       .process = index,
                       .clock = warp.clock,
                       .arrives = true,
                       .bytes = bytes},
                      line(warp, *action));
  };
  const bool moved = [&] {
    switch (action->verb) {
      case ProtocolVerb::kWait:
        return wait(index, *action, item);
      case ProtocolVerb::kArrive:
        return arrive(0);
      case ProtocolVerb::kExpect:
        return arrive(announced(*action, item));
      case ProtocolVerb::kCopy:
      case ProtocolVerb::kWrite:
        return fill(index, *action, item);
      case ProtocolVerb::kRewrite:
      case ProtocolVerb::kRead:
        return read(index, *action, item);
      case ProtocolVerb::kSync:
        return synchronise(index);
    }
    unreachable();
  }();
  if (moved) ++warp.action;
  return moved;
}

/// Lands the copy that has been in flight longest.
bool ProtocolRun::land() {
  const Flight flight = flights_.front();
  flights_.pop_front();
  const std::string text = explain_
                               ? fmt::format("copy: {} bytes of item {} land in stage {}",
                                             flight.bytes, flight.item, slot_number(flight.item))
                               : std::string();
  ++slot_of(flight.item).landed;
  return contribute(barrier_of(PipelineBarrier::kFull, flight.item),
                    {.phase = flight.item / protocol_.stages,
                     .process = flight.process,
                     .clock = flight.clock,
                     .arrives = false,
                     .bytes = -flight.bytes},
                    text);
}

void ProtocolRun::check_end() {
  const Row warps = clocks_.add();
  for (const Warp& warp : warps_) clocks_.join(warps, warp.clock);
  const auto unfinished = [&](Warp& warp) { return next(warp) != nullptr; };
  if (std::ranges::any_of(warps_, unfinished)) {
    const Row all = clocks_.copy(warps);
    for (size_t i = 0; i < counts_.size(); ++i) clocks_[all][i] = counts_[i];
    fail(ProtocolFaultKind::kDeadlock, "no warp can move", all);
    return;
  }
  for (size_t i = warps_.size(); i < counts_.size(); ++i) {
    if (clocks_[warps][i] == counts_[i]) continue;
    fail(ProtocolFaultKind::kLeftover,
         fmt::format("a copy into stage {} may be in flight when the last warp leaves",
                     (i - warps_.size()) / copies_per_slot_),
         warps);
    return;
  }
  for (const std::vector<Barrier>* barriers : {&full_, &empty_, &split_, &turn_}) {
    for (const Barrier& barrier : *barriers) {
      if (barrier.pending == barrier.arrivals && barrier.bytes == 0) continue;
      fail(ProtocolFaultKind::kLeftover,
           fmt::format("phase {} of {}[{}] still waits for {} of {} arrivals and {} bytes",
                       barrier.phase(), barrier.name, barrier.slot, barrier.pending,
                       barrier.arrivals, barrier.bytes),
           warps);
      return;
    }
  }
}

std::optional<ProtocolFault> ProtocolRun::run() {
  // Copies land as late as possible, so that a reader that does not wait for them is found soonest.
  while (!fault_) {
    bool moved = false;
    for (size_t i = 0; i < warps_.size() && !fault_; ++i) {
      while (!fault_ && step(i)) moved = true;
    }
    if (moved || fault_) continue;
    if (flights_.empty()) break;
    land();
  }
  if (!fault_) check_end();
  return std::move(fault_);
}

}  // namespace

std::optional<ProtocolFault> run_protocol(const AsyncProtocol& protocol, int64_t rows,
                                          bool explain) {
  return ProtocolRun(protocol, rows, explain).run();
}

}  // namespace sinter
