#include "scheduler/families/matmul/matmul_program.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/families/matmul.h"
#include "scheduler/families/matmul/contraction_facts.h"
#include "scheduler/program/operand_copy.h"
#include "scheduler/program/operand_map.h"
#include "scheduler/program/program_walks.h"
#include "scheduler/program/shared_layout.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/schedule/shared_memory.h"

namespace sinter {
namespace matmul {
namespace {

/// Blocks of a group share the columns' operand of as many tiles: walking 8 tiles of rows before
/// the next tile of columns reads both operands about equally often from L2.
constexpr int64_t kRowTilesOfGroup = 8;
/// Rows that a lane of an epilogue evaluates together. Two spill
/// (docs/experiments/epilogue_warps.md).
constexpr int64_t kEpilogueRows = 1;
/// Most registers of a lane of an epilogue for inputs that all rows share: those of one of 16 bits,
/// 256 columns long. With more, layer norms spill (ptxas 13.0,
/// MatmulNvrtc.ProductsOfWarpGroupsDoNotSpill).
constexpr int64_t kMostCommonWords = 16;
/// Registers of a lane of an epilogue beside its part of a row: addresses, sums and what it
/// evaluates of a chunk. Source: reports of ptxas 13.0 for the kernels of
/// MatmulNvrtc.ProductsOfWarpGroupsDoNotSpill, which have 32 words of a row at most.
constexpr int64_t kEpilogueRegisters = 40;
/// The same where rows are not reduced: besides, an address for each access that is on its way. And
/// most registers for inputs that are loaded together there. Source: reports of ptxas 13.0 for the
/// kernels of MatmulNvrtc.EpiloguesOfElementsDoNotSpill.
constexpr int64_t kElementRegisters = 64;
constexpr int64_t kMostElementWords = 24;
/// Most registers of a lane of an epilogue for inputs that it loads together. With 32, a layer norm
/// with f32 weights spills 344 bytes.
constexpr int64_t kMostAheadWords = 8;

/// What lanes keep of their rows from one reduction to the next: the values of the minimum cut that
/// the kernel computes. The others are read again.
std::vector<ValueId> kept_values(const SegmentFacts& facts) {
  std::vector<ValueId> out;
  for (const ValueId value : facts.kept) {
    if (!facts.is_read(value) && facts.is_full(value)) out.push_back(value);
  }
  return out;
}

/// The same of warps of an epilogue, as far as their registers hold it; they also have what was
/// handed over, from which all else is computed again. And inputs that are the same in all rows,
/// such as weights, which a lane then loads once for a tile.
std::vector<ValueId> kept_of_epilogue(const SegmentFacts& facts, const MatmulParameters& own) {
  const ValueId handed = handed_value(facts);
  const int64_t columns = std::min(own.tile_columns, facts.space.columns / own.cluster_size);
  const int64_t of_lane = divided_up(columns, program::kEpilogueLanes);
  const auto words_of = [&](ValueId value) {
    return register_words(of_lane, bytes_of(facts.fusion.values[value].type));
  };
  int64_t words = producer_registers(facts, own).kept - beside_row(facts) - words_of(handed) -
                  accumulator_words(facts, of_lane);
  std::vector<ValueId> out;
  const int64_t chunk = program::kChunkBytes / bytes_of(facts.fusion.values[handed].type);
  const auto keep = [&](ValueId value, int64_t most) {
    if (words_of(value) > std::min(words, most)) return false;
    out.push_back(value);
    // Beside accumulators of columns a vector of all other inputs must fit, too. Without them a
    // lane that loads inputs again spills although they fit: ptxas 13.0 reports 12 bytes for a bias
    // and a residual, 48 for a gradient of GELU. Those keep their inputs or are refused.
    const bool adds_vector = facts.has_outer() && !facts.has_reduction();
    const int64_t others = adds_vector ? words_of_vector(facts, out, chunk) : 0;
    if (words_of(value) + others > words) {
      out.pop_back();
      return false;
    }
    words -= words_of(value);
    return true;
  };
  for (const ValueId value : kept_values(facts)) {
    if (value != handed) keep(value, words);
  }
  int64_t common = kMostCommonWords;
  for (const TensorAccess& access : facts.space.inputs) {
    const Dependence& dependence = facts.space.dependence[access.value];
    // Lanes of other rows would still read what one overwrites.
    const bool is_overwritten =
        std::ranges::find(facts.in_place, access.tensor, &InPlace::input) != facts.in_place.end();
    if (dependence.columns && !dependence.rows && !is_overwritten && keep(access.value, common))
      common -= words_of(access.value);
  }
  return out;
}

/// Vectors of a row whose inputs, but for those that are kept, a lane of an epilogue loads
/// together. Rows that nothing reduces are evaluated vector by vector, so that registers hold more
/// of their inputs.
int64_t vectors_ahead(const SegmentFacts& facts, const MatmulParameters& own,
                      const std::vector<ValueId>& kept) {
  const ValueId handed = handed_value(facts);
  const int64_t handed_bytes = bytes_of(facts.fusion.values[handed].type);
  const int64_t chunk = program::kChunkBytes / handed_bytes;
  const int64_t vectors =
      divided_up(std::min(own.tile_columns, facts.space.columns), program::kEpilogueLanes * chunk);
  const int64_t words = words_of_vector(facts, kept, chunk);
  int64_t left = producer_registers(facts, own).kept - beside_row(facts) -
                 register_words(vectors * chunk, handed_bytes) -
                 accumulator_words(facts, vectors * chunk);
  for (const ValueId value : kept)
    left -= register_words(vectors * chunk, bytes_of(facts.fusion.values[value].type));
  const int64_t most =
      facts.has_reduction() ? kMostAheadWords : std::clamp<int64_t>(left, 0, kMostElementWords);
  const int64_t ahead = std::max<int64_t>(most / std::max<int64_t>(words, 1), 1);
  return facts.has_reduction() ? ahead : std::min(ahead, vectors);
}

/// Adjacent columns of an output that one aligned access stores, where they divide `columns`; 1 if
/// its columns are not adjacent.
int64_t staged_width(const SegmentFacts& facts, size_t output, int64_t columns) {
  const TensorAccess& access = facts.space.outputs[output];
  for (int64_t width = kMostAccessBytes / access.element_bytes; width > 1; width /= 2) {
    const Schedule of_width{.family = std::string(kName), .vector_width = width};
    if (columns % width == 0 && facts.space.columns % width == 0 &&
        access_kind(facts, access, of_width) == AccessKind::kVector)
      return width;
  }
  return 1;
}

/// Builds the program of a schedule.
class ProgramBuilder {
 public:
  /// `stages` are those of stages_with().
  ProgramBuilder(const SegmentFacts& facts, const Schedule& schedule, const StageList& stages)
      : facts_(facts),
        schedule_(schedule),
        stages_(stages),
        contraction_(*facts.space.contraction),
        own_(std::get<MatmulParameters>(schedule.parameters)) {}

