#include "scheduler/families/warp_specialised.h"

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cmath>
#include <iterator>
#include <set>
#include <span>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/budgets/grid.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/cost/read_priority.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/families/pipeline_time.h"
#include "scheduler/families/row_rules.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/pipeline.h"

namespace sinter {
namespace {

constexpr std::string_view kName = kWarpSpecialised;
constexpr int64_t kMostStages = 16;
constexpr int64_t kMostGroups = 4;
/// Most rows per iteration of a group (unroll-and-jam): beyond, the kept values of the rows exceed
/// the registers.
constexpr int64_t kMostRowUnroll = 4;
/// Most pipeline rows with several rows per stage, limited by the time to prove the protocol of the
/// pipeline (docs/experiments/constants_choices.md).
constexpr int64_t kMostSideStages = 32;
constexpr int64_t kMostBatches = 16;
/// Bytes: rows are split over larger clusters until a block's part of a row is no longer than this.
/// Source: docs/experiments/constants_choices.md. The value is absolute: as a share of the device's
/// shared memory, more of it would leave sizes untried.
constexpr int64_t kLongestPart = 32768;
/// Pipeline depths in rows that are tried, up to the largest that fits: more shared memory only
/// adds to them.
constexpr int64_t kStageCounts[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 16};
/// Pipeline stages per group that are tried with several rows per stage: at least one is filled
/// while another is in use.
constexpr int64_t kUnrolledSlotCounts[] = {2, 3, 4, 6, 8};
constexpr int64_t kCopyBytes = 16;  // Granularity of cp.async.bulk (PTX ISA).
/// Factor of ptxas' registers for a pipelined kernel over the estimate of its rows: mbarrier
/// addresses, parities and the next row's values. An estimate of 73 spilled under a cap of 80, one
/// of 83 did not under 96.
constexpr double kPipelineRegisters = 1.15;
/// Registers that a pipelined kernel prefetches into for accumulators in shared memory, as a share
/// of those of another kernel. Source: gradients of norms with 4 to 16 batches in 128 to 512
/// threads.
constexpr double kPipelinePrefetch = 0.15;
/// Registers that ptxas takes, if the cap leaves them, per element of a narrow input in the batches
/// after a thread's first, in a stage that both reduces the row and accumulates columns: it
/// converts these elements early. Source: docs/experiments/constants_choices.md.
constexpr double kPipelineEarlyElement = 0.8;

/// Of a schedule that this family proposes.
WarpSpecialisedParameters& parameters_of(Schedule& schedule) {
  return std::get<WarpSpecialisedParameters>(schedule.parameters);
}

/// A schedule whose blocks divide the columns of a row as those of a cluster do.
Schedule of_cluster(int64_t size) {
  return {.parameters = WarpSpecialisedParameters{.cluster_size = size}};
}

int64_t most_stages(const Schedule& schedule) {
  return schedule.rows_per_iteration() == 1 ? kMostStages : kMostSideStages;
}

Rejection rejected(std::string rule, int64_t value, int64_t limit, std::string unit,
                   std::string remedy, ValueId at = {}) {
  return {.subject = std::string(kName),
          .rule = std::move(rule),
          .value = static_cast<double>(value),
          .limit = static_cast<double>(limit),
          .unit = std::move(unit),
          .at = at,
          .remedy = std::move(remedy)};
}

std::optional<Rejection> check_segment(const SegmentFacts& facts, const DeviceLimits& limits) {
  if (!limits.has_bulk_copy) {
    return rejected("the device has no bulk copies to shared memory", limits.compute_major, 9,
                    "compute capability", "the multi_wave family needs none");
  }
  for (Rejection& rejection : check_row_segment(facts, kName)) return std::move(rejection);
  if (!facts.has_outer()) {
    return rejected("without outer reductions a block has nothing to keep from row to row", 0, 1,
                    "outer reductions", "the multi_wave family runs a block for every row");
  }
  if (auto rejection = check_outer_reductions(facts, kName)) return rejection;
  const std::vector<ValueId> inputs = pipeline_inputs(facts);
  if (inputs.empty() || facts.space.columns == 0) {
    return rejected("no input spans rows and columns", 0, 1, "inputs",
                    "the multi_wave family takes it");
  }
  for (const ValueId value : inputs) {
    const TensorAccess& access = *facts.space.find_input(value);
    const int64_t bytes = bytes_of(facts.fusion.values[value].type);
    const Schedule probe{.vector_width = kCopyBytes / bytes};
    const bool whole = facts.space.columns * bytes % kCopyBytes == 0 &&
                       access_kind(facts, access, probe) == AccessKind::kVector &&
                       access.strides.back() == 1 &&
                       facts.space.dimensions.size() == facts.space.row_dimensions + 1;
    if (whole) continue;
    return rejected("a bulk copy takes contiguous rows of whole, aligned 16 bytes",
                    facts.space.columns * bytes % kCopyBytes, 0, "bytes left over",
                    "pad the rows, or promise their alignment", value);
  }
  return std::nullopt;
}

/// What a pipeline takes at any depth.
struct PipelineNeeds {
  int64_t registers = 0;  ///< Per thread, without the elastic ones.
  int64_t elastic = 0;    ///< Those that ptxas takes in addition if the cap leaves them.
  int64_t beside = 0;     ///< bytes_beside_pipeline().
};

/// Registers for elements of narrow inputs that ptxas converts early if the cap leaves them.
int64_t early_elements(const SegmentFacts& facts, const Schedule& schedule, const StageList& list) {
  int64_t narrow = 0;
  for (const Stage& stage : list.stages) {
    if (stage.reductions.empty() || stage.outer.empty()) continue;
    narrow += std::ranges::count_if(stage.loads, [&](ValueId value) {
      return facts.is_full(value) && bytes_of(facts.fusion.values[value].type) < kRegisterBytes;
    });
  }
  const int64_t later = (batch_count(facts, schedule) - 1) * schedule.vector_width;
  return static_cast<int64_t>(kPipelineEarlyElement * static_cast<double>(narrow * later));
}

PipelineNeeds needs_of(const SegmentFacts& facts, const Schedule& schedule,
                       SharedEstimates& shared) {
  const RegisterEstimate estimate = shared.registers.estimate(schedule);
  const auto rows = static_cast<double>(estimate.registers - estimate.prefetched);
  return {.registers = std::max(static_cast<int64_t>(std::ceil(rows * kPipelineRegisters)),
                                last_block_registers(facts, schedule)),
          .elastic = schedule.accumulators() == Residency::kShared
                         ? static_cast<int64_t>(kPipelinePrefetch *
                                                static_cast<double>(estimate.prefetched))
                         : early_elements(facts, schedule, shared.list()),
          .beside = bytes_beside_pipeline(facts, schedule, shared.list())};
}

/// Registers per thread that the launch can give when `blocks` blocks share an SM.
int64_t launch_registers(const DeviceLimits& limits, const Schedule& schedule, int64_t blocks) {
  const int64_t cap = register_cap(limits, specialised_threads(schedule), blocks);
  return cap / kPassedRegisters * kPassedRegisters;
}

PipelineRegisters registers_of(const Schedule& schedule, int64_t needed,
                               const DeviceLimits& limits) {
  return {.needed = needed,
          .launch = launch_registers(limits, schedule, schedule.min_blocks_per_sm)};
}

/// Registers per consumer thread after the producer has released its own (setmaxnreg).
int64_t raised_registers(const DeviceLimits& limits, const Schedule& schedule, int64_t blocks) {
  return raised_register_cap(limits, schedule.threads_per_block(), kProducerThreads,
                             kProducerRegisters, blocks);
}

std::optional<Rejection> check_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                        const DeviceLimits& limits) {
  if (schedule.rows_per_iteration() > 1 && schedule.accumulators() != Residency::kRegister) {
    return rejected("several rows per iteration accumulate in registers",
                    schedule.rows_per_iteration(), 1, "rows per iteration",
                    "use rows_per_iteration 1, or accumulators register");
  }
  Schedule as_rows = schedule;
  as_rows.min_blocks_per_sm = 1;
  if (auto rejection = check_row_schedule(facts, as_rows, limits)) return rejection;
  const int64_t groups = schedule.rows_per_block;
  const int64_t stages = schedule.pipeline_stages();
  if (schedule.threads_per_row < 32 || schedule.threads_per_block() % kWarpGroup != 0 ||
      specialised_threads(schedule) > limits.threads_per_block) {
    return rejected("compute groups are whole warps, and together whole groups of four warps",
                    schedule.threads_per_block(), limits.threads_per_block - kProducerThreads,
                    "threads", "use 128, 256 or 512 compute threads");
  }
  if (groups > kMostGroups)
    return rejected("there are too many consumer groups", groups, kMostGroups, "groups",
                    "use fewer groups of more threads");
  const int64_t unrolled_rows = schedule.rows_per_iteration();
  if (!is_power_of_two(unrolled_rows) || unrolled_rows > kMostRowUnroll) {
    return rejected("a group works on 1, 2 or 4 rows per iteration", unrolled_rows, kMostRowUnroll,
                    "rows", "use rows_per_iteration 1, 2 or 4");
  }
  if (stages < 2 || stages > most_stages(schedule) || stages % groups != 0) {
    return rejected("the pipeline has a multiple of the groups as stages, two at least", stages,
                    most_stages(schedule), "stages",
                    "give every group as many stages as the others");
  }
  if (stages % (groups * unrolled_rows) != 0) {
    return rejected("an iteration of a group has more rows than its stages hold",
                    stages % (groups * unrolled_rows), 0, "stages left over",
                    fmt::format("use a multiple of {} stages, or fewer rows per iteration",
                                groups * unrolled_rows));
  }
  if (schedule.persistent_blocks < 1) {
    return rejected("the grid walks rows, and has no blocks", schedule.persistent_blocks, 1,
                    "persistent blocks", "use as many as are resident at once");
  }
  if (schedule.row_access != RowAccess::kAligned) {
    return rejected("rows in the pipeline are aligned", 0, 0, "", "use row_access aligned");
  }
  for (const TensorAccess& access : facts.space.inputs) {
    const ValueId value = access.value;
    if (!facts.is_full(value)) continue;
    const int64_t bytes =
        columns_per_block(facts, schedule) * bytes_of(facts.fusion.values[value].type);
    if (bytes % kCopyBytes == 0) continue;
    return rejected("a block of the cluster copies whole, aligned 16 bytes", bytes % kCopyBytes, 0,
                    "bytes left over", "split rows over fewer blocks", value);
  }
  const int64_t most =
      std::min(limits.blocks_per_sm, limits.threads_per_sm / specialised_threads(schedule));
  if (schedule.min_blocks_per_sm < 1 || schedule.min_blocks_per_sm > most) {
    return rejected("more blocks per multiprocessor are promised than its threads allow, or none",
                    schedule.min_blocks_per_sm, most, "blocks", "promise fewer blocks");
  }
  if (unrolls_batches(facts, schedule) && batch_count(facts, schedule) > kMostBatches) {
    return rejected("a row in registers has too many batches to unroll",
                    batch_count(facts, schedule), kMostBatches, "batches",
                    "use more threads per row");
  }
  for (const KeptValue& kept : schedule.kept) {
    if (kept.residency == Residency::kShared && facts.space.dependence[kept.value].rows)
      return rejected("what is kept of a row lies in registers or in the pipeline", 0, 0, "",
                      "use residency register or reload", kept.value);
  }
  const int64_t raised = schedule.consumer_registers();
  if (raised != 0) {
    const int64_t limit = raised_registers(limits, schedule, schedule.min_blocks_per_sm);
    if (!limits.has_setmaxnreg || raised % kPassedRegisters != 0 || raised > limit ||
        raised < kProducerRegisters) {
      return rejected("compute threads ask for more registers than the producer leaves", raised,
                      limits.has_setmaxnreg ? limit : 0, "registers",
                      "promise fewer blocks, or use more threads per row");
    }
  }
  return std::nullopt;
}

/// Requires a schedule that passes check_schedule().
tl::expected<ResourceEstimate, Rejection> estimate_stages(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const PipelineNeeds& needs,
                                                          const DeviceLimits& limits) {
  ResourceEstimate estimate;
  estimate.threads = specialised_threads(schedule);
  estimate.shared_bytes = pipeline_shared_bytes(facts, schedule, needs.beside);
  estimate.blocks = schedule.persistent_blocks;
  const int64_t launch = launch_registers(limits, schedule, schedule.min_blocks_per_sm);
  estimate.registers = std::min(needs.registers, launch);
  complete(estimate, limits, schedule.min_blocks_per_sm);
  // The limit of the consumer warps counts, not the registers at launch.
  const int64_t raised = schedule.consumer_registers();
  estimate.register_cap = raised != 0 ? raised : launch;
  estimate.registers =
      registers_under_cap(needs.registers + needs.elastic, needs.elastic, estimate.register_cap);
  estimate.spilled_registers = std::max<int64_t>(0, needs.registers - estimate.register_cap);
  const int64_t reach = rows_at_once(schedule);
  const int64_t waves = (facts.space.rows + reach - 1) / reach;
  estimate.waves = static_cast<double>(waves);
  estimate.bytes_in_flight_per_sm = bytes_in_flight(facts, schedule, estimate);
  if (auto rejection = over_budget(facts, schedule, estimate, limits))
    return tl::make_unexpected(*rejection);
  return estimate;
}

using StageCounts = boost::container::static_vector<int64_t, std::size(kStageCounts)>;

/// Numbers of stages to try in `shared_bytes` bytes of shared memory. Empty: not even two fit.
StageCounts stage_counts(const SegmentFacts& facts, const Schedule& schedule,
                         int64_t shared_bytes) {
  const int64_t round = schedule.rows_per_block * schedule.rows_per_iteration();
  const int64_t row = pipeline_row_bytes(facts, schedule);
  const int64_t most =
      std::min(shared_bytes / (row + 2 * kBytesPerMbarrier), most_stages(schedule)) / round * round;
  StageCounts counts;
  if (schedule.rows_per_iteration() > 1) {
    for (const int64_t slots : kUnrolledSlotCounts) {
      if (slots * round <= most) counts.push_back(slots * round);
    }
    return counts;
  }
  for (const int64_t count : kStageCounts) {
    const int64_t stages = (count + round - 1) / round * round;
    if (stages > most) break;
    if (counts.empty() || counts.back() != stages) counts.push_back(stages);
  }
  return counts;
}

/// Clusters of two, which strand no SM and halve the partial results, and larger clusters for long
/// rows. No clusters if only totals are accumulated: parts of a row would save no registers, and a
/// non-persistent grid is faster for long rows (docs/experiments/constants_choices.md).
std::vector<int64_t> cluster_sizes(const SegmentFacts& facts, const DeviceLimits& limits) {
  if (!accumulates_columns(facts)) return {1};
  return sinter::cluster_sizes(largest_unstranded_cluster(limits), [&](int64_t size) {
    return size == 1 || pipeline_row_bytes(facts, of_cluster(size)) > kLongestPart;
  });
}

/// A choice of kept values, and the stages that follow from it.
struct Kept {
  std::vector<KeptValue> values;
  StageList list;
};

/// Inputs along the columns, which every row reads in some stage.
std::vector<ValueId> column_inputs(const SegmentFacts& facts) {
  std::vector<ValueId> out;
  for (const TensorAccess& access : facts.space.inputs) {
    if (facts.is_tile(access.value) && !facts.is_full(access.value)) out.push_back(access.value);
  }
  return out;
}

/// Choices of kept values: all in registers, or inputs read again from the pipeline; and the
/// weights of all stages in registers, in shared memory, or read from cache.
std::vector<Kept> kept_choices(const SegmentFacts& facts) {
  std::vector<Kept> choices;
  const std::vector<ValueId> weights = column_inputs(facts);
  for (const bool in_registers : {false, true}) {
    for (const Residency weights_in :
         {Residency::kRegister, Residency::kShared, Residency::kReload}) {
      if (weights_in != Residency::kReload && weights.empty()) continue;
      std::vector<KeptValue> kept;
      for (const ValueId value : facts.kept) {
        kept.push_back({value, in_registers || !facts.is_read(value) ? Residency::kRegister
                                                                     : Residency::kReload});
      }
      if (weights_in != Residency::kReload) {
        for (const ValueId value : weights) kept.push_back({value, weights_in});
      }
      std::ranges::sort(kept);
      StageList list = distribute(facts, kept);
      choices.push_back({std::move(kept), std::move(list)});
    }
  }
  return choices;
}

/// Tries pipelines one after the other, and offers those that fit without spilling.
class PipelineSearch {
 public:
  PipelineSearch(const SegmentFacts& facts, const DeviceLimits& limits)
      : facts_(facts),
        limits_(limits),
        vectors_(row_vectors(facts)),
        choices_(kept_choices(facts)) {
    std::erase_if(vectors_, [](const RowVector& v) { return v.access != RowAccess::kAligned; });
  }

