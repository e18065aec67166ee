#pragma once

#include "scheduler/families/family.h"
#include "scheduler/program/program.h"

namespace sinter {

// Matmul: a block computes tiles of the result of a contraction and evaluates everything that
// follows on the accumulators, before anything is stored. A pipeline in shared memory brings in the
// parts of the operands along the contracted axis. Who multiplies depends on the operands:
//
//   16- and 8-bit types      matrix instructions: those of warps (mma.sync), which copy and
//   multiply
//                            one tile, or those of warp groups (wgmma), which a producer feeds by
//                            tensor maps with the tiles of a persistent grid
//   f32 in tf32 or tf32x3    mma.sync, of operands that are rounded to TF32, or split into two
//   f32 in ieee, f64,        the lanes of warps, which have the accumulators that mma.sync would
//   i32, i64, maxima of sums give them
//
// It runs from compute capability 8.0 on, f8 from 8.9 on. Rows, columns and the contracted axis may
// have any size; operands may have any layout. Operands that are contiguous along the contracted
// axis or, with elements of 2 bytes and more, along their own, and aligned to 4 bytes, are copied
// asynchronously. Others pass through registers an element at a time.
//
// Rows may be reduced behind the contraction, where a warp, a warp group or the warp groups of a
// cluster have all columns of a row.
//
// It refuses: segments without a contraction; logsumexp; results without columns; reductions over
// the rows, and of rows that are odd or longer than the tiles of a cluster; further outputs of
// fewer axes than the result, but for those of rows beside reductions.

/// Columns of the widest tile. Longer rows that are reduced take clusters, or are reduced in parts.
inline constexpr int64_t kMostMatmulColumns = 256;

/// Registers per thread that the producer keeps. Its addresses and coordinates do not fit the
/// fewest that setmaxnreg can leave, 24; it leaves 232 to each of 256 threads.
constexpr int64_t kMatmulProducerRegisters = 40;
/// The same where the other warps of its warp group evaluate rows, or also those of a second one.
/// They leave 184 or 160 to each of 256 threads, which only multiply and hand their sums over.
constexpr int64_t kMatmulEpilogueRegisters = 136;
constexpr int64_t kMatmulWideEpilogueRegisters = 96;

/// The same where the other warps of its warp group split stages; it leaves 208 to each of 256
/// threads.
constexpr int64_t kMatmulSplitRegisters = 88;

/// Most warps of an epilogue: those beside the producer's in two warp groups.
inline constexpr int64_t kMostEpilogueWarps = 7;

/// The warp groups that do not multiply: their threads, and the registers that each of them keeps.
struct GroupRegisters {
  int64_t threads = 0;
  int64_t kept = 0;
};
GroupRegisters producer_registers(const SegmentFacts& facts, const MatmulParameters& own);

/// Why no schedule of the family can run a segment on any device.
std::optional<Rejection> refuse_matmul(const SegmentFacts& facts);

/// The program of a schedule. Needs: refuse_matmul() accepts the segment.
program::Program matmul_program(const SegmentFacts& facts, const Schedule& schedule);

/// Bytes of global memory for the messages of all blocks; 0 where they send none.
int64_t message_bytes(const SegmentFacts& facts, const Schedule& schedule);

Proposal propose_matmul(const SegmentFacts& facts, const DeviceLimits& limits);
tl::expected<ResourceEstimate, Rejection> estimate_matmul(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const DeviceLimits& limits);
Prediction predict_matmul(const SegmentFacts& facts, const Schedule& schedule,
                          const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
