#include "scheduler/program/program_walks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <type_traits>

#include <fmt/format.h>

#include "fusion_ir/integers.h"
#include "fusion_ir/match.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/program/shared_layout.h"

namespace sinter::program {
namespace {

/// `full` and `empty`, and where a stage is split `split` (codegen/protocol).
constexpr int64_t kMbarriersOfStage = 2;
constexpr int64_t kMbarriersOfSplitStage = 3;
/// Rows after which the pattern of a swizzle repeats (PTX ISA, "Tensor swizzling modes").
constexpr int64_t kRowsOfPattern = 8;
/// Lanes that have the columns of a row of a fragment.
constexpr int64_t kLanesOfRow = kWarp / kFragmentRows;

/// Visits steps with the part of each axis that the enclosing loops have chosen.
class Walk {
 public:
  Walk(const Program& program, const std::function<void(const Step&, const Times&)>& visit)
      : program_(program), visit_(visit) {
    for (const Axis& axis : program.axes) extents_.push_back(axis.extent);
  }

  void steps(const Steps& body, const Times& times) {
    for (const StepId id : body) {
      const Step& step = program_.steps[id];
      visit_(step, times);
      std::visit(
          overloaded{[&](const Nest& nest) { enter(nest, times); },
                     [&](const Pipeline& pipeline) { enter(pipeline, times); }, [](const auto&) {}},
          step);
    }
  }

 private:
  /// Runs `inside` with the part of an axis that one iteration of each loop has. `count` gets as
  /// many times larger as there are iterations.
  void enter(std::span<const Loop> loops, double& count, const auto& inside) {
    if (loops.empty()) return inside();
    const Loop& loop = loops.front();
    const int64_t outside = extents_[loop.axis];
    count *= static_cast<double>(divided_up(outside, loop.step));
    extents_[loop.axis] = loop.step;
    enter(loops.subspan(1), count, inside);
    extents_[loop.axis] = outside;
  }

  void enter(const Nest& nest, Times times) {
    double& count = nest.binding == Binding::kBlock ? times.blocks : times.parts;
    enter(nest.loops, count, [&] { steps(nest.body, times); });
  }

  void enter(const Pipeline& pipeline, Times times) {
    double count = 1.0;
    enter({&pipeline.loop, 1}, count, [&] {
      const auto warps = static_cast<double>(std::max<int64_t>(pipeline.slice_warps, 1));
      times.iterations *= std::ceil(count / warps);
      times.parts *= warps;
      steps(pipeline.copies, times);
      steps(pipeline.body, times);
    });
  }

  const Program& program_;
  const std::function<void(const Step&, const Times&)>& visit_;
  IdVector<AxisId, int64_t> extents_;
};

int64_t elements_of(const Tile& tile) { return tile.rows.extent * tile.columns.extent; }
int64_t bytes_of_tile(const Tile& tile) { return elements_of(tile) * bytes_of(tile.type); }

/// Extent of a tile along an axis.
int64_t extent_along(const Tile& tile, AxisId axis) {
  return tile.rows.axis == axis ? tile.rows.extent : tile.columns.extent;
}

/// Elements of the contracted axis in the tiles of a contraction.
int64_t depth_of(const Program& program, const Contract& contract) {
  const Tile& left = program.tiles[contract.left];
  const AxisId own = program.tiles[contract.accumulator].rows.axis;
  return extent_along(left, left.rows.axis == own ? left.columns.axis : left.rows.axis);
}

class Checker {
 public:
  Checker(const Program& program, std::string_view family) : program_(program), family_(family) {}

  std::optional<Rejection> run() {
    for (const Tile& tile : program_.tiles) check_tile(tile);
    for_each_step(program_, [&](const Step& step, const Times&) {
      std::visit([&](const auto& kind) { check_step(kind); }, step);
    });
    return std::move(first_);
  }

 private:
  /// `rule` and `remedy` are texts, or functions that make them: most rules hold, and programs are
  /// checked by the thousand.
  template <class Rule, class Remedy>
  void require(bool holds, const Rule& rule, int64_t value, int64_t limit, std::string_view unit,
               const Remedy& remedy) {
    if (holds || first_) return;
    first_ = {.subject = std::string(family_),
              .rule = said(rule),
              .value = static_cast<double>(value),
              .limit = static_cast<double>(limit),
              .unit = std::string(unit),
              .at = {},
              .remedy = said(remedy)};
  }

  template <class Text>
  static std::string said(const Text& text) {
    if constexpr (std::is_invocable_v<Text>) {
      return text();
    } else {
      return std::string(text);
    }
  }

