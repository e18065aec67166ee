#include "scheduler/families/row_rules.h"

#include <algorithm>
#include <boost/container/flat_set.hpp>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <limits>
#include <ranges>
#include <set>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/budgets/grid.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/cost/sectors.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/two_pass.h"

namespace sinter {
namespace {

constexpr int64_t kMostPrefetchRows = 1;

/// Rejects clusters that the device does not run, or that cannot share this segment's rows.
std::optional<Rejection> check_cluster(const SegmentFacts& facts, const Schedule& schedule,
                                       const DeviceLimits& limits) {
  const int64_t cluster = schedule.cluster_size();
  if (cluster == 1) return std::nullopt;
  const auto broken = [&](auto... said) { return rejected(schedule, said...); };
  if (auto rejection = check_cluster_size(schedule, limits)) return rejection;
  const int64_t unit = cluster * schedule.vector_width;
  if (schedule.row_access == RowAccess::kUnaligned) {
    if (columns_of_last_block(facts, schedule) <= 0) {
      const int64_t others = (cluster - 1) * columns_per_block(facts, schedule);
      return broken("a row may have no whole vector left for the last block of the cluster",
                    columns_of_last_block(facts, schedule) + others, others + schedule.vector_width,
                    "columns in whole vectors", "split it over fewer blocks");
    }
  } else if (schedule.row_access != RowAccess::kAligned) {
    return broken("blocks of a cluster share rows of whole vectors", 0, 0, "",
                  "use row_access aligned or unaligned");
  } else if (facts.space.columns == 0 || facts.space.columns % unit != 0) {
    return broken("a row does not split into whole vectors for every block of the cluster",
                  facts.space.columns % unit, 0, "elements left over",
                  "split it over fewer blocks, or use a narrower vector");
  }
  if (schedule.threads_per_row < kWarp) {
    return broken("a block of a cluster has whole warps for its part of a row",
                  schedule.threads_per_row, kWarp, "threads", "use 32 threads per row or more");
  }
  return std::nullopt;
}

/// Rejects prefetched rows if blocks do not walk over rows, or keep no input of theirs in
/// registers.
std::optional<Rejection> check_prefetch_rows(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.prefetch_rows() == 0) return std::nullopt;
  const auto broken = [&](auto... said) { return rejected(schedule, said...); };
  if (schedule.prefetch_rows() < 0 || schedule.prefetch_rows() > kMostPrefetchRows) {
    return broken("registers hold the row at hand and the one after it", schedule.prefetch_rows(),
                  kMostPrefetchRows, "prefetched rows", "use 0 or 1");
  }
  if (schedule.persistent_blocks == 0) {
    return broken("no row comes after the one that a block has", 0, 1, "persistent blocks",
                  "use prefetch_rows 0, or as many persistent blocks as are resident at once");
  }
  if (prefetched_inputs(facts, schedule).empty()) {
    if (schedule.rows_per_tile() > 0) {
      return broken("the second pass over a tile reads no rows, so none can be prefetched", 0, 1,
                    "inputs", "use prefetch_rows 0");
    }
    return broken("no input of the row is kept in registers, so none can be prefetched", 0, 1,
                  "inputs",
                  "use prefetch_rows 0, or keep an input of rows and columns in register");
  }
  return std::nullopt;
}

/// Rejects accumulators with residency reload, and residencies of accumulators in segments that
/// accumulate no columns.
std::optional<Rejection> check_accumulators(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.accumulators() == Residency::kRegister) return std::nullopt;
  if (schedule.accumulators() == Residency::kReload) {
    return rejected(schedule, "accumulators change in every row, so nothing can be read again", 0,
                    0, "", "use accumulators register or shared");
  }
  if (accumulates_columns(facts)) return std::nullopt;
  return rejected(schedule, "no outer reduction accumulates columns; totals are a register each", 0,
                  1, "column reductions", "leave accumulators out");
}

}  // namespace

