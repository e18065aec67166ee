#include "runtime/interpreter/mbarriers.h"

#include <fmt/format.h>

#include <algorithm>

namespace sinter::interpreter {

Mbarriers::Mbarriers(const kir::Kernel& kernel, int64_t rank, HappensBefore* order, FindingLog* log)
    : kernel_(kernel),
      first_thread_(rank * kernel.threads),
      first_actor_(rank * count_of(kernel)),
      order_(order),
      log_(log) {
  for (uint32_t i = 0; i < kernel.mbarriers.size(); ++i) {
    const kir::MbarrierId array{i};
    first_.push_back(static_cast<int64_t>(states_.size()));
    for (int64_t k = 0; k < kernel.mbarriers[array].count; ++k) {
      State& state = states_.emplace_back();
      state.array = array;
      state.index = k;
      state.expected = kernel.mbarriers[array].arrivals;
    }
  }
}

int64_t Mbarriers::count_of(const kir::Kernel& kernel) {
  int64_t count = 0;
  for (const kir::Mbarrier& mbarrier : kernel.mbarriers) count += mbarrier.count;
  return count;
}

void Mbarriers::start_block() {
  is_initialised_ = false;
  for (State& state : states_) {
    state = {.array = state.array, .index = state.index, .expected = state.expected};
    state.pending = state.expected;
  }
}

std::string Mbarriers::name_of(const State& state) const {
  return fmt::format("{}[{}]", kernel_.mbarriers[state.array].name, state.index);
}

std::string Mbarriers::state_of(int64_t number) const {
  const State& state = states_[static_cast<size_t>(number)];
  return fmt::format("{} in phase {} lacks {} arrivals and {} bytes", name_of(state), state.phase,
                     state.pending, state.bytes);
}

void Mbarriers::end_block(int64_t block) {
  for (const State& state : states_) {
    if (state.copied <= state.awaited) continue;
    log_->add({.kind = FindingKind::kAsyncNeverAwaited, .stmt = state.copy_stmt, .block = block},
              [&] {
                return fmt::format(
                    "block {} ends, and no thread has waited for phase {} of {}, "
                    "which bulk copies arrive at",
                    block, state.copied - 1, name_of(state));
              });
  }
}

void Mbarriers::initialise(const WarpSite& site) {
  if (site.first_thread != 0 || (site.mask & 1U) == 0) return;
  start_block();
  is_initialised_ = true;
  initialised_at_ = order_->now(first_thread_);
}

int64_t Mbarriers::find(const WarpSite& site, int lane, kir::MbarrierId array, int64_t index) {
  const int64_t thread = site.first_thread + lane;
  const kir::Mbarrier& mbarrier = kernel_.mbarriers[array];
  const auto report = [&](FindingKind kind, const char* problem) {
    log_->add(
        {.kind = kind, .stmt = site.stmt, .index = index, .block = site.block, .thread = thread},
        [&] {
          return fmt::format("thread {} of block {} uses {}[{}], {}", thread, site.block,
                             mbarrier.name, index, problem);
        });
    return -1;
  };
  if (index < 0 || index >= mbarrier.count) {
    return report(FindingKind::kSharedOutOfBounds, "which is not in the array");
  }
  if (!is_initialised_ || !order_->knows(site.first_actor + lane, first_thread_, initialised_at_)) {
    return report(FindingKind::kMbarrierUninitialised,
                  "and no barrier follows its initialisation by thread 0");
  }
  return first_[array.index] + index;
}

bool Mbarriers::arrive(const WarpSite& site, int lane, int64_t number, int64_t bytes) {
  State& state = at(number);
  const int64_t thread = site.first_thread + lane;
  const int64_t actor = actor_of(number);
  // An arrival that is too many completes the phase early and falls into the next one, in some
  // order of the run. In all of them its thread does not come after the phase that it missed.
  const bool is_early = state.phase > 0 && !order_->knows(site.first_actor + lane, actor,
                                                          order_->time_of_phase(state.phase - 1));
  if (state.pending == 0 || is_early) {
    log_->add({.kind = FindingKind::kMbarrierArrivals,
               .stmt = site.stmt,
               .index = state.index,
               .block = site.block,
               .thread = thread},
              [&] {
                return fmt::format(
                    "thread {} of block {} arrives at {}, whose phases expect {} "
                    "arrivals, not after phase {} is complete",
                    thread, site.block, name_of(state), state.expected,
                    state.pending == 0 ? state.phase : state.phase - 1);
              });
  }
  order_->release(site.first_actor + lane, &state.collected);
  if (state.pending == 0) return false;
  state.bytes += bytes;
  --state.pending;
  return complete_if_done(number, site);
}

uint32_t Mbarriers::start_copy(const WarpSite& site, int64_t number) {
  State& state = at(number);
  state.copy_stmt = site.stmt;
  ++state.copies;
  state.copied = state.phase + 1;
  return state.phase;
}

bool Mbarriers::land(const WarpSite& site, int64_t number, uint32_t phase, int64_t bytes) {
  State& state = at(number);
  // The phase went by without it, which has been reported; it must not spoil the next ones.
  if (phase != state.phase) return false;
  --state.copies;
  state.bytes -= bytes;
  return complete_if_done(number, site);
}

bool Mbarriers::complete_if_done(int64_t number, const WarpSite& site) {
  State& state = at(number);
  const bool is_over = state.pending == 0 && state.bytes <= 0;
  if (is_over && (state.bytes != 0 || state.copies != 0)) {
    log_->add({.kind = FindingKind::kMbarrierBytes,
               .stmt = state.copy_stmt,
               .index = state.index,
               .block = site.block},
              [&] {
                return fmt::format(
                    "phase {} of {} is complete before {} bulk copies that began in "
                    "it have come, and after {} bytes more than it expects",
                    state.phase, name_of(state), state.copies, -state.bytes);
              });
  }
  if (!is_over) return false;
  state.complete = std::move(state.collected);
  state.collected.clear();
  state.complete[static_cast<size_t>(actor_of(number))] = order_->time_of_phase(state.phase);
  ++state.phase;
  state.pending = state.expected;
  state.bytes = 0;
  state.copies = 0;
  return true;
}

bool Mbarriers::wait(const WarpSite& site, int64_t number, int64_t parity) {
  State& state = at(number);
  if ((state.phase & 1U) == (static_cast<uint64_t>(parity) & 1U)) return false;
  order_->acquire(site.first_actor, site.mask, state.complete);
  state.awaited = std::max(state.awaited, state.phase);
  return true;
}

}  // namespace sinter::interpreter