  void check_tile(const Tile& tile) {
    require(tile.rows.extent > 0 && tile.columns.extent > 0, "a tile has no elements",
            std::min(tile.rows.extent, tile.columns.extent), 1, "elements", "use larger tiles");
    if (tile.place != Place::kShared) return;
    const int64_t line = tile.line_columns() * bytes_of(tile.type);
    require(line >= 2 * kChunkBytes && std::has_single_bit(static_cast<uint64_t>(line)),
            "rows of a tile in shared memory are a power of two of bytes, two chunks at least",
            line, 2 * kChunkBytes, "bytes", "use tiles of 16, 32, 64 or 128 elements");
    require(tile.columns.extent % tile.line_columns() == 0,
            "the columns of a tile are not whole lines", tile.columns.extent, tile.line_columns(),
            "columns", "use a multiple of the line");
  }

  void check_step(const Nest& nest) {
    if (nest.binding == Binding::kBlock) {
      require(nest.persistent_blocks >= 0, "a grid has blocks", nest.persistent_blocks, 0, "blocks",
              "use persistent_blocks 0 or more");
      require(nest.at_once >= 1 && (nest.at_once == 1 || program_.producer.has_value()),
              "only a producer feeds parts of a block that work on tiles of their own",
              nest.at_once, 1, "tiles", "use rows_per_block 1");
      require(nest.cluster >= 1, "a cluster has blocks", nest.cluster, 1, "blocks",
              "use cluster_size 1");
      const bool has_epilogue = program_.producer && program_.producer->epilogue_warps > 0;
      require(nest.exchange == ExchangeKind::kCluster || (nest.cluster > 1 && has_epilogue),
              "the warps of an epilogue of blocks that share rows send messages", nest.cluster, 1,
              "blocks", "use exchange cluster");
      if (nest.cluster <= 1) return;
      const Loop& last = nest.loops.back();
      const int64_t parts =
          last.step > 0 ? divided_up(program_.axes[last.axis].extent, last.step) : 0;
      require(parts == nest.cluster && parts * last.step == program_.axes[last.axis].extent,
              "the blocks of a cluster share the columns evenly", parts, nest.cluster, "blocks",
              "use a cluster_size that divides the columns");
      require(nest.persistent_blocks % nest.cluster == 0, "a grid has whole clusters",
              nest.persistent_blocks, nest.cluster, "blocks",
              "use a multiple of cluster_size as persistent_blocks");
      return;
    }
    if (nest.binding == Binding::kEpilogueWarp) {
      check_epilogue(nest);
      return;
    }
    int64_t parts = 1;
    for (const Loop& loop : nest.loops) {
      const int64_t part = part_of_block(loop.axis);
      // One part may be larger, where the blocks of a cluster share the axis.
      require(loop.step > 0 && (part % loop.step == 0 || part < loop.step),
              "a block's tile does not split evenly over its warps", part, loop.step, "elements",
              "use a number of warps that divides the tile");
      if (loop.step > 0) parts *= divided_up(part, loop.step);
    }
    const int64_t threads = nest.binding == Binding::kWarp ? kWarp : kWarpGroup;
    const int64_t of_tile = program_.threads / std::max<int64_t>(tiles_at_once(program_), 1);
    // Warps with slices of a tile all have it; what follows takes no more of them than there are.
    const bool fits =
        slice_warps(program_) > 0 ? parts * threads <= of_tile : parts * threads == of_tile;
    require(fits, "warps and parts of a tile differ in number", parts * threads, of_tile, "threads",
            [&] { return fmt::format("use {} threads for each part", threads); });
  }

  /// Every warp has rows of each part that is handed over.
  void check_epilogue(const Nest& nest) {
    const int64_t warps = program_.producer ? program_.producer->epilogue_warps : 0;
    const int64_t most = program_.producer ? program_.producer->threads / kWarp - 1 : 0;
    require(warps >= 1 && warps <= most,
            "the warps of the epilogue are those beside the producer's", warps, most, "warps",
            "use fewer epilogue_warps");
    const Handover* handover = step_of<Handover>(program_);
    require(handover != nullptr, "the warps of the epilogue evaluate what others hand over", 0, 1,
            "tiles", "hand a tile over");
    if (handover == nullptr) return;
    const int64_t rows = program_.tiles[handover->fragment].rows.extent;
    const Loop& loop = nest.loops.front();
    require(loop.axis == program_.tiles[handover->tile].rows.axis && loop.step > 0 &&
                rows % loop.step == 0 && rows / loop.step >= warps,
            "a part that is handed over has rows for every warp of the epilogue",
            loop.step > 0 ? rows / loop.step : 0, warps, "iterations", "use fewer epilogue_warps");
  }