std::optional<Rejection> check_row_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                            const DeviceLimits& limits) {
  const auto broken = [&](auto... said) { return rejected(schedule, said...); };
  // A rejection by a budget of the device names a tensor.
  const auto over = [&](auto... said) {
    return with_tensor(rejected(schedule, said...), facts, schedule);
  };
  if (!is_power_of_two(schedule.threads_per_row) ||
      schedule.threads_per_row > limits.threads_per_block) {
    return over("threads per row must be a power of two within the block limit",
                schedule.threads_per_row, limits.threads_per_block, "threads",
                "use 1, 2, 4, ... 1024");
  }
  const int64_t most_rows = limits.threads_per_block / schedule.threads_per_row;
  if (schedule.rows_per_block < 1 || schedule.rows_per_block > most_rows) {
    return over("the rows of a block take more threads than the device runs, or none",
                schedule.rows_per_block, most_rows, "rows per block", "use fewer rows per block");
  }
  if (schedule.threads_per_block() % kWarp != 0) {
    return broken("the block is not made of whole warps", schedule.threads_per_block(), kWarp,
                  "threads", "make threads_per_row x rows_per_block a multiple of 32");
  }
  if (schedule.unroll < 1)
    return broken("unroll must be positive", schedule.unroll, 1, "batches", "use unroll 1");
  const int64_t most_blocks =
      std::min(limits.blocks_per_sm, limits.threads_per_sm / schedule.threads_per_block());
  if (schedule.min_blocks_per_sm < 1 || schedule.min_blocks_per_sm > most_blocks) {
    return over("more blocks per multiprocessor are promised than its threads allow, or none",
                schedule.min_blocks_per_sm, most_blocks, "blocks",
                "promise fewer blocks, or make them smaller");
  }
  if (auto rejection = check_row_access(facts, schedule)) return rejection;
  if (auto rejection = check_cluster(facts, schedule, limits)) return rejection;
  // Batches are counted by 32-bit integers, with room for a step beyond the end.
  constexpr int64_t kMostBatches = int64_t{1} << 30;
  if (const int64_t batches = batch_count(facts, schedule);
      batches > kMostBatches || schedule.unroll > kMostBatches) {
    return over("a thread takes more vectors of a row than it counts",
                std::max(batches, schedule.unroll), kMostBatches, "vectors",
                "use more threads per row, or wider vectors");
  }
  if (schedule.persistent_blocks < 0) {
    return broken("a grid of less than no blocks", schedule.persistent_blocks, 0, "blocks",
                  "use 0 for a block for every row");
  }
  if (facts.has_outer()) {
    if (schedule.persistent_blocks == 0) {
      return broken("outer reductions accumulate over the rows of a block, which walks none", 0, 1,
                    "persistent blocks", "use as many as are resident at once");
    }
    const bool needs_columns = accumulates_columns(facts);
    if (schedule.row_access == RowAccess::kUnaligned && needs_columns) {
      return broken("unaligned rows give a thread other columns in every row", 0, 0, "",
                    "use row_access scalar for rows that are no multiple of the vector");
    }
  }
  for (const KeptValue& kept : schedule.kept) {
    const bool known = kept.value.index < facts.fusion.values.size();
    // Column inputs may be held too: they are then read early, before the first barrier.
    if (!known || !facts.is_tile(kept.value) ||
        (!facts.is_full(kept.value) && !facts.is_read(kept.value))) {
      Rejection rejection = broken(
          "a persistent value does not vary along the row, or is computed from columns alone", 0, 0,
          "",
          "keep values that have an element for every row and column, or inputs read along the "
          "columns");
      rejection.at = kept.value;
      return rejection;
    }
    if (schedule.persistent_blocks > 0 && schedule.row_access == RowAccess::kUnaligned &&
        is_kept(kept) && !facts.space.dependence[kept.value].rows) {
      Rejection rejection =
          broken("unaligned rows give a thread other columns in every row, which it cannot keep", 0,
                 0, "", "use residency reload, or persistent_blocks 0");
      rejection.at = kept.value;
      return rejection;
    }
    if (!is_kept(kept) && !facts.is_read(kept.value)) {
      Rejection rejection =
          broken("only inputs can be read again", 0, 0, "", "keep the value, or leave it out");
      rejection.at = kept.value;
      return rejection;
    }
  }
  if (auto rejection = check_accumulators(facts, schedule)) return rejection;
  return check_prefetch_rows(facts, schedule);
}

std::optional<Rejection> check_unroll(const SegmentFacts& facts, const Schedule& schedule,
                                      int64_t most_batches) {
  if (schedule.unroll <= most_batches) return std::nullopt;
  return with_tensor(rejected(schedule, "too many batches are loaded at once", schedule.unroll,
                              most_batches, "batches", "use a smaller unroll"),
                     facts, schedule);
}

