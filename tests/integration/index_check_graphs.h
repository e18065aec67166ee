#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "fusion_ir/fusion.h"
#include "runtime/oracle/host_tensor.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

// Graphs with takes whose plans check indices, and inputs with chosen indices.

inline constexpr int64_t kFarBelow = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kFarAbove = std::numeric_limits<int64_t>::max();

Result<Plan> checked_plan(const Fusion& fusion, const ExtentValues& extents, SchedulePin pin = {});
/// Row losses of logits and labels, the ids of which are %v0 and %v1.
Fusion cross_entropy_fusion(DType labels = DType::kI64);
/// The value of a fusion's only take, or of its `nth`.
ValueId take_of(const Fusion& fusion, size_t nth = 0);
/// Random inputs with these labels, by element.
std::vector<HostTensor> inputs_with(const Fusion& fusion, const Binding& binding,
                                    const std::map<int64_t, int64_t>& labels, size_t input = 1,
                                    uint64_t seed = 1);
/// Row losses beside the rows' probabilities, for which rows stay where they are.
Fusion losses_and_probabilities(DType labels_type = DType::kI64);
/// Row losses beside what all rows add up to, for which blocks keep sums from row to row.
Fusion losses_and_column_sums();

}  // namespace sinter