  Proposal run() {
    for (const RowVector& vector : vectors_) {
      for (const int64_t cluster : cluster_sizes(facts_, limits_))
        try_threads(vector, cluster, Residency::kRegister);
    }
    if (accumulates_columns(facts_)) {
      for (const int64_t cluster : cluster_sizes(facts_, limits_)) {
        if (unstranded_clusters_.contains(cluster)) continue;
        for (const RowVector& vector : vectors_) try_threads(vector, cluster, Residency::kShared);
      }
    }
    if (proposal_.candidates.empty() && nearest_) proposal_.rejections.push_back(*nearest_);
    if (facts_.has_reduction()) try_row_unroll();
    return std::move(proposal_);
  }

 private:
  void try_threads(const RowVector& vector, int64_t cluster, Residency accumulators) {
    Schedule shape{.family = std::string(kName),
                   .parameters = WarpSpecialisedParameters{.cluster_size = cluster,
                                                           .accumulators = accumulators},
                   .vector_width = vector.width,
                   .read_priority = read_priority(facts_, limits_),
                   .dependent_launch = partials_dependent_launch(facts_, limits_)};
    std::vector<SharedEstimates> shared;  // By choice.
    for (const Kept& kept : choices_) shared.emplace_back(facts_, shape, kept.list, limits_);
    for (const int64_t threads : {32, 64, 128, 256, 512}) {
      // With more threads than vectors some threads would always be idle.
      if (threads > 32 && threads / 2 * vector.width >= columns_per_block(facts_, shape)) break;
      shape.threads_per_row = threads;
      try_groups(shape, shared);
    }
  }