  void check_step(const Handover& handover) {
    const Tile& fragment = program_.tiles[handover.fragment];
    const Tile& tile = program_.tiles[handover.tile];
    require(program_.producer.has_value() && fragment.place == Place::kGroupFragment &&
                tile.place == Place::kShared && tiles_at_once(program_) == 1,
            "warp groups that share a tile hand it over in shared memory", tiles_at_once(program_),
            1, "tiles at once", "use rows_per_block 1");
    require(tile.columns == fragment.columns,
            "a warp group that hands its part of a tile over has all of its columns",
            fragment.columns.extent, tile.columns.extent, "columns",
            "let the warp groups share the rows alone");
    require(
        tile.rows.axis == fragment.rows.axis && tile.rows.extent == part_of_block(tile.rows.axis),
        "a tile that is handed over is not that of the block", tile.rows.extent,
        part_of_block(tile.rows.axis), "rows", "use tiles of the block's size");
  }

  void check_step(const Pipeline& pipeline) {
    require(pipeline.stages >= 2, "a pipeline has two stages at least", pipeline.stages, 2,
            "stages", "use more pipeline_stages");
    const int64_t warps = program_.threads / kWarp;
    require(pipeline.slice_warps == 0 || (pipeline.slice_warps == warps && !program_.producer),
            "all warps of a block take parts of the contracted axis, and no producer",
            pipeline.slice_warps, warps, "warps", "use 32 threads for each of slice_warps");
  }

  void check_step(const Copy& copy) {
    const Tile& tile = program_.tiles[copy.tile];
    const int64_t bytes = copy.width * bytes_of(tile.type);
    require((copy.kind == CopyKind::kTensor) == program_.producer.has_value(),
            "a producer copies by tensor maps, and nothing else does", bytes, 0, "bytes",
            "use tensor copies in a program with a producer");
    require((copy.kind == CopyKind::kDirect) == (tile.place == Place::kLines),
            "registers take lines of an operand, and shared memory all else", bytes, 0, "bytes",
            "use direct copies where warps take parts of the contracted axis in turns");
    if (copy.kind == CopyKind::kDirect) {
      require(bytes == kChunkBytes && tile.columns.extent * bytes_of(tile.type) == kLineBytes,
              "a direct copy brings a line of 128 bytes, 16 bytes a lane",
              tile.columns.extent * bytes_of(tile.type), kLineBytes, "bytes",
              "use a tile_depth of 128 bytes, and operands that are aligned to 16 bytes");
      return;
    }
    if (copy.kind == CopyKind::kTensor) {
      require(copy.width == tile.line_columns() && bytes <= kLineBytes,
              "a tensor map copies whole lines of at most 128 bytes", bytes, kLineBytes, "bytes",
              "use lines of 32, 64 or 128 bytes");
      require(tile.rows.extent <= kLargestBox && tile.rows.extent % kRowsOfPattern == 0,
              "a tensor map copies up to 256 rows, and whole patterns of the swizzle",
              tile.rows.extent, kLargestBox, "rows", "use a tile of 64, 128 or 256 rows");
      return;
    }
    const bool is_async_size = bytes >= kLeastAsyncBytes && bytes <= kMostAsyncBytes &&
                               std::has_single_bit(static_cast<uint64_t>(bytes));
    require(copy.kind == CopyKind::kPlain ? copy.width == 1 : is_async_size,
            "an asynchronous copy has 4, 8 or 16 bytes", bytes, kMostAsyncBytes, "bytes",
            "copy through registers");
  }

  void check_step(const Split& split) {
    const Tile& tile = program_.tiles[split.tile];
    const Tile& second = program_.tiles[split.second];
    require(program_.producer.has_value() && program_.producer->split_warps > 0,
            "a stage is split by warps beside the producer", 0, 1, "warps", "use a producer");
    require(
        tile.type == DType::kF32 && tile.place == Place::kShared && tiles_at_once(program_) == 1,
        "f32 in shared memory is split for warp groups that work on one tile",
        tiles_at_once(program_), 1, "tiles at once", "use rows_per_block 1");
    require(second.type == tile.type && second.place == tile.place && second.rows == tile.rows &&
                second.columns == tile.columns && second.line == tile.line &&
                second.stages == tile.stages,
            "the second parts of a tile do not lie as the tile does",
            elements_of(second) * second.stages, elements_of(tile) * tile.stages, "elements",
            "use a tile of its size, lines and stages");
  }

