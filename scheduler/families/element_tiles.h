#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/row_resources.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/families/row_rules.h"

namespace sinter {

/// Offers the schedules of a family whose blocks each take a tile of elements, one or several
/// vectors per thread. It tries every width of vector_widths() and every unroll up to
/// `most_unroll`. `walked` is the iteration space of a block; `base` has the fields that all
/// schedules share. If no schedule is legal, the last reason is added to the rejections.
/// `estimate(schedule)` and `predict(schedule, estimate)` are the family's functions.
template <class Estimate, class Predict>
void offer_tiles(Proposal& proposal, const SegmentFacts& walked, const StageList& stages,
                 const Schedule& base, int64_t most_unroll, const DeviceLimits& limits,
                 Estimate estimate, Predict predict) {
  const auto [widest, narrowest] = vector_widths(walked);
  std::optional<Rejection> nearest;
  for (int64_t width = widest; width >= narrowest; width /= 2) {
    for (const int64_t threads : {128, 256, 512}) {
      for (int64_t unroll = 1; unroll <= most_unroll; unroll *= 2) {
        Schedule schedule = base;
        schedule.threads_per_row = threads;
        schedule.rows_per_block = 1;
        schedule.vector_width = width;
        schedule.unroll = unroll;
        schedule.min_blocks_per_sm =
            occupancies(walked, schedule, row_needs(walked, schedule, stages), limits).front();
        auto estimated = estimate(schedule);
        if (!estimated) {
          nearest = estimated.error();
          continue;
        }
        const Prediction predicted = predict(schedule, *estimated);
        proposal.candidates.push_back({std::move(schedule), *estimated, predicted});
      }
    }
  }
  if (proposal.candidates.empty() && nearest) proposal.rejections.push_back(*nearest);
}

}  // namespace sinter
