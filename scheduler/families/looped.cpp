#include "scheduler/families/looped.h"

#include <algorithm>

#include "scheduler/row_estimate.h"

namespace sinter {
namespace {

constexpr std::string_view kName = "looped";
constexpr int64_t kMostUnroll =
    16;  // 16 vectors of 16 bytes are 64 registers, all that a thread should have in flight.

std::vector<Rejection> check_segment(const SegmentFacts& facts) {
  std::vector<Rejection> rejections = check_row_segment(facts, kName);
  if (rejections.empty() && facts.has_outer()) {
    rejections.push_back(
        {.subject = std::string(kName),
         .rule = "a run-time loop over a row's chunks cannot keep accumulators of columns",
         .value = static_cast<double>(facts.outer_reductions.size()),
         .limit = 0,
         .unit = "outer reductions",
         .remedy = "the multi_wave family unrolls the row and keeps them in registers"});
  }
  return rejections;
}

tl::expected<ResourceEstimate, Rejection> estimate_stages(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const StageList& list,
                                                          const DeviceLimits& limits) {
  for (const Rejection& rejection : check_segment(facts)) return tl::make_unexpected(rejection);
  if (auto rejection = check_row_schedule(facts, schedule, limits))
    return tl::make_unexpected(*rejection);
  for (const PersistentValue& kept : schedule.persistent) {
    if (kept.residency == Residency::kReload) continue;
    return tl::make_unexpected(
        Rejection{.subject = std::string(kName),
                  .rule = "a looped schedule keeps nothing resident",
                  .at = kept.value,
                  .remedy = "use the multi_wave family, or residency reload"});
  }
  if (schedule.unroll > kMostUnroll) {
    return tl::make_unexpected(Rejection{.subject = std::string(kName),
                                         .rule = "too many batches are loaded at once",
                                         .value = static_cast<double>(schedule.unroll),
                                         .limit = static_cast<double>(kMostUnroll),
                                         .unit = "batches",
                                         .remedy = "use a smaller unroll"});
  }
  ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, limits);
  if (auto rejection = fits(estimate, limits)) {
    rejection->subject = kName;
    return tl::make_unexpected(*rejection);
  }
  return estimate;
}

}  // namespace

tl::expected<ResourceEstimate, Rejection> estimate_looped(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const DeviceLimits& limits) {
  return estimate_stages(facts, schedule, distribute(facts, schedule.persistent), limits);
}

Proposal propose_looped(const SegmentFacts& facts, const DeviceLimits& limits) {
  Proposal proposal;
  proposal.rejections = check_segment(facts);
  if (!proposal.rejections.empty()) return proposal;
  std::optional<Rejection> nearest;
  const StageList list = distribute(facts, {});
  const bool reads_again = std::ranges::count_if(list.stages, [&](const Stage& stage) {
                             return std::ranges::any_of(
                                 stage.loads, [&](ValueId value) { return facts.is_full(value); });
                           }) > 1;
  for (const RowVector& vector : row_vectors(facts)) {
    for (int64_t threads = 1; threads <= limits.threads_per_block; threads *= 2) {
      if (threads > 1 && (threads / 2) * vector.width >= std::max<int64_t>(facts.space.columns, 1))
        break;
      for (int64_t unroll = 1; unroll <= kMostUnroll; unroll *= 2) {
        Schedule schedule{.family = std::string(kName),
                          .threads_per_row = threads,
                          .rows_per_block = std::max<int64_t>(128 / threads, 1),
                          .vector_width = vector.width,
                          .unroll = unroll,
                          .row_access = vector.access,
                          .read_priority = read_priority(facts, limits, reads_again)};
        if (unroll > 1 && unroll > batch_count(facts, schedule)) break;
        for (const int64_t blocks : occupancies(facts, schedule, list, limits)) {
          schedule.min_blocks_per_sm = blocks;
          auto estimate = estimate_stages(facts, schedule, list, limits);
          if (!estimate) {
            nearest = estimate.error();
            break;
          }
          const WorkEstimate work = estimate_row_work(facts, schedule, list, *estimate, limits);
          const Prediction predicted = predict(work, *estimate, limits);
          proposal.candidates.push_back({schedule, *estimate, predicted});
        }
      }
    }
  }
  if (proposal.candidates.empty() && nearest) proposal.rejections.push_back(*nearest);
  return proposal;
}

}  // namespace sinter
