#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fusion_ir/op.h"

namespace sinter {

struct ReductionTraits;

/// A reduction without its axes, whichever op states it: a row of all_reductions(), or one that an
/// embedder has written. A row outlives every graph, plan and kernel that names it.
class Reduction {
 public:
  constexpr explicit Reduction(const ReductionTraits& row) : row_(&row) {}
  [[nodiscard]] constexpr const ReductionTraits& traits() const { return *row_; }
  friend constexpr bool operator==(const Reduction&, const Reduction&) = default;

  static const Reduction kSum;
  static const Reduction kProd;
  static const Reduction kMax;
  static const Reduction kMin;
  static const Reduction kAny;
  static const Reduction kAll;
  static const Reduction kArgMax;
  static const Reduction kArgMin;
  static const Reduction kWelford;
  static const Reduction kLogSumExp;

 private:
  const ReductionTraits* row_;
};

/// What a reduction's tuple is made of: how one element becomes a tuple, how two tuples become one,
/// and what the results are. A switch over it has no default, so that the compiler names every
/// place where a new kind has to be written down.
enum class TupleKind : uint8_t {
  /// (f(x), g(x), ...), each combined by a pointwise function of its own. The row says which, and
  /// nothing else has to. The results are the components.
  kIndependent,
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
  /// Of kIndependent: the function by which an element becomes the component, all of whose operands
  /// are the element (mul squares it). Nothing: the element itself.
  std::optional<PointwiseFn> element{};
  std::optional<PointwiseFn> combine{};  ///< Of kIndependent.
};

/// Registers of a tuple that lowering and estimates have room for.
constexpr size_t kMostComponents = 3;

/// Types of elements: f64, f32, i64 and i32; bool; or f64 and f32.
enum class ReducedTypes : uint8_t { kNumeric, kLogic, kReal };

/// What n equal slices give, if that follows from what one gives.
enum class Repetition : uint8_t {
  kUnknown,
  kSame,        ///< The same.
  kTimesFloat,  ///< n times as much, of floats.
};

/// Everything that layers ask about a reduction. The arithmetic of kIndependent is in its
/// components; that of other tuples each layer states in its own terms: the evaluators, the
/// lowering and the planner's splits by TupleKind.
struct ReductionTraits {
  std::string_view text;  ///< In .fir and .kir.
  TupleKind tuple = TupleKind::kIndependent;
  std::span<const ReductionComponent> components;
  ReducedTypes types = ReducedTypes::kNumeric;
  size_t results = 1;
  /// Threads that hold their elements go through them twice: for the reduction below, and then for
  /// what deviates from it or where it is.
  bool takes_two_passes = false;
  std::optional<Reduction> first_pass{};  ///< None: the reduction itself.
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

  [[nodiscard]] Reduction reduction() const { return Reduction(*this); }
  [[nodiscard]] bool is_search() const { return tuple == TupleKind::kPlace; }
};

extern const std::array<ReductionTraits, 10> kReductionRows;

inline constexpr Reduction Reduction::kSum(kReductionRows[0]);
inline constexpr Reduction Reduction::kProd(kReductionRows[1]);
inline constexpr Reduction Reduction::kMax(kReductionRows[2]);
inline constexpr Reduction Reduction::kMin(kReductionRows[3]);
inline constexpr Reduction Reduction::kAny(kReductionRows[4]);
inline constexpr Reduction Reduction::kAll(kReductionRows[5]);
inline constexpr Reduction Reduction::kArgMax(kReductionRows[6]);
inline constexpr Reduction Reduction::kArgMin(kReductionRows[7]);
inline constexpr Reduction Reduction::kWelford(kReductionRows[8]);
inline constexpr Reduction Reduction::kLogSumExp(kReductionRows[9]);

constexpr const ReductionTraits& traits_of(Reduction reduction) { return reduction.traits(); }
/// Those of Sinter itself.
std::span<const ReductionTraits> all_reductions();

Reduction reduction_of(ReduceFn fn);
/// The reduction of an op; none for other ops.
std::optional<Reduction> reduction_of(const OpKind& kind);
/// Traits of an op that is a reduction.
const ReductionTraits& traits_of(const OpKind& kind);

/// The reduction of single values that combines them by `combine`; none unless it is one of add,
/// mul, max, min, or, and.
std::optional<ReduceFn> reduction_by(PointwiseFn combine);
/// The same of a component of kIndependent, which has one.
ReduceFn reduction_by(const ReductionComponent& component);

/// What keeps a row that an embedder has written from being the reduction of a TupleReduceOp;
/// nothing if all is well. Types of elements are left to the op's typing.
std::optional<std::string> fault_of(const ReductionTraits& row);

inline std::string_view text_of(Reduction reduction) { return reduction.traits().text; }

}  // namespace sinter
