#include "scheduler/families/looped.h"

#include <algorithm>
#include <bit>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/budgets/grid.h"
#include "scheduler/budgets/row_resources.h"
#include "scheduler/cost/read_priority.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/cost/two_pass_work.h"
#include "scheduler/families/row_rules.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/schedule/two_pass.h"

namespace sinter {
namespace {

constexpr std::string_view kName = kLooped;
constexpr int64_t kMostUnroll =
    16;  // 16 vectors of 16 bytes are 64 registers, the most that a thread should have in flight.

constexpr int64_t kBlockThreads = 128;  ///< About; for blocks of several short rows.

// Elements of a row that a thread of a two-pass schedule has in flight: up to two rounds of 16-byte
// loads in bf16. More need registers that additional warps would use better to hide latency.
constexpr int64_t kTileElements[] = {8, 16};
// Number of the best schedules that are also offered with the next row prefetched: more would
// lengthen planning.
constexpr size_t kOffersAhead = 2;
constexpr int64_t kLeastTwoPassThreads = 256;  // If a row has that many vectors.

std::vector<Rejection> check_segment(const SegmentFacts& facts) {
  std::vector<Rejection> rejections = check_row_segment(facts, kName);
  if (!rejections.empty()) return rejections;
  if (auto rejection = check_outer_reductions(facts, kName)) rejections.push_back(*rejection);
  return rejections;
}

constexpr int64_t kLeastNonPersistentThreads = 64;  ///< Of a non-persistent block of one row.
/// Most elements of a row that a thread of a non-persistent grid has in flight: eight 16-byte loads
/// in bf16.
constexpr int64_t kMostNonPersistentElements = 64;

/// A schedule whose blocks divide the columns of a row as those of a cluster do.
Schedule of_cluster(int64_t size) { return {.parameters = LoopedParameters{.cluster_size = size}}; }

/// Larger clusters while rows leave SMs idle. If columns are accumulated, also while each thread of
/// a smaller block still has a vector: they leave fewer partial results, and fewer rows in flight
/// in L2.
std::vector<int64_t> two_pass_clusters(const SegmentFacts& facts, const DeviceLimits& limits,
                                       int64_t width) {
  return sinter::cluster_sizes(largest_unstranded_cluster(limits), [&](int64_t size) {
    const int64_t vectors = columns_per_block(facts, of_cluster(2 * size)) / width;
    const bool saves = accumulates_columns(facts) && vectors >= kLeastTwoPassThreads;
    return facts.space.rows * size < limits.sm_count || saves;
  });
}

/// The first rule that a schedule breaks regardless of its resources.
std::optional<Rejection> check_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list, const DeviceLimits& limits) {
  if (auto rejection = check_row_schedule(facts, schedule, limits)) return rejection;
  if (facts.has_outer()) {
    if (auto rejection = check_two_pass(facts, schedule, list)) return rejection;
  } else if (schedule.rows_per_tile() != 0) {
    return rejected(schedule, "only reductions over the rows take two passes over a tile",
                    schedule.rows_per_tile(), 0, "rows per tile", "leave rows_per_tile out");
  }
  for (const KeptValue& kept : schedule.kept) {
    if (!is_kept(kept)) continue;
    return Rejection{.subject = std::string(kName),
                     .rule = "a looped schedule keeps nothing resident",
                     .at = kept.value,
                     .remedy = "use the multi_wave family, or residency reload"};
  }
  return check_unroll(facts, schedule, kMostUnroll);
}

/// Requires a schedule that passes check_schedule().
tl::expected<ResourceEstimate, Rejection> estimate_stages(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const StageList& list,
                                                          const RowNeeds& needs,
                                                          const DeviceLimits& limits) {
  ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, needs, limits);
  if (facts.has_outer() && estimate.registers > limits.registers_per_thread) {
    return tl::make_unexpected(
        Rejection{.subject = std::string(kName),
                  .rule = "what a thread accumulates of a chunk exceeds its registers",
                  .value = static_cast<double>(estimate.registers),
                  .limit = static_cast<double>(limits.registers_per_thread),
                  .unit = "registers",
                  .at = largest_tensor(facts, schedule),
                  .remedy = "use a smaller unroll, or narrower vectors"});
  }
  if (auto rejection = over_budget(facts, schedule, estimate, limits))
    return tl::make_unexpected(*rejection);
  return estimate;
}

Prediction predict_two_pass(const SegmentFacts& facts, const Schedule& schedule,
                            const StageList& list, const ResourceEstimate& estimate,
                            const DeviceLimits& limits) {
  const WorkEstimate work = is_non_persistent(facts, schedule)
                                ? estimate_row_work(facts, schedule, list, estimate, limits)
                                : estimate_two_pass_work(facts, schedule, list, estimate, limits);
  return predict(work, estimate, limits);
}

}  // namespace

