#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/id.h"
#include "fusion_ir/result.h"

namespace sinter {

/// Where a value that several stages need lives between them.
enum class Residency : uint8_t {
  kRegister,  ///< In registers, packed in its storage type. Fastest; costs elements per thread
              ///< times element size over 4 registers.
  kShared,  ///< In shared memory, written and read by the same thread, so without a barrier. Costs
            ///< shared bytes and bandwidth.
  kReload,  ///< Read again from global memory, or recomputed from what is. Legal for inputs; costs
            ///< a second read, from L2 if the blocks in flight fit there.
};
std::string_view text_of(Residency residency);

/// How the elements of a row are laid over vector accesses.
enum class RowAccess : uint8_t {
  kAligned,  ///< Every row starts on a vector boundary. A row that is no multiple of the block's
             ///< reach ends with guarded vectors.
  kShifted,  ///< Rows start anywhere. Vectors stay aligned in memory: those inside the row are
             ///< dealt to the threads, and so are, one by one, the elements before the first and
             ///< behind the last of them.
  kScalar,   ///< One element per access. Always legal, slow.
};
std::string_view text_of(RowAccess access);

/// What reads of row-wide inputs ask of L2.
enum class ReadPriority : uint8_t {
  kNormal,
  kEvictFirst,  ///< Lines read leave L2 before what it held.
  kEvictLast,   ///< Lines read leave L2 after lines written.
  kLastUse,     ///< The same for lines that a later stage reads again; its reads, and those of what
                ///< is read once, leave L2 first.
};
std::string_view text_of(ReadPriority priority);

/// Whether a kernel runs while its neighbour in the stream does (programmatic dependent launch).
/// Legal for every schedule without tickets where DeviceLimits::has_dependent_launch; the plan sets
/// it where one kernel finishes or combines what the other leaves. Costs nothing where the
/// neighbour does not take part. Captured, kPrevious was tried behind kernels alone, not behind
/// copies or fills.
enum class Overlap : uint8_t {
  kNone,
  kNext,      ///< Lets the next kernel start as soon as all of its own blocks have.
  kPrevious,  ///< Starts while the previous one runs, and waits for its end before it reads.
};
std::string_view text_of(Overlap overlap);

/// What combines the partial results of outer reductions, a row for every block or cluster.
enum class Finish : uint8_t {
  kKernel,  ///< A second kernel, with blocks for all columns. Costs its launch.
  kTicket,  ///< The block that is last to leave its partial results, as a counter in memory tells
            ///< it. Costs a fence, an atomic, and one block's way through what all of them left.
};
std::string_view text_of(Finish finish);

struct PersistentValue {
  ValueId value;
  Residency residency = Residency::kRegister;
  friend auto operator<=>(const PersistentValue&, const PersistentValue&) = default;
};

/// How one segment becomes one kernel. A value: printable, parseable, comparable, hashable. Not
/// every combination is legal; verify_schedule says which and why.
struct Schedule {
  std::string family{};
  int64_t threads_per_row = 128;  ///< Power of two. For pointwise: threads of the block.
  int64_t rows_per_block = 1;
  int64_t vector_width = 1;  ///< Elements per thread and batch.
  int64_t unroll =
      1;  ///< Batches loaded before the first is used. A resident row loads all of its batches.
  int64_t min_blocks_per_sm = 1;  ///< Promised to the compiler: bounds registers.
  /// Blocks of a persistent grid, each of which walks rows and keeps what outer reductions
  /// accumulate; 0: a block for every rows_per_block rows. For column: blocks among which the rows
  /// of each run of columns are dealt, those of all clusters; 0: one block or cluster walks them
  /// all and finishes.
  int64_t persistent_blocks = 0;
  /// Blocks of a thread-block cluster. They share the columns of each row: each has as many, and
  /// their reductions go by distributed shared memory; threads_per_row are those of one block. For
  /// column they share the rows of a run of columns, and the first one combines what all have.
  int64_t cluster_blocks = 1;
  /// Rows in the ring of a warp-specialised block, a multiple of rows_per_block times
  /// rows_per_iteration; 0: no ring.
  int64_t stages = 0;
  /// Rows that a group of a ring works on side by side: 1, 2 or 4. They wait for one exchange of
  /// statistics in each stage, not for one each. Costs the registers of what is kept of every row,
  /// and slots that hold all rows until they are done.
  int64_t rows_per_iteration = 1;
  /// What the compute warps of a ring raise their registers to, each thread's; 0: the launch gives
  /// them enough.
  int64_t compute_registers = 0;
  /// Rows that the threads of a persistent block have on their way into registers while they work
  /// on the one before: 0 or 1. Costs the registers of a second row, of inputs kept in registers;
  /// of a second chunk where rows come in turns.
  int64_t rows_ahead = 0;
  /// Where outer reductions accumulate their columns while a block walks rows: in registers, or in
  /// shared memory, where every thread reads and writes its own in each row. Totals are a register
  /// each wherever columns are.
  Residency accumulators = Residency::kRegister;
  /// Rows that a looped block which accumulates columns takes in one turn: it reduces each of them,
  /// then goes through all of them once more, a chunk of columns at a time. What it accumulated of
  /// a chunk waits in its partial results for the next turn. 0: nothing is accumulated over rows.
  int64_t rows_per_turn = 0;
  RowAccess row_access = RowAccess::kAligned;
  ReadPriority read_priority = ReadPriority::kNormal;
  Overlap overlap = Overlap::kNone;
  Finish finish = Finish::kKernel;  ///< Only where persistent blocks leave partial results.
  std::vector<PersistentValue> persistent{};  ///< Ascending by value.
  std::map<std::string, int64_t, std::less<>>
      parameters{};  ///< Further parameters of families from outside.

  [[nodiscard]] int64_t threads_per_block() const { return threads_per_row * rows_per_block; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

uint64_t hash_of(const Schedule& schedule);

/// What only some schedules have, for people: ", cluster_blocks 2, rows_ahead 1".
std::string further_numbers(const Schedule& schedule);

/// A field that has another value, as text.
struct FieldChange {
  std::string field{};
  std::string before{};
  std::string after{};
  friend bool operator==(const FieldChange&, const FieldChange&) = default;
};

/// The fields in which two schedules differ, in the order of the .sched text: what that names.
/// Values that only one keeps, and parameters that only one has, are "none" in the other.
std::vector<FieldChange> changes_between(const Schedule& before, const Schedule& after);

/// .sched text: one schedule on a few lines. parse_schedule(print(s)) == s.
///
///     schedule multi_wave {
///       threads_per_row 256  rows_per_block 1  vector_width 8  unroll 2  min_blocks_per_sm 4
///       cluster_blocks 2 rows_ahead 1 row_access aligned  read_priority evict_last  overlap next
///       accumulators shared  finish kernel
///       persist %v0 in register parameter name 7
///     }
std::string print(const Schedule& schedule);
/// Errors: InvalidArgument with line:column and the offending token.
Result<Schedule> parse_schedule(std::string_view text);

}  // namespace sinter
