#include "scheduler/families/multi_wave.h"

#include <algorithm>
#include <map>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/budgets/grid.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/budgets/row_resources.h"
#include "scheduler/cost/read_priority.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/families/row_rules.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/shared_memory.h"

namespace sinter {
namespace {

constexpr std::string_view kName = kMultiWave;
// Most batches of a resident row, whose loop is unrolled; beyond, code size and compile time grow
// without a gain.
constexpr int64_t kMostBatches = 32;
// Several short rows share a block of about this many threads, and so share barriers and block
// starts.
constexpr int64_t kShortRowBlockThreads[] = {128, 256};

/// Bytes of a row that a block keeps well in registers. An SM has 256 KiB; half of them are the
/// working registers of two blocks, of which one waits while the other works. The value is
/// absolute: as a share of the device's registers, more of them would leave sizes untried. Source:
/// docs/experiments/constants_choices.md.
constexpr int64_t kKeptWell = 65536;

// Number of the best schedules with rows in registers that are also offered with the next row
// prefetched, if vectors load it: elements that are loaded one by one take a register each until
// they are packed (docs/experiments/constants_choices.md). More offers would lengthen planning for
// schedules that are not chosen.
constexpr size_t kOffersAhead = 4;
// Batches of a row up to which the registers for two rows are estimated well enough to expect no
// spills (docs/experiments/constants_choices.md).
constexpr int64_t kMostPrefetchedBatches = 16;

/// Minimum threads of a block whose accumulators do not fit its registers.
constexpr int64_t kFewestThreadsOfLongRows = kShortRowBlockThreads[0];

/// A choice of kept values, and the stages that follow from it for any residency.
struct Kept {
  Kept(const SegmentFacts& facts, const std::vector<ValueId>& columns) : cut(facts.kept) {
    values = cut;
    values.insert(values.end(), columns.begin(), columns.end());
    std::ranges::sort(values);
    in_registers = with_cut_in(Residency::kRegister);
    in_shared = with_cut_in(Residency::kShared);
    list = distribute(facts, in_registers);
    split = split_cut(facts);
  }

  /// Weights read early are held in registers: shared memory is for values read once.
  [[nodiscard]] std::vector<KeptValue> with_cut_in(Residency residency) const {
    std::vector<KeptValue> out;
    for (const ValueId value : values) {
      out.push_back(
          {value, std::ranges::binary_search(cut, value) ? residency : Residency::kRegister});
    }
    return out;
  }

  /// Values of the cut divided between shared memory and registers, as evenly as their widths
  /// allow; empty for a cut of one value.
  [[nodiscard]] std::vector<KeptValue> split_cut(const SegmentFacts& facts) const {
    if (cut.size() < 2) return {};
    const auto width = [&](ValueId value) { return bytes_of(facts.fusion.values[value].type); };
    std::vector<KeptValue> out = in_registers;
    std::vector<ValueId> widest_first = cut;
    std::ranges::stable_sort(widest_first, std::ranges::greater{}, width);
    int64_t register_bytes = 0;
    int64_t shared_bytes = 0;
    for (const ValueId value : widest_first) {
      const bool to_shared = shared_bytes <= register_bytes;
      (to_shared ? shared_bytes : register_bytes) += width(value);
      if (to_shared)
        std::ranges::find(out, value, &KeptValue::value)->residency = Residency::kShared;
    }
    return out;
  }

