#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/id.h"
#include "fusion_ir/result.h"
#include "scheduler/analysis/kept_value.h"

namespace sinter {

/// How vector accesses cover the elements of a row.
enum class RowAccess : uint8_t {
  kAligned,    ///< Every row starts on a vector boundary; a last partial vector is predicated.
  kUnaligned,  ///< Rows start anywhere. Vectors stay aligned in memory; the head and the tail of a
               ///< row are peeled and accessed element by element.
  kScalar,     ///< One element per access. Always legal, slow.
};

std::string_view text_of(RowAccess access);

/// L2 eviction priority of reads of row-wide inputs.
enum class ReadPriority : uint8_t {
  kNormal,
  kEvictFirst,  ///< Lines read are evicted from L2 before the lines it held.
  kEvictLast,   ///< Lines read are evicted from L2 after lines written.
  kLastUse,  ///< The same for lines that a later stage reads again. Their last reads, and reads of
             ///< lines read once, are evicted first.
};

std::string_view text_of(ReadPriority priority);

/// Programmatic dependent launch: whether a kernel overlaps with its neighbour in the stream. Legal
/// where DeviceLimits::has_dependent_launch, for every schedule without a last-block finish. The
/// plan sets it where a second kernel combines partial results of a first. It costs nothing where
/// the neighbour does not take part.
enum class DependentLaunch : uint8_t {
  kNone,
  kTrigger,  ///< Lets the next kernel start as soon as all blocks of this one have started.
  kWait,     ///< Starts early, and waits for the end of the previous kernel before it reads.
};

std::string_view text_of(DependentLaunch launch);

/// How the partial results of column reductions, a row for every block or cluster, are combined.
enum class Finish : uint8_t {
  kKernel,     ///< By a second kernel with blocks for all columns. Costs its launch.
  kLastBlock,  ///< By the block that increments an atomic counter last. Costs a fence, an atomic,
               ///< and one block's pass over all partial results.
};

std::string_view text_of(Finish finish);

/// How one segment becomes one kernel. A value: printable, parseable, comparable, hashable. Not
/// every combination is legal; verify_schedule says which and why.
struct Schedule {
  std::string family{};
  int64_t threads_per_row = 128;  ///< Power of two. For pointwise: threads of the block.
  int64_t rows_per_block = 1;
  int64_t vector_width = 1;  ///< Elements of one thread in one batch.
  /// Batches that are loaded before the first is used. Rows kept in registers load all batches.
  int64_t unroll = 1;
  int64_t min_blocks_per_sm = 1;  ///< __launch_bounds__ promise; caps registers.
  /// CTAs of a persistent grid: each walks over rows and accumulates column reductions. 0: a block
  /// for every rows_per_block rows. For column: blocks that share the rows of a column strip, of
  /// all clusters; 0: one block or cluster reduces all rows of its strip.
  int64_t persistent_blocks = 0;
  /// Blocks of a cluster. They split the columns of each row evenly and reduce through distributed
  /// shared memory; threads_per_row counts the threads of one block. For column they split the rows
  /// of a column strip, and the first block combines the results.
  int64_t cluster_size = 1;
  /// Pipeline stages of a warp-specialised block, one row each: a multiple of rows_per_block times
  /// rows_per_iteration. 0: no pipeline.
  int64_t pipeline_stages = 0;
  /// Unroll-and-jam: 1, 2 or 4 rows that a consumer group works on at once. They share one exchange
  /// of statistics per stage. Costs registers for each row, and pipeline stages held until all rows
  /// are done.
  int64_t rows_per_iteration = 1;
  /// Registers per thread that consumer warps request with setmaxnreg; 0: those of the launch.
  int64_t consumer_registers = 0;
  /// Rows that a persistent block loads into registers while it works on the row before: 0 or 1.
  /// Costs the registers of a second row of the inputs kept in registers; in a two-pass schedule
  /// those of a second chunk.
  int64_t prefetch_rows = 0;
  /// Where a persistent block accumulates column reductions: in registers, or in shared memory that
  /// each thread reads and writes for its own columns in every row. Totals take a register each.
  Residency accumulators = Residency::kRegister;
  /// Two-pass schedule of looped blocks with column reductions: rows of a tile. The first pass
  /// reduces each row; the second goes through all rows of the tile, a chunk of columns at a time.
  /// Column sums of a chunk wait in the partial results until the next tile. 0: not two-pass.
  int64_t rows_per_tile = 0;
  RowAccess row_access = RowAccess::kAligned;
  ReadPriority read_priority = ReadPriority::kNormal;
  DependentLaunch dependent_launch = DependentLaunch::kNone;
  Finish finish = Finish::kKernel;  ///< Only where persistent blocks write partial results.
  std::vector<KeptValue> kept{};    ///< Ascending by value.
  std::map<std::string, int64_t, std::less<>>
      parameters{};  ///< Further parameters of families from outside.

  [[nodiscard]] int64_t threads_per_block() const { return threads_per_row * rows_per_block; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

uint64_t hash_of(const Schedule& schedule);

/// True if the schedule keeps a value in registers or shared memory.
bool is_kept(const Schedule& schedule, ValueId value);
/// True if it keeps the value there.
bool is_kept(const Schedule& schedule, ValueId value, Residency residency);

/// The fields that only some schedules have, for messages: ", cluster_size 2, prefetch_rows 1".
std::string further_numbers(const Schedule& schedule);

/// A field whose value changed, as text.
struct FieldChange {
  std::string field{};
  std::string before{};
  std::string after{};
  friend bool operator==(const FieldChange&, const FieldChange&) = default;
};

/// The fields in which two schedules differ, in the order of the .sched text. A kept value or a
/// parameter that only one of them has is "none" in the other.
std::vector<FieldChange> changes_between(const Schedule& before, const Schedule& after);

/// Version of the .sched text. Raise it when a field or a word changes its name or its meaning. Old
/// names are then refused with the new one as the remedy, and tuning results of another version are
/// not found.
inline constexpr int64_t kScheduleGrammar = 2;

/// .sched text: one schedule on a few lines. parse_schedule(print(s)) == s.
///
///     schedule multi_wave {
///       threads_per_row 256  rows_per_block 1  vector_width 8  unroll 2  min_blocks_per_sm 4
///       cluster_size 2  prefetch_rows 1
///       row_access aligned  read_priority evict_last  dependent_launch trigger
///       accumulators shared  finish kernel
///       keep %v0 in register parameter name 7
///     }
std::string print(const Schedule& schedule);

/// Errors: InvalidArgument with line:column and the offending token.
Result<Schedule> parse_schedule(std::string_view text);

}  // namespace sinter