  void try_groups(Schedule schedule, std::span<SharedEstimates> shared) {
    // Groups beyond the number of rows only fill up a warp group of four warps.
    const int64_t most = std::clamp<int64_t>(
        facts_.space.rows, std::max<int64_t>(kWarpGroup / schedule.threads_per_row, 1),
        kMostGroups);
    for (int64_t groups = 1; groups <= most; ++groups) {
      schedule.rows_per_block = groups;
      if (schedule.threads_per_block() % kWarpGroup != 0 ||
          specialised_threads(schedule) > limits_.threads_per_block)
        continue;
      schedule.persistent_blocks = 0;
      for (const int64_t blocks : {1, 2}) {
        if (specialised_threads(schedule) * blocks > limits_.threads_per_sm) continue;
        const int64_t fewer = schedule.persistent_blocks;
        schedule.min_blocks_per_sm = blocks;
        schedule.persistent_blocks = persistent_grid(facts_, schedule, limits_);
        // There are no rows for more blocks than these, so that higher occupancy has no use.
        if (schedule.persistent_blocks == fewer) break;
        if (!has_room_for_pipeline(schedule)) continue;
        for (size_t i = 0; i < choices_.size(); ++i) {
          schedule.kept = choices_[i].values;
          if (auto pipeline = best_depth(schedule, shared[i]))
            proposal_.candidates.push_back(std::move(*pipeline));
        }
      }
    }
  }

