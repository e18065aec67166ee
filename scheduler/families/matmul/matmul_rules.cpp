#include "scheduler/families/matmul/matmul_rules.h"

#include <algorithm>
#include <utility>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/families/matmul.h"
#include "scheduler/families/matmul/contraction_facts.h"
#include "scheduler/families/matmul/matmul_program.h"
#include "scheduler/families/row_rules.h"
#include "scheduler/program/operand_copy.h"
#include "scheduler/program/operand_map.h"
#include "scheduler/program/shared_layout.h"
#include "scheduler/schedule/pipeline.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {
namespace matmul {
namespace {

/// Most elements of the contracted axis, so that a counter of steps fits 31 bits.
constexpr double kMostContracted = 0x1p35;

/// Most elements of a tile along an axis.
constexpr int64_t kMostTile = kMostMatmulColumns;

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

}  // namespace

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
  if (own.exchange == ExchangeKind::kMessages) {
    if (own.cluster_size == 1 || own.epilogue_warps == 0)
      return broken("the warps of an epilogue of blocks that share rows send messages",
                    own.cluster_size == 1 ? 1 : own.epilogue_warps, own.cluster_size == 1 ? 2 : 1,
                    own.cluster_size == 1 ? "blocks" : "warps",
                    "use exchange cluster, or set cluster_size and epilogue_warps");
    constexpr int64_t kValueBytes = 4;
    for (const Stage& stage : stages_with(facts).stages) {
      for (const OpId id : stage.reductions) {
        for (const DType type : exchange_types(facts.fusion, facts.fusion.ops[id])) {
          if (const int64_t bytes = bytes_of(travel_type(type)); bytes != kValueBytes)
            return broken("a message has values of 4 bytes", bytes, kValueBytes, "bytes",
                          "use exchange cluster");
        }
      }
    }
    if (schedule.dependent_launch != DependentLaunch::kNone)
      return broken("blocks that wait for each other are launched when all others have ended", 1, 0,
                    "early launches", "use dependent_launch none");
  }
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

std::optional<Rejection> refuse(const SegmentFacts& facts) {
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
    const ValueId first = facts.fusion.ops[facts.outer_reductions.front()].results.front();
    if (facts.has_reduction()) {
      return refused("a tile is reduced along its rows or along its columns", 2, 1, "reductions",
                     first, "none needed where the graph may be cut: another kernel reduces");
    }
    if (facts.space.rows == 0 || facts.space.columns == 0) {
      return refused("a reduction over the rows has no elements, and no tile stores the result", 0,
                     1, "elements", first, "none needed: other families run it");
    }
    if (auto rejection = check_outer_reductions(facts, kName)) return rejection;
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
    // The kernel that finishes partial results stores what follows from all rows.
    if (facts.is_empty(facts.fusion.outputs[i]) || facts.is_after_rows(facts.fusion.outputs[i]))
      continue;
    return refused("an output has fewer axes than the contraction", 0, 1, "axes",
                   facts.fusion.outputs[i],
                   "none needed where the graph may be cut: another kernel stores it");
  }
  return std::nullopt;
}

}  // namespace matmul

GroupRegisters producer_registers(const SegmentFacts& facts, const MatmulParameters& own) {
  if (matmul::splits_stages(facts)) return {kProducerThreads, kMatmulSplitRegisters};
  if (own.epilogue_warps == 0) return {kProducerThreads, kMatmulProducerRegisters};
  const int64_t threads = rounded_up((1 + own.epilogue_warps) * kWarp, kWarpGroup);
  return {threads, threads == kWarpGroup ? kMatmulEpilogueRegisters : kMatmulWideEpilogueRegisters};
}

}  // namespace sinter
