#pragma once

#include <span>
#include <vector>

#include "scheduler/families/family.h"

namespace sinter {

/// Which candidates of a segment, ranked best first, are worth measuring beside `incumbent`: at
/// most `count`, of different kinds rather than variants of the one predicted best, ordered by
/// predicted time. Half of them are the best predicted; the others come in turn from each kind
/// (family, where the row is kept, whether blocks persist, clusters, what finishes), the best of
/// each first. One that differs from another in a single field is left for last; what is predicted
/// to take more than kWorthMeasuring times the best is left out.
std::vector<ProposedSchedule> choose_challengers(std::span<const ProposedSchedule> candidates,
                                                 const Schedule& incumbent, size_t count);

/// Predicted times beyond this multiple of the least are not measured. The model misses schedules
/// of gradients by 8.6 % in the mean (docs/performance.md, sinter_regret), so both ends of such a
/// comparison would have to be off by more than twice that.
inline constexpr double kWorthMeasuring = 1.5;

}  // namespace sinter
