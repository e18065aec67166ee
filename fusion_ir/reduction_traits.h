#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "fusion_ir/op.h"

namespace sinter {

/// A reduction without its axes, whichever op states it.
enum class Reduction : uint8_t {
  kSum,
  kProd,
  kMax,
  kMin,
  kAny,
  kAll,
  kArgMax,
  kArgMin,
  kWelford,
  kLogSumExp,
};

/// What a reduction's tuple is made of: how one element becomes a tuple, how two tuples become one,
/// and what the results are. A switch over it has no default, so that the compiler names every
/// place where a new kind has to be written down.
enum class TupleKind : uint8_t {
  kScalar,     ///< (x), combined by a pointwise function. The result is x.
  kPlace,      ///< (extreme, index). The result is the index; of equals the lowest, NaN is extreme.
  kMoments,    ///< (count, mean, m2), after Chan, Golub, LeVeque 1983. Results mean and m2.
  kScaledSum,  ///< (max, sum of exp(x - max)). Both are results.
};

/// What a value of a tuple is before any element has come.
enum class Identity : uint8_t { kZero, kOne, kLowest, kHighest };

struct ReductionComponent {
  std::string_view name;
  Identity identity = Identity::kZero;
  bool is_index = false;  ///< An integer; else it has the type that elements are computed in.
};

/// Types of elements: f64, f32, i64 and i32; bool; or f64 and f32.
enum class ReducedTypes : uint8_t { kNumeric, kLogic, kReal };

/// What n equal slices give, if that follows from what one gives.
enum class Repetition : uint8_t {
  kUnknown,
  kSame,        ///< The same.
  kTimesFloat,  ///< n times as much, of floats.
};

/// Everything that layers ask about a reduction but its arithmetic, which each states in its own
/// terms: the evaluators, the lowering and the planner's splits by TupleKind.
struct ReductionTraits {
  Reduction reduction = Reduction::kSum;
  std::string_view text;  ///< In .fir and .kir.
  TupleKind tuple = TupleKind::kScalar;
  std::span<const ReductionComponent> components;
  std::optional<PointwiseFn> combine;  ///< Of kScalar.
  ReducedTypes types = ReducedTypes::kNumeric;
  size_t results = 1;
  /// Threads that hold their elements go through them twice: for the reduction below, and then for
  /// what deviates from it or where it is.
  bool takes_two_passes = false;
  Reduction first_pass = Reduction::kSum;  ///< Itself where there is one pass.
  /// Exchanging two tuples that are combined gives the same bits.
  bool commutes = true;
  Repetition repetition = Repetition::kUnknown;

  // Costs, counted in SASS (sm_90a).
  double accumulate_instructions = 1.0;       ///< Of adding an element to a thread's tuple.
  double accumulate_special_functions = 0.0;  ///< Of these.
  /// Of one step in which a thread combines its tuple with another lane's: a shuffle for each
  /// component, and the combination.
  double exchange_instructions = 2.0;
  double exchange_latency = 1.0;  ///< Of this step, as a multiple of a sum's.
  /// Of both exchanges together where threads synchronise between the passes.
  double synchronised_instructions = 4.0;

  [[nodiscard]] bool is_search() const { return tuple == TupleKind::kPlace; }
};

const ReductionTraits& traits_of(Reduction reduction);
/// All, in the order of the enumeration.
std::span<const ReductionTraits> all_reductions();

Reduction reduction_of(ReduceFn fn);
/// The reduction of an op; none for other ops.
std::optional<Reduction> reduction_of(const OpKind& kind);
/// Traits of an op that is a reduction.
const ReductionTraits& traits_of(const OpKind& kind);

std::string_view text_of(Reduction reduction);

}  // namespace sinter
