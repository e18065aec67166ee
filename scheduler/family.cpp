#include "scheduler/family.h"

#include "scheduler/families/column.h"
#include "scheduler/families/looped.h"
#include "scheduler/families/multi_wave.h"
#include "scheduler/families/pointwise.h"
#include "scheduler/families/warp_specialised.h"
#include "scheduler/row_estimate.h"

namespace sinter {

const Family* find_family(const FamilySet& families, std::string_view name) {
  for (const Family& family : families) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

FamilySet scheduling_families() {
  // Ties in predicted time go to the earlier family: the simpler one.
  return {
      {.name = "pointwise",
       .propose = propose_pointwise,
       .estimate = estimate_pointwise,
       .predict = predict_pointwise,
       .lower = {}},
      {.name = "column",
       .propose = propose_column,
       .estimate = estimate_column,
       .predict = predict_column,
       .lower = {},
       .draws_tickets = true},
      {.name = "looped",
       .propose = propose_looped,
       .estimate = estimate_looped,
       .predict = predict_looped,
       .lower = {},
       .leaves_partials = true},
      {.name = "multi_wave",
       .propose = propose_multi_wave,
       .estimate = estimate_multi_wave,
       .predict = predict_rows,
       .lower = {},
       .leaves_partials = true,
       .draws_tickets = true},
      {.name = "warp_specialised",
       .propose = propose_warp_specialised,
       .estimate = estimate_warp_specialised,
       .predict =
           [](const SegmentFacts& facts, const Schedule& schedule, const ResourceEstimate& estimate,
              const DeviceLimits& limits) {
             return predict_warp_specialised(facts, schedule, estimate, limits);
           },
       .lower = {},
       .knows_waits = true,
       .leaves_partials = true,
       .draws_tickets = true},
  };
}

}  // namespace sinter
