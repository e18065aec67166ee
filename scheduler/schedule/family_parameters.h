#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "scheduler/analysis/kept_value.h"

namespace sinter {

// The parameters that a schedule has because of its family: Schedule::parameters. Every default
// means that the feature is not used. A field of several families has the same name in each, so
// that Schedule can read it whatever the family.

/// Families with the fields of Schedule alone: pointwise, transpose, multi_tensor. And cublaslt,
/// whose schedules set none: the library chooses.
struct NoParameters {
  friend bool operator==(const NoParameters&, const NoParameters&) = default;
};

struct ColumnParameters {
  /// Blocks of a cluster. They split the rows of a column strip, and the first block combines the
  /// results.
  int64_t cluster_size = 1;
  friend bool operator==(const ColumnParameters&, const ColumnParameters&) = default;
};

struct LoopedParameters {
  /// Blocks of a cluster. They split the columns of each row evenly and reduce through distributed
  /// shared memory; threads_per_row counts the threads of one block.
  int64_t cluster_size = 1;
  /// Rows of which a two-pass schedule loads a chunk into registers while it works on the chunk of
  /// the row before: 0 or 1. Costs the registers of a second chunk.
  int64_t prefetch_rows = 0;
  /// Two-pass schedule of blocks with column reductions: rows of a tile. The first pass reduces
  /// each row; the second goes through all rows of the tile, a chunk of columns at a time. Column
  /// sums of a chunk wait in the partial results until the next tile. 0: not two-pass.
  int64_t rows_per_tile = 0;
  friend bool operator==(const LoopedParameters&, const LoopedParameters&) = default;
};

struct MultiWaveParameters {
  int64_t cluster_size = 1;  ///< As of LoopedParameters.
  /// Rows that a persistent block loads into registers while it works on the row before: 0 or 1.
  /// Costs the registers of a second row of the inputs kept in registers.
  int64_t prefetch_rows = 0;
  /// Where a persistent block accumulates column reductions: in registers, or in shared memory that
  /// each thread reads and writes for its own columns in every row. Totals take a register each.
  Residency accumulators = Residency::kRegister;
  friend bool operator==(const MultiWaveParameters&, const MultiWaveParameters&) = default;
};

struct WarpSpecialisedParameters {
  int64_t cluster_size = 1;  ///< As of LoopedParameters.
  /// Pipeline stages of a block, one row each: a multiple of rows_per_block times
  /// rows_per_iteration, two at least.
  int64_t pipeline_stages = 0;
  /// Unroll-and-jam: 1, 2 or 4 rows that a consumer group works on at once. They share one exchange
  /// of statistics per stage. Costs registers for each row, and pipeline stages held until all rows
  /// are done.
  int64_t rows_per_iteration = 1;
  /// Registers per thread that consumer warps request with setmaxnreg; 0: those of the launch.
  int64_t consumer_registers = 0;
  Residency accumulators = Residency::kRegister;  ///< As of MultiWaveParameters.
  friend bool operator==(const WarpSpecialisedParameters&,
                         const WarpSpecialisedParameters&) = default;
};

/// How blocks that share rows exchange what they know of them, and what holds them together.
enum class ExchangeKind : uint8_t {
  kCluster,  ///< Through distributed shared memory. A warp waits for the others of its rows at
             ///< once.
  /// By messages through global memory, whose L2 is nearer than DRAM: no clusters, which leave SMs
  /// idle where those of a GPC are no multiple of their blocks. The warps of an epilogue reduce and
  /// send all rows of a tile before they wait for the first of them, and read the tile twice. The
  /// launch is cooperative, because blocks wait for each other.
  kMessages,
};

std::string_view text_of(ExchangeKind exchange);

/// A block computes a tile of the result of a contraction. threads_per_row counts the threads of a
/// block; a thread loads and stores vector_width adjacent columns at once.
struct MatmulParameters {
  int64_t tile_rows = 0;     ///< Rows of a block's tile.
  int64_t tile_columns = 0;  ///< Its columns.
  /// Elements of the contracted axis that a pipeline stage holds of both operands.
  int64_t tile_depth = 0;
  /// Warps that share the rows of a tile. The others share its columns: each warp has a part of
  /// both.
  int64_t row_warps = 1;
  int64_t pipeline_stages = 0;  ///< Stages of a block, in shared memory; two at least.
  /// Blocks of a cluster, or with kMessages of a team, which share the columns of rows that are
  /// reduced evenly, and exchange what they know of them. Only with a producer.
  int64_t cluster_size = 1;
  ExchangeKind exchange = ExchangeKind::kCluster;
  /// Warp-specialised: a producer brings in the operands by tensor maps, and the warp groups of
  /// persistent_blocks blocks multiply them (wgmma). Their threads have so many registers, which
  /// they request with setmaxnreg. 0: every warp copies and multiplies (mma.sync).
  int64_t consumer_registers = 0;
  /// Warps that evaluate the rows of a tile from shared memory while the warp groups multiply the
  /// next one: up to seven, beside the producer's warp. 0: the warp groups evaluate what they have
  /// multiplied.
  int64_t epilogue_warps = 0;
  /// Sliced K: so many warps take parts of tile_depth elements of the contracted axis in turns,
  /// each of them for the whole tile, and add what they have in order. Operands go from global
  /// memory to registers, pipeline_stages parts of a warp at once. 0: all warps multiply each part,
  /// from shared memory.
  int64_t slice_warps = 0;
  friend bool operator==(const MatmulParameters&, const MatmulParameters&) = default;
};

/// Families from outside the library: numbers by name, with the meaning that the family gives them.
struct ExternalParameters {
  std::map<std::string, int64_t, std::less<>> values{};
  friend bool operator==(const ExternalParameters&, const ExternalParameters&) = default;
};

using FamilyParameters =
    std::variant<NoParameters, ColumnParameters, LoopedParameters, MultiWaveParameters,
                 WarpSpecialisedParameters, MatmulParameters, ExternalParameters>;

/// The parameters of a new schedule of a family: the alternative that belongs to the name, with its
/// defaults. A name that is not built in is that of a family from outside.
FamilyParameters parameters_of_family(std::string_view family);

/// The families of the library, the simplest first: the built-in ones, then cublaslt.
std::vector<std::string_view> builtin_family_names();

/// What `read` gives for the parameters, or `neutral` where it cannot be called with them, because
/// they lack the field that it names.
template <class T, class Read>
T field_or(const FamilyParameters& parameters, T neutral, Read read) {
  return std::visit(
      [&](const auto& own) -> T {
        if constexpr (std::is_invocable_v<Read, decltype(own)>) {
          return read(own);
        } else {
          return neutral;
        }
      },
      parameters);
}

}  // namespace sinter
