#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// How the threads of a row synchronise to exchange their tuples; the fields are those of
/// kir::AllReduce. By default all threads of a block use its barrier.
struct RowExchange {
  kir::ExprId phase{};
  kir::ExprId barrier{};
  kir::ExprId group{};
  int64_t groups = 1;
  kir::ExprId parity{};  ///< In a cluster: parity of the mbarriers' phase. all_reduce() declares
                         ///< these mbarriers.
  /// In a team: the messages' memory and the number of this exchange.
  kir::BufferId mail{};
  kir::ExprId number{};
  /// Of the row's first exchange by messages; later ones are whole.
  kir::ReduceHalf half = kir::ReduceHalf::kWhole;
  int64_t first_place = 0;  ///< In kReceive: of the messages that the other half has sent.

  /// True for an exchange between blocks.
  [[nodiscard]] bool is_shared() const { return parity.valid() || number.valid(); }
};

/// A reduction without parts over the threads of a row, of which a block has `threads`.
kir::AllReduce all_reduce(kir::KernelBuilder& builder, int64_t threads, const std::string& name,
                          const RowExchange& exchange);

/// The row reductions (inner reductions) of one stage. Each thread has a running tuple for every
/// reduction while it walks along a row.
///
/// Most reductions take each element once. Welford and logsumexp make two passes over a chunk: the
/// first finds the chunk's mean or maximum, the second sums the deviations from it. Divisions,
/// exponentials of rescaled sums and the merge of two tuples are then needed once per chunk, not
/// once per element. argmax and argmin find a chunk's extreme in the first pass and search for its
/// index in the second, which a chunk without a new extreme skips.
///
///     begin_chunk  { add ... end_vector }  between_passes  { add_again ... }  search  end_chunk
///
/// If a row is one chunk, its threads may synchronise between the passes. The second pass then
/// takes deviations from the maximum of the row or from a pivot that its threads share, or searches
/// for the extreme of the row, and nothing is merged.
///
/// Welford's sums are of differences from a pivot, which is one element or the mean of some, never
/// of the elements themselves. The differences of equal elements are exactly 0, and those of large
/// elements do not overflow. The pivot of a chunk is its first element. Threads of a row that
/// synchronise share as pivot the mean of one element of each thread (pivot_threads). It is near
/// the row's mean even if one of these elements is far from the others. If so few threads have an
/// element that it would not be near, the threads merge instead. They sum the differences as well
/// as their squares, and move m2 from the pivot to the mean (the corrected two-pass algorithm of
/// Chan, Golub, LeVeque 1983). Differences and their sums are scaled by powers of two, so that none
/// overflows between finite elements.
///
///     sync_between_passes  begin_chunk  { ... }  meet  between_passes  { ... }  search  end_chunk
///
/// The calls may be made for all reductions of a stage: they skip those that need nothing.
class RowStatistics {
 public:
  /// Declares the running tuples, of no elements yet.
  RowStatistics(const SegmentFacts& facts, kir::KernelBuilder& builder, TileLowering& tiles,
                const std::vector<OpId>& reductions);

  [[nodiscard]] bool empty() const { return accumulators_.empty(); }
  [[nodiscard]] bool take_two_passes() const { return !second_operands().empty(); }
  /// The values that the second pass reads again.
  [[nodiscard]] std::vector<ValueId> second_operands() const;

  /// Declares that the threads of a row call meet() between the passes. The calling thread has
  /// number `thread` (i32) in the row; the first `pivot_threads` threads have elements for the
  /// pivot.
  void sync_between_passes(kir::ExprId thread, int64_t pivot_threads);
  void begin_chunk();
  /// Takes the current element of the tiles, in `lane` of a vector.
  void add(kir::ExprId lane);
  /// Ends a vector, all lanes of which were added.
  void end_vector(const TilePosition& at);
  /// `is_in_order` says that the elements of the chunk come after those of all earlier chunks.
  void between_passes(bool is_in_order = true);
  /// True if some reduction takes the elements of the second pass with add_again().
  [[nodiscard]] bool deviate() const;
  /// Takes the current element in the second pass.
  void add_again();
  /// Takes the current element, in a lane of a vector, in a search.
  using SearchElement = std::function<void(const TilePosition& at, kir::ExprId lane)>;
  /// Searches for the indices of extremes. `for_elements` walks over the elements of the chunk.
  void search(const std::function<void(const SearchElement&)>& for_elements);
  /// Merges the chunk into the running tuples; `only` says that there was one chunk, whose tuple is
  /// then the result.
  void end_chunk(bool only);

