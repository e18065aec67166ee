#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "runtime/check/host_execution.h"
#include "tests/support/canned_fusions.h"

namespace sinter {

/// Canned fusions that are several kernels at any extents: outputs of different shapes that share
/// no iteration space.
const std::vector<std::string>& fusions_in_parts();
bool runs_in_parts(const CannedFusion& canned);
/// Statistics of no rows: a division by their number keeps the two passes from becoming one, and
/// rows wait for all rows, which takes several kernels.
bool is_mean_of_nothing(const CannedFusion& canned, const ExtentValues& extents);
/// All the others.
std::vector<CannedFusion> supported_fusions();

/// True if a graph has a contraction.
bool contracts(const Fusion& fusion);

/// Extents of a canned fusion with `columns` elements along its innermost axis, and `rows` rows if
/// it has that many to choose; other extents stay as small as they are.
ExtentValues extents_of_width(const CannedFusion& canned, int64_t columns, int64_t rows);
/// True if the innermost axis of the fusion is an extent at all.
bool has_width(const CannedFusion& canned);

/// Lowers a schedule of a planned segment, with every invariant of the kernel verified, compares
/// its shared bytes with the estimate, and holds the interpreter against the oracle. A failure
/// quotes the schedule.
testing::AssertionResult computes_the_oracle(const Fusion& fusion, const Plan& plan,
                                             const Schedule& schedule, uint64_t seed = 1);

/// The chosen schedule, and the best one of every family that offers any.
std::vector<Schedule> chosen_and_best_of_families(const KernelPlan& segment);

/// Names a parameterised test after its fusion.
inline std::string name_of_case(const testing::TestParamInfo<CannedFusion>& info) {
  return info.param.name;
}

}  // namespace sinter
