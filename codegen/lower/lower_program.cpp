#include "codegen/lower/lower_program.h"

#include <algorithm>
#include <limits>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/column_fold.h"
#include "codegen/lower/element_tile.h"
#include "codegen/lower/fragment_handover.h"
#include "codegen/lower/fragment_product.h"
#include "codegen/lower/fragment_region.h"
#include "codegen/lower/group_product.h"
#include "codegen/lower/handed_elements.h"
#include "codegen/lower/handed_rows.h"
#include "codegen/lower/lane_product.h"
#include "codegen/lower/operand_copies.h"
#include "codegen/lower/operand_split.h"
#include "codegen/lower/program_scope.h"
#include "codegen/lower/row_region.h"
#include "codegen/lower/slice_product.h"
#include "codegen/lower/tensor_copies.h"
#include "codegen/lower/tile_lowering.h"
#include "codegen/protocol/async_protocol.h"
#include "fusion_ir/integers.h"
#include "fusion_ir/match.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/families/column.h"
#include "scheduler/families/matmul.h"
#include "scheduler/families/pointwise.h"
#include "scheduler/program/program_walks.h"

namespace sinter {
namespace {

using kir::ExprId;
using kir::VarId;
using program::AxisId;
using program::TileId;

/// The roles of warps in a program with a producer; without one all warps have both.
enum class Role : uint8_t { kAll, kProducer, kSplitting, kConsumer, kEpilogue };

/// Throws if some interleaving of the warps breaks the protocol of a producer's pipeline.
void prove_pipeline(const program::Program& program, const program::Pipeline& pipeline) {
  std::vector<int64_t> copies;
  for (const program::StepId id : pipeline.copies) {
    const program::Tile& tile = program.tiles[std::get<program::Copy>(program.steps[id]).tile];
    const int64_t line = tile.rows.extent * tile.line_columns() * bytes_of(tile.type);
    copies.insert(copies.end(), static_cast<size_t>(tile.columns.extent / tile.line_columns()),
                  line);
  }
  const int64_t at_once = program::tiles_at_once(program);
  const auto warps = static_cast<int>(program.threads / kWarp / at_once);
  if (at_once > 1) {
    const int64_t steps = divided_up(program.axes[pipeline.loop.axis].extent, pipeline.loop.step);
    const auto fault = prove(turns_protocol(pipeline.stages, at_once, warps, copies,
                                            equivalent_turn(steps, pipeline.stages)));
    if (fault) throw SinterException(fault->error());
    return;
  }
  const auto splitting = static_cast<int>(program.producer->split_warps);
  // The last item of a tile is released at once.
  for (const int64_t held : {0, 1}) {
    const auto fault = prove(product_protocol(pipeline.stages, warps, copies, held, splitting));
    if (fault) throw SinterException(fault->error());
  }
}

/// Throws if some interleaving of the blocks that share rows breaks their exchange.
void prove_exchange(int64_t blocks) {
  if (blocks == 1) return;
  if (const auto fault = prove(exchange_protocol(static_cast<int>(blocks))))
    throw SinterException(fault->error());
}

/// One traversal of a program, or one for each role. The loops that it enters set where the current
/// part of each axis begins.
class ProgramLowering {
 public:
  ProgramLowering(const program::Program& program, const SegmentFacts& facts,
                  const Schedule& schedule)
      : program_(program),
        schedule_(schedule),
        list_(distribute(facts, {})),
        builder_(&kernel_),
        tiles_(facts, schedule, builder_),
        scope_{.program = program, .facts = facts, .builder = builder_} {
    kernel_.min_blocks_per_sm = schedule.min_blocks_per_sm;
  }

