#include "scheduler/families/matmul/matmul_time.h"

#include <algorithm>
#include <cmath>

#include "fusion_ir/integers.h"
#include "fusion_ir/reduction_traits.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/cost/last_block_time.h"
#include "scheduler/families/matmul/contraction_facts.h"
#include "scheduler/families/matmul/matmul_program.h"
#include "scheduler/families/matmul/matmul_resources.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter::matmul {
namespace {

// Counts. What was measured or fitted is in CostConstants::matmul.

/// Lines of L1 that the stores of an SM touch in a clock. A warp's store of pairs touches eight
/// rows.
constexpr double kStoreLinesPerClock = 1.0;
constexpr double kElementsOfStore = 64.0;
constexpr double kLinesOfStore = 8.0;
/// What is staged passes through shared memory twice before it is stored, 128 bytes a clock each.
constexpr double kPassesOfStaged = 3.0;
constexpr double kBytesOfPass = 128.0;
/// Instructions of staging an element: half of a conversion, of an address and of a store to shared
/// memory, and an eighth of those of the access that stores it.
constexpr double kInstructionsOfStaged = 4.0;
/// Columns of an instruction up to which another one of the step reads its operand again.
constexpr int64_t kNarrowColumns = 128;

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
  return rate * limits.cost.matmul.lane_efficiency;
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
    return limits.cost.matmul.f8_rate * limits.matrix_products_per_clock;
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
double evaluation_clocks(const SegmentFacts& facts, const Stage& stage,
                         const MatmulConstants& constants) {
  constexpr double kLanesPerClock = 128.0;
  const auto inputs = static_cast<double>(std::ranges::count_if(
      facts.space.inputs, [&](const TensorAccess& access) { return facts.is_full(access.value); }));
  const double numbers = random_numbers(facts);
  const double slots =
      stage.issue_slots - numbers * issue_slots_of(PointwiseOp{PointwiseFn::kPhiloxUniform});
  return constants.fragment_issue * slots / kLanesPerClock +
         constants.fragment_function_clocks * stage.special_functions +
         constants.fragment_input_clocks * inputs + constants.philox_clocks * numbers;
}

/// What products_time() starts from, of an SM.
struct ProductTimes {
  double of_sm;        ///< Tiles.
  double steps;        ///< Of the pipeline, for each tile.
  double matrix_us;    ///< Of the products of all tiles, and of the copies that they wait for.
  double shared_us;    ///< Of what all tiles read and write in shared memory.
  double evaluate_us;  ///< Of what follows from the products of one tile, stores included.
  double sending_us;   ///< Of stores to other blocks of the cluster, for each tile.
};

/// Clocks in which an SM sends what a row's reductions give to all blocks of its cluster.
double sending_clocks(const SegmentFacts& facts, const Stage& stage, int64_t cluster,
                      const MatmulConstants& constants) {
  if (cluster == 1) return 0.0;
  int64_t stores = 0;
  for (const OpId id : stage.reductions)
    stores += stores_of_tuple(facts.fusion, facts.fusion.ops[id]) * cluster;
  return static_cast<double>(stores) * constants.remote_store_clocks;
}

/// Clocks in which the warps that evaluate a tile combine what their lanes have of its columns: for
/// each of them a shuffle and a combination in each step of the tree.
double combining_clocks(const SegmentFacts& facts, const program::Program& program,
                        const MatmulParameters& own, const DeviceLimits& limits) {
  if (!facts.has_outer()) return 0.0;
  const int64_t lanes = program::row_schedule(program).threads_per_row;
  const int64_t columns =
      program.tiles[program::step_of<program::Region>(program)->tile].columns.extent / lanes;
  const double steps = std::log2(static_cast<double>(kWarp / lanes));
  constexpr double kInstructionsOfStep = 2.0;
  const int64_t column_warps =
      program.threads / program::tiles_at_once(program) / kWarp / own.row_warps;
  const int64_t warps = evaluating_warps(own) * (own.epilogue_warps > 0 ? 1 : column_warps);
  return static_cast<double>(warps * accumulator_words(facts, columns)) * kInstructionsOfStep *
         steps / limits.issue_per_clock;
}

/// Accesses that send the tuples of a stage's reductions to a block as messages, or take them.
int64_t message_accesses(const SegmentFacts& facts, const Stage& stage) {
  constexpr int64_t kPlacesOfAccess = 2;
  int64_t accesses = 0;
  for (const OpId id : stage.reductions) {
    const auto types = exchange_types(facts.fusion, facts.fusion.ops[id]);
    accesses += divided_up(places_of_tuple(types.size()), kPlacesOfAccess);
  }
  return accesses;
}

/// Time of the warps of an epilogue for a tile. Its stages exchange what they reduce.
double epilogue_time(const SegmentFacts& facts, const program::Program& program,
                     const MatmulParameters& own, const StageList& list,
                     const DeviceLimits& limits) {
  const MatmulConstants& constants = limits.cost.matmul;
  const Schedule of_rows = program::row_schedule(program);
  const program::Handover& handover = *program::step_of<program::Handover>(program);
  const auto together = program::rows_together(program);
  const int64_t rows = together * kWarp / of_rows.threads_per_row;
  const int64_t iterations = program.tiles[handover.tile].rows.extent / rows;
  const auto rounds = static_cast<double>(divided_up(iterations, program.producer->epilogue_warps));
  const auto& region = *program::step_of<program::Region>(program);
  const auto elements = static_cast<double>(together * elements_of_lane(facts, program, region));
  const bool by_messages = program::exchange_of(program) == ExchangeKind::kMessages;
  double clocks = region.holds_rows ? constants.row_iteration_clocks : 0.0;
  double slots = 0.0;
  double sending = 0.0;
  for (size_t s = 0; s < list.stages.size(); ++s) {
    const Stage& stage = list.stages[s];
    slots += stage.issue_slots;
    const int64_t threads = of_rows.threads_per_row * of_rows.cluster_size();
    for (const OpId id : stage.reductions) {
      clocks += constants.reduction_step_clocks * std::log2(static_cast<double>(threads)) *
                traits_of(facts.fusion.ops[id].kind).exchange_latency;
    }
    if (by_messages) {
      const int64_t blocks = of_rows.cluster_size();
      const auto accesses = static_cast<double>(message_accesses(facts, stage));
      sending += accesses * static_cast<double>(blocks) * constants.remote_store_clocks;
      // A lane takes those of several blocks one after the other.
      clocks += accesses * static_cast<double>(divided_up(blocks, of_rows.threads_per_row)) *
                constants.message_clocks;
    } else {
      sending += sending_clocks(facts, stage, of_rows.cluster_size(), constants);
    }
    const bool reads_rows = std::ranges::any_of(
        stage.loads, [&](ValueId value) { return facts.space.dependence[value].rows; });
    // What is not loaded together is waited for one after the other. Before rows are sent they are
    // read apart from what follows.
    const int64_t waits = region.holds_rows
                              ? (by_messages && s == 0 ? 2 : 1)
                              : divided_up(program::epilogue_vectors(program), region.ahead);
    if (reads_rows) clocks += constants.input_wait_clocks * static_cast<double>(waits);
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
  // Random numbers keep all warps busy; the instructions of other elements wait for each other.
  const double numbers = random_numbers(facts);
  slots -= numbers * issue_slots_of(PointwiseOp{PointwiseFn::kPhiloxUniform});
  const auto warps = static_cast<double>(program.producer->epilogue_warps);
  clocks +=
      elements * slots * warps /
      (region.holds_rows ? constants.row_issue_per_clock : constants.epilogue_issue_per_clock);
  return (rounds * clocks + combining_clocks(facts, program, own, limits) +
          of_tile * constants.philox_clocks * numbers +
          sending * static_cast<double>(program.tiles[handover.tile].rows.extent) +
          lines / kStoreLinesPerClock) /
         limits.clock_mhz;
}

/// Time of products beside other warps that use shared memory, as a multiple of that alone: several
/// narrow instructions of a step read the same operand once more.
double narrow_products(const program::Program& program, const MatmulConstants& constants) {
  const auto& contract = *program::step_of<program::Contract>(program);
  const program::Tile& sum = program.tiles[contract.accumulator];
  const program::MatrixShape shape = program::matrix_shape(program, contract);
  const bool is_narrow =
      shape.n <= kNarrowColumns && sum.rows.extent * sum.columns.extent > shape.m * shape.n;
  return is_narrow ? constants.narrow_instructions : 1.0;
}

// Norms of products and an epilogue, which share an SM, and of products and the stages that they
// wait for (docs/experiments/constants_contractions.md).
constexpr double kEpilogueNorm = 4.0;
constexpr double kStageNorm = 6.0;

/// Time of two things at once: longer than the longer one where both take as long.
double joined(double one_us, double other_us, double norm) {
  return std::pow(std::pow(one_us, norm) + std::pow(other_us, norm), 1.0 / norm);
}

/// Time of an SM for the products of warp groups and what follows from them. The producer loads in
/// the meantime.
double products_time(const ProductTimes& times, const program::Program& program,
                     const MatmulParameters& own, const DeviceLimits& limits) {
  const MatmulConstants& constants = limits.cost.matmul;
  const double clocks_per_us = limits.clock_mhz;
  const int64_t at_once = program::tiles_at_once(program);
  const double evaluate_us = times.evaluate_us;
  if (own.epilogue_warps > 0) {
    // Rows are evaluated while the next tile is multiplied, those of the last tile after it.
    const auto handed = static_cast<double>(own.tile_rows * own.tile_columns);
    const double products_us =
        std::max(narrow_products(program, constants) * times.matrix_us, times.shared_us);
    const double tile_us =
        products_us / times.of_sm + handed / constants.handover_elements_per_clock / clocks_per_us;
    return times.of_sm * joined(tile_us, evaluate_us, kEpilogueNorm) + evaluate_us;
  }
  const double turn_us = constants.turn_clocks / clocks_per_us;
  if (at_once == 1)
    return times.matrix_us + times.of_sm * (evaluate_us + turn_us + times.sending_us);
  // The parts of the block are in turns in their products, and behind them beside the products of
  // others. A tile has as many fewer warps behind its products as the block has parts.
  const double parts = std::min(static_cast<double>(at_once), times.of_sm);
  const double tile_us = narrow_products(program, constants) * times.matrix_us / times.of_sm +
                         times.steps * constants.turned_step_clocks / clocks_per_us;
  const double behind_us =
      constants.beside_products * (parts * evaluate_us + turn_us) + times.sending_us;
  return std::max(times.of_sm * tile_us + behind_us,
                  std::ceil(times.of_sm / parts) * (tile_us + behind_us));
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

/// The prediction without the kernel that finishes partial results, of which the blocks write so
/// many bytes.
Prediction predict_tiles(const SegmentFacts& facts, const Schedule& schedule,
                         const program::Program& program, const ProgramWork& work,
                         const Stage& stage, const ResourceEstimate& estimate, double partial_bytes,
                         const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  const MatmulConstants& of_family = constants.matmul;
  const program::Traffic& traffic = work.traffic;
  const auto sms = static_cast<double>(limits.sm_count);
  const auto blocks = static_cast<double>(program::tile_count(program));
  const double clocks_per_us = limits.clock_mhz;
  const Epilogue epilogue = epilogue_of(facts);
  const double elements =
      static_cast<double>(facts.space.rows) * static_cast<double>(facts.space.columns);

  const auto& own = std::get<MatmulParameters>(schedule.parameters);
  Prediction out;
  out.launch_us = constants.launch_us + constants.ramp_us;
  out.memory_us = memory_time(
      limits, static_cast<double>(facts.bytes_read),
      static_cast<double>(facts.bytes_written) + partial_bytes,
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
  const double in_flight = std::max(program::outstanding_bytes(program) * beside, 1.0);
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
      elements * evaluation_clocks(facts, stage, of_family) * kWarp * limits.issue_per_clock;
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
      steps * std::max(0.0, of_family.step_clocks - (beside - 1.0) * step_clocks) / clocks_per_us;
  const double stores_us =
      (store_clocks(facts, program, own) + combining_clocks(facts, program, own, limits)) /
      clocks_per_us;
  if (program.producer) {
    if (splits_stages(facts)) {
      out.matrix_us = std::hypot(
          out.matrix_us, of_sm * split_steps(facts) * of_family.split_step_clocks / clocks_per_us);
    }
    const double at_work = static_cast<double>(estimate.blocks) / sms;
    if (own.cluster_size > 1 && of_sm > 1.0 && at_work < 1.0)
      out.matrix_us *= std::pow(at_work, of_family.idle_sms_exponent);
    out.l2_us = traffic.copied_bytes / (of_family.copy_bytes_per_clock * clocks_per_us * busy);
    // As fast as stages come in that few of them can be on their way.
    const double of_stage = of_family.copy_latency_clocks + traffic.copied_bytes /
                                                                (blocks * steps) /
                                                                of_family.copy_bytes_per_clock;
    const double stages_us =
        of_sm * steps * of_stage / static_cast<double>(own.pipeline_stages - 1) / clocks_per_us;
    const double bound_us = std::max({out.matrix_us, out.memory_us, out.l2_us, out.shared_us});
    const double sending_us = static_cast<double>(own.tile_rows) *
                              sending_clocks(facts, stage, own.cluster_size, of_family) /
                              clocks_per_us;
    // What the SM with most tiles takes beyond that is not hidden.
    const auto tile = static_cast<double>(own.tile_rows * own.tile_columns);
    const double tiles_us = products_time(
        {.of_sm = of_sm,
         .steps = steps,
         .matrix_us = joined(std::max(out.matrix_us, out.l2_us), stages_us, kStageNorm),
         .shared_us = out.shared_us,
         .evaluate_us =
             own.epilogue_warps > 0
                 ? epilogue_time(facts, program, own, work.epilogue, limits)
                 : stores_us + tile * evaluation_clocks(facts, stage, of_family) / clocks_per_us,
         .sending_us = sending_us},
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

ProgramWork work_of(const SegmentFacts& facts, const program::Program& program,
                    const MatmulParameters& own) {
  return {.traffic = program::traffic(program),
          .epilogue = own.epilogue_warps > 0 ? stages_of_epilogue(facts, own) : StageList{}};
}

Prediction predict_program(const SegmentFacts& facts, const Schedule& schedule,
                           const program::Program& program, const ProgramWork& work,
                           const Stage& stage, const ResourceEstimate& estimate,
                           const DeviceLimits& limits) {
  WorkEstimate finish;
  if (facts.has_outer()) add_finish(facts, schedule, limits, finish);
  Prediction out =
      predict_tiles(facts, schedule, program, work, stage, estimate, finish.partial_bytes, limits);
  if (facts.has_outer()) {
    out.second_stage_us = second_kernel_time(finish.partial_bytes, limits);
    out.total_us += out.second_stage_us;
  }
  return out;
}

}  // namespace sinter::matmul