  void check_step(const Contract& contract) {
    const Tile& left = program_.tiles[contract.left];
    const Tile& right = program_.tiles[contract.right];
    const Tile& sum = program_.tiles[contract.accumulator];
    const MatrixShape shape = matrix_shape(program_, contract);
    const bool of_group = sum.place == Place::kGroupFragment;
    const bool by_lanes = contract.unit == Unit::kLane;
    const bool of_slice = sum.place == Place::kSlice;
    require(of_slice == (left.place == Place::kLines) && of_slice == (right.place == Place::kLines),
            "products of lines in registers are slices of a sum, and no others", of_slice ? 1 : 0,
            1, "slices", "let all warps or none have a slice");
    require(!of_slice || contract.precision != ContractPrecision::kTf32x3,
            "lines in registers are not split into two TF32 numbers", 3, 1, "products",
            "use slice_warps 0");
    const bool has_seconds = contract.right_second.valid();
    require(has_seconds == (of_group && contract.precision == ContractPrecision::kTf32x3),
            "warp groups multiply second parts that lie in shared memory", has_seconds ? 1 : 0, 1,
            "second parts", "split the tile of the right operand");
    require(!by_lanes || contract.fn != ContractFn::kLogSumExp,
            "lanes keep one value of each accumulator", 2, 1, "values",
            "use the composite: maxima, exponentials and a sum of products");
    require(by_lanes || contract.fn == ContractFn::kSum,
            "matrix instructions compute sums of products alone", 1, 0, "combiners",
            "contract by lanes");
    require(bytes_of(left.type) == bytes_of(right.type),
            "operands of a matrix instruction have elements of one size", bytes_of(right.type),
            bytes_of(left.type), "bytes", "cast one of them");
    require(
        sum.rows.extent % shape.m == 0,
        [&] {
          return fmt::format("the rows of a warp{} are not whole matrix instructions",
                             of_group ? " group" : "");
        },
        sum.rows.extent, shape.m, "rows",
        [&] { return fmt::format("use a multiple of {} rows for each of them", shape.m); });
    require(of_group == program_.producer.has_value() && !(of_group && by_lanes),
            "a producer fills tiles for warp groups, and nothing else does", of_group ? 1 : 0, 1,
            "warp groups", "use a producer with products of warp groups");
    if (of_group) {
      require(std::ranges::find(kGroupColumns, shape.n) != kGroupColumns.end() &&
                  sum.columns.extent % shape.n == 0,
              "no matrix instruction of a warp group has so many columns", shape.n,
              kGroupColumns.back(), "columns", "use 32, 64, 128 or 256 columns for each group");
    } else {
      // One matrix load gives the columns of two instructions. The fragments of a tile that slices
      // are merged into have eight columns.
      const int64_t together = by_lanes ? shape.n : 2 * shape.n;
      require(sum.columns.extent % together == 0,
              "a warp's columns are not pairs of matrix instructions", sum.columns.extent, together,
              "columns",
              [&] { return fmt::format("use a multiple of {} columns for each warp", together); });
    }
    for (const Tile* operand : {&left, &right}) {
      const bool is_left = operand == &left;
      const AxisId kept = is_left ? sum.rows.axis : sum.columns.axis;
      const bool transposed = operand->columns.axis == kept;
      const AxisId contracted = transposed ? operand->rows.axis : operand->columns.axis;
      require(operand->in_order == (by_lanes && transposed),
              "lanes read a transposed tile in order, and no other tile is read so",
              operand->in_order ? 1 : 0, by_lanes && transposed ? 1 : 0, "tiles in order",
              "permute the chunks of all tiles but those");
      const int64_t depth = extent_along(*operand, contracted);
      require(depth % shape.k == 0, "the contracted part of a tile is not whole instructions",
              depth, shape.k, "elements", "use a deeper tile");
      require(
          !of_group || !transposed || (is_left ? shape.m : shape.n) % operand->line_columns() == 0,
          "a matrix instruction takes whole lines of a transposed operand",
          is_left ? shape.m : shape.n, operand->line_columns(), "elements",
          "use wider tiles, or shorter lines");
      // Lanes take them one by one; so do matrix instructions those of 4 bytes.
      require(!transposed || by_lanes || bytes_of(operand->type) == 2 ||
                  (bytes_of(operand->type) == kRegisterBytes && !of_group),
              "elements of less than 2 bytes are not transposed on their way to registers",
              bytes_of(operand->type), 2, "bytes", "let the contracted axis be the inner one");
    }
  }

  void check_step(const Fold& fold) {
    const int64_t reach = fold.reach();
    require(fold.width >= 1 && fold.ahead >= 1 && part_of_block(fold.columns) == reach,
            "a block's columns are not the vectors of a group of its threads",
            part_of_block(fold.columns), reach, "columns", "use strips of across x width columns");
    require(fold.across >= 1 && fold.slots >= 1 && fold.across * fold.slots == program_.threads,
            "the threads of a block are not whole groups", program_.threads,
            fold.across * fold.slots, "threads", "use across x slots threads");
    require(fold.cluster >= 1 && fold.shares >= 0, "a strip of columns has blocks",
            std::min(fold.cluster, fold.shares), 0, "blocks", "use cluster_size 1 or more");
  }

  void check_step(const Elements& elements) {
    const int64_t tile = elements.tile(program_.threads);
    require(elements.width >= 1 && elements.vectors >= 1 && part_of_block(elements.axis) == tile,
            "a block's tile is not the vectors of its threads", part_of_block(elements.axis), tile,
            "elements", "use tiles of threads x width x vectors elements");
  }

