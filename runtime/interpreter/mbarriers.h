#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/kernel/kernel_ir.h"
#include "runtime/interpreter/happens_before.h"
#include "runtime/interpreter/memory_access.h"
#include "runtime/interpreter/report.h"

namespace sinter::interpreter {

/// The mbarriers of one block of a cluster at a time: their phases, what each still waits for, and
/// what threads that wait for them learn. All arrays are numbered through.
class Mbarriers {
 public:
  /// `rank` is the block's number in its cluster; `order` counts as many mbarriers as
  /// count_of(kernel) for each block. Both outlive this.
  Mbarriers(const kir::Kernel& kernel, int64_t rank, HappensBefore* order, FindingLog* log);
  static int64_t count_of(const kir::Kernel& kernel);

  void start_block();
  /// Reports bulk copies that no thread has waited for.
  void end_block(int64_t block);

  /// By thread 0, if it is active.
  void initialise(const WarpSite& site);
  /// The number of array[index] for a lane that may use it; otherwise reports and returns -1.
  int64_t find(const WarpSite& site, int lane, kir::MbarrierId array, int64_t index);
  /// The actor that a mbarrier is.
  [[nodiscard]] int64_t actor_of(int64_t number) const {
    return order_->actor_of_mbarrier(first_actor_ + number);
  }

  /// Each returns whether a phase is complete thereby.
  bool arrive(const WarpSite& site, int lane, int64_t number, int64_t bytes);
  bool land(const WarpSite& site, int64_t number, uint32_t phase,
            int64_t bytes);  ///< Bytes of a bulk copy.

  /// Begins a bulk copy; the answer is the phase it counts towards.
  uint32_t start_copy(const WarpSite& site, int64_t number);
  /// Tells whoever waits for the current phase what a thread has done.
  void collect(int64_t number, int64_t actor) { order_->release(actor, &at(number).collected); }
  /// Whether the phase of this parity is complete. If so, the threads have waited for it.
  bool wait(const WarpSite& site, int64_t number, int64_t parity);
  /// For a message: "full[1] in phase 2 lacks 1 arrivals and 512 bytes".
  [[nodiscard]] std::string state_of(int64_t number) const;

 private:
  struct State {
    kir::MbarrierId array{};
    int64_t index = 0;
    int64_t expected = 1;  ///< Arrivals of a phase.
    uint32_t phase = 0;    ///< The current one.
    int64_t pending = 0;   ///< Arrivals that it lacks.
    int64_t bytes = 0;     ///< That it lacks; negative while some have come unannounced.
    int64_t copies = 0;    ///< Begun in it and in flight.
    uint32_t copied = 0;   ///< Phases up to the last one with a copy.
    uint32_t awaited = 0;  ///< Phases up to the last one that a thread has waited for.
    kir::StmtId copy_stmt{};
    HappensBefore::Clock collected{};  ///< By the arrivals of the phase.
    HappensBefore::Clock complete{};   ///< What the phase before has collected.
  };

  State& at(int64_t number) { return states_[static_cast<size_t>(number)]; }
  bool complete_if_done(int64_t number, const WarpSite& site);
  [[nodiscard]] std::string name_of(const State& state) const;

  const kir::Kernel& kernel_;
  int64_t first_thread_;  ///< Thread 0 of the block as an actor.
  int64_t first_actor_;   ///< The block's first mbarrier among those of the cluster.
  HappensBefore* order_;
  FindingLog* log_;
  std::vector<State> states_;
  std::vector<int64_t> first_;  ///< Number of the first mbarrier of an array.
  bool is_initialised_ = false;
  HappensBefore::Time initialised_at_ = 0;
};

}  // namespace sinter::interpreter
