#include "scheduler/families/transpose.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/cost/read_priority.h"
#include "scheduler/cost/sectors.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/schedule/tile_space.h"

namespace sinter {
namespace {

constexpr int64_t kMostUnroll = 16;
/// Elements of a tile per thread: those of every tensor that it has in flight at once.
constexpr int64_t kMostElements = 64;
constexpr int64_t kBankBytes = 4;  // Width of each of the 32 banks (CUDA programming guide).
constexpr double kAllBanksBytes = 128.0;

/// Common data of all schedules of a segment.
struct Tiled {
  TileAxes axes;
  SegmentFacts along;       ///< The iteration space in the order of axes.along.
  StageList list;           ///< Stages of `along`.
  int64_t across_size = 1;  ///< Size of the dimension axes.across.
};

Rejection rejected(std::string rule, int64_t value, int64_t limit, std::string unit,
                   std::string remedy) {
  return {.subject = std::string(kTranspose),
          .rule = std::move(rule),
          .value = static_cast<double>(value),
          .limit = static_cast<double>(limit),
          .unit = std::move(unit),
          .remedy = std::move(remedy)};
}

std::optional<Rejection> check_segment(const SegmentFacts& facts) {
  if (facts.has_reduction() || facts.has_outer()) {
    return rejected("the segment reduces",
                    facts.reduction_count + std::ssize(facts.outer_reductions), 0, "reductions",
                    "the column, looped and multi_wave families take it");
  }
  if (facts.space.rows * facts.space.columns == 0)
    return rejected("the segment has no elements", 0, 1, "elements",
                    "the pointwise family takes it");
  for (size_t i = 0; i < facts.space.outputs.size(); ++i) {
    for (size_t dimension = 0; dimension < facts.space.dimensions.size(); ++dimension) {
      if (facts.space.outputs[i].strides[dimension] != 0) continue;
      Rejection rejection =
          rejected("an output spans only part of the iteration space",
                   static_cast<int64_t>(dimension), std::ssize(facts.space.dimensions),
                   "dimensions", "give outputs of different shapes fusions of their own");
      rejection.at = facts.fusion.outputs[i];
      return rejection;
    }
  }
  if (!facts.space.gathers.empty()) {
    return rejected("elements that a take gathers lie where its indices say, in no tile",
                    std::ssize(facts.space.gathers), 0, "takes", "the pointwise family takes it");
  }
  if (!tile_axes(facts)) {
    return rejected("all tensors are fastest along one dimension", 1, 2, "dimensions",
                    "the pointwise family takes it");
  }
  return std::nullopt;
}

Tiled tiled(const SegmentFacts& facts) {
  const TileAxes axes = *tile_axes(facts);
  Tiled out{.axes = axes, .along = walked_along(facts, axes.along), .list = {}};
  out.list = distribute(out.along, {});
  out.across_size = facts.space.dimensions[axes.across].size;
  return out;
}

std::optional<Rejection> check_schedule(const Schedule& schedule, const DeviceLimits& limits) {
  if (auto rejection = check_vector_width(schedule)) return rejection;
  if (schedule.row_access != RowAccess::kAligned) {
    return rejected("tiles lie on vector boundaries, whatever their tensors do", 0, 0, "",
                    "use row_access aligned");
  }
  if (schedule.persistent_blocks != 0) {
    return rejected("blocks of tiles do not stay", schedule.persistent_blocks, 0,
                    "persistent blocks", "use persistent_blocks 0");
  }
  if (!schedule.kept.empty()) {
    return rejected("tiles keep nothing for a later stage", std::ssize(schedule.kept), 0,
                    "persistent values", "use no keep lines");
  }
  const auto is_side = [&](int64_t x) {
    return is_power_of_two(x) && x <= limits.threads_per_block;
  };
  if (!is_side(schedule.threads_per_row) || !is_side(schedule.rows_per_block) ||
      schedule.threads_per_block() > limits.threads_per_block ||
      schedule.threads_per_block() % kWarp != 0) {
    return rejected("a tile's threads are whole warps, a power of two along either side",
                    schedule.threads_per_row, limits.threads_per_block, "threads",
                    "use 16 threads x 16 lines, say");
  }
  if (!is_power_of_two(schedule.unroll) || schedule.unroll > kMostUnroll ||
      schedule.unroll * schedule.vector_width > kMostElements) {
    return rejected("a thread's vectors of a tile are no power of two, or too many",
                    schedule.unroll, kMostUnroll, "vectors", "use a smaller unroll");
  }
  const int64_t most_blocks =
      std::min(limits.blocks_per_sm, limits.threads_per_sm / schedule.threads_per_block());
  if (schedule.min_blocks_per_sm < 1 || schedule.min_blocks_per_sm > most_blocks) {
    return rejected("more blocks per multiprocessor are promised than its threads allow, or none",
                    schedule.min_blocks_per_sm, most_blocks, "blocks",
                    "promise fewer blocks, or make them smaller");
  }
  return std::nullopt;
}

/// Registers of a thread. The parts are live one after the other, except for values loaded before
/// the barrier. Source: ten chosen kernels for sm_90a (ptxas 13.0) took between half of it and all
/// of it; mostly vectors of 8 need fewer.
int64_t needed_registers(const Tiled& tile, const Schedule& schedule,
                         std::span<const StagedTensor> staged) {
  constexpr double kLoading = 10.0;       // Coordinates of block and thread.
  constexpr double kEvaluating = 4.0;     // Beyond estimate_registers().
  constexpr double kVectorAddress = 2.0;  // Per vector in flight.
  constexpr double kPredications = 10.0;  // More, for tiles that reach past an end.
  const SegmentFacts& facts = tile.along;
  const Stage& stage = tile.list.stages[0];
  double in_flight = 0.0;
  double held = 0.0;
  for (const StagedTensor& tensor : staged) {
    if (tensor.is_output) continue;
    const auto vectors = static_cast<double>(tensor.walk.vectors_per_thread());
    const int64_t bytes = bytes_of(facts.fusion.values[tensor.value].type);
    in_flight +=
        vectors * (kVectorAddress + static_cast<double>(register_words(tensor.walk.width, bytes)));
  }
  Schedule one = schedule;
  one.unroll = 1;
  const auto evaluated = static_cast<double>(estimate_registers(facts, one, tile.list));
  for (const ValueId value : stage.loads) {
    const bool is_staged = std::ranges::any_of(staged, [&](const StagedTensor& tensor) {
      return !tensor.is_output && tensor.value == value;
    });
    if (is_staged) continue;
    const int64_t bytes = bytes_of(facts.fusion.values[value].type);
    held += static_cast<double>(schedule.unroll) *
            (kVectorAddress + static_cast<double>(register_words(schedule.vector_width, bytes)));
  }
  const TileShape shape = tile_shape(schedule);
  if (facts.space.dimensions[facts.space.row_dimensions].size % shape.along != 0 ||
      tile.across_size % shape.across != 0)
    held += kPredications;
  return static_cast<int64_t>(held + std::max(kLoading + in_flight, kEvaluating + evaluated));
}

tl::expected<ResourceEstimate, Rejection> estimate_tile(const SegmentFacts& facts,
                                                        const Tiled& tile, const Schedule& schedule,
                                                        const DeviceLimits& limits) {
  if (auto rejection = check_schedule(schedule, limits))
    return tl::make_unexpected(with_tensor(*rejection, facts, schedule));
  const std::vector<StagedTensor> staged = staged_tensors(facts, tile.axes, schedule);
  ResourceEstimate estimate;
  estimate.threads = schedule.threads_per_block();
  estimate.registers = needed_registers(tile, schedule, staged);
  constexpr int64_t kUnit = 16;  // Bytes; granularity of shared buffers (kir::kSharedUnit).
  for (const StagedTensor& tensor : staged)
    estimate.shared_bytes += (tensor.bytes + kUnit - 1) / kUnit * kUnit;
  estimate.blocks = tile_grid(facts, tile.axes, schedule).blocks();
  complete(estimate, limits, schedule.min_blocks_per_sm);
  double loaded = 0.0;
  for (const ValueId value : tile.list.stages[0].loads) {
    loaded += static_cast<double>(schedule.vector_width * schedule.unroll *
                                  bytes_of(facts.fusion.values[value].type));
  }
  estimate.bytes_in_flight_per_sm =
      loaded * static_cast<double>(estimate.threads * estimate.blocks_per_sm);
  if (auto rejection = over_budget(facts, schedule, estimate, limits))
    return tl::make_unexpected(*rejection);
  return estimate;
}

/// Bytes of the shortest contiguous run that a block accesses in a tensor with elements of `bytes`
/// bytes.
double run_bytes(const SegmentFacts& facts, size_t dimension, int64_t side, int64_t bytes) {
  return static_cast<double>(std::min(side, facts.space.dimensions[dimension].size) * bytes);
}

Prediction predict_tile(const SegmentFacts& facts, const Tiled& tile, const Schedule& schedule,
                        const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const TileShape shape = tile_shape(schedule);
  const Stage& stage = tile.list.stages[0];
  const std::vector<StagedTensor> staged = staged_tensors(facts, tile.axes, schedule);
  // Threads past the end of a dimension take issue slots too.
  const double elements =
      static_cast<double>(estimate.blocks) * static_cast<double>(shape.along * shape.across);
  WorkEstimate work;
  work.bytes_read = static_cast<double>(facts.bytes_read);
  work.bytes_written = static_cast<double>(facts.bytes_written);
  work.start_us = start_time(schedule, constants);
  work.read_priority = schedule.read_priority;
  const auto width = static_cast<double>(schedule.vector_width);
  double accesses = 0.0;  // Per element.
  double shortest = std::numeric_limits<double>::infinity();
  const auto direct = [&](const TensorAccess& access, bool stores, double& moved) {
    const AccessKind kind = access_kind(tile.along, access, schedule);
    accesses += kind == AccessKind::kElement ? 1.0 : 1.0 / width;
    if (kind == AccessKind::kUniform) return;
    const int64_t bytes = bytes_of(facts.fusion.values[access.tensor].type);
    shortest = std::min(shortest, run_bytes(facts, tile.axes.along, shape.along, bytes));
    if (kind == AccessKind::kVector) return;
    const SectorWaste waste = sector_waste(tile.along, access,
                                           {.width = schedule.vector_width,
                                            .block_elements = shape.along * shape.across,
                                            .blocks_per_sm = estimate.blocks_per_sm,
                                            .stores = stores},
                                           limits);
    work.shared_bytes += waste.l1_bytes;
    work.l2_bytes += waste.l2_bytes - waste.memory_bytes;
    moved += waste.memory_bytes;
  };
  const auto is_staged = [&](ValueId value, bool is_output) {
    return std::ranges::any_of(staged, [&](const StagedTensor& tensor) {
      return tensor.value == value && tensor.is_output == is_output;
    });
  };
  for (const ValueId value : stage.loads) {
    if (!is_staged(value, false))
      direct(*tile.along.space.find_input(value), false, work.bytes_read);
  }
  for (const size_t output : stage.outputs) {
    if (!is_staged(facts.fusion.outputs[output], true))
      direct(tile.along.space.outputs[output], true, work.bytes_written);
  }
  for (const StagedTensor& tensor : staged) {
    const int64_t bytes = bytes_of(facts.fusion.values[tensor.value].type);
    // Each element is stored to and loaded from shared memory by a scalar access, which occupies
    // its bank for one cycle; for several if lines, or vectors across them, are too short to use
    // all banks.
    accesses += 1.0 / static_cast<double>(tensor.walk.width);
    work.issue_slots += 2.0 * elements;
    const int64_t bank_bytes = std::max(bytes, kBankBytes);
    const auto along = static_cast<double>(shape.along * bytes);
    const auto across = static_cast<double>(shape.across * bank_bytes);
    const double passes =
        std::max(1.0, kAllBanksBytes / along) + std::max(1.0, kAllBanksBytes / across);
    work.shared_bytes += passes * elements * static_cast<double>(bank_bytes);
    shortest = std::min(shortest, run_bytes(facts, tile.axes.across, shape.across, bytes));
  }
  work.l2_bytes += work.bytes_read + work.bytes_written;
  work.issue_slots +=
      elements * (stage.issue_slots + accesses * constants.instructions_per_access) +
      static_cast<double>(estimate.blocks * estimate.threads) *
          constants.tile_prologue_instructions;
  work.special = elements * stage.special_functions;
  // Half of a block waits for its loads, half is past the barrier.
  work.block_latency_ns = constants.row.block_start_ns +
                          constants.tile_vector_ns * static_cast<double>(schedule.unroll) +
                          constants.row.block_exchange_ns;
  Prediction out = predict(work, estimate, limits);
  constexpr double kLine = 128.0;
  const double longer =
      out.memory_us * constants.short_run_penalty * std::max(0.0, 1.0 - shortest / kLine);
  const double others = std::max({out.l2_us, out.issue_us, out.special_us, out.shared_us});
  out.total_us += std::max(out.memory_us + longer, others) - std::max(out.memory_us, others);
  out.memory_us += longer;
  return out;
}

}  // namespace

tl::expected<ResourceEstimate, Rejection> estimate_transpose(const SegmentFacts& facts,
                                                             const Schedule& schedule,
                                                             const DeviceLimits& limits) {
  if (auto rejection = check_segment(facts)) return tl::make_unexpected(*rejection);
  return estimate_tile(facts, tiled(facts), schedule, limits);
}

Prediction predict_transpose(const SegmentFacts& facts, const Schedule& schedule,
                             const ResourceEstimate& estimate, const DeviceLimits& limits) {
  return predict_tile(facts, tiled(facts), schedule, estimate, limits);
}

Proposal propose_transpose(const SegmentFacts& facts, const DeviceLimits& limits) {
  Proposal proposal;
  if (auto rejection = check_segment(facts)) {
    proposal.rejections.push_back(*rejection);
    return proposal;
  }
  const Tiled tile = tiled(facts);
  std::optional<Rejection> nearest;
  // Tile sides longer than the dimension would leave threads idle.
  const auto sides = [&](size_t dimension) {
    std::vector<int64_t> out;
    const auto size = static_cast<uint64_t>(facts.space.dimensions[dimension].size);
    for (const int64_t side : {8, 16, 32, 64, 128}) {
      const bool is_beyond = static_cast<uint64_t>(side) > std::bit_ceil(size);
      if (out.empty() || !is_beyond) out.push_back(side);
    }
    return out;
  };
  const int64_t widest = kMostAccessBytes / facts.narrowest_tile_bytes;
  for (int64_t width = widest; width >= 1; width /= 2) {
    Schedule schedule{.family = std::string(kTranspose),
                      .vector_width = width,
                      .read_priority = read_priority(facts, limits)};
    // If no tensor is accessed in vectors, wider vectors only make longer chains of scalar
    // accesses.
    const auto has_vector = [&](const TensorAccess& access) {
      return access_kind(tile.along, access, schedule) == AccessKind::kVector;
    };
    if (width > 1 && std::ranges::none_of(tile.along.space.inputs, has_vector) &&
        std::ranges::none_of(tile.along.space.outputs, has_vector))
      continue;
    for (const int64_t along : sides(tile.axes.along)) {
      for (const int64_t across : sides(tile.axes.across)) {
        for (const int64_t threads : {128, 256, 512}) {
          if (along < width || threads * width > along * across) continue;
          schedule.threads_per_row = std::min(along / width, threads);
          schedule.rows_per_block = threads / schedule.threads_per_row;
          if (schedule.threads_per_row * width != along || across < schedule.rows_per_block)
            continue;
          schedule.unroll = across / schedule.rows_per_block;
          schedule.min_blocks_per_sm = 1;
          auto estimate = estimate_tile(facts, tile, schedule, limits);
          if (!estimate) {
            nearest = estimate.error();
            continue;
          }
          schedule.min_blocks_per_sm = std::max<int64_t>(1, estimate->blocks_per_sm);
          estimate = estimate_tile(facts, tile, schedule, limits);
          if (!estimate) continue;
          const Prediction predicted = predict_tile(facts, tile, schedule, *estimate, limits);
          proposal.candidates.push_back({schedule, *estimate, predicted});
        }
      }
    }
    if (!proposal.candidates.empty() && width * facts.widest_tile_bytes <= kMostAccessBytes) break;
  }
  if (proposal.candidates.empty()) {
    proposal.rejections.push_back(
        nearest.value_or(rejected("no tile has a vector for every thread", 0, 1, "candidates",
                                  "the pointwise family takes it")));
  }
  return proposal;
}

}  // namespace sinter