  void check_step(const Merge& merge) {
    const Tile& slice = program_.tiles[merge.slice];
    const Tile& through = program_.tiles[merge.through];
    const Tile& fragment = program_.tiles[merge.fragment];
    require(slice.place == Place::kSlice && fragment.place == Place::kFragment &&
                through.place == Place::kShared && through.rows == slice.rows &&
                through.columns == slice.columns && through.type == slice.type,
            "slices are merged through a tile of their size in shared memory",
            through.rows.extent * through.columns.extent, slice.rows.extent * slice.columns.extent,
            "elements", "use a tile of the block's size");
    require(through.stages == slice_warps(program_), "each warp has a slice of its own",
            through.stages, slice_warps(program_), "slices",
            "use a copy of the tile for each warp");
  }

  void check_step(const Region& region) {
    const Tile& fragment = program_.tiles[region.tile];
    const bool is_handed = fragment.place == Place::kShared;
    const int64_t chunk = kChunkBytes / bytes_of(fragment.type);
    require(is_handed ? region.width == chunk : region.width == 1 || region.width == 2,
            is_handed ? "a lane of the epilogue takes a chunk of a tile at once"
                      : "a lane has pairs of adjacent columns of a fragment",
            region.width, is_handed ? chunk : 2, "elements", "use vector_width 1 or 2");
    if (region.holds_rows) {
      // Tiles of several blocks have a row only where the blocks are a cluster.
      const int64_t of_cluster = divided_up(program_.axes[fragment.columns.axis].extent,
                                            std::max<int64_t>(cluster_size(program_), 1));
      const int64_t columns = std::max(part_of_block(fragment.columns.axis), of_cluster);
      require(columns <= fragment.columns.extent && region.width >= 2,
              "a row that is reduced does not fit the fragment of a warp or warp group", columns,
              fragment.columns.extent, "columns",
              "use wider tiles of fewer warps along the columns, or another kernel for the rows");
    }
    if (region.partial_rows > 0) {
      const int64_t parts = part_of_block(fragment.rows.axis) / fragment.rows.extent;
      const int64_t warps = is_handed ? program_.producer->epilogue_warps
                                      : parts * threads_of(fragment.place) / kWarp;
      require(region.partial_rows == warps && !region.holds_rows,
              "each warp that has rows of a tile leaves partial results of them",
              region.partial_rows, warps, "rows", "reduce the rows alone, in all warps");
    }
    for (const Staging& staging : region.staged) {
      const Tile& tile = program_.tiles[staging.tile];
      const int64_t warps = program_.threads / kWarp;
      require(tile.place == Place::kShared &&
                  (tile.rows.extent == kFragmentRows || tile.rows.extent == 2 * kFragmentRows),
              "a warp stages eight or sixteen rows of an output", tile.rows.extent, kFragmentRows,
              "rows", "use a tile of eight rows in shared memory");
      require(tile.stages == warps, "each warp stages its own rows", tile.stages, warps, "warps",
              "use a copy of the tile for each warp");
      const int64_t bytes = staging.width * bytes_of(tile.type);
      require(bytes <= kMostAccessBytes && std::has_single_bit(static_cast<uint64_t>(bytes)) &&
                  fragment.columns.extent % staging.width == 0,
              "a staged row is stored in accesses of up to 16 bytes", bytes, kMostAccessBytes,
              "bytes", "use a width that divides the columns");
    }
  }

  [[nodiscard]] int64_t part_of_block(AxisId axis) const {
    return program::part_of_block(program_, axis);
  }