  LoweredKernel run() {
    kernel_.name = program_.name;
    kernel_.threads = program_.threads;
    const program::Fold* fold = program::step_of<program::Fold>(program_);
    tiles_.declare_buffers(fold != nullptr && (fold->shares == 0 || fold->by_last_block));
    std::vector<int64_t> values;
    for (const AxisId id : program_.axes.ids()) {
      const program::Axis& axis = program_.axes[id];
      scope_.extents[id] = scope_.i64(axis.extent);
      if (!axis.is_launched) continue;
      scope_.launched[id] = builder_.add_param(axis.name);
      scope_.extents[id] = builder_.param(scope_.launched[id]);
      values.push_back(axis.extent);
    }
    if (const program::Elements* elements = program::step_of<program::Elements>(program_)) {
      lower_elements(*elements);
      return {std::move(kernel_), std::move(values)};
    }
    if (fold != nullptr) {
      lower_fold(scope_, list_, tiles_, *fold, schedule_, kernel_, values);
      return {std::move(kernel_), std::move(values)};
    }
    // Clusters or teams are launched, of one block where there are none.
    const int64_t together = program::cluster_size(program_);
    if (program::exchange_of(program_) == ExchangeKind::kMessages) {
      kernel_.team = together;
      kernel_.message_places = program::message_places(program_);
      scope_.mail = builder_.add_buffer({.name = "mail",
                                         .type = DType::kI32,
                                         .space = kir::Space::kGlobal,
                                         .access = kir::Access::kReadWrite,
                                         .alignment = kir::kSharedUnit,
                                         .value = {}});
    } else {
      kernel_.cluster = together;
    }
    prove_exchange(together);
    blocks_ = builder_.add_param("blocks");
    kernel_.grid = {blocks_, 1};
    values.push_back(program::block_count(program_) / together);
    scope_.thread = builder_.special(kir::Special::kThreadIndex);
    for (const TileId id : program_.tiles.ids()) declare_shared(id);
    if (program_.producer) {
      enter_roles(*program_.producer);
    } else {
      steps(program_.body);
    }
    return {std::move(kernel_), std::move(values)};
  }

 private:
  // ---- Elements

  /// A block for each tile of the elements, which the launch counts.
  void lower_elements(const program::Elements& elements) {
    ElementTile tile(list_, program_.threads, elements, builder_, tiles_);
    const kir::ParamId launched = scope_.launched.at(elements.axis);
    kernel_.grid = {launched, tile.size()};
    tile.describe();
    const DType index = tiles_.column_type();
    const ExprId block = builder_.cast(builder_.special(kir::Special::kBlockIndex), index);
    const ExprId count = builder_.cast(builder_.param(launched), index);
    tiles_.set_column_count(count);
    tile.begin(block);
    for (const ValueId value : list_.row_values) tiles_.row_value(value);
    // One thread stores what has one element.
    for (size_t i = 0; i < scope_.facts.fusion.outputs.size(); ++i) {
      if (scope_.facts.space.output_coverage[i].columns) continue;
      builder_.when(builder_.equal(tile.first(), builder_.integer(0, index)),
                    [&] { tiles_.store_row_output(i); });
    }
    if (list_.stages[0].outputs.empty()) return;
    tile.evaluate(count, program_.axes[elements.axis].extent % elements.width == 0
                             ? Predication::kVector
                             : Predication::kElement);
  }

  // ---- Roles

  /// The producer walks over the blocks' tiles and starts their copies; the consumers walk over the
  /// same tiles and do the rest, or what is not left to the warps of the epilogue.
  void enter_roles(const program::Producer& producer) {
    kernel_.threads += producer.threads;
    at_once_ = program::tiles_at_once(program_);
    for (const program::Step& step : program_.steps) {
      const auto* pipeline = std::get_if<program::Pipeline>(&step);
      if (pipeline == nullptr) continue;
      SINTER_CHECK(!full_.valid(), "a program with a producer has one pipeline");
      prove_pipeline(program_, *pipeline);
      full_ = builder_.add_mbarriers("full", pipeline->stages, 1);
      const int64_t warps = program_.threads / kWarp / at_once_;
      empty_ = builder_.add_mbarriers("empty", pipeline->stages, warps);
      if (producer.split_warps > 0)
        split_ = builder_.add_mbarriers("split", pipeline->stages, producer.split_warps);
      if (at_once_ > 1) turn_ = builder_.add_mbarriers("turn", at_once_, warps);
      steps_ = divided_up(program_.axes[pipeline->loop.axis].extent, pipeline->loop.step);
      stages_ = pipeline->stages;
      for (const program::StepId id : pipeline->copies)
        tensor_copies_.emplace_back(scope_, tiles_, std::get<program::Copy>(program_.steps[id]));
    }
    declare_handover(producer);
    builder_.init_mbarriers();
    const ExprId consumers = scope_.i32(program_.threads);
    builder_.when(
        builder_.less(scope_.thread, consumers),
        [&] {
          builder_.comment("consumers");
          builder_.append(kir::SetMaxRegisters{producer.consumer_registers, true});
          walk_as(Role::kConsumer);
        },
        [&] {
          builder_.comment("producer");
          builder_.append(kir::SetMaxRegisters{producer.registers, false});
          const auto produce = [&] {
            builder_.when(builder_.equal(scope_.thread, consumers),
                          [&] { walk_as(Role::kProducer); });
          };
          if (producer.epilogue_warps > 0) {
            enter_others(producer.epilogue_warps, "epilogue", Role::kEpilogue, produce);
          } else if (producer.split_warps > 0) {
            enter_others(producer.split_warps, "splitting", Role::kSplitting, produce);
          } else {
            produce();
          }
        });
  }

