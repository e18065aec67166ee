#pragma once

// Program: what one kernel does with tiles, between its schedule and the kernel IR.
//
// A program has named axes, each a group of loops of the segment (iteration_space.h); loops over
// tiles of these axes, bound to blocks, to warps or to a pipeline; and tiles with a place and a
// layout. Its steps copy tiles, contract them and evaluate the segment's values on them. A family
// builds the program of a schedule. Everything else is a walk over it: legality, shared bytes,
// registers and traffic (program_walks.h), and the kernel (codegen/lower/lower_program.h).
//
// A program does not depend on the number of rows: the extents that a launch gives are those of the
// axes whose `is_launched` is true.

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fusion_ir/dtype.h"
#include "fusion_ir/id.h"
#include "fusion_ir/op.h"
#include "scheduler/schedule/family_parameters.h"

namespace sinter::program {

struct AxisTag {
  static constexpr char kPrefix[] = "axis ";
};
struct TileTag {
  static constexpr char kPrefix[] = "tile ";
};
struct StepTag {
  static constexpr char kPrefix[] = "step ";
};
using AxisId = Id<AxisTag>;
using TileId = Id<TileTag>;
using StepId = Id<StepTag>;
using Steps = boost::container::small_vector<StepId, 3>;

/// A group of loops that is walked as one: loops of the segment's space that follow each other,
/// where the contracted loops follow those of the space.
struct Axis {
  std::string name;
  size_t first_loop = 0;
  std::vector<int64_t> sizes{};  ///< Of its loops.
  int64_t extent = 1;            ///< Product of the sizes.
  bool is_launched = false;  ///< The launch gives the extent; the kernel's text does not have it.
  friend bool operator==(const Axis&, const Axis&) = default;
};

enum class Place : uint8_t {
  kShared,         ///< Shared memory of a block.
  kFragment,       ///< Registers of a warp, as its matrix instructions (mma.sync) give them.
  kGroupFragment,  ///< Registers of a warp group, as its matrix instructions (wgmma) give them.
  /// Registers of a warp, as loads of whole lines give them: 16 bytes of a line a lane.
  kLines,
  /// Registers of a warp, as its matrix instructions (mma.sync) give the products of such lines
  /// (codegen/lower/slice_product.h).
  kSlice,
};
std::string_view text_of(Place place);
/// Threads whose registers hold a fragment together. Needs: a place in registers.
int64_t threads_of(Place place);

/// A part of an axis.
struct Span {
  AxisId axis;
  int64_t extent = 1;
  friend bool operator==(const Span&, const Span&) = default;
};

/// A tile of two axes. In shared memory its columns are divided into lines. The lines of all rows
/// that have the same columns lie one after the other. Their 16-byte chunks are permuted
/// (shared_layout.h), so that eight rows are read at one chunk without conflicts of banks, or lie
/// in order.
struct Tile {
  std::string name;
  DType type = DType::kF32;
  Place place = Place::kShared;
  Span rows, columns;
  int64_t stages = 1;  ///< Copies of it, one for each stage of a pipeline or for each warp.
  /// Columns of a line, or of an instruction whose accumulators a fragment of a warp group has; 0:
  /// all of a row.
  int64_t line = 0;
  /// The chunks lie in order, for tiles of which the lanes read one row at a time.
  bool in_order = false;
  [[nodiscard]] int64_t line_columns() const { return line == 0 ? columns.extent : line; }
  friend bool operator==(const Tile&, const Tile&) = default;
};

enum class Binding : uint8_t {
  kBlock,         ///< Blocks of the grid.
  kWarp,          ///< One iteration for each warp of a block.
  kWarpGroup,     ///< One iteration for each warp group of a block, of four warps.
  kEpilogueWarp,  ///< The warps of the epilogue take the iterations in turns.
};
std::string_view text_of(Binding binding);

/// A loop over parts of an axis of `step` elements each. It covers the axis, or the part that an
/// enclosing loop over the same axis has chosen.
struct Loop {
  AxisId axis;
  int64_t step = 1;
  friend bool operator==(const Loop&, const Loop&) = default;
};

/// Loops that are distributed together, the first of them the slowest; then what each iteration
/// does.
struct Nest {
  Binding binding = Binding::kBlock;
  std::vector<Loop> loops;
  /// Blocks only: the last two loops are walked in groups of so many iterations of the first of
  /// them, so that blocks that run at the same time share tiles of both. 1: row by row.
  int64_t group = 1;
  /// Blocks only: so many blocks take the iterations in turns, block b those from b on in steps of
  /// the number of blocks. 0: each iteration has a block of its own.
  int64_t persistent_blocks = 0;
  /// Blocks only: parts of the block's threads take its iterations in turns and work on so many of
  /// them at once. While one part multiplies, others evaluate and store.
  int64_t at_once = 1;
  /// Blocks only: so many blocks of a cluster or team take the iterations of the last loop that
  /// belong to one of the others. The last loop has as many.
  int64_t cluster = 1;
  ExchangeKind exchange = ExchangeKind::kCluster;  ///< Of these blocks, where they share rows.
  Steps body{};
  friend bool operator==(const Nest&, const Nest&) = default;
};

/// A loop over parts of an axis in order. In each iteration the tiles that `copies` fill are ready,
/// those of the `stages - 1` iterations after it are on their way, and `body` runs. In a program
/// with a producer its thread starts the copies, also those of the blocks' next iterations.
struct Pipeline {
  Loop loop;
  int64_t stages = 2;
  /// Sliced K: so many warps take the iterations in turns, `stages` of them at once, each with
  /// tiles and sums of its own. 0: all warps work on each iteration.
  int64_t slice_warps = 0;
  /// The copies of columns of the first iterations start before the kernel waits for the one before
  /// it. Only with slice_warps.
  bool loads_before_wait = false;
  Steps copies{}, body{};
  friend bool operator==(const Pipeline&, const Pipeline&) = default;
};

enum class CopyKind : uint8_t {
  kAsync,   ///< cp.async of 4, 8 or 16 bytes a thread.
  kPlain,   ///< Through registers, an element at a time: for operands that are strided or not
            ///< aligned to 4 bytes.
  kTensor,  ///< By a tensor map, a box of lines at once (operand_map.h). Only by a producer.
  kDirect,  ///< Into registers of the warp that multiplies, 16 bytes a lane.
};
std::string_view text_of(CopyKind kind);

/// Fills a tile from an operand of the contraction, in shared memory or, of lines, in registers.
/// Elements beyond the end of a contracted axis become 0; of elements beyond the end of any other
/// axis the values are unspecified, and 0 in copies by a tensor map.
struct Copy {
  TileId tile;
  bool of_rows = true;  ///< The operand of the rows, or the one of the columns.
  CopyKind kind = CopyKind::kAsync;
  int64_t width = 1;  ///< Elements of one access; of a tensor map, those of a line.
  /// Lines that the copy brings to L2 leave it before those that it held. Not of kAsync, which
  /// carries no priority (codegen/device/async_copy.cuh).
  bool evict_first = false;
  friend bool operator==(const Copy&, const Copy&) = default;
};

/// What combines the elements of a contraction.
enum class Unit : uint8_t {
  kMatrix,  ///< The matrix instructions that the accumulator's place names (kir::Mma, kir::Wgmma).
  kLane,    ///< Each lane, those of its own accumulators: multiply-adds, or maxima of sums.
};

/// The warps beside the producer (Producer::split_warps) split what a stage of the right operand's
/// tile has: each f32 into two numbers that instructions read as TF32. The first takes its place,
/// the second lies at the same place of another tile, which has as many stages.
struct Split {
  TileId tile, second;
  friend bool operator==(const Split&, const Split&) = default;
};

/// accumulator += left * right over the contracted axis of the two tiles, or the maximum of left +
/// right.
struct Contract {
  ContractFn fn = ContractFn::kSum;
  Unit unit = Unit::kMatrix;
  /// Of f32 operands of matrix instructions, which are rounded to TF32.
  ContractPrecision precision = ContractPrecision::kIeee;
  TileId accumulator, left, right;
  /// kTf32x3 of warp groups: the second parts of the right operand, which a Split has filled. What
  /// is loaded into registers is split there: the left operand of warp groups, and both of warps.
  TileId right_second{};
  friend bool operator==(const Contract&, const Contract&) = default;
};

/// Adds the slices of all warps in the order of the warps, through a tile in shared memory that has
/// a copy for each of them, into the fragments of those that evaluate the block's tile.
struct Merge {
  TileId slice, through, fragment;
  friend bool operator==(const Merge&, const Merge&) = default;
};

/// Evaluates a value at each element of a fragment, which holds what it is computed from, and puts
/// it into a tile in shared memory, for the warps of the epilogue. The value is the contraction's,
/// or a cast of it to a type that is evaluated in the contraction's.
struct Handover {
  TileId fragment, tile;
  ValueId value;
  friend bool operator==(const Handover&, const Handover&) = default;
};

/// Where a warp collects rows of an output until it stores whole lines of memory. The lanes of a
/// fragment hold only pairs of adjacent columns, of eight rows at a time.
struct Staging {
  size_t output = 0;  ///< Among the segment's outputs.
  TileId tile;        ///< In shared memory, with a copy for each warp.
  int64_t width = 1;  ///< Adjacent columns that one access stores.
  friend bool operator==(const Staging&, const Staging&) = default;
};

/// Evaluates and stores the segment's outputs at each element of a tile, which holds `value`: of a
/// fragment, or of a tile in shared memory whose rows the warps of the epilogue have.
struct Region {
  TileId tile;
  ValueId value;
  int64_t width = 1;  ///< Adjacent columns that one access loads or stores.
  /// The tile has all columns of the block or, in a cluster, of its part of them, and the region
  /// reduces rows.
  bool holds_rows = false;
  /// Vectors of a row whose other inputs are loaded together.
  int64_t ahead = 1;
  /// Values that the lanes keep for later reductions in place of the fragment.
  std::vector<ValueId> kept{};
  /// Shared bytes by which the blocks of a cluster exchange what they know of rows.
  int64_t exchange_bytes = 0;
  int64_t message_places = 0;  ///< The same of a team: places for messages of a block.
  /// Rows of partial results that a block's tile leaves where the region reduces over the rows: one
  /// for each warp that has some. 0: it does not.
  int64_t partial_rows = 0;
  std::vector<Staging> staged{};
  friend bool operator==(const Region&, const Region&) = default;
};

/// Evaluates and stores the segment's outputs at the elements of a block's part of an axis, from
/// memory to memory. Each thread has `vectors` vectors of `width` adjacent elements; between two of
/// them lies one vector of every thread. All are loaded before the first is used.
struct Elements {
  AxisId axis;
  int64_t width = 1;
  int64_t vectors = 1;
  /// Elements from one vector of a thread to its next, and those of a block of so many threads.
  [[nodiscard]] int64_t reach(int64_t threads) const { return threads * width; }
  [[nodiscard]] int64_t tile(int64_t threads) const { return reach(threads) * vectors; }
  friend bool operator==(const Elements&, const Elements&) = default;
};

/// Reduces the rows of a block's columns. `across` threads have `width` adjacent columns each, and
/// `slots` such groups of threads take the rows in turns, `ahead` rows of a group at once. So do
/// the blocks of a cluster. What they have of a column is combined in a fixed tree: groups of a
/// block first, then blocks of a cluster.
struct Fold {
  AxisId rows, columns;
  int64_t width = 1;
  int64_t across = 32;
  int64_t slots = 1;
  int64_t ahead = 1;
  int64_t cluster = 1;
  /// So many clusters take the rows of the same columns in turns, and leave partial results. 0: one
  /// has all rows, and stores what follows from them.
  int64_t shares = 0;
  /// The block that is done last combines partial results; else another kernel does.
  bool by_last_block = false;
  /// Columns of a block.
  [[nodiscard]] int64_t reach() const { return across * width; }
  friend bool operator==(const Fold&, const Fold&) = default;
};

using Step =
    std::variant<Nest, Pipeline, Copy, Split, Contract, Merge, Handover, Region, Elements, Fold>;

/// Warp groups whose first warp only starts the copies of pipelines. The other warp groups wait
/// for them. Registers per thread are passed from the one to the others when the kernel begins
/// (setmaxnreg).
struct Producer {
  int64_t threads = 128;
  int64_t registers = 0;           ///< That its threads keep.
  int64_t consumer_registers = 0;  ///< That the other threads have then.
  /// The warps after the first, which evaluate tiles in shared memory while the other warp groups
  /// multiply the next ones; 0: they do nothing.
  int64_t epilogue_warps = 0;
  int64_t split_warps = 0;  ///< The warps after the first, which split stages instead (Split).
  friend bool operator==(const Producer&, const Producer&) = default;
};

struct Program {
  std::string name{};
  int64_t threads = 0;  ///< Of a block, without the producer.
  std::optional<Producer> producer{};
  IdVector<AxisId, Axis> axes{};
  IdVector<TileId, Tile> tiles{};
  IdVector<StepId, Step> steps{};
  Steps body{};
  friend bool operator==(const Program&, const Program&) = default;
};

/// A matrix instruction: m x n accumulators from m x k and k x n elements (PTX ISA, "mma" and
/// "wgmma.mma_async"). Of lanes: what a warp computes from one 16-byte chunk along k.
struct MatrixShape {
  int64_t m = 16;
  int64_t n = 8;
  int64_t k = 16;
  friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};
/// Of the instructions of a contraction. k elements are 32 bytes. An instruction of a warp has 16
/// rows and 8 columns; in a slice 8 and 4 and twice the elements, because it has both halves of a
/// line. One of a warp
/// group has 64 rows and the columns of a line of the accumulator.
MatrixShape matrix_shape(const Program& program, const Contract& contract);

/// Columns that an instruction of a warp group can have, for all types of operands.
inline constexpr std::array<int64_t, 8> kGroupColumns = {8, 16, 32, 64, 96, 128, 192, 256};

/// Text of a program, for people and tests:
///
///     program linear threads 128 {
///       axis m 8192 launched  axis n 4096  axis k 1024
///       tile %left : bf16 shared [m 128, k 32] stages 4
///       tile %sum : f32 fragment [m 64, n 64]
///       for block m by 128, n by 128 group 8 {
///         pipeline k by 32 stages 4 {
///           copy async %left = rows width 8
///         } do {
///           for warp m by 64, n by 64 {
///             contract sum %sum += %left * %right
///           }
///         }
///         for warp m by 64, n by 64 {
///           region %v2 = %sum width 2
///         }
///       }
///     }
std::string print(const Program& program);

}  // namespace sinter::program
