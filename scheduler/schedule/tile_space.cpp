#include "scheduler/schedule/tile_space.h"

#include <algorithm>
#include <cstdlib>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {
namespace {

constexpr int64_t kBankBytes = 4;  // Of 32 shared-memory banks (CUDA programming guide).
constexpr int64_t kAllBanksBytes = kWarp * kBankBytes;

/// Distinct elements that an access addresses.
double elements_of(const IterationSpace& space, const TensorAccess& access) {
  double elements = 1.0;
  for (size_t i = 0; i < space.dimensions.size(); ++i) {
    if (access.strides[i] != 0) elements *= static_cast<double>(space.dimensions[i].size);
  }
  return elements;
}

bool passes_through_shared(const IterationSpace& space, const TensorAccess& access, TileAxes axes) {
  return fastest_dimension(space, access) == axes.across && access.strides[axes.along] != 0;
}

/// The dimensions in the order of walked_along().
std::vector<size_t> order_along(size_t count, size_t dimension) {
  std::vector<size_t> order;
  for (size_t i = 0; i < count; ++i) {
    if (i != dimension) order.push_back(i);
  }
  order.push_back(dimension);
  return order;
}

/// Widest vector of whole accesses, along the columns of `across`, that a tensor allows.
int64_t widest_vector(const SegmentFacts& across, const TensorAccess& access, int64_t most) {
  for (int64_t width = most; width > 1; width /= 2) {
    const Schedule probe{.vector_width = width, .row_access = RowAccess::kAligned};
    if (access_kind(across, access, probe) == AccessKind::kVector) return width;
  }
  return 1;
}

}  // namespace

std::optional<size_t> fastest_dimension(const IterationSpace& space, const TensorAccess& access) {
  std::optional<size_t> fastest;
  for (size_t i = 0; i < space.dimensions.size(); ++i) {
    if (access.strides[i] == 0 || space.dimensions[i].size <= 1) continue;
    if (!fastest || std::abs(access.strides[i]) <= std::abs(access.strides[*fastest])) fastest = i;
  }
  return fastest;
}

std::optional<TileAxes> tile_axes(const SegmentFacts& facts) {
  const IterationSpace& space = facts.space;
  std::vector<double> bytes(space.dimensions.size(), 0.0);
  const auto add = [&](const TensorAccess& access) {
    if (const auto fastest = fastest_dimension(space, access)) {
      bytes[*fastest] += elements_of(space, access) *
                         static_cast<double>(bytes_of(facts.fusion.values[access.tensor].type));
    }
  };
  for (const TensorAccess& access : space.inputs) add(access);
  for (const TensorAccess& access : space.outputs) add(access);
  // The dimension of most bytes, except `without`.
  const auto most = [&](std::optional<size_t> without) {
    std::optional<size_t> best;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] > 0.0 && i != without && (!best || bytes[i] >= bytes[*best])) best = i;
    }
    return best;
  };
  const auto along = most(std::nullopt);
  if (!along) return std::nullopt;
  const auto is_staged_along = [&](size_t across) {
    const auto passes = [&](const TensorAccess& access) {
      return passes_through_shared(space, access, {*along, across});
    };
    return std::ranges::any_of(space.inputs, passes) || std::ranges::any_of(space.outputs, passes);
  };
  // A vector along another dimension needs no tile.
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i != *along && !is_staged_along(i)) bytes[i] = 0.0;
  }
  const auto across = most(along);
  if (!across) return std::nullopt;
  return TileAxes{*along, *across};
}

