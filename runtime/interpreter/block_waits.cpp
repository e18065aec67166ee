// How the warps of a block or cluster wait for each other, and what is said when they do not: the
// members of BlockExecutor that concern barriers.

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "runtime/interpreter/block_executor.h"

namespace sinter::interpreter {

bool BlockExecutor::wait_for_mbarrier(Warp* warp, const Instruction& instruction) {
  const auto index_of = [&](int lane) { return value_of<int64_t>(warp->at(instruction.a), lane); };
  const auto parity_of = [&](int lane) { return value_of<int32_t>(warp->at(instruction.b), lane); };
  for (uint32_t lanes = warp->mask & ~warp->passed; lanes != 0;) {
    // Lanes that wait for the same thing do so together.
    const int first = std::countr_zero(lanes);
    uint32_t alike = 0;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      const bool is_alike =
          index_of(lane) == index_of(first) && parity_of(lane) == parity_of(first);
      alike |= static_cast<uint32_t>(is_alike) << lane;
    }
    lanes &= ~alike;
    const WarpSite site = site_of(*warp, instruction, alike);
    Mbarriers& mbarriers = mbarriers_[warp->rank];
    const int64_t number = mbarriers.find(site, first, instruction.mbarrier, index_of(first));
    // Nothing can be waited for where nothing is; that has been reported.
    if (number < 0 || mbarriers.wait(site, number, parity_of(first))) {
      warp->passed |= alike;
    } else {
      warp->waits_for = number;
    }
  }
  if ((warp->mask & ~warp->passed) != 0) return false;
  warp->passed = 0;
  return true;
}

void BlockExecutor::wake(State waiting) {
  for (Warp& warp : warps_) {
    if (warp.state != waiting) continue;
    warp.state = State::kReady;
    has_woken_ = true;
  }
}

void BlockExecutor::arrive_in_cluster(Warp* warp) {
  order_.release_warp(warp->first_actor, &known_in_cluster_);
  if (++arrived_in_cluster_ == std::ssize(warps_)) wake(State::kAtClusterWait);
}

bool BlockExecutor::wait_for_cluster(Warp* warp) {
  if (arrived_in_cluster_ < std::ssize(warps_)) return false;
  order_.acquire(warp->first_actor, kAllLanes, known_in_cluster_);
  return true;
}

void BlockExecutor::wait_at_group_barrier(Warp* warp, const Instruction& instruction) {
  ++work_.barriers;
  check_converged(FindingKind::kDivergentBarrier, *warp, instruction);
  warp->state = State::kAtGroupBarrier;
  warp->waits_for = value_of<int32_t>(warp->at(instruction.a), std::countr_zero(warp->mask));
  std::vector<int64_t> here;
  for (const Warp& other : warps_of(warp->rank)) {
    if (other.state != State::kAtGroupBarrier || other.waits_for != warp->waits_for) continue;
    here.push_back(other.first_actor);
    // The warp itself has not stored its position yet.
    if (&other == warp) continue;
    const int32_t expected = program_.code[other.position - 1].width;
    if (expected == instruction.width) continue;
    log_->add({.kind = FindingKind::kDivergentBarrier,
               .stmt = instruction.stmt,
               .block = block_of(*warp),
               .thread = warp->first_thread},
              [&] {
                return fmt::format("warps of block {} wait at barrier {} for {} threads and for {}",
                                   block_of(*warp), warp->waits_for, expected, instruction.width);
              });
  }
  if (std::ssize(here) * kLanes != instruction.width) return;
  order_.synchronise(here);
  for (const int64_t first : here) {
    warps_[static_cast<size_t>(first / kLanes)].state = State::kReady;
  }
  has_woken_ = true;
}

bool BlockExecutor::pass_barrier() {
  const auto waits = [](const Warp& warp) { return warp.state != State::kFinished; };
  const auto first = std::ranges::find_if(warps_, waits);
  if (first == warps_.end()) return false;
  const auto all_at = [](std::span<Warp> warps, State state) {
    return std::ranges::all_of(warps, [&](const Warp& warp) { return warp.state == state; });
  };
  bool has_passed = false;
  if (all_at(warps_, State::kAtClusterBarrier)) {
    pass(warps_);
    has_passed = true;
  }
  for (size_t rank = 0; rank < shared_.size(); ++rank) {
    if (!all_at(warps_of(rank), State::kAtBarrier)) continue;
    pass(warps_of(rank));
    has_passed = true;
  }
  if (has_passed) return true;
  const kir::StmtId stmt = stmt_waited_at(*first);
  log_->add({.kind = FindingKind::kDeadlock,
             .stmt = stmt,
             .block = block_of(*first),
             .count = std::ranges::count_if(warps_, waits)},
            [&] {
              return fmt::format("block {} waits for what never happens: {}", block_of(*first),
                                 states_of_warps());
            });
  return false;
}