tl::expected<ResourceEstimate, Rejection> estimate_looped(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const DeviceLimits& limits) {
  for (const Rejection& rejection : check_segment(facts)) return tl::make_unexpected(rejection);
  const StageList list = stages_of(facts, schedule);
  if (auto rejection = check_schedule(facts, schedule, list, limits))
    return tl::make_unexpected(*rejection);
  return estimate_stages(facts, schedule, list, row_needs(facts, schedule, list), limits);
}

Prediction predict_looped(const SegmentFacts& facts, const Schedule& schedule,
                          const ResourceEstimate& estimate, const DeviceLimits& limits) {
  if (schedule.rows_per_tile() == 0) return predict_rows(facts, schedule, estimate, limits);
  return predict_two_pass(facts, schedule, distribute_two_pass(facts), estimate, limits);
}

namespace {

/// Offers tiled two-pass schedules.
class TwoPassOffers {
 public:
  TwoPassOffers(const SegmentFacts& facts, const DeviceLimits& limits)
      : facts_(facts),
        limits_(limits),
        list_(distribute_two_pass(facts)),
        goes_once_(goes_through_once(facts, list_)),
        goes_through_(!list_.stages.back().loads.empty()),
        reads_again_(facts.has_reduction() && goes_through_) {}

  Proposal run() {
    std::vector<RowVector> vectors = row_vectors(facts_);
    // If the second pass goes through chunks of columns for one row after the other, a vector must
    // have the same alignment in all rows.
    if (!goes_once_)
      std::erase_if(vectors, [](const RowVector& v) { return v.access == RowAccess::kUnaligned; });
    if (vectors.empty()) vectors.push_back({1, RowAccess::kScalar});
    for (const RowVector& vector : vectors) {
      for (const int64_t cluster : two_pass_clusters(facts_, limits_, vector.width)) {
        if (cluster == 1 || vector.access == RowAccess::kAligned) try_blocks(vector, cluster);
      }
      // Totals are few enough for every row to leave its own partial result.
      if (goes_once_) try_non_persistent(vector);
    }
    try_prefetch_rows();
    if (proposal_.candidates.empty() && nearest_) proposal_.rejections.push_back(*nearest_);
    return std::move(proposal_);
  }