  /// The first warp of the producer's warp groups produces, and so many after it have another role.
  void enter_others(int64_t warps, std::string name, Role role,
                    const std::function<void()>& produce) {
    const int64_t first = program_.threads + kWarp;
    builder_.when(builder_.less(scope_.thread, scope_.i32(first)), produce, [&] {
      const auto enter = [&] {
        builder_.comment(std::move(name));
        walk_as(role);
      };
      const int64_t end = first + kWarp * warps;
      if (end == kernel_.threads && role == Role::kSplitting) {
        enter();
      } else {
        builder_.when(builder_.less(scope_.thread, scope_.i32(end)), enter);
      }
    });
  }

  /// The pipeline between the consumers and the warps of the epilogue.
  void declare_handover(const program::Producer& producer) {
    const program::Handover* handover = program::step_of<program::Handover>(program_);
    if (handover == nullptr) return;
    const int64_t stages = program_.tiles[handover->tile].stages;
    const int64_t parts = program::handed_parts(program_);
    const int64_t warps_of_part = program_.threads / kWarp / parts;
    // A warp of the epilogue waits for a part in each iteration, but gives it back once.
    const auto fault = prove(handover_protocol(stages, static_cast<int>(warps_of_part),
                                               static_cast<int>(producer.epilogue_warps)));
    if (fault) throw SinterException(fault->error());
    scope_.handed = HandedTile{
        .full = builder_.add_mbarriers("handed", stages * parts, warps_of_part),
        .empty = builder_.add_mbarriers("given_back", stages * parts, producer.epilogue_warps),
        .stages = stages,
        .parts = parts,
        .stage = {},
        .parity = {}};
  }

  void walk_as(Role role) {
    role_ = role;
    scope_.begins.clear();
    scope_.part_begins.clear();
    // Stages and phases go on from tile to tile.
    const Role evaluates = scope_.handed ? Role::kEpilogue : Role::kConsumer;
    scope_.exchange = kir::blocks_together(kernel_) > 1 && role == evaluates
                          ? builder_.declare("exchange", scope_.i32(0))
                          : VarId{};
    if (scope_.handed && (role == Role::kConsumer || role == Role::kEpilogue)) {
      if (scope_.handed->stages > 1)
        scope_.handed->stage = builder_.declare("handed_stage", scope_.i32(0));
      scope_.handed->parity = builder_.declare("handed_parity", scope_.i32(0));
    }
    if (role == Role::kEpilogue) {
      steps(program_.body);
      if (scope_.mail.valid()) clear_places();
      return;
    }
    ExprId first = scope_.i32(0);  // The first item of the role.
    if (at_once_ > 1 && role == Role::kConsumer) {
      const ExprId threads = scope_.i32(program_.threads / at_once_);
      part_ = scope_.named("part", builder_.div(scope_.thread, threads));
      first = builder_.mul(part_, scope_.i32(steps_));
      // The first part need not wait for its first turn.
      turn_parity_ = builder_.declare(
          "turn_parity",
          builder_.select(builder_.equal(part_, scope_.i32(0)), scope_.i32(1), scope_.i32(0)));
    }
    stage_var_ = builder_.declare("stage", scope_.remainder(first, stages_));
    parity_var_ =
        builder_.declare("parity", scope_.remainder(builder_.div(first, scope_.i32(stages_)), 2));
    steps(program_.body);
  }