  /// False if accumulators in shared memory leave no room for the smallest pipeline, for any choice
  /// of kept values.
  [[nodiscard]] bool has_room_for_pipeline(const Schedule& schedule) const {
    if (schedule.accumulators() != Residency::kShared) return true;
    const int64_t rows = std::max<int64_t>(schedule.rows_per_block, 2);
    return accumulator_shared_bytes(facts_, schedule) +
               rows * pipeline_row_bytes(facts_, schedule) <=
           limits_.shared_bytes_per_sm / schedule.min_blocks_per_sm;
  }

  /// Offers pipelines whose groups work on several rows per iteration, if that is faster than the
  /// best with one row per iteration.
  void try_row_unroll() {
    std::vector<ProposedSchedule>& pipelines = proposal_.candidates;
    const auto time = [](const ProposedSchedule& pipeline) { return pipeline.predicted.total_us; };
    double best_us = pipelines.empty() ? 0.0 : time(*std::ranges::min_element(pipelines, {}, time));
    const size_t alone = pipelines.size();
    for (size_t i = 0; i < alone; ++i) {
      for (int64_t rows = 2; rows <= kMostRowUnroll; rows *= 2) {
        if (!may_gain_by_row_unroll(pipelines[i], rows)) break;
        if (least_with_row_unroll(facts_, pipelines[i], rows, kUnrolledSlotCounts, limits_) >=
            best_us)
          continue;
        Schedule schedule = pipelines[i].schedule;
        parameters_of(schedule).rows_per_iteration = rows;
        SharedEstimates shared(facts_, schedule, list_of(schedule), limits_);
        auto side = best_depth(std::move(schedule), shared);
        if (!side || time(*side) >= best_us) continue;
        best_us = time(*side);
        pipelines.push_back(std::move(*side));
      }
    }
  }

