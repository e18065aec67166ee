#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/id.h"
#include "fusion_ir/result.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/schedule/family_parameters.h"

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
/// plan sets it: kernels behind others wait, and kernels trigger whose partial results a second
/// kernel combines, or before one that loads before it waits. It costs nothing where the neighbour
/// does not take part.
enum class DependentLaunch : uint8_t {
  kNone,
  kTrigger,  ///< Lets the next kernel start as soon as all blocks of this one have started.
  kWait,     ///< Starts early, and waits for the end of the previous kernel before it reads.
  /// The same, but the first loads of a contraction's columns, which the plan does not write, start
  /// before it waits. Only of schedules with slice_warps.
  kPreload,
  kRelay,  ///< As kWait; then it lets the next kernel start, which loads before it waits.
};

std::string_view text_of(DependentLaunch launch);

/// True for kernels that start early, and wait for the end of the previous one.
constexpr bool waits(DependentLaunch launch) {
  return launch == DependentLaunch::kWait || launch == DependentLaunch::kPreload ||
         launch == DependentLaunch::kRelay;
}

/// How the partial results of column reductions, a row for every block or cluster, are combined.
enum class Finish : uint8_t {
  kKernel,     ///< By a second kernel with blocks for all columns. Costs its launch.
  kLastBlock,  ///< By the block that increments an atomic counter last. Costs a fence, an atomic,
               ///< and one block's pass over all partial results.
};

std::string_view text_of(Finish finish);

/// How one segment becomes one kernel: what schedules of all families have, and the parameters of
/// its family. A value: printable, parseable, comparable, hashable. Not every combination is legal;
/// verify_schedule says which and why.
struct Schedule {
  std::string family{};
  /// The alternative that belongs to the family, as parameters_of_family() gives it. Any other is
  /// illegal, whatever its values. Code of one family reads and writes its struct; code for all
  /// families reads through the functions below.
  FamilyParameters parameters{};
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
  RowAccess row_access = RowAccess::kAligned;
  ReadPriority read_priority = ReadPriority::kNormal;
  DependentLaunch dependent_launch = DependentLaunch::kNone;
  /// Only where persistent blocks write partial results, and the family sets
  /// Family::can_finish_by_last_block.
  Finish finish = Finish::kKernel;
  std::vector<KeptValue> kept{};  ///< Ascending by value.

  // Parameters of the family, or the value that means "not used" where the family lacks them.

  [[nodiscard]] int64_t cluster_size() const {
    return field_or(parameters, int64_t{1},
                    [](const auto& own) -> decltype(own.cluster_size) { return own.cluster_size; });
  }
  [[nodiscard]] int64_t pipeline_stages() const {
    return field_or(parameters, int64_t{0}, [](const auto& own) -> decltype(own.pipeline_stages) {
      return own.pipeline_stages;
    });
  }
  [[nodiscard]] int64_t rows_per_iteration() const {
    return field_or(
        parameters, int64_t{1},
        [](const auto& own) -> decltype(own.rows_per_iteration) { return own.rows_per_iteration; });
  }
  [[nodiscard]] int64_t consumer_registers() const {
    return field_or(
        parameters, int64_t{0},
        [](const auto& own) -> decltype(own.consumer_registers) { return own.consumer_registers; });
  }
  [[nodiscard]] int64_t epilogue_warps() const {
    return field_or(parameters, int64_t{0}, [](const auto& own) -> decltype(own.epilogue_warps) {
      return own.epilogue_warps;
    });
  }
  [[nodiscard]] int64_t slice_warps() const {
    return field_or(parameters, int64_t{0},
                    [](const auto& own) -> decltype(own.slice_warps) { return own.slice_warps; });
  }
  [[nodiscard]] int64_t prefetch_rows() const {
    return field_or(parameters, int64_t{0}, [](const auto& own) -> decltype(own.prefetch_rows) {
      return own.prefetch_rows;
    });
  }
  [[nodiscard]] int64_t rows_per_tile() const {
    return field_or(parameters, int64_t{0}, [](const auto& own) -> decltype(own.rows_per_tile) {
      return own.rows_per_tile;
    });
  }
  [[nodiscard]] int64_t tile_rows() const {
    return field_or(parameters, int64_t{0},
                    [](const auto& own) -> decltype(own.tile_rows) { return own.tile_rows; });
  }
  [[nodiscard]] int64_t tile_columns() const {
    return field_or(parameters, int64_t{0},
                    [](const auto& own) -> decltype(own.tile_columns) { return own.tile_columns; });
  }
  [[nodiscard]] int64_t tile_depth() const {
    return field_or(parameters, int64_t{0},
                    [](const auto& own) -> decltype(own.tile_depth) { return own.tile_depth; });
  }
  [[nodiscard]] int64_t row_warps() const {
    return field_or(parameters, int64_t{1},
                    [](const auto& own) -> decltype(own.row_warps) { return own.row_warps; });
  }
  [[nodiscard]] Residency accumulators() const {
    return field_or(parameters, Residency::kRegister,
                    [](const auto& own) -> decltype(own.accumulators) { return own.accumulators; });
  }
  [[nodiscard]] ExchangeKind exchange() const {
    return field_or(parameters, ExchangeKind::kCluster,
                    [](const auto& own) -> decltype(own.exchange) { return own.exchange; });
  }
  /// Blocks of a cluster of the launch: 1 where the blocks that share rows send messages.
  [[nodiscard]] int64_t launched_cluster() const {
    return exchange() == ExchangeKind::kMessages ? 1 : cluster_size();
  }
  /// Empty for built-in families.
  [[nodiscard]] const std::map<std::string, int64_t, std::less<>>& external_values() const;

  [[nodiscard]] int64_t threads_per_block() const { return threads_per_row * rows_per_block; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// True if the parameters are the alternative that belongs to the family.
bool has_parameters_of_family(const Schedule& schedule);

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
///       keep %v0 in register
///     }
///
/// Families from outside have `parameter name 7` instead of the fields of FamilyParameters.
std::string print(const Schedule& schedule);

/// Errors: InvalidArgument with line:column and the offending token. A field that the family lacks
/// is refused, whatever its value, with the families that have it as the remedy.
Result<Schedule> parse_schedule(std::string_view text);

}  // namespace sinter