namespace {

/// True if some tensor of rows and columns is read or written in whole vectors of aligned rows.
bool has_vectors(const SegmentFacts& facts, int64_t width) {
  if (facts.space.columns % width != 0) return false;
  const Schedule probe{.vector_width = width, .row_access = RowAccess::kAligned};
  const auto is_vector = [&](const TensorAccess& access) {
    return access_kind(facts, access, probe) == AccessKind::kVector;
  };
  for (const TensorAccess& access : facts.space.inputs) {
    if (facts.is_full(access.value) && is_vector(access)) return true;
  }
  for (size_t i = 0; i < facts.space.outputs.size(); ++i) {
    if (facts.space.output_coverage[i].columns && is_vector(facts.space.outputs[i])) return true;
  }
  return false;
}

/// Number of elements of `bytes` bytes that the widest access moves.
int64_t whole_vector(int64_t bytes) { return std::max<int64_t>(kMostAccessBytes / bytes, 1); }

}  // namespace

VectorWidths vector_widths(const SegmentFacts& facts) {
  bool stores_apart = false;
  for (size_t i = 0; i < facts.space.outputs.size(); ++i)
    stores_apart |= facts.space.output_coverage[i].columns && lies_apart(facts.space.outputs[i]);
  return {.widest = whole_vector(facts.narrowest_tile_bytes),
          .narrowest = stores_apart ? 1 : whole_vector(facts.widest_tile_bytes)};
}

std::vector<RowVector> row_vectors(const SegmentFacts& facts) {
  std::vector<RowVector> vectors;
  const auto [widest, narrowest] = vector_widths(facts);
  const bool shifts = shift_reference(facts) != nullptr;
  for (int64_t width = widest; width >= narrowest && width > 1; width /= 2) {
    if (has_vectors(facts, width)) {
      vectors.push_back({width, RowAccess::kAligned});
    } else if (shifts && facts.space.columns >= 2 * width) {
      vectors.push_back({width, RowAccess::kUnaligned});
    }
  }
  // Vectors of less than 16 bytes: for rows of several runs whose length no wider vector divides.
  for (int64_t width = narrowest / 2; width > 1 && vectors.empty(); width /= 2) {
    if (has_vectors(facts, width)) vectors.push_back({width, RowAccess::kAligned});
  }
  if (!vectors.empty() && narrowest > 1) return vectors;
  // No tensor is read in vectors. Neighbouring elements of a thread are packed, and those of a warp
  // share sectors.
  for (int64_t width = whole_vector(facts.widest_tile_bytes); width > 1 && vectors.empty();
       width /= 2) {
    if (facts.space.columns % width == 0) vectors.push_back({width, RowAccess::kAligned});
  }
  vectors.push_back({1, RowAccess::kScalar});
  return vectors;
}

std::optional<Rejection> check_outer_operands(const SegmentFacts& facts, std::string_view family) {
  for (const OpId id : facts.outer_reductions) {
    const Op& op = facts.fusion.ops[id];
    if (facts.is_total(id) || facts.space.dependence[op.operands[0]].columns) continue;
    return Rejection{.subject = std::string(family),
                     .rule = "an outer reduction gives every column the same value",
                     .value = 0,
                     .limit = 1,
                     .unit = "columns",
                     .at = op.results.front(),
                     .remedy = "reduce the row values before they are broadcast"};
  }
  return std::nullopt;
}

namespace {

/// Whether the strides of a tensor do not increase from the outermost axis to the innermost. Axes
/// of one element or of stride 0 do not count.
bool lies_in_order(const Fusion& fusion, ValueId tensor, const Sizes& strides) {
  const Shape& shape = fusion.values[tensor].shape;
  int64_t outer = std::numeric_limits<int64_t>::max();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis].is_one() || strides[axis] == 0) continue;
    if (std::abs(strides[axis]) > outer) return false;
    outer = std::abs(strides[axis]);
  }
  return true;
}

/// The first result of an outer reduction whose columns may be walked in another order than that of
/// its axes. The finish of partial results takes the axes in order. Results with one axis have one
/// order.
std::optional<ValueId> columns_out_of_order(const SegmentFacts& facts) {
  const Fusion& fusion = facts.fusion;
  const auto has_axes = [&](OpId id) {
    const Shape& shape = fusion.values[fusion.ops[id].results.front()].shape;
    return std::ranges::count_if(shape, [](const Extent& extent) { return !extent.is_one(); }) > 1;
  };
  const auto several = std::ranges::find_if(facts.outer_reductions, has_axes);
  if (several == facts.outer_reductions.end()) return std::nullopt;
  const bool permutes = std::ranges::any_of(
      fusion.ops, [](const Op& op) { return std::holds_alternative<PermuteOp>(op.kind); });
  const bool in_order = !permutes && std::ranges::all_of(fusion.inputs, [&](ValueId input) {
    return lies_in_order(fusion, input, input_strides(fusion, {}, input));
  }) && std::ranges::all_of(fusion.outputs, [&](ValueId output) {
    return lies_in_order(fusion, output, output_strides(fusion, {}, output));
  });
  if (in_order) return std::nullopt;
  return fusion.ops[*several].results.front();
}

}  // namespace