SegmentFacts walked_along(const SegmentFacts& facts, size_t dimension) {
  SINTER_CHECK(!facts.has_reduction() && !facts.has_outer(), "a tile has no rows to reduce");
  SegmentFacts out = facts;
  IterationSpace& space = out.space;
  const std::vector<size_t> order = order_along(space.dimensions.size(), dimension);
  const auto permuted = [&](const std::vector<int64_t>& strides) {
    std::vector<int64_t> moved;
    for (const size_t i : order) moved.push_back(strides[i]);
    return moved;
  };
  for (size_t i = 0; i < order.size(); ++i) space.dimensions[i] = facts.space.dimensions[order[i]];
  space.row_dimensions = order.size() - 1;
  space.columns = space.dimensions.back().size;
  space.rows = 1;
  for (size_t i = 0; i < space.row_dimensions; ++i) space.rows *= space.dimensions[i].size;
  for (TensorAccess& access : space.inputs) access.strides = permuted(access.strides);
  for (TensorAccess& access : space.outputs) access.strides = permuted(access.strides);

  const auto varies = [&](const std::vector<int64_t>& strides) {
    Dependence dependence{.rows = false, .columns = strides.back() != 0};
    for (size_t i = 0; i < space.row_dimensions; ++i)
      dependence.rows = dependence.rows || strides[i] != 0;
    return dependence;
  };
  for (size_t i = 0; i < space.outputs.size(); ++i)
    space.output_coverage[i] = varies(space.outputs[i].strides);
  for (const OpId id : out.fusion.op_ids()) {
    const Op& op = out.fusion.ops[id];
    Dependence dependence;
    if (const TensorAccess* access = space.find_input(op.results.front())) {
      dependence = varies(access->strides);
    } else if (std::holds_alternative<IotaOp>(op.kind)) {
      std::vector<int64_t>& weights = space.iota_weights[op.results.front()];
      weights = permuted(weights);
      dependence = varies(weights);
    } else {
      for (const ValueId operand : op.operands) {
        dependence.rows |= space.dependence[operand].rows;
        dependence.columns |= space.dependence[operand].columns;
      }
    }
    for (const ValueId result : op.results) space.dependence[result] = dependence;
  }
  return out;
}

TileShape tile_shape(const Schedule& schedule) {
  return {schedule.threads_per_row * schedule.vector_width,
          schedule.rows_per_block * schedule.unroll};
}

TileWalk walk_along(const Schedule& schedule, int64_t staged_bytes) {
  const TileShape shape = tile_shape(schedule);
  const int64_t vector_bytes = schedule.vector_width * staged_bytes;
  return {
      .fast = shape.along,
      .slow = shape.across,
      .width = schedule.vector_width,
      .lanes = std::clamp<int64_t>(kAllBanksBytes / vector_bytes, 1,
                                   std::min(kWarp, schedule.threads_per_row)),
      .threads = schedule.threads_per_block(),
  };
}

std::vector<StagedTensor> staged_tensors(const SegmentFacts& facts, TileAxes axes,
                                         const Schedule& schedule) {
  const SegmentFacts across = walked_along(facts, axes.across);
  const TileShape shape = tile_shape(schedule);
  const int64_t per_thread = shape.along * shape.across / schedule.threads_per_block();
  std::vector<StagedTensor> out;
  const auto stage = [&](const TensorAccess& access, const TensorAccess& from_across,
                         StagedTensor staged) {
    if (!passes_through_shared(facts.space, access, axes)) return;
    const int64_t bytes = bytes_of(facts.fusion.values[access.tensor].type);
    staged.value = access.value;
    const int64_t line_bytes = rounded_up(shape.along * bytes, kAllBanksBytes);
    const int64_t step_bytes = std::max(bytes, kBankBytes);
    staged.pitch = (line_bytes + step_bytes) / bytes;
    staged.bytes = shape.across * staged.pitch * bytes;
    const int64_t most = std::min({kMostAccessBytes / bytes, per_thread, shape.across});
    const int64_t width = widest_vector(across, from_across, most);
    staged.walk = {
        .fast = shape.across,
        .slow = shape.along,
        .width = width,
        .lanes = std::clamp<int64_t>(kAllBanksBytes / (width * step_bytes), 1,
                                     std::min(kWarp, shape.across / width)),
        .threads = schedule.threads_per_block(),
    };
    out.push_back(staged);
  };
  for (size_t i = 0; i < facts.space.inputs.size(); ++i)
    stage(facts.space.inputs[i], across.space.inputs[i], {});
  for (size_t i = 0; i < facts.space.outputs.size(); ++i)
    stage(facts.space.outputs[i], across.space.outputs[i],
          {.value = {}, .is_output = true, .output = i, .walk = {}});
  return out;
}

TileGrid tile_grid(const SegmentFacts& facts, TileAxes axes, const Schedule& schedule) {
  const TileShape shape = tile_shape(schedule);
  TileGrid grid{.along = divided_up(facts.space.dimensions[axes.along].size, shape.along),
                .across = divided_up(facts.space.dimensions[axes.across].size, shape.across)};
  for (size_t i = 0; i < facts.space.dimensions.size(); ++i) {
    if (i != axes.along && i != axes.across) grid.others *= facts.space.dimensions[i].size;
  }
  return grid;
}

}  // namespace sinter
