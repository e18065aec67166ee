#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fusion_ir/error.h"
#include "scheduler/plan/plan.h"

namespace sinter {

/// Indices of one take that were outside of its axis in an execution. Ids are those of the graph as
/// the caller wrote it.
struct OutsideIndices {
  ValueId take;           ///< Its result.
  ValueId index;          ///< Its index.
  std::string name{};     ///< Of the index; may be empty.
  Sizes position{};       ///< Of the first that is outside, in row-major order.
  int64_t first = 0;      ///< What the index is there.
  int64_t limit = 0;      ///< Elements of the axis: indices from 0 to limit - 1 are inside.
  int64_t outside = 0;    ///< How many are outside,
  int64_t looked_at = 0;  ///< of how many.
  /// "of %v3, 2 of 8192 indices %v1 'labels' are outside of the 50257 elements of the axis, first
  /// -1 at [17]".
  [[nodiscard]] std::string text() const;
  friend bool operator==(const OutsideIndices&, const OutsideIndices&) = default;
};

/// Those of every take that has some, in the order of Plan::index_checks. `kept` has the bytes of
/// each of Plan::kept_indices(), dense.
std::vector<OutsideIndices> find_outside_indices(const Plan& plan,
                                                 std::span<const std::span<const std::byte>> kept);

/// The first of them as an InvalidArgument: `values` are the take and its index, `measured` is the
/// index and `limit` the elements of the axis; the log has a line for each take.
Error outside_error(std::span<const OutsideIndices> found);

}  // namespace sinter