  const Program& program_;
  std::string_view family_;
  std::optional<Rejection> first_;
};

}  // namespace

void for_each_step(const Program& program,
                   const std::function<void(const Step&, const Times&)>& visit) {
  Walk(program, visit).steps(program.body, {});
}

namespace {

const Nest* nest_of_blocks(const Program& program) {
  for (const Step& step : program.steps) {
    const auto* nest = std::get_if<Nest>(&step);
    if (nest != nullptr && nest->binding == Binding::kBlock) return nest;
  }
  return nullptr;
}

}  // namespace

int64_t part_of_block(const Program& program, AxisId axis) {
  int64_t part = program.axes[axis].extent;
  for (const Step& step : program.steps) {
    const auto* nest = std::get_if<Nest>(&step);
    if (nest == nullptr || nest->binding != Binding::kBlock) continue;
    for (const Loop& loop : nest->loops) {
      if (loop.axis == axis) part = loop.step;
    }
  }
  return part;
}

int64_t tile_count(const Program& program) {
  int64_t tiles = 1;
  if (const Nest* nest = nest_of_blocks(program)) {
    for (const Loop& loop : nest->loops)
      tiles *= divided_up(program.axes[loop.axis].extent, loop.step);
  }
  return tiles;
}

int64_t block_count(const Program& program) {
  const int64_t tiles = tile_count(program);
  if (const Fold* fold = step_of<Fold>(program)) return tiles * blocks_of_columns(*fold);
  const Nest* nest = nest_of_blocks(program);
  return nest != nullptr && nest->persistent_blocks > 0 ? std::min(nest->persistent_blocks, tiles)
                                                        : tiles;
}

int64_t tiles_at_once(const Program& program) {
  const Nest* nest = nest_of_blocks(program);
  return nest == nullptr ? 1 : nest->at_once;
}

int64_t slice_warps(const Program& program) {
  const auto* pipeline = step_of<Pipeline>(program);
  return pipeline == nullptr ? 0 : pipeline->slice_warps;
}

bool has_whole_turns(const Program& program, const Pipeline& pipeline) {
  const int64_t together = pipeline.loop.step * pipeline.stages * pipeline.slice_warps;
  return together > 0 && program.axes[pipeline.loop.axis].extent % together == 0;
}

int64_t cluster_size(const Program& program) {
  const Nest* nest = nest_of_blocks(program);
  return nest == nullptr ? 1 : nest->cluster;
}

ExchangeKind exchange_of(const Program& program) {
  const Nest* nest = nest_of_blocks(program);
  return nest == nullptr ? ExchangeKind::kCluster : nest->exchange;
}

int64_t message_places(const Program& program) {
  const Region* region = step_of<Region>(program);
  return region == nullptr ? 0 : region->message_places;
}

int64_t blocks_of_columns(const Fold& fold) {
  return std::max<int64_t>(fold.shares, 1) * fold.cluster;
}

int64_t handed_parts(const Program& program) {
  const Handover* handover = step_of<Handover>(program);
  if (handover == nullptr) return 0;
  return program.tiles[handover->tile].rows.extent / program.tiles[handover->fragment].rows.extent;
}

namespace {

/// Rows that a warp of the epilogue takes in an iteration.
int64_t epilogue_rows(const Program& program) {
  for (const Step& step : program.steps) {
    const auto* nest = std::get_if<Nest>(&step);
    if (nest != nullptr && nest->binding == Binding::kEpilogueWarp) return nest->loops.front().step;
  }
  return 0;
}

}  // namespace

namespace {

/// Chunks of a row of a tile that is handed over: no more than the block has columns of the axis.
int64_t handed_chunks(const Program& program, const Tile& tile) {
  const int64_t of_cluster = divided_up(program.axes[tile.columns.axis].extent,
                                        std::max<int64_t>(cluster_size(program), 1));
  const int64_t columns = std::min(tile.columns.extent, of_cluster);
  return divided_up(columns * bytes_of(tile.type), kChunkBytes);
}

}  // namespace

int64_t epilogue_lanes(const Program& program) {
  const Handover* handover = step_of<Handover>(program);
  if (handover == nullptr) return 0;
  const int64_t chunks = handed_chunks(program, program.tiles[handover->tile]);
  return std::min<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(chunks))),
                           kEpilogueLanes);
}

int64_t epilogue_vectors(const Program& program) {
  const Handover* handover = step_of<Handover>(program);
  if (handover == nullptr) return 0;
  return divided_up(handed_chunks(program, program.tiles[handover->tile]), epilogue_lanes(program));
}

int64_t rows_together(const Program& program) {
  if (step_of<Handover>(program) != nullptr)
    return epilogue_rows(program) * epilogue_lanes(program) / kWarp;
  return cluster_size(program) > 1 ? 2 : 1;
}

Schedule row_schedule(const Program& program) {
  // Vectors of so many columns are loaded together.
  constexpr int64_t kColumnsAhead = 32;
  constexpr int64_t kPair = 2;
  Schedule out{.parameters = MultiWaveParameters{.cluster_size = cluster_size(program)},
               .threads_per_row = kLanesOfRow,
               .rows_per_block = program.threads / kLanesOfRow,
               .vector_width = kPair,
               .unroll = kColumnsAhead / (kLanesOfRow * kPair)};
  if (const Handover* handover = step_of<Handover>(program)) {
    out.threads_per_row = epilogue_lanes(program);
    out.rows_per_block = program.producer->epilogue_warps * kWarp / out.threads_per_row;
    out.vector_width = kChunkBytes / bytes_of(program.tiles[handover->tile].type);
  }
  for (const Step& step : program.steps) {
    const auto* region = std::get_if<Region>(&step);
    if (region == nullptr) continue;
    if (program.tiles[region->tile].place == Place::kShared) out.unroll = region->ahead;
    if (!region->holds_rows) continue;
    for (const ValueId value : region->kept) out.kept.push_back({value, Residency::kRegister});
  }
  return out;
}