  /// Whether more rows per iteration may be faster. They save exchanges: if a row's share of the
  /// exchange, with half as many rows, is less than the rest of its time, other groups already hide
  /// it. They take registers for each row: pipelines that reload their rows do best, and a second
  /// block on an SM leaves too few registers. The blocks of a cluster wait for all rows of the
  /// slowest (docs/experiments/constants_choices.md). No condition depends on the amount of a
  /// resource of the device, since more of it might then exclude the schedule that was the best.
  [[nodiscard]] bool may_gain_by_row_unroll(const ProposedSchedule& pipeline, int64_t rows) const {
    const Schedule& schedule = pipeline.schedule;
    const bool keeps_rows = std::ranges::any_of(schedule.kept, [&](const KeptValue& kept) {
      return kept.residency == Residency::kRegister && facts_.is_read(kept.value) &&
             facts_.is_full(kept.value);
    });
    if (keeps_rows || schedule.min_blocks_per_sm > 1 || schedule.cluster_size() > 1 ||
        schedule.accumulators() != Residency::kRegister ||
        elements_per_thread(schedule) > kPrefetchedElements)
      return false;
    const double exchange_ns = exchange_time(facts_, schedule, limits_.cost);
    const double own_ns = pipeline.predicted.block_latency_us * 1000.0 - exchange_ns;
    const int64_t half = rows / 2;
    return exchange_ns / static_cast<double>(half) >= own_ns;
  }

