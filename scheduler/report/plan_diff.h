#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/plan/plan.h"

namespace sinter {

/// A number, or an id, of each of two plans.
template <class T>
struct Both {
  T a{};
  T b{};
  [[nodiscard]] bool differs() const { return a != b; }
  friend bool operator==(const Both&, const Both&) = default;
};

/// A kernel that two plans have in common; its fields may differ.
struct KernelDiff {
  Both<KernelId> segment;  ///< In each plan.
  bool same_graph = false;
  Both<int64_t> rows;
  Both<int64_t> columns;
  Both<int64_t> bytes_read;
  Both<int64_t> bytes_written;
  Both<double> predicted_us;
  std::vector<FieldChange> schedule{};  ///< Kept values are given by name.
  [[nodiscard]] bool equal() const {
    return same_graph && schedule.empty() && !rows.differs() && !columns.differs() &&
           !bytes_read.differs() && !bytes_written.differs() && !predicted_us.differs();
  }
  friend bool operator==(const KernelDiff&, const KernelDiff&) = default;
};

/// The differences between plan a and plan b.
struct PlanDiff {
  std::vector<FieldChange> problem{};  ///< Fusion, device, inputs and outputs.
  bool same_graph = false;  ///< After simplification and specialisation, except for names.
  std::vector<KernelDiff> kernels{};  ///< In the order of plan a.
  std::vector<KernelId> only_in_a{};  ///< Ascending.
  std::vector<KernelId> only_in_b{};
  std::vector<CallId> calls_only_in_a{};  ///< Ascending.
  std::vector<CallId> calls_only_in_b{};
  bool same_order = true;  ///< Order of the steps that both have.
  Both<double> predicted_us;
  Both<int64_t> bytes;  ///< Bytes that the kernels read and write.
  Both<int64_t> workspace_bytes;
  [[nodiscard]] bool equal() const;
  friend bool operator==(const PlanDiff&, const PlanDiff&) = default;
};

/// Compares two plans. Kernels of both are matched, each at most once, in this order: by the graph
/// and the names of the values they write, by all names, by the graph, by some names. Values
/// without a name are matched by their number if both graphs have the same ops in the same places,
/// as at other extents. A kernel that finishes partial results, or is one of two for rows and
/// columns, is matched with one of the same kind.
PlanDiff diff(const Plan& a, const Plan& b);

/// The differences for people; "the plans are equal\n" if there are none. Both plans must be those
/// that were compared.
std::string diff_text(const PlanDiff& diff, const Plan& a, const Plan& b);

/// "3 multi_wave (h, normed)"
std::string kernel_text(const Plan& plan, KernelId kernel);
/// "matmul (q)"
std::string call_text(const Plan& plan, CallId call);

}  // namespace sinter
