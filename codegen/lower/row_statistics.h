#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// How the threads of a row meet to exchange their tuples; the fields are those of kir::AllReduce.
/// As it stands, all threads of a block meet at its barrier.
struct RowExchange {
  kir::ExprId phase{};
  kir::ExprId barrier{};
  kir::ExprId group{};
  int64_t groups = 1;
  kir::ExprId parity{};  ///< In a cluster: of the mbarriers' phase, which are made here.
};

/// A reduction of nothing yet over the threads of a row, of which a block has `threads`.
kir::AllReduce all_reduce(kir::KernelBuilder& builder, int64_t threads, const std::string& name,
                          const RowExchange& exchange);

/// The inner reductions of one stage on their way along a row, in each thread a running tuple for
/// every reduction.
///
/// Most take an element as it comes. Welford and logsumexp take a chunk in two sweeps: the first
/// finds its mean or its maximum, and the second adds up what deviates from that. Divisions,
/// exponentials of rescaled sums and the merge of two tuples are then paid once a chunk, not once
/// an element. argmax and argmin find a chunk's extreme in the first sweep, and search for its
/// place in the second, which a chunk without a new extreme skips.
///
///     begin_chunk  { add ... end_vector }  between_passes  { add_again ... }  search  end_chunk
///
/// Where a row is one chunk, its threads may meet between the sweeps: the second then deviates from
/// the row's own maximum or from a pivot that its threads share, or searches for the row's extreme,
/// and nothing is merged.
///
/// Welford's sums are of differences from a pivot, an element or a mean of some, never of elements:
/// those of equal elements are exactly 0, and those of large ones do not overflow. The pivot of a
/// chunk is its first element. The threads of a row that meet share the mean of one element of each
/// (pivot_threads): it is near the row's own mean even where one of them is far from the others.
/// Where so few threads have an element that it would not be, they merge instead.
/// They add up the differences as well as their squares, and move m2 from the pivot to the mean
/// (the corrected two-pass algorithm of Chan, Golub, LeVeque 1983). Differences and their sums are
/// scaled by powers of two, so that none overflows between finite elements.
///
///     sync_between_passes  begin_chunk  { ... }  meet  between_passes  { ... }  search  end_chunk
///
/// The calls may be made for all reductions of a stage: they pass over those that need nothing.
class RowStatistics {
 public:
  /// Declares the running tuples, of no elements yet.
  RowStatistics(const SegmentFacts& facts, kir::KernelBuilder& builder, TileLowering& tiles,
                const std::vector<OpId>& reductions);

  [[nodiscard]] bool empty() const { return accumulators_.empty(); }
  [[nodiscard]] bool take_two_passes() const { return !second_operands().empty(); }
  /// What the second sweep looks at again.
  [[nodiscard]] std::vector<ValueId> second_operands() const;

  /// Says that meet() is called between the sweeps by the threads of a row, of which this is number
  /// `thread` (i32), and the first `pivot_threads` have elements for the pivot.
  void sync_between_passes(kir::ExprId thread, int64_t pivot_threads);
  void begin_chunk();
  /// Takes the element at hand of the tiles, in `lane` of a vector.
  void add(kir::ExprId lane);
  /// All lanes of a vector were added.
  void end_vector(const TilePosition& at);
  /// `is_in_order` says that the elements of the chunk come behind those of all chunks before.
  void between_passes(bool is_in_order = true);
  /// True if some reduction takes the elements of the second sweep with add_again().
  [[nodiscard]] bool deviate() const;
  /// Takes the element at hand in the second sweep.
  void add_again();
  /// Takes the element at hand, in a lane of a vector, in a search.
  using SearchElement = std::function<void(const TilePosition& at, kir::ExprId lane)>;
  /// Searches for the places of extremes. `for_elements` goes through the elements of the chunk.
  void search(const std::function<void(const SearchElement&)>& for_elements);
  /// Merges the chunk into the running tuples; `only` says that there was one chunk, whose tuple is
  /// then the result.
  void end_chunk(bool only);

  /// Combines what the first sweep found of the `threads` threads of a row, as combine() does.
  static void meet(std::vector<RowStatistics>& rows, int64_t threads, const std::string& name,
                   const RowExchange& exchange);
  /// Combines the tuples of the `threads` threads of a row. Those of several rows, with the same
  /// reductions, travel in one exchange.
  static void combine(const std::vector<RowStatistics>& rows, int64_t threads,
                      const std::string& name, const RowExchange& exchange);
  /// Gives the row values of the reductions to the tiles, which must stand in the row.
  void define_results();

 private:
  /// One reduction: its running tuple, and registers of the chunk at hand if it takes two sweeps.
  struct Accumulator {
    OpId op;
    kir::Combiner combiner = kir::Combiner::kSum;
    DType type = DType::kF32;
    std::vector<kir::VarId> running;
    // Welford: the pivot, then count, mean and m2 of the chunk. Sums are of what deviates from the
    // pivot.
    kir::VarId pivot, chunk_sum, chunk_count, chunk_mean, chunk_m2;
    // Logsumexp: the maximum before the chunk, and the one that exponents subtract.
    kir::VarId old_max, safe_max;
    // argmax and argmin: the extreme before the chunk, or before the threads met; whether there is
    // a place to find in the chunk, and the place.
    kir::VarId old_extreme, is_here, found;
  };

  Accumulator start(OpId id);
  static bool is_search(const Accumulator& accumulator);
  static bool deviates(const Accumulator& accumulator);
  void begin_search(Accumulator& accumulator, bool is_in_order);
  /// The place of an extreme that was not found.
  kir::ExprId nowhere(const Accumulator& accumulator);
  kir::ExprId operand(const Accumulator& accumulator);
  void increase(kir::VarId var, kir::ExprId by);
  /// The difference of the element at hand from a mean or pivot.
  kir::ExprId deviation(const Accumulator& accumulator, kir::VarId from);
  /// Half of it, which is finite where the difference is not, and 0 of equal ones.
  kir::ExprId half_deviation(const Accumulator& accumulator, kir::VarId from);
  /// The mean, from half of its difference from the pivot, which is finite where that is not.
  kir::ExprId beyond_pivot(const Accumulator& accumulator, kir::ExprId half);
  /// A power of two: the sum of halves of a row's differences, each times it, is finite.
  [[nodiscard]] double scale_of_halves() const;
  /// Adds half of a difference times that.
  void add_half(kir::VarId sum, kir::ExprId half);
  void add_to_welford(const Accumulator& accumulator, kir::ExprId lane);
  /// The thread's part of the pivot that the threads of the row share.
  void share_pivot(const Accumulator& accumulator);
  void move_to_mean(const Accumulator& accumulator);
  void define_results(const Accumulator& accumulator);

  const SegmentFacts& facts_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  std::vector<Accumulator> accumulators_;
  bool syncs_ = false;  ///< The threads of the row, between the sweeps.
  kir::ExprId thread_;  ///< Where they meet: its number in the row.
  int64_t pivot_threads_ = 1;
};

}  // namespace sinter