 private:
  void try_blocks(const RowVector& vector, int64_t cluster) {
    const int64_t vectors =
        std::max<int64_t>(columns_per_block(facts_, of_cluster(cluster)) / vector.width, 1);
    // With more threads than vectors some lanes would always be idle.
    const auto filled = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(vectors)));
    const int64_t widest = std::clamp<int64_t>(filled, 32, limits_.threads_per_block);
    for (int64_t threads = std::min(widest, kLeastTwoPassThreads); threads <= widest;
         threads *= 2) {
      for (const int64_t elements : kTileElements) {
        Schedule schedule{
            .family = std::string(kName),
            .parameters = LoopedParameters{.cluster_size = cluster, .rows_per_tile = 1},
            .threads_per_row = threads,
            .vector_width = vector.width,
            .unroll = std::max<int64_t>(elements / vector.width, 1),
            .persistent_blocks = cluster,
            .row_access = vector.access,
            .read_priority = read_priority(facts_, limits_, reads_again_),
            .dependent_launch = partials_dependent_launch(facts_, limits_)};
        if (elements != kTileElements[0] && schedule.unroll > batch_count(facts_, schedule)) break;
        try_two_pass(schedule);
      }
    }
  }

  /// Non-persistent grid, a block per row that leaves the row's partial totals: no block has more
  /// rows than others, and an SM starts the next block as soon as one ends.
  void try_non_persistent(const RowVector& vector) {
    const int64_t vectors = std::max<int64_t>(facts_.space.columns / vector.width, 1);
    const auto filled = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(vectors)));
    const int64_t widest = std::min(filled, limits_.threads_per_block);
    for (int64_t threads = kLeastNonPersistentThreads; threads <= widest; threads *= 2) {
      for (int64_t unroll = 1; unroll * vector.width <= kMostNonPersistentElements; unroll *= 2) {
        Schedule schedule{.family = std::string(kName),
                          .parameters = LoopedParameters{.rows_per_tile = 1},
                          .threads_per_row = threads,
                          .vector_width = vector.width,
                          .unroll = unroll,
                          .persistent_blocks = std::max<int64_t>(facts_.space.rows, 1),
                          .row_access = vector.access,
                          .read_priority = read_priority(facts_, limits_, reads_again_),
                          .dependent_launch = partials_dependent_launch(facts_, limits_)};
        if (unroll > 1 && unroll > batch_count(facts_, schedule)) break;
        for (const int64_t blocks :
             occupancies(facts_, schedule, row_needs(facts_, schedule, list_), limits_)) {
          schedule.min_blocks_per_sm = blocks;
          if (!offer(schedule)) break;
        }
      }
    }
  }

  /// The best schedules with the next row prefetched, if a tile has several rows.
  void try_prefetch_rows() {
    std::vector<ProposedSchedule>& all = proposal_.candidates;
    const size_t count = std::min(kOffersAhead, all.size());
    std::vector<ProposedSchedule> best(count);
    std::ranges::partial_sort_copy(
        all, best, {}, [](const ProposedSchedule& p) { return p.predicted.total_us; },
        [](const ProposedSchedule& p) { return p.predicted.total_us; });
    for (ProposedSchedule& candidate : best) {
      std::get<LoopedParameters>(candidate.schedule.parameters).prefetch_rows = 1;
      // Elements that are loaded one by one take a register each until they are packed.
      const bool packed = candidate.schedule.row_access != RowAccess::kScalar;
      if (packed && goes_through_ && candidate.schedule.rows_per_tile() > 1)
        try_two_pass(candidate.schedule);
    }
  }

  void try_two_pass(Schedule& schedule) {
    const int64_t blocks =
        occupancies(facts_, schedule, row_needs(facts_, schedule, list_), limits_).front();
    schedule.min_blocks_per_sm = blocks;
    schedule.persistent_blocks = persistent_grid(facts_, schedule, limits_);
    for (const int64_t rows : tile_lengths(facts_, schedule, list_, limits_, blocks)) {
      std::get<LoopedParameters>(schedule.parameters).rows_per_tile = rows;
      if (!offer(schedule)) return;
    }
  }

  /// False if the schedule does not fit.
  bool offer(const Schedule& schedule) {
    if (auto rejection = check_schedule(facts_, schedule, list_, limits_)) {
      nearest_ = std::move(rejection);
      return false;
    }
    const RowNeeds needs = row_needs(facts_, schedule, list_);
    const auto estimate = estimate_stages(facts_, schedule, list_, needs, limits_);
    if (!estimate) {
      nearest_ = estimate.error();
      return false;
    }
    proposal_.candidates.push_back(
        {schedule, *estimate, predict_two_pass(facts_, schedule, list_, *estimate, limits_)});
    return true;
  }

  const SegmentFacts& facts_;
  const DeviceLimits& limits_;
  const StageList list_;
  const bool goes_once_;     ///< Tiles need no second pass.
  const bool goes_through_;  ///< The second pass over a tile loads values.
  const bool reads_again_;   ///< The second pass reads what the first has read.
  Proposal proposal_;
  std::optional<Rejection> nearest_;
};

}  // namespace

Proposal propose_looped(const SegmentFacts& facts, const DeviceLimits& limits) {
  Proposal proposal;
  proposal.rejections = check_segment(facts);
  if (!proposal.rejections.empty()) return proposal;
  if (facts.has_outer()) return TwoPassOffers(facts, limits).run();
  std::optional<Rejection> nearest;
  const StageList list = distribute(facts, {});
  const bool reads_again = std::ranges::count_if(list.stages, [&](const Stage& stage) {
                             return std::ranges::any_of(
                                 stage.loads, [&](ValueId value) { return facts.is_full(value); });
                           }) > 1;
  for (const RowVector& vector : row_vectors(facts)) {
    const StageCosts costs(facts, {.vector_width = vector.width, .row_access = vector.access}, list,
                           limits.cost);
    StageRegisters registers(facts, list, costs.kinds);
    for (int64_t threads = 1; threads <= limits.threads_per_block; threads *= 2) {
      if (threads > 1 && (threads / 2) * vector.width >= std::max<int64_t>(facts.space.columns, 1))
        break;
      for (int64_t unroll = 1; unroll <= kMostUnroll; unroll *= 2) {
        Schedule schedule{.family = std::string(kName),
                          .parameters = LoopedParameters{},
                          .threads_per_row = threads,
                          .rows_per_block = offered_rows(facts, kBlockThreads, threads),
                          .vector_width = vector.width,
                          .unroll = unroll,
                          .row_access = vector.access,
                          .read_priority = read_priority(facts, limits, reads_again)};
        if (unroll > 1 && unroll > batch_count(facts, schedule)) break;
        const RowNeeds needs = row_needs(facts, schedule, list, registers);
        for (const int64_t blocks : occupancies(facts, schedule, needs, limits)) {
          schedule.min_blocks_per_sm = blocks;
          if (auto rejection = check_schedule(facts, schedule, list, limits)) {
            nearest = std::move(rejection);
            break;
          }
          const auto estimate = estimate_stages(facts, schedule, list, needs, limits);
          if (!estimate) {
            nearest = estimate.error();
            break;
          }
          const WorkEstimate work = estimate_row_work(facts, schedule, costs, *estimate, limits);
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
