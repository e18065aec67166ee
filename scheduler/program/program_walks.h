#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "scheduler/analysis/decision.h"
#include "scheduler/program/program.h"
#include "scheduler/program/shared_layout.h"
#include "scheduler/schedule/schedule.h"

namespace sinter::program {

/// How often a step runs.
struct Times {
  double blocks = 1.0;      ///< Tiles of blocks.
  double parts = 1.0;       ///< Parts of such a tile, for warps or warp groups; 1: all together.
  double iterations = 1.0;  ///< Times that each of them runs it.
  [[nodiscard]] double all() const { return blocks * parts * iterations; }
};

/// Visits every step, outer ones first, with how often it runs.
void for_each_step(const Program& program,
                   const std::function<void(const Step&, const Times&)>& visit);

/// The first step of a kind, of which programs have one at most; null if there is none.
template <class Kind>
const Kind* step_of(const Program& program) {
  for (const Step& step : program.steps) {
    if (const auto* found = std::get_if<Kind>(&step)) return found;
  }
  return nullptr;
}

/// The part of an axis that the blocks' loops choose; all of it where none does.
int64_t part_of_block(const Program& program, AxisId axis);

/// Tiles that the blocks take.
int64_t tile_count(const Program& program);
/// Tiles on which a block works at once.
int64_t tiles_at_once(const Program& program);

/// Blocks of a cluster or team; 1: there are none.
int64_t cluster_size(const Program& program);
ExchangeKind exchange_of(const Program& program);
/// Places for messages of a block of a team.
int64_t message_places(const Program& program);

/// Warps that take parts of the contracted axis in turns; 0: all warps work on each part.
int64_t slice_warps(const Program& program);

/// True if the warps that take an axis in turns have equally many parts of it, all of them whole.
bool has_whole_turns(const Program& program, const Pipeline& pipeline);

/// Blocks that take the rows of the same columns in turns.
int64_t blocks_of_columns(const Fold& fold);

/// Parts of a tile that are handed over one by one, one for each warp group.
int64_t handed_parts(const Program& program);

/// Most lanes of a warp of the epilogue that have a row together: eight chunks are a line of the
/// banks, and fewer lanes exchange less to reduce a row.
inline constexpr int64_t kEpilogueLanes = kLineBytes / kChunkBytes;
/// Lanes that have a row together; 0 without an epilogue.
int64_t epilogue_lanes(const Program& program);
/// Chunks of 16 bytes that such a lane has of a row of the tile.
int64_t epilogue_vectors(const Program& program);

/// The schedule of a row kernel whose threads have the columns of a row as the four lanes have them
/// that hold a row of a fragment, or as the lanes of a warp of the epilogue have them.
Schedule row_schedule(const Program& program);
/// Rows that a lane evaluates together: both of an instruction where the blocks of a cluster
/// exchange what they know of them, so that one exchange serves both; in the epilogue, those of an
/// iteration.
int64_t rows_together(const Program& program);

/// Rows of a fragment that the lanes of a warp hold at the same place of their registers (PTX ISA,
/// "mma", accumulators).
inline constexpr int64_t kFragmentRows = 8;

/// Accesses that a lane has on their way together where it stores what was collected in shared
/// memory.
inline constexpr int64_t kStoresTogether = 4;

/// Blocks of the grid.
int64_t block_count(const Program& program);

/// Bytes of shared memory of a block, exact.
int64_t shared_bytes(const Program& program);

/// 32-bit registers of a thread that hold fragments: accumulators, and operands of a contraction.
/// ptxas loads operands of later steps of a stage ahead: those of half of the steps beside those of
/// one, of four steps at most (reports of ptxas 13.0).
int64_t fragment_words(const Program& program);

/// 32-bit registers of a thread that hold where its copies start: an element of the operand (i64)
/// and one of the tile (i32) for each access of a stage.
int64_t copy_words(const Program& program);

/// Bytes of copies that a block has on their way at once.
double outstanding_bytes(const Program& program);

/// What a program moves and computes in all, with any number of stages.
struct Traffic {
  double copied_bytes = 0.0;         ///< From L2 to shared memory, or to registers.
  double copied_accesses = 0.0;      ///< Of one thread each.
  double shared_read_bytes = 0.0;    ///< By matrix loads.
  double matrix_instructions = 0.0;  ///< Of one warp each, or multiply-adds of its lanes.
  double products = 0.0;             ///< Multiply-adds, those beyond the ends of axes included.
};
Traffic traffic(const Program& program);

/// Why a program cannot be lowered, whatever the device; no value if it can.
std::optional<Rejection> check(const Program& program, std::string_view family);

}  // namespace sinter::program