  program::Program run() {
    // As much as most programs have: hundreds of schedules of a segment have one each.
    out_.axes.reserve(4);
    out_.tiles.reserve(6);
    out_.steps.reserve(10);
    out_.name = facts_.fusion.name;
    out_.threads = schedule_.threads_per_block();
    if (has_producer(own_)) {
      const GroupRegisters producer = producer_registers(facts_, own_);
      out_.producer = {.threads = producer.threads,
                       .registers = producer.kept,
                       .consumer_registers = own_.consumer_registers,
                       .epilogue_warps = own_.epilogue_warps,
                       .split_warps = splits_stages(facts_) ? producer.threads / kWarp - 1 : 0};
    }
    add_axes();
    const program::Span rows{.axis = m_, .extent = own_.tile_rows};
    const program::Span columns{.axis = n_, .extent = own_.tile_columns};
    if (own_.slice_warps > 0) return sliced(rows, columns);
    const program::TileId left = operand("left", true, rows);
    const program::TileId right = operand("right", false, columns);
    const int64_t column_warps = schedule_.threads_per_row / kWarp / own_.row_warps;
    const int64_t row_parts = out_.producer ? own_.row_warps * kWarp / kWarpGroup : own_.row_warps;
    part_rows_ = {.axis = m_, .extent = own_.tile_rows / row_parts};
    part_columns_ = {.axis = n_, .extent = own_.tile_columns / column_warps};
    const program::TileId sum = out_.tiles.push_back(
        {.name = "sum",
         .type = facts_.fusion.values[contraction_.value].type,
         .place = out_.producer ? program::Place::kGroupFragment : program::Place::kFragment,
         .rows = part_rows_,
         .columns = part_columns_,
         .line = instruction_columns()});
    const ContractPrecision precision = contract_op(facts_).precision;
    program::Contract products{.fn = contract_op(facts_).fn,
                               .unit = unit_of(facts_),
                               .precision = precision,
                               .accumulator = sum,
                               .left = left,
                               .right = right};
    program::Steps on_stage;
    if (out_.producer && splits_stages(facts_)) products.right_second = split(right, on_stage);
    on_stage.push_back(in_parts(std::move(products)));
    const program::StepId pipeline =
        out_.steps.push_back(program::Pipeline{.loop = {.axis = k_, .step = own_.tile_depth},
                                               .stages = own_.pipeline_stages,
                                               .copies = std::move(copies_),
                                               .body = std::move(on_stage)});
    program::Steps body = {pipeline};
    const program::StepId region =
        own_.epilogue_warps > 0 ? epilogue(sum, body)
                                : in_parts(program::Region{.tile = sum,
                                                           .value = contraction_.value,
                                                           .width = schedule_.vector_width,
                                                           .holds_rows = facts_.has_reduction(),
                                                           .kept = kept_values(facts_),
                                                           .exchange_bytes = 0,
                                                           .message_places = 0,
                                                           .partial_rows = partials(),
                                                           .staged = staging()});
    body.push_back(region);
    const program::StepId blocks =
        out_.steps.push_back(program::Nest{.binding = program::Binding::kBlock,
                                           .loops = loops_of_blocks(),
                                           .group = own_.cluster_size > 1 ? 1 : kRowTilesOfGroup,
                                           .persistent_blocks = schedule_.persistent_blocks,
                                           .at_once = schedule_.rows_per_block,
                                           .cluster = own_.cluster_size,
                                           .exchange = own_.exchange,
                                           .body = std::move(body)});
    out_.body.push_back(blocks);
    if (own_.epilogue_warps > 0) {
      std::get<program::Nest>(out_.steps[region]).loops.front().step =
          kEpilogueRows * kWarp / program::epilogue_lanes(out_);
    }
    if (own_.cluster_size > 1) {
      // Iterations of the blocks alternate between two copies.
      constexpr int64_t kCopies = 2;
      Schedule of_rows = program::row_schedule(out_);
      const int64_t together = program::rows_together(out_);
      const bool by_messages = own_.exchange == ExchangeKind::kMessages;
      // All rows of a tile are on their way at once.
      if (by_messages) of_rows.rows_per_block = own_.tile_rows / together;
      auto& step = std::get<program::Region>(
          out_.steps[std::get<program::Nest>(out_.steps[region]).body.front()]);
      for (const Stage& stage : stages_.stages) {
        if (by_messages) {
          step.message_places += message_places(facts_, stage, of_rows, kCopies, together);
        } else {
          step.exchange_bytes += exchange_bytes(facts_, stage, of_rows, kCopies, together);
        }
      }
    }
    return std::move(out_);
  }

