#include "scheduler/families/matmul/matmul_resources.h"

#include <algorithm>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/budgets/budget.h"
#include "scheduler/families/matmul.h"
#include "scheduler/families/matmul/contraction_facts.h"
#include "scheduler/families/matmul/matmul_program.h"
#include "scheduler/program/program_walks.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter::matmul {
namespace {

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
    words += accumulator_words(facts, elements);
  }
  return words;
}

}  // namespace

Stage all_of(const StageList& list) {
  Stage out;
  for (const Stage& stage : list.stages) {
    out.issue_slots += stage.issue_slots;
    out.special_functions += stage.special_functions;
    out.reductions.insert(out.reductions.end(), stage.reductions.begin(), stage.reductions.end());
    out.live_values = std::max(out.live_values, stage.live_values);
  }
  return out;
}

int64_t elements_of_lane(const SegmentFacts& facts, const program::Program& program,
                         const program::Region& region) {
  // Where rows are reduced, the tile may be wider than the row.
  if (region.holds_rows) return elements_per_thread(facts, program::row_schedule(program));
  return program::epilogue_vectors(program) * region.width;
}

tl::expected<ResourceEstimate, Rejection> estimate_program(const SegmentFacts& facts,
                                                           const Schedule& schedule,
                                                           const program::Program& program,
                                                           const Stage& stage,
                                                           const DeviceLimits& limits) {
  ResourceEstimate estimate;
  estimate.threads = program.threads + (program.producer ? program.producer->threads : 0);
  estimate.tile_registers = program::fragment_words(program);
  estimate.registers =
      kBaseRegisters + estimate.tile_registers + program::copy_words(program) + stage.live_values;
  if (facts.has_outer() && program::step_of<program::Handover>(program) == nullptr) {
    const auto& region = *program::step_of<program::Region>(program);
    estimate.registers +=
        accumulator_words(facts, program.tiles[region.tile].columns.extent /
                                     program::row_schedule(program).threads_per_row);
  }
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
    const bool in_team = program::exchange_of(program) == ExchangeKind::kMessages;
    complete(estimate, limits, schedule.min_blocks_per_sm,
             in_team ? 1 : program::cluster_size(program));
    estimate.registers = needed;
    estimate.register_cap = raised;
    estimate.spilled_registers = std::max<int64_t>(0, needed - raised);
  } else {
    complete(estimate, limits, schedule.min_blocks_per_sm);
  }
  estimate.bytes_in_flight_per_sm =
      program::outstanding_bytes(program) * static_cast<double>(estimate.blocks_per_sm);
  if (auto rejection = over_budget(facts, schedule, estimate, limits))
    return tl::make_unexpected(*rejection);
  if (const int64_t most = estimate.blocks_per_sm * limits.sm_count;
      program::exchange_of(program) == ExchangeKind::kMessages && estimate.blocks > most) {
    return tl::make_unexpected(
        rejected(schedule, "blocks that wait for each other run at the same time", estimate.blocks,
                 most, "blocks", "use fewer persistent_blocks"));
  }
  return estimate;
}

}  // namespace sinter::matmul
