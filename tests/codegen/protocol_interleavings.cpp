#include "tests/codegen/protocol_interleavings.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace sinter {
namespace {

using enum ProtocolVerb;
using enum PipelineBarrier;
using Kind = ProtocolFaultKind;

class Explorer {
 public:
  Explorer(const AsyncProtocol& protocol, int64_t rows)
      : protocol_(protocol),
        rows_(rows),
        items_((rows + protocol.item_rows - 1) / protocol.item_rows) {}

  /// The fewest steps to each kind of fault that some interleaving shows.
  std::map<Kind, size_t> faults() {
    std::set<State> level = {start()};
    for (size_t depth = 0; !level.empty(); ++depth) {
      std::set<State> following;
      for (const State& state : level) {
        expand(state, depth, following);
      }
      level = std::move(following);
    }
    return faults_;
  }

 private:
  struct Warp {
    size_t role;
    int number;
    int64_t item;
    size_t action;
    friend auto operator<=>(const Warp&, const Warp&) = default;
  };
  struct Barrier {
    int64_t complete = 0, pending = 0, bytes = 0;
    friend auto operator<=>(const Barrier&, const Barrier&) = default;
  };
  struct Slot {
    int64_t item = -1, landed = 0, rewritten = 0, reads = 0;
    friend auto operator<=>(const Slot&, const Slot&) = default;
  };
  struct State {
    std::vector<Warp> warps;
    std::vector<Barrier> full, empty, split, turn;
    std::vector<Slot> slots;
    std::multiset<std::pair<int64_t, int64_t>> flights;  ///< Item and bytes.
    friend auto operator<=>(const State&, const State&) = default;
  };

  State start() {
    const auto stages = static_cast<size_t>(protocol_.stages);
    State state;
    for (size_t role = 0; role < protocol_.roles.size(); ++role) {
      for (int number = 0; number < protocol_.roles[role].warps; ++number) {
        const ProtocolRole& of = protocol_.roles[role];
        Warp warp{role, number, of.takes_turns ? of.first * protocol_.turn_items : of.first, 0};
        for (Warp at = warp; const ProtocolAction* action = next(at); ++at.action) {
          copies_[at.item + action->item_offset] +=
              int64_t{action->verb == kCopy || action->verb == kWrite};
          rewrites_[at.item + action->item_offset] += int64_t{action->verb == kRewrite};
          reads_[at.item + action->item_offset] += int64_t{action->verb == kRead};
        }
        state.warps.push_back(warp);
      }
    }
    for (Warp& warp : state.warps) next(warp);
    state.full.assign(stages, {.pending = protocol_.full_arrivals});
    state.empty.assign(stages, {.pending = protocol_.empty_arrivals});
    state.split.assign(stages, {.pending = protocol_.split_arrivals});
    state.turn.assign(static_cast<size_t>(protocol_.turns), {.pending = protocol_.turn_arrivals});
    state.slots.resize(stages);
    return state;
  }

  const ProtocolAction* next(Warp& warp) const {
    const ProtocolRole& role = protocol_.roles[warp.role];
    for (; warp.item < items_ + role.drain; warp.item = after(role, warp.item), warp.action = 0) {
      const bool whole = warp.item >= items_ || rows_of(warp.item) == protocol_.item_rows ||
                         role.short_actions.empty();
      const auto& actions = whole ? role.actions : role.short_actions;
      for (; warp.action < actions.size(); ++warp.action) {
        const ProtocolAction& action = actions[warp.action];
        const int64_t item = warp.item + action.item_offset;
        if (!is_there(action.place, warp.item)) continue;
        if (item < 0 || item >= items_ || (action.first_warp_only && warp.number > 0)) continue;
        if (!action.where_row_exists || action.row < rows_of(item)) return &action;
      }
    }
    return nullptr;
  }

  /// The role's next item.
  int64_t after(const ProtocolRole& role, int64_t item) const {
    if (!role.takes_turns) return item + role.step;
    const int64_t turn = item / protocol_.turn_items;
    if (item + 1 < (turn + 1) * protocol_.turn_items) return item + 1;
    return (turn + role.step) * protocol_.turn_items;
  }
  bool is_there(TurnPlace place, int64_t item) const {
    const int64_t number = item % protocol_.turn_items;
    return place == TurnPlace::kAnywhere || (place == TurnPlace::kFirst && number == 0) ||
           (place == TurnPlace::kAfterFirst && number != 0) ||
           (place == TurnPlace::kLast && number == protocol_.turn_items - 1);
  }

  int64_t rows_of(int64_t item) const {
    return std::min(protocol_.item_rows, rows_ - item * protocol_.item_rows);
  }

  void note(Kind kind, size_t steps) { faults_.try_emplace(kind, steps); }

  /// Adds to a barrier for one of its phases, which has so many arrivals.
  bool add(Barrier& barrier, int64_t phase, int64_t arrivals, bool arrives, int64_t bytes,
           size_t depth) {
    if (barrier.complete != phase || (arrives && barrier.pending == 0)) {
      note(Kind::kArrivalOverflow, depth + 1);
      return false;
    }
    barrier.pending -= int64_t{arrives};
    barrier.bytes += bytes;
    if (barrier.pending == 0 && barrier.bytes == 0) {
      ++barrier.complete;
      barrier.pending = arrivals;
    }
    return true;
  }

