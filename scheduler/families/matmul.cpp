#include "scheduler/families/matmul.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "fusion_ir/integers.h"
#include "fusion_ir/reduction_traits.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/cost/read_priority.h"
#include "scheduler/program/operand_copy.h"
#include "scheduler/program/operand_map.h"
#include "scheduler/program/program_walks.h"
#include "scheduler/program/shared_layout.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/pipeline.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/schedule/shared_memory.h"

namespace sinter {
namespace {

constexpr std::string_view kName = kMatmul;

/// Registers of a thread beside fragments and addresses of copies: addresses of matrix loads and of
/// staged rows, loop counters, and the coordinates of the epilogue. Source: reports of ptxas 13.0
/// for the schedules of MatmulNvrtc.RegistersAreEstimated, which bounds the error.
constexpr int64_t kBaseRegisters = 18;

// More registers of slices, by which ptxas 13.0 exceeds what their tiles and addresses take before
// it spills: for products of sm_80, sm_90a and sm_100a of 2 to 8 lines of 8 and 16 columns under a
// cap of 128 (MatmulNvrtc.SlicesDoNotSpill).

constexpr int64_t kSliceRegisters = 9;
/// Where turns are cut: predicates of loads, and zeros in their place.
constexpr int64_t kCutTurnRegisters = 16;
/// 8-bit floats, whose elements ptxas takes apart on their way to matrix instructions.
constexpr int64_t kF8SliceRegisters = 36;

// Constants of the prediction. docs/cost_model.md has the formula. Source of those of tiles that
// warps multiply: the least squares of 100 schedules of five products on an H100,
// benchmarks/results/h100_2026-11-28_matmul.json.

/// Clocks of a step of the pipeline in which a block computes nothing: it waits for its copies and
/// for its warps, and loads the first matrices.
constexpr double kStepClocks = 250.0;
/// Lines of L1 that the stores of an SM touch in a clock. A warp's store of pairs touches eight
/// rows.
constexpr double kStoreLinesPerClock = 1.0;
constexpr double kElementsOfStore = 64.0;
constexpr double kLinesOfStore = 8.0;

// Those of staged stores and of warp groups were chosen by hand on an H200, one card, so that the
// cells of benchmarks/results/h200_2026-11-28_linear.json and h200_2026-11-28_linear_turns.json are
// predicted within 17 %.

/// What is staged passes through shared memory twice before it is stored, 128 bytes a clock each.
/// Counted, not chosen.
constexpr double kPassesOfStaged = 3.0;
constexpr double kBytesOfPass = 128.0;
/// Instructions of staging an element: half of a conversion, of an address and of a store to shared
/// memory, and an eighth of those of the access that stores it.
constexpr double kInstructionsOfStaged = 4.0;
// Those of what is evaluated behind products were chosen by hand for 23 kernels of transformer
// layers on an H200, one card (benchmarks/results/h200_2026-11-28_layers_fused.json), which they
// predict within 5.8 % in the mean. Two warps of each scheduler hide little of the latency of their
// instructions.

/// Time of instructions, as a multiple of that at the full rate of an SM.
constexpr double kEpilogueIssue = 1.4;
/// Clocks of an SM for a special function of an element, beside its instructions.
constexpr double kEpilogueSpecialClocks = 0.08;
/// Clocks of an SM for an element of another input, which a lane reads in pairs, eight rows of a
/// warp at once.
constexpr double kEpilogueLoadClocks = 0.15;
/// Clocks of an SM for a random number: Philox gives four at once, of which a lane takes the two of
/// its columns, and branches to find out.
constexpr double kEpiloguePhiloxClocks = 2.7;
/// Clocks between the last product of a warp group and the first store behind it, and between its
/// last store and the next product.
constexpr double kTurnClocks = 800.0;
/// Clocks in which the blocks of a cluster exchange what they know of their rows. Where they work
/// on several tiles at once, each of the blocks may make the others wait.
constexpr double kExchangeClocks = 1500.0;
/// Least clocks of a step of the pipeline where one warp group multiplies alone.
constexpr double kTurnedStepClocks = 780.0;
/// Time of what follows from the products of a tile where others multiply meanwhile, as a multiple
/// of its time alone: both take shared memory, and fewer warps hide less.
constexpr double kBesideProducts = 1.2;
// Those of rows that are evaluated beside the products were chosen by hand so that 16 kernels of
// benchmarks/results/h200_2026-11-28_epilogue_warps.json are predicted within 12 %, but for one.

/// Clocks of a warp of the epilogue for an iteration beside its elements: it waits for the tile and
/// for shared memory.
constexpr double kEpilogueIterationClocks = 1100.0;
/// The same where rows are not reduced, and instructions of all warps of an epilogue in a clock of
/// the SM, beside the products. (8192, 768, 3072) takes 73.9 us with a GELU by exp and three warps,
/// 111.4 us with one by tanh, and 85.2 us with a residual; with seven warps 69.4, 91.2 and 69.3 us
/// (H200, one card).
constexpr double kElementIterationClocks = 700.0;
constexpr double kEpilogueIssuePerClock = 1.2;
/// Clocks of such a warp for an instruction: seven of them share four schedulers with the warp
/// groups that multiply.
constexpr double kEpilogueInstructionClocks = 1.5;
/// The same for a special function, beside its instructions.
constexpr double kEpilogueFunctionClocks = 3.5;
/// Clocks of a step in which lanes, or blocks of a cluster, combine two sums of a row.
constexpr double kEpilogueStepClocks = 45.0;
/// Clocks in which such a warp waits for what other blocks of the cluster know of its rows.
constexpr double kEpilogueExchangeClocks = 550.0;
/// Clocks of an SM for a store to another block of its cluster. Layer norms of 4,096 columns over
/// 16 blocks took 8,800 clocks for a tile more than predicted by 6,144 such stores, and 1,900 more
/// by 2,048 (docs/experiments/epilogue_warps.md).
constexpr double kRemoteStoreClocks = 1.0;
/// Clocks in which such a warp waits for another input of its rows.
constexpr double kEpilogueReadClocks = 1000.0;
/// Time of products by several instructions of so many columns or fewer for a step beside an
/// epilogue, as a multiple of that by one that is wider: they read an operand more often from
/// shared memory. (8192, 4096, 4096) takes 349.5 us by instructions of 256 columns, 383 and 386 by
/// those of 128 (H200).
constexpr double kNarrowInstructions = 1.06;
constexpr int64_t kNarrowColumns = 128;
/// Clocks between the last product of a tile and the first of the next one, in which warp groups
/// hand the tile over: of the pipeline that runs empty, and elements of the tile that are put into
/// shared memory in a clock. Tiles of 128 x 256 take 1,600 clocks, those of 128 x 128 1,000: (8192,
/// 768, 2304) takes 48.4 us (H200).
constexpr double kHandoverClocks = 400.0;
constexpr double kHandoverElements = 27.3;
/// Bytes per clock that tensor copies bring from L2 to an SM. (2048, 2048, 2048) by tiles of
/// 64 x 256 takes 28.5 us, where nothing else limits.
constexpr double kTensorCopyBytes = 61.0;
/// Clocks between the request of a tensor copy and its first bytes. While a stage is multiplied the
/// others are on their way: (8192, 768, 3072) by tiles of 128 x 256 takes 77.4, 62.6 and 62.3 us
/// with 2, 3 and 4 stages, by tiles of 128 x 128 106.8, 75.8 and 64.6 us with 2, 3 and 6 (H200).
constexpr double kTensorCopyLatency = 700.0;

/// Clocks of a warp for a step of 32 bytes along k whose left operand it splits, beside the
/// products. They go on meanwhile: both times join as a 2-norm. By tiles of 128 x 64 a step takes
/// 310 clocks on an H200, where its products alone would take 216; by those of 128 x 128 460 and
/// 432, by larger ones 880 and 864 (docs/experiments/split_operands.md). One card.
constexpr double kSplitStepClocks = 200.0;
/// Least stages where other warps split the right operand: one is filled, one is split, one
/// multiplied and one released at the same time.
constexpr int64_t kLeastSplitStages = 4;

/// Share of their rate at which lanes multiply-add: they also load operands, which takes issue
/// slots and registers' banks.
constexpr double kLaneEfficiency = 0.8;

/// Rate of f8 products beside that of 16-bit ones on compute capability 9.0, where mma.sync takes
/// longer for f8: (8192, 4096, 4096) in 826 us on an H100, 670 in bf16.
constexpr double kF8Rate90 = 0.8;

/// Most elements of the contracted axis, so that a counter of steps fits 31 bits.
constexpr double kMostContracted = 0x1p35;

/// Most elements of a tile along an axis.
constexpr int64_t kMostTile = kMostMatmulColumns;

/// Blocks of a group share the columns' operand of as many tiles: walking 8 tiles of rows before
/// the next tile of columns reads both operands about equally often from L2.
constexpr int64_t kRowTilesOfGroup = 8;

/// Rows and columns of a block's tile, and of the grid of its warps.
struct BlockTile {
  int64_t tile_rows, tile_columns, row_warps, column_warps;
};
/// The tiles that are offered: parts of a warp from 64 x 64 down to 16 x 16, in blocks of two to
/// eight warps.
constexpr std::array kBlockTiles = {
    BlockTile{128, 256, 2, 4}, BlockTile{256, 128, 4, 2}, BlockTile{128, 128, 2, 4},
    BlockTile{128, 128, 2, 2}, BlockTile{128, 64, 2, 2},  BlockTile{64, 128, 2, 2},
    BlockTile{64, 128, 1, 4},  BlockTile{64, 64, 2, 2},   BlockTile{32, 128, 1, 4},
    BlockTile{128, 32, 4, 1},  BlockTile{32, 64, 1, 4},   BlockTile{64, 32, 4, 1},
    BlockTile{32, 32, 2, 2},   BlockTile{16, 128, 1, 4},  BlockTile{16, 64, 1, 4},
    BlockTile{16, 32, 1, 2},
};
/// Those of rows that are reduced, whose columns one warp has.
constexpr std::array kRowTiles = {
    BlockTile{128, 256, 8, 1}, BlockTile{64, 256, 4, 1}, BlockTile{128, 128, 8, 1},
    BlockTile{64, 128, 4, 1},  BlockTile{128, 64, 8, 1}, BlockTile{64, 64, 4, 1},
    BlockTile{64, 32, 4, 1},   BlockTile{32, 256, 2, 1},
};

/// Those of one warp group, of which a block works on two at once.
constexpr std::array kTilesInTurns = {
    BlockTile{128, 128, 4, 1},
    BlockTile{64, 256, 4, 1},
    BlockTile{64, 128, 4, 1},
};
/// Those of warp groups, one to two of 64 or 128 rows.
constexpr std::array kGroupTiles = {
    BlockTile{128, 256, 8, 1}, BlockTile{256, 128, 8, 1}, BlockTile{128, 192, 8, 1},
    BlockTile{128, 128, 8, 1}, BlockTile{128, 64, 8, 1},  BlockTile{64, 256, 4, 2},
    BlockTile{64, 128, 4, 2},  BlockTile{64, 64, 4, 2},
};
/// The same of one warp group, which has all columns of a row that is reduced. Small products get
/// more clusters from them: (512, 512, 512) with a softmax takes 7.9 us by tiles of 64 x 64, with
/// an RMS norm 8.5, and 9.0 by those of 128 x 64 (H200).
constexpr std::array kRowGroupTiles = {BlockTile{64, 128, 4, 1}, BlockTile{64, 64, 4, 1}};
/// Warps of an epilogue that has the producer's warp group to itself: warp groups that multiply
/// keep the registers of their widest instructions.
constexpr int64_t kFewEpilogueWarps = kWarpGroup / kWarp - 1;
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
/// Most stages that they are offered. With more, no SM has more bytes on their way than memory
/// needs.
constexpr int64_t kMostGroupStages = 8;

Rejection refused(std::string rule, double value, double limit, std::string unit, ValueId at,
                  std::string remedy) {
  return {.subject = std::string(kName),
          .rule = std::move(rule),
          .value = value,
          .limit = limit,
          .unit = std::move(unit),
          .at = at,
          .remedy = std::move(remedy)};
}

const ContractOp& contract_op(const SegmentFacts& facts) {
  return std::get<ContractOp>(facts.fusion.ops[facts.space.contraction->op].kind);
}

/// True if a matrix instruction multiplies elements of the type, of f32 where the precision lets
/// it round them to TF32.
bool has_matrix_instruction(DType type, ContractPrecision precision) {
  switch (type) {
    case DType::kBF16:
    case DType::kF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
    case DType::kU8:
      return true;
    case DType::kF32:
      return precision != ContractPrecision::kIeee;
    case DType::kF64:
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
      return false;
  }
  unreachable();
}

/// True for schedules of a producer and warp groups.
bool has_producer(const MatmulParameters& own) { return own.consumer_registers > 0; }

/// What warp groups hand over to the warps of an epilogue: the contraction's value, or its cast to
/// a narrower type that is evaluated in the contraction's, where nothing else reads it.
ValueId handed_value(const SegmentFacts& facts) {
  const ValueId value = facts.space.contraction->value;
  const DType type = facts.fusion.values[value].type;
  ValueId only;
  for (const Op& op : facts.fusion.ops) {
    if (std::ranges::find(op.operands, value) == op.operands.end()) continue;
    if (only.valid() || !std::holds_alternative<CastOp>(op.kind)) return value;
    only = op.results.front();
  }
  if (!only.valid() || std::ranges::find(facts.fusion.outputs, value) != facts.fusion.outputs.end())
    return value;
  const DType narrow = facts.fusion.values[only].type;
  return bytes_of(narrow) < bytes_of(type) && compute_type(narrow) == type ? only : value;
}

/// True for outputs that have an element for each row: no two blocks store the same one.
bool covers_rows(const SegmentFacts& facts, size_t output) {
  const std::vector<int64_t>& strides = facts.space.outputs[output].strides;
  for (size_t i = 0; i < facts.space.row_dimensions; ++i) {
    if (facts.space.dimensions[i].size > 1 && strides[i] == 0) return false;
  }
  return facts.space.output_coverage[output].rows || facts.space.row_dimensions == 0;
}

/// True for outputs that have an element for each row and column.
bool covers_all(const SegmentFacts& facts, size_t output) {
  return facts.space.output_coverage[output].columns && covers_rows(facts, output);
}

/// Loads of the segment's other tensors and stores, per element of the result.
struct Epilogue {
  double read_bytes = 0.0;
  double written_bytes = 0.0;
};

Epilogue epilogue_of(const SegmentFacts& facts) {
  Epilogue out;
  for (const TensorAccess& access : facts.space.inputs) {
    if (facts.is_full(access.value)) out.read_bytes += static_cast<double>(access.element_bytes);
  }
  for (size_t i = 0; i < facts.space.outputs.size(); ++i) {
    if (covers_all(facts, i))
      out.written_bytes += static_cast<double>(facts.space.outputs[i].element_bytes);
  }
  return out;
}

DType type_of_rows(const SegmentFacts& facts) {
  return facts.fusion.values[facts.space.contraction->rows.value].type;
}

/// What combines the elements of the contraction: matrix instructions, where there are any.
program::Unit unit_of(const SegmentFacts& facts) {
  const ContractOp& op = contract_op(facts);
  const DType columns = facts.fusion.values[facts.space.contraction->columns.value].type;
  const bool has_matrices = op.fn == ContractFn::kSum &&
                            has_matrix_instruction(type_of_rows(facts), op.precision) &&
                            has_matrix_instruction(columns, op.precision);
  return has_matrices ? program::Unit::kMatrix : program::Unit::kLane;
}

bool is_f8(DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; }

/// True if an operand of the contraction is f8.
bool has_f8(const SegmentFacts& facts) {
  const ContractedSpace& contraction = *facts.space.contraction;
  return is_f8(facts.fusion.values[contraction.rows.value].type) ||
         is_f8(facts.fusion.values[contraction.columns.value].type);
}

/// True if matrix instructions multiply f32 in two parts: warp groups by a program::Split.
bool splits_stages(const SegmentFacts& facts) {
  return unit_of(facts) == program::Unit::kMatrix &&
         contract_op(facts).precision == ContractPrecision::kTf32x3;
}

/// Steps of warp groups along the contracted axis, whose left operand they split.
double split_steps(const SegmentFacts& facts) {
  const ContractedSpace& contraction = *facts.space.contraction;
  constexpr int64_t kStepBytes = 2 * program::kChunkBytes;
  return std::ceil(static_cast<double>(contraction.contracted() * contraction.rows.element_bytes) /
                   static_cast<double>(kStepBytes));
}

/// True if a block's tile, or those of a cluster, have all columns. The operand of the rows is then
/// read by one tile only. Otherwise the other operand is, where a tile has all rows.
bool has_all_columns(const SegmentFacts& facts, const Schedule& schedule) {
  const auto& own = std::get<MatmulParameters>(schedule.parameters);
  return own.cluster_size > 1 || facts.space.columns <= own.tile_columns;
}

/// Checks what schedules need whose rows are evaluated beside the products.
std::optional<Rejection> check_epilogue(const SegmentFacts& facts, const Schedule& schedule) {
  const auto& own = std::get<MatmulParameters>(schedule.parameters);
  const auto broken = [&](std::string rule, int64_t value, int64_t limit, std::string unit,
                          std::string remedy) {
    return rejected(schedule, std::move(rule), value, limit, std::move(unit), std::move(remedy));
  };
  if (splits_stages(facts))
    return broken("the warps beside the producer split stages into TF32 parts", own.epilogue_warps,
                  0, "warps", "use epilogue_warps 0, or another precision than tf32x3");
  if (own.epilogue_warps < 1 || own.epilogue_warps > kMostEpilogueWarps)
    return broken("the warps of an epilogue are those beside the producer's in two warp groups",
                  own.epilogue_warps, kMostEpilogueWarps, "warps", "use 1 to 7 epilogue_warps");
  if (schedule.rows_per_block != 1)
    return broken("warp groups that take turns evaluate their own tiles", schedule.rows_per_block,
                  1, "tiles", "use rows_per_block 1, or epilogue_warps 0");
  const int64_t chunk =
      program::kChunkBytes / bytes_of(facts.fusion.values[handed_value(facts)].type);
  // The size of the cluster is checked later.
  const int64_t chunks = chunk * std::max<int64_t>(own.cluster_size, 1);
  if (facts.space.columns % chunks != 0)
    return broken("lanes take whole chunks of a row", facts.space.columns, chunks, "columns",
                  "use epilogue_warps 0");
  return std::nullopt;
}

/// Checks what schedules of a producer and warp groups need besides.
std::optional<Rejection> check_groups(const SegmentFacts& facts, const Schedule& schedule,
                                      const DeviceLimits& limits) {
  const auto& own = std::get<MatmulParameters>(schedule.parameters);
  const auto broken = [&](std::string rule, int64_t value, int64_t limit, std::string unit,
                          std::string remedy) {
    return rejected(schedule, std::move(rule), value, limit, std::move(unit), std::move(remedy));
  };
  if (!limits.has_wgmma || !limits.has_setmaxnreg || !limits.has_bulk_copy)
    return broken("the device has no matrix instructions of warp groups", limits.compute_major, 9,
                  "compute capability", "use consumer_registers 0 and persistent_blocks 0");
  if (own.epilogue_warps != 0) {
    if (auto rejection = check_epilogue(facts, schedule)) return rejection;
  }
  const int64_t threads = schedule.threads_per_block();
  constexpr int64_t kWarpsOfGroup = kWarpGroup / kWarp;
  if (schedule.threads_per_row % kWarpGroup != 0 || own.row_warps % kWarpsOfGroup != 0)
    return broken("a warp group has four warps, which share its rows", own.row_warps, kWarpsOfGroup,
                  "warps", "use a multiple of 128 threads, and of 4 row_warps");
  const GroupRegisters producer = producer_registers(facts, own);
  if (threads + producer.threads > limits.threads_per_block)
    return broken("a block has no threads left for the producer", threads,
                  limits.threads_per_block - producer.threads, "threads", "use fewer threads");
  // Nobody can keep more registers than the launch gives (ptxas 13.0, error C7406).
  const int64_t launched =
      register_cap(limits, threads + producer.threads, schedule.min_blocks_per_sm);
  if (producer.kept > launched)
    return broken("the launch leaves fewer registers than the producer's warp groups keep",
                  launched, producer.kept, "registers",
                  "use fewer threads, or promise fewer blocks");
  if (own.consumer_registers < producer.kept)
    return broken("warp groups that multiply have fewer registers than the producer's keep",
                  own.consumer_registers, producer.kept, "registers",
                  "use more consumer_registers");
  const int64_t most = raised_register_cap(limits, threads, producer.threads, producer.kept,
                                           schedule.min_blocks_per_sm);
  if (own.consumer_registers % kPassedRegisters != 0 || own.consumer_registers > most) {
    Rejection rejection = broken("warp groups ask for more registers than the producer leaves",
                                 own.consumer_registers, most, "registers",
                                 "use fewer threads, or promise fewer blocks");
    rejection.at = largest_tensor(facts, schedule);
    return rejection;
  }
  if (unit_of(facts) != program::Unit::kMatrix)
    return broken("matrix instructions compute sums of products of 16- and 8-bit elements",
                  facts.space.contraction->rows.element_bytes, 2, "bytes",
                  "use consumer_registers 0 and persistent_blocks 0");
  if (has_f8(facts))
    return broken("matrix instructions of warp groups sum 8-bit floats with fewer bits than f32", 1,
                  2, "bytes", "use consumer_registers 0 and persistent_blocks 0");
  if (own.cluster_size != 1) {
    if (!facts.has_reduction())
      return broken("clusters share rows that are reduced", own.cluster_size, 1, "blocks",
                    "use cluster_size 1");
    if (!is_power_of_two(own.cluster_size) || own.cluster_size > limits.most_cluster_blocks)
      return broken("a cluster has a power of two of blocks", own.cluster_size,
                    limits.most_cluster_blocks, "blocks", "use a smaller cluster_size");
    if (facts.space.columns % (2 * own.cluster_size) != 0)
      return broken("the blocks of a cluster share the columns evenly",
                    facts.space.columns % (2 * own.cluster_size), 0, "columns left over",
                    "use a smaller cluster_size");
  }
  if (facts.space.contraction->contracted() == 0)
    return broken("a tensor map has no empty axis", 0, 1, "elements",
                  "use consumer_registers 0 and persistent_blocks 0");
  for (const bool of_rows : {true, false}) {
    if (auto map = program::operand_map(facts, of_rows, kName); !map) return map.error();
  }
  return std::nullopt;
}

/// Checks what schedules need besides whose warps take parts of the contracted axis in turns.
std::optional<Rejection> check_slices(const SegmentFacts& facts, const Schedule& schedule) {
  const auto& own = std::get<MatmulParameters>(schedule.parameters);
  const auto broken = [&](std::string rule, int64_t value, int64_t limit, std::string unit,
                          std::string remedy) {
    return rejected(schedule, std::move(rule), value, limit, std::move(unit), std::move(remedy));
  };
  if (own.slice_warps < 0 || own.slice_warps != schedule.threads_per_row / kWarp ||
      has_producer(own))
    return broken("all warps of a block take parts of the contracted axis, and no producer",
                  own.slice_warps, schedule.threads_per_row / kWarp, "warps",
                  "use 32 threads for each of slice_warps, and consumer_registers 0");
  if (facts.has_reduction())
    return broken("warps that merge a tile have eight columns of its rows", facts.space.columns,
                  program::MatrixShape{}.n, "columns", "use slice_warps 0");
  if (unit_of(facts) != program::Unit::kMatrix)
    return broken("lanes multiply what is in shared memory", own.slice_warps, 0, "warps",
                  "use slice_warps 0");
  const int64_t contracted = facts.space.contraction->contracted();
  constexpr int64_t kMost = int64_t{1} << 30;  // Rounds of the last warp do not overflow an i32.
  if (contracted == 0 || contracted > kMost)
    return broken("parts of the contracted axis are counted as i32, and an empty one has none",
                  contracted, kMost, "elements", "use slice_warps 0");
  for (const bool of_rows : {true, false}) {
    const program::OperandCopy copy = program::operand_copy(facts, of_rows);
    const TensorAccess& access =
        of_rows ? facts.space.contraction->rows : facts.space.contraction->columns;
    const int64_t bytes = copy.contracted_is_inner ? copy.width * access.element_bytes : 0;
    if (bytes != program::kChunkBytes) {
      Rejection rejection =
          broken("lanes load 16 bytes along the contracted axis", bytes, program::kChunkBytes,
                 "bytes", "use slice_warps 0, or a contracted axis of multiples of 16 bytes");
      rejection.at = access.value;
      return rejection;
    }
  }
  return std::nullopt;
}

std::optional<Rejection> check_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                        const DeviceLimits& limits) {
  if (auto rejection = check_vector_width(schedule)) return rejection;
  if (auto rejection = refuse_unaligned_access(schedule)) return rejection;
  if (auto rejection = check_row_access(facts, schedule)) return rejection;
  const auto broken = [&](std::string rule, int64_t value, int64_t limit, std::string unit,
                          std::string remedy) {
    return rejected(schedule, std::move(rule), value, limit, std::move(unit), std::move(remedy));
  };
  const auto& own = std::get<MatmulParameters>(schedule.parameters);
  const int64_t threads = schedule.threads_per_block();
  if (schedule.rows_per_block < 1 || schedule.threads_per_row < kWarp ||
      schedule.threads_per_row % kWarp != 0 || threads > limits.threads_per_block)
    return broken("a tile has whole warps", threads, limits.threads_per_block, "threads",
                  "use 128 or 256 threads and rows_per_block 1");
  if (schedule.rows_per_block > 1 && !has_producer(own))
    return broken("only blocks with a producer work on several tiles at once",
                  schedule.rows_per_block, 1, "tiles", "use rows_per_block 1");
  if (own.epilogue_warps != 0 && !has_producer(own))
    return broken("only blocks with a producer have warps of an epilogue", own.epilogue_warps, 0,
                  "warps", "use epilogue_warps 0, or set consumer_registers");
  if (schedule.unroll != 1 || !schedule.kept.empty())
    return broken("matmul schedules unroll nothing and keep nothing", schedule.unroll, 1, "vectors",
                  "use unroll 1 and no keep lines");
  if (own.cluster_size != 1 && !has_producer(own))
    return broken("only blocks with a producer form clusters", own.cluster_size, 1, "blocks",
                  "use cluster_size 1, or set consumer_registers");
  if ((schedule.persistent_blocks > 0) != has_producer(own))
    return broken("blocks of a producer and warp groups are persistent, and no others",
                  schedule.persistent_blocks, has_producer(own) ? 1 : 0, "blocks",
                  "set both persistent_blocks and consumer_registers, or neither");
  for (const int64_t extent : {own.tile_rows, own.tile_columns, own.tile_depth}) {
    if (extent < 1 || extent > kMostTile)
      return broken("a tile has from 1 to 256 elements along each axis", extent, kMostTile,
                    "elements", "set tile_rows, tile_columns and tile_depth");
  }
  if (own.slice_warps != 0) {
    if (auto rejection = check_slices(facts, schedule)) return rejection;
  }
  const int64_t warps = own.slice_warps > 0 ? 1 : schedule.threads_per_row / kWarp;
  if (own.row_warps < 1 || warps % own.row_warps != 0 || own.tile_rows % own.row_warps != 0 ||
      own.tile_columns % (warps / own.row_warps) != 0)
    return broken("a block's tile does not split evenly over its warps", own.row_warps, warps,
                  "warps", "use row_warps that divide the warps of a block");
  if (has_producer(own)) {
    if (auto rejection = check_groups(facts, schedule, limits)) return rejection;
  }
  constexpr int64_t kMostStages = 16;
  if (own.pipeline_stages < 2 || own.pipeline_stages > kMostStages)
    return broken("a pipeline has from 2 to 16 stages", own.pipeline_stages, kMostStages, "stages",
                  "set pipeline_stages");
  const int64_t most_blocks = std::min(limits.blocks_per_sm, limits.threads_per_sm / threads);
  if (schedule.min_blocks_per_sm < 1 || schedule.min_blocks_per_sm > most_blocks)
    return broken("more blocks per multiprocessor are promised than its threads allow, or none",
                  schedule.min_blocks_per_sm, most_blocks, "blocks", "promise fewer blocks");
  return std::nullopt;
}

/// Pairs of elements that the lanes of an SM combine per clock.
double lane_rate(const SegmentFacts& facts, const DeviceLimits& limits) {
  double rate = limits.fma_per_clock;
  // Programming Guide, "Throughput of Native Arithmetic Instructions": half as many multiply-adds
  // of 32-bit integers and maxima of f32 as multiply-adds of f32. i64 takes five instructions.
  constexpr double kIntegerRate = 0.5;
  constexpr double kWideIntegerRate = 1.0 / 8.0;
  constexpr double kMaxOfSumsRate = 1.0 / 3.0;
  const DType type = facts.fusion.values[facts.space.contraction->value].type;
  if (type == DType::kF64) rate = limits.fma64_per_clock;
  if (type == DType::kI32) rate *= kIntegerRate;
  if (type == DType::kI64) rate *= kWideIntegerRate;
  if (contract_op(facts).fn == ContractFn::kMax) rate *= kMaxOfSumsRate;
  return rate * kLaneEfficiency;
}

/// Pairs of elements that an SM combines per clock.
double product_rate(const SegmentFacts& facts, const Schedule& schedule,
                    const DeviceLimits& limits) {
  if (unit_of(facts) == program::Unit::kLane) return lane_rate(facts, limits);
  constexpr double kBytesOfRate = 2.0;
  constexpr double kProductsOfTf32x3 = 3.0;
  const auto bytes = static_cast<double>(facts.space.contraction->rows.element_bytes);
  const bool is_split = contract_op(facts).precision == ContractPrecision::kTf32x3;
  const double of_bytes = kBytesOfRate / bytes / (is_split ? kProductsOfTf32x3 : 1.0);
  if (schedule.consumer_registers() > 0) return limits.group_products_per_clock * of_bytes;
  if (has_f8(facts) && limits.compute_major == 9)
    return kF8Rate90 * limits.matrix_products_per_clock;
  return limits.matrix_products_per_clock * of_bytes;
}

/// Instructions that round an f32 operand of a matrix instruction to TF32, or split it into two.
double rounding_instructions(const SegmentFacts& facts) {
  constexpr double kOfRounding = 1.0;
  // A rounding, a difference, and a multiply-add that finds what is not finite.
  constexpr double kOfSplit = 3.0;
  switch (contract_op(facts).precision) {
    case ContractPrecision::kIeee:
      return 0.0;
    case ContractPrecision::kTf32:
      return kOfRounding;
    case ContractPrecision::kTf32x3:
      return kOfSplit;
  }
  unreachable();
}

std::optional<Rejection> check_device(const SegmentFacts& facts, const DeviceLimits& limits) {
  const int capability = limits.compute_major * 10 + limits.compute_minor;
  // PTX ISA: cp.async, and mma with .bf16, .tf32 and m16n8k16.
  constexpr int kLeastCapability = 80;
  constexpr int kLeastF8 = 89;  // mma with .e4m3 and .e5m2.
  const bool has_f8_products = has_f8(facts) && unit_of(facts) == program::Unit::kMatrix;
  const int needed = has_f8_products ? kLeastF8 : kLeastCapability;
  if (capability >= needed) return std::nullopt;
  return refused("the device has no matrix instruction for the operands' type", capability / 10.0,
                 needed / 10.0, "compute capability", facts.space.contraction->rows.value,
                 "none needed: the contraction is computed element by element");
}

}  // namespace