  /// Combines the first-pass results of the `threads` threads of a row, as combine() does.
  static void exchange(std::vector<RowStatistics>& rows, int64_t threads, const std::string& name,
                       const RowExchange& exchange);
  /// Combines the tuples of the `threads` threads of a row, or does a half of that. Several rows
  /// with the same reductions share one exchange. Returns the first place of its messages.
  static int64_t combine(const std::vector<RowStatistics>& rows, int64_t threads,
                         const std::string& name, const RowExchange& exchange);
  /// Defines the row values of the reductions in the tiles, whose current row must be this one.
  void define_results();

 private:
  /// One reduction: its running tuple, and registers of the current chunk if it takes two passes.
  struct Accumulator {
    OpId op;
    kir::Combiner combiner = kir::Combiner::kSum;
    DType type = DType::kF32;
    std::vector<kir::VarId> running;
    // Welford: the pivot, then count, mean and m2 of the chunk. Sums are of deviations from the
    // pivot.
    kir::VarId pivot, chunk_sum, chunk_count, chunk_mean, chunk_m2;
    // Logsumexp: the maximum before the chunk, and the one that exponents subtract.
    kir::VarId old_max, safe_max;
    // argmax and argmin: the extreme before the chunk, or before the exchange between the threads;
    // whether there is an index to find in the chunk; and the index.
    kir::VarId old_extreme, is_here, found;
  };

  Accumulator start(OpId id);
  /// Elements of a row that each of its `threads` threads has, also in all blocks of a cluster; 0
  /// if some have more than others.
  [[nodiscard]] int64_t elements_of_thread(int64_t threads) const;
  static bool is_search(const Accumulator& accumulator);
  static bool deviates(const Accumulator& accumulator);
  void begin_search(Accumulator& accumulator, bool is_in_order);
  /// The index of an extreme that was not found.
  kir::ExprId nowhere(const Accumulator& accumulator);
  kir::ExprId operand(const Accumulator& accumulator);
  void increase(kir::VarId var, kir::ExprId by);
  /// The difference of the current element from a mean or pivot.
  kir::ExprId deviation(const Accumulator& accumulator, kir::VarId from);
  /// Half of that difference. It is finite even where the difference overflows, and 0 for equal
  /// values.
  kir::ExprId half_deviation(const Accumulator& accumulator, kir::VarId from);
  /// The mean, from half of its difference from the pivot. The half is finite even where the
  /// difference overflows.
  kir::ExprId beyond_pivot(const Accumulator& accumulator, kir::ExprId half);
  /// A power of two that scales the halves of a row's differences so that their sum is finite.
  [[nodiscard]] double scale_of_halves() const;
  /// Adds half of a difference, scaled by scale_of_halves().
  void add_half(kir::VarId sum, kir::ExprId half);
  void add_to_welford(const Accumulator& accumulator, kir::ExprId lane);
  /// Sets the thread's contribution to the pivot that the threads of the row share.
  void share_pivot(const Accumulator& accumulator);
  void move_to_mean(const Accumulator& accumulator);
  void define_results(const Accumulator& accumulator);

  const SegmentFacts& facts_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  std::vector<Accumulator> accumulators_;
  bool syncs_ = false;  ///< The threads of the row synchronise between the passes.
  kir::ExprId thread_;  ///< If they do: the thread's number in the row.
  int64_t pivot_threads_ = 1;
};

}  // namespace sinter