int64_t shared_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const Tile& tile : program.tiles) {
    if (tile.place == Place::kShared)
      bytes += rounded_up(bytes_of_tile(tile) * tile.stages, kChunkBytes);
  }
  for (const Step& step : program.steps) {
    const auto* pipeline = std::get_if<Pipeline>(&step);
    if (pipeline != nullptr && program.producer) {
      const int64_t turns = tiles_at_once(program) > 1 ? tiles_at_once(program) : 0;
      const int64_t of_stage =
          program.producer->split_warps > 0 ? kMbarriersOfSplitStage : kMbarriersOfStage;
      bytes += (pipeline->stages * of_stage + turns) * kBytesPerMbarrier;
    }
    if (const auto* handover = std::get_if<Handover>(&step)) {
      bytes += program.tiles[handover->tile].stages * handed_parts(program) * kMbarriersOfStage *
               kBytesPerMbarrier;
    }
    if (const auto* region = std::get_if<Region>(&step)) bytes += region->exchange_bytes;
  }
  return rounded_up(bytes, kChunkBytes);
}

namespace {

/// Rows and columns of a warp's fragment that a lane has.
int64_t lane_vectors(const Tile& sum) {
  return sum.rows.extent / kFragmentRows + sum.columns.extent / kLanesOfRow;
}

/// 32-bit registers of a lane's operands and their addresses: a chunk of each row and column that
/// it has, or one element where they are transposed. ptxas loads the next ones of the smaller
/// operand meanwhile, and the other's one after the other (reports of ptxas 13.0).
int64_t lane_operand_words(const Program& program, const Contract& contract) {
  constexpr int64_t kAddressWords = 16;
  const Tile& sum = program.tiles[contract.accumulator];
  const auto words = [&](TileId id, AxisId own, int64_t vectors) {
    const Tile& tile = program.tiles[id];
    const int64_t bytes = tile.columns.axis == own ? bytes_of(tile.type) : kChunkBytes;
    return divided_up(vectors * bytes, kRegisterBytes);
  };
  const int64_t left = words(contract.left, sum.rows.axis, sum.rows.extent / kFragmentRows);
  const int64_t right = words(contract.right, sum.columns.axis, sum.columns.extent / kLanesOfRow);
  return kAddressWords + left + right + std::min(left, right);
}

}  // namespace

int64_t fragment_words(const Program& program) {
  int64_t words = 0;
  for (const Tile& tile : program.tiles) {
    if (tile.place == Place::kShared) continue;
    // Of the accumulators of an instruction a slice has a quarter.
    constexpr int64_t kOfSlice = 4;
    const int64_t copies = tile.place == Place::kSlice   ? kOfSlice
                           : tile.place == Place::kLines ? tile.stages
                                                         : 1;
    words += copies * bytes_of_tile(tile) / kRegisterBytes / threads_of(tile.place);
  }
  int64_t operands = 0;
  for (const Step& step : program.steps) {
    const auto* contract = std::get_if<Contract>(&step);
    if (contract == nullptr) continue;
    const Tile& sum = program.tiles[contract->accumulator];
    constexpr int64_t kLeftWords = 4;
    const MatrixShape shape = matrix_shape(program, *contract);
    if (sum.place == Place::kGroupFragment) {
      // Operands stay in shared memory, but for a left one that is split: both parts of it, which
      // products of a stage read until they are done, and what is loaded for the next one.
      constexpr int64_t kParts = 3;
      if (contract->right_second.valid()) {
        operands = std::max(operands, kParts * kLeftWords * (sum.rows.extent / shape.m) *
                                          (depth_of(program, *contract) / shape.k));
      }
      continue;
    }
    if (sum.place == Place::kSlice) continue;  // Lines are tiles of their own.
    if (contract->unit == Unit::kLane) {
      operands = std::max(operands, lane_operand_words(program, *contract));
      continue;
    }
    constexpr int64_t kRightWords = 2;
    constexpr int64_t kMostSteps = 4;
    const int64_t steps = std::min(depth_of(program, *contract) / shape.k, kMostSteps);
    const int64_t of_step =
        sum.rows.extent / shape.m * kLeftWords + sum.columns.extent / shape.n * kRightWords;
    if (contract->precision == ContractPrecision::kTf32x3) {
      // Two numbers of each element of two steps, and the elements of the next one.
      constexpr int64_t kParts = 5;
      operands = std::max(operands, kParts * of_step);
    } else {
      operands = std::max(operands, of_step * (2 + steps) / 2);
    }
  }
  return words + operands;
}

