#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "codegen/kernel/kernel_ir.h"
#include "runtime/interpreter/happens_before.h"

namespace sinter::interpreter {

/// Which accesses to global memory come before which: inside a cluster by its barriers
/// (happens_before.h), there and between clusters by fences and atomics. What a thread knows at a
/// fence goes with the atomics that it does after it; who has found that in a counter knows it from
/// its next fence on, and passes it to its cluster at barriers.
class DeviceOrder {
 public:
  using Time = HappensBefore::Time;

  /// `order` outlives this, and orders the cluster at hand.
  explicit DeviceOrder(HappensBefore* order) : order_(order) {}

  /// Forgets what the threads of the cluster before knew, not what is in memory.
  void start_cluster(int64_t cluster);

  [[nodiscard]] int64_t threads() const { return order_->threads(); }
  [[nodiscard]] int64_t cluster() const { return cluster_; }
  [[nodiscard]] Time now(int64_t thread) const { return order_->now(thread); }

  void fence(int64_t thread);
  /// An atomic of a thread on an element of a buffer.
  void count(int64_t thread, kir::BufferId buffer, int64_t index);
  /// Whether what thread `actor` of a cluster did at `time` comes before what `thread` does next.
  [[nodiscard]] bool knows(int64_t thread, int64_t cluster, int64_t actor, Time time) const;

 private:
  /// By cluster, what is known of its threads. Clocks are shared: they do not change.
  using Knowledge = std::map<int64_t, std::shared_ptr<const HappensBefore::Clock>>;
  /// What a thread of the cluster learnt at a fence.
  struct Learnt {
    int64_t thread = 0;
    Time time = 0;
    Knowledge knowledge;
  };
  static void add(Knowledge* into, const Knowledge& more);

  HappensBefore* order_;
  int64_t cluster_ = 0;
  std::map<int64_t, Knowledge> fenced_;  ///< By thread: what its atomics tell.
  std::map<int64_t, Knowledge> found_;   ///< By thread: what its next fence lets it know.
  std::vector<Learnt> learnt_;
  std::map<std::pair<kir::BufferId, int64_t>, Knowledge> in_memory_;
};

}  // namespace sinter::interpreter