 private:
  /// Warps that take parts of the contracted axis in turns.
  program::Program sliced(const program::Span& rows, const program::Span& columns) {
    const program::TileId left = lines("left", true, rows, 1);
    const program::TileId right = lines("right", false, columns, own_.pipeline_stages);
    const DType type = facts_.fusion.values[contraction_.value].type;
    const program::TileId slice = out_.tiles.push_back({.name = "slice",
                                                        .type = type,
                                                        .place = program::Place::kSlice,
                                                        .rows = rows,
                                                        .columns = columns});
    const program::TileId slices = out_.tiles.push_back({.name = "slices",
                                                         .type = type,
                                                         .place = program::Place::kShared,
                                                         .rows = rows,
                                                         .columns = columns,
                                                         .stages = own_.slice_warps});
    // Eight rows and columns for each warp that evaluates.
    part_rows_ = {.axis = m_, .extent = program::kFragmentRows};
    part_columns_ = {.axis = n_, .extent = program::MatrixShape{}.n};
    const program::TileId sum = out_.tiles.push_back({.name = "sum",
                                                      .type = type,
                                                      .place = program::Place::kFragment,
                                                      .rows = part_rows_,
                                                      .columns = part_columns_});
    const program::StepId contract =
        out_.steps.push_back(program::Contract{.precision = contract_op(facts_).precision,
                                               .accumulator = slice,
                                               .left = left,
                                               .right = right});
    const program::StepId pipeline = out_.steps.push_back(program::Pipeline{
        .loop = {.axis = k_, .step = own_.tile_depth},
        .stages = own_.pipeline_stages,
        .slice_warps = own_.slice_warps,
        .loads_before_wait = schedule_.dependent_launch == DependentLaunch::kPreload,
        .copies = std::move(copies_),
        .body = {contract}});
    const program::StepId merge =
        out_.steps.push_back(program::Merge{.slice = slice, .through = slices, .fragment = sum});
    const program::StepId region = in_parts(program::Region{.tile = sum,
                                                            .value = contraction_.value,
                                                            .width = schedule_.vector_width,
                                                            .kept = {},
                                                            .exchange_bytes = 0,
                                                            .message_places = 0,
                                                            .partial_rows = partials(),
                                                            .staged = {}});
    out_.body.push_back(out_.steps.push_back(program::Nest{.binding = program::Binding::kBlock,
                                                           .loops = loops_of_blocks(),
                                                           .group = kRowTilesOfGroup,
                                                           .body = {pipeline, merge, region}}));
    return std::move(out_);
  }