int64_t copy_words(const Program& program) {
  constexpr int64_t kWordsOfAccess = 3;
  constexpr int64_t kWordsOfAddress = 2;
  int64_t words = 0;
  for (const Step& step : program.steps) {
    const auto* copy = std::get_if<Copy>(&step);
    if (copy == nullptr || copy->kind == CopyKind::kTensor) continue;
    const int64_t accesses = elements_of(program.tiles[copy->tile]) / copy->width;
    if (copy->kind == CopyKind::kDirect) {
      // An address for each access of a warp.
      words += kWordsOfAddress * divided_up(accesses, kWarp);
      continue;
    }
    words += kWordsOfAccess * divided_up(accesses, program.threads);
  }
  return words;
}

namespace {

/// Bytes that a copy brings in at once.
double bytes_of_copy(const Program& program, const Copy& copy) {
  const Tile& tile = program.tiles[copy.tile];
  if (copy.kind != CopyKind::kDirect) return static_cast<double>(bytes_of_tile(tile));
  // Rows beyond the end are not read.
  const int64_t rows = std::min(tile.rows.extent, program.axes[tile.rows.axis].extent);
  return static_cast<double>(rows * tile.columns.extent * bytes_of(tile.type));
}

}  // namespace

double outstanding_bytes(const Program& program) {
  const auto* pipeline = step_of<Pipeline>(program);
  if (pipeline == nullptr) return 0.0;
  double bytes = 0.0;
  for (const StepId id : pipeline->copies) {
    const Copy& copy = std::get<Copy>(program.steps[id]);
    // Each warp with a slice has all of its stages on their way. A producer is ahead by all stages
    // but the one in use.
    const int64_t copies = copy.kind == CopyKind::kDirect
                               ? pipeline->slice_warps * program.tiles[copy.tile].stages
                               : pipeline->stages - 1;
    bytes += static_cast<double>(copies) * bytes_of_copy(program, copy);
  }
  return bytes;
}

Traffic traffic(const Program& program) {
  Traffic out;
  for_each_step(program, [&](const Step& step, const Times& times) {
    if (const auto* copy = std::get_if<Copy>(&step)) {
      const Tile& tile = program.tiles[copy->tile];
      const double bytes = bytes_of_copy(program, *copy);
      out.copied_bytes += times.all() * bytes;
      if (copy->kind == CopyKind::kDirect) {
        out.copied_accesses += times.all() * bytes / kChunkBytes;
        return;
      }
      if (copy->kind != CopyKind::kTensor) {
        out.copied_accesses +=
            times.all() * static_cast<double>(divided_up(elements_of(tile), copy->width));
      }
    } else if (const auto* split = std::get_if<Split>(&step)) {
      // Each element is read, and two parts of it are written.
      constexpr double kAccesses = 3.0;
      out.shared_read_bytes +=
          times.all() * kAccesses * static_cast<double>(bytes_of_tile(program.tiles[split->tile]));
    } else if (const auto* contract = std::get_if<Contract>(&step)) {
      const Tile& sum = program.tiles[contract->accumulator];
      const Tile& left = program.tiles[contract->left];
      const bool is_split = contract->right_second.valid();
      const int64_t parts = is_split ? 3 : 1;  // Products of a product.
      const int64_t depth = depth_of(program, *contract);
      const MatrixShape shape = matrix_shape(program, *contract);
      // Instructions multiply both halves of lines with each other, of which one half counts.
      const int64_t halves = sum.place == Place::kSlice ? 2 : 1;
      out.products += times.all() * static_cast<double>(halves * elements_of(sum) * depth);
      const int64_t of_instruction =
          contract->unit == Unit::kLane ? kWarp : shape.m * shape.n * shape.k;
      out.matrix_instructions += times.all() *
                                 static_cast<double>(parts * elements_of(sum) * depth) /
                                 static_cast<double>(of_instruction);
      if (sum.place == Place::kSlice) return;  // Its operands are in registers.
      // An instruction of a warp group reads all of its operands, but for left ones that are split:
      // those are loaded into registers once. The registers of a warp hold a
      // right operand for all of its rows. Lanes that read the same element count each: shared
      // memory gives a warp 128 bytes in a clock, whether or not they differ.
      const bool of_group = sum.place == Place::kGroupFragment;
      const int64_t left_reads = of_group && !is_split ? sum.columns.extent / shape.n : 1;
      const int64_t right_reads = of_group ? parts * (sum.rows.extent / shape.m) : 1;
      const int64_t elements = contract->unit == Unit::kLane ? kWarp * lane_vectors(sum)
                                                             : left_reads * sum.rows.extent +
                                                                   right_reads * sum.columns.extent;
      out.shared_read_bytes +=
          times.all() * static_cast<double>(elements * depth * bytes_of(left.type));
    }
  });
  return out;
}

std::optional<Rejection> check(const Program& program, std::string_view family) {
  return Checker(program, family).run();
}

}  // namespace sinter::program