  /// The block has taken all its messages when all warps of its epilogue have: the next launch
  /// finds its places as this one did.
  void clear_places() {
    SINTER_CHECK_OP(builder_.reserved_places(), ==, kernel_.message_places);
    constexpr int64_t kBarrier = 1;  // Of the named barriers; the kernel has no other.
    const int64_t threads = program_.producer->epilogue_warps * kWarp;
    builder_.comment("clear the places of messages");
    builder_.append(kir::GroupBarrier{.id = scope_.i32(kBarrier), .threads = threads});
    const VarId empty = builder_.declare("empty", scope_.i32(0));
    const ExprId first = builder_.sub(scope_.thread, scope_.i32(program_.threads + kWarp));
    const ExprId rank = scope_.remainder(builder_.special(kir::Special::kBlockIndex), kernel_.team);
    builder_.loop("place", first, scope_.i32(kernel_.message_places), scope_.i32(threads), false,
                  [&](ExprId place) {
                    builder_.append(kir::MessageStore{.mail = scope_.mail,
                                                      .block = rank,
                                                      .place = place,
                                                      .values = {empty},
                                                      .number = scope_.i32(0)});
                  });
  }

  void declare_shared(TileId id) {
    const program::Tile& tile = program_.tiles[id];
    if (tile.place != program::Place::kShared) return;
    scope_.shared[id] = builder_.add_buffer({.name = tile.name + "_tile",
                                             .type = tile.type,
                                             .space = kir::Space::kShared,
                                             .access = kir::Access::kReadWrite,
                                             .alignment = alignment_of(id),
                                             .value = {},
                                             .count = elements_of(tile) * tile.stages});
  }

  /// Of the pattern that a tensor copy and the products of warp groups swizzle by.
  [[nodiscard]] int64_t alignment_of(TileId id) const {
    const program::Tile& tile = program_.tiles[id];
    for (const program::Step& step : program_.steps) {
      const auto* copy = std::get_if<program::Copy>(&step);
      const auto* split = std::get_if<program::Split>(&step);
      if ((copy != nullptr && copy->tile == id && copy->kind == program::CopyKind::kTensor) ||
          (split != nullptr && split->second == id))
        return kir::swizzle_period(tile.line_columns() * bytes_of(tile.type));
    }
    return kir::kSharedUnit;
  }

  /// True for steps of another role.
  [[nodiscard]] bool is_of_others(const program::Step& step) const {
    const auto* nest = std::get_if<program::Nest>(&step);
    if (role_ == Role::kAll || (nest != nullptr && nest->binding == program::Binding::kBlock))
      return false;
    const bool is_pipeline = std::holds_alternative<program::Pipeline>(step);
    if (role_ == Role::kProducer || role_ == Role::kSplitting) return !is_pipeline;
    const bool of_epilogue = nest != nullptr && nest->binding == program::Binding::kEpilogueWarp;
    // Inside of its nests a role has all steps.
    if (nest == nullptr && !is_pipeline) return false;
    return of_epilogue != (role_ == Role::kEpilogue);
  }