std::optional<Rejection> check_outer_reductions(const SegmentFacts& facts,
                                                std::string_view family) {
  if (auto rejection = check_outer_operands(facts, family)) return rejection;
  for (const OpId id : facts.outer_reductions) {
    const Op& op = facts.fusion.ops[id];
    const size_t components = exchange_types(facts.fusion, op).size();
    if (components == 1) continue;
    return Rejection{.subject = std::string(family),
                     .rule = "partial results of an outer reduction are single values, not tuples",
                     .value = static_cast<double>(components),
                     .limit = 1,
                     .unit = "components",
                     .at = op.results.front(),
                     .remedy = "the column family reduces tuples whole"};
  }
  const size_t dimensions = facts.space.dimensions.size() - facts.space.row_dimensions;
  if (!facts.has_outer()) return std::nullopt;
  if (dimensions <= 1) {
    const auto turned = columns_out_of_order(facts);
    if (!turned) return std::nullopt;
    return Rejection{.subject = std::string(family),
                     .rule = "partial results lie in the order of the axes, columns in another one",
                     .value = 1,
                     .limit = 0,
                     .unit = "results",
                     .at = *turned,
                     .remedy = "the column family reduces them whole"};
  }
  return Rejection{.subject = std::string(family),
                   .rule = "partial results lie along one dimension of columns",
                   .value = static_cast<double>(dimensions),
                   .limit = 1,
                   .unit = "dimensions",
                   .at = facts.fusion.ops[facts.outer_reductions.front()].results.front(),
                   .remedy = "make the tensors contiguous along the columns"};
}

std::optional<Rejection> check_row_outputs(const SegmentFacts& facts, std::string_view family) {
  for (size_t i = 0; i < facts.space.outputs.size(); ++i) {
    if (facts.is_empty(facts.fusion.outputs[i])) continue;
    if (facts.is_after_rows(facts.fusion.outputs[i])) continue;
    for (size_t dimension = 0; dimension < facts.space.row_dimensions; ++dimension) {
      if (facts.space.outputs[i].strides[dimension] != 0 ||
          facts.space.dimensions[dimension].size <= 1)
        continue;
      return Rejection{.subject = std::string(family),
                       .rule = "an output does not span the rows, so every row would store it",
                       .value = static_cast<double>(facts.space.dimensions[dimension].size),
                       .limit = 1,
                       .unit = "rows",
                       .at = facts.fusion.outputs[i],
                       .remedy = "give outputs of other axes fusions of their own"};
    }
  }
  return std::nullopt;
}

std::vector<Rejection> check_row_segment(const SegmentFacts& facts, std::string_view family) {
  std::vector<Rejection> rejections;
  if (!facts.has_reduction() && !facts.has_outer()) {
    rejections.push_back({.subject = std::string(family),
                          .rule = "the segment reduces nothing, so no row has to be held together",
                          .value = 0,
                          .limit = 1,
                          .unit = "reductions",
                          .remedy = "the pointwise family takes it"});
    return rejections;
  }
  if (auto rejection = check_row_outputs(facts, family)) {
    rejections.push_back(std::move(*rejection));
    return rejections;
  }
  for (const TensorAccess& access : facts.space.inputs) {
    if (!facts.is_full(access.value)) continue;
    const size_t first = facts.space.row_dimensions;
    if (facts.space.dimensions.size() == first || facts.space.columns <= 1) continue;
    const int64_t stride = access.strides.back();
    if (stride > 1 && facts.space.row_dimensions > 0 && access.strides[first - 1] == 1) {
      rejections.push_back({.subject = std::string(family),
                            .rule = "the reduced axis is not the contiguous one",
                            .value = static_cast<double>(stride),
                            .limit = 1,
                            .unit = "elements of stride",
                            .at = access.value,
                            .remedy = "column reductions need a family of their own; transpose the "
                                      "input, or run it elsewhere"});
      return rejections;
    }
  }
  return rejections;
}

}  // namespace sinter