  std::vector<ValueId> cut;
  std::vector<ValueId> values;  ///< The cut, and columns read early.
  std::vector<KeptValue> in_registers;
  std::vector<KeptValue> in_shared;
  std::vector<KeptValue> split;
  StageList list;
};

/// A schedule whose blocks divide the columns of a row as those of a cluster do.
Schedule of_cluster(int64_t size) {
  return {.parameters = MultiWaveParameters{.cluster_size = size}};
}

/// Larger clusters while rows leave SMs idle, or while a block's part of a row is longer than
/// registers keep well. Clusters that strand SMs are used for rows of which an SM would otherwise
/// hold only one or two parts (docs/experiments/constants_choices.md). For outer reductions they
/// were not timed.
std::vector<int64_t> cluster_sizes(const SegmentFacts& facts, const DeviceLimits& limits) {
  const int64_t unstranded = largest_unstranded_cluster(limits);
  const int64_t largest = facts.has_outer() ? unstranded : limits.most_cluster_blocks;
  return sinter::cluster_sizes(largest, [&](int64_t size) {
    const int64_t part = columns_per_block(facts, of_cluster(size)) * facts.kept_bytes_per_column;
    const bool idles = facts.space.rows * size < limits.sm_count && size < unstranded;
    return idles || part > kKeptWell;
  });
}

/// True if the threads of some block size have registers for their part of a row and for the
/// accumulators, without spilling. Independent of the amount of shared memory, so that more of it
/// changes nothing.
bool registers_hold(const SegmentFacts& facts, const Kept& kept,
                    const std::vector<RowVector>& vectors, int64_t cluster,
                    const DeviceLimits& limits) {
  for (const RowVector& vector : vectors) {
    for (int64_t threads = limits.threads_per_block; threads >= kFewestThreadsOfLongRows;
         threads /= 2) {
      const Schedule schedule{.parameters = MultiWaveParameters{.cluster_size = cluster},
                              .threads_per_row = threads,
                              .vector_width = vector.width,
                              .row_access = vector.access,
                              .kept = kept.in_registers};
      ResourceEstimate estimate{.registers = estimate_registers(facts, schedule, kept.list),
                                .threads = threads};
      complete(estimate, limits, 1);
      if (estimate.spilled_registers == 0 && batch_count(facts, schedule) <= kMostBatches)
        return true;
    }
  }
  return false;
}

/// Clusters whose blocks keep accumulators in shared memory, because registers do not suffice.
std::vector<int64_t> clusters_with_shared_accumulators(const SegmentFacts& facts, const Kept& kept,
                                                       const std::vector<RowVector>& vectors,
                                                       const DeviceLimits& limits) {
  if (!accumulates_columns(facts)) return {};
  const auto lacks_registers = [&](int64_t size) {
    return !registers_hold(facts, kept, vectors, size, limits);
  };
  std::vector<int64_t> sizes =
      sinter::cluster_sizes(largest_unstranded_cluster(limits), lacks_registers);
  if (!lacks_registers(sizes.back())) sizes.pop_back();
  return sizes;
}

std::vector<Rejection> check_segment(const SegmentFacts& facts) {
  std::vector<Rejection> rejections = check_row_segment(facts, kName);
  if (!rejections.empty()) return rejections;
  if (auto rejection = check_outer_reductions(facts, kName)) rejections.push_back(*rejection);
  return rejections;
}

/// The first rule that a schedule breaks regardless of its resources.
std::optional<Rejection> check_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                        const DeviceLimits& limits) {
  if (auto rejection = check_row_schedule(facts, schedule, limits)) return rejection;
  const int64_t batches = batch_count(facts, schedule);
  if (unrolls_batches(facts, schedule) && batches > kMostBatches) {
    return Rejection{.subject = std::string(kName),
                     .rule = "a row in registers has too many batches to unroll",
                     .value = static_cast<double>(batches),
                     .limit = static_cast<double>(kMostBatches),
                     .unit = "batches",
                     .at = largest_tensor(facts, schedule),
                     .remedy = "use more threads per row, or shared memory"};
  }
  return check_unroll(facts, schedule, kMostBatches);
}

/// Requires a schedule that passes check_schedule().
tl::expected<ResourceEstimate, Rejection> estimate_stages(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const StageList& list,
                                                          const RowNeeds& needs,
                                                          const DeviceLimits& limits) {
  ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, needs, limits);
  if (unrolls_batches(facts, schedule) && estimate.registers > limits.registers_per_thread) {
    return tl::make_unexpected(Rejection{
        .subject = std::string(kName),
        .rule = "a thread's share of the row exceeds its registers",
        .value = static_cast<double>(estimate.registers),
        .limit = static_cast<double>(limits.registers_per_thread),
        .unit = "registers",
        .at = largest_tensor(facts, schedule),
        .remedy = "use more threads per row, keep it in shared memory, or read it again"});
  }
  if (auto rejection = over_budget(facts, schedule, estimate, limits))
    return tl::make_unexpected(*rejection);
  return estimate;
}

}  // namespace

tl::expected<ResourceEstimate, Rejection> estimate_multi_wave(const SegmentFacts& facts,
                                                              const Schedule& schedule,
                                                              const DeviceLimits& limits) {
  for (const Rejection& rejection : check_segment(facts)) return tl::make_unexpected(rejection);
  if (auto rejection = check_schedule(facts, schedule, limits))
    return tl::make_unexpected(*rejection);
  const StageList list = distribute(facts, schedule.kept);
  return estimate_stages(facts, schedule, list, row_needs(facts, schedule, list), limits);
}