GroupRegisters producer_registers(const SegmentFacts& facts, const MatmulParameters& own) {
  if (splits_stages(facts)) return {kProducerThreads, kMatmulSplitRegisters};
  if (own.epilogue_warps == 0) return {kProducerThreads, kMatmulProducerRegisters};
  const int64_t threads = rounded_up((1 + own.epilogue_warps) * kWarp, kWarpGroup);
  return {threads, threads == kWarpGroup ? kMatmulEpilogueRegisters : kMatmulWideEpilogueRegisters};
}

std::optional<Rejection> refuse_matmul(const SegmentFacts& facts) {
  if (!facts.space.contraction) {
    return refused("the segment contracts nothing", 0, 1, "contractions", {},
                   "none needed: other families run it");
  }
  const ContractedSpace& contraction = *facts.space.contraction;
  if (contract_op(facts).fn == ContractFn::kLogSumExp) {
    return refused("an accumulator is one value, and logsumexp has a pair", 2, 1, "values",
                   contraction.value, "none needed: it is computed element by element");
  }
  if (static_cast<double>(contraction.contracted()) > kMostContracted) {
    return refused("the contracted axis is longer than a kernel counts",
                   static_cast<double>(contraction.contracted()), kMostContracted, "elements",
                   contraction.value, "contract parts of it, and add them");
  }
  if (facts.space.row_dimensions == facts.space.dimensions.size()) {
    return refused("the result of the contraction has no columns", 1, 2, "columns",
                   contraction.value, "none needed: it is computed as a reduction of rows");
  }
  if (facts.has_outer()) {
    return refused("rows are reduced beside a contraction, and columns are not", 1, 0, "reductions",
                   facts.fusion.ops[facts.outer_reductions.front()].results.front(),
                   "none needed where the graph may be cut: another kernel reduces");
  }
  if (facts.has_reduction() && facts.space.columns == 0 && facts.space.rows > 0) {
    return refused("a row that is reduced has no elements, and no tile of it stores the result", 0,
                   1, "columns", contraction.value, "none needed: other families run it");
  }
  if (facts.has_reduction() &&
      (facts.space.columns > kMostClusterBlocks * kMostTile || facts.space.columns % 2 != 0)) {
    return refused("a row that is reduced is even, and not longer than the tiles of a cluster",
                   static_cast<double>(facts.space.columns), kMostClusterBlocks * kMostTile,
                   "columns", contraction.value,
                   "none needed where the graph may be cut: another kernel reduces");
  }
  for (const Op& op : facts.fusion.ops) {
    if (!std::holds_alternative<TakeOp>(op.kind)) continue;
    const ValueId from = op.operands.front();
    if (facts.is_read(from) || !facts.space.dependence[from].columns) continue;
    return refused("an element of a row is gathered from what lanes have in registers", 1, 0,
                   "gathers", op.results.front(),
                   "none needed where the graph may be cut: another kernel gathers");
  }
  for (size_t i = 0; i < facts.fusion.outputs.size(); ++i) {
    // Kernels that reduce rows store values of rows.
    if (covers_all(facts, i) || (facts.has_reduction() && covers_rows(facts, i))) continue;
    if (facts.is_empty(facts.fusion.outputs[i])) continue;
    return refused("an output has fewer axes than the contraction", 0, 1, "axes",
                   facts.fusion.outputs[i],
                   "none needed where the graph may be cut: another kernel stores it");
  }
  return std::nullopt;
}