void BlockExecutor::pass(std::span<Warp> warps) {
  const Warp& first = warps.front();
  const auto elsewhere = std::ranges::find_if(
      warps, [&](const Warp& warp) { return warp.position != first.position; });
  if (elsewhere != warps.end()) {
    log_->add({.kind = FindingKind::kDivergentBarrier,
               .stmt = program_.code[elsewhere->position - 1].stmt,
               .block = block_of(*elsewhere),
               .thread = elsewhere->first_thread},
              [&] {
                return fmt::format("the warps of block {} wait at different barriers: {}",
                                   block_of(*elsewhere), states_of_warps());
              });
  }
  std::vector<int64_t> first_actors;
  for (Warp& warp : warps) {
    warp.state = State::kReady;
    first_actors.push_back(warp.first_actor);
  }
  order_.synchronise(first_actors);
}

void BlockExecutor::check_limits() {
  constexpr size_t kWarps = 4;  // Of a group that shares its registers (PTX ISA, "setmaxnreg").
  for (size_t i = 0; i < warps_.size(); ++i) {
    const Warp& warp = warps_[i];
    const Warp& first = warps_[i / kWarps * kWarps];
    const int64_t block = block_of(warp);
    if (warp.group_work != first.group_work) {
      log_->add(
          {.kind = FindingKind::kDivergentMatrix, .block = block, .thread = warp.first_thread},
          [&] {
            return fmt::format(
                "warp {} of block {} has executed other products than warp {} of its "
                "warp group",
                warp.first_thread / kLanes, block, first.first_thread / kLanes);
          });
    }
    if (warp.limits == first.limits) continue;
    log_->add({.kind = FindingKind::kDivergentLimit, .block = block, .thread = warp.first_thread},
              [&] {
                return fmt::format("warp {} of block {} has set other register limits than warp {}",
                                   warp.first_thread / kLanes, block, first.first_thread / kLanes);
              });
  }
}

kir::StmtId BlockExecutor::stmt_waited_at(const Warp& warp) const {
  // A warp repeats a wait for an mbarrier, a message or a cluster, and is behind a barrier already.
  const bool repeats = warp.state == State::kAtMbarrier || warp.state == State::kAtMessage ||
                       warp.state == State::kAtClusterWait;
  const uint32_t behind = repeats ? 0 : 1;
  return program_.code[warp.position - behind].stmt;
}

kir::StmtId BlockExecutor::next_stmt(const Warp& warp) const {
  return program_.code[warp.position].stmt;
}

void BlockExecutor::check_converged(FindingKind kind, const Warp& warp,
                                    const Instruction& instruction) {
  if (warp.mask == kAllLanes) return;
  log_->add({.kind = kind,
             .stmt = instruction.stmt,
             .block = block_of(warp),
             .thread = warp.first_thread + std::countr_zero(~warp.mask)},
            [&] {
              return fmt::format("only lanes {:#010x} of warp {} of block {} take part", warp.mask,
                                 warp.first_thread / kLanes, block_of(warp));
            });
}

void BlockExecutor::report_step_limit(const Warp& warp) {
  log_->add({.kind = FindingKind::kStepLimit,
             .stmt = next_stmt(warp),
             .block = block_of(warp),
             .thread = warp.first_thread},
            [&] {
              return fmt::format("warp {} of block {} has executed {} instructions: {}",
                                 warp.first_thread / kLanes, block_of(warp), warp.steps,
                                 states_of_warps());
            });
}

std::string BlockExecutor::states_of_warps() const {
  std::string text;
  for (const Warp& warp : warps_) {
    if (!text.empty()) text += "; ";
    const auto out = std::back_inserter(text);
    std::string number = fmt::format("{}", warp.first_thread / kLanes);
    if (kir::blocks_together(kernel_) > 1) number += fmt::format(" of block {}", block_of(warp));
    switch (warp.state) {
      case State::kReady:
        fmt::format_to(out, "warp {} runs, lanes {:#010x}, at {}", number, warp.mask,
                       describe(kernel_, next_stmt(warp)));
        break;
      case State::kAtBarrier:
      case State::kAtClusterBarrier:
      case State::kAtClusterWait:
      case State::kAtGroupBarrier:
      case State::kAtMessage:
        fmt::format_to(out, "warp {} waits, lanes {:#010x}, at {}", number, warp.mask,
                       describe(kernel_, stmt_waited_at(warp)));
        break;
      case State::kAtMbarrier:
        fmt::format_to(out, "warp {} waits, lanes {:#010x}, at {}, and {}", number,
                       warp.mask & ~warp.passed, describe(kernel_, stmt_waited_at(warp)),
                       mbarriers_[warp.rank].state_of(warp.waits_for));
        break;
      case State::kFinished:
        fmt::format_to(out, "warp {} has finished", number);
        break;
    }
  }
  return text;
}

}  // namespace sinter::interpreter