  [[nodiscard]] const StageList& list_of(const Schedule& schedule) const {
    return std::ranges::find(choices_, schedule.kept, &Kept::values)->list;
  }

  /// The best of the pipelines that differ only in depth. No value if none fits; records why.
  std::optional<ProposedSchedule> best_depth(Schedule schedule, SharedEstimates& shared) {
    const PipelineNeeds needs = needs_of(facts_, schedule, shared);
    if (launch_suffices(schedule, needs.registers))
      unstranded_clusters_.insert(schedule.cluster_size());
    const int64_t budget =
        limits_.shared_bytes_per_sm / schedule.min_blocks_per_sm - limits_.shared_bytes_reserved;
    WarpSpecialisedParameters& own = parameters_of(schedule);
    own.pipeline_stages = 0;
    const int64_t beside_pipeline = pipeline_shared_bytes(facts_, schedule, needs.beside);
    const StageCounts counts = stage_counts(facts_, schedule, budget - beside_pipeline);
    if (counts.empty()) {
      nearest_ = rejected("shared memory holds too few rows for a pipeline", 0, 2, "stages",
                          "the multi_wave family holds them in registers");
      return std::nullopt;
    }
    own.consumer_registers = raised(schedule, needs.registers);
    // All depths that are tried are legal if one is.
    own.pipeline_stages = counts.front();
    if (auto rejection = check_schedule(facts_, schedule, limits_)) {
      nearest_ = std::move(rejection);
      return std::nullopt;
    }
    // Once more depth costs more than it gains, so do all larger depths.
    int64_t depth = 0;
    ResourceEstimate resources;
    Prediction fastest;
    std::optional<PipelineWork> work;
    const PipelineRegisters registers = registers_of(schedule, needs.registers, limits_);
    for (const int64_t stages : counts) {
      own.pipeline_stages = stages;
      const auto estimate = estimated(schedule, needs);
      if (!estimate) break;
      if (!work)
        work = pipeline_work(facts_, schedule, *shared.costs, registers, *estimate, limits_);
      const Prediction predicted = predict_pipeline(facts_, schedule, *work, *estimate, limits_);
      if (depth != 0 && predicted.total_us > fastest.total_us) break;
      if (depth != 0 && predicted.total_us == fastest.total_us) continue;
      depth = stages;
      resources = *estimate;
      fastest = predicted;
    }
    if (depth == 0) return std::nullopt;
    own.pipeline_stages = depth;
    return ProposedSchedule{std::move(schedule), resources, fastest};
  }