  /// Lines of an operand in registers.
  program::TileId lines(const char* name, bool of_rows, const program::Span& span, int64_t stages) {
    const TensorAccess& access = of_rows ? contraction_.rows : contraction_.columns;
    const program::TileId tile =
        out_.tiles.push_back({.name = name,
                              .type = facts_.fusion.values[access.value].type,
                              .place = program::Place::kLines,
                              .rows = span,
                              .columns = {.axis = k_, .extent = own_.tile_depth},
                              .stages = stages});
    copies_.push_back(
        out_.steps.push_back(program::Copy{.tile = tile,
                                           .of_rows = of_rows,
                                           .kind = program::CopyKind::kDirect,
                                           .width = program::kChunkBytes / access.element_bytes,
                                           .evict_first = evicts_first(of_rows)}));
    return tile;
  }

  /// True where one tile reads the operand and the schedule lets it leave L2 first.
  [[nodiscard]] bool evicts_first(bool of_rows) const {
    return schedule_.read_priority == ReadPriority::kEvictFirst &&
           of_rows == has_all_columns(facts_, schedule_);
  }

  /// Columns of an instruction of a warp group; 0: all of its part. Beside the warps of a wide
  /// epilogue the launch leaves too few registers for the widest instruction.
  [[nodiscard]] int64_t instruction_columns() const {
    constexpr int64_t kMostBesideEpilogue = 128;
    const bool is_wide = out_.producer && out_.producer->threads > kWarpGroup;
    return is_wide && part_columns_.extent > kMostBesideEpilogue ? part_columns_.extent / 2 : 0;
  }

  /// Hands the sums over, and evaluates the rows in warps of their own.
  program::StepId epilogue(program::TileId sum, program::Steps& body) {
    const ValueId value = handed_value(facts_);
    const DType type = facts_.fusion.values[value].type;
    const program::TileId handed =
        out_.tiles.push_back({.name = "handed",
                              .type = type,
                              .place = program::Place::kShared,
                              .rows = {.axis = m_, .extent = own_.tile_rows},
                              .columns = {.axis = n_, .extent = own_.tile_columns}});
    body.push_back(in_parts(program::Handover{.fragment = sum, .tile = handed, .value = value}));
    std::vector<ValueId> kept = kept_of_epilogue(facts_, own_);
    const int64_t ahead = vectors_ahead(facts_, own_, kept);
    const program::StepId region =
        out_.steps.push_back(program::Region{.tile = handed,
                                             .value = value,
                                             .width = program::kChunkBytes / bytes_of(type),
                                             .holds_rows = facts_.has_reduction(),
                                             .ahead = ahead,
                                             .kept = std::move(kept),
                                             .exchange_bytes = 0,
                                             .message_places = 0,
                                             .partial_rows = partials(),
                                             .staged = {}});
    return out_.steps.push_back(
        program::Nest{.binding = program::Binding::kEpilogueWarp,
                      .loops = {{.axis = m_, .step = 1}, {.axis = n_, .step = own_.tile_columns}},
                      .body = {region}});
  }

  void add_axes() {
    const size_t batches = contraction_.batch_dimensions;
    const size_t rows = facts_.space.row_dimensions;
    const std::vector<int64_t> sizes = facts_.space.loop_sizes();
    const size_t loops = facts_.space.dimensions.size();
    const auto add = [&](const char* name, size_t begin, size_t end) {
      program::Axis axis{.name = name,
                         .first_loop = begin,
                         .sizes = {sizes.begin() + static_cast<ptrdiff_t>(begin),
                                   sizes.begin() + static_cast<ptrdiff_t>(end)}};
      for (const int64_t size : axis.sizes) axis.extent *= size;
      // The launch gives the number of rows, as for all kernels, or of batches.
      axis.is_launched = begin == 0 && end > 0 && end <= rows;
      return out_.axes.push_back(std::move(axis));
    };
    batch_ = add("batch", 0, batches);
    m_ = add("m", batches, rows);
    n_ = add("n", rows, loops);
    k_ = add("k", loops, sizes.size());
  }

