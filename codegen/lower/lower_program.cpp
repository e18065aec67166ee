#include "codegen/lower/lower_program.h"

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/fragment_product.h"
#include "codegen/lower/fragment_region.h"
#include "codegen/lower/operand_copies.h"
#include "codegen/lower/program_scope.h"
#include "codegen/lower/tile_lowering.h"
#include "fusion_ir/integers.h"
#include "fusion_ir/match.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/families/matmul.h"
#include "scheduler/program/program_walks.h"

namespace sinter {
namespace {

using kir::ExprId;
using kir::VarId;
using program::AxisId;
using program::TileId;

/// One traversal of a program. The loops that it enters set where the current part of each axis
/// begins.
class ProgramLowering {
 public:
  ProgramLowering(const program::Program& program, const SegmentFacts& facts,
                  const Schedule& schedule)
      : program_(program),
        list_(distribute(facts, {})),
        builder_(&kernel_),
        tiles_(facts, schedule, builder_),
        scope_{.program = program, .facts = facts, .builder = builder_} {
    kernel_.min_blocks_per_sm = schedule.min_blocks_per_sm;
  }

  LoweredKernel run() {
    kernel_.name = program_.name;
    kernel_.threads = program_.threads;
    tiles_.declare_buffers(false);
    std::vector<int64_t> values;
    for (const AxisId id : program_.axes.ids()) {
      const program::Axis& axis = program_.axes[id];
      scope_.extents[id] = axis.is_launched ? builder_.param(builder_.add_param(axis.name))
                                            : scope_.i64(axis.extent);
      if (axis.is_launched) values.push_back(axis.extent);
    }
    kernel_.grid = {builder_.add_param("blocks"), 1};
    values.push_back(program::block_count(program_));
    scope_.thread = builder_.special(kir::Special::kThreadIndex);
    for (const TileId id : program_.tiles.ids()) declare_shared(id);
    steps(program_.body);
    return {std::move(kernel_), std::move(values)};
  }

 private:
  void declare_shared(TileId id) {
    const program::Tile& tile = program_.tiles[id];
    if (tile.place != program::Place::kShared) return;
    scope_.shared[id] = builder_.add_buffer({.name = tile.name + "_tile",
                                             .type = tile.type,
                                             .space = kir::Space::kShared,
                                             .access = kir::Access::kReadWrite,
                                             .value = {},
                                             .count = elements_of(tile) * tile.stages});
  }

  void steps(const program::Steps& body) {
    for (const program::StepId id : body) {
      std::visit(overloaded{[&](const program::Nest& nest) { lower(nest); },
                            [&](const program::Pipeline& pipeline) { lower(pipeline); },
                            [&](const program::Copy&) {
                              SINTER_CHECK(false, "a copy outside of a pipeline");
                            },
                            [&](const program::Contract& contract) {
                              FragmentProduct(scope_, contract).add(stage_);
                            },
                            [&](const program::Region& region) {
                              FragmentRegion(scope_, list_, tiles_, region).evaluate();
                            }},
                 program_.steps[id]);
    }
  }

  // ---- Loops

  void lower(const program::Nest& nest) {
    if (nest.binding == program::Binding::kBlock) {
      enter_blocks(nest);
      enter_lanes();
      for (const TileId id : program_.tiles.ids()) declare_fragment(id);
    } else {
      enter_warps(nest);
    }
    steps(nest.body);
  }

  std::string name_of(const program::Loop& loop) { return program_.axes[loop.axis].name; }

  /// Iterations of a loop over a whole axis, i64.
  ExprId count_of(const program::Loop& loop) {
    const ExprId last = builder_.add(scope_.extents.at(loop.axis), scope_.i64(loop.step - 1));
    return builder_.div(last, scope_.i64(loop.step));
  }

  void begin(const program::Loop& loop, ExprId iteration) {
    scope_.begins[loop.axis] =
        scope_.named(name_of(loop) + "_begin", builder_.mul(iteration, scope_.i64(loop.step)));
    block_steps_[loop.axis] = loop.step;
  }

  /// The block's iteration of each loop. The last two loops are walked in groups of iterations of
  /// the first of them.
  void enter_blocks(const program::Nest& nest) {
    SINTER_CHECK(nest.loops.size() >= 2, "blocks walk over rows and columns");
    const program::Loop& columns = nest.loops.back();
    const program::Loop& rows = nest.loops[nest.loops.size() - 2];
    const ExprId row_count = scope_.named(name_of(rows) + "_tiles", count_of(rows));
    const ExprId column_count = count_of(columns);
    ExprId tile = scope_.wide(builder_.special(kir::Special::kBlockIndex));
    ExprId outer = scope_.i64(0);
    if (nest.loops.size() > 2) {
      const ExprId tiles = builder_.mul(row_count, column_count);
      outer = scope_.named("outer", builder_.div(tile, tiles));
      tile = scope_.named("tile", builder_.rem(tile, tiles));
    }
    // The outermost loop takes what is left.
    for (size_t i = nest.loops.size() - 2; i-- > 0;) {
      ExprId iteration = outer;
      if (i > 0) {
        const ExprId count = count_of(nest.loops[i]);
        iteration = builder_.rem(outer, count);
        outer = builder_.div(outer, count);
      }
      begin(nest.loops[i], iteration);
    }
    const ExprId group_tiles = builder_.mul(column_count, scope_.i64(nest.group));
    const ExprId group = scope_.named("group", builder_.div(tile, group_tiles));
    const ExprId first = builder_.mul(group, scope_.i64(nest.group));
    const ExprId group_rows = scope_.named(
        "group_rows", builder_.min(builder_.sub(row_count, first), scope_.i64(nest.group)));
    const ExprId in_group = scope_.named("in_group", builder_.rem(tile, group_tiles));
    const ExprId column = scope_.named("column_tile", builder_.div(in_group, group_rows));
    begin(rows, builder_.add(first, builder_.rem(in_group, group_rows)));
    begin(columns, column);
  }