  /// Does the next action of a warp. True if it led to another sound state.
  bool act(State& state, size_t index, size_t depth, bool& moved) {
    Warp& warp = state.warps[index];
    const ProtocolAction* action = next(warp);
    if (action == nullptr) return false;
    const int64_t item = warp.item + action->item_offset;
    const int64_t round = item / protocol_.stages;
    const auto number = static_cast<size_t>(item % protocol_.stages);
    const bool is_full = action->barrier == kFull || action->verb == kExpect;
    const bool is_split = action->barrier == kSplit && action->verb != kExpect;
    const bool is_turn = action->barrier == kTurn && action->verb != kExpect;
    // Turn t waits at barrier t % turns; the barrier of the first turn has one phase less.
    const int64_t turn = item / protocol_.turn_items + int64_t{action->verb != kWait};
    const int64_t turn_number = is_turn ? turn % protocol_.turns : 0;
    const int64_t turn_phase = is_turn ? turn / protocol_.turns - int64_t{turn_number == 0} : 0;
    Barrier& barrier = is_turn    ? state.turn[static_cast<size_t>(turn_number)]
                       : is_full  ? state.full[number]
                       : is_split ? state.split[number]
                                  : state.empty[number];
    const int64_t phase = is_turn ? turn_phase : round;
    const int64_t arrivals = is_turn    ? protocol_.turn_arrivals
                             : is_full  ? protocol_.full_arrivals
                             : is_split ? protocol_.split_arrivals
                                        : protocol_.empty_arrivals;
    Slot& slot = state.slots[number];
    moved = true;
    switch (action->verb) {
      case kWait: {
        const int64_t wanted = is_turn || is_full || is_split ? phase : round - 1;
        const bool passes = (barrier.complete & 1) != ((phase & 1) ^ int64_t{action->other_parity});
        const bool right = barrier.complete == wanted + 1;
        if (passes != right || barrier.complete > wanted + 1) {
          note(Kind::kWrongParity, depth + 1);
          return false;
        }
        moved = passes;
        if (!passes) return false;
        break;
      }
      case kArrive:
        if (!add(barrier, phase, arrivals, true, 0, depth)) return false;
        break;
      case kExpect:
        if (!add(barrier, phase, arrivals, true,
                 action->bytes * (action->of_each_row ? rows_of(item) : 1), depth))
          return false;
        break;
      case kCopy:
      case kWrite:
        if (slot.item != item) {
          if (slot.item > item || (slot.item >= 0 && (slot.reads != reads_[slot.item] ||
                                                      slot.landed != copies_[slot.item] ||
                                                      slot.rewritten != rewrites_[slot.item]))) {
            note(Kind::kOverwrite, depth + 1);
            return false;
          }
          slot = {.item = item};
        }
        if (action->verb == kCopy) {
          state.flights.emplace(item, action->bytes);
        } else {
          ++slot.landed;
        }
        break;
      case kRewrite:
      case kRead:
        if (slot.item != item || slot.landed == 0 || action->row >= rows_of(item)) {
          note(Kind::kUnfilledRead, depth + 1);
          return false;
        }
        if (slot.landed < copies_[item] ||
            (action->verb == kRead && slot.rewritten < rewrites_[item])) {
          note(Kind::kHalfFilledRead, depth + 1);
          return false;
        }
        ++(action->verb == kRead ? slot.reads : slot.rewritten);
        break;
      case kSync:
        for (Warp& other : state.warps) {
          moved = moved && (other.role != warp.role ||
                            (other.item == warp.item && other.action == warp.action));
        }
        if (!moved) return false;
        for (Warp& other : state.warps) {
          if (other.role != warp.role || &other == &warp) continue;
          ++other.action;
          next(other);
        }
        break;
    }
    ++warp.action;
    next(warp);
    return true;
  }

  void expand(const State& state, size_t depth, std::set<State>& following) {
    bool any = false;
    bool all_done = true;
    for (size_t i = 0; i < state.warps.size(); ++i) {
      Warp warp = state.warps[i];
      all_done = all_done && next(warp) == nullptr;
      State after = state;
      bool moved = false;
      if (act(after, i, depth, moved)) following.insert(std::move(after));
      any = any || moved;
    }
    for (auto flight = state.flights.begin(); flight != state.flights.end(); ++flight) {
      State after = state;
      const auto [item, bytes] = *flight;
      after.flights.erase(after.flights.find(*flight));
      const auto number = static_cast<size_t>(item % protocol_.stages);
      ++after.slots[number].landed;
      if (add(after.full[number], item / protocol_.stages, protocol_.full_arrivals, false, -bytes,
              depth))
        following.insert(std::move(after));
    }
    if (all_done) {
      bool whole = state.flights.empty();
      for (const Barrier& full : state.full)
        whole = whole && full.pending == protocol_.full_arrivals && full.bytes == 0;
      for (const Barrier& empty : state.empty)
        whole = whole && empty.pending == protocol_.empty_arrivals && empty.bytes == 0;
      for (const Barrier& split : state.split)
        whole = whole && split.pending == protocol_.split_arrivals && split.bytes == 0;
      for (const Barrier& turn : state.turn)
        whole = whole && turn.pending == protocol_.turn_arrivals && turn.bytes == 0;
      if (!whole) note(Kind::kLeftover, depth);
    } else if (!any && state.flights.empty()) {
      note(Kind::kDeadlock, depth);
    }
  }

  const AsyncProtocol& protocol_;
  int64_t rows_, items_;
  std::map<int64_t, int64_t> copies_, rewrites_, reads_;
  std::map<Kind, size_t> faults_;
};

}  // namespace

std::map<ProtocolFaultKind, size_t> faults_of_all_interleavings(const AsyncProtocol& protocol,
                                                                int64_t rows) {
  return Explorer(protocol, rows).faults();
}

}  // namespace sinter