  void steps(const program::Steps& body) {
    for (const program::StepId id : body) {
      if (is_of_others(program_.steps[id])) continue;
      std::visit(
          overloaded{
              [&](const program::Nest& nest) { lower(nest); },
              [&](const program::Pipeline& pipeline) {
                if (role_ == Role::kProducer) {
                  produce(pipeline);
                } else if (role_ == Role::kSplitting) {
                  split(pipeline);
                } else if (role_ == Role::kConsumer) {
                  consume(pipeline);
                } else if (pipeline.slice_warps > 0) {
                  slices_.emplace(scope_, tiles_, pipeline).multiply();
                } else {
                  lower(pipeline);
                }
              },
              [&](const program::Copy&) { SINTER_CHECK(false, "a copy outside of a pipeline"); },
              [](const program::Split&) {},  // Of another role: split().
              [&](const program::Contract& contract) {
                if (contract.unit == program::Unit::kLane) {
                  LaneProduct(scope_, contract).add(stage_, begin_);
                } else if (role_ == Role::kConsumer) {
                  GroupProduct(scope_, contract).start(stage_, is_first_step_);
                } else {
                  FragmentProduct(scope_, contract).add(stage_);
                }
              },
              [&](const program::Merge& merge) {
                slices_->put(merge);
                merge_ = &merge;
              },
              [&](const program::Elements&) { SINTER_CHECK(false, "elements beside other steps"); },
              [&](const program::Fold&) { SINTER_CHECK(false, "a fold beside other steps"); },
              [&](const program::Handover& handover) { FragmentHandover(scope_, handover).put(); },
              [&](const program::Region& region) {
                if (role_ == Role::kEpilogue && region.holds_rows) {
                  HandedRows(scope_, tiles_, epilogue_loop_, region).evaluate();
                } else if (role_ == Role::kEpilogue) {
                  HandedElements(scope_, tiles_, epilogue_loop_, region).evaluate();
                } else if (region.holds_rows) {
                  RowRegion(scope_, tiles_, region).evaluate();
                } else {
                  FragmentRegion(scope_, list_, tiles_, region).evaluate();
                }
              }},
          program_.steps[id]);
    }
  }

  // ---- Loops

  void lower(const program::Nest& nest) {
    if (nest.binding == program::Binding::kEpilogueWarp) {
      epilogue_loop_ = nest.loops.front();
      steps(nest.body);
      return;
    }
    if (nest.binding != program::Binding::kBlock) {
      enter_parts(nest);
      if (merge_ == nullptr) {
        steps(nest.body);
        return;
      }
      // The first warps take the parts of the tile, one each.
      int64_t parts = 1;
      for (const program::Loop& loop : nest.loops)
        parts *= divided_up(block_steps_.at(loop.axis), loop.step);
      const auto evaluate = [&] {
        slices_->take(*merge_);
        steps(nest.body);
      };
      if (parts * kWarp == program_.threads) {
        evaluate();
      } else {
        builder_.when(builder_.less(scope_.thread, scope_.i32(parts * kWarp)), evaluate);
      }
      return;
    }
    const ExprId index = builder_.special(kir::Special::kBlockIndex);
    const ExprId block =
        scope_.wide(nest.cluster > 1 ? builder_.div(index, scope_.i32(nest.cluster)) : index);
    if (nest.persistent_blocks == 0) {
      lower_tile(nest, block);
      return;
    }
    ExprId tiles = scope_.i64(1);
    for (const program::Loop& loop : nest.loops) tiles = builder_.mul(tiles, count_of(loop));
    // The blocks of a cluster have all iterations of the last loop.
    if (nest.cluster > 1) tiles = builder_.div(tiles, scope_.i64(nest.cluster));
    ExprId first = block;
    ExprId step = builder_.param(blocks_);
    if (at_once_ > 1 && role_ == Role::kConsumer) {
      first = builder_.add(first, builder_.mul(scope_.wide(part_), step));
      step = builder_.mul(step, scope_.i64(at_once_));
    }
    builder_.loop("block_tile", first, scope_.named("tiles", tiles), step, false,
                  [&](ExprId tile) { lower_tile(nest, tile); });
  }