Proposal propose_multi_wave(const SegmentFacts& facts, const DeviceLimits& limits) {
  Proposal proposal;
  proposal.rejections = check_segment(facts);
  if (!proposal.rejections.empty()) return proposal;
  if (facts.kept.empty() && !facts.has_outer()) {
    proposal.rejections.push_back(
        {.subject = std::string(kName),
         .rule = "no value crosses a row barrier, so nothing need be resident",
         .value = 0,
         .limit = 1,
         .unit = "persistent values",
         .remedy = "the looped family reads the row once"});
    return proposal;
  }
  std::optional<Rejection> nearest;
  struct Offer {
    size_t candidate = 0;  ///< The first of those that differ only in min_blocks_per_sm.
    const Kept* kept = nullptr;
  };
  std::vector<Offer> in_registers;
  // False if it is illegal; records why.
  const auto add_candidate = [&](Schedule& schedule, const SharedEstimates& shared,
                                 const RowNeeds& needs, int64_t blocks) {
    schedule.min_blocks_per_sm = blocks;
    if (facts.has_outer()) schedule.persistent_blocks = persistent_grid(facts, schedule, limits);
    if (auto rejection = check_schedule(facts, schedule, limits)) {
      nearest = std::move(rejection);
      return false;
    }
    const auto estimate = estimate_stages(facts, schedule, shared.list(), needs, limits);
    if (!estimate) {
      nearest = estimate.error();
      return false;
    }
    const WorkEstimate work = estimate_row_work(facts, schedule, *shared.costs, *estimate, limits);
    proposal.candidates.push_back({schedule, *estimate, predict(work, *estimate, limits)});
    return true;
  };
  // False if its kept values alone exceed shared memory, whatever its unroll.
  const auto consider = [&](Schedule schedule, SharedEstimates& shared) {
    schedule.min_blocks_per_sm = 1;
    if (auto rejection = check_schedule(facts, schedule, limits)) {
      nearest = std::move(rejection);
      return true;
    }
    // This rejects most schedules of long rows, without the full estimate.
    if (auto rejection = over_budget(
            facts, schedule,
            {.shared_bytes = kept_shared_bytes(facts, schedule), .blocks_per_sm = 1}, limits)) {
      rejection->value = static_cast<double>(row_shared_bytes(facts, schedule, shared.list()));
      nearest = std::move(rejection);
      return false;
    }
    const RowNeeds needs = row_needs(facts, schedule, shared.list(), shared.registers);
    int64_t fewer = 0;
    for (const int64_t blocks : occupancies(facts, schedule, needs, limits)) {
      // If there are no rows for more blocks, higher occupancy has no use.
      schedule.min_blocks_per_sm = blocks;
      if (facts.has_outer() && persistent_grid(facts, schedule, limits) == fewer) return true;
      if (!add_candidate(schedule, shared, needs, blocks)) return true;
      fewer = schedule.persistent_blocks;
    }
    return true;
  };
  // Registers for a second row, without a register limit that would spill them.
  const auto consider_prefetch = [&](Schedule schedule, const StageList& list) {
    std::get<MultiWaveParameters>(schedule.parameters).prefetch_rows = 1;
    const bool walks = facts.space.rows > rows_at_once(schedule);
    if (!walks || prefetched_inputs(facts, schedule).empty()) return;
    SharedEstimates shared(facts, schedule, list, limits);
    const RowNeeds needs = row_needs(facts, schedule, list, shared.registers);
    add_candidate(schedule, shared, needs, occupancies(facts, schedule, needs, limits).front());
  };
  // Kept values, and the same with the weights of later stages read early.
  std::vector<Kept> choices = {Kept(facts, {})};
  const std::vector<ValueId> late = late_columns(facts, choices.front().list);
  if (!late.empty()) choices.emplace_back(facts, late);
  StageList read_again;  // Stages if every stage reads the row again.
  std::vector<RowVector> vectors = row_vectors(facts);
  if (accumulates_columns(facts)) {
    std::erase_if(vectors, [](const RowVector& v) { return v.access == RowAccess::kUnaligned; });
    if (vectors.empty()) vectors.push_back({1, RowAccess::kScalar});
  }
  const auto try_shapes = [&](const RowVector& vector, int64_t cluster, Residency accumulators) {
    const int64_t columns = columns_per_block(facts, of_cluster(cluster));
    const bool is_long = accumulators == Residency::kShared;
    // Rows that registers do not keep well are divided between registers and shared memory
    // (docs/experiments/constants_choices.md). For outer reductions this was not timed.
    const bool needs_both = !facts.has_outer() && columns * facts.kept_bytes_per_column > kKeptWell;
    const Schedule alike{
        .family = std::string(kName),
        .parameters = MultiWaveParameters{.cluster_size = cluster, .accumulators = accumulators},
        .vector_width = vector.width,
        .row_access = vector.access};
    std::vector<SharedEstimates> shared;  // By choice.
    for (const Kept& kept : choices) shared.emplace_back(facts, alike, kept.list, limits);
    SharedEstimates of_reading_again(facts, alike, read_again, limits);
    for (int64_t threads = is_long ? kFewestThreadsOfLongRows : 1;
         threads <= limits.threads_per_block; threads *= 2) {
      // With more threads than vectors some lanes would always be idle.
      if (threads > 1 && (threads / 2) * vector.width >= std::max<int64_t>(columns, 1)) break;
      int64_t offered = 0;
      for (const int64_t block : kShortRowBlockThreads) {
        if (is_long && threads < block) continue;
        const int64_t rows = offered_rows(facts, block, threads);
        if (rows == offered) continue;
        offered = rows;
        Schedule schedule = alike;
        schedule.threads_per_row = threads;
        schedule.rows_per_block = rows;
        schedule.read_priority = read_priority(facts, limits);
        schedule.dependent_launch = partials_dependent_launch(facts, limits);
        // Non-zero, so that the shared memory of persistent blocks counts. Their number is set when
        // the occupancy is known.
        if (facts.has_outer()) schedule.persistent_blocks = cluster;
        for (size_t i = 0; i < choices.size(); ++i) {
          const Kept& kept = choices[i];
          schedule.kept = kept.in_registers;
          const size_t first = proposal.candidates.size();
          consider(schedule, shared[i]);
          const bool is_legal = first < proposal.candidates.size();
          if (is_legal && vector.access != RowAccess::kScalar &&
              batch_count(facts, schedule) <= kMostPrefetchedBatches)
            in_registers.push_back({first, &kept});
        }
        std::map<const std::vector<KeptValue>*, Rejection> too_large;
        for (const int64_t unroll : {1, 2, 4}) {
          if (unroll > 1 && unroll > batch_count(facts, schedule)) break;
          schedule.unroll = unroll;
          const auto consider_kept = [&](const std::vector<KeptValue>& kept, size_t choice) {
            if (const auto found = too_large.find(&kept); found != too_large.end()) {
              nearest = found->second;
              return;
            }
            schedule.kept = kept;
            if (!consider(schedule, shared[choice])) too_large.emplace(&kept, *nearest);
          };
          for (size_t i = 0; i < choices.size(); ++i) {
            consider_kept(choices[i].in_shared, i);
            if (needs_both && !choices[i].split.empty()) consider_kept(choices[i].split, i);
          }
          if (!is_long) continue;
          schedule.kept.clear();
          consider(schedule, of_reading_again);
        }
      }
    }
  };
  for (const int64_t cluster : cluster_sizes(facts, limits)) {
    for (const RowVector& vector : vectors) {
      if (cluster == 1 || vector.access != RowAccess::kScalar)
        try_shapes(vector, cluster, Residency::kRegister);
    }
  }
  const std::vector<int64_t> crowded =
      clusters_with_shared_accumulators(facts, choices.front(), vectors, limits);
  if (!crowded.empty()) read_again = distribute(facts, {});
  for (const int64_t cluster : crowded) {
    for (const RowVector& vector : vectors) {
      if (cluster == 1 || vector.access == RowAccess::kAligned)
        try_shapes(vector, cluster, Residency::kShared);
    }
  }
  if (facts.has_outer()) {
    const size_t count = std::min(kOffersAhead, in_registers.size());
    std::ranges::partial_sort(in_registers, in_registers.begin() + static_cast<ptrdiff_t>(count),
                              {}, [&](const Offer& offer) {
                                return proposal.candidates[offer.candidate].predicted.total_us;
                              });
    for (size_t i = 0; i < count; ++i) {
      const Offer& offer = in_registers[i];
      consider_prefetch(proposal.candidates[offer.candidate].schedule, offer.kept->list);
    }
  }
  if (proposal.candidates.empty() && nearest) proposal.rejections.push_back(*nearest);
  return proposal;
}

}  // namespace sinter