namespace {

/// What lanes keep of their rows from one reduction to the next: the values of the minimum cut that
/// the kernel computes. The others are read again.
std::vector<ValueId> kept_values(const SegmentFacts& facts) {
  std::vector<ValueId> out;
  for (const ValueId value : facts.kept) {
    if (!facts.is_read(value) && facts.is_full(value)) out.push_back(value);
  }
  return out;
}
/// Registers of a lane of an epilogue beside its part of a row.
int64_t beside_row(const SegmentFacts& facts) {
  return facts.has_reduction() ? kEpilogueRegisters : kElementRegisters;
}
/// The same of warps of an epilogue, as far as their registers hold it; they also have what was
/// handed over, from which all else is computed again. And inputs that are the same in all rows,
/// such as weights, which a lane then loads once for a tile.
std::vector<ValueId> kept_of_epilogue(const SegmentFacts& facts, const MatmulParameters& own) {
  const ValueId handed = handed_value(facts);
  const int64_t columns = std::min(own.tile_columns, facts.space.columns / own.cluster_size);
  const auto words_of = [&](ValueId value) {
    return register_words(divided_up(columns, program::kEpilogueLanes),
                          bytes_of(facts.fusion.values[value].type));
  };
  int64_t words = producer_registers(facts, own).kept - beside_row(facts) - words_of(handed);
  std::vector<ValueId> out;
  const auto keep = [&](ValueId value, int64_t most) {
    if (words_of(value) > std::min(words, most)) return false;
    words -= words_of(value);
    out.push_back(value);
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
/// 32-bit registers of a lane for a vector of all inputs that it has not kept.
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
                 register_words(vectors * chunk, handed_bytes);
  for (const ValueId value : kept)
    left -= register_words(vectors * chunk, bytes_of(facts.fusion.values[value].type));
  const int64_t most =
      facts.has_reduction() ? kMostAheadWords : std::clamp<int64_t>(left, 0, kMostElementWords);
  const int64_t ahead = std::max<int64_t>(most / std::max<int64_t>(words, 1), 1);
  return facts.has_reduction() ? ahead : std::min(ahead, vectors);
}
StageList stages_with(const SegmentFacts& facts) {
  std::vector<KeptValue> kept;
  for (const ValueId value : kept_values(facts)) kept.push_back({value, Residency::kRegister});
  return distribute(facts, kept);
}

/// The stages of rows whose elements are evaluated again from what was handed over.
StageList stages_of_epilogue(const SegmentFacts& facts, const MatmulParameters& own) {
  std::vector<KeptValue> kept;
  for (const ValueId value : kept_of_epilogue(facts, own))
    kept.push_back({value, Residency::kRegister});
  return distribute(facts, kept);
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
                                                           .staged = staging()});
    body.push_back(region);
    const program::StepId blocks =
        out_.steps.push_back(program::Nest{.binding = program::Binding::kBlock,
                                           .loops = loops_of_blocks(),
                                           .group = own_.cluster_size > 1 ? 1 : kRowTilesOfGroup,
                                           .persistent_blocks = schedule_.persistent_blocks,
                                           .at_once = schedule_.rows_per_block,
                                           .cluster = own_.cluster_size,
                                           .body = std::move(body)});
    out_.body.push_back(blocks);
    if (own_.epilogue_warps > 0) {
      std::get<program::Nest>(out_.steps[region]).loops.front().step =
          kEpilogueRows * kWarp / program::epilogue_lanes(out_);
    }
    if (own_.cluster_size > 1) {
      // Iterations of the blocks alternate between two copies.
      constexpr int64_t kCopies = 2;
      const Schedule of_rows = program::row_schedule(out_);
      auto& step = std::get<program::Region>(
          out_.steps[std::get<program::Nest>(out_.steps[region]).body.front()]);
      for (const Stage& stage : stages_.stages)
        step.exchange_bytes +=
            exchange_bytes(facts_, stage, of_rows, kCopies, program::rows_together(out_));
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
    const program::StepId pipeline =
        out_.steps.push_back(program::Pipeline{.loop = {.axis = k_, .step = own_.tile_depth},
                                               .stages = own_.pipeline_stages,
                                               .slice_warps = own_.slice_warps,
                                               .copies = std::move(copies_),
                                               .body = {contract}});
    const program::StepId merge =
        out_.steps.push_back(program::Merge{.slice = slice, .through = slices, .fragment = sum});
    const program::StepId region = in_parts(program::Region{.tile = sum,
                                                            .value = contraction_.value,
                                                            .width = schedule_.vector_width,
                                                            .kept = {},
                                                            .exchange_bytes = 0,
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

program::Program matmul_program(const SegmentFacts& facts, const Schedule& schedule) {
  return ProgramBuilder(facts, schedule, stages_with(facts)).run();
}

namespace {

/// What the stages of a row do for each element, together.
Stage all_of(const StageList& list) {
  Stage out;
  for (const Stage& stage : list.stages) {
    out.issue_slots += stage.issue_slots;
    out.special_functions += stage.special_functions;
    out.live_values = std::max(out.live_values, stage.live_values);
  }
  return out;
}

/// Registers of the launch without which ptxas does not compile a product of a warp group: its
/// accumulators and 26 more, whatever setmaxnreg raises them to. Source: ptxas 13.0, error C7602
/// for 64 to 256 columns.
int64_t instruction_registers(const program::Program& program) {
  constexpr int64_t kOthers = 26;
  int64_t most = 0;
  for (const program::Step& step : program.steps) {
    const auto* contract = std::get_if<program::Contract>(&step);
    if (contract == nullptr) continue;
    const program::MatrixShape shape = program::matrix_shape(program, *contract);
    most = std::max(most, shape.m * shape.n / kWarpGroup);
  }
  return most + kOthers;
}

/// Elements that a lane of an epilogue has of a row of the tile.
int64_t elements_of_lane(const SegmentFacts& facts, const program::Program& program,
                         const program::Region& region) {
  // Where rows are reduced, the tile may be wider than the row.
  if (region.holds_rows) return elements_per_thread(facts, program::row_schedule(program));
  return program::epilogue_vectors(program) * region.width;
}

/// 32-bit registers of a lane of an epilogue that hold its part of a row: what it loads of the
/// tile, what it keeps and, where it evaluates elements alone, what it loads of other inputs.
int64_t epilogue_words(const SegmentFacts& facts, const program::Program& program) {
  int64_t words = 0;
  for (const program::Step& step : program.steps) {
    const auto* region = std::get_if<program::Region>(&step);
    if (region == nullptr) continue;
    const int64_t elements =
        program::rows_together(program) * elements_of_lane(facts, program, *region);
    words += register_words(elements, bytes_of(facts.fusion.values[region->value].type));
    for (const ValueId value : region->kept)
      words += register_words(elements, bytes_of(facts.fusion.values[value].type));
    if (!region->holds_rows)
      words += region->ahead * words_of_vector(facts, region->kept, region->width);
  }
  return words;
}

/// `stage` is what its stages do, all_of() them.
tl::expected<ResourceEstimate, Rejection> estimate_program(const SegmentFacts& facts,
                                                           const Schedule& schedule,
                                                           const program::Program& program,
                                                           const Stage& stage,
                                                           const DeviceLimits& limits) {
  if (auto rejection = program::check(program, kName))
    return tl::make_unexpected(with_tensor(*rejection, facts, schedule));
  ResourceEstimate estimate;
  estimate.threads = program.threads + (program.producer ? program.producer->threads : 0);
  estimate.tile_registers = program::fragment_words(program);
  estimate.registers =
      kBaseRegisters + estimate.tile_registers + program::copy_words(program) + stage.live_values;
  if (const auto* pipeline = program::step_of<program::Pipeline>(program);
      pipeline->slice_warps > 0) {
    estimate.registers += kSliceRegisters + (has_f8(facts) ? kF8SliceRegisters : 0) +
                          (program::has_whole_turns(program, *pipeline) ? 0 : kCutTurnRegisters);
  }
  if (estimate.tile_registers > limits.registers_per_thread) {
    Rejection rejection =
        rejected(schedule, "a thread's fragments exceed its registers", estimate.tile_registers,
                 limits.registers_per_thread, "registers", "use a smaller tile, or more warps");
    rejection.at = largest_tensor(facts, schedule);
    return tl::make_unexpected(std::move(rejection));
  }
  estimate.shared_bytes = program::shared_bytes(program);
  estimate.blocks = program::block_count(program);
  if (program.producer) {
    // The kernel starts with the registers of the launch, and warp groups then ask for more.
    const int64_t needed = estimate.registers;
    const int64_t raised = program.producer->consumer_registers;
    const int64_t launched = register_cap(limits, estimate.threads, schedule.min_blocks_per_sm);
    if (const int64_t least = instruction_registers(program); least > launched) {
      return tl::make_unexpected(with_tensor(
          rejected(schedule, "the launch leaves fewer registers than a matrix instruction takes",
                   launched, least, "registers", "use narrower tiles, or promise fewer blocks"),
          facts, schedule));
    }
    if (program::step_of<program::Handover>(program) != nullptr) {
      const int64_t words = epilogue_words(facts, program) + beside_row(facts);
      if (words > program.producer->registers) {
        return tl::make_unexpected(with_tensor(
            rejected(schedule, "a lane of an epilogue keeps more of a row than its registers hold",
                     words, program.producer->registers, "registers",
                     "use more blocks of a cluster, or epilogue_warps 0"),
            facts, schedule));
      }
    }
    estimate.registers = std::min(needed, launched);
    complete(estimate, limits, schedule.min_blocks_per_sm, program::cluster_size(program));
    estimate.registers = needed;
    estimate.register_cap = raised;
    estimate.spilled_registers = std::max<int64_t>(0, needed - raised);
  } else {
    complete(estimate, limits, schedule.min_blocks_per_sm);
  }
  estimate.bytes_in_flight_per_sm =
      program::traffic(program).outstanding_bytes * static_cast<double>(estimate.blocks_per_sm);
  if (auto rejection = over_budget(facts, schedule, estimate, limits))
    return tl::make_unexpected(*rejection);
  return estimate;
}

/// Clocks in which an SM stores the outputs of a block's tile.
double store_clocks(const SegmentFacts& facts, const program::Program& program,
                    const MatmulParameters& own) {
  const auto tile = static_cast<double>(own.tile_rows * own.tile_columns);
  // Accesses of a lane, with those that have nothing to store, over those that have.
  std::vector<double> staged(facts.fusion.outputs.size());
  for (const program::Step& step : program.steps) {
    if (const auto* region = std::get_if<program::Region>(&step)) {
      for (const program::Staging& staging : region->staged) {
        const int64_t columns = std::min(program.tiles[region->tile].columns.extent,
                                         program.tiles[staging.tile].columns.extent);
        const int64_t accesses = program.tiles[staging.tile].rows.extent * columns / staging.width;
        const int64_t of_lane = divided_up(accesses, kWarp);
        const int64_t begun = of_lane > program::kStoresTogether
                                  ? rounded_up(of_lane, program::kStoresTogether)
                                  : of_lane;
        staged[staging.output] = static_cast<double>(begun * kWarp) / static_cast<double>(accesses);
      }
    }
  }
  double clocks = 0.0;
  for (size_t i = 0; i < staged.size(); ++i) {
    // A value of a row is one store among hundreds.
    if (!covers_all(facts, i)) continue;
    const auto bytes = static_cast<double>(facts.space.outputs[i].element_bytes);
    constexpr double kIssuePerClock = 4.0;
    clocks += tile * (staged[i] > 0.0 ? staged[i] * (kPassesOfStaged * bytes / kBytesOfPass +
                                                     kInstructionsOfStaged / kWarp / kIssuePerClock)
                                      : kLinesOfStore / kElementsOfStore / kStoreLinesPerClock);
  }
  return clocks;
}

/// Random numbers of an element.
double random_numbers(const SegmentFacts& facts) {
  return static_cast<double>(std::ranges::count_if(facts.fusion.ops, [&](const Op& op) {
    const auto* pointwise = std::get_if<PointwiseOp>(&op.kind);
    return pointwise != nullptr && pointwise->fn == PointwiseFn::kPhiloxUniform &&
           facts.is_tile(op.results.front());
  }));
}

/// Clocks of an SM for what follows the products of an element, without its stores.
double evaluation_clocks(const SegmentFacts& facts, const Stage& stage) {
  constexpr double kLanesPerClock = 128.0;
  const auto inputs = static_cast<double>(std::ranges::count_if(
      facts.space.inputs, [&](const TensorAccess& access) { return facts.is_full(access.value); }));
  const double numbers = random_numbers(facts);
  const double slots =
      stage.issue_slots - numbers * issue_slots_of(PointwiseOp{PointwiseFn::kPhiloxUniform});
  return kEpilogueIssue * slots / kLanesPerClock +
         kEpilogueSpecialClocks * stage.special_functions + kEpilogueLoadClocks * inputs +
         kEpiloguePhiloxClocks * numbers;
}

/// What products_time() starts from, of an SM.
struct ProductTimes {
  double of_sm;      ///< Tiles.
  double steps;      ///< Of the pipeline, for each tile.
  double matrix_us;  ///< Of the products of all tiles, or of their stages where those take longer.
  double shared_us;  ///< Of what all tiles read and write in shared memory.
  double evaluate_us;  ///< Of what follows from the products of one tile, stores included.
};

/// Time of the warps of an epilogue for a tile. Its stages exchange what they reduce.
double epilogue_time(const SegmentFacts& facts, const program::Program& program,
                     const StageList& list, const DeviceLimits& limits) {
  const Schedule of_rows = program::row_schedule(program);
  const program::Handover& handover = *program::step_of<program::Handover>(program);
  const auto together = program::rows_together(program);
  const int64_t rows = together * kWarp / of_rows.threads_per_row;
  const int64_t iterations = program.tiles[handover.tile].rows.extent / rows;
  const auto rounds = static_cast<double>(divided_up(iterations, program.producer->epilogue_warps));
  const auto& region = *program::step_of<program::Region>(program);
  const auto elements = static_cast<double>(together * elements_of_lane(facts, program, region));
  double clocks = region.holds_rows ? kEpilogueIterationClocks : kElementIterationClocks;
  double slots = 0.0;
  double sent_for_row = 0.0;  // Stores to other blocks.
  for (const Stage& stage : list.stages) {
    slots += stage.issue_slots;
    clocks += elements * (kEpilogueInstructionClocks * stage.issue_slots +
                          kEpilogueFunctionClocks * stage.special_functions);
    const int64_t threads = of_rows.threads_per_row * of_rows.cluster_size();
    for (const OpId id : stage.reductions) {
      clocks += kEpilogueStepClocks * std::log2(static_cast<double>(threads)) *
                traits_of(facts.fusion.ops[id].kind).exchange_latency;
      if (of_rows.cluster_size() > 1)
        sent_for_row += static_cast<double>(stores_of_tuple(facts.fusion, facts.fusion.ops[id]) *
                                            of_rows.cluster_size());
    }
    if (!stage.reductions.empty() && of_rows.cluster_size() > 1) clocks += kEpilogueExchangeClocks;
    const bool reads_rows = std::ranges::any_of(
        stage.loads, [&](ValueId value) { return facts.space.dependence[value].rows; });
    // What is not loaded together is waited for one after the other.
    const int64_t waits =
        region.holds_rows ? 1 : divided_up(program::epilogue_vectors(program), region.ahead);
    if (reads_rows) clocks += kEpilogueReadClocks * static_cast<double>(waits);
  }
  // Elements that are not adjacent along a row are loaded and stored one by one, which touches a
  // line for each lane of a row.
  const int64_t columns =
      std::min(columns_per_block(facts, of_rows),
               elements_of_lane(facts, program, region) * of_rows.threads_per_row);
  const auto of_tile = static_cast<double>(program.tiles[handover.tile].rows.extent * columns);
  const auto lanes = static_cast<double>(of_rows.threads_per_row);
  double lines = 0.0;
  const auto add = [&](const TensorAccess& access) {
    if (access_kind(facts, access, of_rows) == AccessKind::kElement)
      lines += of_tile / static_cast<double>(kWarp) * lanes;
  };
  for (const TensorAccess& access : facts.space.inputs) {
    if (facts.is_full(access.value)) add(access);
  }
  for (size_t i = 0; i < facts.space.outputs.size(); ++i) {
    if (covers_all(facts, i)) add(facts.space.outputs[i]);
  }
  const double sent = sent_for_row * static_cast<double>(program.tiles[handover.tile].rows.extent);
  const double numbers = random_numbers(facts);
  slots -= numbers * issue_slots_of(PointwiseOp{PointwiseFn::kPhiloxUniform});
  const double issue =
      region.holds_rows
          ? 0.0
          : of_tile * (slots / kWarp / kEpilogueIssuePerClock + kEpiloguePhiloxClocks * numbers);
  return (std::max(rounds * clocks, issue) + sent * kRemoteStoreClocks +
          lines / kStoreLinesPerClock) /
         limits.clock_mhz;
}

/// Time of an SM for the products of warp groups and what follows from them. The producer loads in
/// the meantime.
double products_time(const ProductTimes& times, const program::Program& program,
                     const MatmulParameters& own, const DeviceLimits& limits) {
  const double clocks_per_us = limits.clock_mhz;
  const int64_t at_once = program::tiles_at_once(program);
  const double evaluate_us = times.evaluate_us;
  if (own.epilogue_warps > 0) {
    // Rows are evaluated while the next tile is multiplied, those of the last tile after it.
    const program::Handover& handover = *program::step_of<program::Handover>(program);
    const program::Tile& sum = program.tiles[handover.fragment];
    const program::MatrixShape shape =
        program::matrix_shape(program, *program::step_of<program::Contract>(program));
    // Several instructions of a step read the same operand once more.
    const bool is_narrow =
        shape.n <= kNarrowColumns && sum.rows.extent * sum.columns.extent > shape.m * shape.n;
    const auto handed = static_cast<double>(own.tile_rows * own.tile_columns);
    const double products_us =
        std::max((is_narrow ? kNarrowInstructions : 1.0) * times.matrix_us, times.shared_us);
    const double tile_us =
        products_us / times.of_sm + (kHandoverClocks + handed / kHandoverElements) / clocks_per_us;
    return times.of_sm * std::max(tile_us, evaluate_us) + evaluate_us;
  }
  const double turn_us = kTurnClocks / clocks_per_us;
  const double exchange_us = own.cluster_size > 1 ? kExchangeClocks / clocks_per_us : 0.0;
  if (at_once == 1) return times.matrix_us + times.of_sm * (evaluate_us + turn_us + exchange_us);
  // The parts of the block are in turns in their products, and behind them beside the products of
  // others. A tile has as many fewer warps behind its products as the block has parts.
  const auto parts = static_cast<double>(at_once);
  const double tile_us =
      std::max(times.matrix_us / times.of_sm, times.steps * kTurnedStepClocks / clocks_per_us);
  const double behind_us = kBesideProducts * (parts * evaluate_us + turn_us) +
                           exchange_us * static_cast<double>(own.cluster_size) / parts;
  return std::max(times.of_sm * tile_us, std::ceil(times.of_sm / parts) * (tile_us + behind_us)) +
         behind_us;
}

/// Memory time of blocks whose warps load straight into registers, as a multiple of that at the
/// full rate. Little's law, both limits joined as a 2-norm: what is on its way arrives once in a
/// latency of loaded memory. The last wave of blocks has less on its way.
double slowdown_of_waves(double blocks, double beside, double in_flight,
                         const DeviceLimits& limits) {
  const double waves = blocks / (beside * static_cast<double>(limits.sm_count));
  const double full = std::floor(waves);
  const double rest = waves - full;
  const double needed = limits.bytes_in_flight_per_sm / in_flight;
  const double last = rest > 0.0 ? rest * std::hypot(1.0, needed / rest) : 0.0;
  return (full * std::hypot(1.0, needed) + last) / waves;
}

Prediction predict_program(const SegmentFacts& facts, const Schedule& schedule,
                           const program::Program& program, const Stage& stage,
                           const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const program::Traffic traffic = program::traffic(program);
  const auto sms = static_cast<double>(limits.sm_count);
  const auto blocks = static_cast<double>(program::tile_count(program));
  const double clocks_per_us = limits.clock_mhz;
  const Epilogue epilogue = epilogue_of(facts);
  const double elements =
      static_cast<double>(facts.space.rows) * static_cast<double>(facts.space.columns);

  const auto& own = std::get<MatmulParameters>(schedule.parameters);
  Prediction out;
  out.launch_us = constants.launch_us + constants.ramp_us + start_time(schedule, constants);
  out.memory_us = memory_time(
      limits, static_cast<double>(facts.bytes_read), static_cast<double>(facts.bytes_written),
      program.producer || own.slice_warps > 0 ? schedule.read_priority : ReadPriority::kNormal);
  if (blocks <= 0.0) {
    out.total_us = out.launch_us + out.memory_us;
    return out;
  }
  // The SM with most blocks decides when the kernel ends.
  const double of_sm = program.producer ? std::ceil(blocks / static_cast<double>(estimate.blocks))
                                        : std::ceil(blocks / sms);
  const double busy = blocks / of_sm;
  const double beside = std::min(static_cast<double>(estimate.blocks_per_sm), of_sm);
  // Little's law: what is on its way arrives once in a latency of loaded memory. Both limits join
  // as a 2-norm.
  const double in_flight = std::max(traffic.outstanding_bytes * beside, 1.0);
  out.memory_us *= own.slice_warps > 0 ? slowdown_of_waves(blocks, beside, in_flight, limits)
                                       : std::hypot(1.0, limits.bytes_in_flight_per_sm / in_flight);
  // Few SMs do not reach the rate of memory: 64 of an H200 take 60 us for 117 MB, 128 take 42 us.
  out.memory_us = std::max(out.memory_us, static_cast<double>(facts.bytes_read) /
                                              (limits.l2_bytes_per_clock * clocks_per_us * busy));
  const double products_per_clock = product_rate(facts, schedule, limits);
  const double shared_bytes = traffic.copied_bytes + traffic.shared_read_bytes;
  out.matrix_us = traffic.products / (products_per_clock * clocks_per_us * busy);
  out.l2_us = l2_read_time(
      limits, traffic.copied_bytes + elements * (epilogue.read_bytes + epilogue.written_bytes),
      busy);
  out.shared_us = shared_bytes / (limits.shared_bytes_per_clock * clocks_per_us * busy);
  constexpr double kInstructionsOfCopy = 4.0;
  // With its share of the loads of operands.
  constexpr double kInstructionsOfProduct = 2.0;
  constexpr double kInstructionsOfLane = 1.125;
  const double of_product =
      unit_of(facts) == program::Unit::kLane ? kInstructionsOfLane : kInstructionsOfProduct;
  const double instructions =
      static_cast<double>(kWarp) * traffic.matrix_instructions * of_product +
      rounding_instructions(facts) *
          (program.producer ? traffic.copied_bytes : traffic.shared_read_bytes) / kRegisterBytes +
      traffic.copied_accesses * kInstructionsOfCopy +
      elements * evaluation_clocks(facts, stage) * kWarp * limits.issue_per_clock;
  out.issue_us = issue_time(instructions, limits, busy);
  // A warp splits the operands of products before it starts them, and their registers leave room
  // for few warps that multiply meanwhile: (1024, 1024, 1024) takes 73 us and (2048, 512, 2048) 125
  // on an H200, where products and instructions take as long each.
  const bool splits = splits_stages(facts) && !program.producer;
  const double products_us = out.matrix_us + (splits ? out.issue_us : 0.0);
  const double computed_us = std::max({products_us, out.l2_us, out.shared_us, out.issue_us});
  // In each step a block waits; the other blocks of the SM compute in the meantime, and copies are
  // on their way. The first stage of a block, its last stores, and the epilogue between them are
  // not hidden.
  const double steps = std::ceil(static_cast<double>(facts.space.contraction->contracted()) /
                                 static_cast<double>(own.tile_depth));
  const double step_clocks = steps <= 0.0 ? 0.0
                                          : std::max(traffic.products / products_per_clock,
                                                     shared_bytes / limits.shared_bytes_per_clock) /
                                                (blocks * steps);
  const double waits_us =
      steps * std::max(0.0, kStepClocks - (beside - 1.0) * step_clocks) / clocks_per_us;
  const double stores_us = store_clocks(facts, program, own) / clocks_per_us;
  if (program.producer) {
    if (splits_stages(facts)) {
      out.matrix_us =
          std::hypot(out.matrix_us, of_sm * split_steps(facts) * kSplitStepClocks / clocks_per_us);
    }
    out.l2_us = traffic.copied_bytes / (kTensorCopyBytes * clocks_per_us * busy);
    // As fast as stages come in that few of them can be on their way.
    const double of_stage =
        kTensorCopyLatency + traffic.copied_bytes / (blocks * steps) / kTensorCopyBytes;
    const double stages_us =
        of_sm * steps * of_stage / static_cast<double>(own.pipeline_stages - 1) / clocks_per_us;
    const double bound_us = std::max({out.matrix_us, out.memory_us, out.l2_us, out.shared_us});
    // What the SM with most tiles takes beyond that is not hidden.
    const auto tile = static_cast<double>(own.tile_rows * own.tile_columns);
    const double tiles_us = products_time(
        {.of_sm = of_sm,
         .steps = steps,
         .matrix_us = std::max(out.matrix_us, stages_us),
         .shared_us = out.shared_us,
         .evaluate_us = own.epilogue_warps > 0
                            ? epilogue_time(facts, program, stages_of_epilogue(facts, own), limits)
                            : stores_us + tile * evaluation_clocks(facts, stage) / clocks_per_us},
        program, own, limits);
    out.block_latency_us = 2.0 * constants.memory_wait_ns / 1000.0;
    out.exposed_us = out.block_latency_us + std::max(0.0, tiles_us - bound_us);
    out.total_us = out.launch_us + out.block_latency_us + std::max(tiles_us, bound_us);
    return out;
  }
  if (own.slice_warps > 0) {
    // While one block merges its slices and the next one begins, others of the SM load.
    out.block_latency_us = 2.0 * constants.memory_wait_ns / 1000.0;
    const double exposed = beside > 1.0 ? 1.0 : of_sm;
    out.exposed_us = exposed * out.block_latency_us;
    out.total_us = out.launch_us + std::max(out.memory_us, computed_us) + out.exposed_us;
    return out;
  }
  out.block_latency_us = waits_us + stores_us + 2.0 * constants.memory_wait_ns / 1000.0;
  const double rounds = std::ceil(of_sm / beside);
  const double bound_us = std::max(out.memory_us, computed_us);
  const double steps_us = std::max(out.memory_us, computed_us + rounds * waits_us);
  out.exposed_us = rounds * (out.block_latency_us - waits_us) + steps_us - bound_us;
  out.total_us = out.launch_us + bound_us + out.exposed_us;
  return out;
}

}  // namespace

tl::expected<ResourceEstimate, Rejection> estimate_matmul(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const DeviceLimits& limits) {
  if (auto rejection = refuse_matmul(facts)) return tl::make_unexpected(*rejection);
  if (auto rejection = check_device(facts, limits)) return tl::make_unexpected(*rejection);
  if (auto rejection = check_schedule(facts, schedule, limits))
    return tl::make_unexpected(with_tensor(*rejection, facts, schedule));
  const StageList stages = stages_with(facts);
  return estimate_program(facts, schedule, ProgramBuilder(facts, schedule, stages).run(),
                          all_of(stages), limits);
}

Prediction predict_matmul(const SegmentFacts& facts, const Schedule& schedule,
                          const ResourceEstimate& estimate, const DeviceLimits& limits) {
  const StageList stages = stages_with(facts);
  return predict_program(facts, schedule, ProgramBuilder(facts, schedule, stages).run(),
                         all_of(stages), estimate, limits);
}

namespace {

/// Builds the schedules that a segment is offered.
class Proposer {
 public:
  Proposer(const SegmentFacts& facts, const DeviceLimits& limits)
      : facts_(facts), limits_(limits), stages_(stages_with(facts)), stage_(all_of(stages_)) {
    const ContractedSpace& contraction = *facts.space.contraction;
    for (size_t i = contraction.batch_dimensions; i < facts.space.row_dimensions; ++i)
      rows_ *= facts.space.dimensions[i].size;
  }

  Proposal run() {
    const std::span<const BlockTile> shapes =
        facts_.has_reduction() ? std::span<const BlockTile>(kRowTiles) : kBlockTiles;
    for (const BlockTile& shape : shapes) {
      if (is_wasteful(shape)) continue;
      for (const int64_t depth_bytes : {64, 128, 256, 512}) {
        // Deeper tiles bring in more bytes at once, which few rows need.
        if (depth_bytes > 128 && shape.tile_rows > 16) continue;
        for (const int64_t stages : {3, 4, 6}) offer(schedule_of(shape, depth_bytes, stages));
      }
    }
    if (limits_.has_wgmma) offer_groups();
    offer_slices();
    if (proposal_.candidates.empty() && nearest_) proposal_.rejections.push_back(*nearest_);
    return std::move(proposal_);
  }

 private:
  /// A tile of twice the rows or columns computes as much for nothing.
  [[nodiscard]] bool is_wasteful(const BlockTile& shape) const {
    return (shape.tile_rows > 16 && shape.tile_rows >= 2 * rows_) ||
           (shape.tile_columns > 32 && shape.tile_columns >= 2 * facts_.space.columns);
  }

  [[nodiscard]] Schedule schedule_of(const BlockTile& shape, int64_t depth_bytes,
                                     int64_t stages) const {
    const int64_t operand_bytes = facts_.space.contraction->rows.element_bytes;
    return {.family = std::string(kName),
            .parameters = MatmulParameters{.tile_rows = shape.tile_rows,
                                           .tile_columns = shape.tile_columns,
                                           .tile_depth = depth_bytes / operand_bytes,
                                           .row_warps = shape.row_warps,
                                           .pipeline_stages = stages},
            .threads_per_row = kWarp * shape.row_warps * shape.column_warps,
            .rows_per_block = 1,
            .vector_width = facts_.space.columns % 2 == 0 ? 2 : 1,
            .unroll = 1,
            .min_blocks_per_sm = 1};
  }

  /// Schedules of a producer and warp groups, with as many stages as fit or one less.
  void offer_groups() {
    for (const BlockTile& shape : kGroupTiles) {
      if (shape.tile_rows > 64 && is_wasteful(shape)) continue;
      for (const int64_t cluster : cluster_sizes(shape)) {
        offer_group(shape, cluster, 1, 0);
        if (splits_stages(facts_)) {
          offer_group(shape, cluster, 1, 0, program::kLineBytes / 2);
          continue;
        }
        if (!facts_.has_reduction()) {
          offer_epilogues(shape);
          continue;
        }
        offer_group(shape, cluster, 1, kMostEpilogueWarps);
        // Where one block reads all of its rows from memory, shorter stages leave more on its way.
        if (cluster == 1)
          offer_group(shape, cluster, 1, kMostEpilogueWarps, program::kLineBytes / 2);
      }
    }
    // One warp group that splits its operand leaves the tensor cores idle meanwhile: (1024, 1024,
    // 1024) takes 33.2 us by tiles of 64 x 128, and 30.0 by two warp groups' of 128 x 64 (H200).
    if (splits_stages(facts_)) return;
    if (facts_.has_reduction()) {
      for (const BlockTile& shape : kRowGroupTiles) {
        for (const int64_t cluster : cluster_sizes(shape)) offer_group(shape, cluster, 1, 0);
      }
    }
    for (const BlockTile& shape : kTilesInTurns) {
      if (shape.tile_rows > 64 && is_wasteful(shape)) continue;
      for (const int64_t cluster : cluster_sizes(shape)) offer_group(shape, cluster, 2, 0);
    }
  }

  /// Warps beside the producer store what the warp groups have multiplied. A block with one tile
  /// has nothing to multiply meanwhile. Tiles of 256 x 128 take longer than those of 128 x 256, and
  /// smaller ones leave shared memory no time (docs/experiments/epilogue_warps.md).
  void offer_epilogues(const BlockTile& shape) {
    constexpr int64_t kRows = 128;
    constexpr int64_t kWidest = 256;
    const int64_t batches = rows_ > 0 ? facts_.space.rows / rows_ : 0;
    const int64_t tiles = batches * divided_up(rows_, shape.tile_rows) *
                          divided_up(facts_.space.columns, shape.tile_columns);
    if (tiles <= limits_.sm_count || shape.column_warps > 1 || shape.tile_rows != kRows ||
        shape.tile_columns < kRows || !is_power_of_two(shape.tile_columns))
      return;
    offer_group(shape, 1, 1, kMostEpilogueWarps);
    // Few warps leave the registers of the widest instruction.
    if (shape.tile_columns == kWidest) offer_group(shape, 1, 1, kFewEpilogueWarps);
  }

  /// What one tile reads need not stay in L2.
  [[nodiscard]] ReadPriority priority_of_one_tile() const {
    return read_priority(facts_, limits_) == ReadPriority::kEvictFirst ? ReadPriority::kEvictFirst
                                                                       : ReadPriority::kNormal;
  }

  /// Few rows, whose weights take all of the time. Enough loads of a warp are on their way at once,
  /// and blocks on each SM that load while others merge.
  void offer_slices() {
    if (rows_ > program::kFragmentRows || facts_.has_reduction()) return;
    constexpr int64_t kThreadsOfSm = 512;
    for (const auto& [columns, stages] : {std::pair{8, 8}, {8, 6}, {8, 4}, {16, 3}}) {
      for (const int64_t warps : {4, 8}) {
        Schedule schedule = schedule_of({.tile_rows = program::kFragmentRows,
                                         .tile_columns = columns,
                                         .row_warps = 1,
                                         .column_warps = warps},
                                        program::kLineBytes, stages);
        std::get<MatmulParameters>(schedule.parameters).slice_warps = warps;
        schedule.min_blocks_per_sm = kThreadsOfSm / (warps * kWarp);
        schedule.read_priority = priority_of_one_tile();
        offer(std::move(schedule));
      }
    }
  }

  /// Blocks that share the columns: one, or as many as rows that are reduced take, or twice as
  /// many.
  [[nodiscard]] std::vector<int64_t> cluster_sizes(const BlockTile& shape) const {
    if (!facts_.has_reduction() || facts_.space.columns <= shape.tile_columns) return {1};
    const auto needed = static_cast<uint64_t>(divided_up(facts_.space.columns, shape.tile_columns));
    const auto least = static_cast<int64_t>(std::bit_ceil(needed));
    return {least, 2 * least};
  }

  void offer_group(const BlockTile& shape, int64_t cluster, int64_t at_once, int64_t epilogue_warps,
                   int64_t depth_bytes = program::kLineBytes) {
    Schedule schedule = schedule_of(shape, depth_bytes, 2);
    auto& own = std::get<MatmulParameters>(schedule.parameters);
    own.cluster_size = cluster;
    own.epilogue_warps = epilogue_warps;
    schedule.rows_per_block = at_once;
    const GroupRegisters producer = producer_registers(facts_, own);
    own.consumer_registers =
        raised_register_cap(limits_, schedule.threads_per_block(), producer.threads, producer.kept,
                            schedule.min_blocks_per_sm);
    schedule.persistent_blocks =
        cluster == 1 ? limits_.sm_count : cluster_capacity(limits_, cluster, 1);
    if (schedule.persistent_blocks == 0) return;
    if (auto rejection = check_schedule(facts_, schedule, limits_)) {
      nearest_ = with_tensor(*rejection, facts_, schedule);
      return;
    }
    const program::Program program = program_of(schedule);
    schedule.persistent_blocks = std::min(schedule.persistent_blocks, program::tile_count(program));
    // Two stages and what is in shared memory beside them, then as many more as fit.
    const int64_t two_stages = program::shared_bytes(program);
    if (rows_ <= own.tile_rows || has_all_columns(facts_, schedule))
      schedule.read_priority = priority_of_one_tile();
    own.pipeline_stages = 3;
    const int64_t stage = program::shared_bytes(program_of(schedule)) - two_stages;
    const int64_t left = limits_.shared_bytes_per_block - two_stages;
    if (left < 0) return;
    const int64_t most = std::min(2 + left / stage, kMostGroupStages);
    // Stages of half the depth take their place.
    if (splits_stages(facts_) && depth_bytes == program::kLineBytes && most < kLeastSplitStages)
      return;
    for (const int64_t stages : {most, most - 1}) {
      own.pipeline_stages = stages;
      if (stages >= 2 && schedule.persistent_blocks > 0) offer(schedule);
    }
  }

  [[nodiscard]] program::Program program_of(const Schedule& schedule) const {
    return ProgramBuilder(facts_, schedule, stages_).run();
  }

  void offer(Schedule schedule) {
    if (auto rejection = check_schedule(facts_, schedule, limits_)) {
      nearest_ = with_tensor(*rejection, facts_, schedule);
      return;
    }
    const program::Program program = program_of(schedule);
    auto estimate = estimate_program(facts_, schedule, program, stage_, limits_);
    if (!estimate) {
      nearest_ = estimate.error();
      return;
    }
    if (estimate->registers > estimate->register_cap) return;
    const Prediction predicted =
        predict_program(facts_, schedule, program, stage_, *estimate, limits_);
    proposal_.candidates.push_back({std::move(schedule), *estimate, predicted});
  }

  const SegmentFacts& facts_;
  const DeviceLimits& limits_;
  const StageList stages_;
  const Stage stage_;
  int64_t rows_ = 1;  ///< Of one batch.
  Proposal proposal_;
  std::optional<Rejection> nearest_;
};

}  // namespace

Proposal propose_matmul(const SegmentFacts& facts, const DeviceLimits& limits) {
  auto rejection = refuse_matmul(facts);
  if (!rejection) rejection = check_device(facts, limits);
  if (rejection) return {.candidates = {}, .rejections = {*rejection}};
  return Proposer(facts, limits).run();
}

}  // namespace sinter