  /// One of the blocks' iterations.
  void lower_tile(const program::Nest& nest, ExprId tile) {
    enter_blocks(nest, tile);
    if (role_ != Role::kProducer) {
      enter_lanes();
      if (role_ == Role::kAll || role_ == Role::kConsumer) {
        for (const TileId id : program_.tiles.ids()) declare_fragment(id);
      }
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

  /// The iteration of each loop in the blocks' iteration `tile` (i64). The last two loops are
  /// walked in groups of iterations of the first of them.
  void enter_blocks(const program::Nest& nest, ExprId tile) {
    SINTER_CHECK(nest.loops.size() >= 2, "blocks walk over rows and columns");
    const program::Loop& columns = nest.loops.back();
    const program::Loop& rows = nest.loops[nest.loops.size() - 2];
    const ExprId row_count = scope_.named(name_of(rows) + "_tiles", count_of(rows));
    const ExprId column_count = nest.cluster > 1 ? scope_.i64(1) : count_of(columns);
    ExprId outer = scope_.i64(0);
    const bool has_outer =
        std::any_of(nest.loops.begin(), nest.loops.end() - 2, [&](const program::Loop& loop) {
          return program_.axes[loop.axis].is_launched ||
                 program_.axes[loop.axis].extent > loop.step;
        });
    if (has_outer) {
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
    if (nest.cluster > 1) {
      const ExprId rank =
          scope_.remainder(builder_.special(kir::Special::kBlockIndex), nest.cluster);
      begin(rows, tile);
      begin(columns, scope_.wide(rank));
      return;
    }
    const ExprId group_tiles = builder_.mul(column_count, scope_.i64(nest.group));
    const ExprId group = scope_.named("group", builder_.div(tile, group_tiles));
    const ExprId first = builder_.mul(group, scope_.i64(nest.group));
    // Numbers of tiles in a group are divided as i32 where the kernel's text bounds them.
    const auto* of_group = builder_.as_integer(group_tiles);
    const bool is_small =
        of_group != nullptr && of_group->value <= std::numeric_limits<int32_t>::max();
    const auto narrow = [&](ExprId x) { return is_small ? builder_.cast(x, DType::kI32) : x; };
    const ExprId group_rows = scope_.named(
        "group_rows", narrow(builder_.min(builder_.sub(row_count, first), scope_.i64(nest.group))));
    const ExprId in_group = scope_.named("in_group", narrow(builder_.rem(tile, group_tiles)));
    const ExprId column = scope_.named("column_tile", builder_.div(in_group, group_rows));
    begin(rows, builder_.add(first, scope_.wide(builder_.rem(in_group, group_rows))));
    begin(columns, scope_.wide(column));
  }

  void enter_lanes() { scope_.lane = scope_.named("lane", scope_.remainder(scope_.thread, kWarp)); }

  /// The iteration of each loop of the warp or warp group. All nests of a program divide the
  /// block's tile alike.
  void enter_parts(const program::Nest& nest) {
    if (!scope_.part_begins.empty()) return;
    const bool of_warps = nest.binding == program::Binding::kWarp;
    const int64_t unit = of_warps ? kWarp : kWarpGroup;
    ExprId left = builder_.div(scope_.thread, scope_.i32(unit));
    if (at_once_ > 1) left = scope_.remainder(left, program_.threads / at_once_ / unit);
    for (size_t i = nest.loops.size(); i-- > 0;) {
      const program::Loop& loop = nest.loops[i];
      const int64_t count = divided_up(block_steps_.at(loop.axis), loop.step);
      if (count == 1) {
        scope_.part_begins[loop.axis] = scope_.i32(0);
        continue;
      }
      const ExprId iteration = i == 0 ? left : scope_.remainder(left, count);
      left = builder_.div(left, scope_.i32(count));
      scope_.part_begins[loop.axis] = builder_.mul(iteration, scope_.i32(loop.step));
    }
  }

  void declare_fragment(TileId id) {
    const program::Tile& tile = program_.tiles[id];
    if (tile.place != program::Place::kFragment && tile.place != program::Place::kGroupFragment)
      return;
    const int64_t groups =
        row_instructions(tile) * column_instructions(tile) * kir::Mma::kAccumulatorGroups;
    const VarId var =
        builder_.declare_tile(tile.name, tile.type, groups, kir::Mma::kAccumulatorLanes);
    scope_.fragments[id] = var;
    // The first product of a warp group replaces what its fragment holds.
    if (tile.place == program::Place::kGroupFragment) return;
    const ExprId identity = LaneProduct::identity(builder_, combiner_of(id), tile.type);
    builder_.unrolled("i", groups, [&](ExprId i) {
      for (int64_t lane = 0; lane < kir::Mma::kAccumulatorLanes; ++lane)
        builder_.set(var, i, scope_.i32(lane), identity);
    });
  }

  /// How the contraction that fills a fragment combines.
  [[nodiscard]] ContractFn combiner_of(TileId id) const {
    for (const program::Step& step : program_.steps) {
      const auto* contract = std::get_if<program::Contract>(&step);
      if (contract != nullptr && contract->accumulator == id) return contract->fn;
    }
    return ContractFn::kSum;
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
                    begin_ = builder_.mul(scope_.wide(step), scope_.i64(pipeline.loop.step));
                    steps(pipeline.body);
                    advance(stage, pipeline.stages);
                    advance(next_stage, pipeline.stages);
                  });
  }

  /// Fills the stages for one tile of the block. The first wait for each stage passes at once.
  void produce(const program::Pipeline& pipeline) {
    int64_t bytes = 0;
    for (const TensorCopies& copy : tensor_copies_) bytes += copy.bytes();
    loop_over(pipeline, 0, [&](ExprId step) {
      const ExprId stage = builder_.ref(stage_var_);
      const ExprId other = builder_.sub(scope_.i32(1), builder_.ref(parity_var_));
      builder_.append(kir::MbarrierWait{empty_, stage, other});
      builder_.append(kir::ExpectBytes{full_, stage, scope_.i32(bytes)});
      const ExprId begin = builder_.mul(step, scope_.i32(pipeline.loop.step));
      for (const TensorCopies& copy : tensor_copies_) copy.copy(begin, stage, full_);
      advance_phase(pipeline);
    });
  }

  /// Multiplies the stages of one tile of the block. The products of a stage go on while those of
  /// the next one are started; then the stage is released.
  void consume(const program::Pipeline& pipeline) {
    const VarId before = builder_.declare("stage_before", scope_.i32(0));
    const auto release = [&] {
      // Each lane has loaded what it splits of the left operand.
      if (split_.valid()) builder_.append(kir::WarpBarrier{});
      builder_.when(builder_.equal(scope_.lane, scope_.i32(0)), [&] {
        builder_.append(kir::MbarrierArrive{empty_, builder_.ref(before)});
      });
    };
    const auto start = [&] {
      stage_ = builder_.ref(stage_var_);
      builder_.append(kir::MbarrierWait{full_, stage_, builder_.ref(parity_var_)});
      if (split_.valid())
        builder_.append(kir::MbarrierWait{split_, stage_, builder_.ref(parity_var_)});
      steps(pipeline.body);
    };
    const auto go_on = [&] {
      builder_.assign(before, stage_);
      advance_phase(pipeline);
    };
    if (at_once_ > 1) {
      builder_.append(kir::MbarrierWait{turn_, part_, builder_.ref(turn_parity_)});
      builder_.assign(turn_parity_, builder_.sub(scope_.i32(1), builder_.ref(turn_parity_)));
    }
    // The first products replace the sums, and there is nothing to release behind them. Apart from
    // the loop, the compiler knows that no registers hold sums before.
    is_first_step_ = true;
    start();
    is_first_step_ = false;
    go_on();
    loop_over(pipeline, 1, [&](ExprId) {
      start();
      // Products of a split operand have waited for those of the stage before themselves.
      if (!split_.valid()) builder_.append(kir::WgmmaWait{.pending = 1});
      release();
      go_on();
    });
    if (at_once_ > 1) {
      const ExprId next = scope_.remainder(builder_.add(part_, scope_.i32(1)), at_once_);
      builder_.when(builder_.equal(scope_.lane, scope_.i32(0)), [&] {
        builder_.append(kir::MbarrierArrive{turn_, next});
      });
    }
    builder_.append(kir::WgmmaWait{});
    release();
    if (at_once_ > 1) skip_items((at_once_ - 1) * steps_);
  }

  /// Splits the stages for one tile of the block.
  void split(const program::Pipeline& pipeline) {
    loop_over(pipeline, 0, [&](ExprId) {
      stage_ = builder_.ref(stage_var_);
      builder_.append(kir::MbarrierWait{full_, stage_, builder_.ref(parity_var_)});
      for (const program::StepId id : pipeline.body) {
        const auto* step = std::get_if<program::Split>(&program_.steps[id]);
        if (step != nullptr) lower_split(scope_, *step, stage_);
      }
      builder_.append(kir::ProxyFence{});
      builder_.append(kir::WarpBarrier{});
      builder_.when(builder_.equal(scope_.lane, scope_.i32(0)), [&] {
        builder_.append(kir::MbarrierArrive{split_, stage_});
      });
      advance_phase(pipeline);
    });
  }

  /// Passes over the items of other parts.
  void skip_items(int64_t items) {
    const ExprId moved =
        scope_.named("moved", builder_.add(builder_.ref(stage_var_), scope_.i32(items)));
    const ExprId rounds = builder_.div(moved, scope_.i32(stages_));
    builder_.assign(parity_var_,
                    scope_.remainder(builder_.add(builder_.ref(parity_var_), rounds), 2));
    builder_.assign(stage_var_, scope_.remainder(moved, stages_));
  }

  void loop_over(const program::Pipeline& pipeline, int64_t first,
                 const std::function<void(ExprId)>& body) {
    const int64_t extent = program_.axes[pipeline.loop.axis].extent;
    builder_.loop("step", scope_.i32(first), scope_.i32(divided_up(extent, pipeline.loop.step)),
                  scope_.i32(1), false, body);
  }

  /// The next stage; after the last one the first, in the next phase of the mbarriers.
  void advance_phase(const program::Pipeline& pipeline) {
    advance(stage_var_, pipeline.stages);
    builder_.when(builder_.equal(builder_.ref(stage_var_), scope_.i32(0)), [&] {
      builder_.assign(parity_var_, builder_.sub(scope_.i32(1), builder_.ref(parity_var_)));
    });
  }

  /// stage = (stage + 1) % stages.
  void advance(VarId stage, int64_t stages) {
    const ExprId next = builder_.add(builder_.ref(stage), scope_.i32(1));
    builder_.assign(stage,
                    builder_.select(builder_.equal(next, scope_.i32(stages)), scope_.i32(0), next));
  }

  const program::Program& program_;
  const Schedule& schedule_;
  const StageList list_;
  kir::Kernel kernel_;
  kir::KernelBuilder builder_;
  TileLowering tiles_;
  ProgramScope scope_;
  std::map<AxisId, int64_t> block_steps_;  ///< Elements of the block's part of each axis.
  ExprId stage_;                           ///< The pipeline's current stage, i32.
  bool is_first_step_ = false;             ///< Of the consumers, in a pipeline of theirs.
  ExprId begin_;                           ///< Of its part of the pipeline's axis, i64.
  kir::ParamId blocks_;                    ///< Of the grid.

  // Where warps take parts of the contracted axis in turns:
  std::optional<SliceProduct> slices_;
  const program::Merge* merge_ = nullptr;

  // With a producer:
  Role role_ = Role::kAll;
  std::vector<TensorCopies> tensor_copies_;
  kir::MbarrierId full_, empty_;
  kir::MbarrierId split_;        ///< Valid where warps split stages.
  int64_t steps_ = 0;            ///< Items of a tile.
  int64_t stages_ = 1;           ///< Of the pipeline.
  program::Loop epilogue_loop_;  ///< Over the rows of a tile that was handed over.
  // Where parts of a block work on tiles of their own:
  int64_t at_once_ = 1;
  kir::MbarrierId turn_;  ///< One for each part.
  ExprId part_;           ///< Number of the thread's part, i32.
  VarId turn_parity_;     ///< Of the part's next turn.
  VarId stage_var_, parity_var_;
};

}  // namespace

LoweredKernel lower_program(const program::Program& program, const SegmentFacts& facts,
                            const Schedule& schedule) {
  return ProgramLowering(program, facts, schedule).run();
}

LoweredKernel lower_matmul(const SegmentFacts& facts, const Schedule& schedule) {
  return lower_program(matmul_program(facts, schedule), facts, schedule);
}

LoweredKernel lower_columns(const SegmentFacts& facts, const Schedule& schedule) {
  return lower_program(column_program(facts, schedule), facts, schedule);
}

LoweredKernel lower_pointwise(const SegmentFacts& facts, const Schedule& schedule) {
  return lower_program(pointwise_program(facts, schedule), facts, schedule);
}

}  // namespace sinter