  [[nodiscard]] int64_t elements_per_thread(const Schedule& schedule) const {
    return batch_count(facts_, schedule) * schedule.vector_width;
  }

  /// Whether consumer threads have enough registers without setmaxnreg. Long shares of a row get as
  /// many as the compiler wants: it prefetches within them, and spills what does not fit.
  [[nodiscard]] bool launch_suffices(const Schedule& schedule, int64_t needed) const {
    const double wanted = elements_per_thread(schedule) > kPrefetchedElements
                              ? limits_.cost.pipeline_wanted_registers
                              : 1.0;
    return wanted * static_cast<double>(needed) <=
           static_cast<double>(launch_registers(limits_, schedule, schedule.min_blocks_per_sm));
  }

  /// Registers that consumer threads request by setmaxnreg; 0: the launch gives them enough.
  [[nodiscard]] int64_t raised(const Schedule& schedule, int64_t needed) const {
    if (launch_suffices(schedule, needed) || !limits_.has_setmaxnreg) return 0;
    return raised_registers(limits_, schedule, schedule.min_blocks_per_sm);
  }

  /// No value if it spills or does not fit, in which case more stages would not fit either; records
  /// why.
  std::optional<ResourceEstimate> estimated(const Schedule& schedule, const PipelineNeeds& needs) {
    const auto estimate = estimate_stages(facts_, schedule, needs, limits_);
    if (!estimate) {
      nearest_ = estimate.error();
      return std::nullopt;
    }
    if (estimate->spilled_registers > 0) {
      nearest_ = rejected("the compute role needs more registers than its groups leave",
                          estimate->registers, estimate->register_cap, "registers",
                          "read values from the pipeline again, or use more threads per row");
      return std::nullopt;
    }
    return *estimate;
  }

  const SegmentFacts& facts_;
  const DeviceLimits& limits_;
  std::vector<RowVector> vectors_;
  const std::vector<Kept> choices_;
  /// Sizes of clusters for which some pipeline has registers for its accumulators. Independent of
  /// the amount of shared memory, so that more of it changes nothing.
  std::set<int64_t> unstranded_clusters_;
  Proposal proposal_;
  std::optional<Rejection> nearest_;
};

}  // namespace

tl::expected<ResourceEstimate, Rejection> estimate_warp_specialised(const SegmentFacts& facts,
                                                                    const Schedule& schedule,
                                                                    const DeviceLimits& limits) {
  if (auto rejection = check_segment(facts, limits)) return tl::make_unexpected(*rejection);
  if (auto rejection = check_schedule(facts, schedule, limits))
    return tl::make_unexpected(with_tensor(*rejection, facts, schedule));
  const StageList list = distribute(facts, schedule.kept);
  SharedEstimates shared(facts, schedule, list, limits);
  return estimate_stages(facts, schedule, needs_of(facts, schedule, shared), limits);
}

Prediction predict_warp_specialised(const SegmentFacts& facts, const Schedule& schedule,
                                    const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const StageList list = distribute(facts, schedule.kept);
  SharedEstimates shared(facts, schedule, list, limits);
  const int64_t needed = needs_of(facts, schedule, shared).registers;
  const PipelineWork work = pipeline_work(facts, schedule, *shared.costs,
                                          registers_of(schedule, needed, limits), estimate, limits);
  return predict_pipeline(facts, schedule, work, estimate, limits);
}

Proposal propose_warp_specialised(const SegmentFacts& facts, const DeviceLimits& limits) {
  if (auto rejection = check_segment(facts, limits))
    return {.candidates = {}, .rejections = {*rejection}};
  return PipelineSearch(facts, limits).run();
}

}  // namespace sinter
