#include "fusion_ir/reduction_traits.h"

#include <algorithm>

#include "fusion_ir/error.h"
#include "fusion_ir/result.h"

namespace sinter {
namespace {

constexpr std::array kZero = {ReductionComponent{.name = "sum", .identity = Identity::kZero}};
constexpr std::array kOne = {ReductionComponent{.name = "product", .identity = Identity::kOne}};
constexpr std::array kLowest = {ReductionComponent{.name = "max", .identity = Identity::kLowest}};
constexpr std::array kHighest = {ReductionComponent{.name = "min", .identity = Identity::kHighest}};
// The index of no element is the highest of its type.
constexpr std::array kPlaceOfMax = {
    ReductionComponent{.name = "extreme", .identity = Identity::kLowest},
    ReductionComponent{.name = "index", .identity = Identity::kHighest, .is_index = true}};
constexpr std::array kPlaceOfMin = {
    ReductionComponent{.name = "extreme", .identity = Identity::kHighest},
    ReductionComponent{.name = "index", .identity = Identity::kHighest, .is_index = true}};
constexpr std::array kMoments = {ReductionComponent{.name = "count", .identity = Identity::kZero},
                                 ReductionComponent{.name = "mean", .identity = Identity::kZero},
                                 ReductionComponent{.name = "m2", .identity = Identity::kZero}};
constexpr std::array kScaledSum = {ReductionComponent{.name = "max", .identity = Identity::kLowest},
                                   ReductionComponent{.name = "sum", .identity = Identity::kZero}};

constexpr std::array kTraits = {
    ReductionTraits{.reduction = Reduction::kSum,
                    .text = "sum",
                    .components = kZero,
                    .combine = PointwiseFn::kAdd,
                    .first_pass = Reduction::kSum,
                    .repetition = Repetition::kTimesFloat},
    ReductionTraits{.reduction = Reduction::kProd,
                    .text = "prod",
                    .components = kOne,
                    .combine = PointwiseFn::kMul,
                    .first_pass = Reduction::kProd},
    ReductionTraits{.reduction = Reduction::kMax,
                    .text = "max",
                    .components = kLowest,
                    .combine = PointwiseFn::kMax,
                    .first_pass = Reduction::kMax,
                    .repetition = Repetition::kSame},
    ReductionTraits{.reduction = Reduction::kMin,
                    .text = "min",
                    .components = kHighest,
                    .combine = PointwiseFn::kMin,
                    .first_pass = Reduction::kMin,
                    .repetition = Repetition::kSame},
    ReductionTraits{.reduction = Reduction::kAny,
                    .text = "any",
                    .components = kZero,
                    .combine = PointwiseFn::kOr,
                    .types = ReducedTypes::kLogic,
                    .first_pass = Reduction::kAny},
    ReductionTraits{.reduction = Reduction::kAll,
                    .text = "all",
                    .components = kOne,
                    .combine = PointwiseFn::kAnd,
                    .types = ReducedTypes::kLogic,
                    .first_pass = Reduction::kAll},
    // An element takes the maximum; a comparison, a choice, the minimum of places, and the test of
    // the chunk.
    ReductionTraits{.reduction = Reduction::kArgMax,
                    .text = "argmax",
                    .tuple = TupleKind::kPlace,
                    .components = kPlaceOfMax,
                    .combine = {},
                    .takes_two_passes = true,
                    .first_pass = Reduction::kMax,
                    .accumulate_instructions = 5.0,
                    .exchange_instructions = 14.0,
                    .exchange_latency = 2.0},
    ReductionTraits{.reduction = Reduction::kArgMin,
                    .text = "argmin",
                    .tuple = TupleKind::kPlace,
                    .components = kPlaceOfMin,
                    .combine = {},
                    .takes_two_passes = true,
                    .first_pass = Reduction::kMin,
                    .accumulate_instructions = 5.0,
                    .exchange_instructions = 14.0,
                    .exchange_latency = 2.0},
    // An element takes a subtraction, an addition and a multiply-add. Synchronised: a pivot, then
    // two sums.
    ReductionTraits{.reduction = Reduction::kWelford,
                    .text = "welford",
                    .tuple = TupleKind::kMoments,
                    .components = kMoments,
                    .combine = {},
                    .types = ReducedTypes::kReal,
                    .results = 2,
                    .takes_two_passes = true,
                    .first_pass = Reduction::kWelford,
                    .commutes = false,
                    .accumulate_instructions = 3.0,
                    .exchange_instructions = 32.0,
                    .exchange_latency = 3.0,
                    .synchronised_instructions = 6.0},
    // An element takes the maximum; a multiply-add, ex2, an addition.
    ReductionTraits{.reduction = Reduction::kLogSumExp,
                    .text = "logsumexp",
                    .tuple = TupleKind::kScaledSum,
                    .components = kScaledSum,
                    .combine = {},
                    .types = ReducedTypes::kReal,
                    .results = 2,
                    .takes_two_passes = true,
                    .first_pass = Reduction::kMax,
                    .accumulate_instructions = 4.0,
                    .accumulate_special_functions = 1.0,
                    .exchange_instructions = 14.0,
                    .exchange_latency = 2.4},
};

constexpr bool lies_in_order() {
  for (size_t i = 0; i < kTraits.size(); ++i) {
    if (kTraits[i].reduction != static_cast<Reduction>(i)) return false;
  }
  return true;
}
static_assert(lies_in_order());

}  // namespace

const ReductionTraits& traits_of(Reduction reduction) {
  return kTraits[static_cast<size_t>(reduction)];
}

std::span<const ReductionTraits> all_reductions() { return kTraits; }

Reduction reduction_of(ReduceFn fn) {
  switch (fn) {
    case ReduceFn::kSum:
      return Reduction::kSum;
    case ReduceFn::kProd:
      return Reduction::kProd;
    case ReduceFn::kMax:
      return Reduction::kMax;
    case ReduceFn::kMin:
      return Reduction::kMin;
    case ReduceFn::kAny:
      return Reduction::kAny;
    case ReduceFn::kAll:
      return Reduction::kAll;
    case ReduceFn::kArgMax:
      return Reduction::kArgMax;
    case ReduceFn::kArgMin:
      return Reduction::kArgMin;
  }
  unreachable();
}

std::optional<Reduction> reduction_of(const OpKind& kind) {
  if (const auto* reduce = std::get_if<ReduceOp>(&kind)) return reduction_of(reduce->fn);
  if (std::holds_alternative<WelfordOp>(kind)) return Reduction::kWelford;
  if (std::holds_alternative<LogSumExpOp>(kind)) return Reduction::kLogSumExp;
  return std::nullopt;
}

const ReductionTraits& traits_of(const OpKind& kind) {
  const std::optional<Reduction> reduction = reduction_of(kind);
  SINTER_CHECK(reduction.has_value(), "traits of an op that is no reduction");
  return traits_of(*reduction);
}

std::string_view text_of(Reduction reduction) { return traits_of(reduction).text; }

}  // namespace sinter
