#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/plan/plan.h"

namespace sinter {

/// A number of two plans.
template <class T>
struct Both {
  T a{};
  T b{};
  [[nodiscard]] bool differs() const { return a != b; }
  friend bool operator==(const Both&, const Both&) = default;
};

/// A kernel that two plans have in common, though not in all.
struct KernelDiff {
  Both<size_t> segment;  ///< Into each plan's segments.
  bool same_graph = false;
  Both<int64_t> rows;
  Both<int64_t> columns;
  Both<int64_t> bytes_read;
  Both<int64_t> bytes_written;
  Both<double> predicted_us;
  std::vector<FieldChange> schedule{};  ///< Values that are kept go by their names.
  [[nodiscard]] bool equal() const {
    return same_graph && schedule.empty() && !rows.differs() && !columns.differs() &&
           !bytes_read.differs() && !bytes_written.differs() && !predicted_us.differs();
  }
  friend bool operator==(const KernelDiff&, const KernelDiff&) = default;
};

/// What differs between plan a and plan b.
struct PlanDiff {
  std::vector<FieldChange> problem{};  ///< Fusion, device, and what the graph takes and gives.
  bool same_graph = false;             ///< Simplified and specialised, but for names.
  std::vector<KernelDiff> kernels{};   ///< In the order of a.
  std::vector<size_t> only_in_a{};     ///< Segments; ascending.
  std::vector<size_t> only_in_b{};
  std::vector<size_t> calls_only_in_a{};  ///< External calls; ascending.
  std::vector<size_t> calls_only_in_b{};
  bool same_order = true;  ///< Of what both run.
  Both<double> predicted_us;
  Both<int64_t> bytes;  ///< That the kernels read and write.
  Both<int64_t> workspace_bytes;
  [[nodiscard]] bool equal() const;
  friend bool operator==(const PlanDiff&, const PlanDiff&) = default;
};

/// Compares two plans. Kernels of both are matched, each at most once, by what is alike: first
/// graph and the names of what they write, then the names, then the graph, then some names. Values
/// without a name count by their number where both graphs have the same ops in the same places, as
/// at other extents. A kernel that finishes partial results, or is one of two for rows and columns,
/// is matched with its like.
PlanDiff diff(const Plan& a, const Plan& b);

/// The differences for people; "the plans are equal\n" if there are none. Both plans are those that
/// were compared.
std::string diff_text(const PlanDiff& diff, const Plan& a, const Plan& b);

/// "3 multi_wave (h, normed)"
std::string kernel_text(const Plan& plan, size_t segment);
/// "matmul (q)"
std::string call_text(const Plan& plan, size_t call);

}  // namespace sinter
