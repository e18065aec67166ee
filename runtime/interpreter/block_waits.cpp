// How the warps of a block wait for each other, and what is said when they do not: the members of
// BlockExecutor that concern barriers.

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
    const int64_t number =
        mbarriers_.find(site, warp->first_thread + first, instruction.mbarrier, index_of(first));
    // Nothing can be waited for where nothing is; that has been reported.
    if (number < 0 || mbarriers_.wait(site, number, parity_of(first))) {
      warp->passed |= alike;
    } else {
      warp->waits_for = number;
    }
  }
  if ((warp->mask & ~warp->passed) != 0) return false;
  warp->passed = 0;
  return true;
}

void BlockExecutor::wake_waiting() {
  for (Warp& warp : warps_) {
    if (warp.state != State::kAtMbarrier) continue;
    warp.state = State::kReady;
    has_woken_ = true;
  }
}

void BlockExecutor::wait_at_group_barrier(Warp* warp, const Instruction& instruction) {
  ++work_.barriers;
  if (warp->mask != kAllLanes) {
    report_divergence(FindingKind::kDivergentBarrier, *warp, instruction);
  }
  warp->state = State::kAtGroupBarrier;
  warp->waits_for = value_of<int32_t>(warp->at(instruction.a), std::countr_zero(warp->mask));
  std::vector<int64_t> here;
  for (const Warp& other : warps_) {
    if (other.state != State::kAtGroupBarrier || other.waits_for != warp->waits_for) continue;
    here.push_back(other.first_thread);
    // The warp itself has not stored its position yet.
    if (&other == warp) continue;
    const int32_t expected = program_.code[other.position - 1].width;
    if (expected == instruction.width) continue;
    log_->add({.kind = FindingKind::kDivergentBarrier,
               .stmt = instruction.stmt,
               .block = block_,
               .thread = warp->first_thread},
              [&] {
                return fmt::format("warps of block {} wait at barrier {} for {} threads and for {}",
                                   block_, warp->waits_for, expected, instruction.width);
              });
  }
  if (std::ssize(here) * kLanes != instruction.width) return;
  order_.meet(here);
  for (const int64_t first : here) {
    warps_[static_cast<size_t>(first / kLanes)].state = State::kReady;
  }
  has_woken_ = true;
}

bool BlockExecutor::pass_barrier() {
  const auto waits = [](const Warp& warp) { return warp.state != State::kFinished; };
  const auto first = std::ranges::find_if(warps_, waits);
  if (first == warps_.end()) return false;
  if (!std::ranges::all_of(warps_,
                           [](const Warp& warp) { return warp.state == State::kAtBarrier; })) {
    const kir::StmtId stmt = stmt_waited_at(*first);
    log_->add({.kind = FindingKind::kDeadlock,
               .stmt = stmt,
               .block = block_,
               .count = std::ranges::count_if(warps_, waits)},
              [&] {
                return fmt::format("block {} waits for what never happens: {}", block_,
                                   states_of_warps());
              });
    return false;
  }
  const auto elsewhere = std::ranges::find_if(
      warps_, [&](const Warp& warp) { return warp.position != first->position; });
  if (elsewhere != warps_.end()) {
    log_->add({.kind = FindingKind::kDivergentBarrier,
               .stmt = program_.code[elsewhere->position - 1].stmt,
               .block = block_,
               .thread = elsewhere->first_thread},
              [&] {
                return fmt::format("the warps of block {} wait at different barriers: {}", block_,
                                   states_of_warps());
              });
  }
  std::vector<int64_t> first_threads;
  for (Warp& warp : warps_) {
    warp.state = State::kReady;
    first_threads.push_back(warp.first_thread);
  }
  order_.meet(first_threads);
  return true;
}

void BlockExecutor::check_limits() {
  constexpr size_t kWarps = 4;  // Of a group that shares its registers (PTX ISA, "setmaxnreg").
  for (size_t i = 0; i < warps_.size(); ++i) {
    const Warp& warp = warps_[i];
    const Warp& first = warps_[i / kWarps * kWarps];
    if (warp.limits == first.limits) continue;
    log_->add({.kind = FindingKind::kDivergentLimit, .block = block_, .thread = warp.first_thread},
              [&] {
                return fmt::format("warp {} of block {} has set other register limits than warp {}",
                                   warp.first_thread / kLanes, block_, first.first_thread / kLanes);
              });
  }
}

kir::StmtId BlockExecutor::stmt_waited_at(const Warp& warp) const {
  // A warp repeats a wait for an mbarrier, and is behind a barrier already.
  const uint32_t behind = warp.state == State::kAtMbarrier ? 0 : 1;
  return program_.code[warp.position - behind].stmt;
}

kir::StmtId BlockExecutor::next_stmt(const Warp& warp) const {
  return program_.code[warp.position].stmt;
}

void BlockExecutor::report_divergence(FindingKind kind, const Warp& warp,
                                      const Instruction& instruction) {
  log_->add({.kind = kind,
             .stmt = instruction.stmt,
             .block = block_,
             .thread = warp.first_thread + std::countr_zero(~warp.mask)},
            [&] {
              return fmt::format("only lanes {:#010x} of warp {} of block {} take part", warp.mask,
                                 warp.first_thread / kLanes, block_);
            });
}

void BlockExecutor::report_step_limit(const Warp& warp) {
  log_->add({.kind = FindingKind::kStepLimit,
             .stmt = next_stmt(warp),
             .block = block_,
             .thread = warp.first_thread},
            [&] {
              return fmt::format("warp {} of block {} has executed {} instructions: {}",
                                 warp.first_thread / kLanes, block_, warp.steps, states_of_warps());
            });
}

std::string BlockExecutor::states_of_warps() const {
  std::string text;
  for (const Warp& warp : warps_) {
    if (!text.empty()) text += "; ";
    const auto out = std::back_inserter(text);
    const int64_t number = warp.first_thread / kLanes;
    switch (warp.state) {
      case State::kReady:
        fmt::format_to(out, "warp {} runs, lanes {:#010x}, at {}", number, warp.mask,
                       describe(kernel_, next_stmt(warp)));
        break;
      case State::kAtBarrier:
      case State::kAtGroupBarrier:
        fmt::format_to(out, "warp {} waits, lanes {:#010x}, at {}", number, warp.mask,
                       describe(kernel_, stmt_waited_at(warp)));
        break;
      case State::kAtMbarrier:
        fmt::format_to(out, "warp {} waits, lanes {:#010x}, at {}, and {}", number,
                       warp.mask & ~warp.passed, describe(kernel_, stmt_waited_at(warp)),
                       mbarriers_.state_of(warp.waits_for));
        break;
      case State::kFinished:
        fmt::format_to(out, "warp {} has finished", number);
        break;
    }
  }
  return text;
}

}  // namespace sinter::interpreter
