#include "fusion_ir/reduction_traits.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "fusion_ir/error.h"
#include "fusion_ir/op_names.h"
#include "fusion_ir/result.h"

namespace sinter {
namespace {

/// A value that is combined with others by `combine`.
constexpr std::array<ReductionComponent, 1> single(std::string_view name, Identity identity,
                                                   PointwiseFn combine) {
  return {ReductionComponent{.name = name, .identity = identity, .combine = combine}};
}

constexpr std::array kSum = single("sum", Identity::kZero, PointwiseFn::kAdd);
constexpr std::array kProduct = single("product", Identity::kOne, PointwiseFn::kMul);
constexpr std::array kMaximum = single("max", Identity::kLowest, PointwiseFn::kMax);
constexpr std::array kMinimum = single("min", Identity::kHighest, PointwiseFn::kMin);
constexpr std::array kAnyOf = single("any", Identity::kZero, PointwiseFn::kOr);
constexpr std::array kAllOf = single("all", Identity::kOne, PointwiseFn::kAnd);
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

constexpr std::array kReduceFns = {
#define SINTER_REDUCE(enumerator, text) ReduceFn::enumerator,
#include "fusion_ir/op_list.def"
#undef SINTER_REDUCE
};

}  // namespace

// In the order of Reduction's constants.
constexpr std::array<ReductionTraits, 10> kReductionRows = {
    ReductionTraits{.text = "sum", .components = kSum, .repetition = Repetition::kTimesFloat},
    ReductionTraits{.text = "prod", .components = kProduct},
    ReductionTraits{.text = "max", .components = kMaximum, .repetition = Repetition::kSame},
    ReductionTraits{.text = "min", .components = kMinimum, .repetition = Repetition::kSame},
    ReductionTraits{.text = "any", .components = kAnyOf, .types = ReducedTypes::kLogic},
    ReductionTraits{.text = "all", .components = kAllOf, .types = ReducedTypes::kLogic},
    // An element takes the maximum; a comparison, a choice, the minimum of places, and the test of
    // the chunk.
    ReductionTraits{.text = "argmax",
                    .tuple = TupleKind::kPlace,
                    .components = kPlaceOfMax,
                    .takes_two_passes = true,
                    .first_pass = Reduction::kMax,
                    .accumulate_instructions = 5.0,
                    .exchange_instructions = 14.0,
                    .exchange_latency = 2.0},
    ReductionTraits{.text = "argmin",
                    .tuple = TupleKind::kPlace,
                    .components = kPlaceOfMin,
                    .takes_two_passes = true,
                    .first_pass = Reduction::kMin,
                    .accumulate_instructions = 5.0,
                    .exchange_instructions = 14.0,
                    .exchange_latency = 2.0},
    // An element takes a subtraction, an addition and a multiply-add. Synchronised: a pivot, then
    // two sums.
    ReductionTraits{.text = "welford",
                    .tuple = TupleKind::kMoments,
                    .components = kMoments,
                    .types = ReducedTypes::kReal,
                    .results = 2,
                    .takes_two_passes = true,
                    .commutes = false,
                    .accumulate_instructions = 3.0,
                    .exchange_instructions = 32.0,
                    .exchange_latency = 3.0,
                    .synchronised_instructions = 6.0},
    // An element takes the maximum; a multiply-add, ex2, an addition.
    ReductionTraits{.text = "logsumexp",
                    .tuple = TupleKind::kScaledSum,
                    .components = kScaledSum,
                    .types = ReducedTypes::kReal,
                    .results = 2,
                    .takes_two_passes = true,
                    .first_pass = Reduction::kMax,
                    .accumulate_instructions = 4.0,
                    .accumulate_special_functions = 1.0,
                    .exchange_instructions = 14.0,
                    .exchange_latency = 2.4},
};

static_assert(Reduction::kSum.traits().text == "sum");
static_assert(Reduction::kProd.traits().text == "prod");
static_assert(Reduction::kMax.traits().text == "max");
static_assert(Reduction::kMin.traits().text == "min");
static_assert(Reduction::kAny.traits().text == "any");
static_assert(Reduction::kAll.traits().text == "all");
static_assert(Reduction::kArgMax.traits().text == "argmax");
static_assert(Reduction::kArgMin.traits().text == "argmin");
static_assert(Reduction::kWelford.traits().text == "welford");
static_assert(Reduction::kLogSumExp.traits().text == "logsumexp");

std::span<const ReductionTraits> all_reductions() { return kReductionRows; }

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
  if (const auto* tuple = std::get_if<TupleReduceOp>(&kind)) return Reduction(*tuple->reduction);
  return std::nullopt;
}

const ReductionTraits& traits_of(const OpKind& kind) {
  const std::optional<Reduction> reduction = reduction_of(kind);
  SINTER_CHECK(reduction.has_value(), "traits of an op that is no reduction");
  return traits_of(*reduction);
}

std::optional<ReduceFn> reduction_by(PointwiseFn combine) {
  for (const ReduceFn fn : kReduceFns) {
    const ReductionTraits& row = traits_of(reduction_of(fn));
    if (row.tuple == TupleKind::kIndependent && row.components[0].combine == combine) return fn;
  }
  return std::nullopt;
}

ReduceFn reduction_by(const ReductionComponent& component) {
  return reduction_by(component.combine.value()).value();
}

std::optional<std::string> fault_of(const ReductionTraits& row) {
  const auto is_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (row.text.empty() || !std::ranges::all_of(row.text, is_name))
    return "its name is not one of small letters, digits and _";
  const std::vector<std::string_view> taken = op_names();
  if (std::ranges::find(taken, row.text) != taken.end() ||
      std::ranges::find(kReductionRows, row.text, &ReductionTraits::text) != kReductionRows.end())
    return "its name is taken";
  if (row.tuple != TupleKind::kIndependent || row.takes_two_passes || row.first_pass ||
      !row.commutes)
    return "its components are not independent of each other";
  if (row.components.empty() || row.components.size() > kMostComponents)
    return fmt::format("it has {} components, not 1 to {}", row.components.size(), kMostComponents);
  if (row.results != row.components.size())
    return fmt::format("it has {} results of {} components", row.results, row.components.size());
  for (const ReductionComponent& component : row.components) {
    const auto fn = component.combine ? reduction_by(*component.combine) : std::nullopt;
    if (!fn || component.is_index)
      return fmt::format("nothing combines its component {}", component.name);
    if (component.identity != traits_of(reduction_of(*fn)).components[0].identity)
      return fmt::format("the identity of its component {} changes what it is combined with",
                         component.name);
  }
  return std::nullopt;
}

}  // namespace sinter