  program::TileId operand(const char* name, bool of_rows, const program::Span& span) {
    const TensorAccess& access = of_rows ? contraction_.rows : contraction_.columns;
    const program::OperandCopy copy = copy_of(of_rows, access.element_bytes);
    const program::Span depth{.axis = k_, .extent = own_.tile_depth};
    const program::TileId tile = out_.tiles.push_back(
        {.name = name,
         .type = facts_.fusion.values[access.value].type,
         .place = program::Place::kShared,
         .rows = copy.contracted_is_inner ? span : depth,
         .columns = copy.contracted_is_inner ? depth : span,
         .stages = own_.pipeline_stages,
         .line = copy.kind == program::CopyKind::kTensor ? copy.width : 0,
         .in_order = unit_of(facts_) == program::Unit::kLane && !copy.contracted_is_inner});
    copies_.push_back(out_.steps.push_back(program::Copy{
        .tile = tile,
        .of_rows = of_rows,
        .kind = copy.kind,
        .width = copy.width,
        .evict_first = copy.kind == program::CopyKind::kTensor && evicts_first(of_rows)}));
    return tile;
  }

  /// The second parts of a tile's elements, and the step that splits it.
  program::TileId split(program::TileId tile, program::Steps& body) {
    program::Tile second = out_.tiles[tile];
    second.name += "_second";
    const program::TileId id = out_.tiles.push_back(std::move(second));
    body.push_back(out_.steps.push_back(program::Split{.tile = tile, .second = id}));
    return id;
  }

  /// Where all parts of the batch have the same rows, and a tile has all columns, tiles of rows and
  /// parts of the batch are walked in groups, as tiles of rows and columns are.
  [[nodiscard]] std::vector<program::Loop> loops_of_blocks() const {
    const program::Loop batch{.axis = batch_, .step = 1};
    const program::Loop rows{.axis = m_, .step = own_.tile_rows};
    const program::Loop columns{.axis = n_, .step = block_columns()};
    const auto strides = std::span(contraction_.rows.strides).first(contraction_.batch_dimensions);
    const bool shares_rows = out_.axes[batch_].extent > 1 &&
                             std::ranges::all_of(strides, [](int64_t s) { return s == 0; });
    if (shares_rows && own_.cluster_size == 1 && columns.step >= out_.axes[n_].extent)
      return {columns, rows, batch};
    return {batch, rows, columns};
  }

  /// Columns of a block's tile that are its own.
  [[nodiscard]] int64_t block_columns() const {
    return own_.cluster_size > 1 ? facts_.space.columns / own_.cluster_size : own_.tile_columns;
  }

  /// Rows of partial results of a tile.
  [[nodiscard]] int64_t partials() const { return facts_.has_outer() ? evaluating_warps(own_) : 0; }

  /// Outputs that wider accesses store than those of a lane's pairs.
  std::vector<program::Staging> staging() {
    std::vector<program::Staging> out;
    // A row of all of them has one access of the widest for each lane of a warp, or all columns
    // where rows are reduced.
    auto row_columns =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(part_columns_.extent)));
    for (size_t i = 0; i < facts_.fusion.outputs.size(); ++i) {
      const int64_t bytes = facts_.space.outputs[i].element_bytes;
      const int64_t width =
          staged_width(facts_, i, own_.cluster_size > 1 ? block_columns() : part_columns_.extent);
      // Shared memory has a layout for rows of two chunks or more.
      if (width <= schedule_.vector_width || !covers_all(facts_, i) ||
          facts_.is_empty(facts_.fusion.outputs[i]) ||
          row_columns * bytes < 2 * program::kChunkBytes)
        continue;
      // The lanes of a row fill sectors of memory with their pairs of 4 bytes, and rows of a block
      // would take the room of stages that are split.
      if (facts_.has_reduction() && splits_stages(facts_) && bytes >= kRegisterBytes) continue;
      if (!facts_.has_reduction())
        row_columns = std::min(row_columns, kWarp * kMostAccessBytes / bytes);
      out.push_back({.output = i, .tile = {}, .width = width});
    }
    for (program::Staging& staging : out) {
      const ValueId output = facts_.fusion.outputs[staging.output];
      staging.tile = out_.tiles.push_back(
          {.name = fmt::format("row{}", staging.output),
           .type = facts_.fusion.values[output].type,
           .place = program::Place::kShared,
           .rows = {.axis = m_, .extent = program::kFragmentRows * (own_.cluster_size > 1 ? 2 : 1)},
           .columns = {.axis = n_, .extent = row_columns},
           .stages = out_.threads / kWarp});
    }
    return out;
  }