  void enter_lanes() { scope_.lane = scope_.named("lane", scope_.remainder(scope_.thread, kWarp)); }

  /// The warp's iteration of each loop. All nests of warps of a program divide the block's tile
  /// alike.
  void enter_warps(const program::Nest& nest) {
    if (!scope_.warp_begins.empty()) return;
    ExprId left = builder_.div(scope_.thread, scope_.i32(kWarp));
    for (size_t i = nest.loops.size(); i-- > 0;) {
      const program::Loop& loop = nest.loops[i];
      const int64_t count = block_steps_.at(loop.axis) / loop.step;
      const ExprId iteration = i == 0 ? left : scope_.remainder(left, count);
      left = builder_.div(left, scope_.i32(count));
      scope_.warp_begins[loop.axis] = builder_.mul(iteration, scope_.i32(loop.step));
    }
  }

  void declare_fragment(TileId id) {
    const program::Tile& tile = program_.tiles[id];
    if (tile.place != program::Place::kFragment) return;
    const int64_t groups =
        row_instructions(tile) * column_instructions(tile) * kir::Mma::kAccumulatorGroups;
    const VarId var =
        builder_.declare_tile(tile.name, tile.type, groups, kir::Mma::kAccumulatorLanes);
    const ExprId zero =
        is_float(tile.type) ? builder_.real(0.0, tile.type) : builder_.integer(0, tile.type);
    builder_.unrolled("i", groups, [&](ExprId i) {
      for (int64_t lane = 0; lane < kir::Mma::kAccumulatorLanes; ++lane)
        builder_.set(var, i, scope_.i32(lane), zero);
    });
    scope_.fragments[id] = var;
  }

  // ---- Pipelines

  /// Copies of `stages - 1` iterations are on their way while the warps work on one. The barrier of
  /// an iteration makes its tiles visible to all warps. It also tells that all of them have left
  /// the iteration before, whose stage is filled next.
  void lower(const program::Pipeline& pipeline) {
    const int64_t extent = program_.axes[pipeline.loop.axis].extent;
    const int64_t iterations = divided_up(extent, pipeline.loop.step);
    const int64_t ahead = pipeline.stages - 1;
    std::vector<OperandCopies> copies;
    for (const program::StepId id : pipeline.copies) {
      copies.emplace_back(scope_, tiles_, std::get<program::Copy>(program_.steps[id]));
      copies.back().declare();
    }
    if (iterations == 0) return;
    const auto start = [&](ExprId iteration, ExprId stage) {
      const ExprId begin = builder_.mul(scope_.wide(iteration), scope_.i64(pipeline.loop.step));
      for (OperandCopies& copy : copies) copy.copy(begin, stage);
    };
    builder_.comment(fmt::format("fill {} stages", ahead));
    for (int64_t i = 0; i < ahead; ++i) {
      if (i < iterations) start(scope_.i32(i), scope_.i32(i));
      builder_.append(kir::AsyncCommit{});
    }
    const VarId stage = builder_.declare("stage", scope_.i32(0));
    const VarId next_stage = builder_.declare("next_stage", scope_.i32(ahead));
    builder_.loop("step", scope_.i32(0), scope_.i32(iterations), scope_.i32(1), false,
                  [&](ExprId step) {
                    builder_.append(kir::AsyncWait{.pending = ahead - 1});
                    builder_.append(kir::Barrier{});
                    const ExprId next = builder_.add(step, scope_.i32(ahead));
                    builder_.when(builder_.less(next, scope_.i32(iterations)),
                                  [&] { start(next, builder_.ref(next_stage)); });
                    builder_.append(kir::AsyncCommit{});
                    stage_ = builder_.ref(stage);
                    steps(pipeline.body);
                    advance(stage, pipeline.stages);
                    advance(next_stage, pipeline.stages);
                  });
  }

  /// stage = (stage + 1) % stages.
  void advance(VarId stage, int64_t stages) {
    const ExprId next = builder_.add(builder_.ref(stage), scope_.i32(1));
    builder_.assign(stage,
                    builder_.select(builder_.equal(next, scope_.i32(stages)), scope_.i32(0), next));
  }

  const program::Program& program_;
  const StageList list_;
  kir::Kernel kernel_;
  kir::KernelBuilder builder_;
  TileLowering tiles_;
  ProgramScope scope_;
  std::map<AxisId, int64_t> block_steps_;  ///< Elements of the block's part of each axis.
  ExprId stage_;                           ///< The pipeline's current stage, i32.
};

}  // namespace

LoweredKernel lower_program(const program::Program& program, const SegmentFacts& facts,
                            const Schedule& schedule) {
  return ProgramLowering(program, facts, schedule).run();
}

LoweredKernel lower_matmul(const SegmentFacts& facts, const Schedule& schedule) {
  return lower_program(matmul_program(facts, schedule), facts, schedule);
}

}  // namespace sinter