  /// A tensor map copies lines of up to 128 bytes, the longest that a product takes.
  [[nodiscard]] program::OperandCopy copy_of(bool of_rows, int64_t element_bytes) const {
    if (!out_.producer) return program::operand_copy(facts_, of_rows);
    const auto map = program::operand_map(facts_, of_rows, kName);
    SINTER_CHECK(map.has_value(), "check_groups() accepts the schedule");
    const bool contracted_is_inner = map->contracted_is_inner();
    const int64_t inner = contracted_is_inner ? own_.tile_depth
                          : of_rows           ? own_.tile_rows
                                              : own_.tile_columns;
    return {.contracted_is_inner = contracted_is_inner,
            .kind = program::CopyKind::kTensor,
            .width = std::min(inner, program::kLineBytes / element_bytes)};
  }

  /// The step in every warp or warp group, on its part of the block's tile.
  program::StepId in_parts(program::Step step) {
    const program::StepId inner = out_.steps.push_back(std::move(step));
    return out_.steps.push_back(program::Nest{
        .binding = out_.producer ? program::Binding::kWarpGroup : program::Binding::kWarp,
        .loops = {{.axis = m_, .step = part_rows_.extent},
                  {.axis = n_, .step = part_columns_.extent}},
        .body = {inner}});
  }

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  const StageList& stages_;
  const ContractedSpace& contraction_;
  const MatmulParameters& own_;
  program::Program out_;
  program::AxisId batch_, m_, n_, k_;
  program::Span part_rows_, part_columns_;
  program::Steps copies_;
};

}  // namespace

int64_t beside_row(const SegmentFacts& facts) {
  return facts.has_reduction() ? kEpilogueRegisters : kElementRegisters;
}

int64_t words_of_vector(const SegmentFacts& facts, const std::vector<ValueId>& kept,
                        int64_t width) {
  int64_t words = 0;
  for (const TensorAccess& access : facts.space.inputs) {
    const bool is_kept = std::ranges::find(kept, access.value) != kept.end();
    if (facts.space.dependence[access.value].columns && !is_kept)
      words += register_words(width, access.element_bytes);
  }
  return words;
}

StageList stages_with(const SegmentFacts& facts) {
  std::vector<KeptValue> kept;
  for (const ValueId value : kept_values(facts)) kept.push_back({value, Residency::kRegister});
  return distribute(facts, kept);
}

StageList stages_of_epilogue(const SegmentFacts& facts, const MatmulParameters& own) {
  std::vector<KeptValue> kept;
  for (const ValueId value : kept_of_epilogue(facts, own))
    kept.push_back({value, Residency::kRegister});
  return distribute(facts, kept);
}

program::Program program_of(const SegmentFacts& facts, const Schedule& schedule,
                            const StageList& stages) {
  return ProgramBuilder(facts, schedule, stages).run();
}

void set_stages(program::Program& program, int64_t stages) {
  for (program::Step& step : program.steps) {
    if (auto* pipeline = std::get_if<program::Pipeline>(&step)) pipeline->stages = stages;
    if (const auto* split = std::get_if<program::Split>(&step))
      program.tiles[split->second].stages = stages;
    const auto* copy = std::get_if<program::Copy>(&step);
    // Of lines in registers, those of the columns' operand alone have stages.
    if (copy != nullptr && !(copy->kind == program::CopyKind::kDirect && copy->of_rows))
      program.tiles[copy->tile].stages = stages;
  }
}

}  // namespace matmul

program::Program matmul_program(const SegmentFacts& facts, const Schedule& schedule) {
  return matmul::program_of(facts, schedule, matmul::stages_with(facts));
}

int64_t message_bytes(const SegmentFacts& facts, const Schedule& schedule) {
  if (schedule.exchange() != ExchangeKind::kMessages) return 0;
  const program::Program program = matmul_program(facts, schedule);
  return program::message_places(program) * program::block_count(program) * kMessagePlaceBytes;
}

}  // namespace sinter
